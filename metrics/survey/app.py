"""The demo of this Space: paste or upload predicted and reported categories, see how far they agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import evaluate
from page import Bars, Input, Source, Table, as_table, bars_by_user, build as build_page  # type: ignore[import-not-found]
from page import read_by_user, summary

RECORDS = """{
  "7": {"predicted": [3, 5, 9], "reported": [3, 9, 12, 20]},
  "8": {"predicted": [9, 0], "reported": [9]},
  "9": {"predicted": [], "reported": [4, 5]}
}"""
EXAMPLE = (RECORDS,)
METRICS = ("s_precision", "s_recall", "s_f1")
KEYS = ("predicted", "reported")
TABLES = ("Summary", "Users")


def score(records: Source) -> dict[str, Table]:
    """Score what was pasted or uploaded: the tables of the page, by their labels."""
    by_user: dict[str, Any] = {}
    for user, row in read_by_user(records, "records", KEYS).items():
        one = row[0] if isinstance(row, list) and len(row) == 1 else row  # a file has one row for each person
        if not isinstance(one, dict) or set(one) != set(KEYS):
            raise ValueError(f"records: user {user!r} must have the two lists predicted and reported.")
        by_user[user] = one
    survey = evaluate.load(str(Path(__file__).with_name("survey.py")))
    result = survey.compute(
        predictions=[row["predicted"] for row in by_user.values()],
        references=[row["reported"] for row in by_user.values()],
        user_ids=list(by_user),
    )
    return dict(zip(TABLES, (summary(result, METRICS), as_table(result["per_user"])), strict=True))


def bars(tables: dict[str, Table]) -> Bars:
    """Return the columns of the plot."""
    return bars_by_user(tables["Users"], METRICS)


def build() -> Any:
    """Build the page."""
    label = "Records (JSON): {user id: {predicted: [...], reported: [...]}}"
    return build_page(
        "Survey precision, recall and F1",
        "Are predicted interests those that people say they have?",
        [Input(label, RECORDS, (".json", ".parquet"))],
        lambda gr: [],
        score,
        TABLES,
        bars,
        ("user", "metric", "value"),
    )


if __name__ == "__main__":
    build().launch()
