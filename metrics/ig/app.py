"""The demo of this Space: paste interests and a history, see which interests the history backs."""

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
  ]
}"""
HISTORY = """user_id,object_id,interaction_type
7,vid_12,explicit_positive
7,vid_34,implicit_positive
7,vid_56,implicit_positive
7,vid_78,explicit_positive
7,vid_91,implicit_positive
7,vid_23,implicit_negative
"""
ORACLE = '{"7": [3, 9]}'
EXAMPLE = (RECORDS, HISTORY, ORACLE)

Table = list[list[Any]]


def _json(text: str, name: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{name}: line {error.lineno} is no valid JSON: {error.msg}.") from None
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be a JSON object by user id.")
    return value


def score(records: str, history: str, oracle: str = "", thresholds: str = "base") -> tuple[Table, Table, Table]:
    """Score pasted text: the summary, the users and the interests as tables, each with its header row first."""
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
    names = ("ig_precision", "ig_recall", "ig_f1")
    summary: Table = [["metric", "median", "mean"], *([name, result[name], result[f"mean_{name}"]] for name in names)]
    return summary, _table(result["per_user"]), _table(result["per_interest"])


def _table(columns: dict[str, list[Any]]) -> Table:
    rows = zip(*columns.values(), strict=True)
    return [list(columns), *([", ".join(v) if isinstance(v, list) else v for v in row] for row in rows)]


def build() -> Any:
    """Build the page."""
    import gradio as gr

    def show(*inputs: str) -> list[Any]:
        try:
            tables = score(*inputs)
        except ValueError as error:
            raise gr.Error(str(error)) from None
        return [gr.Dataframe(headers=table[0], value=table[1:]) for table in tables]

    with gr.Blocks(title="Interest Groundedness") as page:
        gr.Markdown(
            "# Interest Groundedness (IG)\nWhich of the interests that a model predicts does the user's history back? "
            "The card of this Space explains the formula."
        )
        with gr.Row():
            records = gr.Code(RECORDS, language="json", label="Records: {user id: [record, ...]}")
            with gr.Column():
                history = gr.Textbox(HISTORY, lines=8, label="History (CSV)")
                oracle = gr.Textbox(ORACLE, label="Oracle (JSON, optional)")
                thresholds = gr.Radio(["lenient", "base", "strict"], value="base", label="Thresholds")
        button = gr.Button("Score", variant="primary")
        outputs = [gr.Dataframe(label=label) for label in ("Summary", "Users", "Interests")]
        button.click(show, [records, history, oracle, thresholds], outputs)
    return page


if __name__ == "__main__":
    build().launch()
