"""Brings a stage, an engine and the store together.

Requests are rendered as the engine takes them, so memory does not grow with their number. What the store has is
not asked again. Every outcome is committed before anything else happens with it.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, Protocol

from ..hf_datasets.errors import EngineError
from .engines.base import Engine
from .requests import Outcome, Request
from .stages.base import Answered, Stage
from .store import ResponseStore

__all__ = ["Progress", "SilentProgress", "execute"]

MAX_ERRORS_IN_A_ROW = 32
"""After so many errors with no answer between them the engine is taken to be broken, and the run stops."""


class Progress(Protocol):
    """What long work tells about itself."""

    def start(self, description: str, total: int) -> None:
        """Say that work of `total` requests begins."""

    def advance(self, *, stored: bool) -> None:
        """Say that one request is done, from the store or by the engine."""

    def grow(self, n: int) -> None:
        """Say that `n` more requests came up."""

    def finish(self) -> None:
        """Say that the work is done."""


class SilentProgress:
    """A progress that says nothing."""

    def start(self, description: str, total: int) -> None:
        """Ignore."""

    def advance(self, *, stored: bool) -> None:
        """Ignore."""

    def grow(self, n: int) -> None:
        """Ignore."""

    def finish(self) -> None:
        """Ignore."""


def execute(
    stage: Stage[Any, Any],
    engine: Engine,
    store: ResponseStore,
    *,
    max_reasks: int = 2,
    window: int = 512,
    retry_failed: bool = False,
    progress: Progress | None = None,
    description: str = "",
) -> Iterator[Answered[Any, Any]]:
    """Ask a stage's requests and yield every answer, in the order of arrival.

    Args:
        stage: what is asked.
        engine: who answers.
        store: where outcomes are kept.
        max_reasks: how often an answer that could not be read is asked for again, with a reminder.
        window: requests looked up in the store at once.
        retry_failed: ask again also what the store holds a finished but unreadable answer for.
        progress: told of every request.
        description: what the work is called in the progress.

    Yields:
        Every subject with an answer, those asked again included (``followed_up``).

    Raises:
        EngineError: the engine fails at every request; what was answered is kept.
    """
    progress = progress or SilentProgress()
    subjects: Sequence[Any] = stage.subjects()
    progress.start(description or stage.name, len(subjects))
    for n_reask in range(max_reasks + 1):
        following: list[Any] = []
        for subject, key, outcome in _answer(
            stage, subjects, n_reask, engine, store, window, retry_failed, n_reask == max_reasks, progress
        ):
            parsed = _read(stage, subject, outcome)
            follow_up = None
            if n_reask < max_reasks and outcome.status not in ("error", "refused"):
                follow_up = stage.follow_up(subject, parsed)
            if follow_up is not None:
                following.append(follow_up)
            yield Answered(subject, key, outcome, parsed, followed_up=follow_up is not None)
        if not following:
            break
        # Arrival order differs from run to run; the order of asking must not.
        subjects = sorted(following, key=str)
        progress.grow(len(subjects))
    progress.finish()


def _read(stage: Stage[Any, Any], subject: Any, outcome: Outcome) -> Any:
    """Read an answer; what is no answer reads as unreadable."""
    parsed = stage.parse(subject, outcome)
    if outcome.status in ("error", "refused"):
        return replace(parsed, status="invalid", value=None, problem=outcome.problem)
    return parsed


def _answer(
    stage: Stage[Any, Any],
    subjects: Sequence[Any],
    n_reask: int,
    engine: Engine,
    store: ResponseStore,
    window: int,
    retry_failed: bool,
    is_last_round: bool,
    progress: Progress,
) -> Iterator[tuple[Any, str, Outcome]]:
    """Answer one round of subjects, from the store where it can, else by the engine."""
    unanswered: dict[str, list[Any]] = {}

    def retries(outcome: Outcome) -> bool:
        # An unreadable answer that is asked again with a reminder has its retry there.
        return retry_failed and (is_last_round or outcome.status == "refused")

    for start in range(0, len(subjects), window):
        requests = [(subject, stage.request(subject, n_reask)) for subject in subjects[start : start + window]]
        served = store.served({request.key for _, request in requests})
        for subject, request in requests:
            outcome = served.get(request.key)
            if outcome is None or (retries(outcome) and _read(stage, subject, outcome).value is None):
                unanswered.setdefault(request.key, []).append(subject)
            else:
                progress.advance(stored=True)
                yield subject, outcome.key, outcome

    # Rendered again as the engine takes them: cheaper than keeping every prompt of a stage in memory.
    in_flight: dict[str, Request] = {}

    def requests_for_engine() -> Iterator[Request]:
        for key, waiting in unanswered.items():
            in_flight[key] = stage.request(waiting[0], n_reask)
            yield in_flight[key]

    errors_in_a_row = 0
    # Closed at once when the caller stops: calls in flight must not go on being paid for.
    with closing(engine.generate(requests_for_engine())) as outcomes:
        for outcome in outcomes:
            request, waiting = in_flight[outcome.key], unanswered[outcome.key]
            if outcome.status == "ok":
                parsed = stage.parse(waiting[0], outcome)
                if parsed.status != "ok":
                    outcome = replace(outcome, status=parsed.status, problem=parsed.problem)
            # What the store serves may be older (another process was first): what the engine said decides what follows.
            final, failed = outcome.final, outcome.status == "error"
            outcome = store.commit(request, outcome)
            if not final:
                continue
            errors_in_a_row = errors_in_a_row + 1 if failed else 0
            del in_flight[outcome.key]
            for subject in waiting:
                progress.advance(stored=False)
                yield subject, outcome.key, outcome
            if errors_in_a_row >= MAX_ERRORS_IN_A_ROW:
                raise EngineError(
                    f"{engine.model} failed at {errors_in_a_row} requests in a row; the last was {request.about}: "
                    f"{outcome.problem} What was answered is kept: put the engine right and run the same command again."
                )
    if in_flight:
        lost = next(iter(in_flight.values()))
        raise EngineError(
            f"The engine of {engine.model} ended without an outcome for {len(in_flight)} requests, such as "
            f"{lost.about}."
        )
