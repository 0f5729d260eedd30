"""Step 1, `split`: 80/20 per user, as the ratings view does it, with statistics (Table 2 of paper B)."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .ratings import load_split, read_item_table
from .work import Work, fingerprint

__all__ = ["describe_split", "split"]

_QUANTILES = (0, 0.25, 0.5, 0.75, 1)
_RELEVANT = 4.0
_VERSION = 1


def split(
    work: Work,
    dataset: str,
    *,
    source: str | None = None,
    items: Path | None = None,
    test_share: float = 0.2,
    seed: int = 0,
    temporal: bool = False,
    min_profile: int = 1,
    options: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Split ratings into a work folder; nothing changes where the same split of the same ratings is there.

    Args:
        work: the folder.
        dataset: a named data set of ratings, or a file; see :func:`~.ratings.load_split`.
        source: the files that a named data set is made from.
        items: a csv, tsv or Parquet file of metadata: the item and whatever else; it takes the place of what the source
            of a named data set says of its items. Rated items without metadata are counted.
        test_share: share of each user's ratings on the test side.
        seed: of the draw.
        temporal: the newest ratings are the test side.
        min_profile: users with fewer ratings are left out.
        options: more parameters of a named data set.

    Returns:
        The step's record.

    Raises:
        ConfigError: an option or a name cannot be used.
        DataError: the ratings are not what they should be.
    """
    settings: dict[str, Any] = {
        "test_share": test_share,
        "seed": seed,
        "temporal": temporal,
        "min_profile": min_profile,
    }
    ratings, item_table, left_out = load_split(
        dataset, source=source, options=options, with_items=items is None, **settings
    )
    if items is not None:
        item_table = read_item_table(items)
    made_by = fingerprint(_VERSION, _content(ratings), None if item_table is None else _content(item_table))
    if not work.is_done("split", made_by):
        tables = {"ratings": ratings} | ({} if item_table is None else {"items": item_table})
        record = {
            "dataset": dataset,
            "source": source,
            "settings": {**settings, "options": options or {}},
            "statistics": describe_split(ratings, item_table) | left_out,
        }
        work.write("split", tables, record, made_by)
    return work.record("split")


def describe_split(ratings: pa.Table, items: pa.Table | None = None) -> dict[str, Any]:
    """Count users, items and ratings of both sides, and what cannot be scored.

    Args:
        ratings: (ratings, 5) in :data:`~gistbench.hf_datasets.ratings.RATING_SCHEMA`.
        items: metadata, with a column ``item``.

    >>> table = pa.table({"user": ["u", "u"], "item": ["a", "b"], "rating": [5.0, 3.0], "split": ["train", "test"]})
    >>> describe_split(table)["n_test_items_without_training"]
    1
    """
    is_train = pc.equal(ratings["split"], "train")
    train, test = ratings.filter(is_train), ratings.filter(pc.invert(is_train))
    counted = ratings.group_by("user").aggregate([([], "count_all")])["count_all"].to_numpy()
    all_items, train_items, test_items = (table["item"].unique() for table in (ratings, train, test))
    n_users, n_items, n = len(counted), len(all_items), ratings.num_rows
    values = ratings["rating"].value_counts()
    relevant = test.filter(pc.greater_equal(test["rating"], _RELEVANT))
    known = pc.is_in(all_items, value_set=items["item"].combine_chunks()) if items is not None else None
    return {
        "n_users": n_users,
        "n_items": n_items,
        "n_ratings": n,
        "density": n / (n_users * n_items),
        "n_train": train.num_rows,
        "n_test": test.num_rows,
        "n_test_relevant": relevant.num_rows,
        "n_users_without_test": n_users - len(test["user"].unique()),
        "n_users_without_relevant_test": n_users - len(relevant["user"].unique()),
        "n_items_in_training": len(train_items),
        "n_test_items_without_training": int(
            pc.sum(pc.invert(pc.is_in(test_items, value_set=train_items))).as_py() or 0
        ),
        "n_items_without_metadata": None if known is None else int(pc.sum(pc.invert(known)).as_py()),
        "profile_length_quantiles": dict(
            zip(map(str, _QUANTILES), np.quantile(counted, _QUANTILES).tolist(), strict=True)
        ),
        "ratings_by_value": {
            str(v["values"]): v["counts"] for v in sorted(values.to_pylist(), key=lambda v: v["values"])
        },
    }


def _content(table: pa.Table) -> str:
    """Return a hash of the rows of a table."""
    import hashlib

    hasher = hashlib.sha256()

    class Sink:
        closed = False

        def write(self, part: Any) -> int:
            hasher.update(part)
            return len(part)

        def flush(self) -> None: ...

        def close(self) -> None: ...

    plain = table.replace_schema_metadata(None).combine_chunks()
    with pa.ipc.new_stream(pa.PythonFile(Sink(), mode="w"), plain.schema) as writer:
        writer.write_table(plain, max_chunksize=1 << 20)
    return hasher.hexdigest()
