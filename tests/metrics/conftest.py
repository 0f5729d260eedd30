"""What the tests of the `evaluate` modules share: the loaded modules, and the published reference's golden vectors."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import evaluate
import pytest

REPO_ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def repo_root() -> Path:
    return REPO_ROOT


@pytest.fixture(scope="session")
def golden(shared: Path) -> Callable[[str], Any]:
    """Read a file of ``shared/reference/gistbench``."""

    def read(name: str) -> Any:
        return json.loads((shared / "reference" / "gistbench" / name).read_text())

    return read


@pytest.fixture(scope="session")
def ig() -> Any:
    return evaluate.load(str(REPO_ROOT / "metrics" / "ig"))


@pytest.fixture(scope="session")
def specificity() -> Any:
    return evaluate.load(str(REPO_ROOT / "metrics" / "is"))


@pytest.fixture(scope="session")
def survey() -> Any:
    return evaluate.load(str(REPO_ROOT / "metrics" / "survey"))


@pytest.fixture(scope="session")
def make_history() -> Callable[..., dict[str, list[str]]]:
    """Make a history from ``user=[(object, short type), ...]``: e+, i+, i-, e-."""
    types = {
        "e+": "explicit_positive",
        "i+": "implicit_positive",
        "i-": "implicit_negative",
        "e-": "explicit_negative",
    }

    def make(**users: list[tuple[str, str]]) -> dict[str, list[str]]:
        rows = [(user, item, types[kind]) for user, engaged in users.items() for item, kind in engaged]
        return dict(zip(("user_id", "object_id", "interaction_type"), map(list, zip(*rows, strict=True)), strict=True))

    return make
