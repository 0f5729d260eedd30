import os
import signal

import pytest
from gistbench.hf_datasets.errors import ConfigError
from gistbench.runners.halt import CallLimit, Halt
from gistbench.runners.requests import Outcome


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_to_stop_and_the_second_stops(number):
    halt = Halt()
    before = signal.getsignal(number)
    with halt.on_signals():
        assert not halt.wanted
        os.kill(os.getpid(), number)
        assert halt.wanted
        assert halt.exit_status == 130
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) == before


def test_a_signal_after_a_spent_limit_is_still_the_first():
    halt = Halt(CallLimit(1))
    halt.take_in(Outcome("k", "error", final=False))
    assert not halt.wanted
    halt.take_in(Outcome("k", "ok"))
    assert halt.exit_status == 3
    with halt.on_signals():
        os.kill(os.getpid(), signal.SIGINT)
    assert halt.exit_status == 130


def test_a_limit_that_allows_nothing_is_an_error():
    with pytest.raises(ConfigError, match="allows nothing"):
        CallLimit(0)
