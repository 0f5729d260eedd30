"""Checks an answer against the schema it was held to, since a server may ignore a schema without saying so."""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from ..requests import canonical_json

__all__ = ["check_schema"]

MAX_SHOWN_CHARS = 60
MAX_PROBLEM_CHARS = 200


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
    "The answer does not fit its JSON schema: at $[1]: 1 is not of type 'string'."
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
        error = best_match(_validator(canonical_json(schema["json"])).iter_errors(value))
        if error is not None:
            said = f"at {error.json_path}: {error.message}"
            said = said if len(said) <= MAX_PROBLEM_CHARS else said[: MAX_PROBLEM_CHARS - 3] + "..."
            return f"The answer does not fit its JSON schema: {said}."
    return ""


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@lru_cache(maxsize=64)
def _validator(schema: bytes) -> Draft202012Validator:
    return Draft202012Validator(json.loads(schema))


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= MAX_SHOWN_CHARS else shown[: MAX_SHOWN_CHARS - 3] + "..."
