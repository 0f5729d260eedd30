import hashlib
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gistbench.hf_datasets.errors import ConfigError, DataError, StoreError
from gistbench.runners.qrels import recommend as module
from gistbench.runners.qrels.imports import read_imports
from gistbench.runners.qrels.pool import pool
from gistbench.runners.qrels.ratings import Ratings
from gistbench.runners.qrels.recommend import recommend
from gistbench.runners.qrels.runs import RunRecord, read_run_table, run_path, write_run
from gistbench.runners.qrels.sample import sample
from gistbench.runners.qrels.setting import Setting
from gistbench.runners.qrels.split import split
from gistbench.runners.qrels.work import Work
from gistbench.runners.recommenders.registry import load_settings


def times(work):
    return {path.name: path.stat().st_mtime_ns for path in (work.path / "runs").iterdir()}


def digests(work):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (work.path / "runs").glob("*.parquet")}


class TestRuns:
    def test_lists_hold_no_training_item_and_end_at_k(self, work, quick):
        ratings = Ratings.read(work)
        for one in quick:
            table = read_run_table(work, one.name)
            assert table["system"].unique().to_pylist() == [one.name]
            users = np.array([ratings.users.to_pylist().index(u) for u in table["user"].unique().to_pylist()])
            assert (users == ratings.evaluated).all()
            row = np.searchsorted(ratings.users.to_pylist(), table["user"].to_pylist())
            item = np.searchsorted(ratings.items.to_pylist(), table["item"].to_pylist())
            assert not np.asarray(ratings.train[row, item]).any()
            rank, score = table["rank"].to_numpy(), table["score"].to_numpy()
            assert rank.max() <= 100
            within = rank[1:] > 1
            assert (score[1:][within] <= score[:-1][within]).all()
            same = within & (score[1:] == score[:-1])
            assert (item[1:][same] < item[:-1][same]).all(), "ties must come by item id descending"

    def test_trec_says_the_same_in_the_order_that_trec_eval_would_make(self, work):
        table = read_run_table(work, "popularity")
        lines = [line.split() for line in run_path(work, "popularity", "run").read_text().splitlines()]
        assert [line[0] for line in lines] == table["user"].to_pylist()
        assert [line[2] for line in lines] == table["item"].to_pylist()
        assert [int(line[3]) for line in lines] == table["rank"].to_pylist()
        assert {line[5] for line in lines} == {"popularity"}
        ordered = sorted(lines, key=lambda line: (float(line[4]), line[2].encode()), reverse=True)
        assert sorted(ordered, key=lambda line: line[0]) == lines

    def test_a_file_in_parts_is_the_same(self, work, monkeypatch):
        from gistbench.runners.qrels import runs

        whole = run_path(work, "wsr-ub", "run").read_bytes()
        monkeypatch.setattr(runs, "_TREC_ROWS", 17)
        runs.write_trec(work, "wsr-ub")
        assert run_path(work, "wsr-ub", "run").read_bytes() == whole

    def test_record(self, work):
        record = work.record("recommend")
        assert [one["system"] for one in record["runs"]][:3] == ["random", "popularity", "puresvd-20"]
        assert record["n_users"] == 120
        one = next(one for one in record["runs"] if one["system"] == "wsr-ub-50")
        assert (one["algorithm"], one["representative"], one["parameters"]) == ("wsr-ub", False, {"n_neighbours": 50})

    def test_without_trec(self, work, quick):
        recommend(work, settings=quick[:1], seed=9, trec=False)
        assert not run_path(work, "random", "run").exists()
        recommend(work, settings=quick[:1], seed=9)
        assert run_path(work, "random", "run").exists()


class TestResume:
    def test_finished_runs_are_kept_byte_for_byte(self, work, quick):
        before, record = times(work), (work.path / "recommend.json").read_bytes()
        recommend(work, settings=quick)
        assert times(work) == before
        assert (work.path / "recommend.json").read_bytes() == record

    def test_another_setting_makes_that_run_again_and_no_other(self, work, quick):
        before = times(work)
        changed = [
            one if one.name != "wsr-ib" else load_settings(names=["wsr-ib-50"])[0].__class__(
                "wsr-ib", one.recommender.model_copy(update={"n_neighbours": 3}), True
            )
            for one in quick
        ]  # fmt: skip
        recommend(work, settings=changed)
        again = {name.rsplit(".", 1)[0] for name, at in times(work).items() if before.get(name) != at}
        assert again == {"wsr-ib"}

    def test_interrupted_with_another_seed_nothing_that_stands_on_the_old_runs_counts(self, work, quick, monkeypatch):
        sample(work, sizes=[20], n_repeats=1, take=20)
        pool(work, depth=5)
        make = module._make

        def stops(folder, one, *rest):
            if one.name == "popularity":
                raise KeyboardInterrupt
            return make(folder, one, *rest)

        monkeypatch.setattr(module, "_make", stops)
        with pytest.raises(KeyboardInterrupt):
            recommend(work, settings=quick, seed=1)
        assert not [step for step in ("recommend", "sample", "pool") if work.has(step)]
        assert not (work.path / "pool.parquet").exists()
        with pytest.raises(StoreError, match=r"has no recommend\.json"):
            module.systems(work)

    def test_the_same_runs_made_again_leave_what_stands_on_them(self, work, quick):
        sample(work, sizes=[20], n_repeats=1, take=20)
        pool(work, depth=5)
        run_path(work, "kld", "json").unlink()
        with pytest.raises(StoreError, match=r"kld\.parquet is not the run that .*recommend\.json tells of"):
            Setting.read(work)
        recommend(work, settings=quick)
        assert work.has("pool")
        assert len(Setting.read(work).systems["runs"]) == len(quick)

    @pytest.mark.parametrize("read", [sample, pool])
    def test_a_run_made_otherwise_is_not_read(self, work, quick, read):
        if read is pool:
            sample(work, sizes=[20], n_repeats=1, take=20)
        path = run_path(work, "wsr-ib", "json")
        path.write_text(path.read_text().replace(json.loads(path.read_text())["fingerprint"], "0" * 64))
        with pytest.raises(StoreError, match=r"wsr-ib\.parquet is not the run"):
            read(work)

    def test_a_damaged_table_is_made_again(self, work, quick):
        before = digests(work)
        path = run_path(work, "kld", "parquet")
        path.write_bytes(path.read_bytes()[:100])
        recommend(work, settings=quick)
        assert digests(work) == before

    def test_another_split_makes_all_again(self, work, quick, ratings_csv):
        before = digests(work)
        split(work, str(ratings_csv), seed=1)
        recommend(work, settings=quick)
        assert not set(before.values()) & set(digests(work).values())

    def test_killed_and_resumed_it_ends_with_the_same_bytes(self, work, quick, ratings_csv, tmp_path):
        script = """
import sys, time
from pathlib import Path
from gistbench.runners.qrels import recommend as module
from gistbench.runners.qrels.work import Work
from gistbench.runners.recommenders.registry import load_settings
plain = module.best_items
def slow(scorer, train, users, k):
    for at, lists in enumerate(plain(scorer, train, users, k)):
        yield lists
    Path(sys.argv[1], "in_a_run").touch()
    time.sleep(0 if not Path(sys.argv[1], "runs", "puresvd-20.json").exists() else 600)
module.best_items = slow
names = sys.argv[2].split(",")
module.recommend(Work(sys.argv[1]), settings=load_settings(names=names), trec=False)
"""
        folder = Work(tmp_path / "killed")
        split(folder, str(ratings_csv))
        command = [sys.executable, "-c", script, str(folder.path), ",".join(one.name for one in quick)]
        process = subprocess.Popen(command, env={**os.environ, "PYTHONHASHSEED": "7"})
        deadline = time.monotonic() + 900
        while not (run_path(folder, "puresvd-20", "json").exists() and list((folder.path / "runs").glob(".wsr-ub*"))):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not folder.has("recommend")
        finished = times(folder)
        assert "wsr-ub.json" not in finished
        recommend(folder, settings=quick, trec=False)
        after = times(folder)
        assert all(after[name] == at for name, at in finished.items() if not name.startswith("."))
        assert digests(folder) == digests(work)


class TestMemory:
    def test_what_does_not_fit_is_said_before_anything_is_made(self, work, quick):
        before = times(work)
        with pytest.raises(ConfigError, match=r"do not fit into 0\.0 GiB") as error:
            recommend(work, settings=quick, seed=5, memory_bytes=1)
        assert "no item cut-off makes it fit" in str(error.value)
        assert "--max-items" in str(error.value)
        assert times(work) == before

    def test_a_cut_off_is_offered(self, work, quick):
        ease = [one for one in quick if one.name == "ease"]
        ratings = Ratings.read(work)
        with pytest.raises(
            ConfigError, match=r"ease needs about .* GiB for 120 users and .* items; with an item cut-off of \d+"
        ):
            module.check_memory(
                ease, ratings, memory_bytes=module._BLOCK_BYTES + 8 * 50**2 + 30 * 50 * 1024 + 48 * ratings.train.nnz
            )

    def test_or_they_are_left_out_and_named(self, work, quick):
        with pytest.raises(ConfigError, match="No run is left"):
            recommend(work, settings=quick, seed=5, memory_bytes=1, skip_unfit=True)
        limit = module._BLOCK_BYTES + 10_000
        record = recommend(work, settings=quick[:3], seed=5, memory_bytes=limit, skip_unfit=True)
        assert [one["system"] for one in record["runs"]] == ["random", "popularity"]
        assert list(record["unfit"]) == ["puresvd-20"]
        assert record["stand_ins"] == {}

    def test_another_run_stands_for_an_algorithm_whose_first_does_not_fit(self, work, quick, monkeypatch):
        monkeypatch.setattr(module, "check_memory", lambda *args, **options: {"wsr-ub": "needs more"})
        record = recommend(work, settings=quick, seed=5, skip_unfit=True)
        standing = [one["algorithm"] for one in record["runs"] if one["representative"]]
        assert sorted(standing) == sorted({one["algorithm"] for one in record["runs"]})
        assert next(one for one in record["runs"] if one["system"] == "wsr-ub-50")["representative"]
        assert record["stand_ins"] == {"wsr-ub-50": "wsr-ub"}
        assert json.loads(run_path(work, "wsr-ub-50", "json").read_text())["representative"]

    def test_finished_runs_need_no_memory(self, work, quick):
        recommend(work, settings=quick, memory_bytes=1)

    def test_the_cut_off_reaches_only_models_of_pairs(self, work, quick):
        record = recommend(work, settings=quick, max_items=20)
        by_name = {one["system"]: one for one in record["runs"]}
        assert by_name["ease"]["parameters"]["max_items"] == 20
        assert "max_items" not in by_name["wsr-ib"]["parameters"]
        assert len(read_run_table(work, "ease")["item"].unique()) <= 20

    def test_what_is_free(self):
        assert module.available_bytes() > 100 << 20


def test_users_without_test_items_are_trained_on_and_counted(tmp_path, quick):
    lines = [f"a,{i},3" for i in range(10)] + [f"b,{i},4" for i in range(5, 15)] + ["c,3,5", "d,99,2"]
    path = tmp_path / "r.csv"
    path.write_text("\n".join(["user,item,rating", *lines]))
    work = Work(tmp_path / "w")
    assert split(work, str(path))["statistics"]["n_users_without_test"] == 2
    record = recommend(work, settings=quick[:2])
    assert (record["n_users"], record["n_users_without_test"]) == (2, 2)
    table = read_run_table(work, "random")
    assert table["user"].unique().to_pylist() == ["a", "b"]
    assert "99" in table["item"].to_pylist()
    split(work, str(path), test_share=0.0)
    with pytest.raises(ConfigError, match="no user has a test rating"):
        recommend(work, settings=quick[:2])


def test_a_run_without_any_list_is_refused(work):
    record = RunRecord("none", "none", True, {}, "x", 0, 0, 0, 0.0, 0.0, {})
    with pytest.raises(DataError, match="The run none has no list for any user"):
        write_run(work, record, [], trec=True, seconds=lambda: (0.0, 0.0))
    assert not list((work.path / "runs").glob("*none*"))


class TestImports:
    @pytest.fixture
    def ratings(self, work):
        return Ratings.read(work)

    def rows(self, ratings):
        """Two users, three items that they have not rated in training, best first."""
        found = []
        for row in ratings.evaluated[:2].tolist():
            fresh = np.flatnonzero(ratings.train[[row]].toarray().ravel() == 0)[:3]
            found += [
                (ratings.users[row].as_py(), ratings.items[i].as_py(), 3 - n) for n, i in enumerate(fresh.tolist())
            ]
        return found

    def read(self, path, ratings, form=None, k=100):
        return read_imports([path], form, ratings, k)

    def check(self, runs, ratings, system):
        (run,) = runs
        names = [run.items[int(i)].as_py() for row in run.ranked for i in row if i >= 0]
        assert names == [item for _, item, _ in self.rows(ratings)]
        assert (run.system, run.counts["n_users_without_list"]) == (system, len(ratings.evaluated) - 2)

    def test_trec(self, ratings, tmp_path):
        path = tmp_path / "mine.run"
        path.write_text("".join(f"{u} Q0 {i} 1 {s} mine\n" for u, i, s in reversed(self.rows(ratings))))
        self.check(self.read(path, ratings), ratings, "mine")

    def test_elliot(self, ratings, tmp_path):
        path = tmp_path / "ItemKNN.tsv"
        path.write_text("".join(f"{u}\t{i}\t{s}\n" for u, i, s in self.rows(ratings)))
        self.check(self.read(path, ratings), ratings, "ItemKNN")

    def test_recbole(self, ratings, tmp_path):
        path = tmp_path / "BPR.inter"
        path.write_text(
            "user_id:token\titem_id:token\tscore:float\n"
            + "".join(f"{u}\t{i}\t{s}\n" for u, i, s in self.rows(ratings))
        )
        self.check(self.read(path, ratings), ratings, "BPR")

    def test_lenskit_csv_with_several_systems_and_ranks_only(self, ratings, tmp_path):
        path = tmp_path / "recs.csv"
        lines = [f"{name},{u},{4 - s},{i}" for name in ("UU-B", "II-B") for u, i, s in self.rows(ratings)]
        path.write_text("\n".join(["Algorithm,user,rank,item", *lines]))
        runs = self.read(path, ratings)
        assert [run.system for run in runs] == ["II-B", "UU-B"]
        self.check(runs[:1], ratings, "II-B")

    def test_lenskit_parquet_native(self, ratings, tmp_path):
        rows = self.rows(ratings)
        users = list(dict.fromkeys(u for u, _, _ in rows))
        lists = [[{"item_id": i, "score": float(s)} for v, i, s in rows if v == u] for u in users]
        pq.write_table(pa.table({"user_id": users, "items": lists}), tmp_path / "ease.parquet")
        self.check(self.read(tmp_path / "ease.parquet", ratings), ratings, "ease")

    def test_the_published_lenskit_file_reads(self, shared, ratings):
        with pytest.raises(DataError, match=r"none of its .* users has test ratings in this split"):
            self.read(shared / "reference" / "lenskit" / "topn-java-recs.csv", ratings)

    def test_what_is_odd_is_counted(self, ratings, tmp_path):
        user = ratings.users[int(ratings.evaluated[0])].as_py()
        seen = ratings.items[int(ratings.train.indices[0])].as_py()
        fresh = self.rows(ratings)[0][1]
        path = tmp_path / "odd.run"
        rows = [(user, "unheard-of", 9), (user, seen, 8), (user, fresh, 7), ("nobody", fresh, 1)]
        path.write_text("".join(f"{u} Q0 {i} 1 {s} odd\n" for u, i, s in rows))
        (run,) = self.read(path, ratings, k=2)
        assert run.counts == {
            "n_lists_of_users_without_test": 1,
            "n_users_without_list": len(ratings.evaluated) - 1,
            "n_rows_beyond_k": 1,
            "n_rows_of_items_without_training": 1,
            "n_rows_rated_in_training": 1,
        }
        assert [run.items[int(i)].as_py() for i in run.ranked[0]] == ["unheard-of", seen]

    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("a.run", "u000 Q0 x 1 high mine\n", "score must be a number"),
            ("a.run", "u000 Q0 x 1 nan mine\n", "score of user u000, item x is missing or not finite"),
            ("a.run", "u000 Q0 x 1 2 mine\nu000 Q0 x 2 1 mine\n", "item x stands twice in the list of user u000"),
            ("a.run", "u000 Q0 x 1 2 ../mine\n", "cannot stand in the name of a file"),
            ("a.csv", "user,thing\nu000,x\n", "a run of lenskit has user, item, and score or rank"),
            ("a.txt", "what is this\n", "what tool made this run is not clear"),
        ],
    )
    def test_bad_files(self, ratings, tmp_path, name, text, message):
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises((DataError, ConfigError), match=message):
            self.read(path, ratings)

    def test_unknown_format_and_no_file(self, ratings, tmp_path):
        with pytest.raises(ConfigError, match="no format 'surprise'"):
            self.read(tmp_path / "x", ratings, "surprise")
        with pytest.raises(DataError, match="There is no file"):
            self.read(tmp_path / "x", ratings)

    def test_imported_runs_stand_beside_the_others(self, work, quick, ratings, tmp_path):
        path = tmp_path / "mine.run"
        path.write_text("".join(f"{u} Q0 {i} 1 {s} mine\n" for u, i, s in self.rows(ratings)))
        record = recommend(work, settings=quick, imports=[path])
        one = record["runs"][-1]
        assert (one["system"], one["algorithm"], one["representative"], one["n_rows"]) == ("mine", "mine", True, 6)
        before = times(work)
        recommend(work, settings=quick, imports=[path])
        assert times(work) == before
        alone = recommend(work, imports=[path])
        assert [run["system"] for run in alone["runs"]] == ["mine"]
        path.write_text(path.read_text().replace(" mine", " kld"))
        with pytest.raises(ConfigError, match="Two runs are called 'kld'"):
            recommend(work, settings=quick, imports=[path])


def test_records_are_plain_json(work):
    for path in [*work.path.glob("*.json"), *(work.path / "runs").glob("*.json")]:
        json.loads(path.read_text())
