r"""Finds the JSON values in a text that holds other things too: prose, code fences, several values, a cut-off end.

It knows where each value stops, and what of a value that was cut off is complete. It does not know what the values
mean.

Beyond JSON it reads what can only mean one thing: trailing commas, a missing comma between two objects, raw line
breaks in strings, single quotes, keys without quotes, ``True``/``False``/``None``, ``NaN``, ``//`` comments, a list
that its object's brace closes. A quote inside a string that was not escaped belongs to the string when what follows
it cannot follow a string. Everything else makes the value broken.

Why not json_repair: it completes what was cut off (an object of which half arrived looks whole), recurses with the
depth of the text, and turns prose in brackets into lists.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

__all__ = ["JsonValue", "OpenContainer", "find_values", "read_whole"]

_MAX_DEPTH = 100
"""No answer we ask for is nested more than 5 deep; the limit bounds the memory that a hostile text can take."""

# Brackets that what follows shows to be prose are not even tried.
_START = re.compile(r"""\[(?!\s*+[^\s\[\]{"'\-0-9tfnTFNI/])|\{(?!\s*+[^\s"'}A-Za-z_/])""")
_SPACE = re.compile(r"(?:\s++|//[^\n]*+)*+")
_BARE_KEY = re.compile(r"([A-Za-z_]\w*+)\s*+:")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?(?![\w.])")
_CONSTANT = re.compile(r"(?:true|True|false|False|null|None|NaN|-?Infinity)\b")
_CONSTANTS: dict[str, object] = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "null": None,
    "None": None,
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
}
_CUT_TOKEN = re.compile(r"[\w.+-]*+\Z")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}

# What may follow a string, by the place where it stands.
_AFTER_KEY = re.compile(r"\s*+(?::|\Z)")
_AFTER_MEMBER = re.compile(r"\s*+(?:[}\]]|\Z|,\s*+(?:[\"'}/]|[A-Za-z_]\w*+\s*+:|\Z))")
_AFTER_ELEMENT = re.compile(r"\s*+(?:[,\]}]|\Z)")

_PARTS = {quote: re.compile(rf"[^{quote}\\]*+") for quote in "\"'"}

State: TypeAlias = Literal["complete", "cut", "broken"]


@dataclass(slots=True)
class OpenContainer:
    """A list or object that had not been closed where the reading stopped."""

    content: list[object] | dict[str, object]
    """What was complete in it."""

    key: str | None = None
    """Of an object: the key whose value was being read."""


@dataclass(frozen=True, slots=True)
class JsonValue:
    """A list or object found in a text."""

    start: int
    end: int
    """Where it was found; ``text[start:end]`` was read."""

    state: State
    """complete; cut: the text ended before it did; broken: something stands in it that is not JSON."""

    value: object
    """The value when complete, else None."""

    open: tuple[OpenContainer, ...] = ()
    """When not complete: what was open, from the outside in."""


def read_whole(text: str, *, pairs_hook: Callable[[list[tuple[str, Any]]], object] | None = None) -> JsonValue | None:
    """Read a text that is one JSON list or object and nothing else, or return None.

    Args:
        text: any text.
        pairs_hook: what to make of an object's pairs, for those who must see a key that stands twice.
    """
    if not text.lstrip().startswith(("[", "{")):
        return None
    try:
        value = json.loads(text, strict=False, object_pairs_hook=pairs_hook)
    except (ValueError, RecursionError):
        return None
    return JsonValue(0, len(text), "complete", value)


def find_values(text: str) -> list[JsonValue]:
    """Find all lists and objects of a text that do not stand inside another one, in order.

    Takes time linear in the text. Brackets around prose are not values. A value that was cut off or broken is
    reported where an object had been begun in it.

    >>> [found.value for found in find_values('Result [final]: {"a": [1, 2,]} and []')]
    [{'a': [1, 2]}, []]
    """
    found: list[JsonValue] = []
    position = 0
    retried = 0
    while (start := _START.search(text, position)) is not None:
        value = _Reader(text, start.start()).read()
        position = value.end
        if value.state != "broken" or _holds_object(value):
            found.append(value)
        elif retried <= len(text):
            # Brackets around prose: what was skipped, perhaps inside what looked like a string, is looked at again.
            retried += value.end - value.start
            position = value.start + 1
    return found


def _holds_object(value: JsonValue) -> bool:
    return any(
        container.key is not None
        or (bool(container.content) if isinstance(container.content, dict) else _any_object(container.content))
        for container in value.open
    )


def _any_object(content: list[object]) -> bool:
    return any(isinstance(element, dict) for element in content)


class _Reader:
    """Reads one value from an opening bracket on, without recursion."""

    def __init__(self, text: str, start: int) -> None:
        self.text = text
        self.start = start
        self.position = start
        self.stack: list[OpenContainer] = []
        self.closed: object = None

    def read(self) -> JsonValue:
        self._open()
        value_done = False
        while self.stack:
            self._skip_space()
            if self.position >= len(self.text):
                return self._stop("cut")
            char = self.text[self.position]
            if value_done and char == ",":
                self.position += 1
                value_done = False
            elif char in "]}":
                if not self._close(char):
                    return self._stop("broken")
                value_done = True
            elif value_done and not (char in "[{" and self._follows_container()):
                return self._stop("broken")
            elif isinstance(self.stack[-1].content, dict) and self.stack[-1].key is None:
                if not self._read_key():
                    return self._stop_in_token()
                value_done = False
            elif char in "[{":
                if len(self.stack) == _MAX_DEPTH:
                    return self._stop("broken")
                self._open()
                value_done = False
            else:
                if not self._read_scalar(char):
                    return self._stop_in_token()
                value_done = True
        return JsonValue(self.start, self.position, "complete", self.closed)

    def _stop(self, state: State) -> JsonValue:
        # At least one character was read, so that a search that goes on from the end always advances.
        return JsonValue(self.start, max(self.position, self.start + 1), state, None, tuple(self.stack))

    def _stop_in_token(self) -> JsonValue:
        return self._stop("cut" if _CUT_TOKEN.match(self.text, self.position) else "broken")

    def _skip_space(self) -> None:
        space = _SPACE.match(self.text, self.position)
        if space is not None:
            self.position = space.end()

    def _open(self) -> None:
        self.stack.append(OpenContainer([] if self.text[self.position] == "[" else {}))
        self.position += 1

    def _close(self, char: str) -> bool:
        if char == "}" and len(self.stack) > 1 and isinstance(self.stack[-1].content, list):
            self._pop()  # the list's own bracket was forgotten
        top = self.stack[-1]
        if isinstance(top.content, list) != (char == "]") or top.key is not None:
            return False
        self._pop()
        self.position += 1
        return True

    def _pop(self) -> None:
        content = self.stack.pop().content
        if self.stack:
            self._add(content)
        else:
            self.closed = content

    def _add(self, value: object) -> None:
        top = self.stack[-1]
        if isinstance(top.content, list):
            top.content.append(value)
        elif top.key is not None:
            top.content[top.key] = value
            top.key = None

    def _follows_container(self) -> bool:
        content = self.stack[-1].content
        return isinstance(content, list) and bool(content) and isinstance(content[-1], (list, dict))

    def _read_key(self) -> bool:
        if self.text[self.position] in "\"'":
            key = self._read_string(_AFTER_KEY)
            if key is None:
                return False
            self._skip_space()
            if self.position >= len(self.text):
                return False
            self.position += 1  # the colon: _AFTER_KEY saw it
        else:
            bare = _BARE_KEY.match(self.text, self.position)
            if bare is None:
                return False
            key = bare.group(1)
            self.position = bare.end()
        self.stack[-1].key = key
        return True

    def _read_scalar(self, char: str) -> bool:
        value: object
        if char in "\"'":
            in_object = isinstance(self.stack[-1].content, dict)
            value = self._read_string(_AFTER_MEMBER if in_object else _AFTER_ELEMENT)
            if value is None:
                return False
        elif (number := _NUMBER.match(self.text, self.position)) is not None:
            value = _number(number.group())
            self.position = number.end()
        elif (constant := _CONSTANT.match(self.text, self.position)) is not None:
            value = _CONSTANTS[constant.group()]
            self.position = constant.end()
        else:
            return False
        self._add(value)
        return True

    def _read_string(self, follows: re.Pattern[str]) -> str | None:
        """Read the string that begins here; None, and the position at the end, when the text ends before it does."""
        quote = self.text[self.position]
        position = first = self.position + 1
        while True:
            part = _PARTS[quote].match(self.text, position)
            position = part.end() if part is not None else position
            if position >= len(self.text):
                self.position = len(self.text)
                return None
            if self.text[position] == "\\":
                position += 2
            elif follows.match(self.text, position + 1):
                self.position = position + 1
                return _unescape(self.text[first:position])
            else:
                position += 1


def _number(text: str) -> int | float:
    # Python refuses to read integers of more than 4,300 digits; nothing we ask for has 20.
    return float(text) if len(text) > 400 or not text.lstrip("-").isdigit() else int(text)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    text = _ESCAPE.sub(_unescaped, text)
    return _SURROGATE_PAIR.sub(lambda pair: pair.group().encode("utf-16", "surrogatepass").decode("utf-16"), text)


def _unescaped(escape: re.Match[str]) -> str:
    code, char = escape.groups()
    if code is not None:
        return chr(int(code, 16))
    if char in _ESCAPED:
        return _ESCAPED[char]
    # JSON knows no \a or \d: a backslash before a letter was meant; before punctuation (\_ of Markdown) it was not.
    return escape.group() if char.isalnum() else char
