"""The paper's printed numbers beside measured ones: which of our models and data sets are which of its rows.

Prompts are ours, so numbers do not compare to the digit. Where the page cuts a table there is nothing to show.
"""

from functools import cache

import pandas as pd

from ...hf_datasets.results_published import load_results_published

__all__ = ["paper_dataset", "paper_models", "published", "records"]

PAPER = "gistbench"
_DATASETS = {
    "synthetic": "Synthetic",
    "kuairec": "KuaiRec",
    "mind": "MIND",
    "amazon_music": "Amazon Music",
    "goodreads": "Goodreads",
}
_ALIASES = {
    "R1-Distill-70B": "DeepSeek-R1-Distill-70B",
    "Qwen2-7B-Instruct": "Qwen2-7B",
    "gpt-5": "GPT-5",
    "claude-4.6": "Claude 4.6",
}
"""Labels of one model that differ from table to table, or from its name on the Hub."""


@cache
def records() -> pd.DataFrame:
    """Return all printed numbers of the paper: ``table``, ``row``, ``column``, ``value``, ``printed``, ``unit``."""
    frame: pd.DataFrame = load_results_published().to_pandas()
    frame = frame.loc[frame["paper"] == PAPER].reset_index(drop=True)
    return frame.assign(row=frame["row"].replace(_ALIASES))


@cache
def paper_models() -> dict[str, str]:
    """Return the paper's label of each model name, in lower case, with and without the owner (Table 23)."""
    rows = records()
    hub = rows.loc[rows["table"] == "Table 23"].dropna(subset="printed")
    labels = {
        name.casefold(): row
        for name, row in zip(hub["printed"], hub["row"], strict=True)
        if "/" in name
    }  # fmt: skip
    tables = ("Table 3", "Table 4", "Table 11", "Table 27")
    known = rows.loc[rows["table"].isin(tables) & (rows["row"] != "caption"), "row"].unique()
    labels |= {label.casefold(): label for label in known}
    labels |= {name.casefold(): label for name, label in _ALIASES.items()}
    return labels


def published(table: str, model: str, column: str) -> float:
    """Return the printed number of a model, fractions for per cent; NaN where there is none.

    >>> published("Table 3", "openai/gpt-oss-120b", "Synthetic / IG F1")
    0.678
    """
    name = model.split("@", 1)[0].casefold()
    labels = paper_models()
    label = labels.get(name) or labels.get(name.rpartition("/")[2])
    return value(table, label, column) if label else float("nan")


def value(table: str, row: str, column: str) -> float:
    """Return a printed number by the page's own labels, fractions for per cent; NaN where there is none."""
    found = _values().get((table, row, column))
    return float("nan") if found is None else found


def paper_dataset(name: str) -> str:
    """Return how the paper calls a data set; the name itself where it has none of it."""
    return _DATASETS.get(name, name)


@cache
def _values() -> dict[tuple[str, str, str], float]:
    rows = records().dropna(subset="value").drop_duplicates(["table", "row", "column"])
    scaled = rows["value"].where(rows["unit"] != "percent", (rows["value"] / 100).round(6))
    return dict(zip(zip(rows["table"], rows["row"], rows["column"], strict=True), scaled.astype(float), strict=True))
