"""The dataset card: what the configs of a repository are, as the README that `datasets` and the Hub read.

A card is a pure function of its :class:`ConfigEntry` records, which a repository or folder keeps beside its data (in
``gistbench.json``): so a config that is already there stays in the card when another one is added, without its rows.
Its front matter tells `datasets` where each config's files are. The text is the template ``data/card.md.jinja``.
"""

import ast
import dataclasses
import functools
import inspect
import json
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import DataError
from .registry import CONFIG_NAMES, DatasetRecord, config_record
from .statistics import DatasetStatistics

__all__ = [
    "CARD_PATH",
    "HOME",
    "SIGNS",
    "ConfigEntry",
    "Parameter",
    "SplitEntry",
    "describe_dataset",
    "entries_from_json",
    "entries_to_json",
    "ordered",
    "parameter_meanings",
    "render_card",
]

HOME = "gistbench/gistbench"
"""Where the datasets are published."""

CARD_PATH = Path(__file__).parent / "CARD.md"
"""The committed card: that of a repository that holds what comes with the package."""

SIGNS: Mapping[str, str] = {
    "explicit_positive": "e+",
    "implicit_positive": "i+",
    "implicit_negative": "i-",
    "explicit_negative": "e-",
}
"""How tables abbreviate interaction types."""

_TEMPLATE = "card.md.jinja"
_FORMAT = 1
_SIZES = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"), (10**7, "1M<n<10M"))


@dataclass(frozen=True)
class Parameter:
    """A parameter of a dataset: a mapping threshold, a filter, a size."""

    value: Any
    default: Any
    meaning: str


@dataclass(frozen=True)
class SplitEntry:
    """A split of a config, as its Parquet files hold it."""

    n_rows: int
    n_bytes: int
    """Of the columns' values, uncompressed."""
    shards: tuple[str, ...]
    """Paths of the files, in the order of rows."""


@dataclass(frozen=True)
class ConfigEntry:
    """A config, without its rows."""

    name: str
    title: str
    summary: str
    signals: tuple[str, ...]
    licence: str
    redistributable: bool
    version: str
    made_from: str = ""
    """The files that it is made from, in words; empty where it comes with the package."""
    fetched: bool = False
    """The files can be left to be fetched."""
    citation: str = ""
    homepage: str = ""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    content_sha256: str = ""
    """Hash of all rows; empty where the config is described but not there."""
    dataset_info: Mapping[str, Any] = field(default_factory=dict)
    """Features and splits, as `datasets` writes them into front matter."""
    splits: Mapping[str, SplitEntry] = field(default_factory=dict)
    statistics: DatasetStatistics | None = None
    """None where the rows are not engagements."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Rows that the build left out or skipped, by reason."""

    @property
    def n_rows(self) -> int:
        """Rows in all splits."""
        return sum(split.n_rows for split in self.splits.values())

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        plain["parameters"] = {name: dataclasses.asdict(p) for name, p in self.parameters.items()}
        plain["splits"] = {name: dataclasses.asdict(s) for name, s in self.splits.items()}
        plain["statistics"] = None if self.statistics is None else self.statistics.to_dict()
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "ConfigEntry":
        """Make what :meth:`to_dict` returned.

        Raises:
            AttributeError, KeyError, TypeError: it is something else.
        """
        read = dict(plain)
        read["signals"] = tuple(read["signals"])
        read["parameters"] = {name: Parameter(**p) for name, p in read["parameters"].items()}
        read["splits"] = {
            name: SplitEntry(**{**split, "shards": tuple(split["shards"])}) for name, split in read["splits"].items()
        }
        if read["statistics"] is not None:
            read["statistics"] = DatasetStatistics.from_dict(read["statistics"])
        return cls(**read)


def describe_dataset(record: DatasetRecord, parameters: Mapping[str, Any] | None = None) -> ConfigEntry:
    """Describe a named dataset, without its rows.

    Args:
        record: the dataset's.
        parameters: those that differ from their defaults.
    """
    config = record.builder.BUILDER_CONFIG_CLASS
    meanings = parameter_meanings(config)
    given = dict(parameters or {})
    fetched = bool(getattr(config, "source_optional", False) or getattr(config, "takes_source", False))
    return ConfigEntry(
        name=record.name,
        title=record.title,
        summary=record.summary,
        signals=tuple(record.signals),
        licence=record.licence,
        redistributable=record.redistributable,
        version=record.version,
        made_from=record.needs_source,
        fetched=fetched,
        citation=record.citation,
        homepage=record.homepage,
        parameters={
            name: Parameter(given.get(name, default), default, meanings.get(name, ""))
            for name, default in record.parameters.items()
        },
    )


def parameter_meanings(config_class: type) -> dict[str, str]:
    """Return what is documented beneath each field of a dataclass and its bases, as the texts stand in the source."""
    meanings: dict[str, str] = {}
    for one in reversed(config_class.__mro__):
        if dataclasses.is_dataclass(one):
            meanings.update(_documented(one))
    return meanings


def _documented(config_class: type) -> dict[str, str]:
    definition = ast.parse(textwrap.dedent(inspect.getsource(config_class))).body[0]
    meanings: dict[str, str] = {}
    if not isinstance(definition, ast.ClassDef):
        return meanings
    for statement, following in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            value = following.value if isinstance(following, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                meanings[statement.target.id] = _markdown(" ".join(value.value.split()))
    return meanings


def _markdown(text: str) -> str:
    """Turn the markup of docstrings into Markdown's."""
    return re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text).replace("``", "`")


def entries_to_json(entries: Iterable[ConfigEntry]) -> str:
    """Return the records of a repository's configs as JSON, in the order of :func:`ordered`."""
    configs = {entry.name: entry.to_dict() for entry in ordered(entries)}
    return json.dumps({"format": _FORMAT, "configs": configs}, indent=1, ensure_ascii=False) + "\n"


def entries_from_json(text: str, *, source: str) -> dict[str, ConfigEntry]:
    """Read what :func:`entries_to_json` wrote.

    Args:
        text: the JSON.
        source: how to call it in messages.

    Raises:
        DataError: it is not such a file, or that of a later gistbench.
    """
    try:
        read = json.loads(text)
        if read["format"] != _FORMAT:
            raise DataError(
                f"{source}: its format is {read['format']!r}, and this gistbench reads {_FORMAT}. Update gistbench."
            )
        return {name: ConfigEntry.from_dict(entry) for name, entry in read["configs"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"{source}: this is not the list of configs that gistbench writes ({type(error).__name__}: {error})."
        ) from error


def ordered(entries: Iterable[ConfigEntry]) -> list[ConfigEntry]:
    """Sort entries as the registry lists datasets; those it does not know come last, by name."""
    places = {name: place for place, name in enumerate(CONFIG_NAMES)}
    return sorted(entries, key=lambda entry: (places.get(entry.name, len(places)), entry.name))


def render_card(entries: Iterable[ConfigEntry], *, repo: str = HOME, existing: str | None = None) -> str:
    """Return the README of a repository or folder.

    Args:
        entries: the configs that are there.
        repo: what users give to ``load_dataset``: a repository's id or a folder's path.
        existing: the README that is to be replaced; configs in its front matter that are not gistbench's stay.
    """
    present = ordered(entries)
    there = {entry.name for entry in present}
    elsewhere = [describe_dataset(config_record(name)) for name in CONFIG_NAMES if name not in there]
    text = _template().render(
        repo=repo,
        present=present,
        elsewhere=elsewhere,
        described=[entry for entry in ordered([*present, *elsewhere]) if entry.parameters],
        measured=[entry for entry in present if entry.statistics is not None],
        citations=_citations([*present, *elsewhere]),
    )
    tidy = re.sub(r"\n{3,}", "\n\n", text.strip())
    return f"---\n{_front_matter(present, existing)}\n---\n\n{tidy}\n"


def _citations(entries: Iterable[ConfigEntry]) -> dict[str, list[str]]:
    """Return each citation with the names of the configs that ask for it."""
    citations: dict[str, list[str]] = {}
    for entry in ordered(entries):
        if citation := entry.citation.strip():
            citations.setdefault(citation, []).append(entry.name)
    return citations


def _front_matter(present: Sequence[ConfigEntry], existing: str | None) -> str:
    from huggingface_hub import DatasetCardData  # slow to import

    n_rows = sum(entry.n_rows for entry in present)
    size = next((name for limit, name in _SIZES if n_rows < limit), "10M<n<100M")
    kept = _foreign(existing, {entry.name for entry in present}) if existing else {"configs": [], "dataset_info": []}
    data = DatasetCardData(
        pretty_name="GISTBench",
        license="other",
        license_name="see-each-config",
        license_link=f"https://huggingface.co/datasets/{HOME}#licences-and-citations",
        task_categories=["text-generation", "text-classification"],
        tags=["recommender-systems", "user-understanding", "llm-evaluation", "gistbench"],
        size_categories=[size] if present else None,
        configs=[*map(_front_config, present), *kept["configs"]] or None,
        dataset_info=[*(dict(entry.dataset_info) for entry in present), *kept["dataset_info"]] or None,
    )
    return str(data.to_yaml(line_break="\n"))


def _front_config(entry: ConfigEntry) -> dict[str, Any]:
    files = [
        {"split": name, "path": split.shards[0] if len(split.shards) == 1 else list(split.shards)}
        for name, split in entry.splits.items()
    ]
    return {"config_name": entry.name, "data_files": files}


def _foreign(existing: str, ours: set[str]) -> dict[str, list[dict[str, Any]]]:
    """Return what a README says of configs that are not ``ours``."""
    from huggingface_hub import DatasetCard

    try:
        data = DatasetCard(existing, ignore_metadata_errors=True).data
    except ValueError as error:
        raise DataError(f"The README that is there has front matter that cannot be read ({error}). Mend it.") from error
    infos = data.get("dataset_info") or []
    infos = infos if isinstance(infos, list) else [infos]
    return {
        "configs": [config for config in data.get("configs") or [] if config.get("config_name") not in ours],
        "dataset_info": [info for info in infos if info.get("config_name", "default") not in ours],
    }


@functools.cache
def _template() -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "data"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # Markdown, not HTML
    )
    environment.filters |= {"count": _grouped, "cell": _cell, "signs": lambda names: " ".join(SIGNS[n] for n in names)}
    environment.globals["SIGNS"] = SIGNS
    return environment.get_template(_TEMPLATE)


def _grouped(value: float) -> str:
    """Write a count, or a mean or quantile of counts with one decimal where it has any."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def _cell(text: object) -> str:
    """Keep a text within one cell of a Markdown table."""
    return " ".join(str(text).split()).replace("|", "\\|")
