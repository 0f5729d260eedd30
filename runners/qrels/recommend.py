"""Step 2, `recommend`: the ranked lists of all recommenders, or runs of other tools, each finished by itself."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ...hf_datasets.errors import ConfigError, StoreError
from ..recommenders.base import Fitting, IntArray, ItemLimited, Size
from ..recommenders.registry import RunSetting, load_settings
from ..recommenders.threads import limited_threads
from ..recommenders.topk import recommend as best_items
from .imports import ImportedRun, read_imports
from .ratings import Ratings
from .runs import RunRecord, RunTable, finished_run, run_path, write_run, write_trec
from .work import Progress, Silent, Work, fingerprint

__all__ = ["available_bytes", "check_memory", "recommend", "representatives", "systems"]

K = 100
_GIB = 1 << 30
_BLOCK_BYTES = 300 << 20
"""A block of scores, its keys and their copies."""
_RESERVE = 0.9
_VERSION = 1


def recommend(
    work: Work,
    *,
    settings: Sequence[RunSetting] | None = None,
    imports: Sequence[Path] = (),
    import_format: str | None = None,
    k: int = K,
    seed: int = 0,
    n_threads: int = 2,
    max_items: int | None = None,
    memory_bytes: int | None = None,
    skip_unfit: bool = False,
    trec: bool = True,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Make the runs of a work folder; a finished run is made again only if data, settings or code have changed.

    Args:
        work: a folder with a split.
        settings: the runs to make; None: all 31, or none where runs are imported.
        imports: files of runs that other tools made.
        import_format: theirs, one of :data:`.imports.FORMATS`; None: told by each file.
        k: depth of the lists.
        seed: of the recommenders.
        n_threads: of numerical libraries.
        max_items: item cut-off of the recommenders over pairs of items that have none of their own.
        memory_bytes: what may be used; None: what is free now.
        skip_unfit: leave out and name the runs that do not fit into memory.
        trec: write each run as a TREC file too.
        progress: told of each run.

    Returns:
        The step's record.

    Raises:
        ConfigError: a run does not fit into memory, and ``skip_unfit`` is off; nothing is made then.
        DataError: an imported run is not what it should be, or a run has no list for anybody.
    """
    if k < 1:
        raise ConfigError(f"k is {k}; it must be 1 or more.")
    progress = progress or Silent()
    of_split = work.record("split")["fingerprint"]
    if settings is None:
        settings = () if imports else load_settings()
    settings = [_cut(one, max_items) for one in settings]
    ratings = Ratings.read(work)
    if not len(ratings.evaluated):
        raise ConfigError(f"{work.path}: no user has a test rating, so there is nobody to recommend to.")
    imported = read_imports(imports, import_format, ratings, k)
    _check_names(settings, imported)
    keys = {one.name: one.fingerprint(split=of_split, seed=seed, k=k, lists=_VERSION) for one in settings}
    todo = [one for one in settings if finished_run(work, one.name, keys[one.name]) is None]
    unfit = check_memory(todo, ratings, memory_bytes=memory_bytes, skip_unfit=skip_unfit)
    left = [one for one in settings if one.name not in unfit]
    if not left and not imported:
        raise ConfigError("No run is left: each was left out for want of memory. Give an item cut-off or more memory.")
    kept = _with_representatives(left)
    keys |= {run.system: _import_key(of_split, run) for run in imported}
    planned = [(one.name, one.representative) for one in kept] + [(run.system, True) for run in imported]
    made_by = fingerprint(of_split, k, [[name, keys[name], representative] for name, representative in planned])
    is_done = work.is_done("recommend", made_by)
    if not is_done:
        # Runs are replaced one by one: what stands on others must not look complete when this is stopped.
        work.unmake("recommend")
    records = []
    progress.start("recommend", len(planned))
    for one in kept:
        done = finished_run(work, one.name, keys[one.name])
        stored = done is not None
        if done is None:
            done = _make(work, one, ratings, Fitting(seed, n_threads), k, keys[one.name], trec)
        elif trec and not run_path(work, one.name, "run").exists():
            write_trec(work, one.name)
        records.append(replace(done, representative=one.representative))
        progress.advance(stored=stored)
    for run in imported:
        records.append(_keep(work, run, ratings, keys[run.system], trec))
        progress.advance(stored=False)
    progress.finish()
    if not is_done:
        record = {
            "settings": {"k": k, "seed": seed, "n_threads": n_threads, "max_items": max_items},
            "n_users": len(ratings.evaluated),
            "n_users_without_test": len(ratings.users) - len(ratings.evaluated),
            "n_items": len(ratings.items),
            "unfit": unfit,
            "stand_ins": {
                new.name: new.algorithm
                for new, old in zip(kept, left, strict=True)
                if new.representative and not old.representative
            },
            "runs": [{name: value for name, value in vars(one).items() if name not in ("n_bytes",)} for one in records],
        }
        work.write("recommend", {}, record, made_by)
    return work.record("recommend")


def systems(work: Work) -> list[dict[str, Any]]:
    """Return the runs of a completed step, in their order.

    Raises:
        StoreError: the step is not complete, or a run is not there as the step left it.
    """
    runs = list(work.record("recommend")["runs"])
    for run in runs:
        if finished_run(work, run["system"], run["fingerprint"]) is None:
            raise StoreError(
                f"{run_path(work, run['system'], 'parquet')} is not the run that {work.path / 'recommend.json'} tells "
                f"of. Run `gistbench qrels recommend --work {work.path}` again."
            )
    return runs


def check_memory(
    settings: Sequence[RunSetting],
    ratings: Ratings,
    *,
    memory_bytes: int | None = None,
    skip_unfit: bool = False,
) -> dict[str, str]:
    """Estimate what each run needs before any is made.

    Returns:
        The runs that do not fit, by name, with what they need.

    Raises:
        ConfigError: there are some, and ``skip_unfit`` is off.
    """
    train = ratings.train
    size = Size(train.shape[0], train.shape[1], train.nnz)
    limit = available_bytes() if memory_bytes is None else memory_bytes
    unfit: dict[str, str] = {}
    for one in settings:
        needed = one.recommender.fit_bytes(size) + _BLOCK_BYTES
        if needed <= limit:
            continue
        text = f"needs about {needed / _GIB:,.1f} GiB for {size.n_users:,} users and {size.n_items:,} items"
        if isinstance(one.recommender, ItemLimited):
            most = one.recommender.largest_fit(size, max(0, limit - _BLOCK_BYTES))
            text += f"; with an item cut-off of {most:,} it fits" if most else "; no item cut-off makes it fit"
        unfit[one.name] = text
    if unfit and not skip_unfit:
        what = "\n".join(f"  {name} {text}" for name, text in unfit.items())
        raise ConfigError(
            f"{len(unfit)} of {len(settings)} runs do not fit into {limit / _GIB:,.1f} GiB:\n{what}\n"
            "Give an item cut-off (--max-items: only the items with the most ratings are modelled and recommended), "
            "leave these runs out (--skip-unfit), choose runs (--run), or allow more memory (--memory-gib)."
        )
    return unfit


def available_bytes() -> int:
    """Return nine tenths of the memory that is free now."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        import os

        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int(_RESERVE * free)


def _cut(one: RunSetting, max_items: int | None) -> RunSetting:
    model = one.recommender
    if max_items is None or not isinstance(model, ItemLimited) or model.max_items is not None:
        return one
    if max_items < 1:
        raise ConfigError(f"max_items is {max_items}; it must be 1 or more.")
    return replace(one, recommender=model.model_copy(update={"max_items": max_items}))


def _check_names(settings: Sequence[RunSetting], imported: Sequence[ImportedRun]) -> None:
    names = [one.name for one in settings] + [one.system for one in imported]
    if twice := [name for at, name in enumerate(names) if name in names[:at]]:
        raise ConfigError(f"Two runs are called {twice[0]!r}. Rename one of them.")


def _with_representatives(left: Sequence[RunSetting]) -> list[RunSetting]:
    """Have the first run that is left stand for an algorithm whose representative is not among them."""
    first = {one.algorithm: one.name for one in reversed(left)}
    chosen = first | {one.algorithm: one.name for one in left if one.representative}
    return [one if one.name != chosen[one.algorithm] else replace(one, representative=True) for one in left]


def _import_key(of_split: str, run: ImportedRun) -> str:
    return fingerprint("import", of_split, run.content)


def _make(
    work: Work, one: RunSetting, ratings: Ratings, fitting: Fitting, k: int, made_by: str, trec: bool
) -> RunRecord:
    start, cpu_start = time.perf_counter(), time.process_time()
    parameters = one.recommender.model_dump(mode="json")
    record = RunRecord(one.name, one.algorithm, one.representative, parameters, made_by, 0, 0, 0, 0.0, 0.0, {})

    def blocks() -> Iterator[pa.Table]:
        table = RunTable(one.name, ratings.users, ratings.items)
        with limited_threads(fitting.n_threads):
            scorer = one.recommender.fit(ratings.train, fitting)
            for lists in best_items(scorer, ratings.train, ratings.evaluated, k):
                yield table.block(lists.users, lists.items, lists.scores)

    def seconds() -> tuple[float, float]:
        return time.perf_counter() - start, time.process_time() - cpu_start

    return write_run(work, record, blocks(), trec=trec, seconds=seconds)


def _keep(work: Work, run: ImportedRun, ratings: Ratings, made_by: str, trec: bool) -> RunRecord:
    done = finished_run(work, run.system, made_by)
    if done is not None:
        return done
    record = RunRecord(run.system, run.system, True, run.origin, made_by, 0, 0, 0, 0.0, 0.0, run.counts)
    table = RunTable(run.system, ratings.users, run.items)
    return write_run(
        work, record, [table.block(run.users, run.ranked, run.scores)], trec=trec, seconds=lambda: (0.0, 0.0)
    )


def representatives(runs: Sequence[dict[str, Any]]) -> IntArray:
    """Return the places of the runs that stand for their algorithms."""
    return np.flatnonzero([run["representative"] for run in runs])
