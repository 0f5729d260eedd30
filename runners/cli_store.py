"""The commands ``gistbench store ...``: what a response store holds, whether it is whole, what of it goes elsewhere."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..hf_datasets.errors import ConfigError, StoreError

if TYPE_CHECKING:
    from .store import ResponseStore, StoredAttempt
    from .store_upkeep import StoreStatistics

__all__ = ["store_app"]

store_app = typer.Typer(help="The response store: every answer of every run.", no_args_is_help=True)

out = Console()
STORE_WIDTH = 160

Store = Annotated[Path, typer.Argument(help="a response store, or a suite folder that holds one", show_default=False)]


@store_app.command()
def stats(
    store: Store,
    format: Annotated[str, typer.Option("--format", "-f", help="table or json")] = "table",
) -> None:
    """Show what was asked, by model and stage: requests, outcomes, tokens, seconds, bytes, times.

    A request counts once, by the outcome that is served for it; tokens and seconds are of all attempts.

    Examples:

        gistbench store stats runs/demo

        gistbench store stats shared.sqlite --format json
    """
    from .store_upkeep import measure

    if format not in ("table", "json"):
        raise ConfigError(f"There is no format {format!r}. There are: table, json.")
    path = _path(store)
    with _reading(path) as opened:
        found = measure(opened)
        engines = {made_by: json.loads(text) for made_by, text in opened.engines().items() if text}
    if format == "json":
        record = {"bytes": _n_bytes(path), "by_model_and_stage": [asdict(one) for one in found], "engines": engines}
        typer.echo(json.dumps(record, indent=2, ensure_ascii=False))
    else:
        _show(path, found, len(engines))


@store_app.command()
def verify(
    store: Store,
    suites: Annotated[
        list[Path] | None,
        typer.Argument(help="suite or run folders whose requests must all be there", show_default=False),
    ] = None,
) -> None:
    """Check that a store is whole: the file, the rows, and that what the tables of suites name is there.

    Fails where something is wrong, and says what to do.

    Examples:

        gistbench store verify runs/demo

        gistbench store verify shared.sqlite runs/a runs/b
    """
    from .store_upkeep import problems

    path = _path(store)
    with _reading(path) as opened:
        found = problems(opened, suites or ())
        n_attempts = 0 if found else len(opened)
    if found:
        raise StoreError(
            f"{path} is not whole:\n"
            + "".join(f"  {one}\n" for one in found)
            + f"Nothing was changed. `gistbench store export {path} --recover --to NEW.sqlite` saves every answer that "
            "can be read; a run with --store NEW.sqlite then asks only for what is missing."
        )
    out.print(f"{escape(str(path))} is whole: {n_attempts:,} attempts.", soft_wrap=True)


@store_app.command()
def export(
    store: Store,
    to: Annotated[
        Path,
        typer.Option("--to", help="FILE.parquet, FILE.jsonl, or FILE.sqlite: a store to add to", show_default=False),
    ],
    model: Annotated[
        str | None, typer.Option("--model", help="only of NAME, or of NAME@REVISION", show_default=False)
    ] = None,
    stage: Annotated[str | None, typer.Option("--stage", help="only of this stage", show_default=False)] = None,
    status: Annotated[
        str | None, typer.Option("--status", help="only ok, truncated, invalid, refused or error", show_default=False)
    ] = None,
    recover: Annotated[
        bool, typer.Option("--recover", help="read what can be read of a damaged store, page by page")
    ] = False,
) -> None:
    """Write attempts elsewhere, in the order of their arrival: for analysis, or into another store.

    Adding to a store keeps what is there; adding the same twice adds nothing. So stores of several machines become one.

    Examples:

        gistbench store export runs/demo --to answers.parquet --stage ground

        gistbench store export node-7.sqlite --to merged.sqlite

        gistbench store export broken.sqlite --recover --to saved.sqlite
    """
    from itertools import chain

    from .requests import STATUSES
    from .store_upkeep import only, refuse_unknown, write_jsonl, write_parquet, write_store

    if status is not None and status not in STATUSES:
        raise ConfigError(f"There is no status {status!r}. There are: {', '.join(STATUSES)}.")
    path = _path(store)
    if to.exists() and to.resolve() == path.resolve():
        raise ConfigError(f"{to} is the store itself. Name another file with --to.")
    if to.suffix not in (".parquet", ".jsonl", ".sqlite"):
        raise ConfigError(f"--to {to}: there is no format {to.suffix!r}. There are: .parquet, .jsonl, .sqlite.")
    if to.exists() and to.suffix != ".sqlite":
        raise ConfigError(f"{to} is there already. Name another file with --to, or remove this one.")
    with _source(path, recover) as (chunks, engines):
        selected = only(chunks, model=model, stage=stage, status=status)
        first = next(selected, None)
        if first is None and recover and (model, stage, status) == (None, None, None):
            raise StoreError(f"Nothing can be read of {path}: it was no store, or none of its pages is whole.")
        if first is None:
            with _source(path, recover) as (everything, _):
                refuse_unknown(everything, model=model, stage=stage)
        selected = chain([first] if first else [], selected)
        if to.suffix == ".sqlite":
            n = write_store(selected, engines, to)
        else:
            n = (write_parquet if to.suffix == ".parquet" else write_jsonl)(selected, to)
    what = "attempts added to" if to.suffix == ".sqlite" else "attempts written to"
    out.print(f"{n:,} {what} [bold]{escape(str(to))}[/bold].", soft_wrap=True)


@store_app.command()
def gc(
    store: Store,
    keep: Annotated[
        list[Path] | None,
        typer.Option(
            "--keep",
            help="a suite folder whose requests stay, all others go; may be repeated. Without it: failed attempts at "
            "requests that have a readable answer go",
            show_default=False,
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="do it; without this it is only said what would be done")] = False,
) -> None:
    """Remove attempts that nothing needs any more, and make the file smaller.

    What they cost is no longer summed then. Refuses while another process has the store open.

    Examples:

        gistbench store gc runs/demo

        gistbench store gc shared.sqlite --keep runs/a --keep runs/b --yes
    """
    from .store import ResponseStore
    from .store_upkeep import count_removable, remove

    path = _path(store)
    before = _n_bytes(path)
    with ResponseStore(path, mode="alone", timeout_s=0) if yes else _reading(path) as opened:
        counts = count_removable(opened, keep)
        n, n_all = sum(counts.values()), len(opened)
        if yes and n:
            remove(opened, keep)
    table = Table("Outcome", "Attempts", title="Removed" if yes else "Would be removed")
    table.columns[1].justify = "right"
    for status, count in counts.items():
        table.add_row(status, f"{count:,}")
    out.print(table)
    if yes:
        out.print(f"{n_all - n:,} attempts are left; {before / 1e6:,.1f} MB became {_n_bytes(path) / 1e6:,.1f} MB.")
    else:
        out.print(f"{n:,} of {n_all:,} attempts. Nothing was changed: the same command with --yes removes them.")


def _path(store: Path) -> Path:
    from .store import STORE_NAME

    return store / STORE_NAME if store.is_dir() else store


@contextmanager
def _reading(path: Path) -> "Iterator[ResponseStore]":
    from .store import ResponseStore

    with ResponseStore(path, mode="read") as store:
        yield store


@contextmanager
def _source(path: Path, is_damaged: bool) -> "Iterator[tuple[Iterator[list[StoredAttempt]], dict[str, str]]]":
    """Give all attempts of a store, and the descriptions of the engines that made them."""
    if is_damaged:
        from .store_recovery import recover

        yield recover(path)
    else:
        with _reading(path) as store:
            yield store.scan(), store.engines()


def _n_bytes(path: Path) -> int:
    """Return the size of a store with its log."""
    return sum(file.stat().st_size for file in (path, path.with_name(path.name + "-wal")) if file.exists())


def _show(path: Path, found: "list[StoreStatistics]", n_engines: int) -> None:
    asked = Table("Model", "Stage", "Requests", "Attempts", "ok", "truncated", "invalid", "refused", "error")
    spent = Table("Model", "Stage", "Tokens in", "cached", "out", "reasoning", "Seconds", "Text", "First", "Last")
    for one in found:
        shares = (f"{100 * n / one.n_requests:.1f} %" if one.n_requests else "-" for n in one.outcomes.values())
        asked.add_row(escape(one.model), escape(one.stage), f"{one.n_requests:,}", f"{one.n_attempts:,}", *shares)
        tokens = (one.n_prompt_tokens, one.n_cached_tokens, one.n_output_tokens, one.n_reasoning_tokens)
        spent.add_row(
            escape(one.model),
            escape(one.stage),
            *(f"{n:,}" for n in tokens),
            f"{one.request_seconds:,.1f}",
            f"{one.text_bytes / 1e6:,.2f} MB",
            one.first_at,
            one.last_at,
        )
    for table in (asked, spent):
        for column in table.columns[2:]:
            column.justify = "right"
        for column in table.columns:
            column.no_wrap = True
        # Wider than a narrow terminal rather than cut.
        Console(width=max(out.width, STORE_WIDTH)).print(table)
    n_attempts = sum(one.n_attempts for one in found)
    per = f", {_n_bytes(path) / n_attempts:,.0f} bytes for each attempt" if n_attempts else ""
    out.print(
        f"{escape(str(path))}: {_n_bytes(path) / 1e6:,.2f} MB{per}. Answers of {n_engines} "
        f"{'engine' if n_engines == 1 else 'engines'} (--format json describes them).",
        soft_wrap=True,
    )
