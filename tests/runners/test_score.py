"""Scores from hand-made run folders, against values computed by hand."""

import pyarrow as pa
import pytest
from gistbench.runners.runfolder import RunFolder
from gistbench.runners.score import load_metric, score_run, verify_run
from gistbench.runners.stages.extract import EXTRACTIONS, USERS
from gistbench.runners.stages.ground import GROUNDINGS
from gistbench.runners.stages.map import MAPPINGS
from gistbench.runners.stages.retrieve import RETRIEVALS

SIGNALS = ["explicit_positive"]


def table(schema, rows):
    return pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema)


@pytest.fixture
def make_run(tmp_path):
    """Make a judged run: users as {user: scored}, interests as dicts."""

    def make(users, interests, *, taxonomy=True):
        run = RunFolder(tmp_path / "run")
        evidence = [
            {"user_id": i["user_id"], "object_id": item, "object_text": item, "interaction_type": "explicit_positive"}
            for i in interests
            for item in i.get("item_ids", [])
            if not item.startswith("unknown")
        ]
        schema = pa.schema(
            [(name, pa.string()) for name in ("user_id", "object_id", "object_text", "interaction_type")]
        )
        mapped = {i["interest"]: {"interest": i["interest"], **i.get("mapping", {})} for i in interests}
        tables = {
            "users": table(USERS, [{"user_id": user, "scored": scored} for user, scored in users.items()]),
            "extractions": table(EXTRACTIONS, interests),
            "evidence": pa.Table.from_pylist(evidence, schema),
            "groundings": table(GROUNDINGS, [{**i, "status": "ok"} | i.get("grounding", {}) for i in interests]),
            "retrievals": table(RETRIEVALS, [{**i, "status": "ok"} | i.get("retrieval", {}) for i in interests]),
        }
        if taxonomy:
            tables["mappings"] = table(MAPPINGS, [{"status": "ok", **row} for row in mapped.values()])
        judge = {"taxonomy": {"name": "open", "sha256": "f"} if taxonomy else None}
        run.write(tables, {"phases": {"extract": {}, "judge": judge}})
        return run

    return make


def interest(user, name, items, *, relevant=None, category=1, picked=None, **more):
    backing = [item for item in items if not item.startswith("unknown")]
    return {
        "user_id": user,
        "interest": name,
        "item_ids": items,
        "relevant_item_ids": backing if relevant is None else relevant,
        "backing_item_ids": backing,
        "selected_item_ids": backing if picked is None else picked,
        "mapping": {"category_id": category},
        **more,
    }


def scored(run, oracle, **options):
    settings = {"signals": SIGNALS, "thresholds": "base"}
    verified = verify_run(run, **settings)
    options = {"is_scope": "category", "n_resamples": 20, "seed": 0, **options}
    return score_run(verified, oracle=oracle, **options)


def per_user(result):
    return {row["user_id"]: row for row in result.tables["scores"].to_pylist()}


def test_two_users_by_hand(make_run):
    run = make_run(
        {"a": True, "b": True},
        [
            interest("a", "jazz", ["1", "2"], category=1),
            interest("a", "golf", ["3"], category=1),  # one explicit item does not verify
            interest("a", "chess", ["4", "5"], category=2, picked=["4", "x"]),
            interest("b", "jazz", ["6", "7"], category=1, relevant=[]),
        ],
    )
    result = scored(run, {"a": [1, 2, 3, 4], "b": [1]})
    a, b = per_user(result)["a"], per_user(result)["b"]
    # Categories: 1 has 1 of 2 verified, 2 has 1 of 1.
    assert a["ig_precision"] == pytest.approx((1 / 2 + 1) / 2)
    assert a["ig_recall"] == pytest.approx((1 / 2 + 1) / 4)
    assert a["ig_f1"] == pytest.approx(2 * 0.75 * 0.375 / (0.75 + 0.375))
    # Category 1: the mean of 1 (jazz) and 1 (golf, unverified too); category 2: 1 of 2.
    assert a["is"] == pytest.approx((1 + 1 / 2) / 2)
    assert a["hm"] == pytest.approx(2 * a["ig_f1"] * a["is"] / (a["ig_f1"] + a["is"]))
    assert [b[name] for name in ("ig_precision", "ig_recall", "ig_f1", "is", "hm")] == [0, 0, 0, 0, 0]
    assert result.summary["ig_precision"] == pytest.approx(0.375)
    assert result.summary["mean_ig_precision"] == pytest.approx(0.375)
    assert (result.summary["interests_per_user"], result.summary["verified_share"]) == (2.0, 0.5)


def test_users_who_are_not_scored_are_out_and_lower_coverage(make_run):
    run = make_run({"a": True, "b": False}, [interest("a", "jazz", ["1", "2"]), interest("b", "golf", ["3", "4"])])
    result = scored(run, {"a": [1], "b": [1]})
    assert list(per_user(result)) == ["a"]
    assert (result.summary["n_users"], result.summary["n_requested"], result.summary["coverage"]) == (1, 2, 0.5)
    assert result.verified.categories == [("a", 1)]


def test_a_user_without_interests_scores_0(make_run):
    run = make_run({"a": True, "b": True}, [interest("a", "jazz", ["1", "2"])])
    b = per_user(scored(run, {"a": [1], "b": [3]}))["b"]
    assert [b[name] for name in ("ig_precision", "ig_recall", "ig_f1", "is", "hm")] == [0, 0, 0, 0, 0]


def test_a_user_without_an_oracle_has_no_recall_and_is_left_out_of_it(make_run):
    run = make_run({"a": True, "b": True}, [interest("a", "jazz", ["1", "2"]), interest("b", "golf", ["3"])])
    result = scored(run, {"a": [1]})
    b = per_user(result)["b"]
    assert (b["ig_precision"], b["ig_recall"], b["ig_f1"], b["hm"]) == (0, None, None, None)
    assert result.summary["ig_recall"] == 1.0
    assert result.summary["ig_precision"] == 0.5


def test_failed_groundings_and_mappings_are_left_out_and_counted(make_run):
    run = make_run(
        {"a": True},
        [
            interest("a", "jazz", ["1", "2"]),
            interest("a", "golf", ["3", "4"], grounding={"status": "failed", "relevant_item_ids": None}),
            interest("a", "chess", ["5"], mapping={"category_id": None, "status": "failed"}),
            interest("a", "opera", ["6"], mapping={"category_id": 0, "status": "unmapped"}),
        ],
    )
    result = scored(run, {"a": [1]})
    assert result.summary["left_out"] == {"grounding": 1, "mapping": 1}
    assert result.tables["interests"]["interest"].to_pylist() == ["jazz", "opera"]
    # Category 0 counts in precision, never in recall.
    assert per_user(result)["a"]["ig_precision"] == 0.5
    assert per_user(result)["a"]["ig_recall"] == 1.0


def test_failed_retrievals_are_left_out_of_is_and_missing_backing_scores_0(make_run):
    run = make_run(
        {"a": True},
        [
            interest("a", "jazz", ["1", "2"]),
            interest("a", "golf", ["3", "4"], retrieval={"status": "failed", "selected_item_ids": None}),
            interest("a", "chess", ["unknown 1"], retrieval={"status": "no_backing", "selected_item_ids": None}),
        ],
    )
    result = scored(run, {"a": [1]})
    rows = {row["interest"]: row for row in result.tables["interests"].to_pylist()}
    assert [rows[name]["specificity"] for name in ("jazz", "golf", "chess")] == [1.0, None, 0.0]
    assert per_user(result)["a"]["is"] == 0.5
    assert result.summary["n_unknown_item_ids"] == 1
    assert rows["chess"]["unknown_item_ids"] == ["unknown 1"]


def test_the_scope_of_is(make_run):
    interests = [interest("a", "jazz", ["1", "2"]), interest("a", "golf", ["3"], picked=[])]
    run = make_run({"a": True}, interests)
    assert per_user(scored(run, {"a": [1]}))["a"]["is"] == 0.5
    assert per_user(scored(run, {"a": [1]}, is_scope="verified"))["a"]["is"] == 1.0


def test_without_a_taxonomy_each_interest_is_its_own_category(make_run):
    run = make_run({"a": True}, [interest("a", "jazz", ["1", "2"]), interest("a", "golf", ["3"])], taxonomy=False)
    result = scored(run, {"a": ["jazz", "opera"]})
    assert result.verified.categories == [("a", "jazz")]
    assert per_user(result)["a"]["ig_precision"] == 0.5
    assert per_user(result)["a"]["ig_recall"] == 0.5
    assert result.tables["interests"]["category_id"].to_pylist() == [None, None]


def test_nothing_at_all_keeps_the_types_of_its_columns(make_run):
    full = scored(make_run({"a": True}, [interest("a", "jazz", ["1", "2"])]), {"a": [1]}).tables
    empty = scored(make_run({"a": True}, []), {}).tables
    assert {name: table.schema for name, table in full.items()} == {name: t.schema for name, t in empty.items()}
    assert empty["scores"].num_rows == 1
    assert empty["interests"].num_rows == 0


def test_nobody_scored_is_no_score(make_run):
    summary = scored(make_run({"a": False}, []), {}).summary
    assert (summary["ig_precision"], summary["coverage"], summary["interests_per_user"]) == (None, 0.0, None)


def test_the_seed_decides_the_intervals(make_run):
    users = {str(n): True for n in range(12)}
    run = make_run(users, [interest(u, f"i{u}", [u, f"{u}b"][: 1 + int(u) % 2]) for u in users])
    first, again, other = (scored(run, {user: [1, 2] for user in users}, seed=seed).summary for seed in (0, 0, 1))
    assert first == again
    assert first["ci_mean_ig_precision"] != other["ci_mean_ig_precision"]


def test_no_metric_is_loaded_twice():
    assert load_metric("ig") is load_metric("ig")
