"""A suite: several candidates on one data set under one judge, from histories to a scored comparison.

A suite folder holds one run folder for each candidate, the response store, the oracle and the comparison. Its three
phases (extract, judge, score) can be run apart; each can be repeated, and asks no model for what the store has.
"""

import logging
import platform
import subprocess
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..hf_datasets import (
    DATASET_NAMES,
    Taxonomy,
    dataset_record,
    describe_engagements,
    filter_users,
    fingerprint_engagements,
    load_engagements,
    load_taxonomy,
)
from ..hf_datasets.errors import ConfigError, GistbenchWarning, StoreError
from .comparison import Comparison
from .config import RunConfig, load_config
from .engines import Engine, ModelConfig, open_engine, parse_model
from .execute import Progress, SilentProgress, execute
from .histories import Histories, ObjectPool, sample_pool
from .oracle import build_oracle, read_given_oracle
from .prompts import PROMPTS, load_prompt
from .requests import STATUSES, ModelRef
from .runfolder import RunFolder, read_json, slug, write_json
from .score import Scored, score_run, verify_run
from .stages.base import Answered, Asker, Stage
from .stages.extract import Extract
from .stages.ground import Claim, Ground
from .stages.map import Map
from .stages.retrieve import Retrieve
from .stages.shortlist import Shortlist
from .store import ResponseStore

__all__ = ["Data", "Suite", "load_data", "run_folders"]

logger = logging.getLogger(__name__)

STORE = "responses.sqlite"
SUITE_FORMAT = 1
PACKAGES = ("gistbench", "datasets", "evaluate", "numpy", "scipy", "pandas", "pyarrow", "scikit-learn")


@dataclass(frozen=True)
class Data:
    """What a run reads, indexed."""

    histories: Histories
    pool: ObjectPool
    taxonomy: Taxonomy | None
    record: dict[str, Any]
    """What is recorded of the data: names, versions, fingerprints, counts."""


def load_data(config: RunConfig) -> Data:
    """Load what a configuration names.

    Raises:
        ConfigError, DataError: it cannot be had or used.
    """
    engagements = load_engagements(config.dataset, source=config.source, **config.dataset_options)
    whole = describe_engagements(engagements)
    users = filter_users(
        engagements, config.users, min_engagements=config.min_engagements, n_users=config.n_users, seed=config.seed
    )
    named = config.dataset in DATASET_NAMES
    taxonomy_name = config.taxonomy or (dataset_record(config.dataset).taxonomy if named else "open")
    taxonomy = None if taxonomy_name == "none" else load_taxonomy(taxonomy_name, source=config.taxonomy_source)
    return Data(
        histories=Histories(users, signals=whole.signals, max_item_chars=config.max_item_chars),
        pool=sample_pool(engagements, size=config.pool_size, seed=config.seed, max_item_chars=config.max_item_chars),
        taxonomy=taxonomy,
        record={
            "dataset": config.dataset if named else Path(config.dataset).name,
            "builder_version": dataset_record(config.dataset).version if named else None,
            "sha256": fingerprint_engagements(engagements),
            "users_sha256": fingerprint_engagements(users),
            "signals": list(whole.signals),
            "n_engagements": whole.n_rows,
            "n_users": whole.n_users,
            "n_objects": whole.n_objects,
            "n_duplicates": whole.n_duplicates,
            "n_objects_with_conflicting_text": whole.n_objects_with_conflicting_text,
            "n_users_requested": describe_engagements(users).n_users,
            "taxonomy": {"name": taxonomy.name, "sha256": taxonomy.sha256} if taxonomy else None,
        },
    )


class Suite:
    """A suite folder and the phases that fill it."""

    def __init__(
        self,
        path: Path | str,
        config: RunConfig,
        *,
        store: Path | str | None = None,
        retry_failed: bool = False,
        progress: Progress | None = None,
    ) -> None:
        """Name the folder and what is to be done; nothing is read or written yet.

        Args:
            path: the suite folder.
            config: of the run.
            store: the response store; by default in the suite folder. Several suites may share one.
            retry_failed: ask again what the store holds a finished but unreadable answer for.
            progress: told of every request.
        """
        self.path = Path(path)
        self.config = config
        self._store_path = Path(store) if store else self.path / STORE
        self._retry_failed = retry_failed
        self._progress = progress or SilentProgress()

    @classmethod
    def open(cls, path: Path | str, changes: Mapping[str, Any] | None = None, **options: Any) -> "Suite":
        """Open a suite folder with the configuration recorded in it.

        Args:
            path: the suite folder.
            changes: configuration values that replace recorded ones; None means unchanged.
            options: as of the class.

        Raises:
            StoreError: it is no suite folder.
            ConfigError: a changed value cannot be used.
        """
        recorded = _recorded(Path(path))
        return cls(path, load_config(None, recorded["config"] | _given(changes or {})), **options)

    @cached_property
    def data(self) -> Data:
        """The data, loaded when first used."""
        return load_data(self.config)

    @property
    def runs(self) -> list[RunFolder]:
        """The run folders of the configured candidates, in their order, as recorded when they were extracted."""
        return run_folders(self.path) if (self.path / "config.json").exists() else []

    def run(self) -> Comparison:
        """Run all phases."""
        parse_model(self.config.judge)  # a judge that cannot be had is told before candidates are paid for
        self.extract()
        self.judge()
        return self.score()

    def extract(self) -> list[RunFolder]:
        """Ask every candidate for the interests of every user.

        Raises:
            ConfigError: no candidates, the same candidate twice, or a folder that holds another run.
            EngineError: a candidate cannot be loaded, or fails at every request.
        """
        configs = [parse_model(candidate) for candidate in self.config.candidates]
        if not configs:
            raise ConfigError("No candidate is named. Name at least one: --candidate lexical/hashtag.")
        self._claim_folder()
        recorded = [run.path.name for run in self.runs]
        names: list[str] = []
        for config in configs:
            with _engine(config) as engine, ResponseStore(self._store_path) as store:
                name = slug(engine.model)
                if name in names:
                    raise ConfigError(f"The candidate {engine.model} is named twice.")
                names.append(name)
                self._extract_one(RunFolder(self.path / name), config, engine, store)
        if dropped := [name for name in recorded if name not in names]:
            logger.warning("%s: kept, but no longer part of the comparison: %s", self.path, ", ".join(dropped))
        self._record(runs=names)
        return self.runs

    def _extract_one(self, run: RunFolder, config: ModelConfig, engine: Engine, store: ResponseStore) -> None:
        started = time.monotonic()
        stage = Extract(
            Asker.of("extract", engine.model, config),
            self.data.histories,
            chunk_size=self.config.chunk_size,
            history_length=self.config.history_length,
        )
        answers = self._ask(stage, engine, store, f"extract  {engine.model}")
        users, extractions = stage.records(answers)
        cited = _cited(extractions)
        keys = [(answer.key, "extract") for answer in answers]
        phase = {
            "model": _describe(config, engine),
            "chunk_size": self.config.chunk_size,
            "history_length": self.config.history_length,
            "stages": {"extract": _account(answers, store)},
            "wall_seconds": round(time.monotonic() - started, 3),
        }
        tables = {
            "users": users,
            "extractions": extractions,
            "evidence": self.data.histories.evidence(cited),
            "answers": _answers_table(store, keys),
        }
        run.write(tables, {**self._base_manifest(), "candidate": asdict(engine.model), "phases": {"extract": phase}})

    def judge(self) -> None:
        """Ask the judge about every candidate's interests.

        Raises:
            StoreError: a candidate has not been extracted, or its data is another.
            EngineError: the judge cannot be loaded, or fails at every request.
        """
        runs = self.runs
        if not runs:
            raise StoreError(f"{self.path} holds no extracted candidates. Run `gistbench extract` first.")
        config = parse_model(self.config.judge)
        for run in runs:
            self._check_data(run)
        with _engine(config) as engine, ResponseStore(self._store_path) as store:
            self._claim_judge(engine.model)
            for run in runs:
                self._judge_one(run, config, engine, store)

    def _judge_one(self, run: RunFolder, config: ModelConfig, engine: Engine, store: ResponseStore) -> None:
        started = time.monotonic()
        candidate = ModelRef(**run.manifest["candidate"])
        if candidate == engine.model:
            warnings.warn(
                f"{candidate} judges itself: its scores do not compare to other candidates'. Name another judge.",
                GistbenchWarning,
                stacklevel=2,
            )
        data, context = self.data, engine.context_tokens
        claims = self._claims(run.read("extractions"))
        accounts: dict[str, Any] = {}
        keys: list[tuple[str, str]] = []

        def ask(stage: Stage[Any, Any]) -> list[Answered[Any, Any]]:
            answers = self._ask(stage, engine, store, f"{stage.name:<9}{candidate}")
            accounts[stage.name] = _account(answers, store)
            keys.extend((answer.key, stage.name) for answer in answers)
            return answers

        def asker(stage: str) -> Asker:
            return Asker.of(stage, engine.model, config)

        ground = Ground(asker("ground"), data.histories, claims, context)
        tables = {"groundings": ground.records(ask(ground))}
        names: dict[str, list[str]] = {}
        for claim in claims:
            names.setdefault(claim.user, []).append(claim.interest)
        shortlist = Shortlist(asker("shortlist"), data.pool, names, context)
        tables["shortlists"] = shortlist.records(ask(shortlist))
        shortlists = dict(
            zip(*(tables["shortlists"][name].to_pylist() for name in ("user_id", "object_ids")), strict=True)
        )
        retrieve = Retrieve(asker("retrieve"), data.histories, claims, data.pool, shortlists, seed=self.config.seed)
        tables["retrievals"] = retrieve.records(ask(retrieve))
        if data.taxonomy is not None:
            interests = [claim.interest for claim in claims]
            mapping = Map(asker("map"), data.taxonomy, interests, batch_size=self.config.names_per_mapping)
            tables["mappings"] = mapping.records(ask(mapping))
        manifest = run.manifest
        extract_keys = [(key, "extract") for key in _extract_keys(run)]
        tables["answers"] = _answers_table(store, [*extract_keys, *keys])
        manifest["phases"] = {
            "extract": manifest["phases"]["extract"],
            "judge": {
                "model": _describe(config, engine),
                "taxonomy": data.record["taxonomy"],
                "pool_size": len(data.pool),
                "seed": self.config.seed,
                "names_per_mapping": self.config.names_per_mapping,
                "stages": accounts,
                "wall_seconds": round(time.monotonic() - started, 3),
            },
        }
        run.write(tables, manifest)

    def score(self) -> Comparison:
        """Score every candidate from its tables, against their common oracle; no model is asked, no data set read.

        Raises:
            StoreError: a candidate has not been judged.
        """
        runs = self.runs
        unjudged = [run.path.name for run in runs if not run.has("judge")]
        if not runs or unjudged:
            raise StoreError(
                f"{', '.join(unjudged) or self.path}: not judged yet. Run `gistbench judge {self.path}` first."
            )
        manifests = [run.manifest for run in runs]
        record, judge = manifests[0]["data"], manifests[0]["phases"]["judge"]["model"]
        taxonomy = self._taxonomy(record)
        settings: dict[str, Any] = {"signals": record["signals"], "thresholds": self.config.thresholds}
        verified = {run.path.name: verify_run(run, **settings) for run in runs}
        thresholds = next(iter(verified.values())).ig["policy"]["thresholds"]
        oracle = build_oracle(
            {name: one.categories for name, one in verified.items()},
            given=read_given_oracle(self.config.oracle, taxonomy) if self.config.oracle else None,
            taxonomy=taxonomy,
            judge=f"{judge['name']}@{judge['revision']}",
            thresholds=thresholds,
        )
        oracle.write(self.path / "oracle.json")
        resampling: dict[str, Any] = {"n_resamples": self.config.n_resamples, "seed": self.config.seed}
        scored: dict[str, Scored] = {}
        for run, manifest in zip(runs, manifests, strict=True):
            name = run.path.name
            scored[name] = score_run(
                verified[name], oracle=oracle.categories, is_scope=self.config.is_scope, **settings, **resampling
            )
            manifest["phases"]["score"] = {
                **scored[name].summary,
                "oracle": {
                    "version": oracle.version,
                    "n_candidates": len(runs),
                    "given": self.config.oracle is not None,
                },
            }
            run.write(scored[name].tables, manifest)
        comparison = Comparison.of_runs(runs)
        comparison.write(self.path)
        write_json(
            self.path / "suite.json",
            {
                "format": SUITE_FORMAT,
                "runs": [run.path.name for run in runs],
                "data": record,
                "judge": judge,
                "oracle": oracle.version,
                "versions": _versions(),
            },
        )
        return comparison

    def _taxonomy(self, record: Mapping[str, Any]) -> Taxonomy | None:
        """Return the taxonomy that the runs were judged under, and refuse another one."""
        if record["taxonomy"] is None:
            return None
        configured = self.config.taxonomy
        name = record["taxonomy"]["name"] if configured in (None, "none") else configured
        taxonomy = load_taxonomy(name, source=self.config.taxonomy_source)
        if taxonomy.sha256 != record["taxonomy"]["sha256"]:
            raise ConfigError(
                f"The runs in {self.path} were judged under taxonomy {record['taxonomy']['name']!r} "
                f"({record['taxonomy']['sha256'][:12]}), and {name!r} now is {taxonomy.sha256[:12]}. Category ids "
                "would mean different things: judge again in a new suite folder."
            )
        return taxonomy

    def _claims(self, extractions: pa.Table) -> list[Claim]:
        """Return every interest with its cited ids, known and unknown apart."""
        columns = (extractions[name].to_pylist() for name in ("user_id", "interest", "item_ids"))
        own: dict[str, frozenset[str]] = {
            user: self.data.histories.objects_of(user) for user in self.data.histories.users
        }
        return [
            Claim(
                user,
                interest,
                tuple(item for item in item_ids if item in own[user]),
                tuple(item for item in item_ids if item not in own[user]),
            )
            for user, interest, item_ids in zip(*columns, strict=True)
        ]

    def _ask(self, stage: Stage[Any, Any], engine: Engine, store: ResponseStore, what: str) -> list[Answered[Any, Any]]:
        options: dict[str, Any] = {"max_reasks": self.config.max_reasks, "retry_failed": self._retry_failed}
        answers = list(execute(stage, engine, store, progress=self._progress, description=what, **options))
        unread = [answer for answer in answers if answer.parsed.value is None and not answer.followed_up]
        if unread:
            first = unread[0]
            logger.warning(
                "%s: %d of %d answers cannot be used. The first: %s: %s Answer: %.200r",
                what,
                len(unread),
                len(answers),
                first.subject,
                first.outcome.problem or first.parsed.problem,
                first.outcome.text,
            )
        return answers

    def _base_manifest(self) -> dict[str, Any]:
        return {
            "data": self.data.record,
            "prompts": {
                name: {"version": prompt.version, "sha256": prompt.sha256}
                for name, prompt in ((name, load_prompt(name)) for name in PROMPTS)
            },
            "versions": _versions(),
        }

    def _claim_folder(self) -> None:
        """Refuse a folder that holds a run on other data or with other questions."""
        path = self.path / "config.json"
        if not path.exists():
            # Hidden: what a process that was killed, or that starts at this moment, has not moved into its place.
            if self.path.exists() and not self.path.is_dir():
                raise StoreError(f"{self.path} is a file, not a folder. Name another --output.")
            if self.path.exists() and any(not file.name.startswith(".") for file in self.path.iterdir()):
                raise StoreError(f"{self.path} is not empty and no suite folder. Name another --output.")
            self._record(runs=[])
            return
        recorded = read_json(path)
        there, here = recorded["identity"], self._identity()
        differing = sorted(name for name in here if here[name] != there.get(name))
        if differing:
            found = "; ".join(f"{name}: {there.get(name)!r} there, {here[name]!r} now" for name in differing)
            raise StoreError(
                f"{self.path} holds another run ({found}). Name another --output, or go on with the recorded settings."
            )

    def _identity(self) -> dict[str, Any]:
        """Return what must not change within a suite folder."""
        asked = ("chunk_size", "history_length", "max_item_chars", "pool_size", "names_per_mapping", "seed")
        config = self.config.model_dump(mode="json")
        return {
            **{name: config[name] for name in asked},
            "sha256": self.data.record["sha256"],
            "users_sha256": self.data.record["users_sha256"],
            "taxonomy": self.data.record["taxonomy"],
        }

    def _claim_judge(self, judge: ModelRef) -> None:
        """Record the judge, and refuse a second one."""
        recorded = read_json(self.path / "config.json")["judge"]
        if recorded is not None and ModelRef(**recorded) != judge:
            raise StoreError(
                f"{self.path} is judged by {ModelRef(**recorded)}, not by {judge}, and scores of different judges "
                "do not compare. Name another --output (with --store the extractions are not paid for again)."
            )
        self._record(judge=asdict(judge))

    def _record(self, **changes: Any) -> None:
        """Write down what was asked for, which run folders belong to it and who judges."""
        path = self.path / "config.json"
        recorded = read_json(path) if path.exists() else {"runs": [], "judge": None}
        write_json(
            path,
            {
                "format": SUITE_FORMAT,
                "config": self.config.model_dump(mode="json"),
                "identity": self._identity(),
                "judge": recorded["judge"],
                "runs": recorded["runs"],
                **changes,
            },
        )

    def _check_data(self, run: RunFolder) -> None:
        recorded = run.manifest["data"]
        if recorded != self.data.record:
            raise StoreError(
                f"{run.path} was extracted from other data ({recorded['dataset']}, {recorded['sha256'][:12]}) than is "
                f"there now ({self.data.record['sha256'][:12]}). Extract again in a new folder."
            )


def run_folders(path: Path) -> list[RunFolder]:
    """Return the run folders of a suite folder, or a run folder itself.

    Raises:
        StoreError: the path is neither.
    """
    if (path / "manifest.json").exists():
        return [RunFolder(path)]
    return [RunFolder(path / name) for name in _recorded(path)["runs"]]


def _recorded(path: Path) -> dict[str, Any]:
    """Return what a suite folder records of itself."""
    file = path / "config.json"
    if not file.exists():
        raise StoreError(f"{path} is no suite folder: it has no config.json. `gistbench run` or `extract` makes one.")
    recorded: dict[str, Any] = read_json(file)
    return recorded


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


@contextmanager
def _engine(config: ModelConfig) -> Iterator[Engine]:
    engine = open_engine(config)
    try:
        yield engine
    finally:
        engine.close()


def _cited(extractions: pa.Table) -> pa.Table:
    """Return the (user, object) pairs that a candidate cites."""
    lists = extractions["item_ids"].combine_chunks()
    return pa.table(
        {"user_id": extractions["user_id"].take(lists.value_parent_indices()), "object_id": lists.flatten()}
    )


def _extract_keys(run: RunFolder) -> list[str]:
    answers = run.read("answers")
    pairs = zip(answers["request_key"].to_pylist(), answers["stage"].to_pylist(), strict=True)
    return [key for key, stage in pairs if stage == "extract"]


ANSWERS = pa.schema(
    [
        ("request_key", pa.string()),
        ("stage", pa.string()),
        ("about", pa.string()),
        ("model", pa.string()),
        ("attempt", pa.int64()),
        ("status", pa.string()),
        ("text", pa.string()),
        ("reasoning", pa.string()),
        ("problem", pa.string()),
        ("finish_reason", pa.string()),
        ("n_prompt_tokens", pa.int64()),
        ("n_cached_tokens", pa.int64()),
        ("n_output_tokens", pa.int64()),
        ("n_reasoning_tokens", pa.int64()),
        ("seconds", pa.float64()),
        ("finished_at", pa.string()),
    ]
)


def _answers_table(store: ResponseStore, keys: Iterable[tuple[str, str]]) -> pa.Table:
    """Return every attempt at some requests, in the order of the requests."""
    rows = []
    for key, stage in dict.fromkeys(keys):
        rows += [{**row, "request_key": key, "stage": stage} for row in store.rows(key)]
    return pa.Table.from_pylist([{name: row[name] for name in ANSWERS.names} for row in rows], ANSWERS)


def _account(answers: Iterable[Answered[Any, Any]], store: ResponseStore) -> dict[str, Any]:
    """Return a stage's outcomes, and its tokens and seconds over all attempts, whichever session made them."""
    answers = list(answers)
    outcomes = {answer.key: answer.outcome for answer in answers}
    counts = dict.fromkeys(STATUSES, 0)
    for outcome in outcomes.values():
        counts[outcome.status] += 1
    return {
        "n_subjects": sum(not answer.followed_up for answer in answers),
        "n_requests": len(outcomes),
        "n_unreadable": sum(answer.parsed.value is None and not answer.followed_up for answer in answers),
        "outcomes": counts,
        **store.totals(outcomes),
    }


def _describe(config: ModelConfig, engine: Engine) -> dict[str, Any]:
    return {
        **asdict(engine.model),
        "sampling": asdict(config.sampling(0)) | {"max_tokens": config.max_tokens},
        "structured": config.structured,
        **engine.describe(),
    }


def _versions() -> dict[str, str | None]:
    return {"python": platform.python_version(), "commit": _commit(), **{name: version(name) for name in PACKAGES}}


@cache
def _commit() -> str | None:
    """Return the commit of the checkout that this code runs from, with a mark when it was changed; None elsewhere."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        found = subprocess.run([*git, "describe", "--always", "--dirty", "--abbrev=40"], capture_output=True, text=True)
    except OSError:  # no git on this machine
        return None
    inside = "site-packages" not in __file__ and found.returncode == 0
    return found.stdout.strip() if inside else None
