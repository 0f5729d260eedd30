import json

import datasets
import evaluate
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest


def record(name, ids, relevant=None, category=None):
    return {"interest": name, "category_id": category, "item_ids": ids, "relevant_item_ids": relevant}


@pytest.fixture
def history(make_history):
    return make_history(
        **{
            "7": [("12", "e+"), ("34", "i+"), ("56", "i+"), ("78", "e+"), ("91", "i+"), ("92", "i+"), ("23", "i-")],
            "8": [("12", "i+"), ("24", "i-"), ("78", "i+"), ("78", "e+"), ("12", "i+")],
        }
    )


NBA = record("NBA Basketball Highlights", ["12", "34", "56", "78"], ["12", "34", "56", "78"], 3)
COOKING = record("Italian Cooking Recipes", ["91", "92", "23", "24"], ["91", "92", "23", "24"], 5)


def test_the_papers_worked_example(ig, make_history):
    """Tables 12 and 13; Table 12 shows two of the four items behind Table 13's counts for cooking."""
    history = make_history(
        u=[
            *[("vid_12", "e+"), ("vid_34", "i+"), ("vid_56", "i+"), ("vid_78", "e+")],
            *[("vid_91", "i+"), ("x1", "i+"), ("vid_23", "i-"), ("x2", "i-")],
        ]
    )
    nba = ["vid_12", "vid_34", "vid_56", "vid_78"]
    cooking = ["vid_91", "x1", "vid_23", "x2"]
    result = ig.compute(
        predictions=[[record("NBA Basketball Highlights", nba, nba), record("Italian Cooking", cooking, cooking)]],
        references=["u"],
        history=history,
    )
    table = result["per_interest"]
    assert table["n_implicit_positive"] == [2, 2]
    assert table["n_explicit_positive"] == [2, 0]
    assert table["n_implicit_negative"] == [0, 2]
    assert table["n_explicit_negative"] == [0, 0]
    assert table["verified"] == [True, False]
    assert table["failure_reasons"] == [[], ["insufficient_explicit_positive", "insufficient_implicit_positive"]]
    assert result["policy"]["signals"] == ["explicit_positive", "implicit_positive", "implicit_negative"]


def test_hand_computed_scores(ig, history):
    # User 7: category 3 has one of two verified, 5 none of one, 0 one of one; user 8: nothing predicted.
    golf = record("Golf", ["34"], [], 3)
    other = record("Other", ["12", "78"], None, 0)
    result = ig.compute(
        predictions=[[NBA, COOKING, golf, other], []],
        references=["7", "8"],
        history=history,
        oracle={"7": [3, 5, 9, 0], "8": [4]},
    )
    rows = result["per_user"]
    assert rows["ig_precision"] == [pytest.approx((0.5 + 0 + 1) / 3), 0.0]
    assert rows["ig_recall"] == [pytest.approx(0.5 / 3), 0.0]
    p, r = 0.5, 0.5 / 3
    assert rows["ig_f1"] == [pytest.approx(2 * p * r / (p + r)), 0.0]
    assert result["ig_precision"] == result["mean_ig_precision"] == pytest.approx(0.25)
    assert rows["n_interests"] == [4, 0]
    assert rows["n_verified"] == [2, 0]
    assert rows["n_categories"] == [3, 0]
    assert rows["n_verified_categories"] == [2, 0]
    assert rows["n_oracle_categories"] == [3, 1]
    assert rows["n_unknown_item_ids"] == [1, 0]
    assert result["per_interest"]["failure_reasons"][2] == [
        "no_relevant_items",
        "insufficient_explicit_positive",
        "insufficient_implicit_positive",
    ]
    assert result["per_interest"]["unknown_item_ids"] == [[], ["24"], [], []]
    assert result["policy"]["n_oracle_zeros_dropped"] == 1
    assert (result["policy"]["n_interests_judged"], result["policy"]["n_interests_not_judged"]) == (3, 1)


def test_one_object_counts_once_per_type_and_in_each_of_its_types(ig, history):
    result = ig.compute(
        predictions=[[record("x", ["12", "12", "78"])]], references=["8"], history=history, thresholds="lenient"
    )
    assert result["per_interest"]["n_implicit_positive"] == [2]
    assert result["per_interest"]["n_explicit_positive"] == [1]


def test_without_oracle_only_precision(ig, history):
    result = ig.compute(predictions=[[NBA], [COOKING]], references=["7", "8"], history=history)
    assert result["ig_precision"] == 0.5
    for name in ("ig_recall", "ig_f1"):
        assert [result[key] for key in (name, f"mean_{name}", f"ci_{name}", f"ci_mean_{name}")] == [None] * 4
        assert result["per_user"][name] == [None, None]
    assert result["per_user"]["n_oracle_categories"] == [None, None]
    assert result["policy"]["n_users_without_recall"] == 2


def test_a_user_without_oracle_is_left_out_of_recall_and_counted(ig, history):
    for oracle in ({"7": [3]}, {7: [3], "8": []}, {"7": np.array([3]), 8: [0]}):
        golf = record("Golf", ["12", "9"], None, 2)
        result = ig.compute(predictions=[[NBA], [golf]], references=[7, 8], history=history, oracle=oracle)
        assert result["per_user"]["ig_recall"] == [1.0, None]
        assert result["ig_recall"] == 1.0
        assert result["ig_precision"] == 0.5
        assert result["policy"]["n_users_without_recall"] == 1
        assert result["policy"]["n_users_without_recall_but_verified"] == 0
        found = record("Golf", ["12", "78"], None, 2)
        result = ig.compute(predictions=[[NBA], [found]], references=[7, 8], history=history, oracle=oracle)
        assert result["per_user"]["ig_recall"] == [1.0, None]
        assert result["policy"]["n_users_without_recall_but_verified"] == 1


def test_without_categories_names_are_categories_and_same_names_one(ig, history):
    result = ig.compute(
        predictions=[[record("NBA", ["12", "78"]), record(" NBA ", ["34"]), record("Golf", ["34"])]],
        references=["7"],
        history=history,
        oracle={"7": ["NBA", "Chess "]},
    )
    assert result["per_user"]["n_categories"] == [2]
    assert (result["ig_precision"], result["ig_recall"]) == (0.25, 0.25)
    assert result["policy"]["category"] == "interest (trimmed name)"


@pytest.mark.parametrize(
    ("thresholds", "counts", "verified"),
    [
        ("lenient", "e+", True),
        ("lenient", "i+", True),
        ("lenient", "e+ i- i- i- i-", True),
        ("lenient", "e+ i- i- i- i- i-", False),
        ("lenient", "e+ e- e- e-", True),
        ("lenient", "e+ e- e- e- e-", False),
        ("base", "e+", False),
        ("base", "e+ e+", True),
        ("base", "i+ i+", False),
        ("base", "i+ i+ i+", True),
        ("base", "e+ i+ i+", True),
        ("base", "e+ e+ i- i- i-", True),
        ("base", "e+ e+ i- i- i- i-", False),
        ("base", "e+ e+ e- e-", True),
        ("base", "e+ e+ e- e- e-", False),
        ("strict", "e+ e+ i+ i+", False),
        ("strict", "e+ e+ i+ i+ i+", True),
        ("strict", "e+ e+ e+", True),
        ("strict", "i+ i+ i+ i+", True),
        ("strict", "e+ e+ e+ i- i- i-", False),
        ("strict", "e+ e+ e+ e- e-", False),
        ({"explicit_positive": 1}, "e+", True),
        ({"hybrid_explicit_positive": None, "hybrid_implicit_positive": None}, "e+ i+ i+", False),
        ({"max_implicit_negative": None}, "e+ e+ i- i- i- i-", True),
    ],
)
def test_thresholds(ig, make_history, thresholds, counts, verified):
    engaged = [(f"v{i}", kind) for i, kind in enumerate(counts.split())]
    result = ig.compute(
        predictions=[[record("x", [item for item, _ in engaged])]],
        references=["u"],
        history=make_history(u=engaged),
        thresholds=thresholds,
        signals=["explicit_positive", "implicit_positive", "implicit_negative", "explicit_negative"],
    )
    assert result["per_interest"]["verified"] == [verified]
    if not verified and ("e-" in counts or "i-" in counts):
        assert "excessive_negative" in result["per_interest"]["failure_reasons"][0]


def test_caps_and_clauses_need_their_signals(ig, make_history):
    history = make_history(u=[("a", "e+"), ("b", "i+"), ("c", "i+"), *[(f"n{i}", "i-") for i in range(5)]])
    call = {"predictions": [[record("x", history["object_id"])]], "references": ["u"], "history": history}
    for signals, verified, reasons in (
        (["explicit_positive", "implicit_positive"], True, []),
        (["explicit_positive"], False, ["insufficient_explicit_positive"]),
        (["implicit_positive"], False, ["insufficient_implicit_positive"]),
        (None, False, ["insufficient_explicit_positive", "insufficient_implicit_positive", "excessive_negative"]),
        ([], False, []),
    ):
        result = ig.compute(**call, signals=signals)
        assert result["per_interest"]["verified"] == [verified]
        assert result["per_interest"]["failure_reasons"] == [reasons]
        assert result["per_interest"]["n_implicit_negative"] == [5]


def test_policy_names_every_number(ig, history):
    policy = ig.compute(
        predictions=[[NBA]], references=["7"], history=history, thresholds={"explicit_positive": 4}, seed=3
    )["policy"]
    assert policy["thresholds"] == {
        "preset": "custom: base with what the call gave",
        "explicit_positive": 4,
        "implicit_positive": 3,
        "hybrid_explicit_positive": 1,
        "hybrid_implicit_positive": 2,
        "max_implicit_negative": 3,
        "max_explicit_negative": 2,
    }
    assert policy["interval"]["seed"] == 3
    assert policy["signals_from"] == "history"


# --- ids and inputs -------------------------------------------------------------------------------------------------


def test_integer_and_bracketed_ids_are_found(ig, history):
    result = ig.compute(
        predictions=[[record("x", [12, np.int64(78), "[34]", ' "56" ', "[99]", "99", 98, "[]"], ["78", "['12']"])]],
        references=[np.int64(7)],
        history=history,
    )
    assert result["per_interest"]["verified"] == [True]
    assert result["per_interest"]["n_explicit_positive"] == [2]
    assert result["per_interest"]["unknown_item_ids"] == [["99", "98", "[]"]]


def test_an_id_that_is_in_the_history_with_its_brackets_is_taken_as_it_is(ig, make_history):
    history = make_history(u=[("[1]", "e+"), ("1", "i+"), ("2", "e+")])
    result = ig.compute(predictions=[[record("x", ["[1]", "[2]"])]], references=["u"], history=history)
    assert result["per_interest"]["n_explicit_positive"] == [2]
    assert result["per_interest"]["n_implicit_positive"] == [0]


def test_all_table_types_give_the_same(ig, history):
    call = {"predictions": [[NBA, COOKING], [COOKING]], "references": ["7", "8"], "oracle": {"7": [3], "8": [5]}}
    expected = ig.compute(**call, history=history)
    frame = pd.DataFrame(history)
    numbers = frame.assign(user_id=frame.user_id.astype(int), object_id=frame.object_id.astype("uint32"), more=1.5)
    shuffled = datasets.Dataset.from_dict(history).shuffle(seed=1)
    chunked = pa.concat_tables([pa.table(history).slice(0, 4), pa.table(history).slice(4)])
    for table in (
        frame,
        numbers,
        frame.astype("category"),
        frame.astype(object),
        frame.sample(frac=1, random_state=0),
        pa.table(history),
        chunked,
        pa.table(history).to_batches()[0],
        pa.table({name: pa.array(values).dictionary_encode() for name, values in history.items()}),
        pa.table({name: pa.array(values, pa.large_string()) for name, values in history.items()}),
        datasets.Dataset.from_dict(history),
        shuffled,
        {name: np.array(values) for name, values in history.items()},
        {**history, "user_id": [int(user) for user in history["user_id"]]},
        {**history, "object_id": [12, *history["object_id"][1:]]},
    ):
        assert ig.compute(**call, history=table) == expected
    half = datasets.Dataset.from_dict(history).select(range(7))
    assert ig.compute(**call, history=half)["per_interest"]["n_implicit_positive"] == [2, 2, 0]


def test_collected_batches_give_the_same(ig, history, repo_root):
    predictions = [
        [NBA, {k: v for k, v in COOKING.items() if k != "relevant_item_ids"}],
        [],
        [record("x", [1, 2], [], 4)],
    ]
    references = [7, "8", "9"]
    call = {"history": history, "oracle": {7: [3], "8": [1]}}
    expected = ig.compute(predictions=predictions, references=references, **call)
    ig.add_batch(predictions=predictions[:2], references=references[:2])
    ig.add(prediction=predictions[2], reference=references[2])
    assert ig.compute(**call) == expected
    ig.add_batch(predictions=predictions[:2], references=references[:2])
    assert ig.compute(predictions=predictions[2:], references=references[2:], **call) == expected
    in_memory = evaluate.load(str(repo_root / "metrics" / "ig"), keep_in_memory=True)
    in_memory.add_batch(predictions=predictions, references=references)
    assert in_memory.compute(**call) == expected


def test_plain_json(ig, history):
    result = ig.compute(
        predictions=[[NBA, COOKING], [COOKING]], references=["7", "8"], history=history, oracle={"7": [3]}
    )
    assert json.loads(json.dumps(result, allow_nan=False)) == result


def test_ids_that_are_no_valid_text_are_unknown(ig, history):
    result = ig.compute(predictions=[[record("\ud800", ["\ud800", "12", "78"])]], references=["7"], history=history)
    assert result["per_interest"]["unknown_item_ids"] == [["\ud800"]]
    assert result["per_interest"]["verified"] == [True]


def test_users_without_history_have_only_unknown_ids(ig, history):
    result = ig.compute(predictions=[[NBA]], references=["nobody"], history=history, oracle={"nobody": [3]})
    assert result["per_interest"]["unknown_item_ids"] == [["12", "34", "56", "78"]]
    assert result["ig_f1"] == 0.0


def test_loads_from_a_relative_path(monkeypatch, repo_root, history):
    monkeypatch.chdir(repo_root)
    module = evaluate.load("metrics/ig")
    assert module.compute(predictions=[[NBA]], references=["7"], history=history)["ig_precision"] == 1.0
    assert "history" in module.compute.__doc__


def test_a_second_instance_does_not_wait(repo_root, history):
    modules = [evaluate.load(str(repo_root / "metrics" / "ig")) for _ in range(2)]
    scores = [m.compute(predictions=[[NBA]], references=["7"], history=history)["ig_precision"] for m in modules]
    assert scores == [1.0, 1.0]
    assert all(m.filelock is None for m in modules)


# --- errors ---------------------------------------------------------------------------------------------------------

GOOD = record("NBA", ["12", "78"], ["12"], 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"predictions": None}, r"predictions must be a list with one entry per user, found None"),
        ({"predictions": "abc"}, r"predictions must be a list"),
        ({"predictions": [[GOOD]]}, r"predictions has 1 entries and references 2"),
        ({"predictions": [], "references": []}, r"no user to score"),
        ({"references": ["7", "7"]}, r"references\[1\]: user '7' was given before, as references\[0\]"),
        ({"references": ["7", 7]}, r"references\[1\]: user '7' was given before"),
        ({"references": ["7", None]}, r"references\[1\]: found None"),
        ({"references": ["7", 8.0]}, r"references\[1\]: found the float 8.0; ids are strings or integers"),
        ({"predictions": [[GOOD], None]}, r"predictions\[1\] \(user '8'\) must be a list of records, found None"),
        ({"predictions": [[GOOD], GOOD]}, r"predictions\[1\] \(user '8'\) must be a list of records"),
        ({"predictions": [[GOOD], ["x"]]}, r"predictions\[1\]\[0\] \(user '8'\) must be a dict, found 'x'"),
        (
            {"predictions": [[], [GOOD, {"interest": "Golf", "item_ids": []}]]},
            r"predictions\[1\]\[1\] \(user '8', interest 'Golf'\): missing key\(s\) \['category_id'\]",
        ),
        ({"predictions": [[{**GOOD, "ids": []}], []]}, r"interest 'NBA'\): unknown key\(s\) \['ids'\]"),
        ({"predictions": [[{**GOOD, "interest": " "}], []]}, r"predictions\[0\]\[0\].*: interest is empty"),
        ({"predictions": [[{**GOOD, "interest": None}], []]}, r"interest must be a string, found None"),
        ({"predictions": [[{**GOOD, "category_id": "3"}], []]}, r"category_id must be an integer or None, found '3'"),
        ({"predictions": [[{**GOOD, "category_id": True}], []]}, r"category_id must be an integer or None, found True"),
        ({"predictions": [[{**GOOD, "category_id": 3.0}], []]}, r"category_id must be an integer or None, found 3.0"),
        ({"predictions": [[{**GOOD, "category_id": -1}], []]}, r"must not be negative, found -1"),
        (
            {"predictions": [[GOOD], [{**GOOD, "category_id": None}]]},
            r"predictions\[1\]\[0\].*category_id is None, while",
        ),
        ({"predictions": [[{**GOOD, "item_ids": None}], []]}, r"item_ids must be a list of ids \(an empty one"),
        ({"predictions": [[{**GOOD, "item_ids": "12"}], []]}, r"item_ids must be a list of ids"),
        ({"predictions": [[{**GOOD, "item_ids": ["12", 78.0]}], []]}, r"item_ids\[1\]: found the float 78.0"),
        ({"predictions": [[{**GOOD, "item_ids": ["12", None]}], []]}, r"item_ids\[1\]: found None"),
        (
            {"predictions": [[{**GOOD, "relevant_item_ids": "12"}], []]},
            r"relevant_item_ids must be a list of ids or None",
        ),
        (
            {"predictions": [[GOOD], [{**GOOD, "relevant_item_ids": ["12", "99"]}]]},
            r"predictions\[1\]\[0\] \(user '8', interest 'NBA'\): relevant_item_ids holds '99', which is not among",
        ),
        ({"history": None}, r"history is required: a table with the columns user_id, object_id, interaction_type"),
        ({"history": [1]}, r"history must be an Arrow table"),
        ({"history": {"user_id": [], "object_id": []}}, r"history lacks the column\(s\) interaction_type"),
        ({"history": {"train": datasets.Dataset.from_dict({"a": [1]})}}, r"pass one split"),
        (
            {"history": {"user_id": ["7"], "object_id": ["1", "2"], "interaction_type": ["like", "like"]}},
            r"columns differ in length: user_id 1, object_id 2",
        ),
        (
            {
                "history": {
                    "user_id": ["7"] * 2,
                    "object_id": ["1", "2"],
                    "interaction_type": ["explicit_positive", "like"],
                }
            },
            r"history row 1: unknown interaction_type 'like'; the types are explicit_positive, ",
        ),
        (
            {
                "history": {
                    "user_id": ["7"] * 2,
                    "object_id": ["1", None],
                    "interaction_type": ["explicit_positive"] * 2,
                }
            },
            r"history row 1: object_id is missing",
        ),
        (
            {
                "history": pd.DataFrame(
                    {"user_id": [7, np.nan], "object_id": ["1", "2"], "interaction_type": ["x", "x"]}
                )
            },
            r"history row 1: user_id is missing",
        ),
        (
            {"history": {"user_id": [7.0], "object_id": ["1"], "interaction_type": ["explicit_positive"]}},
            r"history row 0: user_id: found the float 7.0",
        ),
        (
            {"history": {"user_id": [True], "object_id": ["1"], "interaction_type": ["explicit_positive"]}},
            r"column user_id has the type bool; ids are strings or integers",
        ),
        (
            {
                "history": {
                    "user_id": ["7", 7.5],
                    "object_id": ["1", "2"],
                    "interaction_type": ["explicit_positive"] * 2,
                }
            },
            r"history row 1: user_id: found the float 7.5",
        ),
        (
            {"history": {"user_id": ["7"], "object_id": ["1"], "interaction_type": [1]}},
            r"history row 0: unknown interaction_type 1",
        ),
        ({"history": {"user_id": [], "object_id": [], "interaction_type": []}}, r"history has no rows"),
        ({"thresholds": "medium"}, r"no preset 'medium'; there are base, lenient, strict"),
        ({"thresholds": {"explicit": 2}}, r"unknown key\(s\) explicit; the keys are explicit_positive, "),
        ({"thresholds": {"explicit_positive": 0}}, r"explicit_positive must be an integer >= 1"),
        ({"thresholds": {"max_implicit_negative": 1.5}}, r"max_implicit_negative must be an integer >= 0"),
        ({"thresholds": {"hybrid_explicit_positive": None}}, r"hybrid_explicit_positive and hybrid_implicit_positive"),
        ({"thresholds": 2}, r"thresholds must be one of base, lenient, strict or a dict, found 2"),
        ({"signals": ["likes"]}, r"signals: unknown likes; the types are"),
        ({"signals": "explicit_positive"}, r"signals must be a list"),
        ({"oracle": {"7": [5]}}, r"oracle\['7'\] lacks category 3, .* user '7' .*recall could exceed 1"),
        ({"oracle": {"7": [3, "x"]}}, r"oracle\['7'\] holds 'x'; it must hold integer category ids"),
        ({"oracle": {"7": [3, -2]}}, r"oracle\['7'\] holds -2; category ids are positive"),
        ({"oracle": {"7": 3}}, r"oracle\['7'\] must be a list of categories, found 3"),
        ({"oracle": [[3]]}, r"oracle must be a dict by user id"),
        ({"oracle": {7: [3], "7": [3]}}, r"oracle: user '7' stands there twice"),
        ({"oracle": {7.0: [3]}}, r"a key of oracle: found the float 7.0"),
        ({"n_resamples": -1}, r"n_resamples must be an integer >= 0"),
        ({"confidence_level": 95}, r"confidence_level must be a float between 0 and 1"),
        ({"seed": None}, r"seed must be an integer >= 0"),
    ],
)
def test_errors_name_the_place(ig, history, change, message):
    call = {
        "predictions": [[{**GOOD, "relevant_item_ids": ["12", "78"]}], []],
        "references": ["7", "8"],
        "history": history,
    }
    ig.compute(**call)
    with pytest.raises(ValueError, match=message):
        ig.compute(**{**call, **change})


def test_oracle_of_ids_without_categories_is_an_error(ig, history):
    call = {"predictions": [[record("NBA", ["12"])]], "references": ["7"], "history": history}
    with pytest.raises(ValueError, match=r"oracle\['7'\] holds 3; it must hold interest names"):
        ig.compute(**call, oracle={"7": [3]})


def test_nothing_to_score_is_an_error(ig, history):
    with pytest.raises(ValueError, match="nothing to score"):
        ig.compute(history=history)


def test_batches_are_checked_when_they_are_added(ig):
    with pytest.raises(ValueError, match=r"predictions\[0\]\[0\] \(user '7', interest 'NBA'\): unknown key"):
        ig.add_batch(predictions=[[{**GOOD, "ids": []}]], references=["7"])
    with pytest.raises(ValueError, match="interest is empty"):
        ig.add(prediction=[{**GOOD, "interest": ""}], reference="7")
    assert len(ig) == 0
