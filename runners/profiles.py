"""Model profiles: what a family of models needs, kept as data in ``profiles.toml``.

A profile says how a family writes its reasoning, what it accepts and how its interface names things. It says nothing
of where a model runs.
"""

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ..hf_datasets.errors import ConfigError

__all__ = ["Profile", "find_profile", "list_profiles"]


class Profile(BaseModel):
    """What one family of models needs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    version: int = Field(ge=1)
    match: str = ""
    reasoning: tuple[str, str] = ("<think>", "</think>")
    """The marks before and after the model's reasoning."""
    reasoning_is_opened: bool = False
    """The chat template writes the opening mark, so the answer begins inside the reasoning."""
    structured: bool = True
    """Whether answers may be held to a schema; a model that reasons first must not be."""
    reasoning_tokens: int = Field(default=0, ge=0)
    """Room for reasoning, added to a stage's longest answer."""
    keeps_special_tokens: bool = False
    """Whether the marks of reasoning are special tokens, which must then stay in the text."""
    strips: tuple[str, ...] = ()
    """Marks that may end the answer and are no part of it."""
    chat_template_options: dict[str, bool | str | int] = Field(default_factory=dict)
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    accepts_temperature: bool = True
    context_tokens: int | None = None

    def __str__(self) -> str:
        return f"{self.name}/{self.version}"


@cache
def list_profiles() -> dict[str, Profile]:
    """Return every profile by name, in the order in which they are tried."""
    text = (files(__package__) / "profiles.toml").read_text(encoding="utf-8")
    return {name: Profile(name=name, **values) for name, values in tomllib.loads(text).items()}


def find_profile(model: str, name: str | None = None) -> Profile:
    """Return the profile called `name`, or else the first that fits the model's name.

    Raises:
        ConfigError: there is no profile of that name.
    """
    profiles = list_profiles()
    if name is not None:
        if name not in profiles:
            raise ConfigError(f"There is no model profile {name!r}. There are: {', '.join(profiles)}.")
        return profiles[name]
    # The last part alone: neither an organisation's name nor a folder's path says what the model is.
    short = model.rstrip("/").rsplit("/", 1)[-1]
    fitting = (p for p in profiles.values() if p.match and re.search(p.match, short, re.IGNORECASE))
    return next(fitting, profiles["default"])
