"""The demo of this Space: upload or paste runs and judgements, see scores, agreement and rankings."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import evaluate

RUNS = """system,user,item,score
Popularity,ana,heat,9
Popularity,ana,alien,8
Popularity,ana,up,7
Popularity,bo,heat,9
Popularity,bo,alien,8
Popularity,bo,up,7
EASE,ana,alien,0.9
EASE,ana,solaris,0.8
EASE,ana,up,0.1
EASE,bo,up,0.7
EASE,bo,paddington,0.6
EASE,bo,heat,0.2
Random,ana,paddington,3
Random,ana,heat,2
Random,ana,solaris,1
Random,bo,solaris,3
Random,bo,paddington,2
Random,bo,alien,1
"""
HUMAN = """user,item,rating
ana,heat,4
ana,alien,5
bo,up,4.5
bo,heat,2
"""
LLM = """user,item,rating
ana,heat,3
ana,alien,5
ana,up,1
ana,solaris,5
ana,paddington,0
bo,heat,2
bo,alien,1
bo,up,5
bo,paddington,5
bo,solaris,
"""
POPULARITY = """item,count
heat,900
alien,800
up,700
paddington,60
solaris,40
"""
EXAMPLE = (RUNS, HUMAN, LLM, POPULARITY)
COLUMNS = {
    "runs": ("system", "user", "item", "score"),
    "human_qrels": ("user", "item", "rating"),
    "llm_qrels": ("user", "item", "rating"),
    "popularity": ("item", "count"),
}

Table = list[list[Any]]


def _table(text: str, name: str) -> dict[str, list[Any]]:
    """Read pasted CSV with a header; numbers may be missing."""
    rows = list(csv.DictReader(io.StringIO(text.strip())))
    found = list(rows[0]) if rows else []
    if missing := [column for column in COLUMNS[name] if column not in found]:
        raise ValueError(f"{name}: the first line must name the columns {', '.join(COLUMNS[name])}; {missing} missing.")
    table: dict[str, list[Any]] = {}
    for column in COLUMNS[name]:
        values: list[Any] = [row[column] for row in rows]
        if column in ("score", "rating", "count"):
            for line, value in enumerate(values, 2):
                try:
                    values[line - 2] = float(value) if (value or "").strip() else None
                except ValueError:
                    raise ValueError(f"{name}, line {line}: {column} must be a number, found {value!r}.") from None
        table[column] = values
    return table


def score(
    runs: str, human_qrels: str, llm_qrels: str = "", popularity: str = "", k: int = 100, threshold: float = 4
) -> tuple[Table, Table, Table]:
    """Score pasted CSV: systems, rankings and agreement as tables, each with its header row first."""
    module = evaluate.load(str(Path(__file__).with_name("qrels_expansion.py")))
    result = module.compute(
        runs=_table(runs, "runs"),
        human_qrels=_table(human_qrels, "human_qrels"),
        llm_qrels=_table(llm_qrels, "llm_qrels") if llm_qrels.strip() else None,
        popularity=_table(popularity, "popularity") if popularity.strip() else None,
        k=int(k),
        relevance_threshold=float(threshold),
    )
    columns = {name: values for name, values in result["per_system"].items() if any(v is not None for v in values)}
    systems: Table = [list(columns), *map(list, zip(*columns.values(), strict=True))]
    rankings: Table = [["condition", "metric", "tau with human", "phi with popularity", "delta tau"]]
    for condition in ("human", "matched", "synthetic", "augmented"):
        for metric in ("ap", "ndcg"):
            tau = ((result["rankings"] or {}).get(condition) or {}).get(metric, {}).get("tau")
            coupling = ((result["popularity"] or {}).get(condition) or {}).get(metric, {})
            if tau is not None or coupling:
                rankings.append([condition, metric, tau, coupling.get("phi"), coupling.get("delta_tau")])
    judged = result["agreement"] or {}
    agreement: Table = [["measure", "value"], *([n, v] for n, v in judged.items() if not isinstance(v, dict))]
    return systems, rankings, agreement


def plot(systems: Table) -> dict[str, list[Any]]:
    """Return NDCG by system and condition, one row per bar."""
    header = systems[0]
    rows = [
        (row[0], condition, row[header.index(f"ndcg_{condition}")])
        for row in systems[1:]
        for condition in ("human", "matched", "synthetic", "augmented")
        if f"ndcg_{condition}" in header
    ]
    return {name: [row[at] for row in rows] for at, name in enumerate(("system", "condition", "ndcg"))}


def build() -> Any:
    """Build the page."""
    import gradio as gr
    import pandas as pd

    def show(*inputs: Any) -> list[Any]:
        try:
            tables = score(*inputs)
        except ValueError as error:
            raise gr.Error(str(error)) from None
        bars = gr.BarPlot(pd.DataFrame(plot(tables[0])), x="system", y="ndcg", color="condition", y_lim=[0, 1])
        return [bars, *(gr.Dataframe(headers=table[0], value=table[1:]) for table in tables)]

    def read(path: str | None) -> str:
        return Path(path).read_text(encoding="utf-8") if path else ""

    with gr.Blocks(title="Qrels expansion") as page:
        gr.Markdown(
            "# Qrels expansion\nHow do recommenders rank under people's judgements, and under judgements that a "
            "language model adds to them? Tables are CSV with a header. The card of this Space explains the conditions."
        )
        labels = {
            "runs": "Runs: system,user,item,score",
            "human_qrels": "People's judgements: user,item,rating",
            "llm_qrels": "A model's judgements (optional)",
            "popularity": "Popularity: item,count (optional)",
        }
        boxes = []
        with gr.Row():
            for (name, label), text in zip(labels.items(), EXAMPLE, strict=True):
                with gr.Column():
                    box = gr.Textbox(text, lines=10, max_lines=10, label=label)
                    upload = gr.File(label=f"{name}.csv", file_types=[".csv"], type="filepath", height=80)
                    upload.upload(read, upload, box)
                    boxes.append(box)
        with gr.Row():
            k = gr.Number(100, precision=0, label="k")
            threshold = gr.Number(4, label="Lowest relevant rating")
        button = gr.Button("Score", variant="primary")
        bars = gr.BarPlot(x="system", y="ndcg", color="condition", y_lim=[0, 1], label="NDCG")
        outputs = [gr.Dataframe(label=label) for label in ("Systems", "Rankings", "Agreement")]
        button.click(show, [*boxes, k, threshold], [bars, *outputs])
    return page


if __name__ == "__main__":
    build().launch()
