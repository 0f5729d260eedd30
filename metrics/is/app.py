"""The demo of this Space: paste or upload what a judge selected, see how specific the interests are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import evaluate
from page import Bars, Input, Source, Table, as_table, bars_by_user, build as build_page  # type: ignore[import-not-found]
from page import read_by_user, read_json, summary

RECORDS = """{
  "7": [
    {"interest": "NBA Basketball Highlights", "category_id": 3, "verified": true,
     "backing_item_ids": ["vid_12", "vid_34", "vid_56", "vid_78"],
     "selected_item_ids": ["vid_12", "vid_402", "vid_56", "vid_78"]},
    {"interest": "Italian Cooking Recipes", "category_id": 5, "verified": false,
     "backing_item_ids": ["vid_91", "vid_23"], "selected_item_ids": null}
  ],
  "8": [
    {"interest": "Street Photography", "category_id": 9, "verified": true,
     "backing_item_ids": ["vid_61", "vid_62"], "selected_item_ids": ["vid_61", "vid_62"]}
  ]
}"""
IG_F1 = '{"7": 0.5, "8": 1.0}'
EXAMPLE = (RECORDS, IG_F1)
METRICS = ("is", "ig_f1", "hm")
KEYS = ("interest", "category_id", "verified", "backing_item_ids", "selected_item_ids")
TABLES = ("Summary", "Users", "Interests")


def score(records: Source, ig_f1: Source = "", is_scope: str = "category") -> dict[str, Table]:
    """Score what was pasted or uploaded: the tables of the page, by their labels."""
    by_user = read_by_user(records, "records", KEYS)
    specificity = evaluate.load(str(Path(__file__).with_name("is.py")))
    result = specificity.compute(
        predictions=list(by_user.values()),
        references=list(by_user),
        ig_f1=read_json(ig_f1, "ig_f1") if isinstance(ig_f1, Path) or ig_f1.strip() else None,
        is_scope=is_scope,
    )
    tables = (summary(result, METRICS), as_table(result["per_user"]), as_table(result["per_interest"]))
    return dict(zip(TABLES, tables, strict=True))


def bars(tables: dict[str, Table]) -> Bars:
    """Return the columns of the plot."""
    return bars_by_user(tables["Users"], METRICS)


def build() -> Any:
    """Build the page."""
    return build_page(
        "Interest Specificity (IS)",
        "Can a judge tell the user's items for an interest from other items?",
        [
            Input("Records (JSON): {user id: [record, ...]}", RECORDS, (".json", ".parquet")),
            Input("ig_f1 by user (JSON, optional): adds hm", IG_F1, (".json",)),
        ],
        lambda gr: [gr.Radio(["category", "verified"], value="category", label="Scope")],
        score,
        TABLES,
        bars,
        ("user", "metric", "value"),
    )


if __name__ == "__main__":
    build().launch()
