"""Profiles and grades by the real engine: vLLM on the CPU with SmolLM2. Plumbing, parse rates and cost; not quality."""

import os
import warnings

import pytest
from gistbench.hf_datasets.errors import GistbenchWarning
from gistbench.runners.qrels.beyond import beyond
from gistbench.runners.qrels.experiments import experiments
from gistbench.runners.qrels.induce import induce
from gistbench.runners.qrels.judge import judge
from gistbench.runners.qrels.judged import Judged
from gistbench.runners.qrels.judging import open_judge
from gistbench.runners.qrels.pool import pool
from gistbench.runners.qrels.sample import sample
from gistbench.runners.stages.grade import MODES, Condition

pytestmark = [pytest.mark.engine, pytest.mark.slow]


@pytest.fixture(scope="module")
def specification(repo_root):
    pytest.importorskip("vllm", reason="needs vLLM (scripts/cpu_engine.sh makes it available)")
    found = sorted((repo_root / ".cache" / "models").glob("SmolLM2*/tokenizer.json"))
    if not found:
        pytest.skip("needs SmolLM2 (scripts/cpu_engine.sh makes it available)")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    return f"vllm:{found[0].parent}?dtype=float32&max_model_len=4096&max_num_seqs=16&max_tokens=256"


def test_profiles_and_grades_with_a_real_model(pooled, specification):
    """SmolLM2 writes no usable profiles, so the modes with one may have no evidence: then nothing is asked in them."""
    sample(pooled, sizes=[3], n_repeats=1, take=3)
    pool(pooled, depth=2)
    conditions = [Condition(mode) for mode in MODES]
    with warnings.catch_warnings(action="ignore", category=GistbenchWarning):
        with open_judge(pooled, specification, max_reasks=0) as judging:
            induced = induce(pooled, judging, max_items=20)
            records = judge(pooled, judging, conditions, max_items=20)
            name = judging.name
        assert induced["n_ok"] + induced["n_failed"] == 3
        for record in records:
            graded, asked = record["n_ok"], record["n_pairs"] - record["n_no_evidence"]
            assert graded == asked, "a grade is held to its form"
            account = record["answers"][0]
            assert account["n_prompt_tokens"] >= 100 * graded
        profile = records[1]["answers"][0]
        assert profile["n_cached_tokens"] > 0.5 * profile["n_prompt_tokens"], "a user's requests share their prefix"
        grades = Judged(pooled, name).grades(Condition("profile"))
        assert set(grades["grade"].to_pylist()) <= set(range(6))
        found = {one.id: one for one in experiments(pooled, n_resamples=20)}
        assert not found["table_6"].missing
        assert not beyond(pooled, n_resamples=20)[2].missing
