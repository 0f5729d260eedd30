import pytest
from gistbench.runners.report import Options, Runs, run_analyses
from gistbench.runners.report.rescoring import rescore
from gistbench.runners.report.results import scores_frame


@pytest.fixture
def named(interest):
    """A verifies 1, 2, 3 of u and 1 of v; B 1, 2 of u; C 1 of u and 4 of v: 2 of A and 1 of C are theirs alone."""

    def found(**users):
        return {user: [interest(f"i{c}", c, e=2) for c in categories] for user, categories in users.items()}

    return {"org/a": found(u=[1, 2, 3], v=[1]), "org/b": found(u=[1, 2], v=[]), "org/c": found(u=[1], v=[4])}


def test_table_15_by_how_many_models(opened, named):
    (found,) = run_analyses(opened(named), ["table_15"], Options())
    frame = found.tables["by_k"]
    # u1 by all three, u2 by two; u3, v1 and v4 by one.
    assert frame["n_pairs"].tolist() == [3, 1, 1]
    assert frame["pair_share"].tolist() == pytest.approx([0.6, 0.2, 0.2])
    assert frame["at_least_share"].tolist() == pytest.approx([1.0, 0.4, 0.2])


def test_table_16_without_each_model(opened, named):
    runs = opened(named)
    (found,) = run_analyses(runs, ["table_16"], Options())
    frame = found.tables["by_model"].set_index("model")
    assert frame["n_verified_pairs"].tolist() == [4, 2, 2]
    assert frame["n_sole_provider"].tolist() == [2, 0, 1]
    assert frame["sole_provider_share"].tolist() == pytest.approx([0.4, 0.0, 0.2])
    assert frame["n_pairs_without"].tolist() == [3, 5, 4]
    # Without A the oracle is u: 1, 2 and v: 4. B's recall goes from (2/3, 0) to (1, 0): the median rises by 1/6;
    # C's from (1/3, 1/2) to (1/2, 1): by 1/3.
    assert frame["largest_gain_without"].tolist() == pytest.approx([1 / 3, 0.0, 1 / 4])
    assert frame["rho_without"]["org/b"] == 1.0


def test_leaving_a_model_out_is_what_rescoring_gives(opened, named):
    runs = opened(named)
    kept = {"u": [1, 2], "v": [4]}
    gains = [
        scores_frame(*rescore(run, oracle=kept))["ig_recall"].median() - run.score["ig_recall"] for run in runs.all[1:]
    ]
    frame = run_analyses(runs, ["table_16"], Options())[0].tables["by_model"]
    assert frame["largest_gain_without"].iloc[0] == pytest.approx(max(gains))


def test_a_given_oracle_counts_as_one_more_model(suite, named, tmp_path):
    given = tmp_path / "given.json"
    given.write_text('{"u": [1, 7], "v": []}')
    path = suite("one", named, oracle=given)
    frame = run_analyses(Runs.open([path]), ["table_15"], Options())[0].tables["by_k"]
    assert frame["n_pairs"].tolist() == [4, 1, 0, 1]


def test_few_models_have_no_leave_one_out(opened, named):
    runs = opened({"org/a": named["org/a"]})
    frame = run_analyses(runs, ["table_16"], Options())[0].tables["by_model"]
    assert frame["n_sole_provider"].tolist() == [4]
    assert frame["largest_gain_without"].isna().all()
