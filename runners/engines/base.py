"""The engine interface, and what every model configuration has.

An engine takes requests and yields outcomes as they finish, in any order, matched by key. It reads the requests lazily
and holds a bounded number of them, so memory does not grow with the number of prompts. It repeats what is worth
repeating (a busy server) itself, yielding each failed attempt with ``final=False``; it never raises for one request.
"""

from collections.abc import Generator, Iterable
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field

from ..profiles import find_profile
from ..requests import ModelRef, Outcome, Request, Sampling

__all__ = ["Engine", "ModelConfig"]


class Engine(Protocol):
    """Something that answers requests."""

    @property
    def model(self) -> ModelRef:
        """The model that answers, with its resolved revision."""

    @property
    def context_tokens(self) -> int | None:
        """The longest prompt and answer together, in tokens; None where there is no limit."""

    def generate(self, requests: Iterable[Request]) -> Generator[Outcome]:
        """Answer every request; one final outcome for each, as it finishes."""

    def describe(self) -> dict[str, Any]:
        """Return what is recorded but does not decide the answer: versions, dtype, hardware, effective sampling."""

    def close(self) -> None:
        """Free the model's memory."""


class ModelConfig(BaseModel):
    """How a model is reached and asked; each engine adds its own options."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    engine: str
    name: str = Field(min_length=1)
    revision: str | None = None
    profile: str | None = Field(default=None, description="name of the model profile; by default found by the name")
    max_tokens: int | None = Field(
        default=None, ge=1, description="longest answer, in tokens; a stage's own by default"
    )
    temperature: float = Field(default=0.0, ge=0, description="not sent to models whose profile refuses one")
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=1)
    repetition_penalty: float | None = Field(default=None, gt=0, description="above 1, to keep small models from loops")
    seed: int | None = None
    structured: bool | None = Field(
        default=None,
        description="hold answers to the stage's schema where the engine can; by default a judge's, not a candidate's",
    )

    @property
    def label(self) -> str:
        """The name as people tell it from the same model asked in another way."""
        return ModelRef(self.name, self.revision or "", self.profile or "").label

    @property
    def roles(self) -> tuple[str, ...]:
        """What the model can be."""
        return ("candidate", "judge")

    def holds_to_schema(self, *, by_default: bool) -> bool:
        """Return whether requests to this model carry the stage's schema.

        Args:
            by_default: what holds where the configuration does not say; a profile that forbids it wins over that.
        """
        if self.structured is not None:
            return self.structured
        return by_default and find_profile(self.name, self.profile).structured

    def sampling(self, max_tokens: int) -> Sampling:
        """Return the sampling of one stage, whose default answer length is `max_tokens`."""
        accepts_temperature = find_profile(self.name, self.profile).accepts_temperature
        return Sampling(
            max_tokens=self.max_tokens or max_tokens,
            temperature=self.temperature if accepts_temperature else None,
            top_p=self.top_p,
            top_k=self.top_k,
            repetition_penalty=self.repetition_penalty,
            seed=self.seed,
        )
