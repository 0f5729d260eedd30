"""The demo of this Space: upload or paste runs and judgements, see scores, agreement and rankings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import evaluate
from page import Bars, Input, Source, Table, as_table, build as build_page, read_csv  # type: ignore[import-not-found]

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
TREC = (".txt", ".run", ".qrels", ".gz")
CONDITIONS = ("human", "matched", "synthetic", "augmented")
TABLES = ("Systems", "Rankings", "Agreement")


def _table(source: Source, name: str) -> Any:
    """Read pasted or uploaded CSV with a header; files in TREC's formats and Parquet are left to the module."""
    if isinstance(source, Path) and source.suffix != ".csv":
        return source
    table = read_csv(source, name, COLUMNS[name])
    for column in COLUMNS[name]:
        if column not in ("score", "rating", "count"):
            continue
        for line, value in enumerate(table[column], 2):
            try:
                table[column][line - 2] = float(value) if (value or "").strip() else None
            except ValueError:
                raise ValueError(f"{name}, line {line}: {column} must be a number, found {value!r}.") from None
    return {column: table[column] for column in COLUMNS[name]}


def score(
    runs: Source,
    human_qrels: Source,
    llm_qrels: Source = "",
    popularity: Source = "",
    k: int = 100,
    threshold: float = 4,
) -> dict[str, Table]:
    """Score what was pasted or uploaded: the tables of the page, by their labels."""
    sources = {"runs": runs, "human_qrels": human_qrels, "llm_qrels": llm_qrels, "popularity": popularity}
    given = {name: one for name, one in sources.items() if isinstance(one, Path) or one.strip()}
    module = evaluate.load(str(Path(__file__).with_name("qrels_expansion.py")))
    result = module.compute(
        **{name: _table(source, name) for name, source in given.items()},
        k=int(k),
        relevance_threshold=float(threshold),
    )
    systems = {name: values for name, values in result["per_system"].items() if any(v is not None for v in values)}
    rankings: Table = [["condition", "metric", "tau with human", "phi with popularity", "delta tau"]]
    for condition in CONDITIONS:
        for metric in ("ap", "ndcg"):
            tau = ((result["rankings"] or {}).get(condition) or {}).get(metric, {}).get("tau")
            coupling = ((result["popularity"] or {}).get(condition) or {}).get(metric, {})
            if tau is not None or coupling:
                rankings.append([condition, metric, tau, coupling.get("phi"), coupling.get("delta_tau")])
    judged = [(name, value) for name, value in (result["agreement"] or {}).items() if not isinstance(value, dict)]
    agreement: Table = [["measure", "value"], *map(list, judged)]
    return dict(zip(TABLES, (as_table(systems), rankings, agreement), strict=True))


def bars(tables: dict[str, Table]) -> Bars:
    """Return NDCG by system and condition, one row per bar."""
    header, *systems = tables["Systems"]
    rows = [
        (row[0], condition, row[header.index(f"ndcg_{condition}")])
        for row in systems
        for condition in CONDITIONS
        if f"ndcg_{condition}" in header
    ]
    return {name: [row[at] for row in rows] for at, name in enumerate(("system", "condition", "ndcg"))}


def build() -> Any:
    """Build the page."""
    return build_page(
        "Qrels expansion",
        "How do recommenders rank under people's judgements, and under judgements that a language model adds to them? "
        "Tables are CSV with a header, or files in TREC's formats or Parquet.",
        [
            Input("Runs: system,user,item,score", RUNS, (".csv", ".parquet", *TREC)),
            Input("People's judgements: user,item,rating", HUMAN, (".csv", ".parquet", *TREC)),
            Input("A model's judgements (optional)", LLM, (".csv", ".parquet", *TREC)),
            Input("Popularity (optional): item,count", POPULARITY, (".csv", ".parquet")),
        ],
        lambda gr: [gr.Number(100, precision=0, label="k"), gr.Number(4, label="Lowest relevant rating")],
        score,
        TABLES,
        bars,
        ("system", "condition", "ndcg"),
    )


if __name__ == "__main__":
    build().launch()
