"""Every config at a size that tests can afford: small parameters, and a small source in the genuine layout."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gistbench.hf_datasets.registry import CONFIG_NAMES, config_record

from .test_formats import FORMATS
from .test_goodbooks import GOODBOOKS
from .test_movielens import MOVIELENS
from .test_synthetic import write as write_synthetic

SHARED = Path(__file__).parents[3] / "shared"


def _pinned(name: str) -> Callable[[Path], Path]:
    """Return what copies a file of the reference implementation, whose bytes are pinned, from beside the checkout."""

    def write(path: Path) -> Path:
        reference = SHARED / "reference" / "gistbench" / name
        if not reference.is_file():
            pytest.skip(f"reference data not found: there is no folder {SHARED} (it is never committed)")
        content = reference.read_bytes()
        # The copy of the oracle beside the checkout is written without line breaks.
        path.write_bytes(json.dumps(json.loads(content), indent=2).encode() if name.endswith(".json") else content)
        return path

    return write


SOURCES: dict[str, Callable[[Path], Path]] = {
    **{raw.name: raw.write for raw in FORMATS},
    "movielens_ratings": MOVIELENS.write,
    "goodbooks_ratings": GOODBOOKS.write,
    "synthetic": write_synthetic,
    "taxonomy_official": _pinned("categories.csv"),
    "oracle_official": _pinned("oracle_synthetic.json"),
}
PARAMETERS: dict[str, dict[str, Any]] = {"planted": {"n_users": 5, "n_engagements_per_user": 80}}
PINNED = ("taxonomy_official", "oracle_official")
REDISTRIBUTABLE = [name for name in CONFIG_NAMES if config_record(name).redistributable]


def source_of(name: str, folder: Path) -> Path | None:
    """Write the small source of a config into a folder; None where it comes with the package.

    A config that is new in the registry and made from files has to get an entry in SOURCES.
    """
    return SOURCES[name](folder / name) if config_record(name).needs_source else None


def parameters_of(name: str) -> dict[str, Any]:
    """Return parameters that make few rows, and leave no user of a small source out."""
    least = {"min_engagements": 1} if "min_engagements" in config_record(name).parameters else {}
    return least | PARAMETERS.get(name, {})
