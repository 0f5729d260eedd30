"""Every benchmark still fits the code: each runs once, at a small size. Their figures are for people to look at."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
SMALL = {
    "dataset_builders": "",
    "metrics": "--scale 0.02 --repeats 1",
    "plan": "--users 5 --engagements 300 --sample 4",
    "recommenders": "--scale 0.002",
    "report": "--models 3 --users 20 --interests 8",
    "runner": "--users 3 --requests 4000",
    "space": "--models 4 --datasets 2 --viewers 2 --seconds 3",
    "store": "--commits 200 --rows 5000",
}
"""Arguments that make each small. Those that need a real engine have tests beside the engine's."""
ELSEWHERE = {"answers", "engines", "qrels_experiments"}


def test_all_are_tried():
    assert {path.stem for path in BENCHMARKS.glob("*.py")} == SMALL.keys() | ELSEWHERE


@pytest.mark.parametrize("name", SMALL)
def test_it_runs(name):
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), *SMALL[name].split()]
    done = subprocess.run(command, capture_output=True, text=True, cwd=BENCHMARKS.parent)
    assert done.returncode == 0, done.stderr[-3000:]
    figures = [json.loads(line) for line in done.stdout.splitlines()]
    assert figures
    assert all(isinstance(figure, dict) for figure in figures)
