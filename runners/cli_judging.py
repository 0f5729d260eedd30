"""The commands of ``gistbench qrels`` that ask a judge, and what is made of the grades."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..hf_datasets.errors import ConfigError
from .cli_options import ASKING, LIMITS, MODELS, SPECIFICATION, Budget, Limit, Profiles, RetryFailed, Store, option
from .cli_session import session
from .cli_tables import show_sheet
from .parsing.taste import MAX_CHARS

if TYPE_CHECKING:
    from .qrels.judged import Part
    from .qrels.judging import Judging
    from .qrels.work import Work
    from .stages.grade import Condition

__all__ = ["COMMANDS", "Seed", "Threshold", "WorkFolder", "work_folder"]

out = Console()
err = Console(stderr=True)

# Of all commands of `gistbench qrels`.
WorkFolder = Annotated[Path, typer.Option("--work", "-w", help="the work folder of all steps", show_default=False)]
Seed = Annotated[int, typer.Option("--seed", help="of every draw")]
Threshold = Annotated[float, typer.Option("--relevance-threshold", help="the lowest rating that is relevant for AP")]

# Of those that ask, or read what was answered.
Judge = Annotated[str, option(f"the model that induces and judges{SPECIFICATION}", MODELS, "--judge", "-j")]
Name = Annotated[str | None, option("name of the judge's folder (default: the model's)", MODELS, "--name")]
Modes = Annotated[
    list[str] | None,
    option("what the judge is told: ipp, profile, ipp+profile; may be repeated (default: all)", ASKING, "--mode"),
]
Plots = Annotated[str, typer.Option("--plots", help="without, with or both: item plots", rich_help_panel=ASKING)]
PairsOption = Annotated[
    str,
    typer.Option("--pairs", help="test (rated, held out), pool (Experiments 2-4), or all", rich_help_panel=ASKING),
]
Samples = Annotated[
    int, typer.Option("--samples", help="grade each pair so often; needs a temperature", rich_help_panel=ASKING)
]
MaxItems = Annotated[int, typer.Option("--max-items", help="rated items of a user in a prompt", rich_help_panel=ASKING)]
MaxTextChars = Annotated[
    int,
    typer.Option(
        "--max-text-chars",
        help="longest text of a profile; fewer for a small model, which may not end a text by itself",
        rich_help_panel=ASKING,
    ),
]
MaxReasks = Annotated[
    int,
    typer.Option("--max-reasks", help="how often an unreadable answer is asked for again", rich_help_panel=ASKING),
]
Names = Annotated[
    list[str] | None,
    typer.Option("--name", help="only this judge; may be repeated (default: all)", show_default=False),
]
Resamples = Annotated[int, typer.Option("--resamples", help="of the bootstrap over users; 0: no intervals")]


def induce(
    work: WorkFolder,
    judge: Judge,
    name: Name = None,
    max_items: MaxItems = 100,
    max_text_chars: MaxTextChars = MAX_CHARS,
    max_reasks: MaxReasks = 2,
    profiles: Profiles = None,
    store: Store = None,
    retry_failed: RetryFailed = False,
    budget: Budget = None,
    limit: Limit = None,
) -> None:
    """Have a model write a preference profile of each sampled user, from the training history.

    Examples:

        gistbench qrels induce -w work/ml --judge meta-llama/Llama-3.3-70B-Instruct?tensor_parallel_size=4

        gistbench qrels induce -w work/ml --judge "openai:judge?base_url=http://localhost:8000/v1" --limit 20
    """
    from .qrels.induce import induce as step

    with _asking(work, judge, max_reasks, profiles, store, retry_failed, budget, limit) as judging:
        record = step(work_folder(work), judging, name=name, max_items=max_items, max_chars=max_text_chars)
        folder = name or judging.name
    _show_induced(work, folder, record)
    out.print(f"Next: [bold]gistbench qrels judge --work {escape(str(work))} --judge ...[/bold]", soft_wrap=True)


def judge(
    work: WorkFolder,
    judge: Judge,
    mode: Modes = None,
    plots: Plots = "without",
    pairs: PairsOption = "all",
    samples: Samples = 1,
    name: Name = None,
    profiles_of: Annotated[
        str | None,
        option("show the induced profiles in this judge's folder (default: its own)", MODELS, "--profiles-of"),
    ] = None,
    pool_pairs: Annotated[
        int | None,
        option(
            "grade only so many pooled pairs, so chosen that popular and rare items are judged alike",
            LIMITS,
            "--pool-pairs",
        ),
    ] = None,
    max_items: MaxItems = 100,
    max_reasks: MaxReasks = 2,
    profiles: Profiles = None,
    store: Store = None,
    retry_failed: RetryFailed = False,
    budget: Budget = None,
    limit: Limit = None,
) -> None:
    """Have a model grade held-out and pooled pairs from 0 to 5; answers that cannot be read stay missing.

    Examples:

        gistbench qrels judge -w work/ml --judge meta-llama/Llama-3.3-70B-Instruct?tensor_parallel_size=4

        gistbench qrels judge -w work/ml --judge openai/gpt-oss-20b --mode ipp --plots both --pairs test

        gistbench qrels judge -w work/ml --judge "openai/gpt-oss-20b?temperature=0.7" --samples 5 --budget "2 gpu-hours"
    """
    from .qrels.judge import judge as step

    conditions = _conditions(mode, plots)
    with _asking(work, judge, max_reasks, profiles, store, retry_failed, budget, limit) as judging:
        records = step(
            work_folder(work),
            judging,
            conditions,
            pairs=_pairs(pairs),
            n_samples=samples,
            name=name,
            profiles_of=profiles_of,
            max_items=max_items,
            n_pool_pairs=pool_pairs,
        )
    _show_judged(records)
    out.print(f"Next: [bold]gistbench qrels experiments --work {escape(str(work))}[/bold]", soft_wrap=True)


def expand(
    work: WorkFolder,
    name: Names = None,
    hub_folder: Annotated[
        Path | None, typer.Option("--hub-folder", help="write a data set folder too", show_default=False)
    ] = None,
    with_ratings: Annotated[
        bool, typer.Option("--with-ratings", help="people's ratings go into the data set folder too")
    ] = False,
    push: Annotated[
        str | None, typer.Option("--push", help="namespace/name: push the data set folder", show_default=False)
    ] = None,
    private: Annotated[bool, typer.Option("--private", help="make the repository private, if it is made")] = False,
) -> None:
    """Fill the holes of people's judgements with the judge's (Eq. 1); write Parquet and TREC qrels.

    Examples:

        gistbench qrels expand -w work/ml

        gistbench qrels expand -w work/ml --hub-folder out/qrels --push me/ml-qrels --private
    """
    from .qrels.expand import expand as step
    from .qrels.expand import hub_folder as write_folder
    from .qrels.expand import push_folder

    if push is not None and hub_folder is None:
        raise ConfigError("--push needs --hub-folder, the folder that is pushed.")
    folder = work_folder(work)
    parts = _parts(folder, name)
    table = Table("Judge", "Condition", "Human", "Validated", "Judge's", "Holes left", title="Expanded judgements")
    for judged, condition in parts:
        record = step(folder, judged, condition)
        counts = [f"{record[key]:,}" for key in ("n_human", "n_validated", "n_llm", "n_holes_left")]
        table.add_row(escape(judged.name), condition.name, *counts)
    for column in table.columns[2:]:
        column.justify = "right"
    out.print(table)
    out.print(f"Written to [bold]{escape(str(folder.path / 'expanded'))}[/bold].", soft_wrap=True)
    if hub_folder is not None:
        files = write_folder(folder, parts, hub_folder, with_ratings=with_ratings)
        out.print(f"Data set folder: [bold]{escape(str(hub_folder))}[/bold].", soft_wrap=True)
        if push is not None:
            commit = push_folder(hub_folder, push, files, private=private)
            out.print(f"Pushed to {escape(push)}, commit {commit[:12]}.")


def experiments(
    work: WorkFolder,
    name: Names = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="folder of tables and figures (default: in the work folder)"),
    ] = None,
    resamples: Resamples = 1000,
    seed: Seed = 0,
    relevance_threshold: Threshold = 4.0,
) -> None:
    """Experiments 0 to 4: the paper's Tables 1 to 8 beside its numbers, what goes beyond it, and figures.

    No model is asked.

    Examples:

        gistbench qrels experiments -w work/ml

        gistbench qrels experiments -w work/ml --name judge@1 -o out/tables --resamples 200
    """
    from .qrels.judged import graded_parts

    parts = graded_parts(work_folder(work), name or None)
    _write_experiments(work, parts, output, resamples, seed, relevance_threshold)


def uncertain(
    work: WorkFolder,
    file: Annotated[Path, typer.Option("--file", "-f", help="the csv to write")],
    name: Names = None,
    n: Annotated[int | None, typer.Option("--n", "-n", help="so many pairs at most", show_default=False)] = None,
    min_range: Annotated[int, typer.Option("--min-range", help="grades lie at least so far apart")] = 1,
) -> None:
    """List pooled pairs on which repeated grades, or judges, disagree, for people to grade.

    Examples:

        gistbench qrels uncertain -w work/ml -f to-grade.csv -n 200
    """
    from .qrels.judged import held_out_pairs, sampled_users
    from .qrels.validate import list_uncertain, write_uncertain

    folder = work_folder(work)
    grades = {f"{judged.name}/{one.name}": judged.grades(one) for judged, one in _parts(folder, name)}
    human = held_out_pairs(folder, sampled_users(folder))
    table = list_uncertain(grades, human, folder.read("pool"), n=n, min_range=min_range)
    write_uncertain(folder, table, file)
    out.print(f"{table.num_rows:,} pairs in [bold]{escape(str(file))}[/bold]: fill in the column grade (0 to 5).")
    out.print(f"Then: [bold]gistbench qrels validate -w {escape(str(work))} -f {escape(str(file))}[/bold]")


def validate(
    work: WorkFolder,
    file: Annotated[Path, typer.Option("--file", "-f", help="a csv with user, item, grade")],
    by: Annotated[str, typer.Option("--by", help="who graded", show_default=False)] = "",
) -> None:
    """Take people's grades of pooled pairs in; they go before any judge's.

    Examples:

        gistbench qrels validate -w work/ml -f to-grade.csv --by "two annotators"
    """
    from .qrels.validate import import_validations

    counts = import_validations(work_folder(work), file, by=by)
    out.print(
        f"{counts['n_imported']:,} grades taken in ({counts['n_replaced']:,} of them new for a pair that had one), "
        f"{counts['n_empty']:,} rows without a grade."
    )


def run(
    work: WorkFolder,
    judge: Judge,
    dataset: Annotated[str, typer.Option("--dataset", help="as of `qrels split`")],
    source: Annotated[Path | None, typer.Option("--source", help="as of `qrels split`", show_default=False)] = None,
    items: Annotated[Path | None, typer.Option("--items", help="as of `qrels split`", show_default=False)] = None,
    take: Annotated[
        int | None, typer.Option("--take", help="sample so many users whatever the criteria say", show_default=False)
    ] = None,
    runs: Annotated[
        list[str] | None, typer.Option("--run", help="only this run; may be repeated", show_default=False)
    ] = None,
    depth: Annotated[int, typer.Option("--depth", help="of the pool and of the scores")] = 100,
    seed: Seed = 0,
    mode: Modes = None,
    plots: Plots = "without",
    pairs: PairsOption = "all",
    samples: Samples = 1,
    max_items: MaxItems = 100,
    max_text_chars: MaxTextChars = MAX_CHARS,
    max_reasks: MaxReasks = 2,
    resamples: Resamples = 1000,
    profiles: Profiles = None,
    store: Store = None,
    retry_failed: RetryFailed = False,
    budget: Budget = None,
    limit: Limit = None,
) -> None:
    """All steps from ratings to the tables; stopped at any moment, the same command goes on from there.

    For more options of a step, give it by itself: a step that is done with other settings than these is done again.

    Examples:

        gistbench qrels run -w work/ml --dataset movielens_ratings --source ml-latest-small
            --judge meta-llama/Llama-3.3-70B-Instruct?tensor_parallel_size=4 --take 200
    """
    from .progress import StepProgress
    from .qrels.expand import expand as expand_step
    from .qrels.induce import induce as induce_step
    from .qrels.judge import judge as judge_step
    from .qrels.judged import graded_parts
    from .qrels.pool import pool as pool_step
    from .qrels.recommend import recommend as recommend_step
    from .qrels.sample import SIZES
    from .qrels.sample import sample as sample_step
    from .qrels.split import split as split_step
    from .recommenders.registry import load_settings

    conditions = _conditions(mode, plots)
    which = _pairs(pairs)
    folder = work_folder(work)
    split_step(folder, dataset, source=None if source is None else str(source), items=items, seed=seed)
    with StepProgress(err) as progress:
        recommend_step(folder, settings=load_settings(names=runs or None), seed=seed, progress=progress)
        sample_step(folder, sizes=[take] if take else SIZES, take=take, seed=seed, progress=progress)
        pool_step(folder, depth=depth, progress=progress)
    with _asking(work, judge, max_reasks, profiles, store, retry_failed, budget, limit) as judging:
        if any(condition.mode != "profile" for condition in conditions):
            record = induce_step(folder, judging, max_items=max_items, max_chars=max_text_chars)
            _show_induced(work, judging.name, record)
        records = judge_step(folder, judging, conditions, pairs=which, n_samples=samples, max_items=max_items)
        name = judging.name
    _show_judged(records)
    # Other grades may be there, of an older pool: they are paid for and kept, and not asked about here.
    parts = graded_parts(folder, [name], conditions)
    for judged, condition in parts:
        expand_step(folder, judged, condition)
    _write_experiments(work, parts, None, resamples, seed, 4.0)


def panel(
    work: WorkFolder,
    name: Annotated[list[str], typer.Option("--name", help="a judge of the panel; give two or more")],
    mode: Annotated[
        str, typer.Option("--mode", help="ipp, profile or ipp+profile, with -plot behind it")
    ] = "ipp+profile",
    method: Annotated[str, typer.Option("--method", help="majority or dawid-skene")] = "dawid-skene",
    panel_name: Annotated[
        str | None, typer.Option("--as", help="the panel's name (default: panel-METHOD)", show_default=False)
    ] = None,
) -> None:
    """Make one judge of several: by majority, or weighted by estimated reliability.

    Examples:

        gistbench qrels panel -w work/ml --name judge-a@1 --name judge-b@1 --name judge-c@1 --method majority
    """
    from .qrels.panel import make_panel

    (condition,) = _conditions([mode.removesuffix("-plot")], "with" if mode.endswith("-plot") else "without")
    record = make_panel(work_folder(work), name, condition, method=method, name=panel_name)  # type: ignore[arg-type]
    table = Table("Judge", "MAE", "Reliability", title="Panel")
    reliability = record["reliability"] or {}
    for judge_name, mae in record["mae"].items():
        shown = f"{reliability[judge_name]:.3f}" if judge_name in reliability else ""
        table.add_row(escape(judge_name), "" if mae is None else f"{mae:.4f}", shown)
    out.print(table)
    equal = record["agreement_of_judges"]["share_equal"]
    agreed = "" if equal is None else f" All judges agree on {100 * equal:.1f} % of them."
    out.print(f"{record['n_ok']:,} of {record['n_pairs']:,} pairs have a grade.{agreed}")


COMMANDS = (induce, judge, expand, experiments, panel, uncertain, validate, run)
"""To be registered, in this order."""


@contextmanager
def _asking(
    work: Path,
    judge: str,
    max_reasks: int,
    profiles: Path | None,
    store: Path | None,
    retry_failed: bool,
    budget: list[str] | None,
    limit: int | None,
) -> Iterator["Judging"]:
    """Open a judge with what stops a session, and close both."""
    from .profiles import use_profiles
    from .qrels.judging import open_judge

    if max_reasks < 0:
        raise ConfigError(f"--max-reasks {max_reasks}: it must be 0 or more.")
    if profiles is not None:
        use_profiles(profiles)
    options: dict[str, Any] = {"store": store, "max_reasks": max_reasks, "retry_failed": retry_failed}
    with (
        session(err, None, budget, limit) as stopping,
        open_judge(work_folder(work), judge, **options, **stopping) as judging,
    ):
        yield judging


def _write_experiments(
    work: Path, parts: "list[Part]", output: Path | None, resamples: int, seed: int, threshold: float
) -> None:
    from .qrels.beyond import beyond
    from .qrels.experiments import experiments as compute
    from .qrels.write import write_analyses
    from .report.export import sheet

    folder = work_folder(work)
    options: dict[str, Any] = {"n_resamples": resamples, "seed": seed, "relevance_threshold": threshold}
    found = [*compute(folder, parts, **options), *beyond(folder, parts, **options)]
    path = output or folder.path / "experiments"
    write_analyses(found, path)
    for one in found:
        if one.missing:
            out.print(f"{one.title}: not computed. {escape(one.missing)}", soft_wrap=True)
        for name, layout in one.layouts.items():
            laid_out = sheet(one.tables[name], layout)
            show_sheet(out, laid_out, one.title)
            if laid_out.note:
                out.print(escape(laid_out.note), highlight=False)
    out.print(f"Written to [bold]{escape(str(path))}[/bold]: tables and figures.", soft_wrap=True)


def _show_induced(work: Path, name: str, record: dict[str, Any]) -> None:
    out.print(
        f"Profiles of {record['n_ok']:,} of {record['n_users']:,} users in "
        f"[bold]{escape(str(work / 'judged' / name / 'profiles.parquet'))}[/bold]; {record['n_failed']:,} answers "
        f"could not be read, {record['n_users_cut']:,} histories were shown in part.",
        soft_wrap=True,
    )


def _show_judged(records: list[dict[str, Any]]) -> None:
    table = Table("Condition", "Pairs", "Graded", "Unread", "Refused", "No evidence", "Prompt tokens", "Output", "Same")
    table.title = "Grades"
    for column in table.columns[1:]:
        column.justify = "right"
    for record in records:
        condition = record["condition"]
        counts = [f"{record[key]:,}" for key in ("n_pairs", "n_ok", "n_failed", "n_refused", "n_no_evidence")]
        tokens = [f"{sum(one[key] for one in record['answers']):,}" for key in ("n_prompt_tokens", "n_output_tokens")]
        agreement = record["agreement_of_samples"]
        same = (
            "" if agreement is None or agreement["share_equal"] is None else f"{100 * agreement['share_equal']:.0f} %"
        )
        table.add_row(condition["mode"] + (" with plot" if condition["plot"] else ""), *counts, *tokens, same)
    out.print(table)


def _conditions(modes: list[str] | None, plots: str) -> "list[Condition]":
    from .stages.grade import MODES, Condition

    shown = {"without": (False,), "with": (True,), "both": (False, True)}
    if plots not in shown:
        raise ConfigError(f"--plots {plots}: it is one of {', '.join(shown)}.")
    if unknown := [mode for mode in modes or () if mode not in MODES]:
        raise ConfigError(f"There is no mode {unknown[0]!r}. There are: {', '.join(MODES)}.")
    return [Condition(mode, plot) for mode in dict.fromkeys(modes or MODES) for plot in shown[plots]]


def _pairs(text: str) -> Any:
    if text not in ("all", "test", "pool"):
        raise ConfigError(f"--pairs {text}: it is one of all, test, pool.")
    return text


def _parts(work: "Work", names: list[str] | None) -> "list[Part]":
    from .qrels.judged import graded_parts

    parts = graded_parts(work, names or None)
    if not parts:
        raise ConfigError(
            f"No judge graded pairs in {work.path}. Run `gistbench qrels judge --work {work.path}` first."
        )
    return parts


def work_folder(path: Path) -> "Work":
    """Return a work folder."""
    from .qrels.work import Work

    return Work(path)
