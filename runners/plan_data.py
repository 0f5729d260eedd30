"""What a plan is counted from: histories, pool and taxonomy, and the interests that are expected or known.

Interests are unknown before a run. They are taken from a number per user, from paper A's tables, or from a run folder;
where they are only expected, some stand for all: with items drawn from their users' histories, and the names of
categories for their own.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..hf_datasets import (
    Taxonomy,
    load_engagements,
    load_taxonomy,
)
from ..hf_datasets.errors import ConfigError
from ..hf_datasets.results_published import published_value
from .config import RunConfig
from .data import choose_taxonomy, choose_users
from .draw import order, salt
from .histories import Histories, ObjectPool, sample_pool
from .runfolder import RunFolder
from .stages.ground import Claim

__all__ = ["CITED_PER_INTEREST", "Interests", "PlanData", "expect_interests", "load_plan_data", "published_rate"]

CITED_PER_INTEREST = 15.0
"""What Table 25 leaves room for: 1,309 tokens in a prompt about evidence, less some 250 of instructions, at 69 tokens
for each of the 1,000 objects in a prompt about distractors. The paper does not print the number."""
MAX_CLAIMS = 1000
"""Interests that stand for all where they are only expected."""
_TABLE_27 = {
    "DeepSeek-R1": r"deepseek-r1$",
    "Qwen3-32B": r"qwen3-32b$",
    "DeepSeek-R1-Distill-70B": r"r1-distill.*70b",
    "Qwen2-7B": r"qwen2-7b",
    "Qwen3-VL-235B": r"qwen3-vl-235b",
    "Llama-3.1-8B-Instruct": r"llama-3\.1-8b",
}


@dataclass(frozen=True)
class PlanData:
    """What a run would read, indexed."""

    histories: Histories
    pool: ObjectPool
    taxonomy: Taxonomy | None
    names: tuple[str, ...]
    """Names of categories, which stand for those of interests."""
    n_engagements: int


@dataclass(frozen=True)
class Interests:
    """What one candidate is expected to name, or named."""

    per_user: NDArray[np.int64]
    """Interests of each user: (users,), in the order of the histories."""
    claims: Sequence[Claim]
    """All of them, or some that stand for all."""
    n_names: int
    """Different names."""
    source: str
    """Where the numbers are from, in words."""
    shortlists: Mapping[str, Sequence[str]] | None = None
    """By user, where they are known."""

    @property
    def n(self) -> int:
        """Interests of all users."""
        return int(self.per_user.sum())

    @property
    def is_whole(self) -> bool:
        """Whether the claims are all there are."""
        return len(self.claims) == self.n

    def names_of(self, users: Sequence[str], names: Sequence[str]) -> dict[str, list[str]]:
        """Return each user's interests by name: their own where they are known, else from `names`, over and over."""
        if self.is_whole:
            own: dict[str, list[str]] = {}
            for claim in self.claims:
                own.setdefault(claim.user, []).append(claim.interest)
            return own
        endless = cycle(names)
        return {user: list(islice(endless, n)) for user, n in zip(users, self.per_user.tolist(), strict=True) if n}

    @classmethod
    def of_run(cls, run: RunFolder, histories: Histories) -> "Interests":
        """Return what was named in a run: of its extraction, or with shortlists where it has been judged.

        Raises:
            StoreError: the folder holds no extraction.
        """
        columns = (run.read("extractions")[name].to_pylist() for name in ("user_id", "interest", "item_ids"))
        position = {user: i for i, user in enumerate(histories.users)}
        own = {user: histories.objects_of(user) for user in histories.users}
        claims = [
            Claim(user, interest, tuple(item for item in items if item in own[user]))
            for user, interest, items in zip(*columns, strict=True)
            if user in position
        ]
        per_user = np.bincount([position[claim.user] for claim in claims], minlength=len(position))
        shortlists = None
        if run.has("judge"):
            short = run.read("shortlists")
            shortlists = dict(zip(short["user_id"].to_pylist(), short["object_ids"].to_pylist(), strict=True))
        names = len({claim.interest for claim in claims})
        return cls(per_user.astype(np.int64), claims, names, f"those of the run {run.path.name}", shortlists)


def load_plan_data(config: RunConfig) -> PlanData:
    """Load what a run would read, without the fingerprints and counts that a run records.

    Raises:
        ConfigError, DataError: it cannot be had or used.
    """
    engagements = load_engagements(config.dataset, source=config.source, **config.dataset_options)
    signals = pc.unique(engagements["interaction_type"]).to_pylist()
    users = choose_users(engagements, config)
    pool = sample_pool(engagements, size=config.pool_size, seed=config.seed, max_item_chars=config.max_item_chars)
    histories = Histories(users, signals=signals, max_item_chars=config.max_item_chars)
    taxonomy = choose_taxonomy(config)
    return PlanData(
        histories=histories,
        pool=pool,
        taxonomy=taxonomy,
        names=tuple((taxonomy or load_taxonomy("open")).names),
        n_engagements=users.num_rows,
    )


def expect_interests(
    data: PlanData,
    n_chunks: NDArray[np.int64],
    *,
    per_user: float | None = None,
    per_chunk: tuple[float, str],
    cited_per_interest: float = CITED_PER_INTEREST,
    seed: int = 0,
) -> Interests:
    """Return the interests that a candidate is expected to name.

    Args:
        data: of the plan.
        n_chunks: extraction prompts of each user: (users,).
        per_user: interests of a user, 0 or more; None takes them from the prompts.
        per_chunk: interests for each extraction prompt, at least one for a user, and where that is from.
        cited_per_interest: cited items that are in the history, 0 or more.
        seed: of the draw of the items.

    Raises:
        ConfigError: a number is below 0, or none.
    """
    for name, value in (("per_user", per_user), ("cited_per_interest", cited_per_interest)):
        if value is not None and not 0 <= value < math.inf:
            raise ConfigError(f"{name} is {value:g}; give a number, 0 or more.")
    n_users = len(data.histories.users)
    if per_user is not None:
        counts, source = _spread(np.full(n_users, per_user)), f"{per_user:g} per user, as given"
    else:
        counts = np.maximum(_spread(n_chunks.astype(np.float64) * per_chunk[0]), np.minimum(n_chunks, 1))
        source = f"{counts.mean() if n_users else 0:.1f} per user: {per_chunk[1]}"
    total = int(counts.sum())
    n_claims = min(total, MAX_CLAIMS)
    places = ((np.arange(n_claims) + 0.5) * total / max(n_claims, 1)).astype(np.int64)
    owners = np.searchsorted(np.cumsum(counts), places, side="right")
    cited = _spread(np.full(n_claims, cited_per_interest))
    names = islice(cycle(data.names), n_claims)
    claims = []
    for place, (owner, n_cited, name) in enumerate(zip(owners.tolist(), cited.tolist(), names, strict=True)):
        user = data.histories.users[owner]
        objects = np.unique(data.histories.engagements_of(user)[0])
        drawn = objects[order(objects.astype(np.uint64), salt(seed, "plan", user, str(place)))[:n_cited]]
        claims.append(Claim(user, name, tuple(data.histories.object_ids[number] for number in drawn)))
    return Interests(counts, claims, total, source)


def published_rate(model: str) -> tuple[float, str]:
    """Return how many interests a candidate names for each extraction prompt, from Tables 24 and 27, and the source.

    A candidate that Table 27 does not print gets the mean of the six that it does.
    """
    found = [row for row, pattern in _TABLE_27.items() if re.search(pattern, model, re.IGNORECASE)]
    rows = found[:1] or list(_TABLE_27)
    interests = np.mean([published_value("Table 27", row, "Generated interests") for row in rows])
    rate = float(interests / published_value("Table 24", "Total", "Prompts"))
    whose = f"{rows[0]}'s" if found else "the mean of six candidates'"
    return rate, f"{rate:.2f} for each extraction prompt, {whose} in Tables 24 and 27"


def _spread(expected: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return whole numbers whose running sums are those expected, rounded down."""
    sums = np.floor(np.cumsum(expected) + 1e-9).astype(np.int64)
    return np.diff(sums, prepend=0)
