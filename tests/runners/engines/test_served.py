"""vLLM offline and behind its own OpenAI-compatible server: one model, asked the same things."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.engine, pytest.mark.slow]

BENCHMARK = Path(__file__).resolve().parents[3] / "benchmarks" / "answers.py"


def test_a_server_is_asked_what_the_offline_engine_is_asked_and_answers_alike(model_folder):
    command = [sys.executable, str(BENCHMARK), "--model", str(model_folder), "--users", "2", "--only", "served_float32"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    found = json.loads(lines[-1])
    n_both, n_either = found["same_requests"]["extract"]
    assert n_both == n_either > 0  # what is asked first depends on no answer
    assert found["same_prompt_tokens"] == 1  # the server's chat template is ours
    assert all(n_both > 0 for n_both, _ in found["same_requests"].values())
    assert found["same_answers"]["extract"] == 1
    assert min(found["same_answers"].values()) > 0.9  # float32 sums still depend on the batch, by a last digit
