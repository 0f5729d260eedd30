"""What the tests of the runners share: requests, a small data set in a file, and engines that are functions."""

import csv
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from gistbench.runners.engines import ENGINES
from gistbench.runners.engines.lexical import LexicalConfig, LexicalEngine
from gistbench.runners.requests import Message, ModelRef, Outcome, Request

REPO_ROOT = Path(__file__).resolve().parents[2]
MODEL = ModelRef("lexical/hashtag", "1", "lexical/1")


@pytest.fixture(scope="session")
def repo_root() -> Path:
    return REPO_ROOT


@pytest.fixture(scope="session")
def make_request() -> Callable[..., Request]:
    """Make a request whose prompt is a text."""

    def make(text: str, *, stage: str = "ground", about: Any = None, model: ModelRef = MODEL) -> Request:
        return Request(stage, about or text, (Message("user", text),), model)

    return make


@pytest.fixture(scope="session")
def make_engine() -> Callable[..., Any]:
    """Make an engine that answers by a function, request -> outcomes, in the order that another function gives."""

    def make(
        answer: Callable[[Request], Iterable[Outcome]], arrange: Callable[[list[Outcome]], list[Outcome]] | None = None
    ) -> Any:
        asked: list[Request] = []

        def generate(requests: Iterable[Request]) -> Iterator[Outcome]:
            held: list[Outcome] = []
            for request in requests:
                asked.append(request)
                if arrange is None:
                    yield from answer(request)
                else:
                    held += answer(request)
            yield from arrange(held) if arrange else ()

        return SimpleNamespace(
            model=MODEL, context_tokens=None, generate=generate, asked=asked, close=lambda: None, describe=dict
        )

    return make


@pytest.fixture(scope="session")
def own_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of engagements of one's own: three users of the demo, newest 40 rows each."""
    path = tmp_path_factory.mktemp("own") / "engagements.csv"
    with (REPO_ROOT / "hf_datasets" / "data" / "demo.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        for user in ("u01", "u02", "u03"):
            writer.writerows([row for row in rows if row["user_id"] == user][-40:])
    return path


@pytest.fixture
def script_engine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Request]]:
    """Put a function in the place of the lexical engine's answers; return the list of what is asked from then on.

    The function takes the request and the rule's own answer, and gives the outcome.
    """

    def script(answer: Callable[[Request, Outcome], Outcome] | None = None) -> list[Request]:
        asked: list[Request] = []

        class Scripted(LexicalEngine):
            def generate(self, requests: Iterable[Request]) -> Iterator[Outcome]:
                for request in requests:
                    asked.append(request)
                    (ruled,) = super().generate([request])
                    yield answer(request, ruled) if answer else ruled

        module = ModuleType("scripted_engine")
        vars(module).update(LexicalConfig=LexicalConfig, LexicalEngine=Scripted)
        monkeypatch.setitem(sys.modules, "scripted_engine", module)
        monkeypatch.setitem(ENGINES, "lexical", ("scripted_engine", "LexicalConfig", "LexicalEngine"))
        return asked

    return script
