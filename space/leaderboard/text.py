"""How values become text: in HTML, in csv cells, in links. Everything that comes from records passes through here."""

import csv
import io
from collections.abc import Iterable, Sequence
from html import escape as _escape
from typing import Any

__all__ = ["clean", "escape", "excerpt", "fits_name", "number", "percent", "plain", "table", "to_csv"]

# The page's HTML is a template to its framework: `${`, `{{` and backticks must not mean anything in data.
_TEMPLATE = str.maketrans({"$": "&#36;", "{": "&#123;", "}": "&#125;", "`": "&#96;", "\\": "&#92;"})
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%")
MISSING = "–"


def escape(value: Any) -> str:
    """Return a value as text that no browser and no template reads as anything else.

    >>> escape("<b>${x}</b>")
    '&lt;b&gt;&#36;&#123;x&#125;&lt;/b&gt;'
    """
    return _escape(str(value), quote=True).translate(_TEMPLATE)


def plain(value: Any) -> str:
    """Return a name as it can stand in a picture, whose labels know some HTML.

    >>> plain("a<b>c")
    'a‹b›c'
    """
    return str(value).replace("<", "‹").replace(">", "›").replace("&", "＆")


def clean(text: str) -> str:
    """Return a text without marks that mean something elsewhere.

    >>> clean("a<b>\\n")
    'a?b??'
    """
    return "".join(mark if mark.isprintable() and mark not in "<>`" else "?" for mark in text)


def excerpt(value: Any) -> str:
    """Return the beginning of a value of a submission, as it can stand in a message.

    >>> excerpt("<i>")
    '?i?'
    """
    return clean(str(value))[:60]


def percent(value: float | None, digits: int = 1) -> str:
    """Return a fraction in per cent.

    >>> percent(0.5), percent(None)
    ('50.0', '–')
    """
    return MISSING if value is None or value != value else f"{100 * value:.{digits}f}"


def number(value: float | None, digits: int = 0) -> str:
    """Return a number with thousands set apart.

    >>> number(12345), number(None)
    ('12,345', '–')
    """
    return MISSING if value is None or value != value else f"{value:,.{digits}f}"


def fits_name(text: Any) -> bool:
    """Tell whether a text can be the name of a model, a revision or a judge.

    >>> fits_name("org/model-7B@1"), fits_name("<script>"), fits_name("=1+1")
    (True, False, False)
    """
    marks = set("/._-:@+ ")
    return (
        isinstance(text, str)
        and 0 < len(text) <= 150
        and text[0].isalnum()
        and text.isascii()
        and ".." not in text
        and all(mark.isalnum() or mark in marks for mark in text)
    )


def to_csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return csv in which no cell is a formula to a spreadsheet.

    >>> to_csv(["a"], [["=1+1"], [-0.5]])
    "a\\n'=1+1\\n-0.5\\n"
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_cell, header))
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, str) and value.lstrip().startswith(_FORMULA):
        return "'" + value
    return "" if value is None or value != value else value


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[Any]], *, first_is_name: bool = True) -> str:
    """Return an HTML table of plain values.

    Args:
        caption: what it shows, for everyone who reads it.
        header: the columns.
        rows: their cells; numbers are set to the right.
        first_is_name: the first cell of a row is what the row is about.
    """
    rows = list(rows)
    heads = []
    for at, name in enumerate(header):
        known = [row[at] for row in rows if row[at] not in (None, MISSING)]
        set_right = bool(known) and all(map(_is_number, known)) and not (at == 0 and first_is_name)
        kind = ' class="n"' if set_right else ""
        heads.append(f'<th scope="col"{kind}>{escape(name)}</th>')
    lines = []
    for row in rows:
        cells = []
        for at, value in enumerate(row):
            shown = MISSING if value is None else escape(value)
            tag = 'th scope="row"' if at == 0 and first_is_name else 'td class="n"' if _is_number(value) else "td"
            cells.append(f"<{tag}>{shown}</{tag.split()[0]}>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(caption)}"><table><caption>{escape(caption)}'
        f"</caption><thead><tr>{''.join(heads)}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) or (isinstance(value, str) and value.lstrip("+-")[:1].isdigit())
