"""What a stage is: a pure pair around the engine, records to requests and outcomes to records.

A stage lists its subjects (small records of what is asked about), renders the request of a subject when its turn comes,
and reads the answer. It knows nothing of engines, stores or windows; `execute` brings these together.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

from ...hf_datasets.errors import ConfigError
from ..engines.base import ModelConfig
from ..parsing import Parsed
from ..profiles import find_profile
from ..prompts import Prompt, clean, load_prompt
from ..requests import ModelRef, Outcome, Request, Sampling
from ..retries import FIRST, Retry

__all__ = ["Answered", "Asker", "Stage", "items_schema", "shown_name", "split_to_budget"]

Subject = TypeVar("Subject")
Value = TypeVar("Value")
BYTES_PER_TOKEN = 3.0
"""A cautious estimate in every script, used only to decide how many items share one prompt."""
MAX_NAME_CHARS = 200
NAME_BYTES = 24
"""What an item's name and separator add: about 8 tokens, since most tokenizers split numbers into digits."""


@dataclass(frozen=True, slots=True)
class Answered(Generic[Subject, Value]):
    """A subject with the last answer to it."""

    subject: Subject
    key: str
    """Of the request, under which the store has every attempt."""
    outcome: Outcome
    parsed: Parsed[Value]
    followed_up: bool = False
    """The subject, or the part of it that was not answered, was asked again."""


class Stage(Protocol[Subject, Value]):
    """One stage of the benchmark for one candidate."""

    name: str

    def subjects(self) -> Sequence[Subject]:
        """Return all that is asked about, in the order in which it is best asked."""

    def request(self, subject: Subject, retry: Retry = FIRST) -> Request:
        """Render the request for a subject."""

    def parse(self, subject: Subject, outcome: Outcome) -> Parsed[Value]:
        """Read an answer."""

    def follow_up(self, subject: Subject, parsed: Parsed[Value]) -> Subject | None:
        """Return what has to be asked again after an answer, or None."""


@dataclass(frozen=True)
class Asker:
    """Makes one stage's requests to one model."""

    prompt: Prompt
    model: ModelRef
    config: ModelConfig
    context_tokens: int | None = None
    """Of the model's engine; None where there is no limit."""
    repeat: int = 0
    """Index among several runs of the same questions, each with a seed of its own."""

    @cached_property
    def answer_tokens(self) -> int:
        """The longest answer asked for.

        The configured one, else the prompt's with room for the model's reasoning, but at most half of the context.
        """
        profile = find_profile(self.config.name, self.config.profile)
        longest = self.config.max_tokens or self.prompt.max_tokens + profile.reasoning_tokens
        if self.config.max_tokens is None and self.context_tokens is not None:
            longest = min(longest, self.context_tokens // 2)
        return longest

    @cached_property
    def sampling(self) -> Sampling:
        """How answers are drawn when asked for the first time."""
        sampling = self.config.sampling(self.answer_tokens)
        return replace(sampling, seed=(sampling.seed or 0) + self.repeat) if self.repeat else sampling

    @cached_property
    def holds_to_schema(self) -> bool:
        """Whether answers are held to a schema: by default a judge's, since a candidate's form is part of the test."""
        return self.config.holds_to_schema(by_default=self.prompt.name != "extract")

    @classmethod
    def of(
        cls, stage: str, model: ModelRef, config: ModelConfig, context_tokens: int | None = None, repeat: int = 0
    ) -> "Asker":
        """Return the asker of a stage, with the prompt of that name."""
        return cls(load_prompt(stage), model, config, context_tokens, repeat)

    def ask(
        self, about: Any, retry: Retry, schema: dict[str, Any] | None = None, *, group: str = "", **values: object
    ) -> Request:
        """Render one request.

        Args:
            about: the stage's record of what is asked about.
            retry: how it is asked this time.
            schema: the shape of an answer.
            group: of the requests that begin alike.
            values: what the prompt names.
        """
        return Request(
            stage=self.prompt.name,
            about=about,
            messages=self.prompt.render(problem=retry.problem if retry.n else None, **values),
            model=self.model,
            sampling=retry.applied_to(self.sampling),
            schema=schema if self.holds_to_schema else None,
            repeat=self.repeat,
            group=group,
            may_grow=self.config.max_tokens is None,  # a limit that was set is kept to
        )


def shown_name(interest: str) -> str:
    """Return an interest's name as a judge sees it: on one line, and no longer than a name has reason to be."""
    return clean(interest, MAX_NAME_CHARS)


def split_to_budget(texts: Sequence[str], context_tokens: int | None, reserved_tokens: int) -> Iterator[slice]:
    """Yield slices of consecutive texts that each fit a context, with what is reserved for instructions and answer.

    A text that alone exceeds the budget makes a slice of its own: the engine then says that it does not fit.

    Raises:
        ConfigError: what is reserved leaves no room.

    >>> list(split_to_budget(["a" * 30] * 5, context_tokens=65, reserved_tokens=25))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    if context_tokens is None:
        if texts:
            yield slice(0, len(texts))
        return
    budget = (context_tokens - reserved_tokens) * BYTES_PER_TOKEN
    if budget <= 0:
        raise ConfigError(
            f"A context of {context_tokens} tokens leaves no room for items: {reserved_tokens} are kept for the "
            "instructions and the longest answer. Use a judge with a longer context, or give it a smaller max_tokens."
        )
    start, used = 0, 0.0
    for index, text in enumerate(texts):
        cost = len(text.encode()) + NAME_BYTES
        if index > start and used + cost > budget:
            yield slice(start, index)
            start, used = index, 0.0
        used += cost
    if start < len(texts):
        yield slice(start, len(texts))


def items_schema(n_items: int, n_picks: int) -> dict[str, Any]:
    """Return the schema of an answer that picks up to `n_picks` of `n_items` items by name, or NONE."""
    digits = len(str(max(n_items - 1, 0)))
    name = f"item_[0-9]{{1,{digits}}}"
    more = f"(, {name}){{0,{n_picks - 1}}}" if n_picks > 1 else ""
    return {"regex": f"(NONE|{name}{more})"}
