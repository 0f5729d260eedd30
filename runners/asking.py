"""Asks a stage and keeps its books: how long it took, what answered, how many answers cannot be used."""

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from .engines import Engine
from .execute import execute
from .requests import canonical_json
from .stages.base import Answered, Stage
from .store import ResponseStore
from .tally import Tally

__all__ = ["REACH", "ask"]

logger = logging.getLogger(__name__)

REACH = ("base_url", "api_key_env", "concurrency", "timeout_s", "max_attempts")
"""Options that say how a server is reached, and nothing of what answers there."""


def ask(
    stage: Stage[Any, Any],
    engine: Engine,
    store: ResponseStore,
    *,
    description: str,
    work: Sequence[Any],
    tally: Tally,
    **options: Any,
) -> Iterator[Answered[Any, Any]]:
    """Yield a stage's answers, and say in the end how many cannot be used.

    Args:
        stage: what is asked.
        engine: who answers.
        store: where outcomes are kept, with the time of this session and what the engine is.
        description: the work's name in the progress.
        work: what tells it from other work of the same stage and model; sessions of the same work add up, over resumes.
        tally: counts the answers.
        options: more of `execute`.
    """
    tally.work = canonical_json([stage.name, *work, str(engine.model)]).decode()
    with store.engine(partial(_made_by, engine)), store.session(tally.work):
        yield from tally.over(execute(stage, engine, store, description=description, **options))
    if (first := tally.first_unreadable) is not None:
        logger.warning(
            "%s: %d of %d answers cannot be used. The first: %s: %s Answer: %.200r",
            description,
            tally.n_unreadable,
            tally.n_subjects,
            first.subject,
            first.outcome.problem or first.parsed.problem,
            first.outcome.text,
        )


def _made_by(engine: Engine) -> dict[str, Any]:
    """Return what may change an answer's last digits: engine, versions, options, hardware."""
    described = engine.describe()
    options = {name: value for name, value in described.get("options", {}).items() if name not in REACH}
    names = ("engine", "versions", "data_parallel_size", "hardware")
    return {"options": options, **{name: described[name] for name in names if name in described}}
