"""The demo of this Space: paste what a judge selected, see how specific the interests are."""

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
  ]
}"""
IG_F1 = '{"7": 0.5}'
EXAMPLE = (RECORDS, IG_F1)

Table = list[list[Any]]


def _json(text: str, name: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{name}: line {error.lineno} is no valid JSON: {error.msg}.") from None
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be a JSON object by user id.")
    return value


def score(records: str, ig_f1: str = "", is_scope: str = "category") -> tuple[Table, Table, Table]:
    """Score pasted text: the summary, the users and the interests as tables, each with its header row first."""
    by_user = _json(records, "records")
    specificity = evaluate.load(str(Path(__file__).with_name("is.py")))
    result = specificity.compute(
        predictions=list(by_user.values()),
        references=list(by_user),
        ig_f1=_json(ig_f1, "ig_f1") if ig_f1.strip() else None,
        is_scope=is_scope,
    )
    names = [name for name in ("is", "hm") if name in result]
    summary: Table = [["metric", "median", "mean"], *([name, result[name], result[f"mean_{name}"]] for name in names)]
    return summary, _table(result["per_user"]), _table(result["per_interest"])


def _table(columns: dict[str, list[Any]]) -> Table:
    return [list(columns), *map(list, zip(*columns.values(), strict=True))]


def build() -> Any:
    """Build the page."""
    import gradio as gr

    def show(*inputs: str) -> list[Any]:
        try:
            tables = score(*inputs)
        except ValueError as error:
            raise gr.Error(str(error)) from None
        return [gr.Dataframe(headers=table[0], value=table[1:]) for table in tables]

    with gr.Blocks(title="Interest Specificity") as page:
        gr.Markdown(
            "# Interest Specificity (IS)\nCan a judge tell the user's items for an interest from other items? "
            "The card of this Space explains the formula."
        )
        with gr.Row():
            records = gr.Code(RECORDS, language="json", label="Records: {user id: [record, ...]}")
            with gr.Column():
                ig_f1 = gr.Textbox(IG_F1, label="ig_f1 by user (JSON, optional): adds hm")
                is_scope = gr.Radio(["category", "verified"], value="category", label="Scope")
        button = gr.Button("Score", variant="primary")
        outputs = [gr.Dataframe(label=label) for label in ("Summary", "Users", "Interests")]
        button.click(show, [records, ig_f1, is_scope], outputs)
    return page


if __name__ == "__main__":
    build().launch()
