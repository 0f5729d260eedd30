import json
import xml.etree.ElementTree as ET
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from gistbench.hf_datasets.results_published import load_results_published
from gistbench.runners.qrels.experiments import experiments, mean_absolute_error, published_cell
from gistbench.runners.qrels.induce import induce
from gistbench.runners.qrels.judge import judge
from gistbench.runners.qrels.judging import open_judge
from gistbench.runners.qrels.setting import Setting, score_setting
from gistbench.runners.qrels.simulate import SimulatedJudge, factorised_truth, head_only
from gistbench.runners.qrels.write import write_analyses
from gistbench.runners.report.analysis import Analysis, FigureSpec, Layout
from gistbench.runners.stages.grade import MODES, Condition
from scipy.stats import kendalltau

# --- what the paper printed -----------------------------------------------------------------------------------------


def printed(table):
    rows = load_results_published().to_pylist()
    return {
        (row["row"], row["column"]): row["value"]
        for row in rows
        if row["paper"] == "preference-induction" and row["table"] == table
    }


def is_multiple(value, step):
    """Tell whether a number printed with four places can be a multiple of a step."""
    return abs(round(value / step) * step - value) <= 0.00005 + 1e-12


@pytest.mark.parametrize(("table", "n_systems", "exceptions"), [("Table 6", 21, 0), ("Table 8", 19, 1)])
def test_differences_of_tau_tell_how_many_systems_were_ranked(table, n_systems, exceptions):
    """Without ties tau is (pairs in order - others) / pairs, so it and a difference of two have steps of 2 / pairs."""
    n_pairs = n_systems * (n_systems - 1) // 2
    assert n_pairs in (210, 171)
    values = printed(table)
    assert len(values) == 12
    assert sum(not is_multiple(value, 2 / n_pairs) for value in values.values()) == exceptions


def test_table_6_are_multiples_of_1_by_105_and_table_8_of_1_by_171_but_one():
    assert all(is_multiple(value, 1 / 105) for value in printed("Table 6").values())
    others = {cell: value for cell, value in printed("Table 8").items() if not is_multiple(value, 1 / 171)}
    assert others == {("Profile", "Synthetic Pool / AP"): -0.0584}


def test_no_other_number_of_systems_explains_table_6_as_well():
    values = list(printed("Table 6").values())
    fitting = [n for n in range(5, 32) if all(is_multiple(value, 2 / (n * (n - 1) / 2)) for value in values)]
    assert fitting == [21]


@pytest.mark.parametrize(("table", "n_systems"), [("Table 4", 21), ("Table 5", 21), ("Table 7", 19)])
def test_the_other_values_fit_tau_b_with_few_ties(table, n_systems):
    """Tau-b is (C - D) / sqrt((n - t)(n - u)) with t and u tied pairs: each printed value has one with t, u <= 5."""
    n_pairs = n_systems * (n_systems - 1) // 2
    for cell, value in printed(table).items():
        if "tau" in cell[1]:
            assert fewest_ties(value, n_pairs) <= 5, (cell, value)


def fewest_ties(value, n_pairs):
    """Return the least t + u with which some whole C - D gives a printed tau."""
    for total in range(40):
        for t in range(total + 1):
            root = np.sqrt((n_pairs - t) * (n_pairs - (total - t)))
            # C - D has the parity of the pairs that are tied in neither ranking.
            if any(abs(k / root - value) <= 0.00005 for k in range(int(value * root) - 1, int(value * root) + 3)):
                return total
    return 40


def test_published_cells():
    assert published_cell(4, "IPP + Profile", "tau NDCG / w/o plot") == 1.0
    assert published_cell(None, "IPP", "MAE / w/o plot") is None
    assert published_cell(5, "IPP", "no such column") is None
    assert Fraction(published_cell(6, "IPP", "Synthetic Pool / AP")).limit_denominator(105) == Fraction(-14, 105)


# --- the experiments ------------------------------------------------------------------------------------------------


@pytest.fixture
def judged(pooled, simulate):
    simulate()
    with open_judge(pooled, "simulated:judge") as judging:
        induce(pooled, judging)
        judge(pooled, judging, [Condition(mode) for mode in MODES])
        judge(pooled, judging, [Condition(mode, plot=True) for mode in MODES], pairs="test")
    return pooled


def call_it(work, dataset):
    """Have a split say that it is of another data set."""
    path = work.path / "split.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"dataset": dataset}))


@pytest.mark.parametrize(
    "dataset", ["ratings.csv", "/data/goodbooks/ratings.csv", "goodbooks_ratings.csv", "movielens_ratings/r.csv"]
)
def test_ratings_of_ones_own_are_compared_with_no_published_number(judged, tmp_path, dataset):
    call_it(judged, dataset)
    found = {one.id: one for one in experiments(judged, n_resamples=0)}
    assert {"table_4", "table_5", "table_6"} < found.keys()
    for one in found.values():
        for table in one.tables.values():
            for column in table.filter(like="published_"):
                assert table[column].isna().all(), (one.id, column)
    write_analyses(found.values(), tmp_path)
    text = (tmp_path / "tables.md").read_text()
    assert "paper" not in text
    assert "/data" not in text
    assert dataset.rpartition("/")[2].replace("_", "\\_") in text


def test_the_books_have_their_own_tables(judged):
    call_it(judged, "goodbooks_ratings")
    found = {one.id: one for one in experiments(judged, n_resamples=0)}
    assert {"table_5", "table_7", "table_8"} < found.keys()
    assert found["table_5"].tables["values"]["published_value"].isna().all()
    values = found["table_8"].tables["values"]
    assert set(values["published_value"]) == set(printed("Table 8").values())


def test_all_tables_and_figures(judged, tmp_path):
    call_it(judged, "movielens_ratings")
    found = {one.id: one for one in experiments(judged, n_resamples=50)}
    assert list(found) == [
        *(f"table_{n}" for n in range(1, 7)), "effectiveness", "rank_shifts", "confusion", "pool_popularity"
    ]  # fmt: skip
    assert not [one.missing for one in found.values() if one.missing]
    agreement = found["table_4"].tables["values"]
    assert len(agreement) == 3 * 2 * 3 * 2, "modes, plots, numbers and rankings"
    one = agreement[(agreement["mode"] == "IPP") & (agreement["plot"] == "w/o plot") & (agreement["metric"] == "MAE")]
    assert set(one["published_value"]) == {1.1123}
    taus = agreement[agreement["metric"] == "tau AP"]
    assert set(taus["n_systems"]) == {7, 8}, "algorithms and runs"
    assert taus["ci_value_low"].notna().all()
    # Table 5 and 6 know nothing of pairs that were not pooled: the conditions with plots judged held-out pairs alone.
    for id in ("table_5", "table_6"):
        table = found[id].tables["values"]
        assert len(table) == 3 * 2 * 2 * 2
        assert set(table["plot"]) == {"w/o plot"}
        assert table["n_tied_pairs"].ge(0).all()
    six = found["table_6"].tables["values"]
    assert np.allclose(six["value"], six["phi"] - six["phi_human"])
    confusion = found["confusion"].tables["confusion"]
    mae_pairs = agreement.dropna(subset=["n_pairs"])["n_pairs"].iloc[0]
    assert confusion.groupby(["mode", "plot"])["n_pairs"].sum().eq(mae_pairs).all()
    paths = write_analyses(found.values(), tmp_path / "out")
    text = (tmp_path / "out" / "tables.md").read_text()
    assert "tau AP / w/o plot: Value" in text
    assert "paper 0.9308" in text
    assert "paper 0.182" in text
    assert "one run per algorithm: 7 systems, tied pairs" in text
    assert "all runs: 8 systems" in text
    tex = (tmp_path / "out" / "tables.tex").read_text()
    assert tex.count(r"\begin{tabular}") == tex.count(r"\end{tabular}") == 5
    for path in paths:
        assert path.exists()
        if path.suffix == ".svg":
            ET.parse(path)
    assert write_analyses(experiments(judged, n_resamples=50), tmp_path / "again")
    for path in paths:
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()


def test_before_anybody_judged_it_says_what_is_missing(pooled):
    found = {one.id: one for one in experiments(pooled)}
    assert found["table_2"].tables["data"]["n_users"].tolist() == [120]
    assert found["table_4"].missing == "No judge graded held-out pairs."
    assert found["table_6"].missing == "No judge graded pooled pairs."


def test_a_perfect_judge_changes_nothing_on_held_out_pairs(pooled):
    """Experiment 1 with the truth for a judge (whole ratings): MAE 0, tau 1, all of Table 4's ideal."""
    setting = Setting.read(pooled)
    grades = pa.table(
        {
            "user": setting.human["user"],
            "item": setting.human["item"],
            "grade": setting.human["rating"].cast(pa.int64()),
        }
    )
    assert mean_absolute_error(setting.human, grades)[0] == 0
    for ranking in ("algorithms", "runs"):
        matched = score_setting(setting, grades, ranking, n_resamples=0)["rankings"]["matched"]
        assert matched["ap"]["tau"] == matched["ndcg"]["tau"] == pytest.approx(1)


def test_one_run_per_algorithm_is_the_first_of_the_settings(pooled):
    setting = Setting.read(pooled)
    assert setting.systems["runs"] == [
        "random",
        "popularity",
        "puresvd-20",
        "wsr-ub",
        "wsr-ub-50",
        "wsr-ib",
        "ease",
        "kld",
    ]
    assert setting.systems["algorithms"] == [name for name in setting.systems["runs"] if name != "wsr-ub-50"]
    assert len({setting.algorithms[name] for name in setting.systems["algorithms"]}) == len(
        setting.systems["algorithms"]
    )
    scores = score_setting(setting, None, "runs", n_resamples=0)["per_system"]
    counts = dict(zip(setting.popularity["item"].to_pylist(), setting.popularity["count"].to_pylist(), strict=True))
    one = setting.runs.filter(pa.compute.equal(setting.runs["system"].cast(pa.string()), "popularity")).to_pylist()
    by_user = pd.DataFrame(one).assign(count=lambda f: f["item"].astype(str).map(counts)).groupby("user")["count"]
    assert scores["arp"][scores["system"].index("popularity")] == pytest.approx(by_user.mean().mean())


def test_the_interval_of_mae_is_over_users():
    human = pa.table({"user": ["u", "u", "v"], "item": ["a", "b", "a"], "rating": [5.0, 5.0, 1.0]})
    grades = pa.table({"user": ["u", "u", "v"], "item": ["a", "b", "a"], "grade": [4, 4, 1]})
    value, low, high, n = mean_absolute_error(human, grades)
    assert (value, n) == (pytest.approx(2 / 3), 3)
    assert (low, high) == (0.0, 1.0)


# --- planted judges -------------------------------------------------------------------------------------------------


def planted(work, judges, seeds):
    """Return the results of simulated judges, (judge, seed)."""
    setting = Setting.read(work)
    ratings = work.read("ratings")
    held_out = setting.human.select(["user", "item"])
    pairs = pa.concat_tables([setting.pool.select(["user", "item"]), held_out]).group_by(["user", "item"]).aggregate([])
    truth = factorised_truth(ratings, pairs)
    return [
        [score_setting(setting, one.grades(truth, seed), "runs", n_resamples=0) for seed in seeds] for one in judges
    ]


def test_less_error_gives_a_higher_tau(pooled):
    judges = [SimulatedJudge(error=error) for error in (0.0, 1.0, 4.0)]
    found = planted(pooled, judges, range(4))
    tau = [np.mean([one["rankings"]["matched"]["ndcg"]["tau"] for one in row]) for row in found]
    assert tau[0] > tau[1] > tau[2]
    mae = [np.mean([one["agreement"]["mae"] for one in row]) for row in found]
    assert mae[0] < mae[1] < mae[2]


def test_a_judge_who_favours_popular_items_couples_rankings_more_with_popularity(pooled):
    judges = [SimulatedJudge(error=0.5, popularity_bias=bias) for bias in (-2.0, 0.0, 2.0)]
    found = planted(pooled, judges, range(4))
    for condition in ("synthetic", "augmented"):
        shift = [np.mean([one["popularity"][condition]["ndcg"]["delta_tau"] for one in row]) for row in found]
        assert shift[0] < shift[1] < shift[2]


def test_head_only_keeps_the_most_rated_items():
    table = pa.table({"item": ["a"] * 3 + ["b"] * 2 + ["c"] * 2 + ["d"], "rating": [1.0] * 8})
    assert set(head_only(table, 0.25)["item"].to_pylist()) == {"a"}
    assert set(head_only(table, 0.5)["item"].to_pylist()) == {"a", "b"}


def test_the_truth_of_a_rated_pair_is_its_rating():
    rng = np.random.default_rng(0)
    n = 300
    table = pa.table(
        {
            "user": [f"u{i % 30}" for i in range(n)],
            "item": [f"i{i // 30 + i % 3}" for i in range(n)],
            "rating": rng.integers(1, 6, n).astype(float),
            "split": ["train" if i % 5 else "test" for i in range(n)],
        }
    )
    pairs = table.select(["user", "item"]).append_column("known", table["rating"])
    unknown = pa.table({"user": ["u0"], "item": ["never"]})
    truth = factorised_truth(table, pairs, n_factors=3)
    assert truth.rating.tolist() == table["rating"].to_pylist()
    assert truth.popularity.mean() == pytest.approx(0.5)
    among_items = factorised_truth(table, pairs, n_factors=3, popularity_among="items")
    assert among_items.popularity.max() <= 1
    assert not np.array_equal(among_items.popularity, truth.popularity)
    assert 0.5 <= factorised_truth(table, unknown, n_factors=3).rating[0] <= 5


# --- how tables and figures are written ------------------------------------------------------------------------------

FRAME = pd.DataFrame(
    {
        "mode": ["IPP", "IPP", "Profile", "Profile"],
        "pool": ["Synthetic", "Augmented"] * 2,
        "value": [0.5, -0.25, None, 1.0],
        "ci_value_low": [0.4, None, None, 0.9],
        "ci_value_high": [0.6, None, None, 1.0],
        "published_value": [0.7714, None, None, 1.0],
    }
)


def test_tables_are_laid_out_as_those_of_the_report(tmp_path):
    one = Analysis(
        "table_5", "50 % of a_b", "", {"values": FRAME}, layouts={"values": Layout(("mode",), ("pool",), ("value",))}
    )
    write_analyses([one], tmp_path)
    lines = (tmp_path / "tables.md").read_text().splitlines()
    assert lines[2:6] == [
        "| Shown to the judge | Synthetic: Value | Augmented: Value |",
        "| --- | ---: | ---: |",
        "| IPP | 0.5000 (0.4000–0.6000) paper 0.7714 | −0.2500 |",
        "| Profile | – | 1.0000 (0.9000–1.0000) paper 1.0000 |",
    ]
    assert lines[7] == "In brackets: 95 % intervals. After “paper”: the published value."
    tex = (tmp_path / "tables.tex").read_text()
    assert r"\caption{50 \% of a\_b.}" in tex
    assert r"\multicolumn{1}{c}{Synthetic}" in tex


def test_what_a_model_wrote_is_shown_as_it_is(tmp_path):
    frame = pd.DataFrame({"judge": ["a@1"], "user": ["u"], "profile": ["<img src=x>\n# *Bold* | [a](javascript:b)"]})
    write_analyses([Analysis("table_1", "T", "", {"example": frame})], tmp_path)
    text = (tmp_path / "tables.md").read_text()
    assert "| a@1 | u | &lt;img src=x&gt; \\# \\*Bold\\* \\| \\[a\\](javascript:b) |" in text
    assert frame["profile"][0] in (tmp_path / "table_1-example.csv").read_text()


def test_figures_are_well_formed_whatever_the_names(tmp_path):
    frame = pd.DataFrame(
        {"arp": [1.0, 2.0], "ndcg": [0.1, None], "system": ["a<b", 'c & "d"'], "condition": ["<1>", "<1>"]}
    )
    spec = FigureSpec("scatter", "t", "T & <t>", "", x="arp", y="ndcg", label="system", facet="condition")
    write_analyses([Analysis("odd", "Odd", "", {"t": frame}, {"odd": spec})], tmp_path)
    ET.parse(tmp_path / "odd.svg")
    assert (tmp_path / "odd.png").read_bytes().startswith(b"\x89PNG")
    assert "a&lt;b" in (tmp_path / "odd.svg").read_text()


def test_without_matplotlib_the_tables_are_written_and_one_line_says_what_to_install(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("gistbench.runners.qrels.write.find_spec", lambda name: None)
    spec = FigureSpec("bar", "t", "", "", x="arp", y="system")
    frame = pd.DataFrame({"arp": [1.0], "system": ["a"]})
    paths = write_analyses([Analysis("one", "One", "", {"t": frame}, {"one": spec})], tmp_path)
    assert sorted(path.name for path in paths) == ["one-t.csv", "tables.md", "tables.tex"]
    assert caplog.messages == [
        "No figures are written: they need matplotlib. Install it with: pip install 'gistbench[report]'."
    ]


def test_tau_without_ties_is_what_the_steps_are_of():
    assert kendalltau(range(21), [1, 0, *range(2, 21)]).statistic == pytest.approx(1 - 2 / 210)
