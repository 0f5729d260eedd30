"""The commands ``gistbench plan`` and ``gistbench qrels plan``: what a run would take, before anything of it runs."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from ..hf_datasets.errors import ConfigError
from .cli_datasets import read_options
from .cli_options import option, read_settings, setting
from .config import load_config

if TYPE_CHECKING:
    from .plan import Expectations, Plan

__all__ = ["plan", "plan_qrels", "show_plan"]

out = Console()
MIN_WIDTH = 150
FORMATS = ("table", "csv", "markdown", "json")
RUN = "As of gistbench run"
EXPECTED = "What is expected"


def _setting(field: str, note: str = "") -> Any:
    return setting(field, RUN, note)


Format = Annotated[str, option(f"{', '.join(FORMATS)} (default: table)", EXPECTED, "--format", "-f")]
Tokenizer = Annotated[
    str | None, option("a folder or cached name whose tokenizer counts for every model", EXPECTED, "--tokenizer")
]
CharsPerToken = Annotated[
    float | None, option("estimate tokens by characters, and look for no tokenizer", EXPECTED, "--chars-per-token")
]
Gpu = Annotated[str, option("the GPU that hours are of (default: H100)", EXPECTED, "--gpu")]
ThroughputFile = Annotated[
    Path | None, option("speeds, in the form of runners/throughput.toml", EXPECTED, "--throughput")
]
PricesFile = Annotated[Path | None, option("prices, in the form of runners/prices.toml", EXPECTED, "--prices")]
PriceIn = Annotated[float | None, option("US dollars per million tokens read by a server", EXPECTED, "--price-in")]
PriceOut = Annotated[float | None, option("the same of tokens it writes", EXPECTED, "--price-out")]
OutputTokens = Annotated[
    list[str] | None,
    option("STAGE=N, tokens of one answer (default: paper A's); may be repeated", EXPECTED, "--output-tokens"),
]


def plan(
    config: Annotated[Path | None, option("a TOML file of settings; flags go before it", RUN, "--config")] = None,
    dataset: Annotated[str | None, _setting("dataset")] = None,
    source: Annotated[Path | None, _setting("source")] = None,
    dataset_option: Annotated[
        list[str] | None, option("NAME=VALUE, a parameter of the data set; may be repeated", RUN, "--dataset-option")
    ] = None,
    users: Annotated[str | None, option("a number, ids separated by commas, or @FILE", RUN, "--users")] = None,
    min_engagements: Annotated[int | None, _setting("min_engagements")] = None,
    taxonomy: Annotated[str | None, _setting("taxonomy")] = None,
    taxonomy_source: Annotated[Path | None, _setting("taxonomy_source")] = None,
    candidate: Annotated[list[str] | None, _setting("candidates", "; may be repeated")] = None,
    judge: Annotated[str | None, _setting("judge")] = None,
    chunk_size: Annotated[int | None, _setting("chunk_size")] = None,
    history_length: Annotated[int | None, _setting("history_length")] = None,
    pool_size: Annotated[int | None, _setting("pool_size")] = None,
    seed: Annotated[int | None, _setting("seed")] = None,
    sample: Annotated[str | None, _setting("sample")] = None,
    profiles: Annotated[Path | None, _setting("profiles")] = None,
    interests_per_user: Annotated[
        float | None,
        option("default: from the extraction prompts, as in paper A's tables", EXPECTED, "--interests-per-user"),
    ] = None,
    cited_per_interest: Annotated[
        float | None, option("cited items that are in the history (default: 15)", EXPECTED, "--cited-per-interest")
    ] = None,
    like: Annotated[
        Path | None, option("a run folder whose interests are taken for every candidate's", EXPECTED, "--like")
    ] = None,
    probe: Annotated[
        int | None, option("ask so many prompts of each stage for real, and measure", EXPECTED, "--probe")
    ] = None,
    output_tokens: OutputTokens = None,
    tokenizer: Tokenizer = None,
    chars_per_token: CharsPerToken = None,
    gpu: Gpu = "H100",
    throughput: ThroughputFile = None,
    prices: PricesFile = None,
    price_in: PriceIn = None,
    price_out: PriceOut = None,
    format: Format = "table",
) -> None:
    """Say what a run would take: prompts, tokens, shared prefixes, GPU hours, money. No model is loaded.

    Examples:

        gistbench plan --candidate lexical/hashtag

        gistbench plan --dataset synthetic --candidate openai/gpt-oss-120b --judge meta-llama/Llama-3.3-70B-Instruct

        gistbench plan --config run.toml --interests-per-user 40 --format json

        gistbench plan --dataset movielens --source ml-32m.zip --users 100 --candidate openai:gpt-5
            --price-in 1.25 --price-out 10

        gistbench plan --config run.toml --probe 20
    """
    given = dict(locals())
    _check_format(format)
    from .plan import JUDGE_STAGES, plan_run
    from .plan_data import load_plan_data
    from .runfolder import RunFolder

    fields = (
        "dataset", "source", "dataset_option", "users", "min_engagements", "taxonomy", "taxonomy_source", "candidate",
        "judge", "chunk_size", "history_length", "pool_size", "seed", "sample", "profiles",
    )  # fmt: skip
    settings = load_config(config, read_settings({name: given[name] for name in fields}))
    _check_counts({"--interests-per-user": interests_per_user, "--cited-per-interest": cited_per_interest})
    if like is not None and not (like / "manifest.json").exists():
        raise ConfigError(
            f"--like {like}: there is no run folder. Name the folder of a candidate in a suite folder, such as "
            "runs/demo/lexical--hashtag@1."
        )
    more: dict[str, Any] = {"interests_per_user": interests_per_user, "like": RunFolder(like) if like else None}
    if cited_per_interest is not None:
        more["cited_per_interest"] = cited_per_interest
    expect = _expectations(
        ("extract", *JUDGE_STAGES),
        output_tokens, tokenizer, chars_per_token, gpu, throughput, prices, price_in, price_out, more,
    )  # fmt: skip
    probed = data = None
    if probe is not None:
        if probe < 1:
            raise ConfigError(f"--probe {probe}: give the number of prompts of each stage, 1 or more.")
        from .plan_probe import probe as ask_some

        data = load_plan_data(settings)
        probed = ask_some(settings, data, probe)
    show_plan(plan_run(settings, expect, data=data, probed=probed), format)


def plan_qrels(
    model: Annotated[str, option("the model that induces and judges", RUN, "--judge")],
    users: Annotated[int, option("sampled users (default: 500, the paper's)", RUN, "--users")] = 500,
    items: Annotated[
        Path | None, option("a file with a text per line, one for each item: counts real texts", RUN, "--items")
    ] = None,
    profile_items: Annotated[float, option("items of a user's profile in a prompt", EXPECTED, "--profile-items")] = 100,
    pairs: Annotated[int | None, option("pooled pairs to be judged, all users together", RUN, "--pairs")] = None,
    runs: Annotated[int, option("runs that are pooled (default: 31)", RUN, "--runs")] = 31,
    depth: Annotated[int, option("of the pool (default: 100)", RUN, "--depth")] = 100,
    modes: Annotated[str, option("ipp, profile, ipp+profile; separated by commas", RUN, "--modes")] = (
        "ipp,profile,ipp+profile"
    ),
    output_tokens: OutputTokens = None,
    tokenizer: Tokenizer = None,
    chars_per_token: CharsPerToken = None,
    gpu: Gpu = "H100",
    throughput: ThroughputFile = None,
    prices: PricesFile = None,
    price_in: PriceIn = None,
    price_out: PriceOut = None,
    format: Format = "table",
) -> None:
    """Say what expanding relevance judgements would take: a profile for each user, and each pooled pair in each mode.

    Examples:

        gistbench qrels plan --judge meta-llama/Llama-3.3-70B-Instruct --users 500 --pairs 400000

        gistbench qrels plan --judge "openai:gpt-5" --modes ipp --items titles.txt --format markdown
    """
    _check_format(format)
    from .plan_qrels import plan_expansion

    expect = _expectations(
        ("induce", "judge"), output_tokens, tokenizer, chars_per_token, gpu, throughput, prices, price_in, price_out, {}
    )
    texts = items.read_text(encoding="utf-8").splitlines() if items else None
    planned = plan_expansion(
        model,
        n_users=users,
        n_pairs=pairs,
        n_runs=runs,
        depth=depth,
        modes=[mode.strip() for mode in modes.split(",")],
        n_profile_items=profile_items,
        item_texts=texts,
        expectations=expect,
    )
    show_plan(planned, format, "What expanding the judgements would take")


def _check_format(format: str) -> None:
    if format not in FORMATS:
        raise ConfigError(f"There is no format {format!r}. There are: {', '.join(FORMATS)}.")


def _check_counts(given: dict[str, float | None]) -> None:
    """Refuse what is no count, by flag."""
    for flag, value in given.items():
        if value is not None and not 0 <= value < math.inf:
            raise ConfigError(f"{flag} {value:g}: give a number, 0 or more, or leave it out.")


def _expectations(
    stages: tuple[str, ...],
    output_tokens: list[str] | None,
    tokenizer: str | None,
    chars_per_token: float | None,
    gpu: str,
    throughput: Path | None,
    prices: Path | None,
    price_in: float | None,
    price_out: float | None,
    more: dict[str, Any],
) -> "Expectations":
    from .plan import Expectations
    from .prices import Prices
    from .throughput import Throughput

    lengths = read_options(output_tokens, flag="--output-tokens")
    for stage, n in lengths.items():
        if stage not in stages:
            raise ConfigError(f"--output-tokens {stage}={n}: there is no such stage. There are: {', '.join(stages)}.")
        if not isinstance(n, int | float) or not 0 <= n < math.inf:
            raise ConfigError(f"--output-tokens {stage}={n!r}: expected STAGE=NUMBER.")
    speeds = Throughput.load(throughput)
    if gpu not in (known := speeds.gpus):
        raise ConfigError(
            f"--gpu {gpu}: no speed on it is known. Known: {', '.join(known)}. Measure with --probe, or give a file of "
            "speeds with --throughput."
        )
    if chars_per_token is not None and chars_per_token <= 0:
        raise ConfigError(f"--chars-per-token {chars_per_token:g}: it must be above 0.")
    return Expectations(
        output_tokens=lengths,
        tokenizer=tokenizer,
        chars_per_token=chars_per_token,
        gpu=gpu,
        throughput=speeds,
        prices=Prices.load(prices, price_in=price_in, price_out=price_out),
        **more,
    )


def show_plan(planned: "Plan", format: str = "table", title: str = "What the run would take") -> None:
    """Print a plan in one of `FORMATS`."""
    if format != "table":
        typer.echo(getattr(planned, format)(), nl=format == "json")
        return
    # Wider than a narrow terminal rather than folded.
    Console(width=max(out.width, MIN_WIDTH)).print(planned.table(title))
