import pytest
from gistbench.hf_datasets.errors import ConfigError
from gistbench.runners.report import Options, run_analyses
from gistbench.runners.report.evidence import inspect_user


@pytest.fixture
def runs(opened, interest):
    """The example of Tables 12 and 13: basketball is verified with IS 3/4, cooking is not."""
    nba = interest("NBA Basketball", 1, e=2, i=2, backing=4, correct=3)
    cooking = interest("Italian Cooking", 2, i=2, n=2, backing=4, correct=0, dropped=1)
    return opened({"org/a": {"u": [nba, cooking], "v": [nba]}, "org/b": {"u": [interest("tea", 3, e=2)], "v": []}})


def test_tables_12_and_13(runs):
    (found,) = run_analyses(runs, ["table_12"], Options())
    evidence, verdicts = found.tables["evidence"], found.tables["verdicts"].set_index("interest")
    assert evidence["engagement"].tolist() == ["exp+", "exp+", "imp+", "imp+", "imp+", "imp+", "imp−", "imp−"]
    assert evidence["relevant"].tolist() == [True] * 7 + [False]
    assert evidence["content"].iloc[0] == "about NBA Basketball"
    nba, cooking = verdicts.loc["NBA Basketball"], verdicts.loc["Italian Cooking"]
    assert (bool(nba["verified"]), nba["n_correct"], nba["n_backing"], nba["specificity"]) == (True, 3, 4, 0.75)
    assert (bool(cooking["verified"]), cooking["n_implicit_positive"], cooking["n_implicit_negative"]) == (False, 2, 1)
    assert cooking["reasons"] == "insufficient explicit positive, insufficient implicit positive"
    categories = found.tables["categories"]
    assert categories["found"].tolist() == [True, False]  # the oracle holds b's category too
    assert found.tables["scores"]["ig_recall"].tolist() == [0.5]
    assert "User u" in found.caption


def test_a_user_of_ones_own_choice(runs):
    (found,) = run_analyses(runs, ["table_12"], Options(user="v"))
    assert found.tables["verdicts"]["interest"].tolist() == ["NBA Basketball"]
    with pytest.raises(ConfigError, match="No run was asked about user 'x'"):
        run_analyses(runs, ["table_12"], Options(user="x"))


def test_inspecting_a_user_without_interests(runs):
    tables = inspect_user(runs.all[1], "v")
    assert len(tables["evidence"]) == 0
    assert tables["scores"]["ig_f1"].tolist() == [0.0]
    assert tables["categories"]["found"].tolist() == [False]
    with pytest.raises(ConfigError, match="not asked about user 'x'"):
        inspect_user(runs.all[1], "x")
