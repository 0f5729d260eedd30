"""Every kind of bad input is a ValueError whose message names the place and what to do: no KeyError, no Arrow error."""

from pathlib import Path

import datasets
import evaluate
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

nan = float("nan")


@pytest.fixture(scope="module")
def module():
    return evaluate.load(str(Path(__file__).resolve().parents[2] / "metrics" / "qrels_expansion"))


RUNS = {"system": ["A", "A", "B"], "user": ["1", "1", "1"], "item": ["x", "y", "x"], "score": [2.0, 1.0, 1.0]}
HUMAN = {"user": ["1", "1"], "item": ["x", "q"], "rating": [5.0, 4.0]}
LLM = {"user": ["1", "1"], "item": ["x", "y"], "rating": [4, 5]}
POOL = {"user": ["1"], "item": ["y"]}
POPULARITY = {"item": ["x", "y"], "count": [3, 4]}
CALL = {
    "runs": RUNS,
    "human_qrels": HUMAN,
    "llm_qrels": LLM,
    "pool": POOL,
    "popularity": POPULARITY,
    "n_resamples": 0,
}


def without(table, column):
    return {name: values for name, values in table.items() if name != column}


TABLES = {
    "runs is no table": (
        {"runs": 7},
        r"runs must be a table with the columns system, user, item, score .*found 7 \(int\)",
    ),
    "runs is a list": ({"runs": [1, 2]}, r"runs must be a table .*found \[1, 2\] \(list\)"),
    "runs lacks a column": (
        {"runs": without(RUNS, "score")},
        r"runs lacks the column\(s\) score; it has system, user, item",
    ),
    "arrow lacks columns": (
        {"runs": pa.table({"user": ["1"]})},
        r"runs lacks the column\(s\) system, item, score; it has user",
    ),
    "frame lacks a column": ({"runs": pd.DataFrame(without(RUNS, "user"))}, r"runs lacks the column\(s\) user"),
    "data set lacks a column": (
        {"runs": datasets.Dataset.from_dict(without(RUNS, "item"))},
        r"runs lacks the column\(s\) item",
    ),
    "a dict of data sets": (
        {"runs": datasets.DatasetDict({"train": datasets.Dataset.from_dict(RUNS)})},
        r"runs is a dict of data sets \(train\): pass one split",
    ),
    "uneven columns": (
        {"runs": {**RUNS, "score": [1.0]}},
        r"runs's columns differ in length: system 3, user 3, item 3, score 1",
    ),
    "a column is one value": (
        {"runs": {**RUNS, "user": "1"}},
        r"runs's column user must hold one value per row, found '1'",
    ),
    "no rows": ({"runs": {name: [] for name in RUNS}}, r"runs is empty: there is no list to score"),
    "score NaN": (
        {"runs": {**RUNS, "score": [1.0, nan, 2.0]}},
        r"runs row 1: the score of system 'A', user '1', item 'y' is NaN",
    ),
    "score missing": (
        {"runs": {**RUNS, "score": [1.0, None, 2.0]}},
        r"runs row 1: the score of system 'A', user '1', item 'y' is missing",
    ),
    "score is text": (
        {"runs": {**RUNS, "score": ["a", "b", "c"]}},
        r"runs's column score must hold numbers, found the type string \('a'",
    ),
    "score mixed": ({"runs": {**RUNS, "score": [1.0, "b", 2.0]}}, r"runs row 1: score must be a number, found 'b'"),
    "score is boolean": (
        {"runs": {**RUNS, "score": [True, False, True]}},
        r"runs's column score must hold numbers, found the type bool",
    ),
    "user missing": ({"runs": {**RUNS, "user": ["1", None, "1"]}}, r"runs row 1: user is missing\. Drop or complete"),
    "item missing": ({"runs": {**RUNS, "item": ["x", None, "x"]}}, r"runs row 1: item is missing"),
    "item is a float": (
        {"runs": {**RUNS, "item": [1.0, 2.0, 1.0]}},
        r"runs row 0: item is the float 1\.0; ids are strings or integers",
    ),
    "item is a list": ({"runs": {**RUNS, "item": [["x"], ["y"], ["x"]]}}, r"runs's column item has the type list"),
    "ids mixed with floats": (
        {"runs": {**RUNS, "item": ["x", 1.5, "x"]}},
        r"runs row 1: item must be a string or an integer, found 1\.5",
    ),
    "system is boolean": ({"runs": {**RUNS, "system": [True, True, False]}}, r"runs's column system has the type bool"),
    "an item twice in a list": (
        {"runs": {**RUNS, "item": ["x", "x", "x"]}},
        r"runs: system 'A' lists item 'x' for user '1' more than once",
    ),
    "an item twice beyond k": (
        {"runs": {**RUNS, "item": ["x", "x", "x"]}, "k": 1},
        r"runs: system 'A' lists item 'x' for user '1' more than once",
    ),
    "an item twice for a user who is not scored": (
        {"runs": {"system": ["A"] * 3, "user": ["1", "z", "z"], "item": ["x"] * 3, "score": [1.0] * 3}},
        r"runs: system 'A' lists item 'x' for user 'z' more than once",
    ),
    "a run of strangers": (
        {"runs": {**RUNS, "user": ["1", "1", "z"]}},
        r"runs: system 'B' has no list for any of the 1 users of human_qrels",
    ),
    "human_qrels is None": (
        {"human_qrels": None},
        r"human_qrels is required: a table with the columns user, item, rating",
    ),
    "human_qrels is empty": (
        {"human_qrels": {n: [] for n in HUMAN}},
        r"human_qrels is empty: there is no user to score",
    ),
    "human_qrels nested": (
        {"human_qrels": {"1": {"x": 5}}},
        r"human_qrels lacks the column\(s\) user, item, rating; it has 1",
    ),
    "human rating missing": (
        {"human_qrels": {**HUMAN, "rating": [5.0, None]}},
        r"human_qrels row 1: the rating of user '1', item 'q' is missing; it must be a finite number",
    ),
    "human rating NaN": ({"human_qrels": {**HUMAN, "rating": [nan, 4.0]}}, r"human_qrels row 0: .* is nan"),
    "human rating infinite": (
        {"human_qrels": {**HUMAN, "rating": [5.0, float("inf")]}},
        r"human_qrels row 1: .* is inf",
    ),
    "human rating is text": (
        {"human_qrels": {**HUMAN, "rating": ["5", "4"]}},
        r"human_qrels's column rating must hold numbers",
    ),
    "judged twice": (
        {"human_qrels": {"user": ["1"] * 3, "item": ["x", "q", "x"], "rating": [5.0, 4.0, 3.0]}},
        r"human_qrels: user '1', item 'x' is judged twice, as 5\.0 and as 3\.0\. Keep one",
    ),
    "llm rating infinite": (
        {"llm_qrels": {**LLM, "rating": [float("inf"), 1]}},
        r"llm_qrels row 0: the rating of user '1', item 'x' is inf",
    ),
    "llm judged twice": (
        {"llm_qrels": {"user": ["1"] * 2, "item": ["x", "x"], "rating": [1, 2]}},
        r"llm_qrels: user '1', item 'x' is judged twice, as 1\.0 and as 2\.0",
    ),
    "llm lacks a column": ({"llm_qrels": without(LLM, "rating")}, r"llm_qrels lacks the column\(s\) rating"),
    "pool lacks a column": ({"pool": {"user": ["1"]}}, r"pool lacks the column\(s\) item; it has user"),
    "pool id missing": ({"pool": {"user": [None], "item": ["x"]}}, r"pool row 0: user is missing"),
    "popularity lacks a column": ({"popularity": {"item": ["x"]}}, r"popularity lacks the column\(s\) count"),
    "count negative": (
        {"popularity": {"item": ["x"], "count": [-1]}},
        r"popularity row 0: the count of item 'x' is -1\.0; it must be >= 0",
    ),
    "count missing": ({"popularity": {"item": ["x", "y"], "count": [1, None]}}, r"popularity row 1: count is missing"),
    "counted twice": (
        {"popularity": {"item": ["x", "x"], "count": [1, 2]}},
        r"popularity: item 'x' is counted twice, as 1\.0 and as 2\.0",
    ),
    "no such file": ({"runs": "no/such/run.txt"}, r"runs: there is no file 'no/such/run\.txt'"),
}

OPTIONS = {
    "k zero": ({"k": 0}, r"k \(or None\) must be an integer >= 1, found 0"),
    "k float": ({"k": 10.0}, r"k \(or None\) must be an integer >= 1, found 10\.0 \(float\)"),
    "k boolean": ({"k": True}, r"k \(or None\) must be an integer >= 1, found True"),
    "threshold text": ({"relevance_threshold": "4"}, r"relevance_threshold must be a finite number, found '4'"),
    "threshold NaN": ({"relevance_threshold": nan}, r"relevance_threshold must be a finite number, found nan"),
    "gain unknown": ({"gain": "log"}, r"gain must be 'linear', 'exponential' or a dict .*found 'log'"),
    "gain lacks a rating": (
        {"gain": {5: 1}, "parts": []},
        r"gain: the table has no gain for the rating 4\.0; it has gains for 5\.0",
    ),
    "gain negative": ({"gain": {5: -1}}, r"gain\[5\.0\] is negative: -1\.0"),
    "gain empty": ({"gain": {}}, r"gain: the table is empty"),
    "gain of text": ({"gain": {"5": 1}}, r"gain: a rating must be a finite number, found '5'"),
    "discount": (
        {"discount": "log"},
        r"discount must be one of 'log2\(rank\+1\)', 'max\(log2\(rank\),1\)', found 'log'",
    ),
    "denominator": (
        {"ap_denominator": "k"},
        r"ap_denominator must be one of 'relevant', 'min\(relevant,k\)', found 'k'",
    ),
    "ties": ({"ties": "random"}, r"ties must be one of 'trec', 'order', 'expected', found 'random'"),
    "missing users": ({"missing_users": None}, r"missing_users must be one of 'zero', 'drop', found None"),
    "human from": ({"human_from": "users"}, r"human_from must be one of 'ratings', 'pool', found 'users'"),
    "systems text": ({"systems": "A"}, r"systems must be a list of names or None, found 'A'"),
    "systems empty": ({"systems": []}, r"systems is empty: there is nothing to rank"),
    "systems unknown": ({"systems": ["A", "Z"]}, r"systems names 'Z', which has no rows in runs; there are A, B"),
    "systems twice": ({"systems": ["A", "A"]}, r"systems names 'A' twice"),
    "n_resamples": ({"n_resamples": -1}, r"n_resamples must be an integer >= 0, found -1"),
    "confidence": ({"confidence_level": 95}, r"confidence_level must be a float between 0 and 1, found 95"),
    "seed": ({"seed": "x"}, r"seed must be an integer >= 0"),
    "per_user": ({"per_user": "yes"}, r"per_user must be True or False, found 'yes'"),
    "parts unknown": ({"parts": ["bound"]}, r"parts: each must be one of 'positive', .*found 'bound'"),
    "parts number": ({"parts": 3}, r"parts must be a list of 'positive', .*found 3"),
    "hole grades": ({"hole_grades": []}, r"hole_grades must be a list of grades, found \[\]"),
    "hole grade negative": ({"hole_grades": [-1, 5]}, r"hole_grades: grades are >= 0, found -1\.0"),
    "pool depth too deep": ({"pool_depths": [200]}, r"pool_depths: 200 is deeper than k=100"),
    "pool depth zero": ({"pool_depths": [0]}, r"pool_depths: each depth must be an integer >= 1, found 0"),
    "significance": ({"significance": ["anova"]}, r"significance: each must be one of 'wilcoxon', .*found 'anova'"),
    "permutations": ({"significance": "permutation"}, r"permutation and tukey_hsd need n_resamples >= 1"),
    "correction": ({"correction": "bonferroni"}, r"correction must be one of 'holm', .*found 'bonferroni'"),
    "rbo": ({"rbo_p": 1.0}, r"rbo_p must be between 0 and 1, found 1\.0"),
}


@pytest.mark.parametrize("kind", TABLES | OPTIONS)
def test_bad_input_says_what_is_wrong(module, kind):
    change, message = (TABLES | OPTIONS)[kind]
    with pytest.raises(ValueError, match=message):
        module.compute(**{**CALL, **change})


RUN = {"user": ["1"], "item": ["x"], "score": [1.0]}
BATCHES = {
    "uneven": ([RUN], ["A", "B"], r"predictions has 1 entries and references 2"),
    "no list": (RUN, ["A"], r"predictions must be a list with one entry per system, found \{'user'"),
    "no name": ([RUN], [None], r"references\[0\] must be the name of a system, found None"),
    "no dict": ([[1]], ["A"], r"predictions\[0\] \(system 'A'\) must be a dict with the columns user, item and score"),
    "missing key": ([without(RUN, "item")], ["A"], r"predictions\[0\] \(system 'A'\) lacks the column\(s\) item"),
    "extra key": ([{**RUN, "rank": [1]}], ["A"], r"predictions\[0\] \(system 'A'\): unknown column\(s\) rank"),
    "empty run": (
        [RUN, {n: [] for n in RUN}],
        ["A", "B"],
        r"predictions\[1\] \(system 'B'\) is empty: the run has no list",
    ),
    "score NaN": (
        [{**RUN, "score": [nan]}],
        ["A"],
        r"predictions\[0\] \(system 'A'\): the score of user '1', item 'x' is missing or NaN",
    ),
    "uneven run": (
        [{**RUN, "score": [1.0, 2.0]}],
        ["A"],
        r"predictions\[0\] \(system 'A'\)'s columns differ in length",
    ),
    "float id": ([{**RUN, "item": [1.0]}], ["A"], r"predictions\[0\] \(system 'A'\) row 0: item is the float 1\.0"),
}


@pytest.mark.parametrize("kind", BATCHES)
def test_bad_batches_say_what_is_wrong(module, kind):
    predictions, references, message = BATCHES[kind]
    with pytest.raises(ValueError, match=message):
        module.compute(predictions=predictions, references=references, human_qrels=HUMAN)
    with pytest.raises(ValueError, match=message):
        module.add_batch(predictions=predictions, references=references)
    assert len(module) == 0


def test_systems_given_twice_nothing_given_and_both_given(module):
    with pytest.raises(ValueError, match="references names system 'A' twice"):
        module.compute(predictions=[RUN, RUN], references=["A", "A"], human_qrels=HUMAN)
    with pytest.raises(ValueError, match="there is nothing to score: pass runs, or predictions and references"):
        module.compute(human_qrels=HUMAN)
    with pytest.raises(ValueError, match="there is no system to score"):
        module.compute(predictions=[], references=[], human_qrels=HUMAN)
    with pytest.raises(ValueError, match="give runs, or predictions and references"):
        module.compute(runs=RUNS, predictions=[RUN], references=["A"], human_qrels=HUMAN)


def test_an_unknown_keyword_is_an_error(module):
    with pytest.raises(TypeError, match="depth"):
        module.compute(**CALL, depth=3)


FILES = {
    "short run line": (
        "run.txt",
        "1 Q0 x 1 2.0 A\n1 Q0 y 2\n",
        r"run\.txt, line 2: found 4 field\(s\), expected 6: user Q0 item rank score system",
    ),
    "run score": ("run.txt", "1 Q0 x 1 high A\n", r"run\.txt, line 1: score must be a number, found 'high'"),
    "empty run file": ("run.txt", "\n", r"runs is empty"),
    "no Parquet": ("run.parquet", "PAR", r"runs: '.*run\.parquet' is no Parquet file"),
}


@pytest.mark.parametrize("kind", FILES)
def test_bad_files_say_what_is_wrong(module, tmp_path, kind):
    name, text, message = FILES[kind]
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        module.compute(**{**CALL, "runs": tmp_path / name})


def test_bad_judgement_and_popularity_files(module, tmp_path):
    (tmp_path / "qrels.txt").write_text("1 0 x\n")
    with pytest.raises(
        ValueError, match=r"qrels\.txt, line 1: found 3 field\(s\), expected 4: user iteration item rating"
    ):
        module.compute(**{**CALL, "human_qrels": tmp_path / "qrels.txt"})
    with pytest.raises(ValueError, match=r"popularity: .* must be a Parquet file; TREC has no format for popularity"):
        module.compute(**{**CALL, "popularity": tmp_path / "qrels.txt"})
    pa.parquet.write_table(pa.table({"user": ["1"]}), tmp_path / "part.parquet")
    with pytest.raises(
        ValueError, match=r"runs: '.*part\.parquet' lacks the column\(s\) system, item, score; it has user"
    ):
        module.compute(**{**CALL, "runs": tmp_path / "part.parquet"})


def test_scores_may_be_infinite_and_ratings_negative(module):
    runs = {**RUNS, "score": [float("-inf"), float("inf"), 0.0]}
    result = module.compute(**{**CALL, "runs": runs, "human_qrels": {**HUMAN, "rating": [5.0, -1.0]}})
    assert result["per_system"]["ap_human"] == [0.5, 1.0]
    assert result["counts"]["n_human_not_judged"] == 1


def test_judgements_that_agree_are_merged_and_counted(module):
    human = {"user": np.array(["1", "1", "1"]), "item": ["x", "x", "q"], "rating": [5.0, 5.0, 4.0]}
    result = module.compute(**{**CALL, "human_qrels": human})
    assert result["counts"]["n_human_repeated"] == 1
    assert result["per_system"]["ap_human"] == module.compute(**CALL)["per_system"]["ap_human"]
