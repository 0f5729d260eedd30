import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from gistbench.hf_datasets.errors import ConfigError, DataError
from gistbench.runners.qrels.beyond import beyond
from gistbench.runners.qrels.calibrate import calibrate
from gistbench.runners.qrels.completion import choose_pairs, equal_shares, pair_values
from gistbench.runners.qrels.families import agreement_by_family, family_of
from gistbench.runners.qrels.judge import judge
from gistbench.runners.qrels.judged import Judged
from gistbench.runners.qrels.judging import open_judge
from gistbench.runners.qrels.panel import dawid_skene, majority_grade, make_panel
from gistbench.runners.qrels.powered import prediction_powered
from gistbench.runners.qrels.setting import Setting, score_setting
from gistbench.runners.qrels.simulate import SimulatedJudge
from gistbench.runners.qrels.validate import import_validations
from gistbench.runners.qrels.write import write_analyses
from gistbench.runners.report.export import describe_columns
from gistbench.runners.stages.grade import Condition

# --- calibration -----------------------------------------------------------------------------------------------------


def rated(n_users=40, n_items=30, seed=0):
    """Return ratings, and grades of a judge who is two points too strict and squeezes the scale."""
    rng = np.random.default_rng(seed)
    user = np.repeat([f"u{i}" for i in range(n_users)], n_items)
    item = np.tile([f"i{i}" for i in range(n_items)], n_users)
    rating = rng.integers(1, 6, len(user)).astype(float)
    grade = np.clip(np.floor((rating - 1) / 2 + rng.normal(0, 0.4, len(user)) + 0.5), 0, 5).astype(int)
    return pa.table({"user": user, "item": item, "rating": rating}), pa.table(
        {"user": user, "item": item, "grade": grade}
    )


def test_calibration_removes_what_is_systematic():
    human, grades = rated()
    found = calibrate(grades, human)
    assert found.bias_before < -1.5
    assert abs(found.bias_after) < 0.05
    assert found.mae_after < 0.4 * found.mae_before
    assert found.mapping.shape == (5, 6)
    assert (np.diff(found.mapping, axis=1) >= 0).all()
    assert found.n_pairs == human.num_rows
    assert calibrate(grades, human).grades.equals(found.grades)


def test_a_users_own_ratings_never_touch_the_users_grades():
    human, grades = rated()
    found = calibrate(grades, human)
    wild = human.to_pandas()
    wild.loc[wild["user"] == "u3", "rating"] = 0.5
    other = calibrate(grades, pa.Table.from_pandas(wild, preserve_index=False))
    own = np.array(grades["user"].to_pylist()) == "u3"
    assert np.array_equal(found.grades["grade"].to_numpy()[own], other.grades["grade"].to_numpy()[own])
    assert not np.array_equal(found.grades["grade"].to_numpy(), other.grades["grade"].to_numpy())


def test_pairs_that_nobody_rated_are_mapped_and_missing_ones_stay_missing():
    human, grades = rated()
    more = pa.table({"user": ["u1", "u1"], "item": ["new", "other"], "grade": pa.array([2, None], pa.int64())})
    found = calibrate(pa.concat_tables([grades, more]), human).grades.slice(grades.num_rows)
    assert found["grade"].to_pylist()[1] is None
    assert 4 < found["grade"].to_pylist()[0] <= 5


def test_calibration_needs_ratings_and_folds():
    human, grades = rated(n_users=2)
    with pytest.raises(ConfigError, match="2 or more"):
        calibrate(grades, human, n_folds=1)
    with pytest.raises(DataError, match="nothing to learn from"):
        calibrate(grades, human.slice(0, 0))


# --- prediction-powered estimates ------------------------------------------------------------------------------------


def worlds(correlation, bias, n_users=300, n_labelled=60, n_worlds=2000, seed=0):
    """Return the judge's and people's metric of every user in many worlds whose mean is 0.3."""
    rng = np.random.default_rng(seed)
    human = 0.3 + 0.2 * (rng.exponential(1, (n_worlds, n_users)) - 1)  # skewed, as AP is
    noise = rng.normal(0, 0.2, human.shape)
    judge = bias + correlation * human + np.sqrt(1 - correlation**2) * noise
    known = human.copy()
    known[:, n_labelled:] = np.nan
    return judge, known


@pytest.mark.parametrize(("correlation", "bias"), [(0.95, 0.0), (0.95, 0.3), (0.7, -0.1), (0.0, 0.5)])
def test_intervals_hold_what_they_promise_whatever_the_judge_is_worth(correlation, bias):
    judge, human = worlds(correlation, bias)
    found = prediction_powered(judge, human)
    covered = ((found.low <= 0.3) & (found.high >= 0.3)).mean()
    assert 0.92 <= covered <= 0.97
    assert found.estimate.mean() == pytest.approx(0.3, abs=0.003)
    width = (found.high - found.low).mean() / (found.classical_high - found.classical_low).mean()
    if correlation > 0.9:
        assert width < 0.65
    assert width < 1.02, "a worthless judge costs next to nothing"


def test_the_judge_alone_is_as_wrong_as_its_bias():
    judge, human = worlds(0.95, 0.3)
    found = prediction_powered(judge, human)
    assert abs(found.judge_alone.mean() - 0.3) > 0.25


def test_the_formula_by_hand():
    """The judge says the same of all users: it has no weight, and the estimate is people's mean, with its interval."""
    found = prediction_powered(np.full((1, 8), 2.0), np.array([[1.0, 2, 3, 4] + [np.nan] * 4]))
    assert found.weight[0] == 0
    assert found.estimate[0] == found.classical[0] == 2.5
    error = np.sqrt((5 / 3) / 4)
    assert found.high[0] - found.estimate[0] == pytest.approx(3.182446 * error, rel=1e-5)
    assert found.low[0] == found.classical_low[0]
    assert (found.n_labelled, found.n_unlabelled) == (4, 4)


def test_a_judge_who_is_right_moves_the_estimate_to_the_users_that_people_did_not_see():
    """With n = N the weight of a judge without error is half of 1, in each fold by that fold's variances."""
    human = np.arange(20.0)
    judge = np.concatenate([human, human + 4])[None, :]
    found = prediction_powered(judge, np.concatenate([human, np.full(20, np.nan)])[None, :])
    assert 0.4 < found.weight[0] < 0.6
    assert found.estimate[0] == pytest.approx(9.5 + found.weight[0] * 4, abs=0.2)


def test_too_few_users():
    with pytest.raises(DataError, match="2 users with people's judgements and 2 without"):
        prediction_powered(np.ones((1, 4)), np.array([[1.0, 1.0, np.nan, np.nan]]))


# --- completion ------------------------------------------------------------------------------------------------------


def test_shares_become_equal_and_the_best_go_first():
    rating = [4.0, 3.0, 5.0, None, None, None] + [None] * 6
    pool = pa.table({"rating": rating, "count": [90] * 6 + [1] * 6})
    values = np.arange(12.0)
    found = choose_pairs(pool, values, 5, n_strata=2)
    assert [row["share_judged"] for row in found.strata] == pytest.approx([4 / 6, 4 / 6])
    assert np.flatnonzero(found.chosen).tolist() == [5, 8, 9, 10, 11]


def test_people_judge_popular_items_more_and_the_completion_evens_it_out(pooled):
    setting = Setting.read(pooled)
    values = pair_values(setting.runs, setting.pool)
    assert (values > 0).all()
    n = setting.pool.num_rows // 3
    found = choose_pairs(setting.pool, values, n)
    assert found.chosen.sum() == n
    before = [row["n_rated"] / row["n_pairs"] for row in found.strata]
    after = [row["share_judged"] for row in found.strata]
    assert max(before) - min(before) > 0.1
    assert max(after) - min(after) < 0.02
    rated = ~np.isnan(setting.pool["rating"].to_numpy().astype(float))
    assert not (rated & found.chosen).any()


@pytest.mark.parametrize(
    ("sizes", "rated", "n", "wanted"),
    [([10, 10], [10, 0], 5, [0, 5]), ([10, 30], [0, 0], 4, [1, 3]), ([5, 5], [0, 0], 99, [5, 5]), ([4], [4], 3, [0])],
)
def test_equal_shares(sizes, rated, n, wanted):
    assert equal_shares(np.array(sizes), np.array(rated), n).tolist() == wanted


def test_values_by_hand():
    runs = pa.table({"system": ["A", "A", "B"], "user": ["u", "u", "u"], "item": ["x", "y", "y"]})
    pool = pa.table({"user": ["u", "u", "u"], "item": ["y", "x", "z"]})
    assert pair_values(runs, pool) == pytest.approx([1 / np.log2(3) + 1, 1, 0])


# --- circularity -----------------------------------------------------------------------------------------------------


def test_a_judge_who_favours_a_family_is_found_out():
    rng = np.random.default_rng(1)
    n_users, n_items = 60, 40
    user = np.repeat([f"u{i}" for i in range(n_users)], n_items)
    item = np.tile([f"i{i:02d}" for i in range(n_items)], n_users)
    rating = rng.integers(0, 6, len(user)).astype(float)
    ours = rng.random(len(user)) < 0.3
    theirs = rng.random(len(user)) < 0.3
    grade = rating + rng.normal(0, 1, len(user)) + 0.8 * ours
    human = pa.table({"user": user, "item": item, "rating": rating})
    grades = pa.table({"user": user, "item": item, "grade": grade})
    runs = pa.table(
        {
            "system": ["A"] * ours.sum() + ["B"] * theirs.sum(),
            "user": np.concatenate([user[ours], user[theirs]]),
            "item": np.concatenate([item[ours], item[theirs]]),
        }
    )
    found = agreement_by_family(runs, {"A": "ours", "B": "theirs"}, human, grades).set_index("family")
    assert found.loc["ours", "ci_favour_low"] > 0.5
    assert found.loc["ours", "favour"] == pytest.approx(0.8, abs=0.15)
    assert found.loc["theirs", "ci_favour_low"] < 0 < found.loc["theirs", "ci_favour_high"]
    assert found.loc["ours", "n_pairs"] == ours.sum()


def test_families_are_the_recommenders_modules():
    assert family_of("ease") == "linear"
    assert family_of("wsr-ub") == "weighted_sum"
    assert family_of("somebody's") == "imported"


# --- panels ----------------------------------------------------------------------------------------------------------


def votes(n=3000, seed=0):
    """Return the truth, and grades of two good judges and three who mostly guess alike and are generous."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 6, n)
    good = [np.where(rng.random(n) < 0.85, truth, rng.integers(0, 6, n)) for _ in range(2)]
    poor = [np.where(rng.random(n) < 0.2, truth, rng.integers(3, 6, n)) for _ in range(3)]
    return truth, np.stack([*good, *poor], axis=1).astype(float)


def test_weights_by_reliability_beat_the_majority_and_are_recovered():
    truth, grades = votes()
    found = dawid_skene(grades)
    by_majority = (majority_grade(grades) == truth).mean()
    by_weight = (found.grade == truth).mean()
    assert by_weight > by_majority + 0.02
    actual = (grades == truth[:, None]).mean(axis=0)
    assert np.abs(found.reliability - actual).max() < 0.05
    assert found.n_rounds > 1
    assert np.allclose(found.confusion.sum(axis=2), 1)


def test_missing_grades_count_for_nothing():
    _, grades = votes(500)
    grades[np.random.default_rng(1).random(grades.shape) < 0.3] = np.nan
    grades[0] = np.nan
    found = dawid_skene(grades)
    assert np.isnan(found.grade[0])
    assert np.isnan(majority_grade(grades)[0])
    assert np.array_equal(np.isnan(found.grade), np.isnan(grades).all(axis=1))


def test_the_order_of_judges_does_not_matter():
    _, grades = votes(400)
    assert np.array_equal(dawid_skene(grades).grade, dawid_skene(grades[:, ::-1]).grade)
    assert np.array_equal(majority_grade(grades), majority_grade(grades[:, ::-1]))


def test_a_panel_is_a_judge(pooled, simulate):
    from gistbench.runners.qrels.experiments import experiments

    for number, name in enumerate(("one", "two", "three")):
        simulate(answer=lambda request, n=number: str((len(request.about.item) + int(request.about.item[1:]) + n) % 6))
        with open_judge(pooled, f"simulated:{name}") as judging:
            judge(pooled, judging, [Condition("profile")])
    names = ["one@1", "two@1", "three@1"]
    record = make_panel(pooled, names, Condition("profile"), method="majority")
    assert record["n_ok"] == record["n_pairs"]
    assert set(record["mae"]) == {*names, "panel-majority"}
    assert record["agreement_of_judges"]["share_equal"] == 0
    assert "panel-dawid-skene" in make_panel(pooled, names, Condition("profile"))["mae"]
    grades = Judged(pooled, "panel-majority").grades(Condition("profile"))
    assert grades["grade"].null_count == 0
    found = {one.id: one for one in experiments(pooled, n_resamples=0)}
    assert {"one@1", "panel-majority", "panel-dawid-skene"} < set(found["table_6"].tables["values"]["judge"])


def test_a_panel_of_one_and_of_other_pairs(pooled, simulate):
    simulate()
    for name, pairs in (("one", "all"), ("two", "test")):
        with open_judge(pooled, f"simulated:{name}") as judging:
            judge(pooled, judging, [Condition("profile")], pairs=pairs)
    with pytest.raises(ConfigError, match="two judges or more; there is one@1"):
        make_panel(pooled, ["one@1", "one@1"], Condition("profile"))
    with pytest.raises(ConfigError, match="two@1 graded other pairs than one@1"):
        make_panel(pooled, ["one@1", "two@1"], Condition("profile"))
    with pytest.raises(ConfigError, match="no method 'mean'"):
        make_panel(pooled, ["one@1", "two@1"], Condition("profile"), method="mean")


def test_frames_of_families_have_one_type_per_column():
    frame = agreement_by_family(
        pa.table({"system": ["A"], "user": ["u"], "item": ["x"]}),
        {"A": "ours"},
        pa.table({"user": ["u"], "item": ["y"], "rating": [3.0]}),
        pa.table({"user": ["u"], "item": ["y"], "grade": [2]}),
        n_resamples=10,
    )
    assert frame.loc[0, "n_pairs"] == 0
    assert pd.isna(frame.loc[0, "favour"])


# --- together --------------------------------------------------------------------------------------------------------


def test_a_limited_number_of_pooled_pairs_is_judged_evenly(pooled, simulate):
    asked = simulate()
    with open_judge(pooled, "simulated:judge") as judging:
        (record,) = judge(pooled, judging, [Condition("profile")], pairs="pool", n_pool_pairs=100)
    assert len(asked) == record["n_pairs"] == 100
    shares = [row["share_judged"] for row in record["strata"]]
    assert max(shares) - min(shares) < 0.05


def test_analyses_of_real_grades(pooled, simulate, tmp_path):
    simulate(SimulatedJudge(error=0.5, bias=-1.0))
    with open_judge(pooled, "simulated:judge") as judging:
        judge(pooled, judging, [Condition("profile")])
    found = {one.id: one for one in beyond(pooled, n_resamples=20)}
    assert [one.id for one in found.values() if one.missing] == ["validations"]
    row = found["calibration"].tables["values"].iloc[0]
    assert row["bias_before"] < -0.7
    assert abs(row["bias_after"]) < 0.2
    assert row["mae_after"] < row["mae_before"]
    powered = found["powered"].tables["values"]
    assert len(powered) == 8 * 2
    assert set(powered["n_labelled"]) == {5}
    assert found["powered"].tables["summary"]["held_share"].between(0, 1).all()
    families = found["circularity"].tables["values"]
    assert set(families["family"]) == {"baselines", "factors", "weighted_sum", "feedback", "linear"}
    for one in found.values():
        for table in one.tables.values():
            assert describe_columns(table), "every column has a label"
    paths = write_analyses(found.values(), tmp_path)
    assert (tmp_path / "circularity.svg") in paths
    assert "weighted_sum" in (tmp_path / "circularity.svg").read_text()


def test_validated_grades_count_as_peoples(pooled, simulate, tmp_path):
    """People say 0 of what the judge finds best: it errs by that much, and the ranking by people changes."""
    simulate()
    with open_judge(pooled, "simulated:judge") as judging:
        judge(pooled, judging, [Condition("profile")])
        grades = Judged(pooled, judging.name).grades(Condition("profile"))
    holes = pooled.read("pool").filter(pc.is_null(pooled.read("pool")["rating"])).select(["user", "item"])
    best = grades.filter(pc.greater_equal(grades["grade"], 4)).join(holes, ["user", "item"], join_type="inner")
    rows = best.slice(0, 30).to_pylist()
    path = tmp_path / "graded.csv"
    path.write_text("user,item,grade\n" + "".join(f"{row['user']},{row['item']},0\n" for row in rows))
    before = score_setting(Setting.read(pooled), grades, n_resamples=0)["rankings"]["augmented"]
    import_validations(pooled, path)
    analyses = {one.id: one for one in beyond(pooled, n_resamples=20)}
    write_analyses([analyses["validations"]], tmp_path / "out")
    assert "Tau NDCG, after" in (tmp_path / "out" / "tables.md").read_text()
    found = analyses["validations"].tables["values"].iloc[0]
    assert (found["n_validated"], found["n_pairs"]) == (30, 30)
    assert found["mae"] == pytest.approx(np.mean([row["grade"] for row in rows]))
    assert found["ci_mae_low"] <= found["mae"] <= found["ci_mae_high"]
    assert found["tau_ndcg_before"] == before["ndcg"]["tau"]
    assert (found["tau_ap_before"], found["tau_ndcg_before"]) != (found["tau_ap_after"], found["tau_ndcg_after"])


def test_what_is_not_judged(pooled, simulate):
    simulate()
    with open_judge(pooled, "simulated:judge") as judging:
        judge(pooled, judging, [Condition("profile")])
    found = {one.id: one for one in beyond(pooled, n_resamples=0)}
    systems = found["holes"].tables["systems"]
    assert systems.groupby(["judge", "condition"]).size().to_dict() == {("", "human"): 8, ("judge@1", "augmented"): 8}
    for metric in ("ap", "ndcg"):
        assert (systems[f"{metric}_lower"] <= systems[metric] + 1e-12).all()
        assert (systems[metric] <= systems[f"{metric}_upper"] + 1e-12).all()
    width = (systems["ndcg_upper"] - systems["ndcg_lower"]).groupby(systems["condition"]).mean()
    assert width["augmented"] == pytest.approx(0, abs=1e-12), "the judge graded every hole"
    assert width["human"] > 0.1
    rankings = found["holes"].tables["rankings"].set_index(["condition", "measure"])
    assert rankings.loc[("human", "ap"), "tau_ap_human"] == pytest.approx(1)
    assert rankings.loc[("human", "ndcg"), "tau_ndcg_human"] == pytest.approx(1)
    assert set(rankings.loc["human"].index) == {"ap", "ndcg", "bpref", "infap", "ap_condensed", "ndcg_condensed"}
    bias = found["pool_bias"].tables["values"].set_index("system")
    assert (bias["ndcg_bias"] == bias["ndcg"] - bias["ndcg_left_out"]).all()
    assert bias.loc["random", "ndcg_place_left_out"] >= bias.loc["random", "ndcg_place"]
    depths = found["pool_depths"].tables["values"]
    assert depths["depth"].tolist() == [1, 2, 5, 10]
    assert depths["tau_ndcg"].iloc[-1] == pytest.approx(1)
    assert depths["n_pairs"].is_monotonic_increasing


def test_nothing_graded_says_so(pooled):
    found = {one.id: one for one in beyond(pooled)}
    assert {id: one.missing for id, one in found.items() if id in ("calibration", "powered", "circularity")} == (
        dict.fromkeys(("calibration", "powered", "circularity"), "No judge graded held-out pairs.")
    )
    assert found["validations"].missing.startswith("People validated no pooled pairs")
    assert found["pool_bias"].missing == found["pool_depths"].missing == "No judge graded pooled pairs."
    assert set(found["holes"].tables["systems"]["condition"]) == {"human"}
