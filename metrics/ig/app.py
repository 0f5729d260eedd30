"""The demo of this Space: paste or upload interests and a history, see which interests the history backs."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import evaluate

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

Table = list[list[Any]]
"""The header row first."""
METRICS = ("ig_precision", "ig_recall", "ig_f1")


def _json(text: str, name: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{name}: line {error.lineno} is no valid JSON: {error.msg}.") from None
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be a JSON object by user id.")
    return value


def score(records: str, history: str, oracle: str = "", thresholds: str = "base") -> dict[str, Table]:
    """Score pasted text: the tables of the page, by their labels."""
    by_user = _json(records, "records")
    rows = list(csv.DictReader(io.StringIO(history.strip())))
    table = {name: [row.get(name) for row in rows] for name in (rows[0] if rows else ())}
    ig = evaluate.load(str(Path(__file__).with_name("ig.py")))
    result = ig.compute(
        predictions=list(by_user.values()),
        references=list(by_user),
        history=table,
        oracle=_json(oracle, "oracle") if oracle.strip() else None,
        thresholds=thresholds,
    )
    modes = result["failure_modes"]
    return {
        "Summary": _summary(result),
        "Users": _table(result["per_user"]),
        "Interests": _table(result["per_interest"]),
        "Why interests are not verified": [
            ["reason", "interests", "share of the unverified"],
            *([reason, n, _round(modes["shares"][reason])] for reason, n in modes["counts"].items()),
        ],
    }


def _summary(result: dict[str, Any]) -> Table:
    rows: Table = [["metric", "median", "95 % interval", "mean", "95 % interval of the mean"]]
    for name in METRICS:
        if name in result:
            intervals = [_interval(result[key]) for key in (f"ci_{name}", f"ci_mean_{name}")]
            rows.append([name, _round(result[name]), intervals[0], _round(result[f"mean_{name}"]), intervals[1]])
    return rows


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _interval(ends: list[float] | None) -> str:
    return f"{ends[0]:.3f} to {ends[1]:.3f}" if ends else "needs two users"


def _table(columns: dict[str, list[Any]]) -> Table:
    rows = zip(*columns.values(), strict=True)
    return [list(columns), *([", ".join(v) if isinstance(v, list) else v for v in row] for row in rows)]


def bars(users: Table) -> dict[str, list[Any]]:
    """Return the table of users as columns of a bar plot: one bar for each user and metric."""
    header, *rows = users
    found = [(row[0], name, row[header.index(name)]) for row in rows for name in METRICS if name in header]
    columns = zip(*(one for one in found if one[2] is not None), strict=True)
    return dict(zip(("user", "metric", "value"), map(list, columns), strict=False))


def read(path: str) -> str:
    """Return the text of an uploaded file."""
    return Path(path).read_text(encoding="utf-8-sig")


def build() -> Any:
    """Build the page."""
    import gradio as gr
    import pandas as pd

    def show(*inputs: str) -> list[Any]:
        try:
            tables = score(*inputs)
        except ValueError as error:
            raise gr.Error(str(error)) from None
        frames = [pd.DataFrame(table[1:], columns=table[0]) for table in tables.values()]
        return [pd.DataFrame(bars(tables["Users"]), columns=["user", "metric", "value"]), *frames]

    with gr.Blocks(title="Interest Groundedness (IG)") as page:
        gr.Markdown(
            "# Interest Groundedness (IG)\nWhich of the interests that a model predicts does the user's history back? "
            "The card of this Space explains the formula."
        )
        with gr.Row():
            with gr.Column():
                records = gr.Code(RECORDS, language="json", label="Records: {user id: [record, ...]}")
                file = gr.UploadButton("Upload records (JSON)", file_types=[".json"])
                file.upload(read, file, records)
            with gr.Column():
                history = gr.Textbox(HISTORY, lines=8, label="History (CSV)")
                table = gr.UploadButton("Upload a history (CSV)", file_types=[".csv"])
                table.upload(read, table, history)
                oracle = gr.Textbox(ORACLE, label="Oracle (JSON, optional)")
                thresholds = gr.Radio(["lenient", "base", "strict"], value="base", label="Thresholds")
        button = gr.Button("Score", variant="primary")
        plot = gr.BarPlot(
            x="user", y="value", color="metric", y_lim=[0, 1], title="Scores by user", x_title="user", y_title="score"
        )
        outputs = [
            gr.Dataframe(label=label) for label in ("Summary", "Users", "Interests", "Why interests are not verified")
        ]
        inputs = [records, history, oracle, thresholds]
        button.click(show, inputs, [plot, *outputs])
        page.load(show, inputs, [plot, *outputs])
    return page


if __name__ == "__main__":
    build().launch()
