import pytest
from gistbench.hf_datasets.errors import StoreError
from gistbench.runners.report import Options, Runs, run_analyses
from gistbench.runners.report.pairs import EXIT_DROPPED, EXIT_PASSED, compare_runs, gate, holm

USERS = range(24)


@pytest.fixture
def found(interest):
    """Make a candidate that finds category 1 of all but every nth user, and category 2 of all."""

    def make(every=None, users=USERS):
        missed = {k for k in users if every and k % every == 0}
        return {
            f"u{k}": [interest("a", 1, e=1 if k in missed else 2), interest("b", 2, e=1 if k in missed else 2)]
            for k in users
        }

    return make


def test_comparisons_with_correction(opened, found):
    runs = opened({"org/a": found(), "org/b": found(2), "org/c": found(24)})
    (analysis,) = run_analyses(runs, ["comparisons"], Options())
    frame = analysis.tables["pairs"].query("metric == 'ig_f1'").set_index(["model_a", "model_b"])
    row = frame.loc[("org/a", "org/b")]
    expected = 2 / 2**12  # of all signs that twelve equal differences may have, two are as far out
    assert row["p_value"] == pytest.approx(expected)
    assert row["difference_of_means"] == 0.5
    assert (row["a_better_share"], row["b_better_share"], row["n_users"]) == (0.5, 0.0, 24)
    assert bool(row["differ"])
    assert not bool(frame.loc[("org/a", "org/c"), "differ"])
    adjusted = holm(frame["p_value"].tolist())
    assert frame["p_value_holm"].tolist() == pytest.approx(adjusted)


def test_a_pair_is_of_the_users_its_test_is_of(opened, found):
    """C lacks a third of the users, on whom A and B differ most: their row must not be of them."""
    runs = opened({"org/a": found(), "org/b": found(2), "org/c": found(users=range(1, 24, 2))})
    (analysis,) = run_analyses(runs, ["comparisons"], Options())
    frame = analysis.tables["pairs"].query("metric == 'ig_f1'").set_index(["model_a", "model_b"])
    assert frame["n_users"].tolist() == [12] * 3
    assert frame["n_users_left_out"].tolist() == [12] * 3
    row = frame.loc[("org/a", "org/b")]
    assert (row["difference_of_means"], row["a_better_share"], row["p_value"]) == (0.0, 0.0, 1.0)
    assert "12" in " ".join(analysis.notes)


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_two_runs_compared(suite, found):
    paths = [suite("base", {"org/a": found()}), suite("new", {"org/a": found(2)})]
    a, b = Runs.open(paths, common_oracle=True).all
    frame = compare_runs(a, b).set_index("metric")
    assert frame.loc["ig_f1", ["score_a", "score_b"]].tolist() == [1.0, 0.5]
    assert frame.loc["ig_f1", "ci_difference_of_means_low"] > 0.2
    assert frame.loc["ig_f1", "p_value_holm"] < 0.01
    with pytest.raises(StoreError, match=r"do not compare .*oracle"):
        compare_runs(*Runs.open(paths).all)


@pytest.fixture
def sides(suite):
    """Open a base and a new suite, each with an oracle of its own."""

    def make(base, new, **options):
        return Runs.open([suite("base", base)]), Runs.open([suite("new", new, **options)])

    return make


def test_the_gate_passes_what_is_as_good(sides, found):
    decided = gate(*sides({"org/a": found()}, {"org/a": found()}))
    assert decided.passed
    assert decided.exit_status == EXIT_PASSED == 0
    assert decided.checks["drop"].tolist() == [0.0, 0.0]


def test_the_gate_fails_a_large_and_significant_drop(sides, found):
    decided = gate(*sides({"org/a": found()}, {"org/a": found(2)}))
    assert not decided.passed
    assert decided.exit_status == EXIT_DROPPED == 4
    assert decided.checks.query("metric == 'ig_f1'")["failed"].tolist() == [True]
    assert "org/a on demo: the median of ig_f1 fell by 50.0 points" in decided.reasons[0]


def test_a_large_drop_of_few_users_is_not_significant(sides, found):
    few = range(3)
    decided = gate(*sides({"org/a": found(users=few)}, {"org/a": found(1, users=few)}))
    assert decided.checks["drop"].tolist() == [1.0, 1.0]
    assert decided.passed


def test_a_significant_drop_within_the_tolerance_passes(sides, found):
    base, new = sides({"org/a": found()}, {"org/a": found(2)})
    assert gate(base, new, tolerance=0.5, statistic="mean").passed
    assert not gate(base, new, tolerance=0.49, statistic="mean").passed


def test_a_gain_passes(sides, found):
    assert gate(*sides({"org/a": found(2)}, {"org/a": found()})).passed


def test_the_gate_decides_over_other_prompts_and_lengths(sides, found):
    """With an oracle of each side's own, the drop would be none: both find all that they themselves verify."""
    decided = gate(*sides({"org/a": found()}, {"org/a": found(1)}, prompts="b" * 64, chunk_size=50), metrics=("ig_f1",))
    assert not decided.passed
    assert decided.checks["drop"].tolist() == [1.0]
    rows = decided.differences.set_index("what")
    assert set(rows.index) == {"oracle", "prompt ground", "chunk_size"}
    assert rows.loc["chunk_size", ["in_a", "in_b"]].tolist() == ["100", "50"]
    assert rows.loc["prompt ground", ["model", "in_a", "in_b"]].tolist() == ["org/a", "a" * 12, "b" * 12]
    assert decided.policy["oracle"] == "the union of both sides'"


def test_one_candidate_may_follow_another(sides, found):
    assert gate(*sides({"org/a": found()}, {"org/b": found()})).passed


def test_a_gate_that_cannot_be_decided_is_an_error(suite, sides, found):
    with pytest.raises(StoreError, match=r"cannot be decided: .* different candidates \(org/c on demo\)"):
        gate(*sides({"org/a": found(), "org/c": found()}, {"org/a": found()}))
    base, other = (Runs.open([suite(name, {"org/a": found()}, judge=name)]) for name in ("one", "two"))
    with pytest.raises(StoreError, match=r"do not compare .*judge: one@2 and two@2"):
        gate(base, other)
    with pytest.raises(ValueError, match="no metric accuracy"):
        gate(base, base, metrics=("accuracy",))
    with pytest.raises(ValueError, match="tolerance"):
        gate(base, base, tolerance=-1)
