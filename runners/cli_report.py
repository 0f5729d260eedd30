"""The commands that show scored runs: ``report``, ``compare``, ``inspect`` and ``gate``. No model is called."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from ..hf_datasets.errors import ConfigError, StoreError
from .cli_options import option
from .cli_tables import empty_table, print_whole, show_sheet

if TYPE_CHECKING:
    import pandas as pd

    from .comparison import Comparison
    from .report import Run, Runs

__all__ = ["compare", "gate", "inspect", "report", "show_comparison"]

out = Console()
FORMATS = ("table", "csv", "markdown", "json")
WRITTEN = "The whole report"

RunPaths = Annotated[
    list[Path],
    typer.Argument(help="suite folders or run folders, or hf://datasets/OWNER/NAME/FOLDER", show_default=False),
]
CommonOracle = Annotated[
    bool,
    typer.Option("--common-oracle", help="score runs whose oracles differ once more, against the union of these"),
]
Seed = Annotated[int, typer.Option("--seed", help="of samples and the bootstrap")]
Resamples = Annotated[int, typer.Option("--resamples", min=0, help="of the bootstrap intervals")]


def report(
    runs: RunPaths,
    format: Annotated[str, typer.Option("--format", "-f", help="table, csv, markdown or json")] = "table",
    cost: Annotated[bool, typer.Option("--cost", help="what each stage cost instead: calls, tokens, hours")] = False,
    folder: Annotated[
        Path | None, option("write every table and figure, and an HTML page, into this folder", WRITTEN, "--out")
    ] = None,
    only: Annotated[
        list[str] | None, option("an analysis, such as table_3 or figure_10; may be repeated", WRITTEN, "--only")
    ] = None,
    survey: Annotated[
        Path | None, option("csv of user_id, category_id: what users report of themselves", WRITTEN, "--survey")
    ] = None,
    external: Annotated[
        Path | None, option("csv of model and scores from elsewhere, such as elo", WRITTEN, "--external")
    ] = None,
    annotations: Annotated[
        Path | None, option("csv of task, annotator, label, item: people's labels", WRITTEN, "--annotations")
    ] = None,
    compare_data: Annotated[
        tuple[str, str] | None,
        option("two data sets whose engagements are compared, the synthetic one first", WRITTEN, "--compare-data"),
    ] = None,
    taxonomy_source: Annotated[
        Path | None, option("a local copy of the official taxonomy, for names", WRITTEN, "--taxonomy-source")
    ] = None,
    user: Annotated[str | None, option("whose evidence is shown", WRITTEN, "--user")] = None,
    common_oracle: CommonOracle = False,
    seed: Seed = 0,
    resamples: Resamples = 1000,
) -> None:
    """Compare scored runs, of one suite or of several; with --out, write everything that can be told about them.

    Examples:

        gistbench report runs/demo

        gistbench report runs/demo runs/ml --format csv > comparison.csv

        gistbench report runs/demo --cost

        gistbench report runs/demo --out report

        gistbench report runs/demo runs/ml --out report --only table_3 --only figure_3
    """
    from .report.hub import local_folder
    from .suitefolder import run_folders

    if format not in FORMATS:
        raise ConfigError(f"There is no format {format!r}. There are: {', '.join(FORMATS)}.")
    given = {
        "survey": survey, "external": external, "annotations": annotations, "compared_data": compare_data,
        "taxonomy_source": taxonomy_source, "user": user,
    }  # fmt: skip
    if folder is not None:
        options = {name: value for name, value in given.items() if value is not None}
        _write_report(runs, folder, only, common_oracle, {**options, "seed": seed, "n_resamples": resamples})
        return
    if only or common_oracle or any(value is not None for value in given.values()):
        raise ConfigError("What the whole report holds is chosen together with --out FOLDER.")
    folders = [found for path in runs for found in run_folders(local_folder(path))]
    if not folders:
        named = ", ".join(map(str, runs))
        raise StoreError(f"{named}: no candidate has been asked to the end. Run `gistbench run` again.")
    if cost:
        from .cost import show_cost

        show_cost(folders, out, format)
        return
    from .comparison import Comparison

    comparison = Comparison.of_runs(folders)
    if format == "table":
        show_comparison(comparison)
    else:
        typer.echo(getattr(comparison, format)(), nl=format == "json")


def compare(
    a: Annotated[Path, typer.Argument(help="a suite or run folder", show_default=False)],
    b: Annotated[Path, typer.Argument(help="another one", show_default=False)],
    seed: Seed = 0,
    resamples: Resamples = 1000,
    format: Annotated[str, typer.Option("--format", "-f", help="table, csv, markdown or json")] = "table",
) -> None:
    """Compare two runs user by user, and say which differences are more than chance.

    Suites are compared candidate by candidate. Where oracles differ, both sides are scored once more against the
    union; what else differs, such as prompts, is listed.

    Examples:

        gistbench compare runs/demo/lexical--hashtag@1 runs/demo/lexical--phrase@1

        gistbench compare runs/before runs/after
    """
    import pandas as pd

    from .report import Runs
    from .report.load import share_oracle
    from .report.pairs import compare_runs, differences_of

    if format not in FORMATS:
        raise ConfigError(f"There is no format {format!r}. There are: {', '.join(FORMATS)}.")
    first, second = Runs.open([a]), Runs.open([b])
    pairs = _matched(*share_oracle(first, second))
    frames = [compare_runs(one, other, n_resamples=resamples, seed=seed) for one, other in pairs]
    if format == "table":
        for (one, other), frame in zip(pairs, frames, strict=True):
            title = f"{one.model} (first) and {other.model} (second) on {one.dataset}"
            _show_frame(frame, title)
        _show_differences(differences_of(_matched(first, second)))
        out.print(
            "Differences are first minus second, in points, over common users; in brackets 95 % intervals. p: Wilcoxon "
            "signed-rank, Holm over the metrics.",
            soft_wrap=True,
            highlight=False,
        )
        return
    named = [
        frame.assign(dataset=one.dataset, model_a=one.model, model_b=other.model)
        for (one, other), frame in zip(pairs, frames, strict=True)
    ]
    _echo(pd.concat(named, ignore_index=True), format)


def inspect(
    run: Annotated[Path, typer.Argument(help="a run folder, or a suite folder of one run", show_default=False)],
    user: Annotated[str, typer.Option("--user", help="whose records are shown", show_default=False)],
    interest: Annotated[
        str | None, typer.Option("--interest", help="only interests that hold this text", show_default=False)
    ] = None,
    format: Annotated[str, typer.Option("--format", "-f", help="table or json")] = "table",
) -> None:
    """Show all that a run holds about one user: interests, evidence, verdicts, and the test of each interest.

    Examples:

        gistbench inspect runs/demo/lexical--hashtag@1 --user u01

        gistbench inspect runs/demo/lexical--hashtag@1 --user u01 --interest chess
    """
    from .report import Runs
    from .report.evidence import inspect_user

    if format not in ("table", "json"):
        raise ConfigError(f"There is no format {format!r}. There are: table, json.")
    opened = Runs.open([run])
    if len(opened.all) > 1:
        paths = ", ".join(str(one.path) for one in opened.all)
        raise ConfigError(f"{run} holds several runs. Name one of them: {paths}.")
    (one,) = opened.all
    tables = inspect_user(one, user, opened.groups[0])
    tests = _tests(one, user)
    if interest is not None:
        for name in ("evidence", "verdicts"):
            held = tables[name]["interest"].str.contains(interest, case=False, regex=False)
            tables[name] = tables[name].loc[held].reset_index(drop=True)
        tests = [test for test in tests if interest.casefold() in test["interest"].casefold()]
        if not len(tables["verdicts"]) and not len(tables["evidence"]):
            raise ConfigError(f"{one.model} names no interest of {user} that holds {interest!r}.")
    if format == "json":
        import json

        from .report.export import plain

        records = {name: plain(frame.astype(object).where(frame.notna(), None).to_dict("records"))
                   for name, frame in tables.items()}  # fmt: skip
        records["tests"] = tests
        typer.echo(json.dumps(records, indent=2, ensure_ascii=False))
        return
    titles = {
        "scores": f"{user} on {one.dataset}, as {one.model} sees them; judged by {one.judge}",
        "verdicts": "Interests and verdicts",
        "evidence": "Cited items",
        "categories": "What the oracle holds of the user",
    }
    for name, title in titles.items():
        if len(tables[name]):
            _show_frame(tables[name], title)
        else:
            out.print(f"{escape(title)}: none.", highlight=False)
        if name == "evidence" and tests:
            _show_tests(tests, whole=interest is not None)


def gate(
    base: Annotated[Path, typer.Argument(help="the suite or run folder to hold on to", show_default=False)],
    new: Annotated[Path, typer.Argument(help="the one to decide about", show_default=False)],
    metric: Annotated[
        list[str] | None, typer.Option("--metric", help="that is checked; may be repeated (default: ig_f1 and is)")
    ] = None,
    tolerance: Annotated[float, typer.Option("--tolerance", help="a drop up to this passes, as a fraction")] = 0.02,
    alpha: Annotated[float, typer.Option("--alpha", help="level of significance, over all checks")] = 0.05,
    statistic: Annotated[str, typer.Option("--statistic", help="median or mean, whose drop counts")] = "median",
    format: Annotated[str, typer.Option("--format", "-f", help="table or json")] = "table",
) -> None:
    """Fail where scores dropped: by more than a tolerance, and by more than chance. For continuous integration.

    Prompts and other settings may differ, and are listed. Where oracles differ, both sides are scored once more against
    the union. Exit status: 0 passed, 4 dropped; 1 or 2 where nothing could be decided.

    Examples:

        gistbench gate runs/main runs/branch

        gistbench gate runs/main runs/branch --metric ig_f1 --tolerance 0.01
    """
    from .report import Runs
    from .report.pairs import gate as decide

    if format not in ("table", "json"):
        raise ConfigError(f"There is no format {format!r}. There are: table, json.")
    if not 0 < alpha < 1:
        raise ConfigError(f"--alpha {alpha:g}: give a level between 0 and 1, such as 0.05.")
    if not tolerance >= 0:
        raise ConfigError(f"--tolerance {tolerance:g}: give a fraction, 0 or more, such as 0.02.")
    if statistic not in ("median", "mean"):
        raise ConfigError(f"--statistic {statistic}: there are median, mean.")
    first, second = Runs.open([base]), Runs.open([new])
    given = {"metrics": tuple(metric)} if metric else {}
    try:
        found = decide(first, second, tolerance=tolerance, significance_level=alpha, statistic=statistic, **given)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    if format == "json":
        import json

        from .report.export import plain

        checks = found.checks.astype(object).where(found.checks.notna(), None).to_dict("records")
        said = {"passed": found.passed, "reasons": found.reasons, "policy": found.policy, "checks": checks,
                "differences": found.differences.to_dict("records")}  # fmt: skip
        typer.echo(json.dumps(plain(said), indent=2, ensure_ascii=False))
    else:
        _show_frame(found.checks, "Base (first) and new (second)")
        _show_differences(found.differences)
        verdict = "[bold green]passed[/bold green]" if found.passed else "[bold red]dropped[/bold red]"
        out.print(f"Gate: {verdict}", highlight=False)
        for reason in found.reasons:
            out.print(escape(reason), soft_wrap=True, highlight=False)
    raise typer.Exit(found.exit_status)


def show_comparison(comparison: "Comparison") -> None:
    """Print the table whole: wider than the terminal rather than cut."""
    Console(width=max(out.width, comparison.min_width)).print(comparison.table())
    for note in comparison.notes:
        out.print(f"Note: {escape(note)}", soft_wrap=True, highlight=False)


def _write_report(
    runs: Iterable[Path], folder: Path, only: list[str] | None, common_oracle: bool, options: dict[str, Any]
) -> None:
    from .report.analysis import Options
    from .report.build import build_report, require_libraries

    require_libraries()
    found = build_report(runs, only, Options(**options), common_oracle=common_oracle)
    page = found.write(folder)
    n_done = sum(not one.missing for one in found.analyses)
    out.print(
        f"{n_done} analyses, {len(found.tables)} tables and {len(found.drawings)} figures. Read "
        f"[bold]{escape(str(page))}[/bold]",
        soft_wrap=True,
        highlight=False,
    )
    if missing := [one for one in found.analyses if one.missing]:
        out.print(f"Not in it: {len(missing)} analyses, which need more; the page says what.", highlight=False)


def _matched(first: "Runs", second: "Runs") -> "list[tuple[Run, Run]]":
    """Return the runs to compare: one of each side, or those of the same candidate and data."""
    if len(first.all) == len(second.all) == 1:
        return [(first.all[0], second.all[0])]
    others = {(run.dataset, run.model): run for run in second.all}
    pairs = [(run, others[key]) for run in first.all if (key := (run.dataset, run.model)) in others]
    if not pairs:
        raise StoreError(
            "The two hold no run of the same candidate on the same data. Name one run folder on each side."
        )
    return pairs


def _tests(run: "Run", user: str) -> "list[dict[str, Any]]":
    """Return each test set: its items, which of them back the interest, and which the judge picked."""
    seen = run.table("evidence", ["user_id", "object_id", "object_text"]).to_pandas()
    texts = dict(zip(seen["object_id"], seen["object_text"], strict=True))
    tests = []
    for found in run.table("retrievals").to_pylist():
        if found["user_id"] != user:
            continue
        backing, picked = set(found["backing_item_ids"] or ()), set(found["selected_item_ids"] or ())
        items = [
            {"object_id": item, "content": texts.get(item), "is_backing": item in backing, "is_picked": item in picked}
            for item in found["shown_item_ids"] or ()
        ]
        tests.append({"interest": found["interest"], "status": found["status"], "items": items})
    return tests


def _show_tests(tests: "list[dict[str, Any]]", whole: bool) -> None:
    """Print test sets: all their items, or only what backs the interest or was picked."""
    table = empty_table("Tests of specificity: what the judge was shown, and picked")
    for heading in ("Interest", "Object", "Content", "Its own", "Picked"):
        table.add_column(heading, overflow="fold", max_width=60)
    for test in tests:
        items = [item for item in test["items"] if whole or item["is_backing"] or item["is_picked"]]
        for item in items:
            flags = ["yes" if item[name] else "no" for name in ("is_backing", "is_picked")]
            content = " ".join((item["content"] or "").split())
            table.add_row(escape(test["interest"]), escape(item["object_id"]), escape(content), *flags)
        left_out = len(test["items"]) - len(items)
        if left_out or not items:
            said = f"{left_out} more, not picked" if items or left_out else f"no test: {test['status']}"
            table.add_row(escape(test["interest"]), "", f"[dim]{escape(said.replace('_', ' '))}[/dim]", "", "")
    print_whole(out, table)


def _show_frame(frame: "pd.DataFrame", title: str) -> None:
    from .report.export import sheet

    show_sheet(out, sheet(frame, max_rows=10_000), title)


def _show_differences(differences: "pd.DataFrame") -> None:
    """Print what two sides were asked or scored by differently; what several candidates share, once."""
    if len(differences):
        _show_frame(differences[["what", "in_a", "in_b"]].drop_duplicates(), "What differs besides the answers")


def _echo(frame: "pd.DataFrame", format: str) -> None:
    from .report.export import markdown, plain, sheet, to_csv

    if format == "csv":
        typer.echo(to_csv(frame), nl=False)
    elif format == "markdown":
        typer.echo(markdown(sheet(frame, max_rows=10_000)), nl=False)
    else:
        import json

        records = frame.astype(object).where(frame.notna(), None).to_dict("records")
        typer.echo(json.dumps(plain(records), indent=2, ensure_ascii=False))
