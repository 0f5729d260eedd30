"""Reads the interests, with the items they cite, from an extraction answer.

It does not know the history: whether a cited id exists is for others to say.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from unicodedata import category

from .answers import THINK_TAGS, Parsed, answer_of, clean_text, excerpt, strip_fence
from .json_values import JsonValue, OpenContainer, find_values, read_whole

__all__ = ["ExtractedInterest", "ExtractedInterests", "parse_interests", "unwrap_id"]

_INVISIBLE = ("Cc", "Cf", "Zs", "Zl", "Zp")
"""Unicode categories of marks that show nothing: controls, formats, spaces."""

MAX_ANSWER_CHARS = 1_000_000
"""Of an answer that is not JSON throughout: a quarter of a million tokens, which only a model in a loop writes."""

_LIST_KEY = "interests"
_NAME_KEYS = ("interest", "name", "interest_name")
_ID_KEYS = ("item_ids", "items", "ids", "evidence")
_PROSE_ID_KEY = "evidence"

# What may stand between values that belong together: space, separators, fences, bullets and list numbers.
_NO_PROSE = re.compile(r"(?:[\s,;]|```[\w+-]*|~~~[\w+-]*|[-*•](?=\s)|[0-9]{1,3}[.)](?=\s))*+")
# How the line goes on where an empty list is the answer, not a mention: "[]" alone, or after a colon.
_LINE_AFTER = re.compile(r"[ \t*`~]*+\.?[ \t*`~]*+(?:\n|\Z)")
_WRAPPERS = {"[": "]", "(": ")", "<": ">", "{": "}", '"': '"', "'": "'", "`": "`"}


@dataclass(frozen=True, slots=True)
class ExtractedInterest:
    """One interest as the candidate named it."""

    name: str
    """Trimmed, never empty."""

    item_ids: tuple[str, ...]
    """The cited items, each once, in the order given; empty when nothing was cited."""


@dataclass(frozen=True, slots=True)
class ExtractedInterests:
    """The interests of one answer, each name once, in the order of first mention."""

    interests: tuple[ExtractedInterest, ...]
    n_dropped: int = 0
    """List members that are no interest: not an object, or without a name."""

    n_ids_dropped: int = 0
    """Cited ids that are no id: null, true, a list, an object, a fraction, or blank."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A value that may be the answer, or part of it."""

    start: int
    end: int
    state: str
    members: list[object]
    bare: bool
    """An object by itself, not in a list."""

    relevant: bool
    """It has what an interest, or a list of interests, would have."""


def parse_interests(
    text: str, *, finish_reason: str | None = None, reasoning_tags: tuple[str, str] | None = THINK_TAGS
) -> Parsed[ExtractedInterests]:
    """Read the interests of an extraction answer.

    Reasoning is removed first. Of the JSON values in the rest, adjacent ones concatenate; of those separated by prose
    the last that holds interests wins. Accepted are a list of objects (also nested), an object with the key
    ``interests``, an object with a single key and such a list, and objects one after another. An interest has the
    key ``interest``, ``name`` or ``interest_name``, and ``item_ids``, ``items``, ``ids`` or ``evidence`` (a list
    only); case, spaces and hyphens of keys do not matter. Ids become strings, without brackets or quotes around
    them. Interests of the same trimmed name merge.

    Args:
        text: the answer, whatever it is.
        finish_reason: as the engine gave it. "length" makes a sequence of objects outside any list truncated: whether
            more would have come cannot be seen.
        reasoning_tags: delimiters of reasoning; None: the text holds none.

    Returns:
        ok, also for an explicit ``[]``; truncated, with the interests that were complete; invalid, also when a list is
        not empty but no member has a name, when a list breaks off in the middle, and when ``[]`` is only mentioned.

    >>> parse_interests('[{"interest": "Jazz", "item_ids": [12, "[7]"]}]').value.interests
    (ExtractedInterest(name='Jazz', item_ids=('12', '7')),)
    """
    # An answer that is JSON throughout holds no reasoning, whatever its strings say.
    answer = strip_fence(text.strip())
    whole = read_whole(answer)
    if whole is None:
        answer = answer_of(text, reasoning_tags)
    if whole is None and len(answer) > MAX_ANSWER_CHARS:
        return Parsed("invalid", None, f"The answer runs on for {len(answer):,} characters.")
    values = [whole] if whole is not None else find_values(answer)
    candidates: list[_Candidate] = []
    first = 0
    for candidate in map(_candidate, values):
        # Of a value that was cut off nothing more may have arrived than its bracket.
        if not candidate.relevant and candidate.state != "cut":
            continue
        if not candidate.members and candidate.state == "complete" and not _is_alone(answer, candidate):
            continue
        adjacent = _NO_PROSE.fullmatch(answer, candidates[-1].end if candidates else 0, candidate.start) is not None
        if candidate.relevant or adjacent:
            first = first if adjacent else len(candidates)
            candidates.append(candidate)
    if not candidates:
        return Parsed("invalid", None, _nothing_found(text, answer, finish_reason))
    earlier, group = candidates[:first], candidates[first:]
    # Objects outside any list, after a list that broke off, may be the rest of it.
    suspects = candidates if all(candidate.bare for candidate in group) else group
    broken = [candidate for candidate in suspects if candidate.state == "broken"]
    if broken:
        rest = excerpt(answer[broken[0].end :], 40)
        return Parsed("invalid", None, f"The JSON breaks off at character {broken[0].end}, before {rest}.")
    members = [member for candidate in group for member in candidate.members]
    value = _interests(members)
    cut = group[-1].state == "cut" or (finish_reason == "length" and group[-1].bare)
    if cut and not value.interests:
        return Parsed("invalid", None, "The answer was cut off before its first interest was complete.")
    if not members and any(candidate.members for candidate in earlier):
        return Parsed("invalid", None, "The answer lists interests, and ends in an empty list.")
    if members and not value.interests:
        return Parsed("invalid", None, f"None of the {len(members)} list members is an interest with a name.")
    if cut:
        return Parsed("truncated", value, f"The answer was cut off after {len(members)} complete list members.")
    return Parsed("ok", value)


def _nothing_found(text: str, answer: str, finish_reason: str | None) -> str:
    cut = " (it was cut off)" if finish_reason == "length" else ""
    if not text.strip():
        return f"The answer is empty{cut}."
    if not answer:
        return f"The answer holds reasoning only{cut}."
    return f"No list of interests was found{cut}: the answer begins with {excerpt(answer)}."


def _is_alone(answer: str, candidate: _Candidate) -> bool:
    before = answer[max(0, candidate.start - 40) : candidate.start].rstrip(" \t*`")
    after = _LINE_AFTER.match(answer, candidate.end)
    return after is not None and (not before or before.endswith(("\n", "\r", ":")))


def _candidate(found: JsonValue) -> _Candidate:
    if found.state == "complete":
        value = found.value
        bare = isinstance(value, dict) and not _is_wrapper(value) and _single_list(value) is None
        members = list(_members(value if bare or isinstance(value, list) else _single_list(value) or value))
        relevant = _looks_like_interests(members) or (not bare and not members)
    else:
        bare = not isinstance(found.open[0].content, list)
        members = []
        for container in found.open:
            bare = bare and not _opens_wrapper(container)
            if isinstance(container.content, list) or _is_wrapper(container.content):
                members += _members(container.content)
            elif not _opens_wrapper(container):
                break  # an interest that was not finished
        relevant = _looks_like_interests(members) or any(_has_our_key(container) for container in found.open)
    return _Candidate(found.start, found.end, found.state, members, bare, relevant)


def _members(value: object) -> Iterator[object]:
    """Yield the members of a value: lists and objects that hold a list of interests are opened."""
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, list):
            pending.extend(reversed(current))
        elif isinstance(current, dict) and _is_wrapper(current):
            pending.append(_get(current, _LIST_KEY))
        else:
            yield current


def _is_wrapper(value: dict[str, object]) -> bool:
    held = _get(value, _LIST_KEY)
    if isinstance(held, dict):
        return _looks_like_interests([held])
    return isinstance(held, list) and (not held or any(isinstance(member, (dict, list)) for member in held))


def _single_list(value: object) -> list[object] | None:
    """Return the list of interests that an object with one key of any name holds."""
    if not isinstance(value, dict) or len(value) != 1:
        return None
    (key, held), *_ = value.items()
    if _plain_key(key) in _ID_KEYS or not isinstance(held, list):
        return None
    return held if _looks_like_interests(held) else None


def _looks_like_interests(members: list[object]) -> bool:
    keys = (*_NAME_KEYS, *_ID_KEYS, _LIST_KEY)
    return any(isinstance(member, dict) and any(_plain_key(key) in keys for key in member) for member in members)


def _opens_wrapper(container: OpenContainer) -> bool:
    return container.key is not None and _plain_key(container.key) == _LIST_KEY


def _has_our_key(container: OpenContainer) -> bool:
    if isinstance(container.content, list):
        return False
    keys = [*container.content, *([container.key] if container.key is not None else [])]
    return any(_plain_key(key) in (*_NAME_KEYS, *_ID_KEYS, _LIST_KEY) for key in keys)


def _plain_key(key: str) -> str:
    return key.strip().lower().replace(" ", "_").replace("-", "_")


def _get(value: dict[str, object], *keys: str) -> object:
    """Return the value of the first of these keys that is there, else None."""
    plain = {_plain_key(key): held for key, held in value.items()}
    return next((plain[key] for key in keys if key in plain), None)


def _interests(members: list[object]) -> ExtractedInterests:
    cited: dict[str, dict[str, None]] = {}
    n_dropped = n_ids_dropped = 0
    for member in members:
        name = _get(member, *_NAME_KEYS) if isinstance(member, dict) else None
        name = clean_text(name) if isinstance(name, str) else ""
        if not isinstance(member, dict) or all(category(mark) in _INVISIBLE for mark in name):
            n_dropped += 1
            continue
        ids = _ids(member)
        n_ids_dropped += ids.count(None)
        cited.setdefault(name, {}).update(dict.fromkeys(item_id for item_id in ids if item_id is not None))
    interests = tuple(ExtractedInterest(name, tuple(ids)) for name, ids in cited.items())
    return ExtractedInterests(interests, n_dropped, n_ids_dropped)


def _ids(member: dict[str, object]) -> list[str | None]:
    """Return the cited ids in order, None for each that is no id."""
    plain = {_plain_key(key): held for key, held in member.items()}
    key = next((key for key in _ID_KEYS if plain.get(key) is not None), None)
    if key is None:
        return []
    held = plain[key]
    if isinstance(held, list):
        return [_id(item) for item in held]
    if key == _PROSE_ID_KEY:
        return []  # a quotation, not ids
    if isinstance(held, str):
        parts = held.strip().removeprefix("[").removesuffix("]").split(",")
        return [_id(part) for part in parts] if any(part.strip() for part in parts) else []
    return [_id(held)]


def _id(value: object) -> str | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return (unwrap_id(value) or None) if isinstance(value, str) else None


def unwrap_id(text: str) -> str:
    """Return an id trimmed, without the brackets or quotes around it."""
    text = clean_text(text)
    first, last = 0, len(text)
    while first < last:
        if text[first].isspace():
            first += 1
        elif text[last - 1].isspace():
            last -= 1
        elif last - first >= 2 and _WRAPPERS.get(text[first]) == text[last - 1]:
            first, last = first + 1, last - 1
        else:
            break
    return text[first:last]
