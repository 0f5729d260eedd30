"""Runs prompts on models: one small interface, one module per engine.

A model is named by a specification, ``[ENGINE:]NAME[@REVISION][?OPTION=VALUE&...]``::

    lexical/hashtag
    openai/gpt-oss-120b                                   (vLLM, the default engine)
    vllm:/models/SmolLM2?max_model_len=8192&dtype=float32
    openai:gpt-5?base_url=https://api.openai.com/v1&concurrency=32

A new engine is one module with its configuration and its class, and one line in `ENGINES`.
"""

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl

from pydantic import ValidationError

from ...hf_datasets.errors import ConfigError
from ..profiles import settle_options
from .base import Engine, ModelConfig

__all__ = ["ENGINES", "Engine", "ModelConfig", "open_engine", "parse_model"]

ENGINES: dict[str, tuple[str, str, str]] = {
    "lexical": (".lexical", "LexicalConfig", "LexicalEngine"),
    "vllm": (".vllm", "VllmConfig", "VllmEngine"),
    "ray": (".ray", "RayConfig", "RayEngine"),
    "openai": (".openai", "OpenAIConfig", "OpenAIEngine"),
    "transformers": (".transformers", "TransformersConfig", "TransformersEngine"),
}
"""Module, configuration class and engine class by name; imported when used."""


def parse_model(model: str | Mapping[str, Any], role: str | None = None) -> ModelConfig:
    """Return the configuration of a model from its specification, or from a table of options.

    Args:
        model: the specification or the table.
        role: what it is to be, "candidate" or "judge"; None asks nothing.

    Raises:
        ConfigError: no such engine, an option that it does not have or cannot use, or a model that cannot be that.

    >>> parse_model("lexical/hashtag").engine
    'lexical'
    >>> parse_model("vllm:org/model@main?max_model_len=8192").max_model_len
    8192
    """
    options = dict(model) if isinstance(model, Mapping) else _split(model)
    engine = options.setdefault("engine", "lexical" if str(options.get("name", "")).startswith("lexical/") else "vllm")
    options = settle_options(options)
    if engine not in ENGINES:
        raise ConfigError(f"There is no engine {engine!r}. There are: {', '.join(ENGINES)}.")
    module, class_name, _ = ENGINES[engine]
    config_class: type[ModelConfig] = getattr(import_module(module, __package__), class_name)
    try:
        config = config_class(**options)
    except ValidationError as error:
        # Only names and messages: an option's value may be a secret that was put in the wrong place.
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise ConfigError(
            f"The {engine} model {options.get('name', '')!r} cannot be used: {problems}. "
            f"Options of {engine}: {', '.join([*config_class.model_fields, 'thinking', 'sampling'])}."
        ) from None
    if role is not None and role not in config.roles:
        raise ConfigError(f"{config.name} cannot be a {role}; it is a {' or '.join(config.roles)}.")
    return config


def open_engine(config: ModelConfig) -> Engine:
    """Start the engine of a model.

    Raises:
        EngineError: the engine is not installed, or the model cannot be loaded or reached.
    """
    module, _, engine_class = ENGINES[config.engine]
    engine: Engine = getattr(import_module(module, __package__), engine_class)(config)
    return engine


def _split(specification: str) -> dict[str, Any]:
    """Take a specification apart."""
    head, _, query = specification.partition("?")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError as error:
        raise ConfigError(f"The model {head!r}: after ? stand OPTION=VALUE pairs joined by &.") from error
    options: dict[str, Any] = dict(pairs)
    # Several servers have several addresses; of every other option the last holds.
    if addresses := [value for option, value in pairs if option == "base_url"]:
        options["base_url"] = ",".join(addresses)
    engine, colon, name = head.partition(":")
    if colon and engine in ENGINES:
        options["engine"] = engine
    else:
        name = head
        if colon and not os.path.exists(head):
            raise ConfigError(f"There is no engine {engine!r} (in {head!r}). There are: {', '.join(ENGINES)}.")
    options["name"] = name
    # A folder may have an @ in its path.
    if "@" in name and not os.path.isdir(name):
        options["name"], _, options["revision"] = name.rpartition("@")
    return options
