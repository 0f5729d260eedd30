"""Reads the grade of one item: one whole number from 0 to 5. A grade that has to be guessed is none."""

import re

from .answers import THINK_TAGS, Parsed, answer_of, excerpt, strip_fence
from .json_values import read_whole

__all__ = ["HIGHEST", "parse_grade"]

HIGHEST = 5
_MARKS = re.compile(r"[*_`\"']+")
_GRADE = re.compile(
    r"(?:(?:the |my |final )*(?:grade|rating|score|answer|relevance)\s*(?:is\s*|[:=]\s*)?)?"
    r"([0-5])(?:\s*(?:/|out of)\s*5)?(?:\s*stars?)?\s*\.?",
    re.IGNORECASE,
)


def parse_grade(
    text: str, *, finish_reason: str | None = None, reasoning_tags: tuple[str, str] | None = THINK_TAGS
) -> Parsed[int]:
    """Read a grade.

    A line that is a grade and nothing else counts (``4``, ``**Grade: 4/5**``), and a JSON object ``{"grade": 4}``.
    Lines of explanation beside it do not matter; two different grades, half grades and grades within a sentence do.

    Args:
        text: the answer.
        finish_reason: why the model stopped; an answer that was cut is none, since ``4`` may be the start of ``4.5``.
        reasoning_tags: as of :func:`~.answers.answer_of`.

    >>> parse_grade("**4**").value, parse_grade("Grade: 3/5\\n\\nA western.").value, parse_grade("3.5").value
    (4, 3, None)
    """
    answer = strip_fence(answer_of(text, reasoning_tags))
    if finish_reason == "length":
        return Parsed("invalid", None, f"The answer was cut off: {excerpt(answer)}.")
    if not answer:
        return Parsed("invalid", None, "The answer is empty.")
    whole = read_whole(answer)
    if whole is not None:
        value = whole.value.get("grade") if isinstance(whole.value, dict) else None
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= HIGHEST:
            return Parsed("ok", value)
        return Parsed("invalid", None, f"The object has no grade from 0 to {HIGHEST}: {excerpt(answer)}.")
    lines = (_GRADE.fullmatch(_MARKS.sub("", line).strip()) for line in answer.splitlines())
    found = {int(line.group(1)) for line in lines if line}
    if len(found) == 1:
        return Parsed("ok", found.pop())
    if found:
        return Parsed("invalid", None, f"The answer has several grades: {', '.join(map(str, sorted(found)))}.")
    return Parsed("invalid", None, f"Not one whole grade from 0 to {HIGHEST}: {excerpt(answer)}.")
