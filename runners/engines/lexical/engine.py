"""The engine around the rules."""

from collections.abc import Generator, Iterable
from typing import Any, Literal

from pydantic import field_validator

from ...requests import ModelRef, Outcome, Request
from ..base import ModelConfig
from .candidates import CANDIDATES
from .judge import JUDGE
from .reading import record

__all__ = ["LexicalConfig", "LexicalEngine"]

PREFIX = "lexical/"
JUDGE_NAME = "overlap"
RULES_VERSION = "1"
"""Raise it with any change of a rule: it is the model's revision, and so part of every request's key."""


class LexicalConfig(ModelConfig):
    """One set of rules: a candidate (hashtag, tfidf, phrase) or the judge (overlap)."""

    engine: Literal["lexical"] = "lexical"

    @property
    def roles(self) -> tuple[str, ...]:
        """What the rules are for."""
        return ("judge",) if self.name == PREFIX + JUDGE_NAME else ("candidate",)

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        known = [PREFIX + rule for rule in (*CANDIDATES, JUDGE_NAME)]
        if name not in known:
            raise ValueError(f"there is no lexical model {name!r}; there are {', '.join(known)}")
        return name

    @field_validator("revision")
    @classmethod
    def _current(cls, revision: str | None) -> str | None:
        if revision not in (None, RULES_VERSION):
            raise ValueError(f"the lexical models are at revision {RULES_VERSION}, not {revision!r}")
        return revision


class LexicalEngine:
    """Answers requests by rules over their words."""

    context_tokens: int | None = None

    def __init__(self, config: LexicalConfig) -> None:
        """Take the rules that the model's name stands for."""
        self.model = ModelRef(config.name, RULES_VERSION, "lexical/1")
        self._rule = config.name.removeprefix(PREFIX)

    def generate(self, requests: Iterable[Request]) -> Generator[Outcome]:
        """Answer each request in turn."""
        for request in requests:
            yield self._answer(request)

    def _answer(self, request: Request) -> Outcome:
        prompt = request.messages[-1].content
        if request.stage == "extract" and self._rule in CANDIDATES:
            text = CANDIDATES[self._rule](record(prompt))
        elif request.stage in JUDGE and self._rule == JUDGE_NAME:
            text = JUDGE[request.stage](prompt)
        else:
            problem = f"{self.model.name} cannot answer {request.stage} requests."
            return Outcome(key=request.key, status="refused", problem=problem)
        return Outcome(key=request.key, status="ok", text=text, finish_reason="stop")

    def describe(self) -> dict[str, Any]:
        """Return the version of the rules."""
        return {"engine": "lexical", "versions": {"rules": RULES_VERSION}}

    def close(self) -> None:
        """Nothing is held."""
