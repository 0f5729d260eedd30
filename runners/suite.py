"""A suite: several candidates on one data set under one judge, from histories to a scored comparison.

A suite folder holds one run folder for each candidate, the response store, the oracle and the comparison. Its three
phases (extract, judge, score) can be run apart; each can be repeated, and asks no model for what the store has.
"""

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..hf_datasets import Taxonomy, load_taxonomy
from ..hf_datasets.errors import ConfigError, GistbenchWarning, StoreError
from .accounting import ANSWERS, versions, write_answers
from .asking import ask
from .comparison import Comparison
from .config import RunConfig, load_config
from .data import Data, load_data
from .engines import Engine, ModelConfig, open_engine, parse_model
from .execute import Progress, SilentProgress
from .halt import Halt
from .oracle import Category, TaxonomyName, build_oracle, read_given_oracle
from .prompts import PROMPTS, load_prompt
from .requests import ModelRef, canonical_json
from .runfolder import RunFolder, slug, write_json
from .score import check_thresholds, score_run, verify_run
from .stages.base import Answered, Asker, Stage
from .stages.extract import Extract
from .stages.ground import Claim, Ground
from .stages.map import Map
from .stages.retrieve import Retrieve
from .stages.shortlist import Shortlist
from .store import STORE_NAME, ResponseStore
from .suitefolder import SUITE_FORMAT, SuiteFolder
from .tally import Tally

__all__ = ["STAGES", "Suite"]

logger = logging.getLogger(__name__)

_EXTRACTED = ("repeat", "chunk_size", "history_length", "max_item_chars", "users_sha256")
"""Of what must not change within a suite, what decides the questions of the extraction."""
STAGES = ("extract", "ground", "shortlist", "retrieve", "map")
"""The stages that ask a model, in their order."""


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
        halt: Halt | None = None,
        until: str | None = None,
    ) -> None:
        """Name the folder and what is to be done; nothing is read or written yet.

        Args:
            path: the suite folder.
            config: of the run.
            store: the response store; by default in the suite folder. Several suites may share one.
            retry_failed: ask again what the store holds a finished but unreadable answer for.
            progress: told of every request.
            halt: whether to stop before everything is asked.
            until: the stage to end with, one of `STAGES`; None goes on to the scores.

        Raises:
            ConfigError: there is no such stage.
        """
        if until not in (None, *STAGES):
            raise ConfigError(f"There is no stage {until!r}. There are: {', '.join(STAGES)}.")
        self.path = Path(path)
        self._folder = SuiteFolder(path)
        self.config = config
        self._store_path = Path(store) if store else self.path / STORE_NAME
        self._retry_failed = retry_failed
        self._progress = progress or SilentProgress()
        self._halt = halt or Halt()
        self._until = until

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
        recorded = SuiteFolder(path).recorded
        return cls(path, load_config(None, recorded["config"] | _given(changes or {})), **options)

    @cached_property
    def data(self) -> Data:
        """The data, loaded when first used."""
        return load_data(self.config)

    @property
    def runs(self) -> list[RunFolder]:
        """The run folders of the configured candidates, in their order, as recorded when they were extracted."""
        return self._folder.runs

    def run(self) -> Comparison | None:
        """Run all phases; None where the run ends before the scores."""
        configs = self.check()
        self._try_store()
        with self._folder.lock():
            self._extract(configs)
            if self._until == "extract":
                return None
            self._judge()
            return None if self._until not in (None, "map") else self._score()

    def check(self) -> list[ModelConfig]:
        """Make sure of all that can be known to fail before anything is paid for; nothing is loaded or written.

        Returns:
            The candidates.

        Raises:
            GistbenchError: a model, the data, the oracle or the thresholds cannot be used, or another model judges
                here.
        """
        # What can be known to fail later is told before anything is paid for.
        judge = parse_model(self.config.judge, "judge")
        check_thresholds(self.config.thresholds)
        if self.config.oracle is not None:
            with warnings.catch_warnings(action="ignore", category=GistbenchWarning):
                read_given_oracle(self.config.oracle, self.data.taxonomy)
        configs = self._candidates()
        if judge.engine == "lexical" and any(config.engine != "lexical" for config in configs):
            warnings.warn(
                f"Models are judged by {judge.name}, which compares words and understands none. Name a model as the "
                "judge for scores that mean something.",
                GistbenchWarning,
                stacklevel=2,
            )
        with _engine(judge) as engine:  # nothing is loaded before the first request
            self._folder.refuse_other_judge(engine.model)
            self._halt.check(engine)
        return configs

    def extract(self) -> list[RunFolder]:
        """Ask every candidate for the interests of every user.

        Raises:
            ConfigError: no candidates, the same candidate twice, or a folder that holds another run.
            EngineError: a candidate cannot be loaded, or fails at every request.
        """
        parse_model(self.config.judge, "judge")
        configs = self._candidates()
        self._try_store()
        with self._folder.lock():
            return self._extract(configs)

    def _try_store(self) -> None:
        """Open a store that lies elsewhere before the folder is made: one that cannot be used leaves no trace."""
        if self.path.resolve() not in self._store_path.resolve().parents:
            self._folder.refuse_foreign()
            with ResponseStore(self._store_path) as store:
                store.try_writing()

    def _candidates(self) -> list[ModelConfig]:
        """Return the candidates, having made sure of all that can be known to be wrong before a folder is made."""
        configs = [parse_model(candidate, "candidate") for candidate in self.config.candidates]
        if not configs:
            raise ConfigError("No candidate is named. Name at least one: --candidate lexical/hashtag.")
        named: set[str] = set()
        for config in configs:
            with _engine(config) as engine:
                if slug(engine.model) in named:
                    raise ConfigError(
                        f"The candidate {engine.model} is named twice. The same model with other sampling goes into a "
                        "suite of its own; --store shares what was asked already."
                    )
                named.add(slug(engine.model))
                _refuse_other_sampling(RunFolder(self.path / slug(engine.model)), _describe(config, engine))
                self._halt.check(engine)
        _ = self.data
        return configs

    def _extract(self, configs: list[ModelConfig]) -> list[RunFolder]:
        self._claim()
        self._folder.begin()
        if self.runs and not self._store_path.exists():
            logger.warning(
                "%s is not there, though candidates were asked here before: everything is asked again. Where it only "
                "lies elsewhere, stop with Ctrl-C and name it with --store.",
                self._store_path,
            )
        recorded = [run.path.name for run in self.runs]
        names: list[str] = []
        for config in configs:
            with _engine(config) as engine, ResponseStore(self._store_path) as store:
                names.append(slug(engine.model))
                self._extract_one(RunFolder(self.path / names[-1]), config, engine, store)
        if dropped := [name for name in recorded if name not in names]:
            logger.warning(
                "%s: no longer part of the comparison: %s. Their folders are kept: name them with the others to have "
                "them back.",
                self.path,
                ", ".join(dropped),
            )
        self._folder.record(self._config_record, self._identity(), runs=names)
        return self.runs

    def _extract_one(self, run: RunFolder, config: ModelConfig, engine: Engine, store: ResponseStore) -> None:
        stage = Extract(
            self._asker("extract", engine, config),
            self.data.histories,
            chunk_size=self.config.chunk_size,
            history_length=self.config.history_length,
        )
        tally = Tally()
        model = _describe(config, engine)
        _refuse_other_sampling(run, model)
        answers = self._ask(stage, engine, store, candidate=engine.model, who=[_who(model)], tally=tally)
        users, extractions = stage.records(answers)
        cited = _cited(extractions)
        phase = {
            "model": _describe(config, engine),
            "chunk_size": self.config.chunk_size,
            "history_length": self.config.history_length,
            "max_item_chars": self.config.max_item_chars,
            **_accounted({"extract": tally}, store),
        }
        tables = {
            "users": users,
            "extractions": extractions,
            "evidence": self.data.histories.evidence(cited),
        }
        manifest = {"data": self.data.record, "candidate": asdict(engine.model), "phases": {"extract": phase}}
        keys = [(key, "extract") for key in tally.keys]
        if _stands(run, "extract", tables):
            # Nothing new was said: what was made of it stands.
            manifest["phases"] = {**run.manifest["phases"], "extract": phase}
            keys += [(key, stage) for key, stage in _asked(run) if stage != "extract"]
            run.write({"answers": partial(write_answers, store, keys)}, manifest)
        else:
            run.write({**tables, "answers": partial(write_answers, store, keys)}, manifest, phase="extract")

    def adopt(self, candidate: ModelRef, users: pa.Table, extractions: pa.Table, phase: Mapping[str, Any]) -> RunFolder:
        """Take a candidate's interests as they are, in place of asking it; they are judged like any others.

        Args:
            candidate: who named them.
            users: every user, with ``scored``.
            extractions: the interests, with all cited ids.
            phase: what is recorded of the extraction.

        Raises:
            StoreError: the folder holds another run.
        """
        with self._folder.lock():
            self._claim()
            run = RunFolder(self.path / slug(candidate))
            evidence = self.data.histories.evidence(_cited(extractions))
            tables = {"users": users, "extractions": extractions, "evidence": evidence}
            if not _stands(run, "extract", tables):
                manifest = {
                    "data": self.data.record,
                    "candidate": asdict(candidate),
                    "phases": {"extract": dict(phase)},
                }
                run.write({**tables, "answers": ANSWERS.empty_table()}, manifest, phase="extract")
            self._folder.record(self._config_record, self._identity(), runs=[run.path.name])
            return run

    def judge(self) -> None:
        """Ask the judge about every candidate's interests.

        Raises:
            StoreError: a candidate has not been extracted, or its data is another.
            EngineError: the judge cannot be loaded, or fails at every request.
        """
        with self._folder.lock():
            self._judge()

    def _judge(self) -> None:
        runs = self.runs
        if not runs:
            raise StoreError(f"{self.path} holds no extracted candidates. Run `gistbench extract` first.")
        config = parse_model(self.config.judge, "judge")
        for run in runs:
            self._check_data(run)
        with _engine(config) as engine, ResponseStore(self._store_path) as store:
            self._folder.refuse_other_judge(engine.model)
            self._claim()
            self._halt.check(engine)
            self._folder.record(self._config_record, self._identity(), judge=asdict(engine.model))
            for run in runs:
                self._judge_one(run, config, engine, store)

    def _judge_one(self, run: RunFolder, config: ModelConfig, engine: Engine, store: ResponseStore) -> None:
        candidate = ModelRef(**run.manifest["candidate"])
        if candidate == engine.model:
            warnings.warn(
                f"{candidate} judges itself: its scores do not compare to other candidates'. Name another judge.",
                GistbenchWarning,
                stacklevel=2,
            )
        data = self.data
        claims = self._claims(run.read("extractions"))
        who = [_who(run.manifest["phases"]["extract"]["model"]), _who(_describe(config, engine))]
        tallies: dict[str, Tally] = {}

        def ask_stage(stage: Stage[Any, Any]) -> Iterator[Answered[Any, Any]]:
            tallies[stage.name] = Tally()
            return self._ask(stage, engine, store, candidate=candidate, who=who, tally=tallies[stage.name])

        tables = self._judgements(claims, ask_stage, lambda stage: self._asker(stage, engine, config))
        if tables is None:
            return
        keys = [(key, name) for name, tally in tallies.items() for key in tally.keys]
        manifest = run.manifest
        extracted = [(key, stage) for key, stage in _asked(run) if stage == "extract"]
        answers = {"answers": partial(write_answers, store, [*extracted, *keys])}
        manifest["phases"] = {
            "extract": manifest["phases"]["extract"],
            "judge": {
                "model": _describe(config, engine),
                "taxonomy": data.record["taxonomy"],
                "pool_size": len(data.pool),
                "seed": self.config.seed,
                "names_per_mapping": self.config.names_per_mapping,
                **_accounted(tallies, store),
            },
        }
        if _stands(run, "judge", tables):
            # Nothing new was judged: the scores stand.
            manifest["phases"] |= {name: value for name, value in run.manifest["phases"].items() if name == "score"}
            run.write(answers, manifest)
        else:
            run.write({**tables, **answers}, manifest, phase="judge")

    def _judgements(
        self,
        claims: Sequence[Claim],
        ask_stage: Callable[[Stage[Any, Any]], Iterator[Answered[Any, Any]]],
        asker: Callable[[str], Asker],
    ) -> dict[str, pa.Table] | None:
        """Ask the judge's stages of one candidate; None where the run ends before the last of them."""
        data = self.data
        names: dict[str, list[str]] = {}
        for claim in claims:
            names.setdefault(claim.user, []).append(claim.interest)
        ground = Ground(asker("ground"), data.histories, claims)
        tables = {"groundings": ground.records(ask_stage(ground))}
        if self._until == "ground":
            return None
        shortlist = Shortlist(asker("shortlist"), data.pool, names)
        short = tables["shortlists"] = shortlist.records(ask_stage(shortlist))
        if self._until == "shortlist":
            return None
        shortlists = dict(zip(short["user_id"].to_pylist(), short["object_ids"].to_pylist(), strict=True))
        unanswered = set(short.filter(pc.greater(short["n_unanswered"], 0))["user_id"].to_pylist())
        retrieve = Retrieve(
            asker("retrieve"),
            data.histories,
            claims,
            data.pool,
            shortlists,
            unanswered=unanswered,
            seed=self.config.seed,
        )
        tables["retrievals"] = retrieve.records(ask_stage(retrieve))
        if self._until == "retrieve":
            return None
        if data.taxonomy is not None:
            interests = [claim.interest for claim in claims]
            mapping = Map(asker("map"), data.taxonomy, interests, batch_size=self.config.names_per_mapping)
            tables["mappings"] = mapping.records(ask_stage(mapping))
        return tables

    def score(self) -> Comparison:
        """Score every candidate from its tables, against their common oracle; no model is asked, no data set read.

        Raises:
            StoreError: a candidate has not been judged.
        """
        check_thresholds(self.config.thresholds)
        with self._folder.lock():
            return self._score()

    def _score(self) -> Comparison:
        runs = self.runs
        unjudged = [run.path.name for run in runs if not run.has("judge")]
        if not runs or unjudged:
            raise StoreError(
                f"{', '.join(unjudged) or self.path}: not judged yet. Run `gistbench judge {self.path}` first."
            )
        manifests = [run.manifest for run in runs]
        record, judge = manifests[0]["data"], _who(manifests[0]["phases"]["judge"]["model"])
        judges = [_who(manifest["phases"]["judge"]["model"]) for manifest in manifests]
        others = [run.path.name for run, other in zip(runs, judges, strict=True) if other != judge]
        if others:
            raise StoreError(
                f"{', '.join(others)}: judged with other settings than {runs[0].path.name}, by a run that was stopped. "
                f"Run `gistbench judge {self.path}` again."
            )
        settings: dict[str, Any] = {"signals": record["signals"], "thresholds": self.config.thresholds}
        verified = {run.path.name: verify_run(run, **settings) for run in runs}
        oracle = build_oracle(
            {name: one.categories for name, one in verified.items()},
            given=self._given_oracle(record["taxonomy"], {user for one in verified.values() for user in one.requested}),
            taxonomy=TaxonomyName(**record["taxonomy"]) if record["taxonomy"] else None,
            judge=f"{judge['name']}@{judge['revision']}",
            thresholds=next(iter(verified.values())).ig["policy"]["thresholds"],
        )
        oracle.write(self.path / "oracle.json")
        resampling: dict[str, Any] = {"n_resamples": self.config.n_resamples, "seed": self.config.seed}
        about_oracle = {
            "version": oracle.version,
            "n_candidates": len(runs),
            "given": str(self.config.oracle) if self.config.oracle else None,
        }
        for run, manifest in zip(runs, manifests, strict=True):
            scored = score_run(
                verified[run.path.name], oracle=oracle.categories, is_scope=self.config.is_scope, **resampling
            )
            manifest["phases"]["score"] = {
                **scored.summary,
                "oracle": about_oracle,
                "max_unusable_share": self.config.max_unusable_share,
            }
            run.write(scored.tables, manifest, phase="score")
        comparison = Comparison.of_runs(runs)
        comparison.write(self.path)
        write_json(
            self.path / "suite.json",
            {
                "format": SUITE_FORMAT,
                "runs": [run.path.name for run in runs],
                "data": record,
                "judge": judge,
                "oracle": about_oracle,
                "scoring": {"thresholds": self.config.thresholds, "is_scope": self.config.is_scope, **resampling},
                "versions": versions(),
            },
        )
        return comparison

    def _given_oracle(self, recorded: Mapping[str, str] | None, users: set[str]) -> dict[str, list[Category]] | None:
        """Read what the given oracle, if there is one, says of the users."""
        if self.config.oracle is None:
            return None
        given = read_given_oracle(self.config.oracle, self._judged_under(recorded))
        known = {user: categories for user, categories in given.items() if user in users}
        if not known:
            warnings.warn(
                f"The oracle {self.config.oracle} knows none of the {len(users)} users of this run.",
                GistbenchWarning,
                stacklevel=2,
            )
        return known

    def _judged_under(self, recorded: Mapping[str, str] | None) -> Taxonomy | None:
        """Return the taxonomy that the runs were judged under, and refuse another one."""
        if recorded is None:
            return None
        configured = self.config.taxonomy
        name = recorded["name"] if configured in (None, "none") else configured
        taxonomy = load_taxonomy(name, source=self.config.taxonomy_source)
        if taxonomy.sha256 != recorded["sha256"]:
            raise ConfigError(
                f"The runs in {self.path} were judged under taxonomy {recorded['name']!r} ({recorded['sha256'][:12]}), "
                f"and {name!r} now is {taxonomy.sha256[:12]}, so the oracle's ids cannot be checked. Judge again in a "
                "new suite folder, or leave the oracle out."
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

    def _asker(self, stage: str, engine: Engine, config: ModelConfig) -> Asker:
        return Asker.of(stage, engine.model, config, engine.context_tokens, self.config.repeat)

    def _ask(
        self,
        stage: Stage[Any, Any],
        engine: Engine,
        store: ResponseStore,
        *,
        candidate: ModelRef,
        who: list[dict[str, Any]],
        tally: Tally,
    ) -> Iterator[Answered[Any, Any]]:
        """Ask a stage about one candidate; `who` is asked, of the candidate and then of the judge."""
        identity = self._identity()
        if stage.name == "extract":  # several suites may share it, whoever judges there, and over whichever pool
            identity = {name: identity[name] for name in _EXTRACTED} | {"prompt": identity["prompts"]["extract"]}
        return ask(
            stage,
            engine,
            store,
            description=f"{stage.name:<10}{candidate}",
            work=[sha256(canonical_json([identity, who])).hexdigest()],
            tally=tally,
            max_reasks=self.config.max_reasks,
            retry_failed=self._retry_failed,
            progress=self._progress,
            halt=self._halt,
        )

    @property
    def _config_record(self) -> dict[str, Any]:
        return self.config.model_dump(mode="json")

    def _claim(self) -> None:
        """Take the folder, if it is empty or holds a run with the same questions on the same data."""
        self._folder.claim(self._config_record, self._identity(), n_users=len(self.data.histories.users))

    def _identity(self) -> dict[str, Any]:
        """Return what must not change within a suite folder."""
        asked = ("repeat", "chunk_size", "history_length", "max_item_chars", "pool_size", "names_per_mapping", "seed")
        config = self._config_record
        return {
            **{name: config[name] for name in asked},
            "sha256": self.data.record["sha256"],
            "users_sha256": self.data.record["users_sha256"],
            "taxonomy": self.data.record["taxonomy"],
            "prompts": {name: load_prompt(name).sha256 for name in PROMPTS},
        }

    def _check_data(self, run: RunFolder) -> None:
        if not run.has("extract"):
            raise StoreError(f"{run.path}: its extraction has not ended. Run `gistbench extract` again.")
        recorded = run.manifest["data"]
        if recorded != self.data.record:
            raise StoreError(
                f"{run.path} was extracted from other data ({recorded['dataset']}, {recorded['sha256'][:12]}) than is "
                f"there now ({self.data.record['sha256'][:12]}). Extract again in a new folder."
            )


def _refuse_other_sampling(run: RunFolder, model: Mapping[str, Any]) -> None:
    """Make sure that a candidate that was extracted is not asked in another way into the same folder."""
    if run.has("extract") and _who(run.manifest["phases"]["extract"]["model"]) != _who(model):
        there = run.manifest["phases"]["extract"]["model"]["sampling"]
        raise StoreError(
            f"{run.path} was extracted with other sampling ({there}). Name another --output (with --store what was "
            "asked already is not paid for again)."
        )


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


def _accounted(tallies: Mapping[str, Tally], store: ResponseStore) -> dict[str, Any]:
    """Return what became of a phase's requests, what they took, and the prompts and versions they were made with."""
    prompts = {name: load_prompt(name) for name in tallies}
    stages = {name: tally.account(store) for name, tally in tallies.items()}
    return {
        "stages": stages,
        "wall_seconds": round(sum(stage["wall_seconds"] for stage in stages.values()), 3),
        "prompts": {name: {"version": prompt.version, "sha256": prompt.sha256} for name, prompt in prompts.items()},
        "versions": versions(),
    }


def _stands(run: RunFolder, phase: str, tables: Mapping[str, pa.Table]) -> bool:
    """Return whether a phase was completed with just these tables; what cannot be read was not."""
    try:
        return run.has(phase) and _asked(run) is not None and all(run.read(n).equals(t) for n, t in tables.items())
    except StoreError:
        return False


def _asked(run: RunFolder) -> list[tuple[str, str]]:
    """Return the (request key, stage) pairs of a run's attempts."""
    answers = run.read("answers", ["request_key", "stage"])
    return list(zip(answers["request_key"].to_pylist(), answers["stage"].to_pylist(), strict=True))


def _who(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return what decides a model's answers, of all that is recorded of it."""
    return {name: described[name] for name in ("name", "revision", "profile", "sampling", "structured")}


def _describe(config: ModelConfig, engine: Engine) -> dict[str, Any]:
    return {
        **asdict(engine.model),
        "sampling": asdict(config.sampling(0)) | {"max_tokens": config.max_tokens},
        "structured": config.structured,
        **engine.describe(),
    }
