"""Step 4, `pool`: the pairs to judge, the union of the top of all runs for the sampled users."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ...hf_datasets.errors import ConfigError, StoreError
from .ratings import IntArray, Ratings
from .recommend import systems
from .runs import read_run_table
from .work import Progress, Silent, Work, fingerprint

__all__ = ["head_items", "pool"]

_VERSION = 1
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


def head_items(count: IntArray, share: float) -> IntArray:
    """Return the places of the most rated items, ``share`` of all items (rounded up; equal counts: the later item).

    >>> head_items(np.array([5, 1, 5, 9]), 0.5).tolist()
    [2, 3]
    """
    n = int(np.ceil(share * len(count)))
    return np.sort(np.argsort(count, kind="stable")[len(count) - n :])


def pool(
    work: Work,
    *,
    depth: int = 100,
    head_share: float = 0.1,
    all_users: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Pool the runs of a work folder.

    Args:
        work: a folder with a sample.
        depth: of the lists.
        head_share: the share of items, most rated first, that is called head; the others are the tail.
        all_users: pool for all users with test ratings instead of the sampled ones.
        progress: told of each run.

    Returns:
        The step's record.

    Raises:
        ConfigError: an option cannot be used.
        StoreError: no users were chosen.
    """
    if depth < 1:
        raise ConfigError(f"depth is {depth}; it must be 1 or more.")
    if not 0 < head_share < 1:
        raise ConfigError(f"head_share is {head_share}; it must be between 0 and 1.")
    sampled = work.record("sample")
    settings = {"depth": depth, "head_share": head_share, "all_users": all_users}
    made_by = fingerprint(_VERSION, sampled["fingerprint"], settings)
    if work.is_done("pool", made_by):
        return work.record("pool")
    if sampled["chosen"] is None and not all_users:
        raise StoreError(
            f"{work.path}: no sample met the criteria, so no users were chosen. Choose a size with `gistbench qrels "
            "sample --take N`, or pool for everybody with --all-users."
        )
    progress = progress or Silent()
    ratings = Ratings.read(work)
    if all_users:
        users = ratings.users.take(pa.array(ratings.evaluated))
    else:
        users = work.read("users", ["user"])["user"].combine_chunks()
    users = users.take(pc.sort_indices(users))
    names = [run["system"] for run in systems(work)]
    texts, codes, ranks = _read_lists(work, names, users, ratings.items, depth, progress)
    pairs, at, n_systems = np.unique(np.concatenate(codes), return_inverse=True, return_counts=True)
    if not len(pairs):
        raise StoreError(f"{work.path}: no run has a list for any of the {len(users)} users: there is nothing to pool.")
    best_rank = np.full(len(pairs), np.iinfo(np.int64).max)
    np.minimum.at(best_rank, at, np.concatenate(ranks))
    user, item = np.divmod(pairs, len(texts))
    rating = _judged(ratings, users, texts, pairs)
    place = pc.index_in(texts, value_set=ratings.items).fill_null(-1).to_numpy().astype(np.int64)
    count = np.where(place >= 0, ratings.count[place], 0)[item]
    is_head = np.zeros(len(ratings.items) + 1, dtype=bool)  # the last place stands for items without training ratings
    is_head[head_items(ratings.count, head_share)] = True
    head = is_head[place[item]]
    table = pa.table(
        {
            "user": users.take(pa.array(user)),
            "item": texts.take(pa.array(item)),
            "n_systems": n_systems.astype(np.int64),
            "depth": best_rank,
            "rating": pa.array(rating, mask=np.isnan(rating)),
            "count": count,
            "head": head,
        }
    )
    judged = ~np.isnan(rating)
    ends = np.cumsum([len(part) for part in codes])
    of_systems = [
        _contribution(name, places, n_systems, judged, head, count)
        for name, places in zip(names, np.split(at, ends[:-1]), strict=True)
    ]
    record = {
        "settings": settings,
        "n_users": len(users),
        "n_systems": len(names),
        **_summary(pairs, user, judged, head, count, n_systems),
        "n_items": len(np.unique(item)),
        "n_pairs_of_items_without_training": int((place[item] < 0).sum()),
        "n_head_items": int(is_head.sum()),
        "share_of_training_ratings_in_head": float(ratings.count[is_head[:-1]].sum() / ratings.count.sum()),
    }
    work.write("pool", {"pool": table, "pool_systems": pa.Table.from_pylist(of_systems, _SYSTEMS)}, record, made_by)
    return work.record("pool")


def _read_lists(
    work: Work, names: list[str], users: pa.Array, items: pa.Array, depth: int, progress: Progress
) -> tuple[pa.Array, list[IntArray], list[IntArray]]:
    """Return the texts of all items, and each system's pairs (user times number of items plus item) and their ranks."""
    read: list[tuple[IntArray, pa.Array, IntArray]] = []
    texts = items
    progress.start("pool", len(names))
    for name in names:
        table = read_run_table(work, name, users)
        table = table.filter(pc.less_equal(table["rank"], depth))
        item = table["item"].cast(pa.string()).combine_chunks()
        user = pc.index_in(table["user"].cast(pa.string()), value_set=users).to_numpy().astype(np.int64)
        new = item.unique()
        new = new.filter(pc.invert(pc.is_in(new, value_set=texts)))
        texts = pa.concat_arrays([texts, new]) if len(new) else texts
        read.append((user, item, table["rank"].to_numpy().astype(np.int64)))
        progress.advance(stored=False)
    progress.finish()
    texts = texts.take(pc.sort_indices(texts))
    codes = [
        user * len(texts) + pc.index_in(item, value_set=texts).to_numpy().astype(np.int64) for user, item, _ in read
    ]
    return texts, codes, [rank for _, _, rank in read]


def _judged(ratings: Ratings, users: pa.Array, texts: pa.Array, pairs: IntArray) -> FloatArray:
    """Return the test rating of each pair, NaN where there is none."""
    row = pc.index_in(users, value_set=ratings.users).to_numpy()
    mine = np.full(len(ratings.users), -1)
    mine[row] = np.arange(len(users))
    item = pc.index_in(ratings.test_item, value_set=texts).fill_null(-1).to_numpy().astype(np.int64)
    user = mine[ratings.test_user]
    known = (user >= 0) & (item >= 0)
    keys, values = user[known] * len(texts) + item[known], ratings.test_rating[known]
    rating = np.full(len(pairs), np.nan)
    if len(keys):
        by_key = np.argsort(keys)
        found = np.minimum(np.searchsorted(keys[by_key], pairs), len(keys) - 1)
        hit = keys[by_key][found] == pairs
        rating[hit] = values[by_key][found[hit]]
    return rating


_SYSTEMS = pa.schema(
    [
        ("system", pa.string()),
        ("n_pairs", pa.int64()),
        ("n_only_this", pa.int64()),
        ("share_only_this", pa.float64()),
        ("mean_systems", pa.float64()),
        ("share_judged", pa.float64()),
        ("share_head", pa.float64()),
        ("mean_count", pa.float64()),
    ]
)


def _contribution(
    name: str, places: IntArray, n_systems: IntArray, judged: BoolArray, head: BoolArray, count: IntArray
) -> dict[str, Any]:
    """Return what a system brought: its pairs, those that no other system lists, and how popular they are."""
    n, alone = len(places), n_systems[places] == 1
    return {
        "system": name,
        "n_pairs": n,
        "n_only_this": int(alone.sum()),
        "share_only_this": float(alone.mean()) if n else None,
        "mean_systems": float(n_systems[places].mean()) if n else None,
        "share_judged": float(judged[places].mean()) if n else None,
        "share_head": float(head[places].mean()) if n else None,
        "mean_count": float(count[places].mean()) if n else None,
    }


def _summary(
    pairs: IntArray, user: IntArray, judged: BoolArray, head: BoolArray, count: IntArray, n_systems: IntArray
) -> dict[str, Any]:
    per_user = np.bincount(user)

    def of(mask: BoolArray) -> dict[str, Any]:
        n = int(mask.sum())
        return {
            "n": n,
            "share_head": float(head[mask].mean()) if n else None,
            "mean_count": float(count[mask].mean()) if n else None,
        }

    return {
        "n_pairs": len(pairs),
        "n_holes": int((~judged).sum()),
        "share_judged": float(judged.mean()),
        "pairs_per_user_quantiles": np.quantile(per_user, (0, 0.25, 0.5, 0.75, 1)).tolist(),
        "share_of_one_system": float((n_systems == 1).mean()),
        "popularity": {"pool": of(np.ones(len(pairs), dtype=bool)), "judged": of(judged), "holes": of(~judged)},
    }
