"""Options that several commands have, and how they become a configuration."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ..hf_datasets.errors import ConfigError
from .cli_datasets import read_options
from .config import RunConfig, flag_of

__all__ = ["option", "read_settings", "setting"]

DATA = "What is read"
MODELS = "Who answers"
ASKING = "What is asked"
SCORING = "How it is scored"
LIMITS = "How far it goes"
OUTPUT = "What is written"


def option(help: str, panel: str, *flags: str) -> Any:
    """Return an option without a shown default, in a panel of the help."""
    return typer.Option(*flags, help=help, rich_help_panel=panel, show_default=False)


def setting(field: str, panel: str, note: str = "") -> Any:
    """Return the option that sets a field of the configuration, described as it is there."""
    described = RunConfig.model_fields[field]
    default = f" (default: {described.default})" if described.default not in (None, ()) else ""
    return option(f"{described.description}{note}{default}", panel, str(flag_of(field)))


NO_SETTINGS = {"output", "config", "store", "retry_failed", "users", "candidate", "dataset_option"} | {
    "budget",
    "limit",
    "stage",
    "dry_run",
    "watch",
    "repeats",
}
"""Options of `run` and `extract` that are no field of the configuration, or are read before they become one."""
RENAMED = {"resamples": "n_resamples"}
SPECIFICATION = ": \\[ENGINE:]NAME\\[@REVISION]\\[?OPTION=VALUE&...]"
USERS_HELP = "a number (a seeded sample of so many users), ids separated by commas, or @FILE with one id a line"

ConfigFile = Annotated[Path | None, option("a TOML file of settings; flags go before it", DATA, "--config")]
Dataset = Annotated[str | None, setting("dataset", DATA, ": csv, tsv, json, jsonl or parquet")]
Source = Annotated[Path | None, setting("source", DATA, ": a folder or zip")]
DatasetOption = Annotated[
    list[str] | None, option("NAME=VALUE, a parameter of the data set; may be repeated", DATA, "--dataset-option")
]
Users = Annotated[str | None, option(USERS_HELP, DATA, "--users")]
MinEngagements = Annotated[int | None, setting("min_engagements", DATA)]
TaxonomyName = Annotated[str | None, setting("taxonomy", DATA)]
TaxonomySource = Annotated[Path | None, setting("taxonomy_source", DATA)]
Candidates = Annotated[list[str] | None, setting("candidates", MODELS, f"{SPECIFICATION}; may be repeated")]
Judge = Annotated[str | None, setting("judge", MODELS, SPECIFICATION)]
ChunkSize = Annotated[int | None, setting("chunk_size", ASKING)]
HistoryLength = Annotated[int | None, setting("history_length", ASKING)]
PoolSize = Annotated[int | None, setting("pool_size", ASKING)]
MaxReasks = Annotated[int | None, setting("max_reasks", ASKING)]
Seed = Annotated[int | None, setting("seed", ASKING)]
Thresholds = Annotated[str | None, setting("thresholds", SCORING, ": base, lenient or strict")]
OracleFile = Annotated[Path | None, setting("oracle", SCORING)]
IsScope = Annotated[str | None, setting("is_scope", SCORING, ": of the category, or verified ones")]
Resamples = Annotated[int | None, setting("n_resamples", SCORING)]
AS_RUN = " (default: as in the suite)"
Rescored = Annotated[str | None, option(f"base, lenient or strict{AS_RUN}", SCORING, "--thresholds")]
RescoredScope = Annotated[str | None, option(f"category or verified{AS_RUN}", SCORING, "--is-scope")]
RescoredSamples = Annotated[int | None, option(f"of the bootstrap{AS_RUN}", SCORING, "--resamples")]
Sample = Annotated[str | None, setting("sample", DATA)]
MaxUnusable = Annotated[float | None, setting("max_unusable_share", SCORING)]
Profiles = Annotated[Path | None, setting("profiles", MODELS)]
Budget = Annotated[
    list[str] | None,
    option("stop in good order after '5M tokens', '2 gpu-hours' or '10 usd'; may be repeated", LIMITS, "--budget"),
]
Limit = Annotated[int | None, option("stop in good order after so many calls, as a trial", LIMITS, "--limit", "-n")]
StageName = Annotated[
    str | None, option("end with this stage: extract, ground, shortlist, retrieve or map", LIMITS, "--stage")
]
DryRun = Annotated[
    bool, option("check everything, say what would be asked, and ask and write nothing", LIMITS, "--dry-run")
]
JudgeStageName = Annotated[
    str | None, option("end with this stage: ground, shortlist, retrieve or map", LIMITS, "--stage")
]
Watch = Annotated[bool, option("show how far the run in the output folder is, and do nothing else", LIMITS, "--watch")]
Repeats = Annotated[
    int | None,
    option("run so often, with seeds of their own, and show how far answers and scores move", LIMITS, "--repeats"),
]
Output = Annotated[
    Path, option("the suite folder; the same folder again goes on where it stopped", OUTPUT, "--output", "-o")
]
Store = Annotated[
    Path | None,
    option("the response store, which several suites may share (default: in the suite folder)", OUTPUT, "--store"),
]
RetryFailed = Annotated[bool, option("ask again what was answered unreadably before", OUTPUT, "--retry-failed")]
SuiteFolder = Annotated[Path, typer.Argument(help="a suite folder", show_default=False)]


def read_settings(options: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the configuration that a command's options set; None is not given.

    Args:
        options: the command's options by the names of its parameters.
    """
    settings = {RENAMED.get(name, name): value for name, value in options.items() if name not in NO_SETTINGS}
    return {
        **settings,
        **_users(options["users"]),
        "candidates": options["candidate"] or None,
        "dataset_options": read_options(options["dataset_option"], flag="--dataset-option") or None,
    }


def _users(text: str | None) -> dict[str, Any]:
    """Read --users: a number, ids, or a file of ids."""
    if text is None:
        return {}
    if text.isascii() and text.isdigit():
        return {"n_users": int(text)}
    if text.startswith("@"):
        path = Path(text[1:])
        if not path.is_file():
            raise ConfigError(f"--users {text}: there is no file {path}.")
        try:
            lines = path.read_text(encoding="utf-8-sig").splitlines()
        except UnicodeDecodeError as error:
            raise ConfigError(f"--users {text}: the file is not UTF-8 text ({error}).") from error
        return {"users": tuple(line.strip() for line in lines if line.strip())}
    return {"users": tuple(user.strip() for user in text.split(",") if user.strip())}
