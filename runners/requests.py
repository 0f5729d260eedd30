"""Requests and outcomes: what goes to a model, and what comes back.

Every part of the product that talks to a model speaks these records and no others: stages make requests and read
outcomes, engines turn the one into the other, the store keeps outcomes under the key of their request. This module
knows nothing of prompts, engines or disks.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple

__all__ = ["FINISHED", "STATUSES", "Message", "ModelRef", "Outcome", "Request", "Sampling", "Status", "canonical_json"]

Status = Literal["ok", "truncated", "invalid", "refused", "error"]
STATUSES: tuple[Status, ...] = ("ok", "truncated", "invalid", "refused", "error")
FINISHED: tuple[Status, ...] = ("ok", "truncated", "invalid", "refused")
"""Statuses of a call that was answered. An ``error`` was not, and is sent again by the next run."""


class Message(NamedTuple):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class ModelRef:
    """Which model answers: the part of a model that decides what it says."""

    name: str
    """As the field names it, quantised variants under their own names: ``openai/gpt-oss-120b``, ``lexical/hashtag``."""
    revision: str
    """The resolved commit of the weights, or the digest of a local folder, or the version of a served model."""
    profile: str
    """Name and version of the model profile: ``qwen3/1``."""

    @classmethod
    def of(cls, described: Mapping[str, Any]) -> "ModelRef":
        """Return the model of a description that holds more, as manifests have it of who was asked."""
        return cls(**{name: described[name] for name in ("name", "revision", "profile")})

    @property
    def variant(self) -> str:
        """Which of several ways of asking one model this is, such as ``thinking-off``; empty where it has one."""
        return self.profile.partition("/")[0].partition(":")[2]

    @property
    def label(self) -> str:
        """The name, as people tell it from the same model asked in another way.

        >>> ModelRef("Qwen/Qwen3-32B", "", "qwen3-32b:thinking-off/1").label
        'Qwen/Qwen3-32B (thinking-off)'
        """
        return f"{self.name} ({self.variant})" if self.variant else self.name

    def __str__(self) -> str:
        return f"{self.name}@{self.revision[:12]}" if self.revision else self.name


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the answer is drawn. All of it is part of the key."""

    max_tokens: int = 4096
    temperature: float | None = 0.0
    """None sends no temperature, for models that refuse one."""
    top_p: float | None = None
    top_k: int | None = None
    repetition_penalty: float | None = None
    seed: int | None = None


@dataclass(frozen=True)
class Request:
    """One conversation to be continued by one model."""

    stage: str
    """Name of the stage that asks. Not keyed."""
    about: Any
    """The stage's own record of what is asked about; its ``str`` stands in messages. Not keyed."""
    messages: tuple[Message, ...]
    model: ModelRef
    sampling: Sampling = field(default_factory=Sampling)
    schema: Mapping[str, Any] | None = None
    """Shape that the answer is held to where the engine can: ``{"regex": ...}`` or ``{"json": <JSON schema>}``."""
    repeat: int = 0
    """Index among several samples of the same request."""
    group: str = ""
    """Requests of one group begin alike: they are best answered next to each other, by one worker. Not keyed."""
    may_grow: bool = True
    """Whether an answer that was cut may be asked for with more room. Not keyed."""

    @cached_property
    def key(self) -> str:
        """The sha256 of the canonical JSON of everything that determines the answer."""
        determined_by = {
            "messages": [list(message) for message in self.messages],
            "model": _fields(self.model),
            "sampling": _fields(self.sampling),
            "schema": self.schema,
            "repeat": self.repeat,
        }
        return hashlib.sha256(canonical_json(determined_by)).hexdigest()


@lru_cache(maxsize=256)
def _fields(record: ModelRef | Sampling) -> dict[str, Any]:
    """Return the fields of a record that thousands of requests share."""
    return asdict(record)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one attempt at one request."""

    key: str
    status: Status
    text: str = ""
    """The answer, without its reasoning."""
    reasoning: str = ""
    problem: str = ""
    """What went wrong, in plain words; empty when nothing did."""
    finish_reason: str = ""
    n_prompt_tokens: int = 0
    n_cached_tokens: int = 0
    n_output_tokens: int = 0
    """Reasoning included."""
    n_reasoning_tokens: int = 0
    seconds: float = 0.0
    final: bool = True
    """False for an attempt that the engine is about to repeat itself (a time-out, a busy server)."""


def canonical_json(value: Any) -> bytes:
    """Return the one JSON text of a value: sorted keys, no spaces, UTF-8; NaN is refused.

    >>> canonical_json({"b": 1, "a": ["é"]}).decode()
    '{"a":["é"],"b":1}'
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "surrogatepass")
