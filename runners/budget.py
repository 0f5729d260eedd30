"""How much a run may use: tokens, GPU hours or money, from ``--budget`` strings.

A budget counts what this session asks for; what the store served from earlier ones is free. It is told which engine is
at work, as that describes itself, and of every outcome.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..hf_datasets.errors import ConfigError
from .cost import is_paid, n_gpus_of
from .prices import PRICES_VARIABLE, Price, Prices
from .requests import Outcome

__all__ = ["Budget"]

_UNITS = {"token": "tokens", "gpu-hour": "gpu_hours", "gpu hour": "gpu_hours", "usd": "money"}
_FORM = re.compile(rf"([0-9][0-9_]*(?:\.[0-9]+)?)\s*([kmb]?)\s*({'|'.join(_UNITS)})s?", re.IGNORECASE)
_FACTORS = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9}


class Budget:
    """Limits on what a run uses; None is no limit. It is spent when any of them is reached."""

    def __init__(
        self,
        tokens: float | None = None,
        gpu_hours: float | None = None,
        money: float | None = None,
        *,
        prices: Prices | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set limits.

        Args:
            tokens: read and written together, cached ones included.
            gpu_hours: wall time times GPUs, while an engine is at work.
            money: US dollars; models on engines of our own cost none.
            prices: by which money is counted; by default those of `Prices.load`.
            clock: returns seconds.

        Raises:
            ConfigError: a limit is not above 0.
        """
        self.tokens, self.gpu_hours, self.money = tokens, gpu_hours, money
        for name in ("tokens", "gpu_hours", "money"):
            limit = getattr(self, name)
            if limit is not None and not limit > 0:
                raise ConfigError(f"A budget of {limit:g} {name} allows nothing. Give more than 0.")
        self._prices = prices or Prices.load()
        self._clock = clock
        self._n_gpus = 0.0
        self._price: Price | None = None
        self._since = clock()
        self.spent_tokens = 0
        self._gpu_seconds = 0.0
        self.spent_money = 0.0

    @classmethod
    def parse(
        cls,
        texts: str | Iterable[str],
        *,
        prices: Prices | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> "Budget":
        """Read limits such as ``5M tokens``, ``2 gpu-hours`` and ``10 usd``, several in a list or separated by commas.

        Raises:
            ConfigError: a text is none, or two limit the same.

        >>> budget = Budget.parse("5M tokens, 2 gpu-hours")
        >>> budget.tokens, budget.gpu_hours, budget.money
        (5000000.0, 2.0, None)
        """
        limits: dict[str, float] = {}
        parts = [part for text in ([texts] if isinstance(texts, str) else texts) for part in re.split(r",\s+|;", text)]
        for part in parts:
            found = _FORM.fullmatch(part.strip())
            if found is None:
                raise ConfigError(
                    f"The budget {part!r} cannot be read. Write a number and a unit: '5M tokens', '2 gpu-hours' or "
                    "'10 usd' (K, M and B stand for thousand, million and billion; the decimal mark is a point)."
                )
            unit = _UNITS[found[3].lower()]
            if unit in limits:
                raise ConfigError(f"The budget limits {unit.replace('_', ' ')} twice. Give one limit of each.")
            limits[unit] = float(found[1]) * _FACTORS[found[2].lower()]
        return cls(**limits, prices=prices, clock=clock)

    def check(self, model: str, described: Mapping[str, Any]) -> None:
        """Make sure that a model can be counted, before it is asked anything.

        Args:
            model: its name.
            described: what its engine says of itself.

        Raises:
            ConfigError: money is limited, and the price of a model that costs some is not known.
        """
        if self.money is not None and is_paid(described) and self._prices.find(model) is None:
            raise ConfigError(
                f"No price of {model} is known, so a budget in money cannot be kept. Put its price into a file in the "
                f"form of runners/prices.toml and name that in the variable {PRICES_VARIABLE}, or limit tokens."
            )

    def begin(self, model: str, described: Mapping[str, Any]) -> None:
        """Say who is at work from now on.

        Raises:
            ConfigError: as `check`.
        """
        self.check(model, described)
        self._tick()
        self._n_gpus = n_gpus_of(described)
        self._price = self._prices.find(model) if is_paid(described) else None

    def end(self) -> None:
        """Say that nobody is at work any more."""
        self._tick()
        self._n_gpus, self._price = 0.0, None

    def spend(self, outcome: Outcome) -> None:
        """Take in one outcome of who is at work: every attempt, final or not."""
        self._tick()
        self.spent_tokens += outcome.n_prompt_tokens + outcome.n_output_tokens
        if self._price is not None:
            self.spent_money += self._price.money(
                outcome.n_prompt_tokens, outcome.n_cached_tokens, outcome.n_output_tokens
            )

    @property
    def spent_gpu_hours(self) -> float:
        """GPU hours so far."""
        self._tick()
        return self._gpu_seconds / 3600

    @property
    def spent(self) -> str:
        """Which limit is reached, in words; empty while none is."""
        if self.tokens is not None and self.spent_tokens >= self.tokens:
            return f"The budget of {self.tokens:,.0f} tokens is spent ({self.spent_tokens:,} used)."
        if self.gpu_hours is not None and self.spent_gpu_hours >= self.gpu_hours:
            return f"The budget of {self.gpu_hours:g} GPU hours is spent ({self.spent_gpu_hours:.2f} used)."
        if self.money is not None and self.spent_money >= self.money:
            return f"The budget of {self.money:g} USD is spent ({self.spent_money:.2f} used)."
        return ""

    def _tick(self) -> None:
        now = self._clock()
        self._gpu_seconds += (now - self._since) * self._n_gpus
        self._since = now
