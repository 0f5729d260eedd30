"""The command line. It alone talks to the terminal; everything it does can be done from Python."""

import logging
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TextIO

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..hf_datasets.errors import ConfigError, GistbenchError, GistbenchWarning, RunStoppedError
from .cli_datasets import datasets_app
from .cli_hub import hub_app
from .cli_options import (
    Budget,
    Candidates,
    ChunkSize,
    ConfigFile,
    Dataset,
    DatasetOption,
    DryRun,
    HistoryLength,
    IsScope,
    Judge,
    JudgeStageName,
    Limit,
    MaxReasks,
    MaxUnusable,
    MinEngagements,
    OracleFile,
    Output,
    PoolSize,
    Profiles,
    Repeats,
    Resamples,
    Rescored,
    RescoredSamples,
    RescoredScope,
    RetryFailed,
    Sample,
    Seed,
    Source,
    StageName,
    Store,
    SuiteFolder,
    TaxonomyName,
    TaxonomySource,
    Thresholds,
    Users,
    Watch,
    read_settings,
)
from .cli_plan import plan, plan_qrels, show_plan
from .cli_qrels import qrels_app
from .cli_report import compare, gate, inspect, report, show_comparison
from .cli_session import session as open_session
from .cli_space import push_results_command, push_space_command, space
from .cli_store import store_app
from .cli_tables import print_whole
from .config import RunConfig, load_config

if TYPE_CHECKING:
    from .comparison import Comparison

__all__ = ["app", "main"]

HELP = """Measure, with evidence, how well language models understand people.

Examples:

    gistbench run -o runs/demo --candidate lexical/hashtag --candidate lexical/phrase

    gistbench report runs/demo
"""

app = typer.Typer(
    name="gistbench",
    help=HELP,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
for name, group, examples in (
    ("datasets", datasets_app, ("list", "stats demo", "build movielens --source ml-32m.zip --out built/movielens")),
    ("hub", hub_app, ("install-metrics", "push-results runs/demo --repo gistbench/results")),
    ("qrels", qrels_app, ("split -w work/ml --dataset movielens_ratings --source ml-latest-small",)),
    ("store", store_app, ("stats runs/demo", "export runs/demo --to answers.parquet --stage ground")),
):
    shown = "".join(f"    gistbench {name} {example}\n\n" for example in examples)
    app.add_typer(group, name=name, help=f"{group.info.help}\n\nExamples:\n\n{shown}")
app.command()(plan)
for command in (report, compare, inspect, gate, space):
    app.command()(command)
qrels_app.command("plan")(plan_qrels)
hub_app.command("push-results")(push_results_command)
hub_app.command("push-space")(push_space_command)

out = Console()
err = Console(stderr=True)

ENDED = "Ended with the stage {stage}. The same command without --stage goes on from here."
STOPPED = "Everything answered so far is kept: the same command goes on from here."


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"gistbench {version('gistbench')}")
        raise typer.Exit


@app.callback()
def _common(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="say more on standard error")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="print the version and exit")
    ] = False,
) -> None:
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    logging.getLogger("gistbench").setLevel(logging.DEBUG if verbose else logging.WARNING)


@app.command()
def run(
    output: Output,
    config: ConfigFile = None,
    dataset: Dataset = None,
    source: Source = None,
    dataset_option: DatasetOption = None,
    users: Users = None,
    min_engagements: MinEngagements = None,
    taxonomy: TaxonomyName = None,
    taxonomy_source: TaxonomySource = None,
    candidate: Candidates = None,
    judge: Judge = None,
    chunk_size: ChunkSize = None,
    history_length: HistoryLength = None,
    pool_size: PoolSize = None,
    max_reasks: MaxReasks = None,
    seed: Seed = None,
    thresholds: Thresholds = None,
    oracle: OracleFile = None,
    is_scope: IsScope = None,
    resamples: Resamples = None,
    max_unusable_share: MaxUnusable = None,
    sample: Sample = None,
    profiles: Profiles = None,
    store: Store = None,
    retry_failed: RetryFailed = False,
    budget: Budget = None,
    limit: Limit = None,
    stage: StageName = None,
    repeats: Repeats = None,
    dry_run: DryRun = False,
    watch: Watch = False,
) -> None:
    """Run the benchmark: extract, judge and score, for one or several candidates.

    A run that was stopped goes on where it was: give the same command again. Ctrl-C and SIGTERM wait for what is in
    flight; a second one does not.

    Examples:

        gistbench run -o runs/demo --candidate lexical/hashtag --candidate lexical/tfidf --candidate lexical/phrase

        gistbench run -o runs/ml --dataset movielens --source ml-latest-small --min-engagements 100 --users 20
            --candidate vllm:HuggingFaceTB/SmolLM2-135M-Instruct --candidate lexical/hashtag

        gistbench run -o runs/own --dataset engagements.csv --candidate openai/gpt-oss-120b
            --judge meta-llama/Llama-3.3-70B-Instruct?tensor_parallel_size=4

        gistbench run -o runs/api --candidate "openai:gpt-5?concurrency=16" --judge "openai:judge?base_url=http://localhost:8000/v1"
    """
    settings = read_settings(locals())
    if watch:
        from .progress import watch as watch_folder

        watch_folder(output, out)
        return
    configured = load_config(config, settings)
    if dry_run:
        _show_plan(configured, output)
        return
    options: dict[str, Any] = {"store": store, "retry_failed": retry_failed, "until": stage}
    if repeats is not None:
        from .repeats import repeats_table, run_repeats

        with open_session(err, output, budget, limit) as session:
            rows = run_repeats(output, configured, repeats, **options, **session)
        print_whole(out, repeats_table(rows))
        out.print(f"Written to [bold]{escape(str(output))}[/bold]: repeats.json, and a suite folder for each repeat.")
        return
    from .suite import Suite

    with open_session(err, output, budget, limit) as session:
        comparison = Suite(output, configured, **options, **session).run()
    if comparison is None:
        out.print(ENDED.format(stage=stage))
    else:
        _finish(comparison, output)


@app.command()
def extract(
    output: Output,
    config: ConfigFile = None,
    dataset: Dataset = None,
    source: Source = None,
    dataset_option: DatasetOption = None,
    users: Users = None,
    min_engagements: MinEngagements = None,
    taxonomy: TaxonomyName = None,
    taxonomy_source: TaxonomySource = None,
    candidate: Candidates = None,
    chunk_size: ChunkSize = None,
    history_length: HistoryLength = None,
    pool_size: PoolSize = None,
    max_reasks: MaxReasks = None,
    seed: Seed = None,
    sample: Sample = None,
    profiles: Profiles = None,
    store: Store = None,
    retry_failed: RetryFailed = False,
    budget: Budget = None,
    limit: Limit = None,
) -> None:
    """Ask the candidates for every user's interests, and stop there.

    Examples:

        gistbench extract -o runs/demo --candidate lexical/hashtag --candidate lexical/phrase
    """
    settings = read_settings(locals())
    from .suite import Suite

    with open_session(err, output, budget, limit) as session:
        suite = Suite(output, load_config(config, settings), store=store, retry_failed=retry_failed, **session)
        runs = suite.extract()
    table = Table("Candidate", "Users", "Interests", "Run folder", title="Extracted")
    for one in runs:
        n_users = sum(one.read("users")["scored"].to_pylist())
        n_interests = one.read("extractions").num_rows
        name = one.manifest["candidate"]["name"]
        table.add_row(escape(name), str(n_users), str(n_interests), escape(str(one.path)))
    out.print(table)
    out.print(f"Next: [bold]gistbench judge {escape(str(output))}[/bold]")


@app.command()
def judge(
    suite: SuiteFolder,
    judge: Judge = None,
    max_reasks: MaxReasks = None,
    profiles: Profiles = None,
    store: Store = None,
    retry_failed: RetryFailed = False,
    budget: Budget = None,
    limit: Limit = None,
    stage: JudgeStageName = None,
) -> None:
    """Have the judge check what the candidates of a suite said, and stop there.

    Examples:

        gistbench judge runs/demo

        gistbench judge runs/demo --judge meta-llama/Llama-3.3-70B-Instruct?tensor_parallel_size=4
    """
    from .suite import STAGES, Suite

    if stage not in (None, *STAGES[1:]):
        raise ConfigError(f"--stage {stage}: the stages of judging are {', '.join(STAGES[1:])}.")
    changes = {"judge": judge, "max_reasks": max_reasks, "profiles": profiles}
    with open_session(err, suite, budget, limit) as session:
        opened = Suite.open(suite, changes=changes, store=store, retry_failed=retry_failed, until=stage, **session)
        opened.judge()
        judged_by = opened.config.judge
    if stage not in (None, STAGES[-1]):
        out.print(ENDED.format(stage=stage))
        return
    out.print(f"Judged by {escape(str(judged_by))}. Next: [bold]gistbench score {escape(str(suite))}[/bold]")


@app.command()
def score(
    suite: SuiteFolder,
    thresholds: Rescored = None,
    oracle: OracleFile = None,
    is_scope: RescoredScope = None,
    resamples: RescoredSamples = None,
    max_unusable_share: MaxUnusable = None,
) -> None:
    """Score a judged suite from its tables; no model is asked, no data set read.

    Examples:

        gistbench score runs/demo

        gistbench score runs/demo --thresholds strict
    """
    from .suite import Suite

    changes = {"thresholds": thresholds, "oracle": oracle, "is_scope": is_scope, "n_resamples": resamples}
    comparison = Suite.open(suite, changes=changes | {"max_unusable_share": max_unusable_share}).score()
    _finish(comparison, suite)


@app.command()
def profiles(
    files: Annotated[
        list[Path] | None, typer.Argument(help="TOML files of your own, checked and shown first", show_default=False)
    ] = None,
) -> None:
    """Show the model profiles: what is known of each family of models, and what was tried.

    Examples:

        gistbench profiles

        gistbench profiles mine.toml
    """
    from .profiles import profiles_table, use_profiles

    use_profiles(*files or ())
    # Wider than the terminal rather than cut.
    Console(width=max(out.width, 180)).print(profiles_table())


def main() -> None:
    """Run the command line; errors that the user can put right are printed as one message."""
    from .engines.processes import processes

    warnings.showwarning = _show_warning
    try:
        with processes():
            app()
    except RunStoppedError as stopped:
        err.print(f"{escape(str(stopped))} {STOPPED}", soft_wrap=True)
        sys.exit(stopped.exit_status)
    except GistbenchError as error:
        _fail(str(error))
    except OSError as error:  # a full disk, a folder that may not be written to
        _fail(" ".join([_told(error), *getattr(error, "__notes__", ())]))
    except SystemExit as done:
        if done.code == 130:  # what Typer makes of a KeyboardInterrupt
            err.print(f"Stopped. {STOPPED}")
        raise


def _show_plan(config: RunConfig, output: Path) -> None:
    """Say what a run would ask, once everything that can be checked beforehand has been."""
    from .plan import plan_run
    from .suite import Suite

    Suite(output, config).check()
    show_plan(plan_run(config))
    out.print("Nothing was asked and nothing written. More about the cost: [bold]gistbench plan --help[/bold]")


def _told(error: OSError) -> str:
    """Say what the system refused, of which file."""
    path, reason = error.filename, error.strerror or str(error)
    if path is None:
        return f"{reason}."
    if isinstance(error, PermissionError):
        doing = "read" if os.path.exists(path) and not os.access(path, os.R_OK) else "written to"
        return f"{path} cannot be {doing} ({reason.lower()})."
    return f"{path}: {reason.lower()}."


def _fail(message: str) -> NoReturn:
    err.print(f"[bold red]Error:[/bold red] {escape(message)}", highlight=False, soft_wrap=True)
    sys.exit(1)


def _finish(comparison: "Comparison", folder: Path) -> None:
    """Show a comparison and what to do next; fail where a candidate has no scored user at all."""
    show_comparison(comparison)
    few, shown = (sum(row[name] for row in comparison.rows) for name in ("n_few_distractors", "n_interests"))
    if few:
        out.print(
            f"Note: {few} of {shown} interests were judged among fewer than 45 distractors, which makes them easier to "
            "single out: IS flatters.",
            soft_wrap=True,
        )
    _say_what_next(folder)
    if empty := [row["candidate"] for row in comparison.rows if not row["n_users"]]:
        _fail(
            f"No user could be scored for {', '.join(empty)}: its answers, or the judge's, cannot be used. What has no "
            "answer is asked again by the same command."
        )


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    if issubclass(category, GistbenchWarning):
        err.print(f"[bold yellow]Note:[/bold yellow] {escape(str(message))}", highlight=False, soft_wrap=True)
    else:
        logging.getLogger("py.warnings").info("%s:%s: %s: %s", filename, lineno, category.__name__, message)


def _say_what_next(folder: Path) -> None:
    shown = escape(str(folder))
    out.print(
        f"Written to [bold]{shown}[/bold]: comparison.csv and comparison.md, oracle.json, and for each candidate a "
        "folder of Parquet tables with every interest, citation, judgement and score.\n"
        "Next:\n"
        f"  read the comparison               [bold]{shown}/comparison.md[/bold]\n"
        f"  score under other thresholds      [bold]gistbench score {shown} --thresholds strict[/bold]\n"
        "  run a model of yours              [bold]gistbench run --help[/bold]",
        soft_wrap=True,
    )


if __name__ == "__main__":
    main()
