"""The paper's worked example (Tables 12 and 13), through the `evaluate` modules and through the whole pipeline.

Table 12 shows two of cooking's objects; Table 13 counts four. The two that it does not show are ``x1`` and ``x2`` here.
"""

import json

import pytest
from gistbench.runners.engines.lexical.reading import items
from gistbench.runners.score import load_metric

NBA = "NBA Basketball Highlights"
COOKING = "Italian Cooking Recipes"
OBJECTS = [
    ("vid_12", "#NBA #LeBron “LeBron’s game-winning dunk vs Celtics”", "e+"),
    ("vid_34", "#Basketball “Top 10 plays of the week”", "i+"),
    ("vid_56", "#NBAPlayoffs “Conference finals recap”", "i+"),
    ("vid_78", "#NBA #GameDay “Buzzer beater compilation 2024”", "e+"),
    ("vid_91", "#ItalianFood “How to make carbonara at home”", "i+"),
    ("vid_23", "#Cooking “Knife skills tutorial for beginners”", "i-"),
    ("x1", "#ItalianFood “Sunday ragù”", "i+"),
    ("x2", "#Cooking “Pizza dough, step by step”", "i-"),
]
CITED = {NBA: ["vid_12", "vid_34", "vid_56", "vid_78"], COOKING: ["vid_91", "vid_23", "x1", "x2"]}
COUNTS = {  # Table 13: Imp+, Exp+, Imp-, Exp-
    NBA: {"implicit_positive": 2, "explicit_positive": 2, "implicit_negative": 0, "explicit_negative": 0},
    COOKING: {"implicit_positive": 2, "explicit_positive": 0, "implicit_negative": 2, "explicit_negative": 0},
}
TYPES = {"e+": "explicit_positive", "i+": "implicit_positive", "i-": "implicit_negative"}
ANSWER = json.dumps([{"interest": name, "item_ids": ids} for name, ids in CITED.items()])


def assert_table_13(columns):
    for row, name in enumerate(columns["interest"]):
        assert {kind: columns[f"n_{kind}"][row] for kind in COUNTS[name]} == COUNTS[name]
    verdicts = dict(zip(columns["interest"], columns["verified"], strict=True))
    assert verdicts == {NBA: True, COOKING: False}
    reasons = dict(zip(columns["interest"], columns["failure_reasons"], strict=True))
    assert reasons == {NBA: [], COOKING: ["insufficient_explicit_positive", "insufficient_implicit_positive"]}


def test_through_the_modules():
    history = {
        "user_id": ["u"] * len(OBJECTS),
        "object_id": [object_id for object_id, _, _ in OBJECTS],
        "interaction_type": [TYPES[kind] for _, _, kind in OBJECTS],
    }
    records = [
        {"interest": n, "category_id": None, "item_ids": ids, "relevant_item_ids": ids} for n, ids in CITED.items()
    ]
    ig = load_metric("ig").compute(predictions=[records], references=["u"], history=history, oracle={"u": [NBA]})
    assert_table_13(ig["per_interest"])
    assert (ig["ig_precision"], ig["ig_recall"], ig["ig_f1"]) == (0.5, 1.0, pytest.approx(2 / 3))
    picks = {NBA: ["vid_12", "vid_56", "d7", "vid_78"], COOKING: CITED[COOKING]}
    records = [
        {
            "interest": name,
            "category_id": None,
            "verified": ig["per_interest"]["verified"][row],
            "backing_item_ids": ids,
            "selected_item_ids": picks[name],
        }
        for row, (name, ids) in enumerate(CITED.items())
    ]
    f1 = dict(zip(["u"], ig["per_user"]["ig_f1"], strict=True))
    specificity = load_metric("is").compute(predictions=[records], references=["u"], ig_f1=f1)
    assert specificity["is"] == 3 / 4  # not computed for the interest that is not verified
    assert specificity["hm"] == pytest.approx(2 * (2 / 3) * (3 / 4) / (2 / 3 + 3 / 4))


def test_through_the_pipeline(scripted, run_suite, overlap_judge, write_engagements, tmp_path):
    """The judge keeps all cited items, and of NBA's four finds three among fifty."""
    fillers = [(f"d{n}", f"Filler clip {n}", "i+") for n in range(60)]
    data = write_engagements(tmp_path / "data.csv", u=OBJECTS, other=fillers)

    def retrieve(request):
        backing = set(CITED[request.about.interest])
        mine = [i for i, object_id in enumerate(request.about.shown) if object_id in backing]
        wrong = next(i for i, object_id in enumerate(request.about.shown) if object_id not in backing)
        assert len(mine) == 4
        assert len(request.about.shown) == 50
        picks = [*mine[:3], wrong] if request.about.interest == NBA else mine
        return ", ".join(f"item_{i}" for i in picks)

    def keep_all(request):
        return ", ".join(f"item_{i}" for i in range(len(items(request.messages[-1].content))))

    judge = overlap_judge(ground=keep_all, shortlist=lambda _: "NONE", retrieve=retrieve)
    suite = run_suite(
        dataset=str(data),
        users=("u",),
        taxonomy="none",
        candidates=(scripted("candidate", lambda _: ANSWER),),
        judge=scripted("judge", judge),
    )
    (run,) = suite.runs
    table = run.read("interests").to_pydict()
    assert_table_13(table)
    assert table["n_backing"] == [4, 4]
    assert dict(zip(table["interest"], table["specificity"], strict=True)) == {NBA: 3 / 4, COOKING: 1.0}
    assert table["n_over_selected"] == [0, 0]
    (scores,) = run.read("scores").to_pylist()
    assert scores["is"] == 3 / 4
    assert (scores["ig_precision"], scores["ig_recall"]) == (0.5, 1.0)
    assert scores["hm"] == pytest.approx(12 / 17)  # of 2/3 and 3/4
    assert run.manifest["phases"]["score"]["policy"]["ig"]["signals"] == [
        "explicit_positive",
        "implicit_positive",
        "implicit_negative",
    ]
