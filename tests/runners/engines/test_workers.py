"""Copies of an engine over one queue: the queue by itself, then real processes with an engine that reads its script."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import closing

import pytest
from gistbench.hf_datasets.errors import ConfigError, EngineError
from gistbench.runners.engines.workers import Inbox, PrefixQueue, WorkerPool, device_slices
from gistbench.runners.requests import Message, ModelRef, Request


def request(text, group="", n=0):
    return Request(
        "test", object(), (Message("user", text),), ModelRef("fake", "1", "default/1"), group=group, repeat=n
    )


def requests(text, n, group=""):
    return [request(text, group, i) for i in range(n)]


@pytest.fixture
def pool_of(fake):
    """Make pools of workers; all are gone when the test is."""
    pools = []

    def make(n, *, n_running=4, environments=None):
        pools.append(
            WorkerPool(fake.FakeEngine, fake.FakeConfig(), environments or [{} for _ in range(n)], n_running=n_running)
        )
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


@pytest.fixture(scope="module")
def pool(fake):
    """Two workers for all tests that leave them alive, each with devices of its own."""
    environments = [{"CUDA_VISIBLE_DEVICES": "0,1"}, {"CUDA_VISIBLE_DEVICES": "2,3"}]
    pool = WorkerPool(fake.FakeEngine, fake.FakeConfig(), environments, n_running=4)
    yield pool
    pool.close()


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until_gone(pids):
    deadline = time.monotonic() + 60
    while any(map(is_running, pids)):
        assert time.monotonic() < deadline, "a worker outlives whoever asked it"
        time.sleep(0.02)


# The queue


def test_a_worker_takes_one_group_at_a_time():
    queue = PrefixQueue(requests("a", 3, "a") + requests("b", 2, "b"), n_ahead=100)
    assert [one.group for one in queue.take(0, 2, may_split=False)] == ["a", "a"]
    assert [one.group for one in queue.take(1, 9, may_split=False)] == ["b", "b"]
    assert [one.group for one in queue.take(0, 9, may_split=False)] == ["a"]
    assert queue.take(0, 9, may_split=True) == []
    assert not queue


def test_a_group_stays_with_its_worker_while_it_has_work_in_flight():
    queue = PrefixQueue(requests("a", 4, "a"), n_ahead=100)
    queue.take(0, 1, may_split=False)
    assert queue.take(1, 4, may_split=False) == []
    assert len(queue.take(0, 4, may_split=False)) == 3


def test_an_idle_worker_shares_the_largest_group_from_its_far_end():
    asked = requests("a", 2, "a") + requests("b", 7, "b")
    queue = PrefixQueue(asked, n_ahead=100)
    queue.take(0, 1, may_split=False)
    queue.take(1, 1, may_split=False)
    assert queue.take(2, 9, may_split=False) == []
    assert queue.take(2, 9, may_split=True) == asked[:5:-1]  # half of the six that wait
    assert queue.take(2, 1, may_split=True) == [asked[5]]
    assert queue.take(1, 9, may_split=False) == asked[3:5]


def test_what_is_alone_goes_to_whoever_comes():
    asked = requests("x", 3)
    queue = PrefixQueue(asked, n_ahead=100)
    assert [queue.take(worker, 9, may_split=False) for worker in (0, 1, 0)] == [[one] for one in asked]


def test_few_requests_are_read_ahead():
    n_read = 0

    def endless():
        nonlocal n_read
        while True:
            n_read += 1
            yield request("a", "one huge group", n_read)

    queue = PrefixQueue(endless(), n_ahead=10)
    queue.take(0, 2, may_split=False)
    assert n_read == 2
    assert queue.take(1, 2, may_split=False) == []
    assert n_read == 12  # looking for another group
    n_taken = 2
    for worker in [0, 1] * 100:
        taken = queue.take(worker, 2, may_split=True)
        n_taken += len(taken)
        for one in taken:
            queue.done(one)
    assert n_taken == 402
    assert n_read <= n_taken + 10


def test_what_is_given_back_comes_first_and_to_anyone():
    asked = requests("a", 4, "a") + requests("b", 1, "b")
    queue = PrefixQueue(asked, n_ahead=100)
    lost = queue.take(0, 2, may_split=False)
    queue.give_back(0, lost)
    assert queue.take(1, 9, may_split=False) == asked[:4]
    for one in asked[:4]:
        queue.done(one)
    assert queue.take(1, 9, may_split=False) == asked[4:]


def test_devices_are_divided():
    assert device_slices("4,5,6,7", 4, 2, 2) == ["4,5", "6,7"]
    assert device_slices("GPU-1,GPU-2", 2, 2, 1) == ["GPU-1", "GPU-2"]
    with pytest.raises(ConfigError, match="3 copies of the model on 2 devices each need 6; there are 4"):
        device_slices(None, 4, 3, 2)


def test_an_inbox_pauses_while_something_is_in_flight():
    inbox = Inbox()
    asked = requests("a", 2)
    inbox.put(asked[:1])
    assert next(inbox) == asked[0]
    assert next(inbox) is None
    inbox.put(asked[1:])
    inbox.put(None)
    assert list(inbox) == asked[1:]


# Processes


def test_every_request_is_answered_once_by_workers_of_their_own(pool):
    asked = requests("sleep 0.01", 60)
    outcomes = list(pool.generate(iter(asked)))
    assert sorted(one.key for one in outcomes) == sorted(one.key for one in asked)
    pids = {one.text.split()[0] for one in outcomes}
    assert pids == set(map(str, pool.pids)) == {str(one["pid"]) for one in pool.describe()}
    assert len(pids - {str(os.getpid())}) == 2


def test_a_group_is_answered_by_one_worker(pool):
    asked = [one for name in "abcdef" for one in requests(f"sleep 0.01 {name}", 8, name)]
    group_of = {one.key: one.group for one in asked}
    workers_of = {}
    for outcome in pool.generate(asked):
        workers_of.setdefault(group_of[outcome.key], set()).add(outcome.text)
    assert len(set.union(*workers_of.values())) == 2
    assert sum(len(workers) > 1 for workers in workers_of.values()) <= 1  # the last may be shared


def test_one_huge_group_is_shared_rather_than_leave_a_worker_idle(pool):
    outcomes = list(pool.generate(requests("sleep 0.02", 60, "huge")))
    assert len({one.text for one in outcomes}) == 2


def test_each_worker_has_its_devices_and_stays(pool):
    seen = [{one.text for one in pool.generate(requests("sleep 0.02", 40))} for _ in range(2)]
    assert seen[0] == seen[1]
    assert {text.split()[1] for text in seen[0]} == {"0,1", "2,3"}


def test_killed_workers_lose_nothing(pool_of):
    pool = pool_of(2)
    asked = requests("sleep 0.02", 60)
    outcomes, killed = [], set()
    for outcome in pool.generate(asked):
        outcomes.append(outcome)
        if len(outcomes) in (10, 25):
            victim = int(outcome.text)
            os.kill(victim, signal.SIGKILL)
            killed.add(victim)
    assert len(killed) == 2
    assert sorted(one.key for one in outcomes) == sorted(one.key for one in asked)
    assert {one.status for one in outcomes} == {"ok"}


def test_a_worker_that_dies_of_a_request_is_replaced(pool_of, tmp_path):
    asked = [*requests("sleep 0.01", 20), request(f"die once {tmp_path / 'died'}"), *requests("sleep 0.02", 20)]
    outcomes = list(pool_of(2).generate(asked))
    assert sorted(one.key for one in outcomes) == sorted(one.key for one in asked)
    assert {one.status for one in outcomes} == {"ok"}


def test_a_request_that_kills_every_worker_is_an_error(pool_of):
    deadly = request("die")
    asked = [*requests("sleep 0.01", 10), deadly, *requests("sleep 0.02", 10)]
    outcomes = {one.key: one for one in pool_of(2, n_running=1).generate(asked)}
    assert outcomes.keys() == {one.key for one in asked}
    assert outcomes[deadly.key].status == "error"
    assert outcomes[deadly.key].problem == "It was in flight when 2 workers died; the last: killed by signal 9."
    assert sum(one.status == "ok" for one in outcomes.values()) >= 17  # those in flight beside it may share its fate


def test_workers_that_only_die_are_an_error_of_the_engine(pool_of):
    with pytest.raises(EngineError, match=r"4 workers died with no answer .*the last: killed by signal 9"):
        list(pool_of(2, n_running=1).generate(requests("die", 20)))


def test_an_engine_that_cannot_start_says_why(pool_of):
    with pytest.raises(EngineError, match="there is no such model"):
        list(pool_of(2).generate(requests("fail", 3)))


def test_who_stops_early_leaves_nothing_in_flight(pool_of):
    pool = pool_of(2)
    with closing(pool.generate(requests("sleep 0.1", 100))) as outcomes:
        next(outcomes)
        pids = pool.pids
    assert pids
    wait_until_gone(pids)
    assert len(list(pool.generate(requests("sleep 0", 8)))) == 8


def test_workers_heed_no_ctrl_c(pool):
    outcomes = []
    for outcome in pool.generate(requests("sleep 0.02", 40)):
        outcomes.append(outcome)
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(int(outcome.text.split()[0]), number)
    assert len(outcomes) == 40
    assert len({one.text for one in outcomes}) == 2
    # Ctrl-C goes to a terminal's foreground group, in which they are not.
    assert all(os.getpgid(pid) == pid for pid in pool.pids)


def test_workers_end_with_whoever_asked_them(fake):
    program = textwrap.dedent("""
        import os, signal, sys
        from fake_engine import FakeConfig, FakeEngine
        from gistbench.runners.engines.workers import WorkerPool
        from gistbench.runners.requests import Message, ModelRef, Request

        pool = WorkerPool(FakeEngine, FakeConfig(), [{}, {}], n_running=4)
        model = ModelRef("fake", "1", "default/1")
        asked = [Request("test", n, (Message("user", "sleep 0.1"),), model, repeat=n) for n in range(600)]
        seen = set()
        for outcome in pool.generate(asked):
            seen.add(outcome.text)
            if len(seen) == 2:
                print(*pool.pids, flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
    """)
    ended = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL
    pids = list(map(int, ended.stdout.split()))
    assert len(pids) == 2
    wait_until_gone(pids)
