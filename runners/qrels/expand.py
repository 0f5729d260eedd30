"""Step 7, `expand`: people's judgements with the judge's in their holes (Eq. 1), and their export.

Every judgement says where it comes from. A pair that people rated keeps their rating; one that somebody validated
afterwards has the validated grade; any other pooled pair has the judge's grade, if one could be read. Grades of pairs
outside the pool are never added.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...hf_datasets._atomic import replacing
from ...hf_datasets.errors import ConfigError
from ..runfolder import write_json
from ..stages.grade import Condition
from .judged import PAIR_SEPARATOR, Judged, held_out_pairs, pair_keys, sampled_users
from .validate import read_validations
from .work import Work, write_table

__all__ = ["EXPANDED", "expand", "expand_tables", "hub_folder", "push_folder"]

EXPANDED = pa.schema(
    [
        ("user", pa.string()),
        ("item", pa.string()),
        ("rating", pa.float64()),
        ("source", pa.string()),
        ("human_rating", pa.float64()),
        ("validated_grade", pa.float64()),
        ("llm_grade", pa.int64()),
        ("in_pool", pa.bool_()),
        ("judge", pa.string()),
        ("mode", pa.string()),
        ("plot", pa.bool_()),
        ("n_samples", pa.int64()),
        ("n_parsed", pa.int64()),
        ("lowest", pa.int64()),
        ("highest", pa.int64()),
        ("request_key", pa.string()),
    ]
)
"""Q^E. ``rating`` is that of ``source``: ``human``, ``validated`` or ``llm``; what the others say stands beside it."""


def expand(work: Work, judged: Judged, condition: Condition) -> dict[str, Any]:
    """Write the expanded judgements of one judge under one condition, as Parquet and as TREC qrels.

    Args:
        work: a folder with a pool and grades.
        judged: the judge.
        condition: under which the grades were given.

    Returns:
        Counts by source, holes that are left, and the paths.

    Raises:
        StoreError: there are no grades, or they were given for another pool.
    """
    from ..score import load_metric

    record = judged.record(condition.name)
    users = sampled_users(work)
    table, n_holes = expand_tables(
        held_out_pairs(work, users),
        work.read("pool", ["user", "item"]),
        judged.grades(condition),
        read_validations(work),
    )
    table = table.append_column("judge", pa.array([judged.name] * table.num_rows))
    table = table.append_column("mode", pa.array([condition.mode] * table.num_rows))
    table = table.append_column("plot", pa.array([condition.plot] * table.num_rows))
    table = table.select(EXPANDED.names).cast(EXPANDED)
    base = work.path / "expanded" / judged.name / condition.name
    write_table(base.with_name(base.name + ".parquet"), table)
    with replacing(base.with_name(base.name + ".qrels")) as temporary:
        load_metric("qrels_expansion").write_qrels(table, temporary)
    sources = table["source"].to_pylist()
    told = {
        "judge": judged.name,
        "condition": condition._asdict(),
        "made_from": record["fingerprint"],
        "n_judgements": table.num_rows,
        **{f"n_{source}": sources.count(source) for source in ("human", "validated", "llm")},
        "n_holes_left": n_holes,
        "files": [base.name + ".parquet", base.name + ".qrels"],
    }
    write_json(base.with_name(base.name + ".json"), told)
    return told


def expand_tables(
    human: pa.Table, pool: pa.Table, grades: pa.Table, validated: pa.Table | None = None
) -> tuple[pa.Table, int]:
    """Apply Eq. 1.

    Args:
        human: ``user``, ``item``, ``rating``: Q^H.
        pool: ``user``, ``item``.
        grades: one row per pair as :func:`~.judged.pair_grades` gives them: Q^L.
        validated: ``user``, ``item``, ``grade`` of pairs that people judged afterwards.

    Returns:
        Q^E by user and item, in the columns of :data:`EXPANDED` without the judge's, and how many pooled pairs have no
        judgement.

    >>> human = pa.table({"user": ["u"], "item": ["a"], "rating": [4.5]})
    >>> pool = pa.table({"user": ["u", "u"], "item": ["a", "b"]})
    >>> grades = pa.table({"user": ["u"] * 3, "item": ["a", "b", "c"], "grade": [1, 2, 5], "n_samples": [1] * 3,
    ...                    "n_parsed": [1] * 3, "lowest": [1, 2, 5], "highest": [1, 2, 5], "request_key": ["x"] * 3})
    >>> expand_tables(human, pool, grades)[0].select(["item", "rating", "source"]).to_pylist()
    [{'item': 'a', 'rating': 4.5, 'source': 'human'}, {'item': 'b', 'rating': 2.0, 'source': 'llm'}]
    """
    human_key, pool_key, llm_key = (pair_keys(table) for table in (human, pool, grades))
    checked = validated if validated is not None else pa.table({"user": [], "item": [], "grade": []})
    checked_key = pair_keys(checked)
    keys = pc.unique(pa.concat_arrays([human_key, pool_key]))
    keys = keys.take(pc.sort_indices(keys))

    def beside(of: pa.Array, column: pa.ChunkedArray) -> pa.Array:
        return column.combine_chunks().take(pc.index_in(keys, value_set=of))

    rating = beside(human_key, human["rating"].cast(pa.float64()))
    validated_grade = beside(checked_key, checked["grade"].cast(pa.float64()))
    in_pool = pc.is_in(keys, value_set=pool_key)
    grade = pc.if_else(in_pool, beside(llm_key, grades["grade"]), pa.scalar(None, pa.int64()))
    # What people rated is shown beside the grade of the same pair, also where the pair is in no list.
    shown_grade = pc.coalesce(grade, pc.if_else(pc.is_valid(rating), beside(llm_key, grades["grade"]), None))
    source = pc.if_else(
        pc.is_valid(rating),
        "human",
        pc.if_else(pc.is_valid(validated_grade), "validated", pc.if_else(pc.is_valid(grade), "llm", None)),
    )
    parts = pc.split_pattern(keys, PAIR_SEPARATOR, max_splits=1)
    table = pa.table(
        {
            "user": pc.list_element(parts, 0),
            "item": pc.list_element(parts, 1),
            "rating": pc.coalesce(rating, validated_grade, grade.cast(pa.float64())),
            "source": source,
            "human_rating": rating,
            "validated_grade": validated_grade,
            "llm_grade": shown_grade,
            "in_pool": in_pool,
            **{
                name: beside(llm_key, grades[name])
                for name in ("n_samples", "n_parsed", "lowest", "highest", "request_key")
            },
        }
    )
    is_judged = pc.is_valid(table["source"])
    return table.filter(is_judged), int(pc.sum(pc.invert(is_judged)).as_py() or 0)


def hub_folder(work: Work, parts: Sequence[tuple[Judged, Condition]], path: Path, *, with_ratings: bool) -> list[str]:
    """Write expanded judgements as a folder that `datasets.load_dataset` and the Hub read, one config for each.

    Args:
        work: a folder with expanded judgements.
        parts: judges and conditions.
        path: of the folder.
        with_ratings: whether people's ratings go into it, which the licence of a data set may forbid to pass on.

    Returns:
        The files that were written, as paths in the folder; what else is in it stays.

    Raises:
        ConfigError: nothing to write, or ratings of a data set that may not be passed on.
    """
    if not parts:
        raise ConfigError("There are no expanded judgements to write.")
    split = work.record("split")
    if with_ratings and not _may_be_passed_on(split["dataset"]):
        raise ConfigError(
            f"The licence of {split['dataset']} does not allow to pass its ratings on. Leave them out: the judge's "
            "grades are then written without people's ratings."
        )
    import pyarrow.parquet as pq

    configs = []
    for judged, condition in parts:
        expand(work, judged, condition)
        table = pq.ParquetFile(work.path / "expanded" / judged.name / f"{condition.name}.parquet").read()
        if not with_ratings:
            table = table.filter(pc.not_equal(table["source"], "human")).drop_columns(["human_rating"])
        name = f"{judged.name}.{condition.name}".replace("+", "_and_").replace("@", "_at_")
        write_table(path / "data" / f"{name}.parquet", table)
        configs.append({"config_name": name, "data_files": f"data/{name}.parquet", "n_rows": table.num_rows})
    with replacing(path / "README.md") as temporary:
        temporary.write_text(_card(split["dataset"], configs, with_ratings), encoding="utf-8")
    return ["README.md", *(one["data_files"] for one in configs)]


def push_folder(path: Path, repo: str, files: Sequence[str], *, private: bool = False) -> str:
    """Push files of a folder to a dataset repository, in one commit; return the commit.

    Args:
        path: of the folder.
        repo: ``namespace/name``; made where it is not there.
        files: what :func:`hub_folder` wrote. Nothing else is pushed: an earlier call may have left ratings there.
        private: whether a repository that is made is private.

    Raises:
        HubError: the repository cannot be written to.
    """
    from huggingface_hub import HfApi

    from ...hf_datasets.hub import check_repo_name, hub_errors

    check_repo_name(repo)
    api = HfApi()
    with hub_errors(api.endpoint, repo):
        api.create_repo(repo, repo_type="dataset", private=private, exist_ok=True)
        done = api.upload_folder(
            folder_path=path,
            repo_id=repo,
            repo_type="dataset",
            commit_message="Judgements",
            allow_patterns=list(files),
        )
    return str(done.oid)


def _may_be_passed_on(dataset: str) -> bool:
    from ...hf_datasets.registry import TABLE_NAMES, config_record

    return config_record(dataset).redistributable if dataset in TABLE_NAMES else True


def _card(dataset: str, configs: list[dict[str, Any]], with_ratings: bool) -> str:
    front = "\n".join(
        f"  - config_name: {json.dumps(one['config_name'])}\n    data_files: {json.dumps(one['data_files'])}"
        for one in configs
    )
    rows = "\n".join(f"| {one['config_name']} | {one['n_rows']:,} |" for one in configs)
    human = "People's held-out ratings are among them." if with_ratings else "People's ratings are not among them."
    licence, source = _licence(dataset, with_ratings)
    return f"""---
{licence}configs:
{front}
---
# Relevance judgements of a language model for `{Path(dataset).name}`

Made by `gistbench qrels`: grades from 0 to 5 of pooled pairs of users and items. {human} `source` says where each
judgement comes from (`human`, `validated`, `llm`), `request_key` identifies the question.

| config | judgements |
|---|---:|
{rows}
{source}"""


def _licence(dataset: str, with_ratings: bool) -> tuple[str, str]:
    """Return what a card says of where a named data set's pairs are from: a line of the front matter, and a section."""
    from ...hf_datasets.registry import TABLE_NAMES, config_record

    if dataset not in TABLE_NAMES:
        return "", ""
    record = config_record(dataset)
    section = f"""
## Source

The users and items are those of {record.title} ({record.homepage}). Please cite: {record.citation}
"""
    if not with_ratings:
        return "", section
    section += f"""
The ratings are passed on under their licence, {record.licence}. They are those that the split held out, of the sampled
users only, beside a model's grades.
"""
    creative = re.match(r"CC (BY[A-Z-]*) (\d\.\d)", record.licence)
    name = f"license: cc-{creative[1].lower()}-{creative[2]}\n" if creative else ""
    return name, section
