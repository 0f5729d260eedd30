"""Checks an answer against the schema it was held to, since a server may ignore a schema without saying so.

Of JSON Schema it reads what the stages write: ``type``, ``enum``, ``const``, ``properties``, ``required``,
``additionalProperties``, ``items`` and the size limits. It knows nothing of what an answer means.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

__all__ = ["check_schema"]

_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "integer": int,
    "number": (int, float),
}
# keyword: what it limits, and whether it is the least or the most
_LIMITS = {
    "minLength": (str, False, "characters"),
    "maxLength": (str, True, "characters"),
    "minItems": (list, False, "members"),
    "maxItems": (list, True, "members"),
}
MAX_SHOWN_CHARS = 60


def check_schema(schema: Mapping[str, Any] | None, text: str) -> str:
    r"""Return what is wrong with an answer under a request's schema; nothing where it fits, or where there is none.

    Args:
        schema: of the request: ``{"regex": ...}``, ``{"json": <JSON schema>}`` or ``{"choice": [...]}``.
        text: the answer without its reasoning; white space around it does not matter.

    >>> check_schema({"regex": "NONE|item_[0-9]"}, "item_3\n")
    ''
    >>> check_schema({"regex": "NONE|item_[0-9]"}, "Item 3")
    "The answer is not of the form asked for: 'Item 3'."
    >>> check_schema({"json": {"type": "array", "items": {"type": "string"}}}, '["a", 1]')
    'The answer does not fit its JSON schema: [1] is no string: 1.'
    """
    if not schema:
        return ""
    if "regex" in schema and not _compiled(schema["regex"]).fullmatch(text.strip()):
        return f"The answer is not of the form asked for: {_shown(text.strip())}."
    if "choice" in schema and text.strip() not in schema["choice"]:
        return f"The answer is none of those to choose from: {_shown(text.strip())}."
    if "json" in schema:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return f"The answer is not JSON: {_shown(text.strip())}."
        problem = next(_problems(schema["json"], value, ""), None)
        return f"The answer does not fit its JSON schema: {problem}." if problem else ""
    return ""


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _problems(schema: Mapping[str, Any], value: Any, place: str) -> Iterator[str]:
    """Yield what is wrong with a value, each with its place in the whole."""
    what = place or "the whole"
    types = schema.get("type", ())
    types = (types,) if isinstance(types, str) else types
    if types and not any(_is_a(name, value) for name in types):
        yield f"{what} is no {' or '.join(types)}: {_shown(value)}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{what} is none of the {len(schema['enum'])} values allowed: {_shown(value)}"
    if "const" in schema and value != schema["const"]:
        yield f"{what} is not {_shown(schema['const'])}: {_shown(value)}"
    for keyword, (kind, is_most, unit) in _LIMITS.items():
        if keyword in schema and isinstance(value, kind):
            limit = schema[keyword]
            if len(value) > limit if is_most else len(value) < limit:
                yield f"{what} has {len(value)} {unit}; {'at most' if is_most else 'at least'} {limit} are allowed"
    if isinstance(value, list):
        for index, member in enumerate(value):
            yield from _problems(schema.get("items", {}), member, f"{place}[{index}]")
    elif isinstance(value, dict):
        yield from _problems_of_object(schema, value, place)


def _problems_of_object(schema: Mapping[str, Any], value: dict[str, Any], place: str) -> Iterator[str]:
    what = place or "the whole"
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{what} has no {name!r}"
    for name, member in value.items():
        if name in properties:
            yield from _problems(properties[name], member, f"{place}.{name}" if place else name)
        elif schema.get("additionalProperties") is False:
            yield f"{what} has a property {_shown(name)} that is not allowed"


def _is_a(name: str, value: Any) -> bool:
    if isinstance(value, bool) and name in ("integer", "number"):
        return False
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[name])


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= MAX_SHOWN_CHARS else shown[: MAX_SHOWN_CHARS - 3] + "..."
