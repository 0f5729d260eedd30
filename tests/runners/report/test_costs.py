import pytest
from gistbench.runners.report import Options, Runs, run_analyses


@pytest.fixture
def runs(suite, interest):
    named = {
        "meta-llama/Llama-3.1-8B-Instruct": {"u": [interest("a", 1, e=2), interest("b", 2, e=2)]},
        "org/b": {"u": [interest("a", 1, e=2)]},
    }
    return Runs.open([suite("one", named), suite("two", named, dataset="synthetic")])


def test_table_24_what_candidates_cost(runs):
    frame = run_analyses(runs, ["table_24"], Options())[0].tables["candidates"].set_index(["model", "dataset"])
    row = frame.loc[("meta-llama/Llama-3.1-8B-Instruct", "synthetic")]
    assert (row["n_prompts"], row["tokens_in"], row["tokens_out"], row["seconds"]) == (10, 100, 10, 1.0)
    assert (row["published_n_prompts"], row["published_tokens_in"]) == (46961, 175_300_000)
    assert frame["published_n_prompts"].notna().sum() == 1


def test_table_25_what_the_judge_costs_by_pass(runs):
    frame = run_analyses(runs, ["table_25"], Options())[0].tables["passes"].set_index("stage")
    assert list(frame.index) == ["ground", "shortlist", "retrieve", "map"]
    assert frame["n_prompts"].tolist() == [40] * 4
    assert frame["seconds"].tolist() == pytest.approx([4.0] * 4)  # 4 s of each run over four equal stages
    assert frame["gpu_hours"].isna().all()


def test_table_27_what_judging_each_candidate_costs(runs):
    frame = run_analyses(runs, ["table_27"], Options())[0].tables["candidates"].set_index("model")
    assert frame["n_interests"].tolist() == [4, 2]
    assert frame["tokens_per_interest"].tolist() == pytest.approx([880 / 4, 880 / 2])
    assert frame["published_gpu_hours"].iloc[0] == 108


def test_interests_of_two_suites_with_equal_folder_names_count_as_their_tokens_do(suite, interest):
    named = {"org/a": {"u": [interest("a", 1, e=2), interest("b", 2, e=2)]}}
    runs = Runs.open([suite(f"h{n}", named, history_length=n) for n in (50, 100)])
    frame = run_analyses(runs, ["table_27"], Options())[0].tables["candidates"]
    assert frame["tokens_in"].tolist() == [2 * 400]
    assert frame["n_interests"].tolist() == [4]
    assert frame["tokens_per_interest"].tolist() == pytest.approx([2 * 440 / 4])
