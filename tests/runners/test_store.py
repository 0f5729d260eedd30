import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest
from gistbench.hf_datasets.errors import StoreError
from gistbench.runners.requests import FINISHED, STATUSES, Message, ModelRef, Outcome, Request
from gistbench.runners.store import ResponseStore
from hypothesis import given
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


def test_ten_thousand_keys_are_looked_up_quickly(store, make_request):
    requests = [make_request(str(n)) for n in range(10_000)]
    store._db.execute("BEGIN")
    for request in requests[::2]:
        put(store, request, text=request.about, n_output_tokens=1)
    store._db.execute("COMMIT")
    started = time.monotonic()
    served = store.served(request.key for request in requests)
    assert {outcome.text for outcome in served.values()} == {str(n) for n in range(0, 10_000, 2)}
    assert store.totals(request.key for request in requests)["n_output_tokens"] == 5_000
    assert time.monotonic() - started < 2
    assert len(store) == 5_000


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
    with pytest.raises(StoreError, match="format 99; this version reads format 1"):
        ResponseStore(path)


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(StoreError, match="cannot be used: unable to open database file"):
        ResponseStore(tmp_path)


def _write(path, name, n, barrier):
    barrier.wait()
    with ResponseStore(path) as store:
        for i in range(n):
            for key in (f"{name}-{i}", f"shared-{i}"):
                request = Request("ground", key, (Message("user", key),), ModelRef("m", "1", "p/1"))
                store.commit(request, Outcome(request.key, "ok", text=f"{name} {key}"))


def test_several_processes_write_at_once(tmp_path):
    n, names = 200, ("a", "b", "c", "d")
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
from gistbench.runners.requests import Message, ModelRef, Outcome, Request
from gistbench.runners.store import ResponseStore
store = ResponseStore(sys.argv[1])
for i in range(1_000_000):
    request = Request("ground", str(i), (Message("user", str(i)),), ModelRef("m", "1", "p/1"))
    store.commit(request, Outcome(request.key, "ok", text=str(i)))
    os.write(1, f"{i}\\n".encode())
"""


@pytest.mark.parametrize("n_before", [1, 300])
def test_a_killed_writer_loses_nothing_that_was_committed(tmp_path, n_before):
    path = tmp_path / "s.sqlite"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
    lines = [writer.stdout.readline() for _ in range(n_before)]
    os.kill(writer.pid, signal.SIGKILL)
    lines += writer.stdout.readlines()
    writer.wait()
    writer.stdout.close()
    said = [int(line) for line in lines if line.endswith(b"\n")]
    model = ModelRef("m", "1", "p/1")
    keys = {Request("", "", (Message("user", str(i)),), model).key: str(i) for i in said}
    with ResponseStore(path) as store:
        assert {key: outcome.text for key, outcome in store.served(keys).items()} == keys
        assert store._db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        # One commit may have come before its line could be written.
        assert len(store) in (len(said), len(said) + 1)
