"""The transformers engine: Hugging Face's own generation, in batches, where vLLM cannot go.

Prompts are tokenised first, through the chat template: one that does not fit the context is an outcome. A window
of prompts is sorted by length and cut into batches, so little is padded. `accelerate` places the model; started by
``accelerate launch``, every process holds a copy of it and answers every so-manieth batch (see `processes`). The
batches do not depend on the number of processes, and so neither do the answers.
"""

import gc
import hashlib
import os
import time
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import groupby, islice
from typing import Any, Literal, NamedTuple

from pydantic import Field

from ...hf_datasets.errors import EngineError
from ..parsing.answers import clean_text
from ..profiles import find_profile, split_answer
from ..requests import Outcome, Request, Sampling
from .base import ModelConfig
from .local import installed, model_context, tokenise
from .models import resolve_model
from .processes import current_team
from .schema_check import check_schema

__all__ = ["TransformersConfig", "TransformersEngine"]

BATCHES_IN_WINDOW = 16
"""Batches that are sorted together: enough to make them even, few enough to bound memory and what a stop waits for."""
PACKAGES = ("transformers", "accelerate", "torch")


class TransformersConfig(ModelConfig):
    """A model on the transformers engine."""

    engine: Literal["transformers"] = "transformers"
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "bfloat16"
    max_model_len: int | None = Field(default=None, ge=1, description="context in tokens; the model's own by default")
    batch_size: int = Field(default=16, ge=1, description="prompts answered together; halved where memory runs out")
    device_map: str | None = Field(
        default=None,
        description="where accelerate puts the layers: auto, balanced, cuda:0, cpu; by default over all GPUs, or one "
        "GPU for each of several processes",
    )
    attn_implementation: str | None = Field(default=None, description="sdpa, eager, flash_attention_2")
    trust_remote_code: bool = False


class Prompt(NamedTuple):
    """One prompt, ready for the model."""

    key: str
    token_ids: list[int]
    sampling: Sampling
    max_new_tokens: int
    """The longest answer: what was asked for, or what the context leaves."""
    opens_reasoning: bool = False
    """It ends inside the reasoning that the chat template opened."""


class TransformersEngine:
    """Answers requests with Hugging Face's generation."""

    def __init__(self, config: TransformersConfig) -> None:
        """Find the model; it is loaded with the first request, so a run that has all its answers never loads it.

        Args:
            config: which model, and how it is run.

        Raises:
            EngineError: transformers, accelerate or torch is not installed, or there is no such model.
        """
        missing = [name for name in PACKAGES if find_spec(name) is None]
        if missing:
            raise EngineError(
                f"The transformers engine needs {', '.join(missing)}. Install it with: "
                "pip install 'gistbench[transformers]'."
            )
        self._config = config
        self.model, self._source = resolve_model(config.name, config.revision, config.profile)
        self.profile = find_profile(self.model.name, config.profile)
        self.context_tokens: int = (
            config.max_model_len or self.profile.context_tokens or model_context(self._source, **self._from)
        )
        self._tokenizer: Any = None
        self._llm: Any = None
        self._sent_out = False

    @property
    def _from(self) -> dict[str, Any]:
        """What says which files of the source are meant."""
        revision = None if os.path.isdir(self._source) else self.model.revision
        return {"revision": revision, "trust_remote_code": self._config.trust_remote_code}

    def _load_tokenizer(self) -> None:
        from transformers import AutoTokenizer

        try:
            self._tokenizer = AutoTokenizer.from_pretrained(self._source, **self._from)
        except (ValueError, OSError) as error:
            raise EngineError(f"The tokenizer of {self._config.name} cannot be loaded: {error}") from error
        if not self._tokenizer.chat_template:
            raise EngineError(f"{self._config.name} has no chat template: it cannot be asked. Take its chat model.")

    def _load_model(self) -> None:
        from transformers import AutoModelForCausalLM, GenerationConfig
        from transformers.utils import logging as transformers_logging

        # The command line alone talks to the terminal.
        transformers_logging.disable_progress_bar()
        options = {"dtype": self._config.dtype, "attn_implementation": self._config.attn_implementation}
        options = {name: value for name, value in options.items() if value is not None}
        try:
            self._llm = AutoModelForCausalLM.from_pretrained(
                self._source, device_map=self._placement(), **options, **self._from
            ).eval()
        except (ValueError, RuntimeError, OSError, ImportError) as error:
            raise EngineError(f"transformers could not load {self._config.name}: {error}") from error
        # The model's own sampling defaults are recorded, and in nobody's way.
        self._defaults = self._llm.generation_config
        ends = self._defaults.eos_token_id
        ends = {*(ends if isinstance(ends, list) else [ends]), self._tokenizer.eos_token_id} - {None}
        self._end_ids = sorted(ends)
        pad = self._tokenizer.pad_token_id
        self._pad_id: int = pad if pad is not None else self._end_ids[0] if self._end_ids else 0
        self._llm.generation_config = GenerationConfig(eos_token_id=self._end_ids or None, pad_token_id=self._pad_id)

    def _placement(self) -> Any:
        import torch

        if self._config.device_map is not None:
            return self._config.device_map
        if not torch.cuda.is_available():
            return "cpu"
        local_rank = os.environ.get("LOCAL_RANK")
        return "auto" if local_rank is None else f"cuda:{local_rank}"

    def generate(self, requests: Iterable[Request]) -> Generator[Outcome]:
        """Answer requests, batch by batch."""
        remaining = iter(requests)
        team = current_team()
        n_at_once = team.size if team else 1
        n_in_window = self._config.batch_size * max(BATCHES_IN_WINDOW, n_at_once)
        while window := list(islice(remaining, n_in_window)):
            schemas = {request.key: request.schema for request in window}
            prepared = [self._prepare(request) for request in window]
            prompts = [one for one in prepared if isinstance(one, Prompt)]
            if prompts and self._llm is None:
                self._load_model()  # before the first outcome, which is recorded with what the model runs on
            yield from (one for one in prepared if isinstance(one, Outcome))
            batches = make_batches(prompts, self._config.batch_size)
            for start in range(0, len(batches), n_at_once):
                together = batches[start : start + n_at_once]
                if team and len(together) > 1:
                    self._sent_out = True
                    answered = team.answer((_Remote, self._config), together, self.answer)
                else:
                    answered = [self.answer(batch) for batch in together]
                for outcome in (outcome for outcomes in answered for outcome in outcomes):
                    problem = check_schema(schemas[outcome.key], outcome.text) if outcome.status == "ok" else ""
                    yield replace(outcome, status="invalid", problem=problem) if problem else outcome

    def _prepare(self, request: Request) -> Prompt | Outcome:
        """Tokenise one request, or say why it cannot be asked."""
        if self._tokenizer is None:
            self._load_tokenizer()
        prompt = tokenise(self._tokenizer, request.messages, self.profile, self.model, self.context_tokens)
        if isinstance(prompt, str):
            return Outcome(key=request.key, status="refused", problem=prompt)
        longest = min(request.sampling.max_tokens, self.context_tokens - len(prompt.token_ids))
        return Prompt(request.key, prompt.token_ids, request.sampling, longest, prompt.opens_reasoning)

    def answer(self, batch: Sequence[Prompt]) -> list[Outcome]:
        """Answer the prompts of one batch, in their order.

        Raises:
            EngineError: the model cannot be loaded.
        """
        import torch

        if self._tokenizer is None:
            self._load_tokenizer()
        if self._llm is None:
            self._load_model()
        started = time.monotonic()
        try:
            rows = self._generate(batch)
        except torch.OutOfMemoryError as error:
            problem = f"The model ran out of memory at one prompt of {len(batch[0].token_ids)} tokens: {error}"
            if len(batch) == 1:
                return [Outcome(key=batch[0].key, status="error", problem=problem)]
            rows = None
        if rows is None:  # outside the handler, which holds on to the memory
            torch.cuda.empty_cache()
            half = len(batch) // 2
            return [*self.answer(batch[:half]), *self.answer(batch[half:])]
        seconds = time.monotonic() - started
        return [self._outcome(prompt, row, seconds) for prompt, row in zip(batch, rows, strict=True)]

    def _generate(self, batch: Sequence[Prompt]) -> list[list[int]]:
        """Return the new tokens of each prompt, as far as its own longest answer."""
        import torch
        from transformers import GenerationConfig, StoppingCriteria, StoppingCriteriaList

        longest = max(len(prompt.token_ids) for prompt in batch)
        limits = torch.tensor([prompt.max_new_tokens for prompt in batch])

        class AtItsLimit(StoppingCriteria):  # type: ignore[misc]
            """Ends each row at its own longest answer, so that no row's answer depends on its neighbours."""

            def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
                return (input_ids.shape[1] - longest >= limits).to(input_ids.device)

        ids = torch.full((len(batch), longest), self._pad_id)
        mask = torch.zeros((len(batch), longest), dtype=torch.long)
        for row, prompt in enumerate(batch):
            ids[row, longest - len(prompt.token_ids) :] = torch.tensor(prompt.token_ids)
            mask[row, longest - len(prompt.token_ids) :] = 1
        sampling = batch[0].sampling
        temperature = 1.0 if sampling.temperature is None else sampling.temperature
        drawn = {"temperature": temperature, "top_p": sampling.top_p or 1.0, "top_k": sampling.top_k or 0}
        options = GenerationConfig(
            max_new_tokens=int(limits.max()),
            do_sample=temperature > 0,
            repetition_penalty=sampling.repetition_penalty or 1.0,
            eos_token_id=self._end_ids or None,
            pad_token_id=self._pad_id,
            **(drawn if temperature > 0 else {}),
        )
        with torch.inference_mode(), torch.random.fork_rng(devices=[]):
            # One generator serves the whole batch: the same batch gives the same answers, whoever answers it.
            torch.manual_seed(_seed(batch))
            generated = self._llm.generate(
                input_ids=ids.to(self._llm.device),
                attention_mask=mask.to(self._llm.device),
                generation_config=options,
                stopping_criteria=StoppingCriteriaList([AtItsLimit()]),
            )
        new: list[list[int]] = generated[:, longest:].tolist()
        return [row[: prompt.max_new_tokens] for row, prompt in zip(new, batch, strict=True)]

    def _outcome(self, prompt: Prompt, row: list[int], seconds: float) -> Outcome:
        end = next((index for index, token in enumerate(row) if token in self._end_ids), None)
        tokens = row if end is None else row[:end]
        text = self._tokenizer.decode(tokens, skip_special_tokens=not self.profile.keeps_special_tokens)
        reasoning, answer = split_answer(text, self.profile, is_opened=prompt.opens_reasoning)
        n_reasoning = len(self._tokenizer.encode(reasoning, add_special_tokens=False)) if reasoning else 0
        return Outcome(
            key=prompt.key,
            status="truncated" if end is None else "ok",
            text=clean_text(answer),
            reasoning=clean_text(reasoning),
            finish_reason="length" if end is None else "stop",
            n_prompt_tokens=len(prompt.token_ids),
            n_output_tokens=len(tokens) + (end is not None),
            n_reasoning_tokens=n_reasoning,
            seconds=seconds,
        )

    def describe(self) -> dict[str, Any]:
        """Return versions, the effective options, the model's own sampling defaults and the hardware."""
        team = current_team()
        options = self._config.model_dump(include={"dtype", "batch_size", "device_map", "attn_implementation"})
        return {
            "engine": "transformers",
            "versions": installed(PACKAGES),
            "options": options,
            "context_tokens": self.context_tokens,
            "processes": team.size if team else 1,
            "structured_outputs": "validated only",
            "hardware": self._hardware(),
            "n_gpus": self._n_gpus(team.size if team else 1),
            # Known of a loaded model only; none of them is used.
            "generation_config": self._defaults.to_diff_dict() if self._llm is not None else None,
        }

    def _hardware(self) -> str | None:
        """Return what the model ran on; None when it was not loaded, since every answer was there."""
        if self._llm is None:
            return None
        import torch

        return str(torch.cuda.get_device_name(0)) if self._llm.device.type == "cuda" else str(self._llm.device.type)

    def _n_gpus(self, n_processes: int) -> int:
        """Return the GPUs that a run keeps: one for each of several processes, or all that one may spread over."""
        import torch

        n_devices = int(torch.cuda.device_count())
        if not n_devices or self._config.device_map == "cpu":
            return 0
        if n_processes > 1 or (self._config.device_map or "auto").startswith("cuda"):
            return n_processes
        return n_devices

    def close(self) -> None:
        """Free the model's memory, here and in the other processes."""
        team = current_team()
        if self._sent_out and team:
            team.drop()
            self._sent_out = False
        if self._llm is None:
            return
        self._llm = None
        gc.collect()
        import torch

        if torch.cuda.is_available():
            torch.cuda.empty_cache()


class _Remote:
    """The engine in another process, which answers one batch at a time."""

    def __init__(self, config: TransformersConfig) -> None:
        self._engine = TransformersEngine(config)

    def __call__(self, batch: Sequence[Prompt]) -> list[Outcome]:
        return self._engine.answer(batch)

    def close(self) -> None:
        self._engine.close()


def make_batches(prompts: Iterable[Prompt], batch_size: int) -> list[list[Prompt]]:
    """Return prompts in batches of one sampling each, sorted by length, longest first.

    The longest come first, so that memory runs out at once where it does.
    """

    def order(prompt: Prompt) -> tuple[str, int, str]:
        return repr(prompt.sampling), -len(prompt.token_ids), prompt.key

    batches: list[list[Prompt]] = []
    for _, alike in groupby(sorted(prompts, key=order), key=lambda prompt: prompt.sampling):
        while batch := list(islice(alike, batch_size)):
            batches.append(batch)
    return batches


def _seed(batch: Sequence[Prompt]) -> int:
    """Return a seed from the keys of a batch, which hold each request's own seed and repeat."""
    digest = hashlib.sha256("".join(prompt.key for prompt in batch).encode()).digest()
    return int.from_bytes(digest[:8]) >> 1
