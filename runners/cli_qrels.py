"""The commands ``gistbench qrels ...``: from ratings to a pool of pairs to judge, step by step in one work folder."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..hf_datasets.errors import ConfigError
from .cli_datasets import read_options
from .cli_judging import COMMANDS, Seed, Threshold, WorkFolder, work_folder
from .cli_tables import print_whole
from .progress import StepProgress

__all__ = ["qrels_app"]

qrels_app = typer.Typer(
    help="Relevance judgements that a language model expands: from ratings to a pool, step by step in one folder.",
    no_args_is_help=True,
)

out = Console()
err = Console(stderr=True)
_GIB = 1 << 30


def _listed(help: str, flag: str) -> Any:
    return typer.Option(flag, help=f"{help}; may be repeated", show_default=False)


@qrels_app.command()
def split(
    work: WorkFolder,
    dataset: Annotated[
        str,
        typer.Option(
            "--dataset", help="movielens_ratings, goodbooks_ratings, or a csv, tsv or Parquet file of ratings"
        ),
    ],
    source: Annotated[
        Path | None, typer.Option("--source", help="the files that a named data set is made from", show_default=False)
    ] = None,
    items: Annotated[
        Path | None,
        typer.Option(
            "--items",
            help="a file of metadata: item, and what else there is of it (default: what the source says)",
            show_default=False,
        ),
    ] = None,
    test_share: Annotated[float, typer.Option("--test-share", help="share of each user's ratings to hold out")] = 0.2,
    seed: Seed = 0,
    temporal: Annotated[bool, typer.Option("--temporal", help="hold out the newest ratings, not drawn ones")] = False,
    min_profile: Annotated[int, typer.Option("--min-profile", help="leave out users with fewer ratings")] = 1,
    option: Annotated[list[str] | None, _listed("NAME=VALUE, a parameter of a named data set", "--option")] = None,
) -> None:
    """Split ratings 80/20 per user, and count what there is.

    Examples:

        gistbench qrels split -w work/ml --dataset movielens_ratings --source ml-latest-small

        gistbench qrels split -w work/own --dataset ratings.csv --items items.csv --temporal --min-profile 20
    """
    from .qrels.split import split as step

    record = step(
        work_folder(work),
        dataset,
        source=None if source is None else str(source),
        items=items,
        test_share=test_share,
        seed=seed,
        temporal=temporal,
        min_profile=min_profile,
        options=read_options(option),
    )
    s = record["statistics"]
    table = Table("What", "Count", title=escape(f"Split of {record['dataset']}"))
    table.columns[1].justify = "right"
    for name in ("n_users", "n_items", "n_ratings"):
        table.add_row(name.removeprefix("n_"), f"{s[name]:,}")
    table.add_row("density", f"{100 * s['density']:.3f} %")
    table.add_row("training ratings", f"{s['n_train']:,}")
    table.add_row("test ratings", f"{s['n_test']:,}")
    table.add_row("  relevant (4 and more)", f"{s['n_test_relevant']:,}")
    table.add_row("users without test ratings", f"{s['n_users_without_test']:,}")
    table.add_row("users without relevant ones", f"{s['n_users_without_relevant_test']:,}")
    table.add_row("test items without training ratings", f"{s['n_test_items_without_training']:,}")
    if s["n_items_without_metadata"] is not None:
        table.add_row("items without metadata", f"{s['n_items_without_metadata']:,}")
    table.add_row("users left out (short profile)", f"{s['n_users_left_out']:,}")
    out.print(table)
    _next(work, "recommend")


@qrels_app.command()
def recommend(
    work: WorkFolder,
    run: Annotated[list[str] | None, _listed("only this run", "--run")] = None,
    settings: Annotated[
        Path | None,
        typer.Option("--settings", help="a TOML file of runs in place of the 31 of the package", show_default=False),
    ] = None,
    imports: Annotated[list[Path] | None, _listed("a file of runs that another tool made", "--import")] = None,
    import_format: Annotated[
        str | None,
        typer.Option("--import-format", help="trec, elliot, recbole or lenskit (default: told by the file)"),
    ] = None,
    k: Annotated[int, typer.Option("--k", "-k", help="depth of the lists")] = 100,
    seed: Seed = 0,
    threads: Annotated[int, typer.Option("--threads", help="of numerical libraries")] = 2,
    max_items: Annotated[
        int | None,
        typer.Option(
            "--max-items",
            help="item cut-off of the recommenders over pairs of items: only those with the most ratings",
            show_default=False,
        ),
    ] = None,
    memory_gib: Annotated[
        float | None, typer.Option("--memory-gib", help="what may be used (default: what is free)", show_default=False)
    ] = None,
    skip_unfit: Annotated[
        bool, typer.Option("--skip-unfit", help="leave out runs that do not fit into memory")
    ] = False,
    trec: Annotated[bool, typer.Option("--trec/--no-trec", help="write each run as a TREC file too")] = True,
) -> None:
    """Make the runs: 31 settings of 21 recommenders, top 100 for each user, training items masked.

    Stopped at any moment, the same command goes on after the last finished run.

    Examples:

        gistbench qrels recommend -w work/ml

        gistbench qrels recommend -w work/ml --run popularity --run ease --max-items 20000

        gistbench qrels recommend -w work/ml --import my.run --import elliot/ItemKNN.tsv
    """
    from .qrels.recommend import recommend as step
    from .recommenders.registry import load_settings

    if max_items is not None and max_items < 1:
        raise ConfigError(f"--max-items {max_items}: it must be 1 or more.")
    chosen = load_settings(settings, run) if run or settings is not None or not imports else None
    with StepProgress(err) as progress:
        record = step(
            work_folder(work),
            settings=chosen,
            imports=imports or (),
            import_format=import_format,
            k=k,
            seed=seed,
            n_threads=threads,
            max_items=max_items,
            memory_bytes=None if memory_gib is None else int(memory_gib * _GIB),
            skip_unfit=skip_unfit,
            trec=trec,
            progress=progress,
        )
    table = Table("Run", "Algorithm", "Users", "Rows", "Seconds", "CPU s", "Counted", title="Runs")
    for column in table.columns[2:6]:
        column.justify = "right"
    for one in record["runs"]:
        counted = ", ".join(f"{name.removeprefix('n_')} {n:,}" for name, n in one["counts"].items() if n)
        mark = "" if one["representative"] else " (further setting)"
        cells = (one["system"], one["algorithm"] + mark)
        numbers = (f"{one['n_users']:,}", f"{one['n_rows']:,}", f"{one['seconds']:.1f}", f"{one['cpu_seconds']:.1f}")
        table.add_row(*map(escape, cells), *numbers, escape(counted))
    out.print(table)
    for name, why in record["unfit"].items():
        out.print(f"Left out: {escape(name)} {escape(why)}.", soft_wrap=True)
    for name, algorithm in record.get("stand_ins", {}).items():
        out.print(f"{escape(name)} stands for {escape(algorithm)}, whose first setting is left out.", soft_wrap=True)
    _next(work, "sample")


@qrels_app.command()
def sample(
    work: WorkFolder,
    size: Annotated[list[int] | None, _listed("a size to try (default: 500 to 10,000)", "--size")] = None,
    strata: Annotated[int, typer.Option("--strata", help="strata of profile length")] = 10,
    seed: Seed = 0,
    repeats: Annotated[int, typer.Option("--repeats", help="samples of each size, for the interval")] = 20,
    min_tau: Annotated[float, typer.Option("--min-tau", help="the lowest tau that counts as high")] = 0.8,
    alpha: Annotated[float, typer.Option("--alpha", help="level of the tests")] = 0.05,
    correction: Annotated[
        str, typer.Option("--correction", help="benjamini-hochberg, holm or none, over the runs")
    ] = "benjamini-hochberg",
    margin: Annotated[float, typer.Option("--margin", help="of the equivalence test: a share of the run's mean")] = 0.1,
    take: Annotated[
        int | None, typer.Option("--take", help="keep this size whatever the criteria say", show_default=False)
    ] = None,
    relevance_threshold: Threshold = 4.0,
) -> None:
    """Choose few users that stand for all: the paper's Experiment 0 and Table 3.

    The smallest size is kept for which tau of AP@k and NDCG@k is high and no run differs significantly between the
    sample and the other users.

    Examples:

        gistbench qrels sample -w work/ml

        gistbench qrels sample -w work/ml --size 100 --size 200 --size 400 --min-tau 0.9

        gistbench qrels sample -w work/ml --take 500
    """
    from .qrels.sample import SIZES
    from .qrels.sample import sample as step

    with StepProgress(err) as progress:
        record = step(
            work_folder(work),
            sizes=size or SIZES,
            n_strata=strata,
            seed=seed,
            n_repeats=repeats,
            min_tau=min_tau,
            alpha=alpha,
            correction=correction,
            margin=margin,
            take=take,
            relevance_threshold=relevance_threshold,
            progress=progress,
        )
    n = record["n_systems"]
    table = Table("Users", "tau AP", "interval", "tau NDCG", "interval", "differ", "equivalent", "met", "met by")
    table.title = (
        f"Samples of {record['n_users']:,} users: tau over {n['representative']} systems, tests of {n['all']} runs"
    )
    for column in table.columns:
        column.justify = "right"
    for row in record["table3"]:
        cells = [f"{row['n_users']:,}"]
        for metric in ("ap", "ndcg"):
            tau, interval = row[f"tau_{metric}"], row[f"interval_tau_{metric}"]
            cells.append("" if tau is None else f"{tau:.4f}")
            cells.append("" if interval is None else f"{interval[0]:.3f}-{interval[1]:.3f}")
        cells += [f"{row[name]}/{row['n_tests']}" for name in ("n_significant", "n_equivalent")]
        table.add_row(*cells, "yes" if row["met"] else "no", f"{100 * row['share_met']:.0f} %")
    print_whole(out, table)
    out.print(
        f"differ: tests of sample against the other users significant at {record['settings']['alpha']} "
        f"({record['settings']['correction']}); equivalent: shown to differ by less than "
        f"{100 * record['settings']['margin']:.0f} % of the mean; met by: share of the repeated samples.",
        soft_wrap=True,
    )
    if record["sizes_left_out"]:
        out.print(f"Left out, more users than there are: {', '.join(map(str, record['sizes_left_out']))}.")
    if record["chosen"] is None:
        out.print("No size meets both criteria: no users are kept. Try other sizes, or --take N.")
        return
    met = "" if record["chosen_meets_criteria"] else " (the criteria are not met)"
    out.print(f"Kept: [bold]{record['chosen']:,} users[/bold]{met}.")
    _next(work, "pool")


@qrels_app.command()
def pool(
    work: WorkFolder,
    depth: Annotated[int, typer.Option("--depth", help="of the lists")] = 100,
    head_share: Annotated[
        float, typer.Option("--head-share", help="share of the items, most rated first, that is called head")
    ] = 0.1,
    all_users: Annotated[bool, typer.Option("--all-users", help="pool for everybody, not for the sample")] = False,
) -> None:
    """Pool the top of all runs for the sampled users: the pairs that are to be judged.

    Examples:

        gistbench qrels pool -w work/ml

        gistbench qrels pool -w work/ml --depth 20 --head-share 0.2
    """
    from .qrels.pool import pool as step

    folder = work_folder(work)
    with StepProgress(err) as progress:
        record = step(folder, depth=depth, head_share=head_share, all_users=all_users, progress=progress)
    low, _, median, _, high = record["pairs_per_user_quantiles"]
    out.print(
        f"[bold]{record['n_pairs']:,} pairs[/bold] of {record['n_users']:,} users and {record['n_items']:,} items, "
        f"{low:,.0f} to {high:,.0f} a user (median {median:,.0f}); {100 * record['share_judged']:.1f} % are judged, "
        f"{record['n_holes']:,} are holes; {100 * record['share_of_one_system']:.1f} % come from one system only.",
        soft_wrap=True,
    )
    popularity = Table("Pairs", "Number", "Head %", "Mean count", title="Popularity")
    for name, row in record["popularity"].items():
        shown = ["" if row["n"] == 0 else f"{100 * row['share_head']:.1f}"]
        shown += ["" if row["n"] == 0 else f"{row['mean_count']:,.1f}"]
        popularity.add_row(name, f"{row['n']:,}", *shown)
    table = Table(
        "System", "Pairs", "Only this %", "Other systems", "Judged %", "Head %", "Mean count", title="Systems"
    )
    for row in folder.read("pool_systems").to_pylist():
        if not row["n_pairs"]:
            table.add_row(escape(row["system"]), "0", *[""] * 5)
            continue
        shares = [f"{100 * row[name]:.1f}" for name in ("share_only_this", "share_judged", "share_head")]
        table.add_row(
            escape(row["system"]), f"{row['n_pairs']:,}", shares[0], f"{row['mean_systems'] - 1:.1f}", *shares[1:],
            f"{row['mean_count']:,.1f}",
        )  # fmt: skip
    for shown_table in (popularity, table):
        for column in shown_table.columns[1:]:
            column.justify = "right"
        out.print(shown_table)
    share = 100 * record["share_of_training_ratings_in_head"]
    out.print(f"Head: the {record['n_head_items']:,} items with the most training ratings ({share:.1f} % of them).")


def _next(path: Path, step: str) -> None:
    out.print(f"Next: [bold]gistbench qrels {step} --work {escape(str(path))}[/bold]", soft_wrap=True)


for _command in COMMANDS:
    qrels_app.command()(_command)
