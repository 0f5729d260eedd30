"""The store: newer results without a restart, the last good ones where the source is away."""

import json
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gistbench.space.leaderboard.data import FolderSource, Snapshot, SourceError, open_store


def touch(path):
    found = path.stat()
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns + 1_000_000))


def test_newer_results_come_without_a_restart(own_results):
    store = open_store(str(own_results))
    assert not store.refresh()
    path = own_results / "index.parquet"
    pq.write_table(pq.read_table(path).slice(0, 2), path)
    touch(path)
    assert store.refresh()
    assert len(store.snapshot.index) == 2


def test_the_last_good_results_stay_where_the_source_is_away(own_results):
    store = open_store(str(own_results))
    n_rows = len(store.snapshot.index)
    own_results.rename(own_results.with_name("away"))
    assert not store.refresh()
    assert "no results folder" in store.problem
    assert len(store.snapshot.index) == n_rows
    own_results.with_name("away").rename(own_results)
    store.refresh()
    assert store.problem == ""


@pytest.mark.parametrize("content", [b"", b"PAR1 and then nothing", b"not parquet"])
def test_the_last_good_results_stay_where_the_newest_are_broken(own_results, content):
    store = open_store(str(own_results))
    before = store.snapshot
    (own_results / "index.parquet").write_bytes(content)
    assert not store.refresh()
    assert store.problem
    assert store.snapshot is before


def test_an_index_that_lacks_columns_is_refused(own_results):
    pq.write_table(pa.table({"id": ["x"]}), own_results / "index.parquet")
    with pytest.raises(SourceError, match="lacks the columns"):
        Snapshot.load(FolderSource(own_results))


@pytest.mark.parametrize("place", ["../secret", "/etc/passwd", "records/../../x", "a\\..\\b", ""])
def test_no_place_outside_the_results_is_read(results, place):
    with pytest.raises(SourceError):
        FolderSource(results).fetch(place, "")


def test_a_start_without_results_is_no_crash(tmp_path):
    (tmp_path / "empty").mkdir()
    store = open_store(str(tmp_path / "empty"))
    assert store.snapshot is None
    assert store.problem


def test_oracles_and_categories_are_known(snapshot, results):
    assert snapshot.oracles == json.loads((results / "results.json").read_text())["oracles"]
    row = snapshot.measured.iloc[0]
    assert (row["taxonomy_sha256"], 1) in snapshot.categories


def test_rows_are_those_of_the_index_with_nothing_where_values_are_missing(snapshot):
    some = snapshot.index[snapshot.index["origin"] == "published"].sort_values("ig_f1")
    rows = snapshot.rows(some)
    assert [row["id"] for row in rows] == some["id"].tolist()
    assert all(row["hm"] is None for row in rows)
    assert snapshot.row(rows[0]["id"]) == rows[0]
    assert snapshot.row("none") is snapshot.row(None) is None


def test_evaluate_is_loaded_without_what_nobody_needs():
    """And other code of the process finds what is there."""
    code = (
        "import sys, gistbench.space.leaderboard.metrics as m; m._import_evaluate(); "
        "print('torch' in sys.modules, 'transformers' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
