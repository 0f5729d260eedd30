"""Several processes, started together by ``accelerate launch``: the main one works, the others answer prompts for it.

Only the main process reads data, plans, writes to the store and scores; the others wait for batches of prompts. So no
phase runs twice, there is one writer, and the processes need not share a disk. What is sent goes over gloo between
the main process and each other one; the others end when they are told to, or when the main process is gone.

This module knows nothing of models: what a batch is, an engine says.
"""

import logging
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from ...hf_datasets.errors import EngineError

__all__ = ["Team", "current_team", "processes"]

logger = logging.getLogger(__name__)

_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_LONGEST_WAIT = timedelta(days=30)
"""For the next batch: the main process may be at work on other things, or on another model, for days."""
_team: "Team | None" = None


class Team:
    """The processes that were started together, as the main one sees them."""

    def __init__(self, size: int) -> None:
        """Take charge of `size` processes, this one included."""
        self.size = size
        self._is_sound = True

    def answer(self, job: Any, batches: Sequence[Any], answer_here: Callable[[Any], Any]) -> list[Any]:
        """Return what becomes of each batch: the first is answered here, the others each by another process.

        Args:
            job: what the others need to know of the work: a function and its first argument, both of which pickle.
                The function returns another one, which takes a batch.
            batches: at most `size`.
            answer_here: takes a batch.

        Raises:
            EngineError: another process is gone, or cannot do the work.
        """
        self._is_sound = False  # until everything that was sent has been answered
        others = range(1, len(batches))
        try:
            for rank in others:
                _send(("answer", job, batches[rank]), rank)
            error: EngineError | None = None
            results: list[Any] = []
            try:
                results.append(answer_here(batches[0]))
            except EngineError as failure:
                error = failure
            for rank in others:
                status, result = _receive(rank)
                if status == "error":
                    error = error or EngineError(f"Process {rank} of {self.size}: {result}")
                results.append(result)
        except RuntimeError as failure:
            if isinstance(failure, EngineError):
                raise
            raise EngineError(f"One of the {self.size} processes is gone: {failure}") from failure
        self._is_sound = True
        if error is not None:
            raise error
        return results

    def drop(self) -> None:
        """Let the others free what they loaded."""
        self._tell("drop")

    def dismiss(self) -> None:
        """Let the others end."""
        self._tell("end")

    def _tell(self, what: str) -> None:
        if not self._is_sound:
            return  # they notice when this process ends
        for rank in range(1, self.size):
            try:
                _send((what, None, None), rank)
            except RuntimeError as error:
                self._is_sound = False
                logger.warning("Process %d of %d is gone: %s", rank, self.size, error)


def current_team() -> Team | None:
    """Return the processes that this one is the main one of; None when it is alone."""
    return _team


@contextmanager
def processes() -> Iterator[None]:
    """Be one of the processes that were started together: the main one goes on, the others serve it and then exit.

    Where this process was started alone, nothing happens.

    Raises:
        SystemExit: in every process but the main one, when there is nothing more to do.
        EngineError: several processes were started, and torch is not installed.
    """
    global _team
    size = int(os.environ.get("WORLD_SIZE") or 1)
    if size < 2 or _team is not None or not all(name in os.environ for name in _VARIABLES):
        yield
        return
    try:
        import torch.distributed as dist
    except ImportError as error:
        raise EngineError("Several processes need torch: pip install 'gistbench[transformers]'.") from error
    # gloo in any case: only prompts and answers are sent, and no collective runs on a GPU.
    dist.init_process_group("gloo", timeout=_LONGEST_WAIT)
    if dist.get_rank() > 0:
        _serve()
        raise SystemExit(0)
    _team = Team(size)
    try:
        yield
    finally:
        _team.dismiss()
        _team = None
        dist.destroy_process_group()


def _serve() -> None:
    """Answer batches until told to end; a signal is the main process's to heed, which needs what is in flight."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    job: Any = None
    answer: Any = None
    while True:
        try:
            what, wanted, batch = _receive(0)
        except RuntimeError:  # the main process is gone
            return
        if what == "end":
            return
        if what == "drop" or wanted != job:
            _close(answer)
            job = answer = None
        if what == "drop":
            continue
        try:
            if answer is None:
                make, argument = wanted
                job, answer = wanted, make(argument)
            reply = ("ok", answer(batch))
        except (RuntimeError, ValueError, OSError, ImportError) as error:
            reply = ("error", f"{type(error).__name__}: {error}")
        _send(reply, 0)


def _close(answer: Any) -> None:
    if answer is not None:
        answer.close()


def _send(message: Any, rank: int) -> None:
    import torch.distributed as dist

    dist.send_object_list([message], dst=rank)


def _receive(rank: int) -> Any:
    import torch.distributed as dist

    received: list[Any] = [None]
    dist.recv_object_list(received, src=rank)
    return received[0]
