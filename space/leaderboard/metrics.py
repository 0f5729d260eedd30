"""The published metric modules, as everyone loads them: ``evaluate.load("gistbench/ig")``.

``GISTBENCH_METRICS`` names another namespace, or a folder of modules where there is no network.
"""

import os
import sys
import threading
from typing import Any
from uuid import uuid4

__all__ = ["MetricsError", "load_metric", "paired"]

_LOCK = threading.Lock()
_LOADED: dict[str, Any] = {}


class MetricsError(Exception):
    """A metric module cannot be loaded."""


def load_metric(name: str) -> Any:
    """Load a metric once.

    Raises:
        MetricsError: it is neither on the Hub nor on this machine.
    """
    with _LOCK:
        if name not in _LOADED:
            evaluate = _import_evaluate()
            path = f"{os.environ.get('GISTBENCH_METRICS', 'gistbench')}/{name}"
            try:
                _LOADED[name] = evaluate.load(path, keep_in_memory=True, experiment_id=uuid4().hex)
            except (FileNotFoundError, OSError, ValueError, ImportError) as error:
                raise MetricsError(f"The metric {name} cannot be loaded ({type(error).__name__}).") from error
        return _LOADED[name]


def _import_evaluate() -> Any:
    """Import `evaluate` without what it would load for its evaluators, which nobody uses here.

    Where transformers and torch are installed, they cost most of a minute and a gigabyte.
    """
    hidden = "transformers" not in sys.modules
    if hidden:
        sys.modules["transformers"] = None  # type: ignore[assignment]
    try:
        import evaluate
    finally:
        if hidden:
            del sys.modules["transformers"]
    return evaluate


def paired(a: dict[str, float | None], b: dict[str, float | None]) -> dict[str, Any]:
    """Compare two models over the users that both have: the `ig` module's paired bootstrap and test."""
    users = a.keys() & b.keys()
    result: dict[str, Any] = load_metric("ig").compare(
        {user: a[user] for user in users}, {user: b[user] for user in users}
    )
    return result
