"""An engine whose requests say what it does; it answers with its process and its devices.

``sleep S``, ``die``, ``die once FILE``, ``break`` (a bug), ``fail`` (it says that it cannot run).
"""

import os
import signal
import time
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any, Literal

from gistbench.hf_datasets.errors import EngineError
from gistbench.runners.engines.base import ModelConfig
from gistbench.runners.requests import ModelRef, Outcome, Request


class FakeConfig(ModelConfig):
    engine: Literal["fake"] = "fake"
    name: str = "fake"
    max_num_seqs: int = 8
    takes_pauses: bool = True


class FakeEngine:
    context_tokens = None

    def __init__(self, config: FakeConfig) -> None:
        self.model = ModelRef(config.name, "1", "default/1")
        self.takes_pauses = config.takes_pauses
        self.in_flight: list[Request] = []

    def generate(self, requests: Iterable[Request | None]) -> Generator[Outcome]:
        remaining, exhausted = iter(requests), False
        while not exhausted or self.in_flight:
            while not exhausted and len(self.in_flight) < 64:
                try:
                    request = next(remaining)
                except StopIteration:
                    exhausted = True
                    break
                if request is None:
                    break
                self.in_flight.append(request)
            if self.in_flight:
                yield self.answer(self.in_flight.pop(0))

    def answer(self, request: Request) -> Outcome:
        assert request.about is None
        command, *arguments = request.messages[0].content.split()
        if command == "sleep":
            time.sleep(float(arguments[0]))
        elif command == "fail":
            raise EngineError("there is no such model")
        elif command == "break":
            raise IndexError("a bug")
        elif command == "die" and not (arguments and Path(arguments[1]).exists()):
            if arguments:
                Path(arguments[1]).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        print("what libraries print", flush=True)
        devices = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        return Outcome(key=request.key, status="ok", text=f"{os.getpid()} {devices}")

    def describe(self) -> dict[str, Any]:
        return {"pid": os.getpid()}

    def close(self) -> None:
        pass
