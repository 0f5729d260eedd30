"""The demo of this Space: paste or upload interests and a history, see which interests the history backs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import evaluate
from page import Bars, Input, Source, Table, as_table, bars_by_user, build as build_page  # type: ignore[import-not-found]
from page import read_by_user, read_json, read_table, summary

RECORDS = """{
  "7": [
    {"interest": "NBA Basketball Highlights", "category_id": 3,
     "item_ids": ["vid_12", "vid_34", "vid_56", "vid_78"], "relevant_item_ids": null},
    {"interest": "Italian Cooking Recipes", "category_id": 5,
     "item_ids": ["vid_91", "vid_23"], "relevant_item_ids": null}
  ],
  "8": [
    {"interest": "Street Photography", "category_id": 9,
     "item_ids": ["vid_12", "vid_61", "vid_62", "vid_99"], "relevant_item_ids": ["vid_61", "vid_62"]}
  ]
}"""
HISTORY = """user_id,object_id,interaction_type
7,vid_12,explicit_positive
7,vid_34,implicit_positive
7,vid_56,implicit_positive
7,vid_78,explicit_positive
7,vid_91,implicit_positive
7,vid_23,implicit_negative
8,vid_12,implicit_negative
8,vid_61,explicit_positive
8,vid_62,explicit_positive
"""
ORACLE = '{"7": [3, 9], "8": [9]}'
EXAMPLE = (RECORDS, HISTORY, ORACLE)
METRICS = ("ig_precision", "ig_recall", "ig_f1")
KEYS = ("interest", "category_id", "item_ids", "relevant_item_ids")
TABLES = ("Summary", "Users", "Interests", "Why interests are not verified")


def score(records: Source, history: Source, oracle: Source = "", thresholds: str = "base") -> dict[str, Table]:
    """Score what was pasted or uploaded: the tables of the page, by their labels."""
    by_user = read_by_user(records, "records", KEYS)
    ig = evaluate.load(str(Path(__file__).with_name("ig.py")))
    result = ig.compute(
        predictions=list(by_user.values()),
        references=list(by_user),
        history=read_table(history, "history"),
        oracle=read_json(oracle, "oracle") if isinstance(oracle, Path) or oracle.strip() else None,
        thresholds=thresholds,
    )
    modes = result["failure_modes"]
    reasons = {"reason": list(modes["counts"]), "interests": list(modes["counts"].values())}
    reasons["share of the unverified"] = list(modes["shares"].values())
    tables = (summary(result, METRICS), *map(as_table, (result["per_user"], result["per_interest"], reasons)))
    return dict(zip(TABLES, tables, strict=True))


def bars(tables: dict[str, Table]) -> Bars:
    """Return the columns of the plot."""
    return bars_by_user(tables["Users"], METRICS)


def build() -> Any:
    """Build the page."""
    return build_page(
        "Interest Groundedness (IG)",
        "Which of the interests that a model predicts does the user's history back?",
        [
            Input("Records (JSON): {user id: [record, ...]}", RECORDS, (".json", ".parquet")),
            Input("History (CSV): user_id,object_id,interaction_type", HISTORY, (".csv", ".parquet")),
            Input("Oracle (JSON, optional): {user id: [category id, ...]}", ORACLE, (".json",)),
        ],
        lambda gr: [gr.Radio(["lenient", "base", "strict"], value="base", label="Thresholds")],
        score,
        TABLES,
        bars,
        ("user", "metric", "value"),
    )


if __name__ == "__main__":
    build().launch()
