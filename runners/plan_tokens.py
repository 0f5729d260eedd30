"""Counts tokens for a plan: by the model's own tokenizer where this machine has it, else by an estimate that says so.

Knows texts and messages; knows nothing of stages.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .engines.base import ModelConfig
from .profiles import find_profile, template_options
from .requests import Message

__all__ = ["CHARS_PER_TOKEN", "Estimate", "TokenCounter", "Tokenizer", "find_context", "find_counter"]

CHARS_PER_TOKEN = 4.0
"""About what tokenizers of large vocabulary need for English; other scripts need more tokens for as many characters."""
_MESSAGE_CHARS = 16
"""What an unknown chat template is taken to add to each message."""
_BATCH = 4096


class TokenCounter(Protocol):
    """Counts the tokens of texts."""

    @property
    def name(self) -> str:
        """How the counts came about, in words."""

    def count(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return the number of tokens of each text, special tokens added by nobody: (texts,)."""

    def chat(self, messages: Sequence[Message]) -> str:
        """Return messages as the one text that the model reads."""


@dataclass(frozen=True)
class Estimate:
    """Characters over a constant."""

    chars_per_token: float = CHARS_PER_TOKEN
    why: str = ""

    @property
    def name(self) -> str:
        """The constant, and why it has to serve."""
        return f"an estimate, {self.chars_per_token:g} characters per token{f' ({self.why})' if self.why else ''}"

    def count(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return characters over the constant, unrounded."""
        return np.fromiter((len(text) for text in texts), np.float64, len(texts)) / self.chars_per_token

    def chat(self, messages: Sequence[Message]) -> str:
        """Return the contents, with room for what a template adds."""
        return "".join(message.content + "\n" + "-" * (_MESSAGE_CHARS - 1) for message in messages)


class Tokenizer:
    """A model's own tokenizer and chat template."""

    def __init__(self, tokenizer: Any, name: str, template_options: dict[str, Any]) -> None:
        """Take a tokenizer of transformers."""
        self._tokenizer = tokenizer
        self._tokenizer.model_max_length = int(1e30)  # it would warn of every long text
        self._options = template_options
        self.name = name

    def count(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return the tokens of each text, some thousands of texts at a time."""
        counts = np.zeros(len(texts))
        for start in range(0, len(texts), _BATCH):
            part = list(texts[start : start + _BATCH])
            encoded = self._tokenizer(part, add_special_tokens=False, return_attention_mask=False)["input_ids"]
            counts[start : start + len(part)] = [len(ids) for ids in encoded]
        return counts

    def chat(self, messages: Sequence[Message]) -> str:
        """Return messages through the chat template, or one after the other where the tokenizer has none."""
        if not self._tokenizer.chat_template:
            return "\n".join(message.content for message in messages)
        plain = [message._asdict() for message in messages]
        text: str = self._tokenizer.apply_chat_template(
            plain, add_generation_prompt=True, tokenize=False, **self._options
        )
        return text


def find_counter(
    config: ModelConfig, *, tokenizer: str | None = None, chars_per_token: float | None = None
) -> TokenCounter:
    """Return who counts a model's tokens; nothing is downloaded.

    Args:
        config: of the model.
        tokenizer: a folder or a name on the Hub to take the tokenizer from, in place of the model's own.
        chars_per_token: of the estimate; the model's tokenizer is then not looked for.
    """
    if chars_per_token is not None:
        return Estimate(chars_per_token, "as given")
    if config.engine == "lexical" and tokenizer is None:
        return Estimate(why="rules read no tokens")
    source = tokenizer or config.name
    if "/" not in source and not Path(source).is_dir():
        return Estimate(why=f"{source} has no public tokenizer here")
    try:
        from transformers import AutoTokenizer
    except ImportError:
        return Estimate(why="transformers is not installed")
    revision = None if tokenizer or Path(source).is_dir() else config.revision
    try:
        found = AutoTokenizer.from_pretrained(source, revision=revision, local_files_only=True)
    except (OSError, ValueError, KeyError, ImportError):
        return Estimate(why=f"the tokenizer of {source} is not on this machine")
    short = Path(source).resolve().name if Path(source).is_dir() else source
    if tokenizer:
        return Tokenizer(found, f"the tokenizer of {short}, in place of its own", {})
    options = template_options(find_profile(config.name, config.profile))
    return Tokenizer(found, f"the tokenizer of {short}", options)


def find_context(config: ModelConfig) -> int | None:
    """Return a model's context in tokens, as far as it can be known without loading it; else None."""
    given = getattr(config, "max_model_len", None) or getattr(config, "context_tokens", None)
    given = given or find_profile(config.name, config.profile).context_tokens
    if given or config.engine == "lexical":
        return int(given) if given else None
    path = Path(config.name) / "config.json"
    if not path.is_file() and "/" in config.name:
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError

        try:
            cached = try_to_load_from_cache(config.name, "config.json", revision=config.revision)
        except HFValidationError:
            return None
        if not isinstance(cached, str):
            return None
        path = Path(cached)
    try:
        described = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    text_config = described.get("text_config", described)
    found = text_config.get("max_position_embeddings")
    return int(found) if found else None
