"""A session with a judge: its engine and the response store, and one way to ask a stage."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...hf_datasets.errors import ConfigError
from ..accounting import versions
from ..asking import ask
from ..engines import Engine, ModelConfig, open_engine, parse_model
from ..execute import Progress, SilentProgress
from ..halt import Halt
from ..prompts import load_prompt
from ..rated import ItemTexts, RatedHistories
from ..runfolder import slug
from ..stages.base import Answered, Asker, Stage
from ..store import ResponseStore
from ..tally import Tally
from .judged import path_of_store
from .work import Work

__all__ = ["Judging", "open_judge", "read_histories"]

logger = logging.getLogger(__name__)


@dataclass
class Judging:
    """A judge who can be asked."""

    config: ModelConfig
    engine: Engine
    store: ResponseStore
    max_reasks: int = 2
    retry_failed: bool = False
    progress: Progress = field(default_factory=SilentProgress)
    halt: Halt = field(default_factory=Halt)

    @property
    def name(self) -> str:
        """The name of the judge's folder, unless another is chosen."""
        return slug(self.engine.model)

    @property
    def identity(self) -> dict[str, Any]:
        """What decides the judge's answers."""
        return {
            **asdict(self.engine.model),
            "sampling": asdict(self.config.sampling(0)) | {"max_tokens": self.config.max_tokens},
            "structured": self.config.structured,
            "context_tokens": self.engine.context_tokens,
            "max_reasks": self.max_reasks,
        }

    def asker(self, stage: str, repeat: int = 0) -> Asker:
        """Return the asker of a stage."""
        return Asker.of(stage, self.engine.model, self.config, self.engine.context_tokens, repeat)

    def ask(self, stage: Stage[Any, Any], what: str, tally: Tally, work: list[Any]) -> Iterator[Answered[Any, Any]]:
        """Yield a stage's answers, and say in the end how many cannot be used.

        Args:
            stage: what is asked.
            what: its name in the progress.
            tally: counts the answers.
            work: what the store calls this work; sessions of the same add up.
        """
        return ask(
            stage,
            self.engine,
            self.store,
            description=what,
            work=work,
            tally=tally,
            max_reasks=self.max_reasks,
            retry_failed=self.retry_failed,
            progress=self.progress,
            halt=self.halt,
        )

    def account(self, stage: str, *tallies: Tally) -> dict[str, Any]:
        """Return what a record says of how it was made, and ``n_errors``: questions that got no answer at all."""
        prompt = load_prompt(stage)
        accounts = [tally.account(self.store) for tally in tallies]
        return {
            "model": self.identity | {"engine": self.engine.describe()},
            "prompt": {"version": prompt.version, "sha256": prompt.sha256},
            "answers": accounts,
            "n_errors": sum(account["outcomes"]["error"] for account in accounts),
            "versions": versions(),
        }


@contextmanager
def open_judge(
    work: Work, model: str | dict[str, Any], *, store: Path | str | None = None, **options: Any
) -> Iterator[Judging]:
    """Open a judge; its model is loaded when something is first asked.

    Args:
        work: the work folder, which has the store unless another is named.
        model: its specification.
        store: of answers.
        options: of :class:`Judging`.

    Raises:
        ConfigError: the model cannot judge.
        StoreError: nothing is pooled.
        EngineError: the engine is not installed.
    """
    config = parse_model(model)
    if "judge" not in config.roles or config.engine == "lexical":
        raise ConfigError(f"{config.name} cannot induce profiles and grade items: name a language model.")
    work.record("pool")  # before anything is made, where no steps were
    path = Path(store) if store else path_of_store(work)
    path.parent.mkdir(parents=True, exist_ok=True)
    engine = open_engine(config)
    try:
        with ResponseStore(path) as opened:
            yield Judging(config, engine, opened, **options)
    finally:
        engine.close()


def read_histories(work: Work, users: list[str]) -> tuple[RatedHistories, str]:
    """Return the training histories of some users, and the fingerprint of all that they are read from.

    Raises:
        ConfigError: ratings do not end at 5, so grades from 0 to 5 would not compare.
    """
    record = work.record("split")
    items = work.read("items") if "items" in record["tables"] else None
    if items is None:
        logger.warning("%s has no metadata of items: a judge sees their ids only. Split with --items FILE.", work.path)
    histories = RatedHistories(work.read("ratings"), ItemTexts(items), users)
    if not 4 <= histories.highest <= 5:
        raise ConfigError(
            f"Ratings go from {histories.scale}; grades go from 0 to 5 and are compared as they are. Rescale the "
            "ratings to end at 5, and split again."
        )
    return histories, str(record["fingerprint"])
