"""A run against a server that fails in every way ends, loses nothing, and scores what was answered as ever."""

import sqlite3
import warnings
from collections import Counter, defaultdict
from contextlib import closing

import pytest
from gistbench.hf_datasets.errors import GistbenchWarning
from gistbench.runners.config import RunConfig
from gistbench.runners.engines.openai import OpenAIEngine
from gistbench.runners.runfolder import RunFolder
from gistbench.runners.store import ResponseStore
from gistbench.runners.suite import Suite

from .fault_server import fault_server, logged

SEED = 7


def run(folder, base_url, n_users, **options):
    """Run a suite of planted users and return the folder of its one run."""
    model = {"engine": "openai", "base_url": base_url, "timeout_s": 2.0, "max_attempts": 4, "structured": False}
    config = RunConfig(
        dataset="planted",
        dataset_options={"n_users": n_users, "n_engagements_per_user": 200},
        candidates=({**model, "name": "planted-candidate"},),
        judge={**model, "name": "planted-judge"},
        pool_size=60,
        n_resamples=20,
    )
    with warnings.catch_warnings(action="ignore", category=GistbenchWarning):
        suite = Suite(folder, config, **options)
        suite.run()
    return suite.runs[0]


def attempts(folder):
    """Every attempt in a store, oldest first."""
    columns = "key, status, problem, final, n_prompt_tokens"
    with closing(sqlite3.connect(folder / "responses.sqlite")) as db:
        rows = db.execute(f"SELECT {columns} FROM outcomes ORDER BY attempt").fetchall()
    return [dict(zip(columns.split(", "), row, strict=True)) for row in rows]


def rows_by_user(run: RunFolder, table):
    """The rows of a table for each user, without the keys of requests, which tell how often one was asked."""
    rows = defaultdict(list)
    for row in run.read(table).to_pylist():
        row.pop("request_keys", None)
        rows[row["user_id"]].append(row)
    return rows


def fully_answered(run: RunFolder):
    """The users whose every request has a whole answer."""
    with ResponseStore(run.path.parent / "responses.sqlite") as store:
        cut = {
            key
            for key, outcome in store.served(
                key for row in run.read("extractions").to_pylist() for key in row["request_keys"]
            ).items()
            if outcome.status != "ok"
        }
    failed = {row["user_id"] for row in run.read("extractions").to_pylist() if cut & set(row["request_keys"])}
    failed |= {row["user_id"] for row in run.read("users").to_pylist() if row["n_chunks_answered"] < row["n_chunks"]}
    failed |= {row["user_id"] for row in run.read("shortlists").to_pylist() if row["n_unanswered"]}
    for table in ("groundings", "retrievals"):
        failed |= {row["user_id"] for row in run.read(table).to_pylist() if row["status"] == "failed"}
    unmapped = {row["interest"] for row in run.read("mappings").to_pylist() if row["status"] == "failed"}
    failed |= {row["user_id"] for row in run.read("extractions").to_pylist() if row["interest"] in unmapped}
    return {row["user_id"] for row in run.read("users").to_pylist()} - failed


@pytest.mark.parametrize(
    "n_users", [pytest.param(16, id="short"), pytest.param(600, id="whole", marks=pytest.mark.slow)]
)
def test_a_run_on_a_failing_server(tmp_path, monkeypatch, n_users):
    monkeypatch.setattr(OpenAIEngine, "_backoff_s", 0.01)
    with fault_server() as url:
        faultless = run(tmp_path / "faultless", url, n_users)
    with fault_server(faults=SEED, log=tmp_path / "calls") as url:
        faulty = run(tmp_path / "faulty", url, n_users)
    calls, kept = logged(tmp_path / "calls"), attempts(tmp_path / "faulty")
    n_requests = len({row["key"] for row in kept})
    assert n_requests > (500 if n_users == 16 else 20_000)

    # Every call has its outcome, and every request one that is final.
    assert len(kept) == len(calls)
    assert sorted(row["key"] for row in kept if row["final"]) == sorted({row["key"] for row in kept})
    met = Counter(fault for _, fault in calls)
    assert set(met) == {"none", "busy", "broken", "reset", "stall", "malformed", "truncated"}
    problems = Counter(row["problem"].split(":")[0] for row in kept if row["status"] == "error")
    # On a busy machine an answer may come too late: it was cut off, and counts there.
    n_late = sum(n for problem, n in problems.items() if problem.startswith("No answer within")) - met["stall"]
    assert n_late >= 0
    for fault, problem in (
        ("busy", "The server answered 429"),
        ("broken", "The server answered 500"),
        ("reset", "The connection failed"),
    ):
        assert met[fault] - n_late <= problems[problem] <= met[fault]
    became = defaultdict(Counter)
    for number, fault in calls:
        became[number][fault] += 1
    for row in kept:
        if row["n_prompt_tokens"]:  # it was answered, with a number that stands for the request
            assert became[row["n_prompt_tokens"]].keys() & {"none", "malformed", "truncated"}

    # What was answered is scored as it is without faults.
    users = fully_answered(faulty)
    assert n_users / 4 < len(users) < n_users
    for table in ("extractions", "shortlists", "groundings", "retrievals", "interests", "scores"):
        with_faults, without = rows_by_user(faulty, table), rows_by_user(faultless, table)
        for user in users:
            assert with_faults[user] == without[user], (table, user)

    # Nothing is spoilt: asked again where no good answer came, the whole is as if nothing had happened.
    with fault_server() as url:
        run(tmp_path / "faulty", url, n_users, retry_failed=True)
    assert (tmp_path / "faulty" / "oracle.json").read_bytes() == (tmp_path / "faultless" / "oracle.json").read_bytes()
    for table in ("scores", "interests"):
        assert rows_by_user(faulty, table) == rows_by_user(faultless, table)
