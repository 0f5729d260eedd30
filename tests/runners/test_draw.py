import hashlib
import subprocess
import sys

import numpy as np
from gistbench.runners.draw import hash_strings, order, salt
from hypothesis import given
from hypothesis import strategies as st

IDS = [f"vid_{n}" for n in range(200)]


def drawn(ids, n, *parts, seed=0):
    return [ids[i] for i in order(hash_strings(ids), salt(seed, *parts))[:n]]


def plain_hash(data):
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def plain_mix(number):
    """SplitMix64's finaliser in plain integers."""
    number = (number + 0x9E3779B97F4A7C15) % 2**64
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    number = (number ^ number >> 27) * 0x94D049BB133111EB % 2**64
    return number ^ number >> 31


def test_a_draw_is_the_order_of_a_keyed_hash():
    drawn_salt = plain_hash(b"3" + (4).to_bytes(8, "little") + b"pool" + (2).to_bytes(8, "little") + "é".encode())
    assert int(salt(3, "pool", "é")) == drawn_salt
    expected = sorted(IDS, key=lambda text: plain_mix(plain_hash(text.encode()) ^ drawn_salt))
    assert drawn(IDS, 200, "pool", "é", seed=3) == expected


def test_a_draw_is_pinned():
    """A change here changes the draws of every run that was published."""
    assert drawn(IDS, 5, "pool") == ["vid_55", "vid_108", "vid_16", "vid_51", "vid_121"]


@given(st.permutations(IDS[:40]), st.integers(0, 40))
def test_a_draw_does_not_depend_on_the_order_of_what_is_drawn_from(ids, n):
    assert drawn(ids, n, "x") == drawn(IDS[:40], n, "x")


@given(st.lists(st.text(st.characters(codec=None)), unique=True, max_size=30))
def test_any_strings_can_be_drawn(ids):
    assert sorted(drawn(ids, len(ids), "x")) == sorted(ids)


def test_a_smaller_draw_is_the_beginning_of_a_larger_one():
    assert drawn(IDS, 5, "x") == drawn(IDS, 50, "x")[:5]


def test_seed_and_parts_all_count_and_parts_do_not_run_together():
    salts = [
        salt(0, "ab", "c"), salt(0, "a", "bc"), salt(0, "abc"), salt(0, "ab", "c", ""), salt(1, "ab", "c"),
        salt(0, "c", "ab"), salt(0),
    ]  # fmt: skip
    assert len(set(map(int, salts))) == len(salts)


def test_draws_are_even():
    """Each of 20 is among the first 5 of 2,000 draws 500 times; 6 standard deviations are 116."""
    hashes = hash_strings(IDS[:20])
    times = np.zeros(20)
    for number in range(2000):
        times[order(hashes, salt(0, "x", str(number)))[:5]] += 1
    assert times.sum() == 10_000
    assert np.abs(times - 500).max() < 116


def test_nothing_to_draw_from():
    assert order(hash_strings([]), salt(0)).tolist() == []


def test_the_same_in_every_process():
    code = (
        "from gistbench.runners.draw import *\n"
        "print(order(hash_strings([f'vid_{n}' for n in range(200)]), salt(3, 'pool', 'u')).tolist())"
    )
    here = order(hash_strings(IDS), salt(3, "pool", "u")).tolist()
    result = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONHASHSEED": "77"}, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == str(here)
