"""OpenAI's chat completions: a request as the body of a call, and what a server sent as an outcome.

It makes no calls. Whatever a server sends is read: fields may be missing, null or of another type.
"""

import json
import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any

from ...parsing.answers import clean_text
from ...profiles import Profile, split_answer
from ...requests import Outcome, Request, Sampling, Status
from ..schema_check import check_schema
from .config import OpenAIConfig

__all__ = ["Chat", "json_object", "message_of", "nested_int", "retry_after_s", "server_message"]

WRAPPER = "answer"
"""The one property of the object that stands around a list where only objects are accepted."""

# Size limits are left out of portable schemas: OpenAI, Anthropic and others each refuse different ones.
_SIZE_LIMITS = ("minLength", "maxLength", "minItems", "maxItems")
_COMPLETE = ("stop", "eos", "end_turn", "stop_sequence", "")
_CUT = ("length", "max_tokens", "model_length")
_FILTERED = ("content_filter", "safety", "refusal")
_TOOLS = ("tool_calls", "function_call")
_WRAPPER_OPENED = re.compile(rf'\A\s*\{{\s*"{WRAPPER}"\s*:\s*')


class Chat:
    """Writes the bodies of calls and reads chat completions, for one model."""

    def __init__(self, config: OpenAIConfig, profile: Profile, tell: Callable[..., str]) -> None:
        """Take what decides the form.

        Args:
            config: of the model.
            profile: of the model.
            tell: makes what a server said fit to be shown: on one line, cut to a number of characters, without keys.
        """
        self._name = config.api_name or config.name
        self._in_vllms_field = config.structured_outputs == "vllm"
        self._profile = profile
        self._tell = tell

    def body(self, request: Request) -> bytes:
        """Return the body of the call for a request."""
        body: dict[str, Any] = {
            "model": self._name,
            "messages": [{"role": role, "content": content} for role, content in request.messages],
            self._profile.max_tokens_field: request.sampling.max_tokens,
            **_sampling_fields(request.sampling),
            **self._profile.api_options,
        }
        if self._profile.chat_template_options:
            body["chat_template_kwargs"] = self._profile.chat_template_options
        if request.schema and self._in_vllms_field:
            body["structured_outputs"] = request.schema
        elif request.schema and "json" in request.schema:
            body["response_format"] = _response_format(request.stage, request.schema["json"])
        return json.dumps(body).encode()

    def outcome(self, request: Request, payload: dict[str, Any], message: dict[str, Any], seconds: float) -> Outcome:
        """Read a chat completion.

        Args:
            request: what was asked.
            payload: all that the server sent.
            message: the first choice's.
            seconds: that it took.
        """
        usage = payload.get("usage")
        n_prompt = nested_int(usage, "prompt_tokens")
        n_reasoning = nested_int(usage, "completion_tokens_details", "reasoning_tokens")
        content = _text_of(message.get("content"))
        finish_reason = payload["choices"][0].get("finish_reason")
        finish_reason = finish_reason.lower() if isinstance(finish_reason, str) else ""
        finish_reason = "length" if finish_reason in _CUT else finish_reason
        given = message.get("reasoning_content") or message.get("reasoning")
        reasoning, text = split_answer(
            content or "",
            self._profile,
            reasoning=given if isinstance(given, str) else "",
            # A server that counts reasoning apart has taken it out.
            may_lack_reasoning=n_reasoning > 0 or finish_reason != "length",
        )
        if self._wraps(request):
            text = _unwrapped(text, is_cut=finish_reason == "length")
        text = clean_text(text)
        refusal = message.get("refusal")
        status: Status = "ok"
        problem = ""
        if finish_reason in _FILTERED or (isinstance(refusal, str) and refusal):
            status = "refused"
            said = self._tell(refusal) if isinstance(refusal, str) else ""
            problem = f"The model refused: {said}" if said else "The server's content filter stopped the answer."
        elif finish_reason == "length":
            status = "truncated"
        elif finish_reason in _TOOLS or message.get("tool_calls"):
            status, text, problem = "invalid", "", "The model called a tool instead of answering."
        elif finish_reason not in _COMPLETE:
            status, problem = "error", f"The server ended the answer with {self._tell(finish_reason, 50)!r}."
        elif content is None:
            status, text, problem = "invalid", "", "The answer has no content."
        elif request.schema:
            problem = check_schema(self._held_to(request.schema), text)
            status = "invalid" if problem else "ok"
        return Outcome(
            key=request.key,
            status=status,
            text=text,
            reasoning=clean_text(reasoning),
            problem=problem,
            finish_reason=clean_text(finish_reason),
            n_prompt_tokens=n_prompt,
            n_cached_tokens=nested_int(usage, "prompt_tokens_details", "cached_tokens"),
            # Some servers count the reasoning in the total only.
            n_output_tokens=max(nested_int(usage, "completion_tokens"), nested_int(usage, "total_tokens") - n_prompt),
            n_reasoning_tokens=n_reasoning,
            seconds=seconds,
        )

    def _wraps(self, request: Request) -> bool:
        schema = request.schema.get("json") if request.schema else None
        return bool(schema) and not self._in_vllms_field and not _is_object(schema)

    def _held_to(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what the server was sent of a schema: what it was not told, no answer fails for."""
        if self._in_vllms_field:
            return schema
        return {"json": _without_size_limits(schema["json"])} if "json" in schema else {}


def json_object(raw: bytes) -> dict[str, Any] | None:
    """Return the JSON object that a server sent, or None for anything else."""
    try:
        payload = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return payload if isinstance(payload, dict) else None


def message_of(payload: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the first choice's message of a chat completion, or None for anything else."""
    choices = payload.get("choices") if payload else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    return message if isinstance(message, dict) else None


def nested_int(value: object, *names: str) -> int:
    """Return the count under these names, 0 where a server leaves any of them out or null."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 53 else 0


def server_message(payload: dict[str, Any] | None, raw: bytes) -> str:
    """Return an error in the server's own words: OpenAI's form, the forms of others, or the text as it is."""
    if payload is not None:
        error = payload.get("error")
        for said in (error.get("message") if isinstance(error, dict) else error, payload.get("message")):
            if isinstance(said, str) and said:
                return said
    return raw.decode(errors="replace")


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return how long the server asks to wait: Retry-After in seconds or as a date, or OpenAI's retry-after-ms."""
    milliseconds, after = headers.get("retry-after-ms", ""), headers.get("Retry-After", "")
    for value, unit_s in ((milliseconds, 0.001), (after, 1.0)):
        try:
            seconds = float(value) * unit_s
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    try:
        return max(0.0, parsedate_to_datetime(after).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


@lru_cache
def _sampling_fields(sampling: Sampling) -> dict[str, Any]:
    """Return the fields of a body that say how the answer is drawn, but for its length. Not to be changed."""
    return {name: value for name, value in asdict(sampling).items() if name != "max_tokens" and value is not None}


def _text_of(content: object) -> str | None:
    """Return a message's content as text: a string, or the text parts of a list."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else None


def _unwrapped(text: str, *, is_cut: bool) -> str:
    """Return the list in the object that was put around it, as it was written; any other answer as it is."""
    opening = _WRAPPER_OPENED.match(text)
    if opening is None:
        return text
    inner = text[opening.end() :].rstrip()
    return inner if is_cut else inner.removesuffix("}").rstrip()


def _response_format(stage: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON schema in the form that OpenAI's servers accept: an object outside, no size limits."""
    if not _is_object(schema):
        schema = {
            "type": "object",
            "properties": {WRAPPER: schema},
            "required": [WRAPPER],
            "additionalProperties": False,
        }
    portable = _without_size_limits(schema)
    name = re.sub(r"[^A-Za-z0-9_-]", "_", stage)[:64] or "answer"
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "strict": _is_closed(portable), "schema": portable},
    }


def _is_object(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "object"


def _without_size_limits(schema: Any, *, names: bool = False) -> Any:
    """Return a schema without size limits; with `names`, a mapping of property names to schemas."""
    if isinstance(schema, Mapping):
        return {
            name: _without_size_limits(value, names=not names and name in ("properties", "$defs"))
            for name, value in schema.items()
            if names or name not in _SIZE_LIMITS
        }
    if isinstance(schema, list | tuple):
        return [_without_size_limits(value) for value in schema]
    return schema


def _is_closed(schema: Any) -> bool:
    """Return whether every object of a schema names all of its properties and requires each, as strict mode demands."""
    if isinstance(schema, list):
        return all(map(_is_closed, schema))
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(properties):
            return False
        return all(map(_is_closed, properties.values()))
    return all(map(_is_closed, schema.values()))
