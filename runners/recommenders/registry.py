"""The recommenders by name, and the parameter settings of the runs.

To add one, write a class in the module of its family (or a new module, and name it in :data:`FAMILIES`)::

    @recommender("mine")
    class Mine(Recommender): ...
"""

import hashlib
import importlib
import json
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from ...hf_datasets._columns import suggestion
from ...hf_datasets.errors import ConfigError
from .base import Recommender

__all__ = ["FAMILIES", "RunSetting", "find_recommender", "list_recommenders", "load_settings", "recommender"]

FAMILIES = ("baselines", "factors", "linear", "topics", "embeddings", "neighbourhood", "weighted_sum", "feedback")
"""The modules of this package that hold recommenders."""

_registered: dict[str, type[Recommender]] = {}
_Class = TypeVar("_Class", bound=type[Recommender])


def recommender(name: str) -> Callable[[_Class], _Class]:
    """Register a class under a name.

    Raises:
        ConfigError: another class has the name.
    """

    def register(cls: _Class) -> _Class:
        other = _registered.get(name)
        if other is not None and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ConfigError(f"Two recommenders are called {name!r}: {other.__qualname__} and {cls.__qualname__}.")
        cls.algorithm = name
        _registered[name] = cls
        return cls

    return register


@cache
def _load_families() -> None:
    for family in FAMILIES:
        importlib.import_module(f".{family}", __package__)


def list_recommenders() -> dict[str, type[Recommender]]:
    """Return all recommenders by name."""
    _load_families()
    return dict(_registered)


def find_recommender(name: str) -> type[Recommender]:
    """Return the recommender of a name.

    Raises:
        ConfigError: there is none; the message lists those there are.
    """
    known = list_recommenders()
    if name not in known:
        raise ConfigError(
            f"No recommender is called {name!r}. Recommenders: {', '.join(known)}.{suggestion(name, list(known))}"
        )
    return known[name]


@dataclass(frozen=True)
class RunSetting:
    """One run: a name and a recommender with its parameters."""

    name: str
    recommender: Recommender
    representative: bool
    """The first chosen setting of its algorithm: it stands for it where one run per algorithm is ranked."""

    @property
    def algorithm(self) -> str:
        """Name of the algorithm."""
        return self.recommender.algorithm

    def fingerprint(self, **more: Any) -> str:
        """Return a hash (hex) of all that determines the run's lists: parameters, code, libraries and ``more``."""
        one = self.recommender
        key = {
            "algorithm": one.algorithm,
            "parameters": one.model_dump(mode="json"),
            "version": one.version,
            "libraries": {name: _version(name) for name in one.libraries},
            **more,
        }
        return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()


def load_settings(path: Path | None = None, names: Iterable[str] | None = None) -> tuple[RunSetting, ...]:
    """Read the settings of runs.

    Args:
        path: a TOML file of ``[[run]]`` tables with ``name``, ``algorithm`` and the algorithm's parameters; None:
            the 31 runs of this package.
        names: only these runs, in the order of the file.

    Raises:
        ConfigError: the file, a name or a parameter cannot be used.
    """
    source = "settings.toml" if path is None else str(path)
    try:
        text = ((files(__package__) / "settings.toml") if path is None else path).read_text(encoding="utf-8")
        rows = tomllib.loads(text).get("run")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{source} cannot be read: {error}.") from error
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise ConfigError(f"{source} has no runs: expected [[run]] tables with name, algorithm and parameters.")
    settings: list[RunSetting] = []
    for at, row in enumerate(rows, 1):
        settings.append(_setting(row, f"{source}, run {at}", settings))
    if names is None:
        return tuple(settings)
    wanted, known = list(names), [one.name for one in settings]
    if unknown := [name for name in wanted if name not in known]:
        raise ConfigError(
            f"{source} has no run {unknown[0]!r}. Runs: {', '.join(known)}.{suggestion(unknown[0], known)}"
        )
    chosen = [one for one in settings if one.name in wanted]
    first = {one.algorithm: one.name for one in reversed(chosen)}
    return tuple(replace(one, representative=first[one.algorithm] == one.name) for one in chosen)


def _setting(row: dict[str, Any], place: str, before: list[RunSetting]) -> RunSetting:
    name, algorithm = row.get("name"), row.get("algorithm")
    if not isinstance(name, str) or not isinstance(algorithm, str):
        raise ConfigError(f"{place}: name and algorithm must be texts, found {name!r} and {algorithm!r}.")
    if not name or not all(mark.isalnum() or mark in "-_.+" for mark in name) or name.startswith("."):
        raise ConfigError(f"{place}: the name {name!r} must be letters, digits, '-', '_', '.' or '+'; it names a file.")
    if name in [one.name for one in before]:
        raise ConfigError(f"{place}: another run is called {name!r} already.")
    parameters = {key: value for key, value in row.items() if key not in ("name", "algorithm")}
    try:
        one = find_recommender(algorithm)(**parameters)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise ConfigError(f"{place} ({name}): {problems}.") from error
    return RunSetting(name, one, algorithm not in [other.algorithm for other in before])


@cache
def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "not installed"
