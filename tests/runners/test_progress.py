import io

import pytest
from filelock import FileLock
from gistbench.hf_datasets.errors import StoreError
from gistbench.runners import progress as module
from gistbench.runners.progress import RunProgress
from gistbench.runners.requests import Outcome
from gistbench.runners.suitefolder import SuiteFolder
from rich.console import Console

ANSWER = Outcome("k", "ok", n_prompt_tokens=100, n_cached_tokens=40)


def tell(progress):
    with progress:
        progress.start("extract  lexical/hashtag", 3)
        progress.advance(ANSWER, stored=True)
        progress.advance(ANSWER, stored=False)
        progress.advance(ANSWER, stored=False)
        progress.grow(1)
        progress.advance(ANSWER, stored=False)
        progress.finish()
        progress.start("ground   lexical/hashtag", 0)
        progress.finish()


def test_nothing_is_drawn_where_nobody_watches():
    file = io.StringIO()
    tell(RunProgress(Console(file=file, force_terminal=False)))
    assert file.getvalue() == ""


def test_a_terminal_shows_counts_and_what_came_from_the_store():
    file = io.StringIO()
    tell(RunProgress(Console(file=file, force_terminal=True, width=120)))
    shown = file.getvalue()
    assert "extract  lexical/hashtag" in shown
    assert "4/4" in shown
    assert "1 from the store" in shown
    assert "ground   lexical/hashtag" in shown
    assert "0/0" in shown


def test_the_terminal_is_given_back_after_an_error():
    file = io.StringIO()
    try:
        with RunProgress(Console(file=file, force_terminal=True, width=120)) as progress:
            progress.start("extract", 3)
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert file.getvalue().endswith("\x1b[?25h")


def test_a_line_a_minute_is_written_where_nobody_watches(monkeypatch):
    monkeypatch.setattr(module, "LINE_EVERY_S", 0.0)
    file = io.StringIO()
    tell(RunProgress(Console(file=file, force_terminal=False, width=200)))
    lines = file.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("extract  lexical/hashtag: 1 of 3 (33 %)")
    assert "1 from the store" in lines[-1]


def test_what_became_of_the_requests_is_noted():
    stage = module._Stage("ground", 9, n_done=9, n_stored=2, n_prompt_tokens=200, n_cached_tokens=150, seconds=2.0)
    stage.outcomes.update(ok=4, invalid=2, truncated=1)
    assert stage.note == "2 from the store · 75 % of the prompt cached · 1 truncated · 2 invalid"
    assert (stage.rate, stage.remaining_s) == (3.5, 0.0)


def test_a_run_can_be_watched_from_another_process(tmp_path):
    with RunProgress(Console(file=io.StringIO()), tmp_path) as progress:
        progress.start("extract  lexical/hashtag", 4)
        progress.advance(ANSWER, stored=False)
    file = io.StringIO()
    module.watch(tmp_path, Console(file=file, width=120))
    assert "nobody is at work" in " ".join(file.getvalue().split())  # a long path wraps
    assert "stopped" in file.getvalue()
    with FileLock(tmp_path / ".lock"):
        assert SuiteFolder(tmp_path).is_busy
        module.watch(tmp_path, Console(file=file, width=120))
    assert "running, process" in " ".join(file.getvalue().split())
    assert not SuiteFolder(tmp_path).is_busy


def test_where_no_run_has_begun_there_is_nothing_to_watch(tmp_path):
    with pytest.raises(StoreError, match="no run has begun there"):
        module.watch(tmp_path, Console(file=io.StringIO()))
