import hashlib
import subprocess
import sys

import numpy as np
import pytest
from gistbench.hf_datasets.errors import DataError
from gistbench.runners.recommenders import topk
from gistbench.runners.recommenders.topk import recommend, top_k
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse


def expected(row, k):
    """Return the best columns by sorting in Python: score descending, then column descending."""
    kept = [column for column, score in enumerate(row) if score != -np.inf]
    return sorted(kept, key=lambda column: (np.float32(row[column]), column), reverse=True)[:k]


values = st.sampled_from([-np.inf, -3.5, -1e-30, -0.0, 0.0, 1e-30, 0.5, 0.5000000001, 2.0, 1e30])


@given(st.lists(st.lists(values, min_size=6, max_size=6), min_size=1, max_size=4), st.integers(1, 8))
def test_as_sorting_does(rows, k):
    scores = np.array(rows)
    columns, found = top_k(scores, k)
    for row, mine, of_row in zip(scores, columns, found, strict=True):
        best = expected(row, k)
        assert mine[mine >= 0].tolist() == best
        assert of_row[: len(best)].tolist() == [np.float32(row[column]) for column in best]
        assert (of_row[len(best) :] == -np.inf).all()


def test_in_blocks_it_is_the_same(monkeypatch):
    scores = np.random.default_rng(0).integers(0, 5, (50, 40)).astype(float)
    whole = top_k(scores, 7)
    monkeypatch.setattr(topk, "_KEYS_AT_ONCE", 100)
    for one, other in zip(whole, top_k(scores, 7), strict=True):
        assert (one == other).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_score_that_is_none_is_an_error(value):
    with pytest.raises(DataError, match="NaN or infinite"):
        top_k(np.array([[1.0, value]]), 1)


def test_training_items_are_masked():
    train = sparse.csr_matrix(np.array([[0, 1, 0, 2], [1, 1, 1, 1], [0, 0, 0, 3]]))

    def scorer(users):
        return np.broadcast_to(np.array([1.0, 4.0, 3.0, 2.0]), (len(users), 4))

    (lists,) = recommend(scorer, train, np.array([0, 1, 2]), 3)
    assert lists.items.tolist() == [[2, 0, -1], [-1, -1, -1], [1, 2, 0]]
    assert lists.scores[0].tolist() == [3.0, 1.0, -np.inf]


def test_users_come_in_blocks(monkeypatch):
    monkeypatch.setattr(topk, "block_users", lambda n_items: 2)
    seen = []

    def scorer(users):
        seen.append(users.tolist())
        return np.ones((len(users), 3))

    users = np.array([0, 2, 3, 4, 6])
    blocks = list(recommend(scorer, sparse.csr_matrix((7, 3)), users, 2))
    assert seen == [[0, 2], [3, 4], [6]]
    assert np.concatenate([block.users for block in blocks]).tolist() == users.tolist()


ALL_RUNS = """
import hashlib, numpy as np
from scipy import sparse
from gistbench.runners.recommenders.base import Fitting
from gistbench.runners.recommenders.registry import load_settings
from gistbench.runners.recommenders.threads import limited_threads
from gistbench.runners.recommenders.topk import recommend

rng = np.random.default_rng(0)
dense = np.where(rng.random((60, 80)) < 0.2, rng.integers(1, 6, (60, 80)), 0).astype(float)
dense[:, 0] = 1
train = sparse.csr_matrix(dense)
hasher = hashlib.sha256()
for one in load_settings():
    with limited_threads(2):
        scorer = one.recommender.fit(train, Fitting(seed=3))
        for lists in recommend(scorer, train, np.arange(60), 20):
            assert not (dense[np.arange(60)[:, None], lists.items] * (lists.items >= 0)).any(), one.name
            hasher.update(one.name.encode() + lists.items.tobytes() + lists.scores.tobytes())
print(hasher.hexdigest())
"""


def test_all_runs_give_the_same_bytes_in_every_process():
    def digest(hash_seed):
        environment = {"PYTHONHASHSEED": hash_seed, "PATH": ""}
        done = subprocess.run([sys.executable, "-c", ALL_RUNS], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    first = digest("1")
    assert len(first) == len(hashlib.sha256().hexdigest())
    assert digest("2") == first
