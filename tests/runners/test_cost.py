"""The cost table against manifests whose sums are known."""

import json

import pandas as pd
import pytest
from gistbench.hf_datasets.errors import StoreError
from gistbench.runners.config import RunConfig
from gistbench.runners.cost import COLUMNS, cost_table
from gistbench.runners.prices import Price, Prices
from gistbench.runners.runfolder import RunFolder
from gistbench.runners.suite import Suite


def account(n_requests, tokens_in, tokens_out, request_seconds, **more):
    return {
        "n_subjects": n_requests,
        "n_requests": n_requests,
        "n_attempts": n_requests + 1,
        "n_prompt_tokens": tokens_in,
        "n_cached_tokens": tokens_in // 2,
        "n_output_tokens": tokens_out,
        "n_reasoning_tokens": tokens_out // 10,
        "request_seconds": request_seconds,
        **more,
    }


@pytest.fixture
def run(tmp_path):
    judge = {
        "name": "org/judge", "engine": "vllm", "hardware": "NVIDIA H100", "n_gpus": 4,
    }  # fmt: skip
    candidate = {"name": "served", "engine": "openai", "hardware": "unknown: the server's"}
    manifest = {
        "format": 1,
        "phases": {
            "extract": {
                "model": candidate, "stages": {"extract": account(10, 1_000_000, 100_000, 50.0)}, "wall_seconds": 20.0,
            },
            "judge": {
                "model": judge,
                "stages": {"ground": account(30, 3000, 300, 30.0), "map": account(10, 5000, 50, 10.0)},
                "wall_seconds": 3600.0,
            },
        },
    }  # fmt: skip
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "manifest.json").write_text(json.dumps(manifest))
    return RunFolder(tmp_path / "run")


PRICES = Prices({"s": Price(match="^served$", input=2, cached=1, output=10, date="2026-01-01", source="a test")})


def test_columns_and_sums(run):
    table = cost_table([run], prices=PRICES)
    assert tuple(table.columns) == COLUMNS
    assert table["stage"].tolist() == ["extract", "ground", "map", "total", "total"]
    assert table["run"].tolist() == ["run"] * 4 + ["total"]
    rows = table.set_index("stage").iloc[:3]
    assert rows["n_prompts"].tolist() == [10, 30, 10]
    assert rows["n_attempts"].tolist() == [11, 31, 11]
    assert rows.loc["extract", "usd"] == pytest.approx(1 + 0.5 + 1)
    assert pd.isna(rows.loc["ground", "usd"])
    assert pd.isna(rows.loc["extract", "gpu_hours"])
    # The phase's hour on 4 GPUs, shared out by the requests' time.
    assert rows.loc["ground", "seconds"] == pytest.approx(2700)
    assert rows.loc["ground", "gpu_hours"] == pytest.approx(3)
    assert rows["note"].tolist() == ["", "seconds shared out", "seconds shared out"]
    total = table.iloc[3]
    assert total["tokens_in"] == 1_008_000
    assert total["tokens_cached"] == 504_000
    assert total["tokens_out"] == 100_350
    assert total["tokens_reasoning"] == 10_035
    assert total["seconds"] == pytest.approx(3620)
    assert total["gpu_hours"] == pytest.approx(4)
    assert total["usd"] == pytest.approx(2.5)


def test_a_stages_own_wall_time_is_taken_where_there_is_one(run):
    manifest = run.manifest
    manifest["phases"]["judge"]["stages"]["map"]["wall_seconds"] = 1800.0
    manifest["phases"]["judge"]["model"]["n_gpus"] = 2
    (run.path / "manifest.json").write_text(json.dumps(manifest))
    row = cost_table([run], prices=PRICES).set_index("stage").loc["map"]
    assert row["seconds"] == 1800
    assert row["gpu_hours"] == pytest.approx(1)
    assert row["note"] == ""


def test_runs_add_up(run):
    table = cost_table([run, run], prices=PRICES)
    assert table.iloc[-1]["run"] == "total"
    assert table.iloc[-1]["n_prompts"] == 100
    assert table.iloc[-1]["usd"] == pytest.approx(5)


def test_nothing_gives_an_empty_table_and_no_manifest_an_error(tmp_path):
    assert cost_table([]).empty
    with pytest.raises(StoreError, match=r"no manifest\.json"):
        cost_table([RunFolder(tmp_path)])


def test_a_real_run_that_is_gone_on_with_costs_the_same_prompts(tmp_path, own_file):
    config = RunConfig(dataset=str(own_file), candidates=("lexical/hashtag",))
    suite = Suite(tmp_path / "suite", config)
    suite.extract()
    suite.judge()
    first = cost_table(Suite.open(tmp_path / "suite").runs)
    suite.extract()
    suite.judge()
    again = cost_table(Suite.open(tmp_path / "suite").runs)
    assert first["n_prompts"].tolist() == again["n_prompts"].tolist()
    assert first["stage"].tolist() == ["extract", "ground", "shortlist", "retrieve", "map", "total", "total"]
    (run,) = Suite.open(tmp_path / "suite").runs
    assert first["n_interests"].iloc[-1] == run.read("extractions").num_rows
    assert again["gpu_hours"].isna().all()
    assert (again["seconds"] >= 0).all()
