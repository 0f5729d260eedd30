"""The demo of this Space: paste or upload what a judge selected, see how specific the interests are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import evaluate

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

Table = list[list[Any]]
"""The header row first."""
METRICS = ("is", "ig_f1", "hm")


def _json(text: str, name: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{name}: line {error.lineno} is no valid JSON: {error.msg}.") from None
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be a JSON object by user id.")
    return value


def score(records: str, ig_f1: str = "", is_scope: str = "category") -> dict[str, Table]:
    """Score pasted text: the tables of the page, by their labels."""
    by_user = _json(records, "records")
    specificity = evaluate.load(str(Path(__file__).with_name("is.py")))
    result = specificity.compute(
        predictions=list(by_user.values()),
        references=list(by_user),
        ig_f1=_json(ig_f1, "ig_f1") if ig_f1.strip() else None,
        is_scope=is_scope,
    )
    return {
        "Summary": _summary(result),
        "Users": _table(result["per_user"]),
        "Interests": _table(result["per_interest"]),
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

    with gr.Blocks(title="Interest Specificity (IS)") as page:
        gr.Markdown(
            "# Interest Specificity (IS)\nCan a judge tell the user's items for an interest from other items? "
            "The card of this Space explains the formula."
        )
        with gr.Row():
            with gr.Column():
                records = gr.Code(RECORDS, language="json", label="Records: {user id: [record, ...]}")
                file = gr.UploadButton("Upload records (JSON)", file_types=[".json"])
                file.upload(read, file, records)
            with gr.Column():
                ig_f1 = gr.Textbox(IG_F1, label="ig_f1 by user (JSON, optional): adds hm")
                is_scope = gr.Radio(["category", "verified"], value="category", label="Scope")
        button = gr.Button("Score", variant="primary")
        plot = gr.BarPlot(
            x="user", y="value", color="metric", y_lim=[0, 1], title="Scores by user", x_title="user", y_title="score"
        )
        outputs = [gr.Dataframe(label=label) for label in ("Summary", "Users", "Interests")]
        inputs = [records, ig_f1, is_scope]
        button.click(show, inputs, [plot, *outputs])
        page.load(show, inputs, [plot, *outputs])
    return page


if __name__ == "__main__":
    build().launch()
