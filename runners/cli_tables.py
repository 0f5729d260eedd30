"""How commands show tables on the terminal: those of the report, laid out by its `sheet`, and others in their look."""

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

if TYPE_CHECKING:
    from .report.export import Sheet

__all__ = ["empty_table", "print_whole", "show_sheet"]


def empty_table(title: str) -> Table:
    """Return a table without columns."""
    return Table(title=escape(title), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)


def print_whole(out: Console, table: Table) -> None:
    """Print a table wider than the terminal rather than cut."""
    wide = Console(width=1000)
    needed = Measurement.get(wide, wide.options, table).maximum
    Console(width=max(out.width, min(needed, 1000))).print(table)


def show_sheet(out: Console, found: "Sheet", title: str) -> None:
    """Print a sheet, with outer headings written into the inner ones; its note is left to the caller."""
    from .report.export import full_headings

    table = empty_table(title)
    for heading, text in zip(found.columns, full_headings(found), strict=True):
        table.add_column(
            escape(text), justify="right" if heading.numeric else "left", no_wrap=heading.numeric, overflow="fold",
            max_width=60,
        )  # fmt: skip
    for row in found.rows:
        cells = []
        for cell in row:
            text = escape(" ".join(cell.text.split()))
            text = f"[bold]{text}[/bold]" if cell.best else text
            text += f" [dim]\\[{cell.interval}][/dim]" if cell.interval else ""
            cells.append(text + (f" [dim]paper {escape(cell.published)}[/dim]" if cell.published else ""))
        table.add_row(*cells)
    print_whole(out, table)
