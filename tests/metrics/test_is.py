import json

import evaluate
import numpy as np
import pytest


def record(name, verified, backing, selected, category=None):
    return {
        "interest": name,
        "category_id": category,
        "verified": verified,
        "backing_item_ids": backing,
        "selected_item_ids": selected,
    }


def test_the_papers_worked_example(specificity):
    """Table 13: the judge finds 3 of the 4 backing items of a verified interest; the other interest is unverified."""
    nba = record("NBA", True, ["12", "34", "56", "78"], ["12", "d1", "56", "78"], 3)
    cooking = record("Cooking", False, ["91", "23"], ["91", "23"], 5)
    result = specificity.compute(predictions=[[nba, cooking]], references=["u"])
    assert result["is"] == result["mean_is"] == 0.75
    assert result["per_interest"]["n_correct"] == [3, 2]
    assert "hm" not in result


@pytest.mark.parametrize(
    ("backing", "selected", "expected", "over_selected"),
    [
        (["a", "b"], ["a", "b"], 1.0, 0),
        (["a", "b"], ["x", "a", "b"], 0.5, 1),
        (["a", "b"], ["a", "a", "b"], 1.0, 0),
        (["a", "b"], [f"d{i}" for i in range(48)] + ["a", "b"], 0.0, 48),
        (["a", "b"], ["a", "b", *(f"d{i}" for i in range(48))], 1.0, 48),
        (["a", "a", "b"], ["a"], 0.5, 0),
        (["a", "b"], [], 0.0, 0),
        ([], ["a"], 0.0, 1),
        ([], [], 0.0, 0),
        ([], None, 0.0, 0),
        (["a", "b"], None, None, 0),
        ([1, np.int64(2)], ["[1]", " 2"], 1.0, 0),
        (["[1]", "2"], ["[1]", "1", "2"], 0.5, 1),
        (["1"], ["[1]", "1"], 1.0, 0),
    ],
)
def test_specificity_of_one_interest(specificity, backing, selected, expected, over_selected):
    result = specificity.compute(predictions=[[record("x", True, backing, selected)]], references=["u"])
    assert result["per_interest"]["specificity"] == [expected]
    assert result["per_interest"]["n_over_selected"] == [over_selected]
    assert result["per_user"]["n_not_judged"] == [int(expected is None)]
    assert result["is"] == expected


USER = [
    record("a", True, ["1", "2"], ["1", "2"], 1),  # 1
    record("b", False, ["1", "2"], ["1", "x"], 1),  # 1/2, unverified, counts in its category
    record("c", False, ["1"], ["1"], 2),  # a category without a verified interest
    record("d", True, ["1", "2", "3"], None, 3),  # not judged: its category is undefined
    record("e", True, ["1"], ["x"], 0),  # 0, unmapped counts
    record("f", True, ["1"], None, 4),  # not judged ...
    record("g", False, [], None, 4),  # ... but this one is 0
]


def test_hand_computed_scores(specificity):
    result = specificity.compute(predictions=[USER, []], references=["7", "8"], ig_f1={7: 0.25, "8": 0.0})
    rows = result["per_user"]
    assert rows["is"] == [0.25, 0.0]  # (3/4 + 0 + 0) / 3
    assert rows["hm"] == [0.25, 0.0]
    assert rows["n_interests"] == [7, 0]
    assert rows["n_verified"] == [4, 0]
    assert rows["n_not_judged"] == [2, 0]
    assert rows["n_without_backing"] == [1, 0]
    assert rows["n_categories"] == [5, 0]
    assert rows["n_verified_categories"] == [4, 0]
    assert rows["n_undefined_categories"] == [1, 0]
    assert result["policy"]["n_interests_not_judged"] == 2
    assert result["policy"]["n_undefined_categories"] == 1


def test_scope_verified_averages_over_verified_interests_only(specificity):
    result = specificity.compute(predictions=[USER], references=["7"], is_scope="verified")
    assert result["is"] == 0.5  # (1 + 0) / 2: categories 3 and 4 have no judged verified interest
    assert result["per_user"]["n_undefined_categories"] == [2]
    assert result["policy"]["is_scope"] == "verified"


def test_a_user_whose_verified_categories_are_undefined_is_left_out(specificity):
    users = [
        [record("a", True, ["1"], None, 1)],
        [record("a", True, ["1"], ["1"], 1)],
        [record("a", False, ["1"], None, 1)],
    ]
    result = specificity.compute(predictions=users, references=[1, 2, 3], ig_f1={1: 0.5, 2: None, 3: 0.5})
    assert result["per_user"]["is"] == [None, 1.0, 0.0]
    assert result["per_user"]["hm"] == [None, None, 0.0]
    assert result["per_user"]["ig_f1"] == [0.5, None, 0.5]
    assert (result["is"], result["hm"]) == (0.5, 0.0)
    assert result["policy"]["n_users_undefined"] == 1
    assert result["ci_hm"] is None


def test_hm_is_of_users_and_not_of_medians(specificity):
    users = [[record("a", True, ["1", "2"], picked, 1)] for picked in (["1", "2"], ["1"], [])]
    result = specificity.compute(predictions=users, references=[1, 2, 3], ig_f1={1: 0.5, 2: 1.0, 3: 0.0})
    assert result["per_user"]["hm"] == [pytest.approx(2 / 3), pytest.approx(2 / 3), 0.0]
    assert result["hm"] == pytest.approx(2 / 3)


def test_takes_what_ig_returns(ig, specificity, make_history):
    history = make_history(u=[("1", "e+"), ("2", "e+")], v=[("1", "i+")])
    predictions = [[{"interest": "a", "category_id": 1, "item_ids": ["1", "2"]}], []]
    f1 = ig.compute(predictions=predictions, references=["u", "v"], history=history, oracle={"u": [1, 2], "v": []})
    rows = f1["per_user"]
    result = specificity.compute(
        predictions=[[record("a", True, ["1", "2"], ["1", "2"], 1)], []],
        references=["u", "v"],
        ig_f1=dict(zip(rows["user_id"], rows["ig_f1"], strict=True)),
    )
    assert result["per_user"]["hm"] == [pytest.approx(0.8), None]


def test_collected_batches_give_the_same(specificity, repo_root):
    predictions = [USER, [], [record("x", np.True_, [1, 2], [1], 4)]]
    call = {"ig_f1": {7: 0.5, 8: 0, "9": 1.0}}
    expected = specificity.compute(predictions=predictions, references=[7, "8", "9"], **call)
    specificity.add_batch(predictions=predictions[:2], references=[7, "8"])
    specificity.add(prediction=predictions[2], reference="9")
    assert specificity.compute(**call) == expected
    in_memory = evaluate.load(str(repo_root / "metrics" / "is"), keep_in_memory=True)
    in_memory.add_batch(predictions=predictions, references=[7, "8", "9"])
    assert in_memory.compute(**call) == expected


def test_plain_json(specificity):
    result = specificity.compute(predictions=[USER, []], references=["7", "8"], ig_f1={"7": None, "8": np.float64(0.5)})
    assert json.loads(json.dumps(result, allow_nan=False)) == result


def test_loads_from_a_relative_path(monkeypatch, repo_root):
    monkeypatch.chdir(repo_root)
    module = evaluate.load("metrics/is")
    assert module.compute(predictions=[USER], references=["7"])["is"] == 0.25


GOOD = record("NBA", True, ["1"], ["1"], 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"references": ["7"]}, r"predictions has 2 entries and references 1"),
        ({"predictions": [[{**GOOD, "ids": []}], []]}, r"predictions\[0\]\[0\] .*unknown key\(s\) \['ids'\]"),
        (
            {"predictions": [[], [{k: v for k, v in GOOD.items() if k != "selected_item_ids"}]]},
            r"predictions\[1\]\[0\] \(user '8', interest 'NBA'\): missing key\(s\) \['selected_item_ids'\]",
        ),
        ({"predictions": [[{**GOOD, "verified": 1}], []]}, r"verified must be True or False, found 1 \(int\)"),
        ({"predictions": [[{**GOOD, "verified": None}], []]}, r"verified must be True or False, found None"),
        ({"predictions": [[{**GOOD, "backing_item_ids": None}], []]}, r"backing_item_ids must be a list of ids \("),
        (
            {"predictions": [[{**GOOD, "selected_item_ids": "1"}], []]},
            r"selected_item_ids must be a list of ids or None",
        ),
        ({"predictions": [[{**GOOD, "selected_item_ids": [1.0]}], []]}, r"selected_item_ids\[0\]: found the float 1.0"),
        ({"predictions": [[GOOD], [{**GOOD, "category_id": None}]]}, r"category_id is None, while other records"),
        ({"is_scope": "all"}, r"is_scope must be one of category, verified, found 'all'"),
        ({"ig_f1": {"7": 0.5}}, r"ig_f1 lacks user '8'"),
        ({"ig_f1": {"7": 0.5, "8": 1.5}}, r"ig_f1\['8'\] must be a number from 0 to 1 or None, found 1.5"),
        ({"ig_f1": {"7": 0.5, "8": float("nan")}}, r"ig_f1\['8'\] must be a number from 0 to 1 or None, found nan"),
        ({"ig_f1": [0.5, 0.5]}, r"ig_f1 must be a dict by user id"),
    ],
)
def test_errors_name_the_place(specificity, change, message):
    call = {"predictions": [[GOOD], []], "references": ["7", "8"]}
    specificity.compute(**call)
    with pytest.raises(ValueError, match=message):
        specificity.compute(**{**call, **change})
