"""Oracles of several models, results scored once more, failure modes, and what a given oracle lacks."""

import json
from collections import Counter

import numpy as np
import pytest

TYPES = ("explicit_positive", "implicit_positive", "implicit_negative", "explicit_negative")


def record(category, ids, relevant=None, name=None):
    name = f"interest {category}" if name is None else name
    return {"interest": name, "category_id": category, "item_ids": ids, "relevant_item_ids": relevant}


HISTORY = {
    "user_id": ["7"] * 6 + ["8"] * 4,
    "object_id": ["a", "b", "c", "d", "e", "f", "a", "b", "c", "d"],
    "interaction_type": [TYPES[0]] * 3 + [TYPES[1]] + [TYPES[2]] * 2 + [TYPES[0]] * 2 + [TYPES[1], TYPES[3]],
}
USERS = ["7", "8"]
MODELS = {
    "x": [[record(3, ["a", "b"]), record(5, ["c"]), record(0, ["a", "b"])], [record(2, ["a", "b"])]],
    "y": [[record(3, ["b", "c"]), record(9, ["a", "c"])], []],
    "z": [[record(9, ["a", "b"])], [record(2, ["a", "b"]), record(4, ["a", "b"])]],
}


def results_of(ig, models=MODELS, **options):
    return {
        name: ig.compute(predictions=predictions, references=USERS, history=HISTORY, n_resamples=20, **options)
        for name, predictions in models.items()
    }


# --- what a result says ---------------------------------------------------------------------------------------------


def test_failure_modes_are_shares_of_the_unverified_and_not_exclusive(ig):
    many = ["a", "b", *[f"n{i}" for i in range(4)]]
    history = {
        "user_id": ["u"] * 6,
        "object_id": many,
        "interaction_type": [TYPES[0], TYPES[1], *[TYPES[2]] * 4],
    }
    records = [record(1, ["a"]), record(2, many), record(3, ["unknown", "[unknown]"]), record(4, ["a"] * 3)]
    result = ig.compute(predictions=[records], references=["u"], history=history)
    assert result["failure_modes"] == {
        "n_interests": 4,
        "n_unverified": 4,
        "counts": {
            "no_relevant_items": 1,
            "insufficient_explicit_positive": 4,
            "insufficient_implicit_positive": 4,
            "excessive_negative": 1,
        },
        "shares": {
            "no_relevant_items": 0.25,
            "insufficient_explicit_positive": 1.0,
            "insufficient_implicit_positive": 1.0,
            "excessive_negative": 0.25,
        },
    }
    assert result["evidence"] == {
        "n_item_ids": 10 - 1,  # 1 + 6 + 1 + 1: [unknown] is unknown once more, under its brackets
        "n_unknown_item_ids": 1,
        "unknown_item_id_rate": pytest.approx(1 / 9),
        "mean_objects": {TYPES[0]: 0.75, TYPES[1]: 0.25, TYPES[2]: 1.0, TYPES[3]: 0.0},
        "mean_objects_verified": dict.fromkeys(TYPES),
    }


def test_verified_interests_have_no_failure_modes(ig):
    result = ig.compute(predictions=[[record(1, ["a", "b"])]], references=["7"], history=HISTORY)
    assert result["failure_modes"]["n_unverified"] == 0
    assert set(result["failure_modes"]["shares"].values()) == {None}
    assert result["evidence"]["mean_objects_verified"][TYPES[0]] == 2.0
    empty = ig.compute(predictions=[[]], references=["7"], history=HISTORY)
    assert empty["failure_modes"]["n_interests"] == 0
    assert empty["evidence"]["unknown_item_id_rate"] is None
    assert empty["evidence"]["mean_objects"] == dict.fromkeys(TYPES)


def test_summaries_agree_with_the_columns(ig):
    rng = np.random.default_rng(5)
    records = [
        [
            record(int(rng.integers(0, 4)), [str(i) for i in rng.choice(list("abcdefxyz"), rng.integers(0, 6))])
            for _ in range(8)
        ]
        for _ in USERS
    ]
    result = ig.compute(predictions=records, references=USERS, history=HISTORY)
    rows = result["per_interest"]
    counted = Counter(reason for reasons in rows["failure_reasons"] for reason in reasons)
    assert {reason: n for reason, n in result["failure_modes"]["counts"].items() if n} == dict(counted)
    assert result["failure_modes"]["n_unverified"] == rows["verified"].count(False)
    assert result["evidence"]["n_unknown_item_ids"] == sum(map(len, rows["unknown_item_ids"]))
    assert result["evidence"]["n_item_ids"] == sum(len(set(one["item_ids"])) for row in records for one in row)
    for name in TYPES:
        assert result["evidence"]["mean_objects"][name] == pytest.approx(sum(rows[f"n_{name}"]) / 16)
    assert json.loads(json.dumps(result, allow_nan=False)) == result


# --- what an oracle lacks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("missing", "recall", "n_oracle", "extension"),
    [("extend", 1.0, 2, {"7": [9]}), ("ignore", 1.0, 1, None)],
)
def test_a_category_that_the_oracle_lacks(ig, missing, recall, n_oracle, extension):
    result = ig.compute(
        predictions=MODELS["y"], references=USERS, history=HISTORY, oracle={"7": [3]}, missing_from_oracle=missing
    )
    assert result["per_user"]["ig_recall"] == [recall, None]
    assert result["per_user"]["n_oracle_categories"] == [n_oracle, 0]
    assert result.get("oracle_extension") == extension
    assert result["policy"]["n_categories_missing_from_oracle"] == 1
    assert missing in ("extend", "ignore")
    with pytest.raises(ValueError, match=r"oracle\['7'\] lacks category 9, .*build_oracle.*'extend' or 'ignore'"):
        ig.compute(predictions=MODELS["y"], references=USERS, history=HISTORY, oracle={"7": [3]})


@pytest.mark.parametrize("missing", ["extend", "ignore"])
def test_recall_never_exceeds_1(ig, missing):
    rng = np.random.default_rng(2)
    for _ in range(50):
        records = [[record(int(c), ["a", "b"]) for c in rng.integers(0, 6, rng.integers(0, 8))] for _ in USERS]
        oracle = {user: rng.integers(0, 6, rng.integers(0, 4)).tolist() for user in USERS}
        call = {"predictions": records, "references": USERS, "history": HISTORY, "oracle": oracle, "n_resamples": 0}
        result = ig.compute(**call, missing_from_oracle=missing)
        for user, recall, rows in zip(USERS, result["per_user"]["ig_recall"], records, strict=True):
            wanted, found = set(oracle[user]) - {0}, {one["category_id"] for one in rows} - {0}
            if not wanted:
                assert recall is None
                continue
            all_of_it = wanted | found if missing == "extend" else wanted
            assert recall == pytest.approx(len(found & all_of_it) / len(all_of_it))
            assert 0 <= recall <= 1


# --- oracles --------------------------------------------------------------------------------------------------------


def test_an_oracle_is_what_any_model_verifies(ig):
    found = ig.build_oracle(predictions=MODELS, references=USERS, history=HISTORY)
    assert found["oracle"] == {"7": [3, 9], "8": [2, 4]}
    assert found["n_pairs"] == 4
    assert found["by_k"] == {"n_models": [1, 2, 3], "n_pairs": [1, 3, 0], "share": [0.25, 0.75, 0.0]}
    assert found["by_model"] == {
        "model": ["x", "y", "z"],
        "n_verified": [2, 2, 3],
        "n_sole_provider": [0, 0, 1],
        "share_of_oracle": [0.0, 0.0, 0.25],
        "n_pairs_without": [4, 4, 3],
    }
    assert found["pairs"] == {
        "user_id": ["7", "7", "8", "8"],
        "category": [3, 9, 2, 4],
        "n_models": [2, 2, 2, 1],
        "models": [["x", "y"], ["y", "z"], ["x", "z"], ["z"]],
    }
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert ig.build_oracle(results=results_of(ig)) == found
    assert found["policy"]["verdicts"]["x"]["signals"] == list(TYPES)


def test_leaving_a_model_out_is_building_without_it(ig):
    whole = ig.build_oracle(results=results_of(ig))
    for i, model in enumerate(MODELS):
        others = {name: predictions for name, predictions in MODELS.items() if name != model}
        without = ig.build_oracle(predictions=others, references=USERS, history=HISTORY)
        assert without["n_pairs"] == whole["by_model"]["n_pairs_without"][i]


def test_an_oracle_of_what_several_verify_and_of_a_given_one(ig):
    results = results_of(ig)
    assert ig.build_oracle(results=results, min_models=2)["oracle"] == {"7": [3, 9], "8": [2]}
    found = ig.build_oracle(results=results, given={"8": [0, 4, 6], 9: [1]})
    assert found["oracle"] == {"7": [3, 9], "8": [2, 4, 6], "9": [1]}
    assert found["by_model"]["model"] == ["x", "y", "z", "given"]
    assert found["by_model"]["n_sole_provider"] == [0, 0, 0, 2]
    assert found["by_k"]["n_pairs"] == [2, 4, 0, 0]
    shared = ig.build_oracle(results=results, min_models=2)["oracle"]
    scored = ig.rescore({"z": results["z"]}, oracle=shared, missing_from_oracle="ignore", n_resamples=0)["z"]
    assert scored["per_user"]["ig_recall"] == [0.5, 1.0]


def test_without_categories_an_oracle_holds_names(ig):
    named = {
        model: [[{**one, "category_id": None, "interest": f" {one['category_id']}"} for one in row] for row in rows]
        for model, rows in MODELS.items()
    }
    found = ig.build_oracle(predictions=named, references=USERS, history=HISTORY)
    assert found["oracle"] == {"7": ["0", "3", "9"], "8": ["2", "4"]}
    mixed = {**MODELS, "w": named["x"]}
    with pytest.raises(ValueError, match="model 'w' has no category ids, and others have"):
        ig.build_oracle(predictions=mixed, references=USERS, history=HISTORY)


def test_the_order_of_models_changes_no_oracle(ig):
    results = results_of(ig)
    one, two = ig.build_oracle(results=results), ig.build_oracle(results=dict(reversed(results.items())))
    assert one["oracle"] == two["oracle"]
    assert one["by_k"] == two["by_k"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"predictions": None}, r"build_oracle takes either predictions \(with references and history\) or results"),
        ({"results": {}}, r"build_oracle takes either predictions"),
        ({"predictions": {}}, r"predictions must be a dict by model with at least one entry, found \{\}"),
        ({"predictions": [[]]}, r"predictions must be a dict by model with at least one entry"),
        ({"predictions": {"x": [[]]}}, r"model 'x': predictions has 1 entries and references 2"),
        ({"predictions": {"x": [[record(1, "a")], []]}}, r"model 'x': predictions\[0\]\[0\] .*item_ids must be a list"),
        ({"history": None}, r"history is required"),
        ({"thresholds": "mild"}, r"model 'x': thresholds: no preset 'mild'"),
        ({"signals": ["like"]}, r"model 'x': signals: unknown like"),
        ({"min_models": 0}, r"min_models must be an integer >= 1, found 0"),
        ({"min_models": 4}, r"min_models is 4, and there are 3 sources"),
        ({"given": [1]}, r"oracle must be a dict by user id"),
        ({"given": {"7": ["x"]}}, r"oracle\['7'\] holds 'x'; it must hold integer category ids"),
        ({"given": {"7": [-1]}}, r"oracle\['7'\] holds -1; category ids are positive"),
    ],
)
def test_errors_of_oracles(ig, change, message):
    call = {"predictions": MODELS, "references": USERS, "history": HISTORY}
    ig.build_oracle(**call)
    with pytest.raises(ValueError, match=message):
        ig.build_oracle(**{**call, **change})


# --- results scored once more ---------------------------------------------------------------------------------------


def same(one, two):
    """Equal but for what a policy says of the oracle's origin."""
    keys = ("oracle", "n_oracle_zeros_dropped", "n_oracle_users_not_scored")
    policies = [{k: v for k, v in result["policy"].items() if k not in keys} for result in (one, two)]
    return {**one, "policy": policies[0]} == {**two, "policy": policies[1]}


def test_scoring_once_more_is_computing_against_the_common_oracle(ig):
    results = results_of(ig)
    oracle = ig.build_oracle(results=results)["oracle"]
    again = ig.rescore(results, n_resamples=20)
    for name, expected in results_of(ig, oracle=oracle).items():
        assert same(again[name], expected)
        assert again[name]["policy"]["oracle"] == "what these 3 models verify together"
        assert same(ig.rescore({name: results[name]}, oracle=oracle, n_resamples=20)[name], expected)
    assert json.loads(json.dumps(again, allow_nan=False)) == again
    from_file = json.loads(json.dumps(results))
    assert ig.rescore(from_file, n_resamples=20) == again


@pytest.mark.parametrize("thresholds", ["lenient", "base", "strict", {"explicit_positive": 1}])
def test_other_thresholds_need_no_history(ig, thresholds):
    results = results_of(ig, thresholds="strict")
    again = ig.rescore(results, thresholds=thresholds, n_resamples=20)
    direct = results_of(ig, thresholds=thresholds)
    oracle = ig.build_oracle(results=direct)["oracle"]
    for name, expected in results_of(ig, thresholds=thresholds, oracle=oracle).items():
        assert same(again[name], expected)


def test_verdicts_of_ig_change_results_of_is(ig, specificity):
    results = results_of(ig, thresholds="strict")
    retrievals = {
        name: [
            [
                {
                    "interest": one["interest"],
                    "category_id": one["category_id"],
                    "verified": False,
                    "backing_item_ids": one["item_ids"],
                    "selected_item_ids": one["item_ids"][:1] if one["category_id"] != 9 else None,
                }
                for one in row
            ]
            for row in rows
        ]
        for name, rows in MODELS.items()
    }
    scored = ig.rescore(results, thresholds="base", n_resamples=20)
    before = {name: specificity.compute(predictions=rows, references=USERS) for name, rows in retrievals.items()}
    again = specificity.rescore(before, ig=scored, n_resamples=20)
    for name, rows in retrievals.items():
        verdicts = iter(scored[name]["per_interest"]["verified"])
        judged = [[{**one, "verified": next(verdicts)} for one in row] for row in rows]
        f1 = dict(zip(USERS, scored[name]["per_user"]["ig_f1"], strict=True))
        assert again[name] == specificity.compute(predictions=judged, references=USERS, ig_f1=f1, n_resamples=20)
    scope = specificity.rescore(before, ig=scored, is_scope="verified")
    assert scope["x"]["policy"]["is_scope"] == "verified"
    with pytest.raises(ValueError, match="is_scope must be one of"):
        specificity.rescore(before, ig=scored, is_scope="all")
    with pytest.raises(ValueError, match=r"must be of the same models; only one of them has x"):
        specificity.rescore({k: v for k, v in before.items() if k != "x"}, ig=scored)
    with pytest.raises(ValueError, match=r"results\['x'\] and ig\['x'\] are of different interests"):
        specificity.rescore({"x": before["x"]}, ig={"x": scored["z"]})
    with pytest.raises(ValueError, match=r"ig\['x'\] must be a result of ig.compute, found 3"):
        specificity.rescore({"x": before["x"]}, ig={"x": 3})
    with pytest.raises(ValueError, match=r"results\['x'\] must be a result of is.compute"):
        specificity.rescore({"x": scored["x"]}, ig={"x": scored["x"]})
    with pytest.raises(ValueError, match=r"results must be a dict by model"):
        specificity.rescore([], ig=scored)


def test_results_are_not_changed(ig):
    results = results_of(ig)
    copy = json.loads(json.dumps(results))
    ig.rescore(results, thresholds="lenient")
    ig.build_oracle(results=results)
    assert results == copy


def spoilt(result, **columns):
    return {**result, "per_interest": {**result["per_interest"], **columns}}


def test_errors_of_results(ig):
    good = results_of(ig)["x"]
    for bad, message in (
        (3, r"results\['x'\] must be a result of ig.compute, with per_user, per_interest, .*found 3"),
        ({"per_user": {}}, r"results\['x'\] must be a result of ig.compute"),
        ({**good, "per_user": {}}, r"results\['x'\] lacks columns"),
        ({**good, "per_interest": {}}, r"results\['x'\] lacks columns"),
        (spoilt(good, verified=[True]), r"results\['x'\]: the columns of per_interest differ in length"),
        (spoilt(good, verified=[1, 0, 1, 0]), r"results\['x'\], verified must hold True and False only"),
        (spoilt(good, user_id=["7", "7", "7", "9"]), r"results\['x'\], per_interest: user '9' is not among"),
        (spoilt(good, category_id=[3, None, 0, 2]), r"results\['x'\], category_id holds None at 1"),
        (spoilt(good, category_id=[3, "x", 0, 2]), r"results\['x'\], category_id must hold integers"),
    ):
        with pytest.raises(ValueError, match=message):
            ig.rescore({"x": bad})
    with pytest.raises(ValueError, match=r"results\['x'\], n_implicit_positive must hold integers"):
        ig.rescore({"x": spoilt(good, n_implicit_positive=["a"] * 4)}, thresholds="base")
    with pytest.raises(ValueError, match="results must be a dict by model"):
        ig.rescore({})
    with pytest.raises(ValueError, match="missing_from_oracle must be one of error, extend, ignore, found 'drop'"):
        ig.rescore({"x": good}, missing_from_oracle="drop")
    with pytest.raises(ValueError, match=r"model 'x': oracle\['7'\] lacks category 3"):
        ig.rescore({"x": good}, oracle={"7": [9]})
    with pytest.raises(ValueError, match="thresholds: unknown key"):
        ig.rescore({"x": good}, thresholds={"explicit": 1})
    with pytest.raises(ValueError, match="leave references and history out"):
        ig.build_oracle(results={"x": good}, history=HISTORY)


# --- calls ----------------------------------------------------------------------------------------------------------


def test_unknown_arguments_are_named(ig, specificity):
    with pytest.raises(TypeError, match=r"ig\.compute has no argument 'histroy'; it has predictions, references, hist"):
        ig.compute(predictions=[[]], references=["7"], histroy=HISTORY)
    with pytest.raises(TypeError, match=r"is\.compute has no argument 'scope'"):
        specificity.compute(predictions=[[]], references=["7"], scope="category")
    with pytest.raises(ValueError, match="missing_from_oracle must be one of"):
        ig.compute(predictions=[[]], references=["7"], history=HISTORY, missing_from_oracle=True)


def test_records_and_arguments_of_both_modules_serve_each(ig, specificity):
    both = {
        **record(3, ["a", "b"]),
        "verified": True,
        "backing_item_ids": ["a", "b"],
        "selected_item_ids": ["a", "x"],
    }
    found = ig.compute(predictions=[[both]], references=["7"], history=HISTORY, is_scope="verified", n_resamples=0)
    only = ig.compute(predictions=[[record(3, ["a", "b"])]], references=["7"], history=HISTORY, n_resamples=0)
    assert found["policy"].pop("arguments_not_used") == ["is_scope"]
    assert found == only
    assert specificity.compute(predictions=[[both]], references=["7"], history=HISTORY)["is"] == 0.5
