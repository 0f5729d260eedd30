import json

import evaluate
import numpy as np
import pytest


def test_hand_computed_scores(survey):
    result = survey.compute(
        predictions=[[3, 5, 9, 3], [0, 2], [], [1], [7]],
        references=[[3, 9, 7, 8], [2, 0], [4], [], [7]],
        user_ids=["a", 2, "c", "d", "e"],
    )
    rows = result["per_user"]
    assert rows["user_id"] == ["a", "2", "c", "d", "e"]
    assert rows["s_precision"] == [pytest.approx(2 / 3), 0.5, 0.0, None, 1.0]
    assert rows["s_recall"] == [0.5, 1.0, 0.0, None, 1.0]
    assert rows["s_f1"] == [pytest.approx(4 / 7), pytest.approx(2 / 3), 0.0, None, 1.0]
    assert rows["n_predicted_categories"] == [3, 2, 0, 1, 1]
    assert rows["n_reported_categories"] == [4, 1, 1, 0, 1]
    assert rows["n_common_categories"] == [2, 1, 0, 0, 1]
    assert result["s_recall"] == 0.75
    assert result["mean_s_recall"] == 0.625
    assert result["n_users"] == 5
    assert result["policy"]["n_users_without_report"] == 1
    assert result["policy"]["n_users_with_zero_reported"] == 1
    assert json.loads(json.dumps(result, allow_nan=False)) == result


def test_agrees_with_a_plain_loop(survey):
    rng = np.random.default_rng(0)
    predictions = [rng.integers(0, 20, rng.integers(0, 12)).tolist() for _ in range(200)]
    references = [rng.integers(0, 20, rng.integers(0, 12)).tolist() for _ in range(200)]
    rows = survey.compute(predictions=predictions, references=references, n_resamples=0)["per_user"]
    for i, (predicted, reported) in enumerate(zip(predictions, references, strict=True)):
        p, r = set(predicted), set(reported) - {0}
        if not r:
            assert rows["s_precision"][i] is rows["s_recall"][i] is rows["s_f1"][i] is None
            continue
        precision = sum(category in r for category in p) / len(p) if p else 0.0
        recall = sum(category in p for category in r) / len(r)
        f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        assert [rows[name][i] for name in ("s_precision", "s_recall", "s_f1")] == pytest.approx([precision, recall, f1])


def test_collected_batches_give_the_same(survey, repo_root):
    predictions, references = [[3, np.int64(5)], {9}, np.array([1, 2])], [(3,), [9, 1], []]
    expected = survey.compute(predictions=predictions, references=references)
    survey.add_batch(predictions=predictions[:2], references=references[:2])
    survey.add(prediction=predictions[2], reference=references[2])
    assert survey.compute() == expected
    in_memory = evaluate.load(str(repo_root / "metrics" / "survey"), keep_in_memory=True)
    in_memory.add_batch(predictions=predictions, references=references)
    assert in_memory.compute() == expected


def test_the_order_of_persons_and_categories_changes_nothing(survey):
    predictions, references = [[1, 2, 3], [4], [5, 6]], [[3, 2], [4, 7], [8]]
    one = survey.compute(predictions=predictions, references=references)
    two = survey.compute(predictions=[p[::-1] for p in predictions[::-1]], references=references[::-1])
    assert {k: v for k, v in one.items() if k != "per_user"} == {k: v for k, v in two.items() if k != "per_user"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"predictions": None}, r"predictions must be a list with one list of category ids per person, found None"),
        ({"references": "abc"}, r"references must be a list with one list"),
        ({"predictions": [[1]]}, r"predictions has 1 entries and references 2"),
        ({"predictions": [], "references": []}, r"there is no person to score"),
        ({"predictions": [[1], None]}, r"predictions\[1\] must be a list of category ids, found None"),
        ({"references": [3, [1]]}, r"references\[0\] must be a list of category ids, found 3 \(int\)"),
        ({"predictions": [[1], ["2"]]}, r"predictions\[1\]\[0\] must be an integer category id, found '2' \(str\)"),
        ({"predictions": [[1], [2, None]]}, r"predictions\[1\]\[1\] must be an integer category id, found None"),
        ({"predictions": [[1.0], [2]]}, r"predictions\[0\]\[0\] must be an integer category id, found 1.0 \(float\)"),
        ({"predictions": [[True], [2]]}, r"predictions\[0\]\[0\] must be an integer category id, found True"),
        ({"references": [[1], [5, -2]]}, r"references\[1\]\[1\] must not be negative, found -2"),
        ({"user_ids": ["a"]}, r"user_ids has 1 entries and predictions 2"),
        ({"user_ids": ["a", "a"]}, r"user_ids\[1\]: user 'a' was given before, as user_ids\[0\]"),
        ({"user_ids": ["a", 2.0]}, r"user_ids\[1\]: found the float 2.0"),
        ({"user_ids": "ab"}, r"user_ids must be a list of user ids, found 'ab'"),
        ({"n_resamples": 1.5}, r"n_resamples must be an integer >= 0, found 1.5"),
        ({"confidence_level": 1.0}, r"confidence_level must be a float between 0 and 1"),
        ({"seed": -1}, r"seed must be an integer >= 0"),
    ],
)
def test_errors_name_the_place(survey, change, message):
    call = {"predictions": [[1], [2]], "references": [[1], [3]]}
    survey.compute(**call)
    with pytest.raises(ValueError, match=message):
        survey.compute(**{**call, **change})


def test_unknown_arguments_and_empty_calls(survey):
    with pytest.raises(TypeError, match=r"survey\.compute has no argument 'users'; it has predictions, references, "):
        survey.compute(predictions=[[1]], references=[[1]], users=["a"])
    with pytest.raises(ValueError, match="nothing to score"):
        survey.compute()
    with pytest.raises(ValueError, match=r"predictions\[0\] must be a list"):
        survey.add(prediction=3, reference=[3])
    assert len(survey) == 0
