"""Reads harmony, the format of gpt-oss: messages in channels, of which only ``final`` is the answer.

It does not know what an answer is about. The published format is
``<|start|>assistant<|channel|>final<|message|>TEXT<|return|>``; a model's answer begins after the first role.
"""

import re

__all__ = ["strip_harmony"]

_MARK = re.compile(r"<\|(start|channel|message|constrain|end|return|call)\|>")
# What is left when a server took the special tokens out of the text but not the words between them.
_UNMARKED = re.compile(r"\s*analysis(?=\w)(?P<reasoning>.*?)(?:assistantfinal(?P<answer>.*))?\Z", re.DOTALL)


def strip_harmony(text: str) -> tuple[str, str]:
    """Split a raw harmony answer into its reasoning and the answer proper, both trimmed.

    Analysis, commentary and tool calls are reasoning, as is text before the first channel: the chat template had opened
    a message. A text without any mark is the answer, unless it spells out its channels.

    >>> strip_harmony("<|channel|>analysis<|message|>7? no<|end|><|start|>assistant<|channel|>final<|message|>item_1")
    ('7? no', 'item_1')
    >>> strip_harmony("<|channel|>analysis<|message|>7? per")
    ('7? per', '')
    >>> strip_harmony("analysis7? noassistantfinalitem_1")
    ('7? no', 'item_1')
    """
    marks = list(_MARK.finditer(text))
    if not marks:
        unmarked = _UNMARKED.match(text)
        if unmarked is None:
            return "", text.strip()
        return unmarked["reasoning"].strip(), (unmarked["answer"] or "").strip()
    opening = text[: marks[0].start()].strip().removesuffix("assistant")
    reasoning: list[str] = []
    answer: list[str] = []
    channel = "final"
    for mark, following in zip(marks, [*marks[1:], None], strict=True):
        piece = text[mark.end() : following.start() if following else len(text)]
        if mark[1] == "start":
            channel = "final"  # a message without a channel is the answer
        elif mark[1] == "channel":
            channel = (piece.split() or [""])[0]
        elif mark[1] == "message":
            (answer if channel == "final" else reasoning).append(piece.strip())
    is_answer = not reasoning and not answer
    (answer if is_answer else reasoning).insert(0, opening.strip())
    return _join(reasoning), _join(answer)


def _join(parts: list[str]) -> str:
    return "\n".join(filter(None, parts))
