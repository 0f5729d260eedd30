import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from gistbench.hf_datasets.errors import ConfigError, RunStoppedError, StoreError
from gistbench.runners.halt import CallLimit, Halt
from gistbench.runners.qrels.induce import induce
from gistbench.runners.qrels.judge import judge, sample_agreement
from gistbench.runners.qrels.judged import Judged, held_out_pairs, pair_grades, sampled_users
from gistbench.runners.qrels.judging import open_judge
from gistbench.runners.qrels.pool import pool
from gistbench.runners.requests import Outcome
from gistbench.runners.stages.grade import MODES, Condition

MODEL = "simulated:judge"
NAME = "judge@1"
ALL = [Condition(mode, plot) for mode in MODES for plot in (False, True)]


def test_every_mode_with_and_without_plots(pooled, simulate):
    asked = simulate()
    with open_judge(pooled, MODEL) as judging:
        induced = induce(pooled, judging)
        records = judge(pooled, judging, ALL)
    n_users = len(sampled_users(pooled))
    assert (induced["n_users"], induced["n_ok"], induced["n_failed"]) == (n_users, n_users, 0)
    assert [Condition(**record["condition"]) for record in records] == ALL
    judged = Judged(pooled, NAME)
    assert set(judged.conditions) == set(ALL)
    pairs = set(zip(*(pooled.read("pool")[name].to_pylist() for name in ("user", "item")), strict=True))
    held_out = held_out_pairs(pooled, sampled_users(pooled))
    pairs |= set(zip(held_out["user"].to_pylist(), held_out["item"].to_pylist(), strict=True))
    for record in records:
        assert record["n_pairs"] == record["n_ok"] == len(pairs)
        assert record["answers"][0]["unusable_share"] == 0
        assert record["n_items_without_title"] <= 2
        assert record["prompt"]["version"] == 1
    # Without a plot to show, the question is the same one, and asked once.
    n_same = 3 * sum(item in ("i148", "i149") for _, item in pairs)
    assert Counter(request.stage for request in asked) == {"induce": n_users, "grade": 6 * len(pairs) - n_same}
    grades = judged.grades(Condition("ipp"))
    assert set(zip(grades["user"].to_pylist(), grades["item"].to_pylist(), strict=True)) == pairs


@pytest.mark.parametrize(("pairs", "wanted"), [("test", {"test"}), ("pool", {"pool"}), ("all", {"test", "pool"})])
def test_which_pairs_are_judged(pooled, simulate, pairs, wanted):
    asked = simulate()
    with open_judge(pooled, MODEL) as judging:
        judge(pooled, judging, [Condition("profile")], pairs=pairs)
    held_out = held_out_pairs(pooled, sampled_users(pooled)).select(["user", "item"]).to_pylist()
    pool_pairs = pooled.read("pool", ["user", "item"]).to_pylist()
    expected = {(p["user"], p["item"]) for part in (["test", held_out], ["pool", pool_pairs])
                if part[0] in wanted for p in part[1]}  # fmt: skip
    assert {tuple(request.about) for request in asked} == expected


def test_the_same_again_asks_nothing_and_writes_nothing(pooled, simulate):
    asked = simulate()
    for _ in range(2):
        with open_judge(pooled, MODEL) as judging:
            induce(pooled, judging)
            judge(pooled, judging, [Condition("ipp")])
        path = Judged(pooled, NAME).path / "ipp.parquet"
        seen = (len(asked), path.stat().st_mtime_ns)
        before = locals().get("before", seen)
    assert seen == before


def test_texts_of_a_profile_are_as_long_as_is_asked_for(pooled, simulate):
    asked = simulate()
    with open_judge(pooled, MODEL) as judging:
        for max_chars in (600, 120, 120):
            induce(pooled, judging, max_chars=max_chars)
        with pytest.raises(ConfigError, match="max_chars is 5; a text of a profile has 12 characters or more"):
            induce(pooled, judging, max_chars=5)
    assert len(asked) == 2 * len(sampled_users(pooled))
    assert asked[-1].schema["json"]["properties"]["likes"]["maxLength"] == 120


def test_a_stopped_run_goes_on_with_what_was_answered(pooled, simulate):
    asked = simulate()
    with (
        open_judge(pooled, MODEL, halt=Halt(CallLimit(30))) as judging,
        pytest.raises(RunStoppedError),
    ):
        judge(pooled, judging, [Condition("profile")])
    assert len(asked) == 30
    assert Judged(pooled, NAME).conditions == []
    with open_judge(pooled, MODEL) as judging:
        (record,) = judge(pooled, judging, [Condition("profile")])
    assert len(asked) == record["n_pairs"]


def test_another_pool_is_judged_anew_from_the_store(pooled, simulate):
    asked = simulate()
    with open_judge(pooled, MODEL) as judging:
        judge(pooled, judging, [Condition("profile")])
    n = len(asked)
    pool(pooled, depth=5)
    with pytest.raises(StoreError, match=r"made from another pool\. Run `gistbench qrels judge"):
        Judged(pooled, NAME).grades(Condition("profile"))
    with open_judge(pooled, MODEL) as judging:
        (record,) = judge(pooled, judging, [Condition("profile")])
    assert len(asked) == n, "a shallower pool has no new pairs"
    assert record["n_pairs"] < n


def test_answers_that_cannot_be_read_are_missing_and_counted(pooled, simulate):
    def answer(request):
        if request.stage == "induce":
            return None
        return "I would say 3 or 4." if request.about.item < "i030" else None

    asked = simulate(answer=answer)
    with open_judge(pooled, MODEL, max_reasks=1) as judging:
        (record,) = judge(pooled, judging, [Condition("profile")])
    grades = Judged(pooled, NAME).grades(Condition("profile"))
    bad = [row for row in grades.to_pylist() if row["item"] < "i030"]
    assert bad
    assert all(row["grade"] is None and row["n_parsed"] == 0 for row in bad)
    assert record["n_failed"] == len(bad)
    assert grades["grade"].null_count == len(bad)
    assert len(asked) == record["n_pairs"] + len(bad)


def test_users_without_a_profile_are_not_asked_about(pooled, simulate):
    user = sampled_users(pooled)[0]
    broken = '{"likes": "War films."}'
    simulate(answer=lambda request: broken if request.stage == "induce" and request.about.user == user else None)
    with open_judge(pooled, MODEL, max_reasks=0) as judging:
        induced = induce(pooled, judging)
        ipp, profile = judge(pooled, judging, [Condition("ipp"), Condition("profile")])
    assert induced["n_failed"] == 1
    row = next(row for row in Judged(pooled, NAME).read("profiles").to_pylist() if row["user"] == user)
    assert row["status"] == "failed"
    assert row["likes"] is None
    assert row["problem"].startswith("The object lacks dislikes, themes")
    assert ipp["n_no_evidence"] > 0
    assert profile["n_no_evidence"] == 0


def test_calls_that_failed_are_asked_again_by_the_next_run(pooled, simulate):
    fails = [True]

    def answer(request):
        if fails[0] and request.about.item == "i001":
            return Outcome(key=request.key, status="error", problem="The server is gone.")
        return None

    asked = simulate(answer=answer)
    with open_judge(pooled, MODEL) as judging:
        (first,) = judge(pooled, judging, [Condition("profile")])
    assert first["n_errors"] == first["n_failed"] > 0
    fails[0] = False
    n = len(asked)
    with open_judge(pooled, MODEL) as judging:
        (second,) = judge(pooled, judging, [Condition("profile")])
    assert second["n_failed"] == second["n_errors"] == 0
    assert len(asked) == n + first["n_errors"]


def test_repeated_samples_agree_as_far_as_they_do(pooled, simulate):
    simulate(answer=lambda request: "4" if request.repeat == 0 or request.about.item > "i050" else "2")
    with open_judge(pooled, f"{MODEL}?temperature=0.7") as judging:
        (record,) = judge(pooled, judging, [Condition("profile")], n_samples=3)
    grades = Judged(pooled, NAME).grades(Condition("profile")).to_pylist()
    moved = [row for row in grades if row["item"] <= "i050"]
    assert {(row["grade"], row["lowest"], row["highest"], row["n_samples"]) for row in moved} == {(2, 2, 4, 3)}
    agreement = record["agreement_of_samples"]
    assert agreement["n_pairs"] == len(grades)
    assert agreement["share_equal"] == pytest.approx(1 - len(moved) / len(grades))
    assert agreement["mean_absolute_difference"] == pytest.approx(len(moved) / len(grades) * 4 / 3)


def test_samples_at_temperature_0_are_refused(pooled, simulate):
    simulate()
    with open_judge(pooled, MODEL) as judging, pytest.raises(ConfigError, match=r"judge\?temperature=0\.7"):
        judge(pooled, judging, [Condition("profile")], n_samples=2)


def test_profiles_of_another_judge_can_be_shown(pooled, simulate):
    asked = simulate()
    with open_judge(pooled, MODEL) as judging:
        induce(pooled, judging)
    with open_judge(pooled, "simulated:other") as judging:
        with pytest.raises(StoreError, match="has no profiles"):
            judge(pooled, judging, [Condition("ipp")])
        (record,) = judge(pooled, judging, [Condition("ipp")], profiles_of=NAME)
    assert record["profiles"]["of"] == NAME
    assert "About likes." in asked[-1].messages[1].content


def test_words_without_understanding_are_no_judge(pooled):
    with pytest.raises(ConfigError, match="name a language model"), open_judge(pooled, "lexical/overlap"):
        pass


def test_plots_that_are_not_there(tmp_path, ratings_csv, quick, simulate):
    from gistbench.runners.qrels.recommend import recommend
    from gistbench.runners.qrels.sample import sample
    from gistbench.runners.qrels.split import split
    from gistbench.runners.qrels.work import Work

    simulate()
    work = Work(tmp_path / "w")
    split(work, str(ratings_csv))
    recommend(work, settings=quick[:2], trec=False)
    sample(work, sizes=[20], n_repeats=1, take=20)
    pool(work, depth=5)
    with open_judge(work, MODEL) as judging, pytest.raises(ConfigError, match="There are no plots"):
        judge(work, judging, [Condition("profile", plot=True)])


# --- samples ---------------------------------------------------------------------------------------------------------


def test_the_grade_of_several_samples_is_their_lower_median():
    n = 4
    table = pa.table(
        {
            "user": ["u", "v"] * n,
            "item": ["a", "b"] * n,
            "sample": np.repeat(np.arange(n), 2),
            "grade": pa.array([1, None, 4, None, 5, None, 2, None], pa.int64()),
            "status": ["ok"] * 2 * n,
            "request_key": ["x"] * 2 * n,
        }
    )
    assert pair_grades(table).select(["user", "grade", "n_parsed", "lowest", "highest"]).to_pylist() == [
        {"user": "u", "grade": 2, "n_parsed": 4, "lowest": 1, "highest": 5},
        {"user": "v", "grade": None, "n_parsed": 0, "lowest": None, "highest": None},
    ]


def test_agreement_of_samples_by_hand():
    nan = np.nan
    found = sample_agreement(np.array([[1.0, 1.0, nan], [0.0, 2.0, 2.0], [5.0, nan, nan]]))
    # Pairs of samples: |1-1|; |0-2|, |0-2|, |2-2|. Five values, sum 6, squares 10.
    assert found["n_pairs"] == 2
    assert found["share_equal"] == 0.5
    assert found["mean_absolute_difference"] == pytest.approx((0 + 4 / 3) / 2)
    observed = 2 * 0 / 1 + 2 * 8 / 2 / 2  # ordered pairs over (n - 1), as squares: user 2 has 4 + 4 + 0
    expected = 5 * 10 - 36
    assert found["alpha"] == pytest.approx(1 - 4 * observed / expected)
    assert sample_agreement(np.array([[3.0, nan]]))["n_pairs"] == 0
    assert sample_agreement(np.array([[3.0, 3.0]]))["alpha"] is None


def test_records_are_json(pooled, simulate):
    simulate()
    with open_judge(pooled, MODEL) as judging:
        judge(pooled, judging, [Condition("profile")])
    record = json.loads((Judged(pooled, NAME).path / "profile.json").read_text())
    assert record["answers"][0]["n_subjects"] == record["n_pairs"]
    assert record["built_on"]["pool"] == pooled.record("pool")["fingerprint"]
