"""A prompt, loaded from its data file."""

import hashlib
import tomllib
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files

import jinja2

from ..requests import Message
from .items import clean

__all__ = ["PROMPTS", "QRELS_PROMPTS", "Prompt", "load_prompt"]

MAX_PROBLEM_CHARS = 200
PROMPTS = ("extract", "ground", "shortlist", "retrieve", "map")
"""Of the benchmark."""
QRELS_PROMPTS = ("induce", "grade")
"""Of the judgements that a model adds to people's."""

_TEMPLATES = jinja2.Environment(
    undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=False
)


@dataclass(frozen=True)
class Prompt:
    """One prompt."""

    name: str
    version: int
    max_tokens: int
    """The longest answer asked for, in tokens."""
    system: str
    user: str
    reminder: str
    sha256: str
    """Of the data file's bytes."""

    @cached_property
    def _templates(self) -> tuple[jinja2.Template, ...]:
        return tuple(_TEMPLATES.from_string(text.strip()) for text in (self.system, self.user, self.reminder))

    def render(self, *, problem: str | None = None, **values: object) -> tuple[Message, ...]:
        """Return the messages for one request.

        Args:
            problem: None when asking first; else what was wrong with the answer before. A reminder with it then stands
                at the end, which keeps the prefix.
            values: what the templates name; a missing one is an error.
        """
        _, user, reminder = self._templates
        parts = [user.render(values)]
        if problem is not None:
            parts.append(reminder.render(problem=clean(problem, MAX_PROBLEM_CHARS), **values))
        return self._system(values), Message("user", "\n\n".join(parts))

    def _system(self, values: dict[str, object]) -> Message:
        return self._plain_system or Message("system", self._templates[0].render(values))

    @cached_property
    def _plain_system(self) -> Message | None:
        """The system message where it names no values, and so is the same for all requests."""
        return None if "{" in self.system else Message("system", self._templates[0].render())


@cache
def load_prompt(name: str) -> Prompt:
    """Load a prompt by its name, one of `PROMPTS` or `QRELS_PROMPTS`."""
    content = (files(__package__) / f"{name}.toml").read_bytes()
    return Prompt(name=name, sha256=hashlib.sha256(content).hexdigest(), **tomllib.loads(content.decode("utf-8")))
