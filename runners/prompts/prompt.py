"""A prompt, loaded from its data file."""

import hashlib
import tomllib
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files

import jinja2

from ..requests import Message

__all__ = ["PROMPTS", "Prompt", "load_prompt"]

PROMPTS = ("extract", "ground", "shortlist", "retrieve", "map")

_TEMPLATES = jinja2.Environment(
    undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=False
)


@dataclass(frozen=True)
class Prompt:
    """One prompt of the benchmark."""

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

    def render(self, *, n_reask: int = 0, **values: object) -> tuple[Message, ...]:
        """Return the messages for one request.

        Args:
            n_reask: 0 when asking first; else the number of times this was asked before and could not be read. The
                reminder is then added once for each, which keeps the prefix and changes the request.
            values: what the templates name; a missing one is an error.
        """
        system, user, reminder = self._templates
        parts = [user.render(values), *[reminder.render(values)] * n_reask]
        return Message("system", system.render(values)), Message("user", "\n\n".join(parts))


@cache
def load_prompt(name: str) -> Prompt:
    """Load a prompt by its name, one of `PROMPTS`."""
    content = (files(__package__) / f"{name}.toml").read_bytes()
    return Prompt(name=name, sha256=hashlib.sha256(content).hexdigest(), **tomllib.loads(content.decode("utf-8")))
