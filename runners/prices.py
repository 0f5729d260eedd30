"""What served models cost: prices per million tokens, kept as data with their date and source, and sums of money.

No price is made up: a model without an entry has none, and what it costs is then not known.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..hf_datasets.errors import ConfigError

__all__ = ["PRICES_VARIABLE", "Price", "Prices", "read_toml"]

PRICES_VARIABLE = "GISTBENCH_PRICES"
"""The environment variable that names a file of prices."""
MILLION = 1_000_000


class Price(BaseModel):
    """What one model costs, in US dollars per million tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    match: str
    """A regular expression, searched in the model's name."""
    input: float = Field(ge=0)
    cached: float | None = Field(default=None, ge=0)
    """Of input that is taken from the server's cache; None costs what other input does."""
    output: float = Field(ge=0)
    """Reasoning included."""
    date: str
    """When the source said so."""
    source: str

    def money(self, n_input: float, n_cached: float, n_output: float) -> float:
        """Return US dollars.

        Args:
            n_input: prompt tokens, cached ones included.
            n_cached: those taken from the cache.
            n_output: tokens of answers, reasoning included.

        >>> Price(match="", input=2, cached=1, output=10, date="", source="").money(2_000_000, 1_000_000, 500_000)
        8.0
        """
        cached = self.input if self.cached is None else self.cached
        return ((n_input - n_cached) * self.input + n_cached * cached + n_output * self.output) / MILLION


@dataclass(frozen=True)
class Prices:
    """The prices that are known."""

    by_name: Mapping[str, Price] = field(default_factory=dict)

    @classmethod
    def load(
        cls, path: Path | None = None, *, price_in: float | None = None, price_out: float | None = None
    ) -> "Prices":
        """Return prices: those given here before those of a file, and that before those of the package.

        Args:
            path: a file in the form of ``prices.toml``; by default the one that GISTBENCH_PRICES names, if it does.
            price_in: US dollars per million prompt tokens, for every model.
            price_out: the same for answers. Either both are given or neither.

        Raises:
            ConfigError: the file cannot be used, or only one of the two is given.
        """
        if (price_in is None) != (price_out is None):
            raise ConfigError("--price-in and --price-out go together: US dollars per million tokens in, and out.")
        found: dict[str, Price] = {}
        if price_in is not None:
            given = {"match": "", "input": price_in, "output": price_out, "date": "today", "source": "as given"}
            found["given"] = _price("--price-in, --price-out", "given", given)
        named = os.environ.get(PRICES_VARIABLE)
        path = path or (Path(named).expanduser() if named else None)
        for source in (path, None) if path else (None,):
            for name, values in read_toml(source, "prices.toml").items():
                found.setdefault(name, _price(str(source or "prices.toml"), name, values))
        return cls(found)

    def find(self, model: str) -> Price | None:
        """Return the first price that fits a model's name; None where there is none."""
        return next((p for p in self.by_name.values() if re.search(p.match, model, re.IGNORECASE)), None)


def read_toml(path: Path | None, packaged: str) -> dict[str, Any]:
    """Return the content of a TOML file, or of the package's own.

    Raises:
        ConfigError: there is no such file, or it is not TOML.
    """
    try:
        text = (files(__package__) / packaged).read_text("utf-8") if path is None else path.read_text("utf-8")
        return tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}.") from error


def _price(source: str, name: str, values: Any) -> Price:
    try:
        price = Price(**values)
        re.compile(price.match)
    except (ValidationError, TypeError, re.error) as error:
        raise ConfigError(
            f"{source}: the price of {name!r} cannot be used: {error} Needed: {', '.join(Price.model_fields)}."
        ) from error
    return price
