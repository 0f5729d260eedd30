"""Every step killed in the middle, and the same command again: it ends with the same bytes, and asks nothing twice."""

import os
import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

STEPS = """
import json, os, signal, sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Literal
from gistbench.runners.engines import ENGINES
from gistbench.runners.engines.base import ModelConfig
from gistbench.runners.parsing import Taste
from gistbench.runners.requests import ModelRef, Outcome

work, ratings, items, point = sys.argv[1:]
stage, _, n = point.partition(":")
answers = Counter()

def die():
    os.kill(os.getpid(), signal.SIGKILL)

class KilledConfig(ModelConfig):
    engine: Literal["killed"] = "killed"

class KilledEngine:
    context_tokens = None
    def __init__(self, config):
        self.model = ModelRef(config.name, "1", "default/1")
    def generate(self, requests):
        for request in requests:
            with open(work + ".asked", "a") as file:
                print(request.key, file=file)
            answers[request.stage] += 1
            if n and request.stage == stage and answers[stage] == int(n):
                die()
            text = str(int(request.key[:4], 16) % 6)
            if request.stage == "induce":
                text = json.dumps(dict.fromkeys(Taste._fields, f"Of user {request.about.user}."))
            yield Outcome(key=request.key, status="ok", text=text, finish_reason="stop", n_output_tokens=1)
    def describe(self):
        return {"engine": "killed"}
    def close(self):
        pass

module = ModuleType("killed_engine")
vars(module).update(KilledConfig=KilledConfig, KilledEngine=KilledEngine)
sys.modules["killed_engine"] = module
ENGINES["killed"] = ("killed_engine", "KilledConfig", "KilledEngine")

plain = os.replace
def replace(source, target):
    if Path(target).name == point:
        die()
    plain(source, target)
os.replace = replace

from gistbench.runners.cli import main
runs = [part for name in ("random", "popularity", "wsr-ub") for part in ("--run", name)]
sys.argv = ["gistbench", "qrels", "run", "-w", work, "--dataset", ratings, "--items", items, *runs, "--take", "15",
            "--depth", "5", "-j", "killed:judge", "--mode", "ipp", "--resamples", "10"]
main()
"""
POINTS = ("split.json", "wsr-ub.json", "users.parquet", "pool.json", "induce:5", "profiles.json", "grade:30",
          "ipp.json", "ipp.qrels", "table_4.csv")  # fmt: skip
"""Where the process is killed: before this file takes its place, or before this answer of a stage is given."""


@pytest.fixture
def steps(ratings_csv, items_csv, tmp_path):
    """Run all steps in a process of their own, up to a point; return its code."""

    def run(name, point=""):
        command = [sys.executable, "-c", STEPS, tmp_path / name, ratings_csv, items_csv, point]
        return subprocess.run(command, stdout=subprocess.DEVNULL, env={**os.environ, "NO_COLOR": "1"}).returncode

    return run


def contents(folder):
    """Return all that was made, but records, which hold times, and the store."""
    kinds = (".parquet", ".run", ".qrels", ".csv", ".md", ".tex", ".svg")
    files = [path for path in folder.rglob("*") if path.suffix in kinds and not path.name.startswith(".")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_killed_at_every_step_and_resumed(steps, tmp_path):
    assert steps("whole") == 0
    for point in POINTS:
        assert steps("killed", point) == -signal.SIGKILL, point
    assert steps("killed") == 0
    whole, resumed = contents(tmp_path / "whole"), contents(tmp_path / "killed")
    assert resumed.keys() == whole.keys()
    assert [name for name in whole if whole[name] != resumed[name]] == []
    asked, once = ((tmp_path / f"{name}.asked").read_text().split() for name in ("killed", "whole"))
    assert set(asked) == set(once)
    assert len(asked) == len(once) + 2, "only the two answers that the kills took were asked for again"
