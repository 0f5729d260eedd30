"""What a model profile is: what one family of models needs, and how its answers are read by it."""

import hashlib
import re
from datetime import date
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from .parsing.answers import strip_reasoning
from .parsing.harmony import strip_harmony
from .requests import canonical_json

__all__ = ["Profile", "Recommended", "split_answer", "template_options"]

TEMPLATE_DATE = date(2026, 1, 1)
"""What a chat template that asks for today's date is told: the same prompt must be the same on every day."""


class Recommended(BaseModel):
    """The sampling that a model's makers recommend."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    temperature: float | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=1)
    repetition_penalty: float | None = Field(default=None, gt=0)


class Profile(BaseModel):
    """What one family of models needs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    version: int = Field(ge=1)
    match: str = ""
    """A regular expression, searched in the last part of a model's name in any case; empty: found by name only."""
    source: str = ""
    """The file that the profile was read from; empty for those of this package."""

    # How it is asked
    chat_template_options: dict[str, bool | str | int] = Field(default_factory=dict)
    thinking: Literal["on", "off"] | None = None
    """Whether the model reasons first under this profile; None where that is not known."""
    structured: bool = True
    """Whether answers may be held to a schema; a model that reasons first must not be."""
    reasoning_tokens: int = Field(default=0, ge=0)
    """Room for reasoning, added to a stage's longest answer."""
    context_tokens: int | None = Field(default=None, ge=1)
    """The longest prompt and answer together; None: the engine asks the model."""
    recommended: Recommended | None = None
    """Used only where ``sampling=recommended`` asks for it; the default is greedy."""

    # How its answer reads
    format: Literal["tags", "harmony"] = "tags"
    """How reasoning and answer stand in the raw text: reasoning between two marks, or messages in channels."""
    reasoning: tuple[str, str] = ("<think>", "</think>")
    """The marks before and after the model's reasoning."""
    reasoning_is_opened: bool = False
    """The chat template writes the opening mark, so the answer begins inside the reasoning."""
    keeps_special_tokens: bool = False
    """Whether the marks of reasoning are special tokens, which must then stay in the text."""
    strips: tuple[str, ...] = ()
    """Marks that may end the answer and are no part of it."""

    # How its interface names things
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    accepts_temperature: bool = True
    api_options: dict[str, Any] = Field(default_factory=dict)
    """Fields of their own that go into every call to a server."""

    # What is known of it
    parameters_b: float | None = Field(default=None, gt=0)
    """Parameters in billions, in all."""
    active_parameters_b: float | None = Field(default=None, gt=0)
    """Parameters in billions that work on one token; None: all of them."""
    weights: Literal["open", "closed"] | None = None
    licence: str = ""
    tensor_parallel: dict[int, int] = Field(default_factory=dict)
    """GPUs that one copy needs, by GB of memory of each: a hint by arithmetic, not a measurement."""
    tested: bool = False
    """Whether a model was run under this profile by the tests of this package."""
    note: str = ""

    @field_validator("reasoning")
    @classmethod
    def _check_marks(cls, marks: tuple[str, str]) -> tuple[str, str]:
        if not all(marks):
            raise ValueError("the marks must not be empty")
        return marks

    @field_validator("match")
    @classmethod
    def _check_match(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"is no regular expression ({error})") from error
        return pattern

    def __str__(self) -> str:
        # A user changes a file without raising the version: what decides the answer then stands in every key itself.
        return f"{self.name}/{self.version}{f'-{self.digest}' if self.source else ''}"

    @property
    def digest(self) -> str:
        """Eight hex digits that change with what can change an answer and stands nowhere else in a request's key."""
        decides = (
            "chat_template_options",
            "format",
            "reasoning",
            "reasoning_is_opened",
            "keeps_special_tokens",
            "strips",
            "api_options",
        )
        return hashlib.sha256(canonical_json(self.model_dump(mode="json", include=set(decides)))).hexdigest()[:8]


def template_options(profile: Profile) -> dict[str, Any]:
    """Return what a chat template is rendered with: the profile's options, and one fixed date for "today"."""
    return {"strftime_now": TEMPLATE_DATE.strftime, **profile.chat_template_options}


def split_answer(
    text: str, profile: Profile, *, reasoning: str = "", is_opened: bool = False, may_lack_reasoning: bool = False
) -> tuple[str, str]:
    """Split what a model wrote into its reasoning and the answer proper, both trimmed.

    Args:
        text: the raw answer, or what a server left of it.
        profile: the model's.
        reasoning: what a server gave apart; then the text holds none.
        may_lack_reasoning: the text is of a server that may have taken the reasoning out, and was not cut: without any
            mark in it, it is the answer even where the chat template opens the reasoning.

    >>> profile = Profile(name="mine", version=1, reasoning_is_opened=True, strips=("</s>",))
    >>> split_answer("7? no</think>item_1</s>", profile)
    ('7? no', 'item_1')
    """
    if reasoning.strip():
        return reasoning.strip(), _without_end(text, profile)
    if profile.format == "harmony":
        found, answer = strip_harmony(text)
        return found, _without_end(answer, profile)
    opening, closing = profile.reasoning
    is_inside = (profile.reasoning_is_opened or is_opened) and bool(text) and not text.lstrip().startswith(opening)
    if is_inside and may_lack_reasoning and closing not in text and opening not in text:
        is_inside = False
    found, answer = strip_reasoning(opening + text if is_inside else text, open_tag=opening, close_tag=closing)
    return found, _without_end(answer, profile)


def _without_end(answer: str, profile: Profile) -> str:
    answer = answer.strip()
    for mark in profile.strips:
        answer = answer.removesuffix(mark).rstrip()
    return answer
