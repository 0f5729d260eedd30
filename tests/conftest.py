"""What tests all over the tree share: the reference data beside the checkout, and suites whose models are functions."""

import csv
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import hypothesis
import pytest
from gistbench.hf_datasets.errors import GistbenchWarning
from gistbench.runners.config import RunConfig
from gistbench.runners.engines import ENGINES, ModelConfig
from gistbench.runners.engines.lexical.judge import JUDGE
from gistbench.runners.profiles import PROFILES_VARIABLE, find_profile
from gistbench.runners.requests import ModelRef, Outcome, Request
from gistbench.runners.suite import Suite

SHARED = Path(__file__).resolve().parents[2] / "shared"
NO_SHARED = f"reference data not found: there is no folder {SHARED} (it is never committed)"

# A busy machine is no fault of the code under test.
hypothesis.settings.register_profile("gistbench", deadline=None)
hypothesis.settings.load_profile("gistbench")

Answer = Callable[[Request], str | Outcome]

TYPES = {
    "e+": "explicit_positive",
    "i+": "implicit_positive",
    "i-": "implicit_negative",
    "e-": "explicit_negative",
}


@pytest.fixture(autouse=True)
def no_profiles_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin without profiles of one's own; what a test names in the environment is taken back after it."""
    monkeypatch.setenv(PROFILES_VARIABLE, "")  # first set: deleting what is not there would take nothing back
    monkeypatch.delenv(PROFILES_VARIABLE)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder ``shared`` beside the checkout; tests skip where there is none."""
    if not SHARED.is_dir():
        pytest.skip(NO_SHARED)
    return SHARED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if NO_SHARED in str(report.longrepr)]
    if skipped:
        terminalreporter.write_line(f"{len(skipped)} tests skipped: {NO_SHARED}")


@pytest.fixture(scope="session")
def common_beginning() -> Callable[[str, str], str]:
    """Return what two texts have in common before they first differ."""

    def common(one: str, two: str) -> str:
        pairs = enumerate(zip(one, two, strict=False))
        return one[: next((i for i, (a, b) in pairs if a != b), min(len(one), len(two)))]

    return common


class ScriptedConfig(ModelConfig):
    """A model that is a function."""

    engine: Literal["scripted"] = "scripted"


class Script:
    """Makes scripted models; what they are asked is kept under their names."""

    def __init__(self) -> None:
        self.asked: dict[str, list[Request]] = {}
        self._answers: dict[str, tuple[Answer, int | None]] = {}

    def __call__(self, name: str, answer: Answer, *, context_tokens: int | None = None, revision: str = "1") -> str:
        """Make a model that answers by a function, a text or an outcome (whose key is filled in); name it."""
        self._answers[name] = answer, context_tokens
        self.asked.setdefault(name, [])
        return f"scripted:{name}@{revision}"

    def engine(self, config: ScriptedConfig) -> Any:
        return ScriptedEngine(self, config)

    def answer(self, name: str, request: Request) -> Outcome:
        self.asked[name].append(request)
        given = self._answers[name][0](request)
        if isinstance(given, Outcome):
            return replace(given, key=request.key)
        n_words = sum(len(message.content.split()) for message in request.messages)
        counts = {"n_prompt_tokens": n_words, "n_output_tokens": len(given.split()), "seconds": 0.25}
        return Outcome(request.key, "ok", given, finish_reason="stop", **counts)

    def context_tokens(self, name: str) -> int | None:
        return self._answers[name][1]


class ScriptedEngine:
    def __init__(self, script: Script, config: ScriptedConfig) -> None:
        self._script = script
        self.model = ModelRef(config.name, config.revision or "", str(find_profile(config.name, config.profile)))
        self.context_tokens = script.context_tokens(config.name)

    def generate(self, requests: Iterable[Request]) -> Iterator[Outcome]:
        for request in requests:
            yield self._script.answer(self.model.name, request)

    def describe(self) -> dict[str, Any]:
        return {"engine": "scripted"}

    def close(self) -> None:
        pass


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Script:
    """An engine whose models are functions: ``scripted(name, answer)`` returns the specification of one."""
    script = Script()
    module = ModuleType("scripted_models")
    vars(module).update(ScriptedConfig=ScriptedConfig, scripted_engine=script.engine)
    monkeypatch.setitem(sys.modules, "scripted_models", module)
    monkeypatch.setitem(ENGINES, "scripted", ("scripted_models", "ScriptedConfig", "scripted_engine"))
    return script


@pytest.fixture(scope="session")
def overlap_judge() -> Callable[..., Answer]:
    """Make a judge that answers some stages by functions given here, the others as ``lexical/overlap`` does."""

    def make(**stages: Answer) -> Answer:
        def answer(request: Request) -> str | Outcome:
            if request.stage in stages:
                return stages[request.stage](request)
            return JUDGE[request.stage](request.messages[-1].content)

        return answer

    return make


@pytest.fixture(scope="session")
def write_engagements() -> Callable[..., Path]:
    """Write ``user=[(object, text, short type), ...]`` to a CSV file, each user's newest row first."""

    def write(path: Path, **users: Sequence[tuple[str, str, str]]) -> Path:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["user_id", "object_id", "object_text", "interaction_type", "interaction_time"])
            for user, rows in users.items():
                for age, (object_id, text, kind) in enumerate(rows):
                    writer.writerow([user, object_id, text, TYPES[kind], 10_000 - age])
        return path

    return write


@pytest.fixture
def run_suite(tmp_path: Path) -> Callable[..., Suite]:
    """Run a whole suite and return it; warnings about few candidates are not what most tests look at."""

    def run(name: str = "suite", *, store: Path | None = None, retry_failed: bool = False, **settings: Any) -> Suite:
        defaults = {"judge": "lexical/overlap", "n_resamples": 20}
        suite = Suite(tmp_path / name, RunConfig(**defaults | settings), store=store, retry_failed=retry_failed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GistbenchWarning)
            suite.run()
        return suite

    return run
