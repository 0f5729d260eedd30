"""Reads model profiles from TOML: those of this package in ``profiles.toml``, and files of the user's.

A file holds one table for each profile, with the fields of `Profile`. ``like = "NAME"`` takes over another profile's
fields, from the file or this package, but for its match, its version and what is known of one model: parameters,
``tensor_parallel``, ``tested`` and ``note``. The tables ``thinking_on`` and ``thinking_off`` hold what differs when a
model's reasoning is switched; each makes a profile of its own, ``NAME:thinking-off``.
"""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..hf_datasets.errors import ConfigError
from .profile import Profile

__all__ = ["load_built_in", "load_profiles"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
_VARIANTS = {"thinking_on": "on", "thinking_off": "off"}
# What is said of one profile, or of one model.
_NOT_INHERITED = ("match", "version", "parameters_b", "active_parameters_b", "tensor_parallel", "tested", "note")


def load_profiles(path: Path | str) -> dict[str, Profile]:
    """Read a file of profiles.

    Raises:
        ConfigError: the file, a profile or a key of it cannot be used; the message names all three.
    """
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
        tables = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The file of model profiles {path} cannot be read: {error}.") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"The file of model profiles {path} is not TOML: {error}.") from error
    return _read(tables, str(path), _built_in_tables())


def load_built_in() -> dict[str, Profile]:
    """Read the profiles of this package."""
    return _read(_built_in_tables(), "", {})


@cache
def _built_in_tables() -> dict[str, Any]:
    return tomllib.loads((files(__package__) / "profiles.toml").read_text(encoding="utf-8"))


def _read(tables: Mapping[str, Any], source: str, others: Mapping[str, Any]) -> dict[str, Profile]:
    """Return the profiles in a file's tables, each followed by its variants.

    Args:
        tables: of the file.
        source: the file's name; empty for those of this package.
        others: tables that ``like`` may name besides.
    """
    where = source or "profiles.toml"
    profiles: dict[str, Profile] = {}
    for name in tables:
        values = _inherit(name, tables, others, where)
        variants = {thinking: values.pop(key, None) for key, thinking in _VARIANTS.items()}
        profiles[name] = _profile(name, values, source, where)
        for thinking, changes in variants.items():
            if changes is None:
                continue
            if not isinstance(changes, Mapping):
                raise ConfigError(f"{where}: profile {name!r}: thinking_{thinking} must be a table of what differs.")
            variant = {**values, **changes, "match": "", "thinking": thinking}
            full_name = f"{name}:thinking-{thinking}"
            profiles[full_name] = _profile(full_name, variant, source, where)
    return profiles


def _inherit(
    name: str, tables: Mapping[str, Any], others: Mapping[str, Any], where: str, below: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return a profile's values with those of the profile that it is ``like``."""
    # A file's own profile of a name goes before the package's, but is never like itself.
    own = name in tables and name not in below
    table = tables[name] if own else others.get(name)
    if not below and not _NAME.fullmatch(name):
        raise ConfigError(f"{where}: profile {name!r}: a name has letters, digits and _.+- only.")
    if table is None:
        how = "likes in a circle to" if name in below else "is like"
        known = ", ".join(dict.fromkeys([*tables, *others]))
        raise ConfigError(f"{where}: profile {below[-1]!r} {how} {name!r}. Profiles that it can be like: {known}.")
    if not isinstance(table, Mapping):
        raise ConfigError(f"{where}: {name!r} is no table. Each profile is one: [NAME].")
    values = dict(table)
    like = values.pop("like", None)
    if like is None:
        return values
    if not isinstance(like, str):
        raise ConfigError(f"{where}: profile {name!r}: like must be the name of a profile (found {like!r}).")
    if own:
        inherited = _inherit(like, tables, others, where, (*below, name))
    else:  # a profile of this package is like others of this package
        inherited = _inherit(like, others, {}, where, (name,))
    return {key: value for key, value in inherited.items() if key not in _NOT_INHERITED} | values


def _profile(name: str, values: Mapping[str, Any], source: str, where: str) -> Profile:
    taken = {"name", "source"} & set(values)
    try:
        if not taken:
            return Profile(name=name, source=source, **values)
        problems = "; ".join(f"{key}: is not to be given" for key in sorted(taken))
    except ValidationError as error:
        problems = "; ".join(map(_problem, error.errors()))
    keys = ", ".join(["like", *_VARIANTS, *(key for key in Profile.model_fields if key not in ("name", "source"))])
    raise ConfigError(f"{where}: profile {name!r} cannot be used: {problems}. Keys: {keys}.")


def _problem(error: Mapping[str, Any]) -> str:
    # A key or a password in a place of its own, or among the options of an interface, must not be printed.
    hidden = error["type"] in ("missing", "extra_forbidden") or error["loc"][:1] == ("api_options",)
    found = "" if hidden else f" (found {error['input']!r})"
    return f"{'.'.join(map(str, error['loc']))}: {error['msg']}{found}"
