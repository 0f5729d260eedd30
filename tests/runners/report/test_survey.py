import numpy as np
import pandas as pd
import pytest
from gistbench.hf_datasets.errors import DataError
from gistbench.runners.report import Options, run_analyses
from gistbench.runners.report.survey import _p


@pytest.fixture
def runs(opened, interest):
    def users(*categories):
        return {"u": [interest(f"i{c}", c, e=2) for c in categories], "v": [interest("i1", 1, e=2)]}

    return opened({"org/a": users(1, 2), "org/b": users(1), "org/c": users(7)})


def test_table_5_survey_metrics_and_their_correlation(runs, tmp_path):
    path = tmp_path / "survey.csv"
    path.write_text("user_id,category_id\nu,1\nu,2\nu,3\nv,1\nnobody,5\n")
    (found,) = run_analyses(runs, ["table_5"], Options(survey=path))
    frame = found.tables["models"].set_index("model")
    # u reported 1, 2, 3 and v 1: A names 1, 2 | 1; B 1 | 1; C 7 | 1.
    assert frame["s_precision"].tolist() == [1.0, 1.0, 0.5]
    assert frame["s_recall"].tolist() == pytest.approx([(2 / 3 + 1) / 2, (1 / 3 + 1) / 2, 0.5])
    assert frame["mean_s_f1"].tolist() == pytest.approx([0.9, 0.75, 0.5])
    assert frame["n_users"].tolist() == [2, 2, 2]
    # IG F1 of u (oracle 1, 2, 7): 4/5, 1/2, 1/2; of v 1: medians 0.9, 0.75, 0.75; IS of all is 1/1.
    assert frame["geometric_mean"].tolist() == pytest.approx(np.sqrt([0.9, 0.75, 0.75]))
    assert found.tables["correlations"]["rho"].tolist() == pytest.approx([np.sqrt(3) / 2])


def test_table_5_refuses_what_is_no_survey(runs, tmp_path):
    path = tmp_path / "survey.csv"
    path.write_text("user_id,category\nu,1\n")
    with pytest.raises(DataError, match="lacks category_id"):
        run_analyses(runs, ["table_5"], Options(survey=path))
    path.write_text("user_id,category_id\nu,1\nu,jazz\n")
    with pytest.raises(DataError, match=r"row 3: category_id is 'jazz'"):
        run_analyses(runs, ["table_5"], Options(survey=path))
    path.write_text("user_id,category_id\nnobody,1\n")
    assert "No scored user" in run_analyses(runs, ["table_5"], Options(survey=path))[0].missing


def test_table_6_rho_and_its_exact_p_value(runs, tmp_path):
    path = tmp_path / "elo.csv"
    path.write_text("model,elo\norg/a,1400\norg/b,1300\norg/c,1200\nothers/x,1\n")
    (found,) = run_analyses(runs, ["table_6"], Options(external=path))
    row = found.tables["correlations"].iloc[0]
    assert row["n_models"] == 3
    assert row["rho"] == pytest.approx(np.sqrt(3) / 2)  # F1 is tied between b and c
    assert row["p_value"] == pytest.approx(4 / 6)  # of 6 orders, the tied rank pair leaves 2 and their mirrors
    assert len(found.tables["models"]) == 3


def test_no_sample_of_permutations_makes_a_p_value_of_0():
    known = pd.DataFrame({"external": range(20), "ig_f1": range(20)}, dtype=float)
    assert _p(known) == 1 / 10_001


def test_table_6_refuses_a_model_that_is_there_twice(runs, tmp_path):
    path = tmp_path / "elo.csv"
    path.write_text("model,elo\norg/a,1400\norg/a,1300\n")
    with pytest.raises(DataError, match="twice"):
        run_analyses(runs, ["table_6"], Options(external=path))
