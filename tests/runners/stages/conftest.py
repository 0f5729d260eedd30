"""What the tests of the stages share: small histories, askers, and answers to requests."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from gistbench.hf_datasets import INTERACTION_TYPES, validate_engagements
from gistbench.runners.draw import hash_strings
from gistbench.runners.engines.lexical import LexicalConfig
from gistbench.runners.histories import Histories, ObjectPool
from gistbench.runners.requests import ModelRef, Outcome
from gistbench.runners.retries import FIRST, Retry
from gistbench.runners.stages.base import Answered, Asker

MODEL = ModelRef("lexical/overlap", "1", "lexical/1")
TYPES = dict(zip(("e+", "i+", "i-", "e-"), INTERACTION_TYPES, strict=True))


@pytest.fixture(scope="session")
def make_histories() -> Callable[..., Histories]:
    """Make histories of ``user=[(object, text, short type), ...]``, newest first."""

    def make(signals: Sequence[str] = INTERACTION_TYPES, **users: Sequence[tuple[str, str, str]]) -> Histories:
        rows = [
            (user, object_id, text, TYPES[kind], float(-age))
            for user, engaged in users.items()
            for age, (object_id, text, kind) in enumerate(engaged)
        ]
        names = ("user_id", "object_id", "object_text", "interaction_type", "interaction_time")
        columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
        return Histories(validate_engagements(pa.table(columns), source="test"), signals=signals, max_item_chars=500)

    return make


@pytest.fixture(scope="session")
def make_pool() -> Callable[..., ObjectPool]:
    """Make a pool of (id, text) pairs."""

    def make(objects: Sequence[tuple[str, str]]) -> ObjectPool:
        ids = [object_id for object_id, _ in objects]
        return ObjectPool(tuple(ids), tuple(text for _, text in objects), hash_strings(ids))

    return make


@pytest.fixture(scope="session")
def asker() -> Callable[..., Asker]:
    """Make the asker of a stage."""

    def make(stage: str, context: int | None = None, **options: Any) -> Asker:
        return Asker.of(stage, MODEL, LexicalConfig(name="lexical/overlap", **options), context)

    return make


@pytest.fixture(scope="session")
def answered() -> Callable[..., Answered[Any, Any]]:
    """Answer a subject of a stage with a text; None is a call that failed."""

    def answer(
        stage: Any, subject: Any, text: str | None, *, followed_up: bool = False, retry: Retry = FIRST, **outcome: Any
    ) -> Answered[Any, Any]:
        key = stage.request(subject, retry).key
        status = "error" if text is None else "ok"
        told = Outcome(key, status, text or "", **{"finish_reason": "stop", **outcome})
        return Answered(subject, key, told, stage.parse(subject, told), followed_up)

    return answer
