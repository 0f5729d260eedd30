"""How an OpenAI-compatible server is reached. Keys come from the environment alone: no configuration holds one."""

import os
import re
from typing import Any, Literal
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from pydantic import ConfigDict, Field, SecretStr, field_validator

from ....hf_datasets.errors import ConfigError
from ..base import ModelConfig

__all__ = ["DEFAULT_BASE_URL", "OpenAIConfig", "proxy_for", "read_key"]

DEFAULT_BASE_URL = "https://api.openai.com/v1"


class OpenAIConfig(ModelConfig):
    """A model behind one or several OpenAI-compatible servers."""

    # A key or a password put into the wrong field must not be printed by the error that refuses it.
    model_config = ConfigDict(hide_input_in_errors=True)

    engine: Literal["openai"] = "openai"
    base_url: str = Field(
        default_factory=lambda: _unquoted(os.environ.get("OPENAI_BASE_URL", "")) or DEFAULT_BASE_URL,
        validate_default=True,
        description="address of the server, usually ending in /v1, or several joined by commas: replicas that serve "
        "the same model; by default OPENAI_BASE_URL, or else OpenAI's own",
    )
    api_key_env: str = Field(
        default="OPENAI_API_KEY",
        pattern=r"^[A-Z_][A-Z0-9_]*$",
        description="name of the environment variable that holds the key; where it is not set, no key is sent",
    )
    api_name: str | None = Field(default=None, description="what the server calls the model; its name by default")
    concurrency: int = Field(
        default=64, ge=1, description="calls at once at each server; fewer for as long as it is busy"
    )
    timeout_s: float = Field(default=600.0, gt=0, description="longest wait for one answer")
    max_attempts: int = Field(default=6, ge=1, description="calls per request before it counts as an error")
    context_tokens: int | None = Field(
        default=None, ge=1, description="context of the served model; by default its profile's, or else 32768"
    )
    structured_outputs: Literal["openai", "vllm"] = Field(
        default="openai",
        description="how a schema is sent: as a response_format that all servers share (JSON only, an object around a "
        "list, no size limits), or in vLLM's own field, exactly as it is, regular expressions too",
    )

    @property
    def base_urls(self) -> tuple[str, ...]:
        """Every address, in the order given."""
        return tuple(self.base_url.split(","))

    @field_validator("base_url", mode="before")
    @classmethod
    def _joined(cls, base_url: Any) -> Any:
        """Take a list of addresses, as a TOML file may have it."""
        if isinstance(base_url, list | tuple) and all(isinstance(one, str) for one in base_url):
            return ",".join(base_url)
        return base_url

    @field_validator("base_url")
    @classmethod
    def _check_base_url(cls, base_url: str) -> str:
        addresses = [address.rstrip("/") for address in re.split(r"[,\s]+", base_url) if address]
        for address in addresses or [""]:
            parts = urlsplit(address)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError("must be an http or https address, such as http://localhost:8000/v1")
            if "@" in parts.netloc or parts.query or parts.fragment:
                raise ValueError("must not hold a user, password or parameters; keys are read from the environment")
        return ",".join(dict.fromkeys(addresses))


def read_key(name: str) -> SecretStr:
    """Return the key in an environment variable; empty where it is not set.

    Raises:
        ConfigError: it holds something that cannot be a key, which is not shown.
    """
    key = _unquoted(os.environ.get(name, ""))
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(
            f"The environment variable {name} does not hold an API key: there are spaces or other signs in it."
        )
    return SecretStr(key)


def proxy_for(url: str) -> str | None:
    """Return the proxy that the environment names; aiohttp's own way of reading it would also send netrc passwords."""
    parts = urlsplit(url)
    return None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)


def _unquoted(value: str) -> str:
    """Return a value without white space and quotes around it, which .env files leave there."""
    return value.strip().strip("\"'").strip()
