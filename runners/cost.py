"""What runs cost, from their manifests alone: the columns of paper A's Tables 24 to 27.

Manifests sum over resumes, so the table does too. No model, store or data set is read.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .prices import Prices
from .runfolder import RunFolder

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["COLUMNS", "cost_table", "is_paid", "n_gpus_of", "show_cost"]

COLUMNS = (
    "run", "model", "stage", "n_prompts", "n_attempts", "tokens_in", "tokens_cached", "tokens_out", "tokens_reasoning",
    "seconds", "gpu_hours", "usd", "n_interests", "note",
)  # fmt: skip
_COUNTS = {
    "n_prompts": "n_requests",
    "n_attempts": "n_attempts",
    "tokens_in": "n_prompt_tokens",
    "tokens_cached": "n_cached_tokens",
    "tokens_out": "n_output_tokens",
    "tokens_reasoning": "n_reasoning_tokens",
}


def cost_table(run_folders: Iterable[RunFolder], *, prices: Prices | None = None) -> "pd.DataFrame":
    """Return what each stage of each run cost, and the totals.

    Args:
        run_folders: at least extracted.
        prices: of served models; by default those of the package.

    Returns:
        `COLUMNS`; a row per run and stage, then one with ``stage`` "total" per run, then one with ``run`` "total".
        ``tokens_out`` includes reasoning. ``seconds`` is wall time, of all sessions together; where a manifest has it
        for a whole phase only, it is shared out over the stages by their requests' time, and ``note`` says so.
        ``gpu_hours`` is ``seconds`` times GPUs, missing without any; ``usd`` is missing where no price is known.
        ``n_interests`` is what the candidate named: Table 27's first column.

    Raises:
        StoreError: a folder has no manifest.
    """
    import pandas as pd

    prices = prices or Prices.load()
    rows: list[dict[str, Any]] = []
    for run in run_folders:
        manifest = run.manifest
        own = [
            row
            for phase in ("extract", "judge")
            if phase in manifest["phases"]
            for row in _phase(run.path.name, manifest["phases"][phase], prices)
        ]
        n_interests = _n_interests(run, manifest)
        total = _sum(own, run.path.name)
        total["n_interests"] = n_interests
        rows += [*own, total]
    if rows:
        totals = [row for row in rows if row["stage"] == "total"]
        rows.append(_sum(totals, "total") | {"n_interests": _added(totals, "n_interests")})
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return table.astype(dict.fromkeys((*_COUNTS, "n_interests"), "Int64") | dict.fromkeys(_FLOATS, "float64"))


def show_cost(run_folders: Iterable[RunFolder], console: Console, form: str) -> None:
    """Print a cost table: as a table, csv, markdown or json."""
    table = cost_table(run_folders)
    if form == "csv":
        console.file.write(table.to_csv(index=False, lineterminator="\n"))
    elif form == "json":
        console.file.write(table.to_json(orient="records", indent=2, force_ascii=False) + "\n")
    else:
        rows_of_values = table.itertuples(index=False)
        cells = [[_cell(name, value) for name, value in zip(COLUMNS, row, strict=True)] for row in rows_of_values]
        if form == "markdown":
            rows = [COLUMNS, ["---"] * len(COLUMNS), *cells]
            console.file.write("".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |\n" for row in rows))
            return
        shown = Table(title="What each stage cost, all sessions together", box=SIMPLE_HEAD)
        for name in COLUMNS:
            numeric = name not in ("run", "model", "stage", "note")
            justify: Literal["right", "left"] = "right" if numeric else "left"
            shown.add_column(name.replace("_", " "), justify=justify, no_wrap=name != "note")
        for row in cells:
            shown.add_row(*map(escape, row), style="bold" if row[COLUMNS.index("stage")] == "total" else None)
        Console(width=max(console.width, 200), file=console.file).print(shown)


def _cell(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    import pandas as pd

    if pd.isna(value):
        return "-"
    return f"{value:,.2f}" if name in _FLOATS else f"{value:,}"


_FLOATS = ("seconds", "gpu_hours", "usd")


def _phase(run: str, phase: Mapping[str, Any], prices: Prices) -> list[dict[str, Any]]:
    model, accounts = phase["model"], phase["stages"]
    n_gpus = n_gpus_of(model)
    price = prices.find(model["name"]) if is_paid(model) else None
    asked = sum(account["request_seconds"] for account in accounts.values())
    n_requests = sum(account["n_requests"] for account in accounts.values())
    rows = []
    for stage, account in accounts.items():
        row: dict[str, Any] = {"run": run, "model": model["name"], "stage": stage, "note": ""}
        row |= {name: account[field] for name, field in _COUNTS.items()}
        seconds = account.get("wall_seconds")
        if seconds is None:
            share = account["request_seconds"] / asked if asked else account["n_requests"] / max(n_requests, 1)
            seconds = phase["wall_seconds"] * share
            row["note"] = "seconds shared out" if len(accounts) > 1 else ""
        row["seconds"] = round(seconds, 3)
        row["gpu_hours"] = seconds * n_gpus / 3600 if n_gpus else None
        row["usd"] = price and price.money(row["tokens_in"], row["tokens_cached"], row["tokens_out"])
        rows.append(row)
    return rows


def is_paid(model: Mapping[str, Any]) -> bool:
    """Return whether a model costs money by the token, from what its engine described."""
    return bool(model.get("engine") == "openai")


def n_gpus_of(model: Mapping[str, Any]) -> float:
    """Return the GPUs that a model keeps, from what its engine described; 0 where it needs none of ours.

    Ray can give an actor a part of one.
    """
    return float(model.get("n_gpus") or 0)


def _n_interests(run: RunFolder, manifest: Mapping[str, Any]) -> int | None:
    """Return how many interests were named, from the size of the table, not its content."""
    if "extract" not in manifest["phases"] or not (run.path / "extractions.parquet").exists():
        return None
    import pyarrow.parquet as pq

    return int(pq.read_metadata(run.path / "extractions.parquet").num_rows)


def _sum(rows: list[dict[str, Any]], run: str) -> dict[str, Any]:
    summed = {name: _added(rows, name) for name in (*_COUNTS, *_FLOATS)}
    return {"run": run, "model": "", "stage": "total", "note": "", **summed}


def _added(rows: Iterable[Mapping[str, Any]], name: str) -> Any:
    """Return the sum of what is known; None where nothing is."""
    known = [row[name] for row in rows if row.get(name) is not None]
    return sum(known) if known else None
