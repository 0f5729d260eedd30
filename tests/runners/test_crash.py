"""A suite that is killed at any moment goes on where it was and ends as if nothing had happened.

One driver process imports everything once. Each attempt at a suite is a child of it, killed with SIGKILL by itself at
an exact place (before a call is answered, before or after a file is moved into its place) or from outside.
"""

import csv
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest
from gistbench.runners.runfolder import TABLES

from .fault_server import fault_server, logged

DRIVER = r"""
import json, logging, os, signal, sys, time, warnings

from gistbench.hf_datasets.errors import GistbenchError
from gistbench.runners import cli, engines, runfolder, score, suite
from gistbench.runners.engines.lexical import LexicalConfig, LexicalEngine
import evaluate, sklearn.cluster, sklearn.feature_extraction.text  # once, before the children

warnings.simplefilter("ignore")
logging.disable()
MODULE = sys.modules[__name__]


def count_down(n):
    # Dies when it is called for the n-th time.
    left = [n]

    def tick():
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return tick


def attempt(command):
    log = os.open(command["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    tick = count_down(command.get("die_at_call", 0))

    class Logging(LexicalEngine):
        def generate(self, requests):
            for request in requests:
                tick()
                os.write(log, f"{request.key} {request.stage}\n".encode())
                os.fsync(log)
                time.sleep(command.get("delay_s", 0))
                yield from super().generate([request])

    MODULE.LexicalConfig, MODULE.LexicalEngine = LexicalConfig, Logging
    engines.ENGINES["lexical"] = (__name__, "LexicalConfig", "LexicalEngine")
    before, after = (count_down(command.get(name, 0)) for name in ("die_before_move", "die_after_move"))
    replace = os.replace

    def move(source, target):
        before()
        replace(source, target)
        after()

    os.replace = move
    sys.argv = ["gistbench", *command["arguments"]]
    cli.main()


for line in sys.stdin:
    commands = json.loads(line)
    children = []
    for command in commands:
        child = os.fork()
        if child == 0:
            sys.stdin.close()
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 1)
            os.dup2(os.open(command["log"] + ".err", os.O_WRONLY | os.O_APPEND | os.O_CREAT), 2)
            try:
                attempt(command)
                code = 0
            except SystemExit as exit:
                code = exit.code or 0
            except BaseException:
                import traceback

                traceback.print_exc()
                code = 70
            sys.stderr.flush()
            os._exit(code)
        children.append(child)
    print(json.dumps({"children": children}), flush=True)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    print(json.dumps({"codes": codes}), flush=True)
"""
CANDIDATES = ("lexical/hashtag", "lexical/tfidf", "lexical/phrase")
LEXICAL = [argument for name in CANDIDATES for argument in ("--candidate", name)]


class Driver:
    """Runs attempts at suites in children of one process."""

    def __init__(self, process, own_file):
        self._process = process
        self._own_file = own_file
        self._is_waited_for = True

    def start(self, *attempts):
        """Start attempts at once, each a folder and what is to happen; return the ids of their processes."""
        commands = [
            {
                "arguments": [
                    *("run", "--output", str(folder), "--dataset", str(self._own_file)),
                    *("--pool-size", "60", "--resamples", "20", "--chunk-size", "25"),
                    *what.get("models", LEXICAL),
                ],
                "log": str(folder) + ".calls",
                **what,
            }
            for folder, what in attempts
        ]
        if not self._is_waited_for:  # by a test that failed
            self.wait()
        self._is_waited_for = False
        self._process.stdin.write(json.dumps(commands) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())["children"]

    def wait(self):
        """Return the exit codes of the attempts that were started."""
        self._is_waited_for = True
        return json.loads(self._process.stdout.readline())["codes"]

    def run(self, folder, **what):
        """Make one attempt and return its exit code."""
        self.start((folder, what))
        (code,) = self.wait()
        return code


@pytest.fixture(scope="module")
def driver(tmp_path_factory, own_file):
    script = tmp_path_factory.mktemp("driver") / "driver.py"
    script.write_text(DRIVER)
    process = subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield Driver(process, own_file)
    process.stdin.close()
    process.wait(30)
    process.stdout.close()


@pytest.fixture(scope="module")
def undisturbed(driver, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed") / "suite"
    assert driver.run(folder) == 0
    return folder


def calls(folder):
    """The keys of all calls to models, in order."""
    path = folder.parent / (folder.name + ".calls")
    return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []


def answered(folder):
    """The keys that the store has an answer for."""
    return stored(folder / "responses.sqlite", "key")


def stored(path, column):
    """What a store has in a column, of its answers."""
    if not path.exists():
        return set()
    db = sqlite3.connect(path)
    try:
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'outcomes'").fetchone():
            return set()
        return {value for (value,) in db.execute(f"SELECT {column} FROM outcomes WHERE final AND status = 'ok'")}
    finally:
        db.close()


def check_nothing_is_half_written(folder, candidates=CANDIDATES):
    for path in folder.rglob("*"):
        if path.name.startswith(".") or path.is_dir():
            continue
        if path.suffix == ".parquet":
            pq.read_table(path)
        elif path.suffix == ".json":
            json.loads(path.read_text(encoding="utf-8"))
        elif path.suffix == ".csv":
            rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
            assert [row["candidate"] for row in rows] == list(candidates)
    for path in folder.glob("*/manifest.json"):
        phases = json.loads(path.read_text(encoding="utf-8"))["phases"]
        tables = {"extract": ["users", "extractions", "evidence"], "judge": ["groundings"], "score": ["scores"]}
        assert all((path.parent / f"{table}.parquet").exists() for phase in phases for table in tables[phase])


def check_same_results(folder, undisturbed):
    for name in ("comparison.csv", "comparison.md", "comparison.json", "oracle.json", "suite.json", "config.json"):
        assert (folder / name).read_bytes() == (undisturbed / name).read_bytes(), name
    for run in undisturbed.glob("lexical--*"):
        for table in set(TABLES) - {"answers"}:
            path = f"{run.name}/{table}.parquet"
            assert (folder / path).read_bytes() == (undisturbed / path).read_bytes(), path
        manifests = [json.loads((where / run.name / "manifest.json").read_text()) for where in (folder, undisturbed)]
        for manifest in manifests:
            for phase in ("extract", "judge"):
                del manifest["phases"][phase]["wall_seconds"]
                del manifest["phases"][phase]["versions"]["commit"]  # of a checkout that people work in
                for stage in manifest["phases"][phase]["stages"].values():
                    del stage["wall_seconds"]
        assert manifests[0] == manifests[1]


def check_same_scores(folder, undisturbed):
    for name in ("comparison.csv", "oracle.json", "suite.json", "config.json"):
        assert (folder / name).read_bytes() == (undisturbed / name).read_bytes(), name
    for run in undisturbed.glob("*--*"):
        for table in ("scores", "interests"):
            path = f"{run.name}/{table}.parquet"
            assert (folder / path).read_bytes() == (undisturbed / path).read_bytes(), path


def disturb(driver, folder, **what):
    """Make an attempt that is killed, and check what it left."""
    before, n_calls = answered(folder), len(calls(folder))
    assert driver.run(folder, **what) == -signal.SIGKILL
    check_nothing_is_half_written(folder)
    asked = calls(folder)[n_calls:]
    assert not before & set(asked), "an answered call was repeated"
    assert before <= answered(folder), "a committed answer was lost"
    return asked


def finish(driver, folder, undisturbed):
    """Make the last attempt, and check that all is as if nothing had happened."""
    before, n_calls = answered(folder), len(calls(folder))
    assert driver.run(folder) == 0, (folder.parent / (folder.name + ".calls.err")).read_text()
    assert not before & set(calls(folder)[n_calls:])
    assert set(calls(folder)) == answered(folder) == set(calls(undisturbed))
    check_nothing_is_half_written(folder)
    check_same_results(folder, undisturbed)


def test_an_undisturbed_run_asks_everything_once(undisturbed):
    assert len(calls(undisturbed)) == len(set(calls(undisturbed))) > 60
    assert set(calls(undisturbed)) == answered(undisturbed)


def test_it_is_killed_before_calls_of_every_stage(driver, undisturbed, tmp_path):
    folder = tmp_path / "suite"
    n_calls = len(calls(undisturbed))
    n_asked = 0
    # The first call of all, some of the extraction and of each judgement, and the last but a few.
    for die_at_call in (1, 2, 5, n_calls // 4, n_calls // 4, n_calls // 4):
        asked = disturb(driver, folder, die_at_call=die_at_call)
        assert len(asked) == die_at_call - 1
        n_asked += len(asked)
    assert n_asked < n_calls
    finish(driver, folder, undisturbed)
    # It died before it asked: each call was made exactly once.
    assert sorted(calls(folder)) == sorted(calls(undisturbed))


@pytest.mark.parametrize(
    ("moment", "places"),
    [
        ("die_before_move", (1, 2, 6, 15, 16, 17, 23, 34, 36, 37, 45, 47, 49)),
        ("die_after_move", (1, 5, 16, 35, 49)),
    ],
)
def test_it_is_killed_at_the_writing_of_files_of_every_phase(driver, undisturbed, tmp_path, moment, places):
    folder = tmp_path / "suite"
    # The first attempt also writes config.json at its start. Then follow: 3 x (4 tables, manifest); config.json twice;
    # 3 x (5 tables, manifest); oracle.json; 3 x (2 tables, manifest); three comparisons; suite.json.
    # An attempt that finds a phase unchanged writes less, so it may end before the later places: it is whole then.
    n_killed = 0
    for n in places:
        before = len(calls(folder)) if folder.exists() else 0
        code = driver.run(folder, **{moment: n})
        check_nothing_is_half_written(folder)
        n_killed += code == -signal.SIGKILL
        assert code == -signal.SIGKILL or (code == 0 and before == len(calls(undisturbed)))
    assert n_killed >= len(places) // 2
    finish(driver, folder, undisturbed)
    assert sorted(calls(folder)) == sorted(calls(undisturbed))


def test_it_is_killed_from_outside_at_any_moment(driver, undisturbed, tmp_path):
    folder = tmp_path / "suite"
    n_calls = len(calls(undisturbed))
    n_attempts = 0
    while (n_left := n_calls - len(answered(folder))) > 10:
        before, n_before = answered(folder), len(calls(folder))
        (child,) = driver.start((folder, {"delay_s": 0.01}))
        while len(calls(folder)) < n_before + min(8 + 5 * n_attempts, n_left - 5):
            time.sleep(0.001)
        os.kill(child, signal.SIGKILL)
        assert driver.wait() == [-signal.SIGKILL]
        check_nothing_is_half_written(folder)
        assert not before & set(calls(folder)[n_before:])
        # At most the one call in flight was not kept.
        assert len(set(calls(folder)) - answered(folder)) <= 1
        n_attempts += 1
    assert n_attempts > 2
    finish(driver, folder, undisturbed)
    assert len(calls(folder)) <= n_calls + n_attempts


def test_a_finished_suite_that_is_killed_in_a_repetition_stays_good(driver, undisturbed, tmp_path):
    folder = tmp_path / "suite"
    assert driver.run(folder) == 0
    for n in (3, 9, 14, 20):
        assert disturb(driver, folder, die_before_move=n) == []
    finish(driver, folder, undisturbed)


@pytest.mark.parametrize("delays_s", [(0.002, 0.002), (0.0, 0.01)])
def test_two_processes_at_the_same_suite_end_with_the_same_scores(driver, undisturbed, tmp_path, delays_s):
    folder = tmp_path / "suite"
    driver.start(*((folder, {"delay_s": delay_s}) for delay_s in delays_s))
    codes = driver.wait()
    # The second waits for the first, and then finds everything answered.
    assert codes == [0, 0]
    assert set(codes) <= {0, 1}, (folder.parent / (folder.name + ".calls.err")).read_text()
    assert answered(folder) == set(calls(undisturbed))
    check_nothing_is_half_written(folder)
    n_calls = len(calls(folder))
    assert driver.run(folder) == 0
    assert len(calls(folder)) == n_calls
    check_same_scores(folder, undisturbed)


@pytest.fixture(scope="module")
def slow_server(tmp_path_factory):
    """The models' options for a slow server, and the file of its calls."""
    log = tmp_path_factory.mktemp("server") / "calls"
    with fault_server(0.03, log=log) as url:
        model = f"openai:planted?base_url={url}&concurrency=2&structured=false"
        yield ["--candidate", model, "--judge", model.replace("planted", "planted-judge")], log


@pytest.fixture(scope="module")
def undisturbed_on_server(driver, slow_server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed") / "suite"
    models, log = slow_server
    assert driver.run(folder, models=models) == 0
    numbers = [number for number, _ in logged(log)]
    assert len(numbers) == len(set(numbers)) > 60
    assert set(numbers) == stored(folder / "responses.sqlite", "n_prompt_tokens")
    return folder


@pytest.mark.parametrize("n_kills", [pytest.param(3, id="short"), pytest.param(30, id="whole", marks=pytest.mark.slow)])
@pytest.mark.parametrize("n_writers", [1, 3])
def test_calls_to_a_slow_server_are_killed_at_random_points(
    driver, slow_server, undisturbed_on_server, tmp_path, n_writers, n_kills
):
    models, log = slow_server
    rng = random.Random(n_writers)
    everything = stored(undisturbed_on_server / "responses.sqlite", "n_prompt_tokens")
    n_killed = n_suite = 0
    while n_killed < n_kills:
        # Several writers are suites of their own that ask the same, on one store.
        store = tmp_path / f"{n_suite}.sqlite"
        folders = [tmp_path / f"suite-{n_suite}-{writer}" for writer in range(n_writers)]
        what = {"models": [*models, "--store", str(store)]}
        while n_killed < n_kills and (n_left := len(everything) - len(stored(store, "n_prompt_tokens"))) > 10:
            before, n_before = stored(store, "n_prompt_tokens"), len(logged(log))
            children = driver.start(*((folder, what) for folder in folders))
            n_calls = rng.randint(1, n_left // 2)
            while len(logged(log)) - n_before < n_calls:
                time.sleep(0.002)
            rng.shuffle(children)
            for child in children:
                time.sleep(rng.uniform(0, 0.05))
                os.kill(child, signal.SIGKILL)
            assert driver.wait() == [-signal.SIGKILL] * n_writers
            n_killed += n_writers
            time.sleep(0.1)  # calls that were sent are logged
            asked = {number for number, _ in logged(log)[n_before:]}
            assert not before & asked, "an answered call was repeated"
            assert before <= stored(store, "n_prompt_tokens"), "a committed answer was lost"
            # Only the calls in flight were not kept.
            assert len(asked - stored(store, "n_prompt_tokens")) <= 2 * n_writers
            for folder in folders:
                check_nothing_is_half_written(folder, candidates=["planted"])
        before, n_before = stored(store, "n_prompt_tokens"), len(logged(log))
        for folder in folders:
            assert driver.run(folder, **what) == 0, (folder.parent / (folder.name + ".calls.err")).read_text()
            check_same_scores(folder, undisturbed_on_server)
        asked = [number for number, _ in logged(log)[n_before:]]
        assert len(asked) == len(set(asked))
        assert set(asked) == everything - before
        assert stored(store, "n_prompt_tokens") == everything
        n_suite += 1
