"""The oracle: what there is to find about each user, as far as anyone has found it.

It is the union, over the evaluated candidates and a given oracle, of the categories that were verified. Recall is
measured against it, so it has a version, and every score names it.
"""

import hashlib
import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..hf_datasets import Taxonomy
from ..hf_datasets.errors import ConfigError, GistbenchWarning
from .parsing import NO_CATEGORY
from .requests import canonical_json
from .runfolder import read_json, write_json

__all__ = ["Category", "Oracle", "TaxonomyName", "build_oracle", "read_given_oracle"]

Category = int | str
"""A category's id; without a taxonomy, an interest's name."""
MIN_MODELS = 3


class TaxonomyName(NamedTuple):
    """A taxonomy as records name it, without its categories."""

    name: str
    sha256: str


@dataclass(frozen=True)
class Oracle:
    """The categories of each user, and what they depend on."""

    taxonomy: str
    """Name of the taxonomy; ``none`` where every interest is its own category."""
    taxonomy_sha256: str
    judge: str
    thresholds: Mapping[str, Any]
    verified_by: Mapping[str, Mapping[Category, tuple[str, ...]]]
    """For each user and category, who found it: names of candidates, and ``given``."""

    @property
    def categories(self) -> dict[str, list[Category]]:
        """The sorted categories of each user."""
        return {user: sorted(found) for user, found in self.verified_by.items()}

    @property
    def version(self) -> str:
        """A hash of its content and of all it depends on."""
        content = {
            "taxonomy": self.taxonomy_sha256,
            "judge": self.judge,
            "thresholds": dict(self.thresholds),
            "categories": self.categories,
        }
        return hashlib.sha256(canonical_json(content)).hexdigest()[:16]

    def write(self, path: Path) -> None:
        """Write the oracle as JSON."""
        write_json(
            path,
            {
                "version": self.version,
                "taxonomy": self.taxonomy,
                "taxonomy_sha256": self.taxonomy_sha256,
                "judge": self.judge,
                "thresholds": dict(self.thresholds),
                "oracle": self.categories,
                "verified_by": {
                    user: {str(category): list(models) for category, models in sorted(found.items())}
                    for user, found in sorted(self.verified_by.items())
                },
            },
        )


def build_oracle(
    verified: Mapping[str, Iterable[tuple[str, Category]]],
    *,
    given: Mapping[str, Iterable[Category]] | None,
    taxonomy: Taxonomy | TaxonomyName | None,
    judge: str,
    thresholds: Mapping[str, Any],
) -> Oracle:
    """Unite what candidates verified with a given oracle.

    Args:
        verified: for each candidate, (user, category) pairs; category 0 is passed over.
        given: a given oracle.
        taxonomy: of the categories; None where each interest is its own.
        judge: who verified.
        thresholds: under which.

    Warns:
        GistbenchWarning: fewer than three candidates and no given oracle.
    """
    found: dict[str, dict[Category, list[str]]] = {}
    sources = [*verified.items()]
    if given is not None:
        sources.append(("given", ((user, category) for user, categories in given.items() for category in categories)))
    for source, pairs in sources:
        for user, category in pairs:
            if category != NO_CATEGORY:
                names = found.setdefault(user, {}).setdefault(category, [])
                names += [source] if source not in names else []
    if len(verified) < MIN_MODELS and not given:
        some = "one candidate" if len(verified) == 1 else f"{len(verified)} candidates"
        warnings.warn(
            f"The oracle is what {some} verified: recall says how much of that a candidate found, "
            "not how much there is to find. Add candidates (three or more), or give an oracle with --oracle.",
            GistbenchWarning,
            stacklevel=2,
        )
    return Oracle(
        taxonomy=taxonomy.name if taxonomy is not None else "none",
        taxonomy_sha256=taxonomy.sha256 if taxonomy is not None else "",
        judge=judge,
        thresholds=thresholds,
        verified_by={
            user: {category: tuple(sorted(names)) for category, names in sorted(categories.items())}
            for user, categories in sorted(found.items())
        },
    )


def read_given_oracle(path: Path, taxonomy: Taxonomy | None) -> dict[str, list[Category]]:
    """Read an oracle file: one of ours, the official one, or a bare {user: [category, ...]}.

    Raises:
        ConfigError: the file is no oracle, or belongs to another taxonomy.

    Warns:
        GistbenchWarning: the file does not say which taxonomy its ids belong to.
    """
    if not path.is_file():
        raise ConfigError(f"There is no oracle file {path}.")
    content = read_json(path)
    users = content.get("oracle", content) if isinstance(content, dict) else None
    if not isinstance(users, dict) or not all(isinstance(categories, list) for categories in users.values()):
        raise ConfigError(f"{path} is no oracle: expected a JSON object of users, each with a list of category ids.")
    bound_to, its_name = (None, "") if users is content else _taxonomy_of(content)
    name, expected = (taxonomy.name, taxonomy.sha256) if taxonomy else ("none", "")
    if bound_to is None:
        warnings.warn(
            f"The oracle {path} does not name its taxonomy; its ids are taken to belong to {name!r}.",
            GistbenchWarning,
            stacklevel=2,
        )
    elif bound_to != expected:
        raise ConfigError(
            f"The oracle {path} belongs to the taxonomy {its_name!r} ({bound_to[:12] or 'none'}), this run to "
            f"{name!r} ({expected[:12] or 'none'}). Ids of different taxonomies mean different things: use the "
            "oracle's taxonomy, or leave the oracle out."
        )
    for user, categories in users.items():
        for category in categories:
            if taxonomy is None:
                fits = isinstance(category, str)
            else:  # neither True nor 3.0, which would pass as 1 and 3
                fits = type(category) is int and (category == NO_CATEGORY or category in taxonomy)
            if not fits:
                raise ConfigError(f"{path}: category {category!r} of user {user!r} is not in the taxonomy of this run.")
    return {str(user): list(categories) for user, categories in users.items()}


def _taxonomy_of(content: dict[str, object]) -> tuple[str | None, str]:
    """Return the hash and name of the taxonomy that an oracle file is bound to; the paper's names none itself."""
    from ..hf_datasets.oracle_official import OFFICIAL_ORACLE_SHA256, OFFICIAL_TAXONOMY_CONTENT_SHA256

    if hashlib.sha256(json.dumps(content, indent=2).encode()).hexdigest() == OFFICIAL_ORACLE_SHA256:
        return OFFICIAL_TAXONOMY_CONTENT_SHA256, "official"
    bound_to = content.get("taxonomy_sha256")
    return None if bound_to is None else str(bound_to), str(content.get("taxonomy"))
