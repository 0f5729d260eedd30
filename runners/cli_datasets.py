"""The commands ``gistbench datasets ...``: what there is, made, measured, compared and described."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..hf_datasets.errors import ConfigError, DataError

if TYPE_CHECKING:
    import pyarrow as pa

    from ..hf_datasets.fidelity import Fidelity
    from ..hf_datasets.statistics import DatasetStatistics

__all__ = ["datasets_app", "read_options"]

datasets_app = typer.Typer(help="The data sets.", no_args_is_help=True)

out = Console()
LIST_WIDTH = 150

Name = Annotated[str, typer.Argument(help="a data set of `gistbench datasets list`", show_default=False)]
NameOrFile = Annotated[
    str,
    typer.Argument(help="a data set of `gistbench datasets list`, or the path of a file or folder", show_default=False),
]
Source = Annotated[
    Path | None, typer.Option("--source", help="the files that the data set is made from", show_default=False)
]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", help="NAME=VALUE, a parameter of the data set; may be repeated", show_default=False),
]
MinEngagements = Annotated[
    int, typer.Option("--min-engagements", min=1, help="which histories count as sufficient: 20 for music in the paper")
]


def read_options(pairs: Sequence[str] | None, *, flag: str = "--option") -> dict[str, Any]:
    """Read NAME=VALUE pairs; values are read as TOML where they are TOML, else as text.

    Raises:
        ConfigError: a pair is none.
    """
    import tomllib

    options: dict[str, Any] = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ConfigError(f"{flag} {pair!r}: expected NAME=VALUE.")
        try:
            options[name] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            options[name] = value
    return options


@datasets_app.command("list")
def list_all() -> None:
    """List the data sets that have a name: signals, licence, what they are built from, and their options.

    Examples:

        gistbench datasets list
    """
    from ..hf_datasets.card import SIGNS
    from ..hf_datasets.registry import CONFIG_NAMES, config_record

    table = Table(show_lines=True)
    for heading in ("Name", "What it is", "Signals", "Built from", "Options (default)", "Licence"):
        table.add_column(heading, no_wrap=heading in ("Name", "Signals", "Options (default)"))
    for record in map(config_record, CONFIG_NAMES):
        options = "\n".join(f"{name} ({value})" for name, value in record.parameters.items())
        cells = (
            f"{record.title}. {record.summary}",
            " ".join(SIGNS[signal] for signal in record.signals),
            record.needs_source or "comes with the package",
            options,
            record.licence,
        )
        table.add_row(record.name, *map(escape, cells))
    # Wider than a narrow terminal rather than cut: these are names to be typed.
    Console(width=max(out.width, LIST_WIDTH)).print(table)
    out.print(
        "A file of your own works too: csv, tsv, json, jsonl or parquet with the columns user_id, object_id, "
        "object_text, interaction_type and, as an option, interaction_time."
    )


@datasets_app.command()
def build(
    name: Name,
    folder: Annotated[Path, typer.Option("--out", help="the folder to write", show_default=False)],
    source: Source = None,
    on_error: Annotated[
        str | None,
        typer.Option(
            "--on-error", help="raise or skip: what to do with a broken line (default: raise)", show_default=False
        ),
    ] = None,
    option: Options = None,
) -> None:
    """Build a data set into a folder that `datasets.load_dataset(FOLDER)` reads: Parquet files and a README.

    The folder keeps the data sets that it has. The same command again changes nothing.

    Examples:

        gistbench datasets build movielens --source ml-32m.zip --out built/movielens

        gistbench datasets build planted --option n_users=50 --out built/planted

        gistbench datasets build yelp --source yelp.zip --on-error skip --out built/yelp
    """
    from ..hf_datasets.folder import build_folder

    parameters = read_options(option) | ({"on_error": on_error} if on_error else {})
    built = build_folder(name, folder, source=source, parameters=parameters)
    entry = built.entry
    left_out = "".join(f"\nLeft out: {n:,} rows ({what})." for what, n in entry.left_out.items())
    out.print(
        f"{'Written' if built.changed else 'Unchanged'}: [bold]{escape(str(folder))}[/bold], {entry.n_rows:,} rows of "
        f"{escape(name)}.{escape(left_out)}\n"
        f'Load it: datasets.load_dataset("{escape(str(folder))}", "{escape(name)}")',
        soft_wrap=True,
    )


@datasets_app.command()
def stats(
    name: NameOrFile,
    source: Source = None,
    option: Options = None,
    min_engagements: MinEngagements = 100,
    format: Annotated[str, typer.Option("--format", "-f", help="table or json")] = "table",
) -> None:
    """Measure a data set or a file: users, objects, signals, histories, texts, repeats.

    Tokens are words, single Chinese or Japanese characters, and single other signs.

    Examples:

        gistbench datasets stats demo

        gistbench datasets stats engagements.csv --format json
    """
    from ..hf_datasets.statistics import measure_engagements

    _check_format(format, ("table", "json"))
    statistics = measure_engagements(_load(name, source, option), min_engagements=min_engagements)
    if format == "json":
        typer.echo(json.dumps(statistics.to_dict(), indent=2))
    else:
        _print_statistics(name, statistics)


@datasets_app.command()
def compare(
    a: NameOrFile,
    b: NameOrFile,
    source_a: Annotated[Path | None, typer.Option("--source-a", help="files of A", show_default=False)] = None,
    source_b: Annotated[Path | None, typer.Option("--source-b", help="files of B", show_default=False)] = None,
    option_a: Annotated[list[str] | None, typer.Option("--option-a", help="NAME=VALUE", show_default=False)] = None,
    option_b: Annotated[list[str] | None, typer.Option("--option-b", help="NAME=VALUE", show_default=False)] = None,
    equal_variance: Annotated[
        bool, typer.Option("--equal-variance", help="Student's t-test instead of Welch's")
    ] = False,
    users: Annotated[
        str, typer.Option("--users", help="all (0 where they have none of a type), or with_type (leave them out)")
    ] = "all",
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="a folder for fidelity.csv and two figures (Plotly JSON)", show_default=False),
    ] = None,
    format: Annotated[str, typer.Option("--format", "-f", help="table, csv or json")] = "table",
) -> None:
    """Compare how often users of two data sets engage in each way: the paper's Table 10 and Figure 2.

    Examples:

        gistbench datasets compare planted demo --out runs/fidelity

        gistbench datasets compare synthetic.parquet movielens --source-b ml-latest-small --users with_type
    """
    from typing import cast

    from ..hf_datasets.fidelity import Users, compare_engagements

    _check_format(format, ("table", "csv", "json"))
    fidelity = compare_engagements(
        _load(a, source_a, option_a, "--option-a"),
        _load(b, source_b, option_b, "--option-b"),
        name_a=a,
        name_b=b,
        equal_variance=equal_variance,
        users=cast(Users, users),
    )
    if folder is not None:
        _write_fidelity(fidelity, folder)
    if format == "table":
        _print_fidelity(fidelity)
    else:
        typer.echo(getattr(fidelity, format)(), nl=False)


@datasets_app.command()
def card(
    check: Annotated[
        bool, typer.Option("--check", help="only say whether the file holds this card; fail if it does not")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="the file to write or check", show_default=False)
    ] = None,
) -> None:
    """Render the card of a repository that holds the data sets of the package; print it, or write or check a file.

    Examples:

        gistbench datasets card --output hf_datasets/CARD.md

        gistbench datasets card --check
    """
    from ..hf_datasets.card import CARD_PATH, render_card
    from ..hf_datasets.folder import embedded_entries

    rendered = render_card(embedded_entries())
    if not check:
        if output is None:
            typer.echo(rendered, nl=False)
        else:
            output.write_text(rendered, encoding="utf-8")
            out.print(f"Written: {escape(str(output))}")
        return
    path = output or CARD_PATH
    committed = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    if committed != rendered.splitlines():
        import difflib

        changes = list(difflib.unified_diff(committed, rendered.splitlines(), str(path), "rendered", n=0, lineterm=""))
        shown = "\n".join(changes[:20]) + (f"\n... {len(changes) - 20} more lines" if len(changes) > 20 else "")
        raise DataError(
            f"{path} is not the card of the data sets as they are now. Write it again: gistbench datasets card "
            f"--output {path}\n{shown}"
        )
    out.print(f"{escape(str(path))} is up to date.")


def _load(name: str, source: Path | None, option: list[str] | None, flag: str = "--option") -> "pa.Table":
    from ..hf_datasets import load_engagements

    return load_engagements(name, source=source, **read_options(option, flag=flag))


def _check_format(format: str, forms: tuple[str, ...]) -> None:
    if format not in forms:
        raise ConfigError(f"There is no format {format!r}. There are: {', '.join(forms)}.")


def _print_statistics(name: str, s: "DatasetStatistics") -> None:
    table = Table("What", "Count", title=escape(name))
    table.columns[1].justify = "right"
    table.add_row("users", f"{s.n_users:,}")
    table.add_row("objects", f"{s.n_objects:,}")
    table.add_row("engagements", f"{s.n_rows:,}")
    for kind, n in s.counts.items():
        table.add_row(f"  {kind}", f"{n:,} ({100 * n / s.n_rows:.1f} %)")
    table.add_row(f"users with at least {s.min_engagements}", f"{100 * s.share_of_users_with_min_engagements:.1f} %")
    table.add_row("repeats (user, object, type)", f"{s.n_duplicates:,}")
    table.add_row("objects with several texts", f"{s.n_objects_with_conflicting_text:,}")
    table.add_row("engagements without time", f"{s.n_missing_times:,}")
    out.print(table)
    spread = Table("Distribution", "Min", "25 %", "Median", "75 %", "Max", "Mean")
    for column in spread.columns[1:]:
        column.justify = "right"
    rows = [("engagements per user", s.engagements_per_user["all"])]
    rows += [(f"  {kind}", d) for kind, d in s.engagements_per_user.items() if kind != "all"]
    rows.append(("tokens per object's text", s.tokens_per_text))
    for what, distribution in rows:
        spread.add_row(what, *(f"{value:,.1f}".removesuffix(".0") for value in distribution))
    out.print(spread)
    out.print("Tokens are words, single Chinese or Japanese characters, and single other signs.")


def _print_fidelity(fidelity: "Fidelity") -> None:
    test = {"welch": "Welch's t-test", "student": "Student's t-test"}[fidelity.test]
    table = Table("Type", "Mean A", "Mean B", "A %", "B %", "t", "p")
    table.title = (
        f"Engagements per user, {test}, two-tailed. A: {escape(fidelity.name_a)}, B: {escape(fidelity.name_b)}"
    )
    for column in table.columns:
        column.no_wrap = True
    for column in table.columns[1:]:
        column.justify = "right"
    for row in fidelity.rows:
        means = ["" if mean is None else f"{mean:,.2f}" for mean in (row.mean_a, row.mean_b)]
        shares = [f"{100 * share:.1f}" for share in (row.share_a, row.share_b)]
        tested = ["" if v is None else format(v, form) for v, form in ((row.t, ".2f"), (row.p, ".2e"))]
        table.add_row(row.interaction_type, *means, *shares, *tested)
    out.print(table)
    for row in fidelity.rows:
        if row.note:
            out.print(f"{row.interaction_type}: {escape(row.note)}.")
    if fidelity.same_order is not None:
        says = "in the same order" if fidelity.same_order else "in another order"
        out.print(f"By their means, the types that both have come {says}.")


def _write_fidelity(fidelity: "Fidelity", folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "fidelity.csv").write_text(fidelity.csv(), encoding="utf-8", newline="")
    for panel in ("densities", "boxes"):
        spec = json.dumps(getattr(fidelity, panel)(), indent=1)
        (folder / f"figure_{panel}.json").write_text(spec + "\n", encoding="utf-8")
    out.print(f"Written: {escape(str(folder))}: fidelity.csv, figure_densities.json, figure_boxes.json")
