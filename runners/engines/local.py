"""What the engines share that hold a model themselves: its context, the tokens of its prompts, versions."""

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from jinja2 import TemplateError

from ...hf_datasets.errors import EngineError
from ..profile import Profile, template_options
from ..requests import Message, ModelRef

__all__ = ["MIN_ANSWER_TOKENS", "LocalPrompt", "installed", "model_context", "tokenise"]

MIN_ANSWER_TOKENS = 8
"""A prompt that leaves less than this of the context does not fit."""
OPENING_TOKENS = 16
"""The end of a prompt in which a chat template may open the reasoning."""


class LocalPrompt(NamedTuple):
    """A prompt as the model reads it."""

    token_ids: list[int]
    opens_reasoning: bool
    """It ends inside the reasoning that the chat template opened; a profile may not know it of every such model."""


def installed(distributions: Iterable[str]) -> dict[str, str]:
    """Return the versions of those distributions that are installed."""
    found = {}
    for name in distributions:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def model_context(source: str, *, revision: str | None, trust_remote_code: bool) -> int:
    """Return the context that a model's own configuration names, in tokens.

    Raises:
        EngineError: the configuration cannot be read, or names none.
    """
    from transformers import AutoConfig

    try:
        model = AutoConfig.from_pretrained(source, revision=revision, trust_remote_code=trust_remote_code)
        return int(model.get_text_config().max_position_embeddings)
    except (ValueError, OSError, KeyError, AttributeError, ImportError) as error:
        raise EngineError(
            f"The context of {source} cannot be read from its config.json: {error} If the model is one that this "
            "version of transformers knows, name its context with max_model_len=."
        ) from error


def tokenise(
    tokenizer: Any, messages: Iterable[Message], profile: Profile, model: ModelRef, context_tokens: int
) -> LocalPrompt | str:
    """Return a prompt's tokens, or why it cannot be asked.

    Special tokens come from the chat template alone, and one beginning-of-text token at most.

    Args:
        tokenizer: the model's.
        messages: what is asked.
        profile: the model's.
        model: who is asked, for messages.
        context_tokens: the longest prompt and answer together.
    """
    try:
        encoded = tokenizer.apply_chat_template(
            [message._asdict() for message in messages],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            **template_options(profile),
        )
    except (TemplateError, ValueError) as error:
        return f"The chat template of {model} does not take the messages: {error}"
    token_ids = _single_bos(list(encoded["input_ids"]), tokenizer.bos_token_id)
    if len(token_ids) + MIN_ANSWER_TOKENS > context_tokens:
        return f"The prompt has {len(token_ids)} tokens; the context of {model} has {context_tokens}."
    end = tokenizer.decode(token_ids[-OPENING_TOKENS:]).rstrip()
    return LocalPrompt(token_ids, end.endswith(profile.reasoning[0]))


def _single_bos(token_ids: list[int], bos: int | None) -> list[int]:
    """Return a prompt's tokens with one beginning-of-text token where a template, or it and the tokenizer, wrote more.

    >>> _single_bos([1, 1, 7, 1], bos=1)
    [1, 7, 1]
    """
    n = 0
    while n + 1 < len(token_ids) and bos is not None and token_ids[n] == token_ids[n + 1] == bos:
        n += 1
    return token_ids[n:]
