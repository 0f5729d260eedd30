"""Suites of planted records: what candidates named and the judge said is written by hand, then scored."""

import warnings
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from gistbench.hf_datasets import INTERACTION_TYPES, load_taxonomy
from gistbench.hf_datasets.errors import GistbenchWarning
from gistbench.runners.config import RunConfig
from gistbench.runners.report import Runs
from gistbench.runners.runfolder import RunFolder, write_json
from gistbench.runners.suite import Suite

STAGES = ("ground", "shortlist", "retrieve", "map")


@dataclass(frozen=True)
class Interest:
    """An interest with so many cited items of each type, all kept by the judge but those that are `dropped`."""

    name: str
    category: int
    e: int = 0
    i: int = 0
    n: int = 0
    x: int = 0
    correct: int | None = 1
    backing: int = 1
    dropped: int = 0

    def items(self, user):
        kinds = [
            t
            for t, count in zip(INTERACTION_TYPES, (self.e, self.i, self.n, self.x), strict=True)
            for _ in range(count)
        ]
        return [(f"{user}/{self.name}/{place}", kind) for place, kind in enumerate(kinds)]


def account(n=10, tokens=100):
    outcomes = {"ok": n, "truncated": 0, "invalid": 0, "refused": 0, "error": 0}
    counted = {"n_attempts": n, "n_prompt_tokens": tokens, "n_cached_tokens": 0, "n_output_tokens": tokens // 10}
    counted |= {"n_reasoning_tokens": 0, "request_seconds": 1.0, "engines": []}
    return {"n_requests": n, "unusable_share": 0.0, "outcomes": outcomes, **counted}


def strings(rows, *names):
    return {name: pa.array([row[name] for row in rows], pa.string()) for name in names}


def lists(rows, *names):
    return {name: pa.array([row[name] for row in rows], pa.list_(pa.string())) for name in names}


def run_tables(named, unscored=()):
    """Return the tables that extraction and judging leave, from {user: [Interest, ...]}."""
    users = [*named, *unscored]
    rows, evidence, names = [], [], {}
    for user, interests in named.items():
        for interest in interests:
            items = interest.items(user)
            ids = [item for item, _ in items]
            own, distractors = ids[: interest.backing], [f"d/{place}" for place in range(5)]
            wrong = distractors[: interest.backing - (interest.correct or 0)]
            rows.append(
                {
                    "user_id": user,
                    "interest": interest.name,
                    "item_ids": ids,
                    "shown": ids,
                    "kept": ids[: len(ids) - interest.dropped],
                    "backing": own,
                    "pool": own + distractors,
                    "picked": None if interest.correct is None else own[: interest.correct] + wrong,
                }
            )
            evidence += [(user, item, f"about {interest.name}", kind) for item, kind in items]
            names[interest.name] = interest.category
    n = len(rows)
    columns = [pa.array(column, pa.string()) for column in zip(*evidence, strict=True)] or [
        pa.array([], pa.string())
    ] * 4
    evidence_names = ["user_id", "object_id", "object_text", "interaction_type"]
    keys = {"request_keys": pa.array([[]] * n, pa.list_(pa.string()))}
    texts = strings(rows, "user_id", "interest")
    status = pa.array(["failed" if row["picked"] is None else "ok" for row in rows], pa.string())
    return {
        "users": pa.table(
            {
                "user_id": pa.array(users, pa.string()),
                **{
                    name: pa.array([100] * len(users), pa.int64())
                    for name in ("n_engagements", "n_chunks", "n_chunks_answered")
                },
                "scored": pa.array([user not in unscored for user in users]),
            }
        ),
        "extractions": pa.table({**texts, **lists(rows, "item_ids"), **keys}),
        "evidence": pa.Table.from_arrays(columns, evidence_names),
        "groundings": pa.table(
            {
                **texts,
                "shown_item_ids": lists(rows, "shown")["shown"],
                "relevant_item_ids": lists(rows, "kept")["kept"],
                "status": pa.array(["ok"] * n, pa.string()),
                **keys,
            }
        ),
        "retrievals": pa.table(
            {
                **texts,
                "backing_item_ids": lists(rows, "backing")["backing"],
                "shown_item_ids": lists(rows, "pool")["pool"],
                "selected_item_ids": lists(rows, "picked")["picked"],
                "few_distractors": pa.array([False] * n),
                "status": status,
                **keys,
            }
        ),
        "mappings": pa.table(
            {
                "interest": pa.array(list(names), pa.string()),
                "category_id": pa.array(list(names.values()), pa.int64()),
                "status": pa.array(["ok"] * len(names), pa.string()),
                "request_keys": pa.array([[]] * len(names), pa.list_(pa.string())),
            }
        ),
    }


def write_run(path, name, named, *, dataset, signals, judge, taxonomy, asked, unscored, prompts, data):
    tables = run_tables(named, unscored)
    if taxonomy is None:
        tables.pop("mappings")
    model = {"name": name, "revision": "1", "profile": "p", "sampling": {"temperature": 0.0}, "structured": None}
    judged = {**model, "name": judge, "revision": "2"}
    extract = {"model": model, "stages": {"extract": account()}, "wall_seconds": 1.0, "prompts": {}, "versions": {}}
    judging = {"model": judged, "stages": {stage: account() for stage in STAGES}, "wall_seconds": 4.0, "versions": {}}
    manifest = {
        "data": {
            "dataset": dataset,
            "sha256": data or f"d-{dataset}",
            "users_sha256": f"u-{dataset}",
            "signals": list(signals),
            "taxonomy": taxonomy,
        },
        "candidate": {"name": name, "revision": "1", "profile": "p"},
        "phases": {
            "extract": {**extract, **asked},
            "judge": {**judging, "taxonomy": taxonomy, "prompts": {"ground": {"version": "1", "sha256": prompts}}},
        },
    }
    RunFolder(path).write(tables, manifest)


@pytest.fixture
def suite(tmp_path):
    """Write and score a suite of {model: {user: [Interest, ...]}}; return its path."""
    taxonomy = load_taxonomy("open")

    def make(
        folder,
        runs,
        *,
        dataset="demo",
        signals=INTERACTION_TYPES,
        judge="org/judge",
        categories=True,
        taxonomy_name=None,
        unscored=(),
        history_length=None,
        chunk_size=100,
        prompts="a" * 64,
        data=None,
        **config,
    ):
        path = tmp_path / folder
        path.mkdir()
        record = {"name": taxonomy_name or taxonomy.name, "sha256": taxonomy.sha256} if categories else None
        asked = {"history_length": history_length, "chunk_size": chunk_size, "max_item_chars": 500}
        for name, named in runs.items():
            write_run(
                path / name.replace("/", "--"),
                name,
                named,
                dataset=dataset,
                signals=signals,
                judge=judge,
                taxonomy=record,
                asked=asked,
                unscored=unscored,
                prompts=prompts,
                data=data,
            )
        settings = RunConfig(candidates=tuple(runs), judge="lexical/overlap", n_resamples=200, **config)
        recorded = {"format": 1, "config": settings.model_dump(mode="json"), "identity": {}, "judge": None}
        write_json(path / "config.json", {**recorded, "runs": [name.replace("/", "--") for name in runs]})
        with warnings.catch_warnings(action="ignore", category=GistbenchWarning):  # few candidates are meant
            Suite.open(path).score()
        return Path(path)

    return make


@pytest.fixture
def opened(suite):
    """Write, score and open one suite."""

    def make(runs, **options):
        return Runs.open([suite("suite", runs, **options)])

    return make


@pytest.fixture(scope="session")
def interest():
    return Interest
