"""Brings a stage, an engine and the store together.

Requests are rendered as the engine takes them, so memory does not grow with their number. What the store has is
not asked again. Every outcome is committed before anything else happens with it.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple, Protocol

from ..hf_datasets.errors import EngineError, RunStoppedError
from .engines.base import Engine
from .halt import Halt
from .requests import Outcome, Request
from .retries import FIRST, Retry, is_degenerate, more_room
from .stages.base import Answered, Stage
from .store import ResponseStore

__all__ = ["Progress", "SilentProgress", "execute"]

MAX_ERRORS_IN_A_ROW = 32
"""After so many errors with no answer between them the engine is taken to be broken, and the run stops."""


class Progress(Protocol):
    """What long work tells about itself."""

    def start(self, description: str, total: int) -> None:
        """Say that work of `total` requests begins."""

    def advance(self, outcome: Outcome, *, stored: bool) -> None:
        """Say that one request is done, from the store or by the engine."""

    def grow(self, n: int) -> None:
        """Say that `n` more requests came up."""

    def finish(self) -> None:
        """Say that the work is done."""


class SilentProgress:
    """A progress that says nothing."""

    def start(self, description: str, total: int) -> None:
        """Ignore."""

    def advance(self, outcome: Outcome, *, stored: bool) -> None:
        """Ignore."""

    def grow(self, n: int) -> None:
        """Ignore."""

    def finish(self) -> None:
        """Ignore."""


class _Question(NamedTuple):
    """A subject, and how it is asked this time."""

    subject: Any
    retry: Retry
    cut: "_Reply | None" = None
    """An answer that was cut, with a readable part: it stands where nothing better comes."""


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
    halt: Halt | None = None,
) -> Iterator[Answered[Any, Any]]:
    """Ask a stage's requests and yield every answer, in the order of arrival.

    Args:
        stage: what is asked.
        engine: who answers.
        store: where outcomes are kept.
        max_reasks: how often an answer that could not be read is asked for again; one that was cut is, besides, asked
            for once with more room. 0: nothing is asked again.
        window: requests looked up in the store at once.
        retry_failed: ask again also what the store holds a finished but unreadable answer for.
        progress: told of every request.
        description: what the work is called in the progress.
        halt: whether to stop; what is in flight is waited for.

    Yields:
        Every subject with an answer, those asked again included (``followed_up``).

    Raises:
        EngineError: the engine fails at every request; what was answered is kept.
        RunStoppedError: `halt` said so before everything was answered.
    """
    progress = progress or SilentProgress()
    asking = _Asking(stage, engine, store, max_reasks, window, retry_failed, progress, halt or Halt())
    subjects: Sequence[Any] = stage.subjects()
    progress.start(description or stage.name, len(subjects))
    questions: Iterator[_Question] = (_Question(subject, FIRST) for subject in subjects)
    while True:
        following: list[_Question] = []
        for reply in asking.answers(questions):
            follow_up = asking.follow_up(reply)
            if follow_up is not None:
                following.append(follow_up)
            cut = reply.question.cut if follow_up is None and reply.parsed.value is None else None
            yield reply.answered(followed_up=follow_up is not None or cut is not None)
            if cut is not None:
                yield cut.answered(followed_up=False)
        if not following:
            break
        # Arrival order differs from run to run; the order of asking must not.
        following.sort(key=lambda question: (str(question.subject), question.retry))
        questions = iter(following)
        progress.grow(len(following))
    progress.finish()


class _Reply(NamedTuple):
    """A question with its answer."""

    question: _Question
    key: str
    """Of the request."""
    growing: int | None
    """The longest answer that the request allowed, in tokens, where more may be allowed; else None."""
    outcome: Outcome
    parsed: Any

    def answered(self, *, followed_up: bool) -> Answered[Any, Any]:
        return Answered(self.question.subject, self.key, self.outcome, self.parsed, followed_up)


class _Asking(NamedTuple):
    """What `execute` was told."""

    stage: Stage[Any, Any]
    engine: Engine
    store: ResponseStore
    max_reasks: int
    window: int
    retry_failed: bool
    progress: Progress
    halt: Halt

    def read(self, subject: Any, outcome: Outcome) -> Any:
        """Read an answer; what is no answer, or was found to break its schema, reads as unreadable."""
        parsed = self.stage.parse(subject, outcome)
        if outcome.status in ("error", "refused", "invalid"):
            return replace(parsed, status="invalid", value=None, problem=outcome.problem or parsed.problem)
        return parsed

    def follow_up(self, reply: _Reply) -> _Question | None:
        """Return what is asked again after an answer, and how; None when the answer stands."""
        subject, retry, cut = reply.question
        if reply.outcome.status in ("error", "refused") or not self.max_reasks:
            return None
        if reply.growing is not None and not retry.max_tokens:
            room = more_room(reply.growing, reply.outcome, self.engine.context_tokens)
            if room is not None:
                cut = reply if reply.parsed.value is not None else None
                return _Question(subject, retry._replace(max_tokens=room), cut)
        rest = self.stage.follow_up(subject, reply.parsed)
        if rest is None or retry.n >= self.max_reasks:
            return None
        again = Retry(retry.n + 1, reply.parsed.problem, retry.max_tokens)
        return _Question(rest, again, cut if rest == subject else None)

    def _is_taken(self, reply: _Reply) -> bool:
        """Return whether what the store has is taken for an answer."""
        # An unreadable answer that is asked again in another way has its retry there.
        return not self.retry_failed or reply.parsed.value is not None or self.follow_up(reply) is not None

    def answers(self, questions: Iterator[_Question]) -> Iterator[_Reply]:
        """Answer one round of questions, from the store where it can, else by the engine."""
        windows = iter(lambda: list(islice(questions, self.window)), [])
        # Rendered and not yet taken by the engine; at most one window.
        to_ask: deque[Request] = deque()
        # Taken or about to be; questions that share a request share its answer.
        waiting: dict[str, list[_Question]] = {}
        # Found in the store while the engine was taking requests; without their outcomes, of which there may be many.
        found: deque[tuple[_Question, str, int | None]] = deque()
        asked: set[str] = set()

        def look_up(window: Sequence[_Question]) -> Iterator[_Reply]:
            """Sort out which of a window the store can answer, and queue the others for the engine."""
            requests = [self.stage.request(question.subject, question.retry) for question in window]
            served = self.store.served({request.key for request in requests})
            for question, request in zip(window, requests, strict=True):
                if request.key in waiting:
                    waiting[request.key].append(question)
                    continue
                outcome = served.get(request.key)
                if outcome is not None:
                    parsed = self.read(question.subject, outcome)
                    reply = _Reply(question, request.key, _growing(request), outcome, parsed)
                    if request.key in asked or self._is_taken(reply):
                        yield reply
                        continue
                waiting[request.key] = [question]
                to_ask.append(request)

        def requests_for_engine() -> Iterator[Request]:
            while not self.halt.wanted:
                while not to_ask:
                    window = next(windows, None)
                    if window is None:
                        return
                    found.extend((reply.question, reply.key, reply.growing) for reply in look_up(window))
                request = to_ask.popleft()
                in_flight[request.key] = request
                yield request

        def stored() -> Iterator[_Reply]:
            """Hand out what was found in the store."""
            while found:
                part = [found.popleft() for _ in range(min(self.window, len(found)))]
                served = self.store.served({key for _, key, _ in part})
                for question, key, growing in part:
                    outcome = served[key]
                    self.progress.advance(outcome, stored=True)
                    yield _Reply(question, key, growing, outcome, self.read(question.subject, outcome))

        in_flight: dict[str, Request] = {}
        for window in windows:
            for reply in look_up(window):
                self.progress.advance(reply.outcome, stored=True)
                yield reply
            if to_ask:
                break
        if not to_ask:
            return
        errors_in_a_row = 0
        # Closed at once when the caller stops: calls in flight must not go on being paid for.
        with self.halt.counting(self.engine), closing(self.engine.generate(requests_for_engine())) as outcomes:
            for outcome in outcomes:
                request = in_flight[outcome.key]
                outcome, parsed = self._judged(waiting[outcome.key][0].subject, outcome)
                # What the store serves may be older (another process was first): what the engine said decides.
                final, failed = outcome.final, outcome.status == "error"
                self.halt.take_in(outcome)
                said, outcome = outcome, self.store.commit(request, outcome)
                if not final:
                    continue
                errors_in_a_row = errors_in_a_row + 1 if failed else 0
                del in_flight[outcome.key]
                if self.retry_failed:
                    asked.add(outcome.key)
                for number, question in enumerate(waiting.pop(outcome.key)):
                    if number or outcome is not said:
                        parsed = self.read(question.subject, outcome)
                    self.progress.advance(outcome, stored=False)
                    yield _Reply(question, request.key, _growing(request), outcome, parsed)
                if errors_in_a_row >= MAX_ERRORS_IN_A_ROW:
                    raise EngineError(
                        f"{self.engine.model} failed at {errors_in_a_row} requests in a row; the last was "
                        f"{request.about}: {outcome.problem} What was answered is kept: put the engine right and run "
                        "the same command again."
                    )
                yield from stored()
        yield from stored()
        if in_flight:
            lost = next(iter(in_flight.values()))
            raise EngineError(
                f"The engine of {self.engine.model} ended without an outcome for {len(in_flight)} requests, such as "
                f"{lost.about}."
            )
        if self.halt.wanted and (to_ask or next(windows, None) is not None):
            raise RunStoppedError(self.halt.reason, self.halt.exit_status)

    def _judged(self, subject: Any, outcome: Outcome) -> tuple[Outcome, Any]:
        """Return an outcome with what reading it found, and that: an answer that cannot be read is none."""
        parsed = self.read(subject, outcome)
        if outcome.status == "ok" and parsed.status != "ok":
            outcome = replace(outcome, status=parsed.status, problem=parsed.problem)
        elif outcome.status == "truncated" and is_degenerate(outcome.text or outcome.reasoning):
            outcome = replace(outcome, problem="The answer repeats itself until it is cut.")
        return outcome, parsed


def _growing(request: Request) -> int | None:
    return request.sampling.max_tokens if request.may_grow else None
