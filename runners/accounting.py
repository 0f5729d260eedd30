"""What a run cost and what it ran on: attempts, outcomes, tokens, seconds, versions."""

import platform
import subprocess
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa

from .requests import STATUSES
from .stages.base import Answered
from .store import ResponseStore

__all__ = ["ANSWERS", "account_for", "answers_table", "versions"]

PACKAGES = ("gistbench", "datasets", "evaluate", "numpy", "scipy", "pandas", "pyarrow", "scikit-learn")

ANSWERS = pa.schema(
    [
        ("request_key", pa.string()),
        ("stage", pa.string()),
        ("about", pa.string()),
        ("model", pa.string()),
        ("attempt", pa.int64()),
        ("status", pa.string()),
        ("text", pa.string()),
        ("reasoning", pa.string()),
        ("problem", pa.string()),
        ("finish_reason", pa.string()),
        ("n_prompt_tokens", pa.int64()),
        ("n_cached_tokens", pa.int64()),
        ("n_output_tokens", pa.int64()),
        ("n_reasoning_tokens", pa.int64()),
        ("seconds", pa.float64()),
        ("finished_at", pa.string()),
    ]
)


def answers_table(store: ResponseStore, keys: Iterable[tuple[str, str]]) -> pa.Table:
    """Return every attempt at some requests, sorted by stage, subject and attempt.

    Args:
        store: of the run.
        keys: (request key, stage) pairs, repeats allowed.
    """
    rows = [
        {**row, "request_key": key, "stage": stage} for key, stage in dict.fromkeys(keys) for row in store.rows(key)
    ]
    rows.sort(key=lambda row: (row["stage"], row["about"], row["request_key"], row["attempt"]))
    return pa.Table.from_pylist([{name: row[name] for name in ANSWERS.names} for row in rows], ANSWERS)


def account_for(answers: Iterable[Answered[Any, Any]], store: ResponseStore) -> dict[str, Any]:
    """Return a stage's outcomes, and its tokens and seconds over all attempts, whichever session made them."""
    answers = list(answers)
    outcomes = {answer.key: answer.outcome for answer in answers}
    counts = dict.fromkeys(STATUSES, 0)
    for outcome in outcomes.values():
        counts[outcome.status] += 1
    return {
        "n_subjects": sum(not answer.followed_up for answer in answers),
        "n_requests": len(outcomes),
        "n_unreadable": sum(answer.parsed.value is None and not answer.followed_up for answer in answers),
        "outcomes": counts,
        **store.totals(outcomes),
    }


def versions() -> dict[str, str | None]:
    """Return the versions of this program and of the libraries that can change a result."""
    return {"python": platform.python_version(), "commit": _commit(), **{name: version(name) for name in PACKAGES}}


@cache
def _commit() -> str | None:
    """Return the commit of the checkout that this code runs from, with a mark when it was changed; None elsewhere."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        found = subprocess.run([*git, "describe", "--always", "--dirty", "--abbrev=40"], capture_output=True, text=True)
    except OSError:  # no git on this machine
        return None
    inside = "site-packages" not in __file__ and found.returncode == 0
    return found.stdout.strip() if inside else None
