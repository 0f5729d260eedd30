"""What the tests of judging share: a pooled work folder with metadata, and a simulated judge behind an engine."""

import json
import sys
from types import ModuleType
from typing import Literal

import pyarrow as pa
import pytest
from gistbench.runners.engines import ENGINES
from gistbench.runners.engines.base import ModelConfig
from gistbench.runners.parsing import Taste
from gistbench.runners.qrels.judged import sampled_users
from gistbench.runners.qrels.pool import pool
from gistbench.runners.qrels.recommend import recommend
from gistbench.runners.qrels.sample import sample
from gistbench.runners.qrels.simulate import SimulatedJudge, factorised_truth
from gistbench.runners.qrels.split import split
from gistbench.runners.qrels.work import Work
from gistbench.runners.requests import ModelRef, Outcome

TASTE = Taste(*(f"About {name}." for name in Taste._fields))


@pytest.fixture(scope="session")
def items_csv(tmp_path_factory):
    """Metadata of the items of `ratings_csv`; the last two have none."""
    path = tmp_path_factory.mktemp("items") / "items.csv"
    lines = [f"i{n:03d},Title {n},{1950 + n % 70},Drama|War,A story of {n}." for n in range(148)]
    path.write_text("\n".join(["item,title,year,genres,plot", *lines]) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def _pooled(ratings_csv, items_csv, quick, tmp_path_factory):
    work = Work(tmp_path_factory.mktemp("pooled") / "w")
    split(work, str(ratings_csv), items=items_csv)
    recommend(work, settings=quick, trec=False)
    sample(work, sizes=[20], n_repeats=1, take=20)
    pool(work, depth=10)
    return work


@pytest.fixture
def pooled(_pooled, tmp_path):
    """A folder with a pool, for one test alone."""
    import shutil

    return Work(shutil.copytree(_pooled.path, tmp_path / "pooled"))


@pytest.fixture(scope="session")
def truth(_pooled):
    """What each sampled user thinks of each item."""
    ratings = _pooled.read("ratings")
    users, items = sampled_users(_pooled), sorted(set(ratings["item"].to_pylist()))
    pairs = pa.table({"user": [u for u in users for _ in items], "item": items * len(users)})
    return factorised_truth(ratings, pairs)


@pytest.fixture
def simulate(monkeypatch, truth):
    """Put a simulated judge behind the engine `simulated`; return the list of what is asked from then on.

    ``answer(request)`` may give another text, or an outcome, for a request; None leaves the judge's own.
    """

    def start(judge=SimulatedJudge(error=0.5), *, answer=None, context=None):  # noqa: B008
        asked = []
        table = judge.grades(truth, seed=0).to_pylist()
        known = {(row["user"], row["item"]): row["grade"] for row in table}

        class SimulatedConfig(ModelConfig):
            engine: Literal["simulated"] = "simulated"

        class SimulatedEngine:
            context_tokens = context

            def __init__(self, config):
                self.model = ModelRef(config.name, "1", "default/1")

            def generate(self, requests):
                for request in requests:
                    asked.append(request)
                    told = answer(request) if answer else None
                    if isinstance(told, Outcome):
                        yield told
                        continue
                    if told is None and request.stage == "induce":
                        told = json.dumps(TASTE._replace(themes=f"What {request.about.user} likes.")._asdict())
                    elif told is None:
                        told = str(known[request.about.user, request.about.item])
                    yield Outcome(
                        key=request.key, status="ok", text=told, finish_reason="stop", n_prompt_tokens=10,
                        n_output_tokens=1,
                    )  # fmt: skip

            def describe(self):
                return {"engine": "simulated"}

            def close(self):
                pass

        module = ModuleType("simulated_engine")
        vars(module).update(SimulatedConfig=SimulatedConfig, SimulatedEngine=SimulatedEngine)
        monkeypatch.setitem(sys.modules, "simulated_engine", module)
        monkeypatch.setitem(ENGINES, "simulated", ("simulated_engine", "SimulatedConfig", "SimulatedEngine"))
        return asked

    return start
