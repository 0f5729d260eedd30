"""Asks a few prompts of each stage for real, to measure what a plan else assumes: speed, interests, answers' length.

Nothing is stored: a probe's answers are measured and forgotten.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..hf_datasets.errors import EngineError
from .config import RunConfig
from .cost import n_gpus_of
from .engines import ModelConfig, open_engine, parse_model
from .parsing import parse_interests
from .plan_data import PlanData
from .requests import Outcome, Request
from .stages.base import Asker
from .stages.extract import Extract
from .stages.ground import Claim, Ground
from .stages.map import Map
from .stages.retrieve import Retrieve
from .stages.shortlist import Shortlist

__all__ = ["Measured", "Named", "Probed", "probe"]


@dataclass(frozen=True)
class Measured:
    """What some prompts of one stage took."""

    n_prompts: int
    n_prompt_tokens: int
    n_output_tokens: int
    seconds: float
    """Wall time of all of them together, the model's loading left out."""
    n_gpus: float
    hardware: str

    def hours(self, n_prompt_tokens: float, n_output_tokens: float) -> float | None:
        """Return the hours of as many GPUs (of the machine, where it has none) for more such prompts.

        In proportion to the tokens read and written; None where the engine counts none.
        """
        measured = self.n_prompt_tokens + self.n_output_tokens
        if not measured:
            return None
        return self.seconds * (n_prompt_tokens + n_output_tokens) / measured * max(self.n_gpus, 1) / 3600


@dataclass(frozen=True)
class Named:
    """What a candidate named in a probe."""

    per_chunk: tuple[float, str]
    """Interests for each answered extraction prompt, and where that is from."""
    cited_per_interest: float
    claims: tuple[Claim, ...]


@dataclass
class Probed:
    """What a probe measured."""

    stages: dict[tuple[str, str], Measured] = field(default_factory=dict)
    """By stage and the label of the model that was asked."""
    named: dict[str, Named] = field(default_factory=dict)
    """By the candidate's label."""

    def stage(self, stage: str, model: str) -> Measured | None:
        """Return what was measured of a stage, if it was."""
        return self.stages.get((stage, model))

    def interests(self, candidate: str) -> Named | None:
        """Return what a candidate named, if it was asked and named anything."""
        return self.named.get(candidate)


def probe(config: RunConfig, data: PlanData, n: int) -> Probed:
    """Ask up to n prompts of each stage, spread over all there are.

    The first prompt of each model is asked before the clock starts, since it loads the model.

    Args:
        config: of the run.
        data: as the plan loads it.
        n: prompts of each stage.

    Raises:
        EngineError: a model cannot be loaded, or answers nothing.
    """
    probed = Probed()
    for candidate in map(parse_model, config.candidates):
        engine = open_engine(candidate)
        try:
            stage = Extract(
                Asker.of("extract", engine.model, candidate, engine.context_tokens),
                data.histories,
                chunk_size=config.chunk_size,
                history_length=config.history_length,
            )
            subjects = _spread(stage.subjects(), n)
            answered = _measure(probed, stage, subjects, engine, candidate, is_loaded=False)
            probed.named[candidate.label] = _named(data, answered, n)
        finally:
            engine.close()
    judge = parse_model(config.judge)
    claims = [claim for named in probed.named.values() for claim in named.claims][:n]
    if not claims:
        return probed
    engine = open_engine(judge)
    is_loaded = False
    try:
        for made in _judge_stages(config, data, claims, engine, judge):
            if subjects := _spread(made.subjects(), n):
                _measure(probed, made, subjects, engine, judge, is_loaded=is_loaded)
                is_loaded = True
    finally:
        engine.close()
    return probed


def _judge_stages(
    config: RunConfig, data: PlanData, claims: Sequence[Claim], engine: Any, judge: ModelConfig
) -> Iterable[Any]:
    def asker(stage: str) -> Asker:
        return Asker.of(stage, engine.model, judge, engine.context_tokens)

    names: dict[str, list[str]] = {}
    for claim in claims:
        names.setdefault(claim.user, []).append(claim.interest)
    yield Ground(asker("ground"), data.histories, claims)
    yield Shortlist(asker("shortlist"), data.pool, names)
    # What overlaps is not known before the shortlist is judged; it makes no prompt longer or shorter.
    shortlists = dict.fromkeys(names, data.pool.object_ids)
    yield Retrieve(asker("retrieve"), data.histories, claims, data.pool, shortlists, seed=config.seed)
    if data.taxonomy is not None:
        interests = [claim.interest for claim in claims]
        yield Map(asker("map"), data.taxonomy, interests, batch_size=config.names_per_mapping)


def _spread(subjects: Sequence[Any], n: int) -> list[Any]:
    places = np.unique(np.linspace(0, len(subjects) - 1, n).astype(int)) if subjects else np.zeros(0, int)
    return [subjects[place] for place in places]


def _measure(
    probed: Probed, stage: Any, subjects: Sequence[Any], engine: Any, config: ModelConfig, *, is_loaded: bool
) -> list[tuple[Any, Outcome]]:
    """Ask, and keep what it took; return each answered subject with its outcome."""
    requests: dict[str, Request] = {}
    by_key = {}
    for subject in subjects:
        request = stage.request(subject)
        requests[request.key], by_key[request.key] = request, subject
    if not requests:
        return []
    if not is_loaded:
        list(engine.generate([next(iter(requests.values()))]))
    started = time.monotonic()
    outcomes = [outcome for outcome in engine.generate(iter(requests.values())) if outcome.final]
    seconds = time.monotonic() - started
    read = [outcome for outcome in outcomes if outcome.status in ("ok", "truncated")]
    if not read:
        first = outcomes[0].problem if outcomes else "no outcome"
        raise EngineError(f"{config.name} answered none of {len(requests)} {stage.name} prompts of the probe: {first}")
    described = engine.describe()
    hardware = str(described.get("hardware") or described.get("engine"))
    probed.stages[stage.name, config.label] = Measured(
        n_prompts=len(read),
        n_prompt_tokens=sum(outcome.n_prompt_tokens for outcome in read),
        n_output_tokens=sum(outcome.n_output_tokens for outcome in read),
        seconds=seconds,
        n_gpus=n_gpus_of(described),
        hardware=hardware,
    )
    return [(by_key[outcome.key], outcome) for outcome in read]


def _named(data: PlanData, answered: Sequence[tuple[Any, Outcome]], n: int) -> Named:
    claims, n_read = [], 0
    for chunk, outcome in sorted(answered, key=lambda pair: str(pair[0])):
        value = parse_interests(outcome.text, finish_reason=outcome.finish_reason).value
        if value is None:
            continue
        n_read += 1
        own = data.histories.objects_of(chunk.user)
        claims += [
            Claim(chunk.user, interest.name, tuple(item for item in interest.item_ids if item in own))
            for interest in value.interests
        ]
    rate = len(claims) / n_read if n_read else 0.0
    cited = sum(len(claim.item_ids) for claim in claims) / len(claims) if claims else 0.0
    source = (
        f"{rate:.2f} for each of {n_read} readable extraction prompts of the probe; names that repeat count each time"
    )
    merged = {claim[:2]: claim for claim in claims}
    return Named((rate, source), cited, tuple(merged.values()))
