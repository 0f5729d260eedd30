import collections
import json
import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from gistbench.hf_datasets.errors import StoreError
from gistbench.runners.requests import FINISHED, STATUSES, Message, ModelRef, Outcome, Request
from gistbench.runners.store import _FROM_FORMAT_1, ResponseStore, store_error
from gistbench.runners.store_recovery import recover
from gistbench.runners.store_upkeep import problems, write_store
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


@pytest.fixture
def store(tmp_path):
    with ResponseStore(tmp_path / "responses.sqlite") as store:
        yield store


def put(store, request, status="ok", text="", **values):
    return store.commit(request, Outcome(request.key, status, text=text, **values))


def test_an_answer_is_served_whole(store, make_request):
    request = make_request("a")
    outcome = Outcome(request.key, "ok", "4 ‹é›", "because", "", "stop", 10, 3, 7, 5, 0.25)
    assert store.commit(request, outcome) == outcome
    assert store.served([request.key, "another"]) == {request.key: outcome}


@pytest.mark.parametrize("status", [status for status in STATUSES if status in FINISHED])
def test_what_was_answered_first_is_served(store, make_request, status):
    request = make_request("a")
    put(store, request, status, "first")
    later = put(store, request, "truncated" if status == "ok" else "refused", "second")
    assert later.text == "first"
    assert store.served([request.key])[request.key].text == "first"


def test_the_first_ok_goes_before_what_could_not_be_read(store, make_request):
    request = make_request("a")
    for status, text in [("invalid", "1"), ("truncated", "2"), ("ok", "3"), ("ok", "4"), ("error", "5")]:
        put(store, request, status, text)
    assert store.served([request.key])[request.key].text == "3"
    assert [outcome.text for outcome in store.attempts(request.key)] == ["1", "2", "3", "4", "5"]


def test_errors_are_kept_and_never_served(store, make_request):
    request = make_request("a")
    returned = put(store, request, "error", problem="no network")
    assert returned.problem == "no network"
    assert store.served([request.key]) == {}
    assert [outcome.problem for outcome in store.attempts(request.key)] == ["no network"]


@pytest.mark.parametrize("status", STATUSES)
def test_attempts_that_are_not_final_are_kept_and_never_served(store, make_request, status):
    request = make_request("a")
    returned = put(store, request, status, "busy", final=False)
    assert not returned.final
    assert store.served([request.key]) == {}
    assert [outcome.final for outcome in store.attempts(request.key)] == [False]


@given(st.lists(st.tuples(st.sampled_from(STATUSES), st.booleans()), max_size=8))
@settings(max_examples=40, deadline=None)
def test_what_is_served_follows_from_the_order_of_attempts(tmp_path_factory, attempts):
    request = Request("ground", "a", (Message("user", "a"),), ModelRef("m", "1", "p/1"))
    with ResponseStore(tmp_path_factory.mktemp("s") / "s.sqlite") as store:
        for n, (status, final) in enumerate(attempts):
            put(store, request, status, str(n), final=final)
        served = store.served([request.key])
        kept = store.attempts(request.key)
    usable = [(n, status) for n, (status, final) in enumerate(attempts) if final and status != "error"]
    rank = {"ok": 0, "truncated": 1}
    expected = min(usable, key=lambda one: (rank.get(one[1], 2), one[0]), default=(None, None))[0]
    assert [outcome.text for outcome in served.values()] == ([] if expected is None else [str(expected)])
    assert [(outcome.status, outcome.final) for outcome in kept] == attempts


def test_rows_say_what_was_asked(store, make_request):
    put(store, make_request("a", stage="map", about=("u1", "jazz")), text="1: 4")
    (row,) = store.rows(make_request("a").key)
    assert (row["stage"], row["about"], row["model"], row["attempt"]) == (
        "map",
        "('u1', 'jazz')",
        "lexical/hashtag@1",
        0,
    )
    assert row["finished_at"].endswith("Z")


def test_totals_sum_over_all_attempts(store, make_request):
    a, b, other = (make_request(text) for text in "abc")
    put(store, a, "error", n_prompt_tokens=5, seconds=0.5)
    put(store, a, n_prompt_tokens=5, n_cached_tokens=4, n_output_tokens=3, n_reasoning_tokens=2, seconds=0.25)
    put(store, b, n_prompt_tokens=7, seconds=1.0)
    put(store, other, n_prompt_tokens=1000)
    assert store.totals([a.key, b.key, "unknown"]) == {
        "n_attempts": 3,
        "n_prompt_tokens": 17,
        "n_cached_tokens": 4,
        "n_output_tokens": 3,
        "n_reasoning_tokens": 2,
        "request_seconds": 1.75,
    }
    assert store.totals([])["n_attempts"] == 0


def test_thousands_of_keys_are_looked_up_at_once(store, make_request):
    requests = [make_request(str(n)) for n in range(2_000)]
    store.query("BEGIN")
    for request in requests[::2]:
        put(store, request, text=request.about, n_output_tokens=1)
    store.query("COMMIT")
    served = store.served(request.key for request in requests)
    assert {outcome.text for outcome in served.values()} == {str(n) for n in range(0, 2_000, 2)}
    assert store.totals(request.key for request in requests)["n_output_tokens"] == 1_000
    assert len(store) == 1_000


def test_the_same_file_is_read_by_another_instance(store, make_request):
    put(store, make_request("a"), text="kept")
    with ResponseStore(store.path) as other:
        assert other.served([make_request("a").key])[make_request("a").key].text == "kept"


def test_folders_above_the_file_are_made(tmp_path):
    with ResponseStore(tmp_path / "new" / "folder" / "s.sqlite") as store:
        assert len(store) == 0


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("these are my notes, and they are long enough to be taken for the header of a database" * 20)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"notes\.txt is not a response store.*Name another file"):
        ResponseStore(path)
    assert path.read_bytes() == before


def test_the_database_of_another_program_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "bookmarks.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE bookmarks (url TEXT)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"is not a response store.*bookmarks"):
        ResponseStore(path)
    assert path.read_bytes() == before


def test_a_newer_format_is_refused(tmp_path):
    path = tmp_path / "s.sqlite"
    ResponseStore(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(
        StoreError, match=r"format 99; this version reads format 2 and older\. Install the gistbench that made it"
    ):
        ResponseStore(path)


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(StoreError, match=r"cannot be used: unable to open database file\. It is a folder"):
        ResponseStore(tmp_path)


@pytest.mark.parametrize("mode", ["read", "alone"])
def test_what_is_only_looked_at_is_not_made(tmp_path, mode):
    with pytest.raises(StoreError, match=r"There is no response store .*s\.sqlite"):
        ResponseStore(tmp_path / "s.sqlite", mode=mode)
    (tmp_path / "s.sqlite").touch()
    with pytest.raises(StoreError, match=r"is not a response store \(it is empty"):
        ResponseStore(tmp_path / "s.sqlite", mode=mode)
    assert (tmp_path / "s.sqlite").stat().st_size == 0


def test_the_rows_can_be_read_in_plain_text(store, make_request):
    request = make_request("a", stage="map")
    with store.engine(lambda: {"dtype": "bfloat16"}):
        put(store, request, text="4", n_prompt_tokens=3)
    ((key, status, stage, model, engine),) = store.query("SELECT key, status, stage, model, engine FROM outcomes")
    assert (key, status, stage, model) == (request.key, "ok", "map", "lexical/hashtag@1")
    assert json.loads(engine) == {"dtype": "bfloat16"}


def test_every_engine_is_described_when_it_has_answered(store, make_request):
    a, b, c, d, asked_of_none = (make_request(text) for text in "abcde")
    asked = []

    def describe():
        asked.append(len(store))
        return {"engine": "vllm", "dtype": "bfloat16"}

    put(store, a)
    with store.engine(describe):
        assert asked == []
        put(store, b)
        put(store, c)
        with store.engine(lambda: {"engine": "openai"}):
            put(store, d, "error")
        put(store, d)
        put(store, a, text="later")  # the first answer is the one that is served
    assert asked == [1]
    made_by = store.rows(b.key)[0]["made_by"]
    assert store.engines_of([a.key, b.key, b.key, c.key, d.key, asked_of_none.key]) == [
        {"made_by": made_by, "n_answers": 3, "engine": {"engine": "vllm", "dtype": "bfloat16"}},
        {"made_by": "", "n_answers": 1, "engine": None},
    ]
    assert [row["made_by"] == made_by for row in store.rows(d.key)] == [False, True]
    assert store.engines_of([]) == []
    assert json.loads(store.engines()[made_by])["dtype"] == "bfloat16"


def test_a_changed_engine_reuses_every_answer(store, make_request):
    request = make_request("a")
    with store.engine(lambda: {"dtype": "float32", "tensor_parallel_size": 1}):
        outcome = put(store, request, text="4")
    with store.engine(lambda: {"dtype": "bfloat16", "tensor_parallel_size": 8}):
        assert store.served([request.key]) == {request.key: outcome}


def test_many_rows_come_sorted_in_parts(store, make_request, monkeypatch):
    monkeypatch.setattr("gistbench.runners.store._CHUNK_ROWS", 3)
    requests = [make_request(text, stage=stage) for text in "dacb" for stage in ("map", "ground")][::2]
    for request in requests:
        put(store, request, "error")
        put(store, request)
    pairs = [(request.key, stage) for request in requests for stage in ("retrieve", "ground")]
    chunks = list(store.rows_of([*pairs, *pairs, ("f" * 64, "ground")]))
    assert [len(chunk) for chunk in chunks] == [3, 3, 3, 3, 3, 1]
    assert [(row.stage, row.about, row.attempt) for chunk in chunks for row in chunk] == [
        (stage, about, attempt) for stage in ("ground", "retrieve") for about in "abcd" for attempt in (0, 1)
    ]
    assert [row.about for chunk in store.scan() for row in chunk] == list("ddaaccbb")


def test_long_texts_make_smaller_parts(store, make_request, monkeypatch):
    monkeypatch.setattr("gistbench.runners.store._CHUNK_CHARS", 10)
    for text in "abc":
        put(store, make_request(text), text="x" * 6, reasoning="y")
    assert [len(chunk) for chunk in store.scan()] == [2, 1]


def test_outcomes_are_committed_while_many_rows_are_read(store, make_request, monkeypatch):
    monkeypatch.setattr("gistbench.runners.store._CHUNK_ROWS", 1)
    requests = [make_request(text) for text in "abc"]
    for request in requests:
        put(store, request)
    read = []
    for (row,) in store.rows_of([(request.key, "ground") for request in requests]):
        put(store, make_request(f"new {row.about}"))
        with ResponseStore(store.path, mode="read") as other:
            assert len(other) == 4 + len(read)
        read.append(row.about)
    assert read == ["a", "b", "c"]


def test_the_attempts_of_another_store_are_added_once(store, tmp_path, make_request):
    a, b = make_request("a"), make_request("b")
    put(store, a, "invalid", "ours")
    with ResponseStore(tmp_path / "other.sqlite") as other:
        with other.engine(lambda: {"engine": "x"}):
            for status in ("error", "ok"):
                put(other, a, status, "theirs", n_output_tokens=2, final=status == "ok")
        put(other, b)
        (theirs,) = other.scan()
        engines = other.engines()
    assert [store.add(theirs, engines) for _ in range(3)] == [3, 0, 0]
    assert [(row["attempt"], row["text"]) for row in store.rows(a.key)] == [(0, "ours"), (1, "theirs"), (2, "theirs")]
    assert [row._replace(attempt=0) for chunk in store.scan() for row in chunk][1:] == [
        row._replace(attempt=0) for row in theirs
    ]
    assert [one["engine"] for one in store.engines_of([a.key])] == [{"engine": "x"}]


def test_nothing_is_added_when_not_all_can_be(store, tmp_path, make_request):
    put(store, make_request("a"))
    (rows,) = store.scan()
    with ResponseStore(tmp_path / "other.sqlite") as other:
        with pytest.raises(AttributeError):
            other.add([*rows, None], {})
        assert len(other) == 0
        put(other, make_request("b"))
        assert len(other) == 1


FORMAT_1 = """
CREATE TABLE outcomes (
    key TEXT NOT NULL, attempt INTEGER NOT NULL, status TEXT NOT NULL, text TEXT NOT NULL, reasoning TEXT NOT NULL,
    problem TEXT NOT NULL, finish_reason TEXT NOT NULL, n_prompt_tokens INTEGER NOT NULL,
    n_cached_tokens INTEGER NOT NULL, n_output_tokens INTEGER NOT NULL, n_reasoning_tokens INTEGER NOT NULL,
    seconds REAL NOT NULL, final INTEGER NOT NULL, stage TEXT NOT NULL, about TEXT NOT NULL, model TEXT NOT NULL,
    finished_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')), PRIMARY KEY (key, attempt)
);
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY, work TEXT NOT NULL, seconds REAL NOT NULL,
    started_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);
PRAGMA user_version = 1;
PRAGMA journal_mode = WAL;
"""


@pytest.fixture
def old_store(tmp_path, make_request):
    """A store of format 1 with three attempts, and the rows it should have now."""
    path = tmp_path / "old.sqlite"
    a, b = make_request("a").key, make_request("b", stage="map").key
    rows = [
        (b, 0, "error", "", "", "busy", "", 1, 0, 0, 0, 0.5, 0, "map", "b", "m@1", "2026-01-31T23:59:59.999Z"),
        (a, 0, "ok", "‹4›", "so", "", "stop", 9, 8, 7, 6, 1.25, 1, "ground", "a", "m@1", "2026-02-01T00:00:00.000Z"),
        (b, 1, "ok", "5", "", "", "stop", 2, 0, 1, 0, 0.25, 1, "map", "b", "m@1", "2026-02-01T00:00:00.001Z"),
    ]
    db = sqlite3.connect(path)
    db.executescript(FORMAT_1)
    db.executemany(f"INSERT INTO outcomes VALUES ({', '.join('?' * 17)})", rows)
    db.execute("INSERT INTO sessions (work, seconds) VALUES ('judge', 12.5)")
    db.commit()
    db.close()
    return path, rows


def in_old_columns(store):
    return [
        (
            *(row.key, row.attempt, row.status, row.text, row.reasoning, row.problem, row.finish_reason),
            *(row.n_prompt_tokens, row.n_cached_tokens, row.n_output_tokens, row.n_reasoning_tokens, row.seconds),
            *(int(row.final), row.stage, row.about, row.model, row.finished_at),
        )
        for chunk in store.scan()
        for row in chunk
    ]


@pytest.mark.parametrize("mode", ["write", "read", "alone"])
def test_an_older_store_is_brought_up_to_date_with_all_it_holds(old_store, mode):
    path, rows = old_store
    ResponseStore(path, mode=mode).close()
    with ResponseStore(path) as store:
        assert in_old_columns(store) == rows
        assert store.served([rows[0][0]])[rows[0][0]].text == "5"
        assert store.wall_seconds("judge") == 12.5
        assert store.engines_of([rows[0][0]]) == [{"made_by": "", "n_answers": 1, "engine": None}]
        assert store.query("PRAGMA integrity_check") == [("ok",)]
        assert problems(store) == []


def test_an_older_store_stays_as_it_was_when_it_cannot_be_brought_up_to_date(old_store, monkeypatch):
    path, rows = old_store
    too_much = (*_FROM_FORMAT_1, "SELECT no_such_thing")
    with monkeypatch.context() as patch:
        patch.setattr("gistbench.runners.store._FROM_FORMAT_1", too_much)
        with pytest.raises(StoreError, match="cannot be used: no such column"):
            ResponseStore(path)
    db = sqlite3.connect(path)
    assert db.execute("SELECT * FROM outcomes ORDER BY rowid").fetchall() == rows
    assert db.execute("PRAGMA user_version").fetchone() == (1,)
    db.close()
    with ResponseStore(path) as store:
        assert in_old_columns(store) == rows


def test_one_process_keeps_all_others_out(store, make_request):
    put(store, make_request("a"))
    with pytest.raises(StoreError, match=r"database is locked\. Another process is at work in it"):
        ResponseStore(store.path, mode="alone", timeout_s=0)
    store.close()
    with ResponseStore(store.path, mode="alone", timeout_s=0) as alone:
        assert len(alone) == 1
        for mode in ("write", "read"):
            with pytest.raises(StoreError, match="Another process is at work in it"):
                ResponseStore(store.path, mode=mode, timeout_s=0)


def test_a_write_that_waits_too_long_says_so_and_can_be_repeated(store, make_request):
    put(store, make_request("a"))
    with ResponseStore(store.path, timeout_s=0) as other:
        store.query("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=r"database is locked\. Another process is at work in it"):
            put(other, make_request("b"))
        store.query("COMMIT")
        put(other, make_request("b"))
    assert len(store) == 2


def _write(path, name, n, barrier):
    barrier.wait()
    with ResponseStore(path) as store:
        for i in range(n):
            for key in (f"{name}-{i}", f"shared-{i}"):
                request = Request("ground", key, (Message("user", key),), ModelRef("m", "1", "p/1"))
                store.commit(request, Outcome(request.key, "ok", text=f"{name} {key}"))


def test_several_processes_write_at_once(tmp_path):
    n, names = 60, ("a", "b", "c", "d")
    path = tmp_path / "s.sqlite"
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(len(names))
    writers = [context.Process(target=_write, args=(path, name, n, barrier)) for name in names]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0] * 4
    model = ModelRef("m", "1", "p/1")
    own = [Request("", "", (Message("user", f"{name}-{i}"),), model).key for name in names for i in range(n)]
    shared = [Request("", "", (Message("user", f"shared-{i}"),), model).key for i in range(n)]
    with ResponseStore(path) as store:
        assert len(store) == 2 * n * len(names)
        assert len(store.served(own)) == n * len(names)
        for i, key in enumerate(shared):
            rows = store.rows(key)
            assert [row["attempt"] for row in rows] == [0, 1, 2, 3]
            assert sorted(row["text"] for row in rows) == [f"{name} shared-{i}" for name in names]


WRITER = """
import os, sys
from gistbench.hf_datasets.errors import StoreError
from gistbench.runners.requests import Message, ModelRef, Outcome, Request
from gistbench.runners.store import ResponseStore
path, name, n, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
store = ResponseStore(path)
for i in range(n):
    request = Request("ground", str(i), (Message("user", f"{name} {i}"),), ModelRef("m", "1", "p/1"))
    try:
        store.commit(request, Outcome(request.key, "ok", text=f"{name} {i}" + "." * size))
    except StoreError as error:
        print(f"failed {error}", flush=True)
        break
    os.write(1, f"{request.key} {name} {i}\\n".encode())
"""


def start_writer(path, name, n=1_000_000, size=0, **options):
    arguments = [sys.executable, "-c", WRITER, str(path), name, str(n), str(size)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, **options)


def said_by(lines):
    """What a writer says that it has committed: texts by keys."""
    complete = [line.decode().rstrip("\n").split(" ", 1) for line in lines if line.endswith(b"\n")]
    return {key: text for key, text in complete if key != "failed"}


def check_all_is_there(path, said, size=0):
    with ResponseStore(path) as store:
        assert store.query("PRAGMA integrity_check") == [("ok",)]
        assert problems(store) == []
        assert {key: outcome.text.rstrip(".") for key, outcome in store.served(said).items()} == said
        return len(store)


@pytest.mark.parametrize("n_before", [1, 300])
def test_a_killed_writer_loses_nothing_that_was_committed(tmp_path, n_before):
    path = tmp_path / "s.sqlite"
    writer = start_writer(path, "a")
    lines = [writer.stdout.readline() for _ in range(n_before)]
    os.kill(writer.pid, signal.SIGKILL)
    lines += writer.stdout.readlines()
    writer.wait()
    writer.stdout.close()
    said = said_by(lines)
    # One commit may have come before its line could be written.
    assert check_all_is_there(path, said) in (len(said), len(said) + 1)


def kill_writers(path, n_writers, n_rounds, seed):
    """Start writers over and over, and kill each after a random number of commits while the others go on."""
    rng = random.Random(seed)
    said = {}
    for n_round in range(n_rounds):
        writers = [start_writer(path, f"{n_round}-{n}", size=rng.choice([0, 3_000])) for n in range(n_writers)]
        for writer in writers:
            lines = [writer.stdout.readline() for _ in range(rng.randrange(60))]
            os.kill(writer.pid, signal.SIGKILL)
            said |= said_by(lines + writer.stdout.readlines())
            writer.wait()
            writer.stdout.close()
        n_kept = check_all_is_there(path, said)
        assert len(said) <= n_kept <= len(said) + n_writers * (n_round + 1)
    return said


def test_killed_writers_lose_nothing(tmp_path):
    assert kill_writers(tmp_path / "s.sqlite", n_writers=3, n_rounds=1, seed=5)


@pytest.mark.slow
def test_writers_killed_at_thirty_moments_lose_nothing(tmp_path):
    assert len(kill_writers(tmp_path / "s.sqlite", n_writers=3, n_rounds=10, seed=6)) > 300


def test_a_full_store_says_so_and_loses_nothing(store, make_request):
    put(store, make_request("first"))
    store.query(f"PRAGMA max_page_count = {store.query('PRAGMA page_count')[0][0] + 4}")
    requests = map(make_request, map(str, range(100)))
    with pytest.raises(StoreError, match=r"is full\. The disk is full\. What was committed is kept: make room and run"):
        collections.deque(put(store, request, text="x" * 2_000) for request in requests)
    n_kept = len(store)
    assert n_kept > 1
    store.query("PRAGMA max_page_count = 1000000")
    put(store, make_request("last"))
    assert len(store) == n_kept + 1
    assert problems(store) == []


def small_disk(script, *arguments):
    """Run a shell script with a disk of 600 KB at $DISK, which is gone when it ends; return what it says."""
    mount = 'mount -t tmpfs -o size=600k none "$DISK" || exit 77\n'
    found = shutil.which("unshare")
    command = [found or "false", "-rm", "sh", "-c", mount + script, "sh", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"DISK": arguments[0]})
    if found is None or done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"no disk can be mounted here: {done.stderr}")
    return done.stdout


def test_a_full_disk_stops_a_writer_and_loses_nothing(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    script = """
    "$2" -c "$3" "$1/s.sqlite" a 1000 2000
    cp "$1"/s.sqlite* "$4"
    mount -o remount,size=4000k "$1"
    "$2" -c "$3" "$1/s.sqlite" b 20 0
    cp "$1"/s.sqlite "$4/later.sqlite"
    """
    lines = small_disk(script, str(disk), sys.executable, WRITER, str(tmp_path)).splitlines(keepends=True)
    (failed,) = [line for line in lines if line.startswith("failed")]
    assert "The disk is full. What was committed is kept: make room and run the same command again." in failed
    said = said_by([line.encode() for line in lines])
    before = {key: text for key, text in said.items() if text.startswith("a ")}
    assert len(before) > 20
    assert len(said) == len(before) + 20
    assert check_all_is_there(tmp_path / "s.sqlite", before) == len(before)
    assert check_all_is_there(tmp_path / "later.sqlite", said) == len(said)


def test_a_file_that_may_not_grow_stops_a_writer_and_loses_nothing(tmp_path):
    path = tmp_path / "s.sqlite"
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n{WRITER}"
    command = [sys.executable, "-c", limit, str(path), "a", "1000", "2000"]
    lines = subprocess.run(command, capture_output=True, check=True).stdout.splitlines(keepends=True)
    assert b"The disk is full, over a quota, or failing. What was committed is kept" in lines[-1]
    said = said_by(lines)
    assert len(said) > 5
    assert check_all_is_there(path, said) == len(said)


READER = """
import sys
from gistbench.hf_datasets.errors import StoreError
from gistbench.runners.store import ResponseStore
with ResponseStore(sys.argv[1], mode="read") as store:
    print(len(store), len(next(store.scan())))
for path in sys.argv[1:]:
    try:
        ResponseStore(path)
    except StoreError as error:
        print(error)
"""


def test_a_read_only_disk_is_read_and_not_written(tmp_path, store, make_request):
    put(store, make_request("a"))
    store.close()
    disk = tmp_path / "disk"
    disk.mkdir()
    script = """
    cp "$4" "$1/s.sqlite"
    mount -o remount,ro "$1"
    "$2" -c "$3" "$1/s.sqlite" "$1/new.sqlite" "$1/new/new.sqlite"
    """
    said = small_disk(script, str(disk), sys.executable, READER, str(store.path)).splitlines()
    assert said[0] == "1 1"
    assert [line.split(" cannot be used: ")[0].rsplit("/", 1)[1] for line in said[1:]] == ["s.sqlite"] + 2 * [
        "new.sqlite"
    ]
    assert all("another --store" in line for line in said[1:])


def test_a_lock_on_a_file_that_may_not_be_written_to_is_no_full_disk(store, monkeypatch):
    refused = sqlite3.OperationalError("disk I/O error")
    refused.sqlite_errorcode = sqlite3.SQLITE_IOERR_LOCK
    assert "The disk is full" in str(store_error(store.path, refused))
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert "The file or its folder is read-only. Make it writable" in str(store_error(store.path, refused))


@pytest.fixture
def filled(store, make_request):
    """The path of a closed store of 400 attempts, with answers of every length, and its rows."""
    store.query("BEGIN")
    with store.engine(lambda: {"engine": "x"}):
        for n in range(400):
            put(
                store, make_request(str(n)), text="é" * (n * n // 20 if n % 5 == 0 else n % 50), reasoning="r" * (n % 7)
            )
    store.query("COMMIT")
    rows = [row for chunk in store.scan() for row in chunk]
    store.close()
    return store.path, rows


def damage(path, place, data):
    with path.open("rb+") as file:
        file.seek(place)
        file.write(data)


def use(path, rows):
    with ResponseStore(path) as store:
        store.served(row.key for row in rows)
        list(store.rows_of((row.key, row.stage) for row in rows))
        found = problems(store)
    assert found == []


def test_a_whole_store_is_recovered_whole(filled):
    path, rows = filled
    chunks, engines = recover(path)
    assert sorted(row for chunk in chunks for row in chunk) == sorted(rows)
    assert engines == {rows[0].made_by: '{"engine":"x"}'}


def test_what_stands_in_the_log_is_recovered(store, make_request):
    put(store, make_request("a"), text="x" * 10_000)
    put(store, make_request("b"))
    rows = [row for chunk in store.scan() for row in chunk]
    assert store.path.with_name("responses.sqlite-wal").stat().st_size > 0
    assert [row for chunk in recover(store.path).chunks for row in chunk] == rows


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("header", "is not a response store .*its header is damaged: .*export .* --recover --to"),
        ("cut", "It is damaged. .*store verify .*export .* --recover --to"),
        ("page", "It is damaged. .*store verify .*export .* --recover --to"),
        ("text", "cannot be used: an answer to request [0-9a-f]{64} was changed since. It is damaged."),
    ],
)
def test_damage_is_noticed_and_all_other_answers_are_recovered(filled, tmp_path, what, message):
    path, rows = filled
    data = path.read_bytes()
    place = data.index("é".encode() * 20)
    n_lost_at_most = {"header": 0, "cut": 200, "page": 60, "text": 1}[what]
    if what == "header":
        damage(path, 0, b"\xff" * 16)
    elif what == "cut":
        os.truncate(path, len(data) * 3 // 4)
    elif what == "page":
        damage(path, place // 4096 * 4096, b"\xff" * 4096)
    else:
        damage(path, place + 4, "à".encode())
    damaged = path.read_bytes()
    with pytest.raises(StoreError, match=message):
        use(path, rows)
    assert path.read_bytes() == damaged
    recovered = recover(path)
    n_saved = write_store(recovered.chunks, recovered.engines, tmp_path / "saved.sqlite")
    assert n_saved >= len(rows) - n_lost_at_most
    assert n_saved < len(rows) or what == "header"
    with ResponseStore(tmp_path / "saved.sqlite") as store:
        assert problems(store) == []
        assert {row for chunk in store.scan() for row in chunk} <= set(rows)


@given(st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_recovery_gives_nothing_that_was_not_there(filled, tmp_path, rng):
    path, rows = filled
    data = bytearray(path.read_bytes())
    for _ in range(rng.randrange(1, 200)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    broken = tmp_path / "broken.sqlite"
    broken.write_bytes(data[: rng.randrange(len(data))])
    # Not even what is no part of an answer is made up for other answers.
    known = {(row.key, row.status, row.text, row.reasoning) for row in rows}
    for chunk in recover(broken).chunks:
        assert {(row.key, row.status, row.text, row.reasoning) for row in chunk} <= known


@pytest.mark.parametrize(
    ("ms", "shown"), [(-140_000_000_000_000, "1970-01-01T00:00:00.000Z"), (2**62, "9999-12-31T23:59:59.000Z")]
)
def test_an_answer_is_saved_though_its_time_is_damaged(filled, tmp_path, ms, shown):
    path, rows = filled
    broken = Path(shutil.copy(path, tmp_path / "broken.sqlite"))
    with closing(sqlite3.connect(broken)) as db, db:
        db.execute("UPDATE attempts SET finished_ms = ?", [ms])
    found = [row for chunk in recover(broken).chunks for row in chunk]
    assert {row.key for row in found} == {row.key for row in rows}
    assert {row.finished_at for row in found} == {shown}
    with ResponseStore(broken) as store:
        assert {row.finished_at for chunk in store.scan() for row in chunk} == {shown}


def test_a_file_of_noise_gives_nothing(tmp_path):
    path = tmp_path / "noise"
    path.write_bytes(random.Random(1).randbytes(50_000))
    assert list(recover(path).chunks) == []
    with pytest.raises(StoreError, match="cannot be read"):
        recover(tmp_path / "none")


def test_a_text_that_is_none_is_damage_and_is_not_shown(filled, tmp_path):
    path, _ = filled
    broken = Path(shutil.copy(path, tmp_path / "broken.sqlite"))
    with closing(sqlite3.connect(broken)) as db, db:
        db.execute("UPDATE attempts SET text = CAST(x'736563726574ff' AS TEXT)")
    with ResponseStore(broken) as store, pytest.raises(StoreError, match="--recover") as told:
        list(store.scan())
    assert "secret" not in str(told.value)
