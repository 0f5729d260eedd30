"""The configuration of a run: typed, from a TOML file or from flags; unknown keys are errors."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError, field_validator

from ..hf_datasets import DATASET_NAMES, TAXONOMY_NAMES
from ..hf_datasets._columns import suggestion
from ..hf_datasets.errors import ConfigError
from .profiles import use_profiles

__all__ = ["FILE_ONLY", "FLAGS", "RunConfig", "Thresholds", "flag_of", "load_config"]

WHICH_USERS = ("users", "n_users")
FILE_ONLY = ("max_item_chars", "names_per_mapping", "repeat")
"""Fields that no flag sets."""
FLAGS = {
    "candidates": "--candidate",
    "dataset_options": "--dataset-option",
    "n_resamples": "--resamples",
    "n_users": "--users",
}
"""Flags that are not called like the field that they set."""
SECRET = ("candidates", "judge")
"""Fields whose value may hold a secret that was put in the wrong place."""

Clause = Literal["explicit_positive", "implicit_positive", "hybrid_explicit_positive", "hybrid_implicit_positive"]
Cap = Literal["max_implicit_negative", "max_explicit_negative"]
Whole = Annotated[int, Strict()]
"""A whole number: true and "3" are none."""
Thresholds: TypeAlias = Literal["base", "lenient", "strict"] | dict[Clause | Cap, Annotated[Whole, Field(ge=0)] | None]

_REASONS = {
    "greater_than_equal": "it must be {ge} or more",
    "less_than_equal": "it must be {le} or less",
    "literal_error": "there are {expected}",
    "tuple_type": "it must be a list",
    "dict_type": "it must be a table",
    "string_type": "it must be text",
    "path_type": "it must be a path",
    "int_type": "it must be a whole number",
    "float_type": "it must be a number",
    "float_parsing": "it must be a number",
    "value_error": "{error}",
}
"""What is said of an error, by its type in pydantic."""


class RunConfig(BaseModel):
    """All that decides what a run does; every field is recorded in the suite folder."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    # What is read
    dataset: str = Field(default="demo", description="a named data set, or a file of engagements")
    source: Path | None = Field(default=None, description="the raw files that a named data set is built from")
    dataset_options: dict[str, Any] = Field(default_factory=dict, description="parameters of the data set's builder")
    users: tuple[str, ...] | None = Field(default=None, description="these users only")
    n_users: Whole | None = Field(default=None, ge=1, description="a seeded sample of so many users")
    sample: Literal["random", "stratified"] = Field(
        default="random",
        description="how --users N are drawn: random, or stratified, which keeps the shares of short and long "
        "histories",
    )
    min_engagements: Whole | None = Field(
        default=None, ge=1, description="only users with at least so many engagements"
    )
    taxonomy: str | None = Field(
        default=None, description="open, official, none or a CSV file; the data set's by default"
    )
    taxonomy_source: Path | None = Field(default=None, description="a local copy of the official taxonomy")
    oracle: Path | None = Field(default=None, description="an oracle that is united with the run's own")

    # Who answers
    candidates: tuple[str | dict[str, Any], ...] = Field(default=(), description="models under test")
    judge: str | dict[str, Any] = Field(default="lexical/overlap", description="the model that judges")

    profiles: Path | None = Field(default=None, description="a TOML file of model profiles of your own")

    # What is asked
    chunk_size: Whole = Field(default=100, ge=1, description="engagements in one extraction prompt")
    history_length: Whole | None = Field(default=None, ge=1, description="only so many newest engagements of each user")
    max_item_chars: Whole | None = Field(default=500, ge=2, description="where item texts are cut in prompts")
    pool_size: Whole = Field(default=1000, ge=1, description="objects that distractors are drawn from")
    names_per_mapping: Whole = Field(default=3, ge=1, description="interests in one mapping prompt")
    max_reasks: Whole = Field(default=2, ge=0, description="how often an unreadable answer is asked for again")
    seed: Whole = Field(default=0, ge=0, description="of all draws and of the bootstrap")
    repeat: Whole = Field(default=0, ge=0, description="index among several runs of the same questions")

    # How it is scored
    thresholds: Thresholds = Field(default="base", description="evidence that verifies")
    is_scope: Literal["category", "verified"] = Field(default="category", description="interests that IS averages over")
    n_resamples: Whole = Field(default=1000, ge=1, description="of the bootstrap")
    max_unusable_share: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="share of unusable answers in a stage above which a candidate is not ranked",
    )

    @field_validator("source", "taxonomy_source", "oracle", "profiles")
    @classmethod
    def _from_anywhere(cls, path: Path | None) -> Path | None:
        """A suite folder may be gone on with from another folder than it was begun in."""
        return None if path is None else path.expanduser().absolute()

    @field_validator("dataset", "taxonomy")
    @classmethod
    def _file_from_anywhere(cls, name: str | None) -> str | None:
        is_file = (
            name is not None and name not in (*DATASET_NAMES, *TAXONOMY_NAMES) and Path(name).expanduser().exists()
        )
        return str(Path(str(name)).expanduser().absolute()) if is_file else name

    @field_validator("thresholds", mode="before")
    @classmethod
    def _switched_off(cls, thresholds: Any) -> Any:
        """TOML has no null: false switches a clause or cap off."""
        if not isinstance(thresholds, Mapping):
            return thresholds
        known = (*get_args(Clause), *get_args(Cap))
        if unknown := [name for name in thresholds if name not in known]:
            raise ValueError(f"there is no {unknown[0]!r}; there are {', '.join(known)}")
        return {name: None if value is False else value for name, value in thresholds.items()}


def load_config(path: Path | None, flags: Mapping[str, Any]) -> RunConfig:
    """Return the configuration in a TOML file, overridden by flags; its model profiles are in use from then on.

    Args:
        path: the file, or None.
        flags: values given on the command line; None means not given.

    Raises:
        ConfigError: the file is not TOML, or a key or value cannot be used.
    """
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise ConfigError(f"There is no configuration file {path}.") from error
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} is not TOML: {error}.") from error
    given = {name: value for name, value in flags.items() if value is not None}
    if any(name in given for name in WHICH_USERS):
        # Users named by a flag stand in place of those that the file chooses, in whatever way it does.
        values = {name: value for name, value in values.items() if name not in WHICH_USERS}
    values |= given
    try:
        config = RunConfig(**values)
    except ValidationError as error:
        raise ConfigError(_problems(error, path, given)) from error
    if config.profiles is not None:
        use_profiles(config.profiles)
    return config


def flag_of(field: str) -> str | None:
    """Return the flag that sets a field; None where a file alone does.

    >>> flag_of("chunk_size"), flag_of("n_users"), flag_of("repeat")
    ('--chunk-size', '--users', None)
    """
    return None if field in FILE_ONLY else FLAGS.get(field, f"--{field.replace('_', '-')}")


def _problems(error: ValidationError, path: Path | None, flags: Mapping[str, Any]) -> str:
    """Say where each value that cannot be used was given, what it is, and what it must be."""
    by_field: dict[str, Any] = {}
    for found in error.errors():
        # Of the forms that a value may take, the one that it comes nearest to; else the first.
        field = str(found["loc"][0])
        if field not in by_field or len(found["loc"]) > len(by_field[field]["loc"]):
            by_field[field] = found
    return " ".join(_problem(field, found, path, flags) for field, found in by_field.items())


def _problem(field: str, error: Mapping[str, Any], path: Path | None, flags: Mapping[str, Any]) -> str:
    known, flag = list(RunConfig.model_fields), flag_of(field)
    where = f"{path}: " if path and field not in flags else ""
    if error["type"] == "extra_forbidden":
        return f"{where}there is no setting {field!r}.{suggestion(field, known)} There are: {', '.join(known)}."
    context = {name: str(value) for name, value in error.get("ctx", {}).items()}
    if "expected" in context:  # 'a', 'b' or 'c'
        context["expected"] = context["expected"].replace("'", "").replace(" or ", ", ")
    reason = _REASONS.get(error["type"], "{msg}").format(msg=error["msg"], **context)
    value = "" if field in SECRET else repr(error["input"])
    if field in flags and flag:
        return f"{f'{flag} {value}'.rstrip()}: {reason}."
    # What pydantic calls the forms that a value may take stands between the names.
    name = ".".join(str(part) for part in error["loc"] if "[" not in str(part) and part != "str")
    return f"{where}{name}{f' = {value}' if value else ''}: {reason}."
