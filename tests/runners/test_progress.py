import io

from gistbench.runners.progress import BarProgress
from rich.console import Console


def tell(progress):
    with progress:
        progress.start("extract  lexical/hashtag", 3)
        progress.advance(stored=True)
        progress.advance(stored=False)
        progress.advance(stored=False)
        progress.grow(1)
        progress.advance(stored=False)
        progress.finish()
        progress.start("ground   lexical/hashtag", 0)
        progress.finish()


def test_nothing_is_drawn_where_nobody_watches():
    file = io.StringIO()
    tell(BarProgress(Console(file=file, force_terminal=False)))
    assert file.getvalue() == ""


def test_a_terminal_shows_counts_and_what_came_from_the_store():
    file = io.StringIO()
    tell(BarProgress(Console(file=file, force_terminal=True, width=120)))
    shown = file.getvalue()
    assert "extract  lexical/hashtag" in shown
    assert "4/4" in shown
    assert "1 from the store" in shown
    assert "ground   lexical/hashtag" in shown
    assert "0/0" in shown


def test_the_terminal_is_given_back_after_an_error():
    file = io.StringIO()
    try:
        with BarProgress(Console(file=file, force_terminal=True, width=120)) as progress:
            progress.start("extract", 3)
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert file.getvalue().endswith("\x1b[?25h")
