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
    return f"vllm:{found[0].parent}?dtype=float32&max_model_len=4096&max_num_seqs=16"


def test_profiles_and_grades_with_a_real_model(pooled, specification):
    """Held to its form each profile is whole and each grade one, so all three modes have evidence and are asked."""
    sample(pooled, sizes=[3], n_repeats=1, take=3)
    pool(pooled, depth=2)
    conditions = [Condition(mode) for mode in MODES]
    with warnings.catch_warnings(action="ignore", category=GistbenchWarning):
        with open_judge(pooled, specification, max_reasks=1) as judging:
            induced = induce(pooled, judging, max_items=10, max_chars=40)
            records = judge(pooled, judging, conditions, max_items=10)
            name = judging.name
        judged = Judged(pooled, name)
        assert induced["n_ok"] == 3
        for taste in judged.tastes().values():
            assert all(len(text) <= 40 for text in taste)
        for record in records:
            assert record["n_ok"] == record["n_pairs"] > 0
            account = record["answers"][0]
            assert account["n_prompt_tokens"] >= 100 * account["n_requests"]
        profile = records[1]["answers"][0]
        assert profile["n_cached_tokens"] > 0.5 * profile["n_prompt_tokens"], "a user's requests share their prefix"
        for condition in conditions:
            assert set(judged.grades(condition)["grade"].to_pylist()) <= set(range(6))
        found = {one.id: one for one in experiments(pooled, n_resamples=20)}
        assert not found["table_6"].missing
        assert not {one.id: one for one in beyond(pooled, n_resamples=20)}["circularity"].missing
