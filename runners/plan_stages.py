"""What each stage would ask, counted: prompts, tokens, shared beginnings, and prompts that do not fit.

The stages themselves say what they would ask. Each object's text is tokenised once; a prompt's tokens are those of its
fixed text and of its lines, added up by numpy. Tokens across the joints are missed by that: some prompts of each stage
are rendered and tokenised whole, and the difference is told.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..hf_datasets import INTERACTION_TYPES
from .engines.local import MIN_ANSWER_TOKENS
from .plan_data import Interests, PlanData
from .plan_tokens import TokenCounter
from .prompts import identifier, item_name
from .stages.base import Asker, shown_name
from .stages.extract import Extract
from .stages.ground import Ground
from .stages.map import Map
from .stages.retrieve import N_BACKING, Retrieve
from .stages.shortlist import Shortlist

__all__ = ["ObjectTokens", "StageCount", "chunks_per_user", "count_extract", "count_judge"]

N_SAMPLED = 8
"""Prompts of each stage that are tokenised whole."""
CACHE_BLOCK = 16
"""Tokens that an engine's cache keeps or forgets together: vLLM's default on GPUs."""
_ITEMS, _NAME = "\ue000", "\ue001"
"""Stand for the lines and for a name in a prompt's fixed text."""


@dataclass(frozen=True)
class StageCount:
    """What one stage would ask of one model."""

    stage: str
    n_prompts: int
    n_prompt_tokens: float
    n_shared_tokens: float
    """Those in whole cache blocks at a prompt's beginning that an earlier prompt of the stage has too."""
    n_too_long: int
    longest_prompt: float
    """In tokens, of those that were counted one by one."""
    answer_tokens: int
    """The longest answer that is asked for."""
    n_sampled: int
    sampled_error: float
    """Of the added-up tokens against whole prompts: the difference of the sums, as a share."""
    worst_error: float
    """The largest share by which one sampled prompt differs."""


class ObjectTokens:
    """The tokens of every object's text, for one tokenizer."""

    def __init__(self, counter: TokenCounter, data: PlanData) -> None:
        """Tokenise each text once."""
        self.counter = counter
        self._data = data
        histories, pool = data.histories, data.pool
        self._ids = pa.array(histories.object_ids, pa.string())
        at = pc.index_in(pa.array(pool.object_ids, pa.string()), value_set=self._ids)
        known = at.is_valid().to_numpy(zero_copy_only=False)
        others = [text for text, is_known in zip(pool.texts, known, strict=True) if not is_known]
        counts = counter.count([f" {text}\n" for text in (*histories.texts, *others)])
        self.texts = counts[: len(histories.texts)]
        self.pool = np.empty(len(pool))
        self.pool[known] = self.texts[at.drop_null().to_numpy().astype(np.int64)]
        self.pool[~known] = counts[len(histories.texts) :]
        self._pool_ids = pa.array(pool.object_ids, pa.string())
        names = counter.count([f"{item_name(i)} |" for i in range(max(len(pool), 1000))])
        self._names = np.concatenate([[0.0], np.cumsum(names)])

    @cached_property
    def engagements(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Tokens of each object's line of a history without the kind, and of each kind's: (objects,), (kinds,)."""
        ids = self.counter.count([identifier(object_id) for object_id in self._data.histories.object_ids])
        return ids + self.texts, self.counter.count([f" | {kind} |" for kind in INTERACTION_TYPES])

    def names(self, n: int) -> float:
        """Return the tokens of the names of a prompt's first n items."""
        if n >= len(self._names):
            return float(self._names[-1] * n / (len(self._names) - 1))
        return float(self._names[n])

    def of_items(self, shown: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        """Return the tokens of the items of each prompt, from the objects' ids: (prompts,)."""
        sizes = np.array([len(ids) for ids in shown], np.int64)
        flat = pa.array([object_id for ids in shown for object_id in ids], pa.string())
        tokens = np.zeros(len(flat))
        for ids, counts in ((self._pool_ids, self.pool), (self._ids, self.texts)):
            at = pc.index_in(flat, value_set=ids)
            is_there = at.is_valid().to_numpy(zero_copy_only=False)
            tokens[is_there] = counts[at.drop_null().to_numpy().astype(np.int64)]
        sums = np.concatenate([[0.0], np.cumsum(tokens)])
        ends = np.cumsum(sizes)
        of_names = np.array([self.names(n) for n in sizes.tolist()], np.float64)
        return np.asarray(sums[ends] - sums[ends - sizes] + of_names, np.float64)


@dataclass(frozen=True)
class _Fixed:
    """The fixed text of a stage's prompts, in tokens."""

    head: float
    """What stands before anything that varies."""
    before_name: float
    """What stands between the items and the first name; 0 where a prompt has no items."""
    whole: float

    @classmethod
    def of(cls, counter: TokenCounter, asker: Asker, **values: Any) -> "_Fixed":
        text = counter.chat(asker.prompt.render(**values))
        # A line's end is counted with the line, and a name's leading space with the name.
        text = text.replace(_ITEMS + "\n", _ITEMS).replace(" " + _NAME, _NAME)
        parts = re.split(f"[{_ITEMS}{_NAME}]", text)
        counts = counter.count(parts)
        between = float(counts[1]) if len(parts) > 2 else 0.0
        return cls(float(counts[0]), between, float(counts.sum()))


def chunks_per_user(data: PlanData, chunk_size: int, history_length: int | None) -> NDArray[np.int64]:
    """Return the extraction prompts of each user: (users,), in the order of the histories."""
    histories = data.histories
    shown = np.array([histories.n_engagements(user) for user in histories.users], np.int64)
    if history_length is not None:
        shown = np.minimum(shown, history_length)
    return -(-shown // chunk_size)


def count_extract(
    asker: Asker, data: PlanData, tokens: ObjectTokens, *, chunk_size: int, history_length: int | None
) -> StageCount:
    """Count the extraction prompts of one candidate.

    Args:
        asker: of the candidate.
        data: of the plan.
        tokens: by the candidate's tokenizer.
        chunk_size, history_length: as of a run.
    """
    stage = Extract(asker, data.histories, chunk_size=chunk_size, history_length=history_length)
    subjects = stage.subjects()
    fixed = _Fixed.of(tokens.counter, asker, signals=data.histories.signals, items=_ITEMS)
    of_object, of_kind = tokens.engagements
    sums = []
    for user in data.histories.users:
        objects, kinds = (column[:history_length] for column in data.histories.engagements_of(user))
        if len(objects):
            sums.append(np.add.reduceat(of_object[objects] + of_kind[kinds], np.arange(0, len(objects), chunk_size)))
    prompts = fixed.whole + (np.concatenate(sums) if sums else np.zeros(0))
    return _counted(stage, asker, tokens.counter, subjects, prompts, shared=fixed.head)


def count_judge(
    askers: dict[str, Asker],
    data: PlanData,
    tokens: ObjectTokens,
    interests: Interests,
    *,
    names_per_mapping: int,
    seed: int,
) -> list[StageCount]:
    """Count the judge's prompts about one candidate, stage by stage.

    Args:
        askers: of the judge, by stage.
        data: of the plan.
        tokens: by the judge's tokenizer.
        interests: of the candidate.
        names_per_mapping, seed: as of a run.

    Raises:
        ConfigError: the judge's context leaves no room for items.
    """
    histories, claims, counter = data.histories, interests.claims, tokens.counter
    weight = interests.n / len(claims) if claims else 0.0
    users = {claim.user for claim in claims}
    of_name = dict(zip(data.names, counter.count([f" {shown_name(name)}" for name in data.names]), strict=True))
    unknown = sorted({claim.interest for claim in claims} - set(of_name))
    of_name |= dict(zip(unknown, counter.count([f" {shown_name(name)}" for name in unknown]), strict=True))

    ground = Ground(askers["ground"], histories, claims)
    evidence = ground.subjects()
    fixed = _Fixed.of(counter, askers["ground"], items=_ITEMS, interest=_NAME)
    prompts = fixed.whole + tokens.of_items([part.claim.item_ids[part.first : part.last] for part in evidence])
    prompts += np.array([of_name[part.claim.interest] for part in evidence])
    counts = [_counted(ground, askers["ground"], counter, evidence, prompts, shared=fixed.head, weight=weight)]

    names = interests.names_of(histories.users, data.names)
    counts.append(_count_shortlist(askers["shortlist"], data, tokens, names, of_name))

    shortlists = interests.shortlists or dict.fromkeys(users, data.pool.object_ids)
    retrieve = Retrieve(askers["retrieve"], histories, claims, data.pool, shortlists, seed=seed)
    test_sets = retrieve.subjects()
    fixed = _Fixed.of(counter, askers["retrieve"], items=_ITEMS, interest=_NAME, k=N_BACKING)
    prompts = fixed.whole + tokens.of_items([test_set.shown for test_set in test_sets])
    prompts += np.array([of_name[test_set.interest] for test_set in test_sets])
    counts.append(_counted(retrieve, askers["retrieve"], counter, test_sets, prompts, shared=fixed.head, weight=weight))

    if data.taxonomy is not None:
        known = {claim.interest for claim in claims} if interests.is_whole else set(data.names)
        mapping = Map(askers["map"], data.taxonomy, known, batch_size=names_per_mapping)
        batches = mapping.subjects()
        categories = mapping.request(batches[0]).messages[-1].content if batches else ""
        counts.append(
            _count_map(askers["map"], counter, mapping, batches, categories, of_name, interests, names_per_mapping)
        )
    return counts


def _count_shortlist(
    asker: Asker, data: PlanData, tokens: ObjectTokens, names: dict[str, list[str]], of_name: dict[str, float]
) -> StageCount:
    stage = Shortlist(asker, data.pool, names)
    subjects = stage.subjects()
    counter = tokens.counter
    fixed = _Fixed.of(counter, asker, items=_ITEMS, interests=[_NAME])
    joint = float(counter.count(["\n-"])[0])
    parts = list(dict.fromkeys((subject.first, subject.last) for subject in subjects))
    n_batches = len(subjects) // len(parts) if parts else 0
    lines = np.array([tokens.pool[first:last].sum() + tokens.names(last - first) for first, last in parts])
    # Users share their interests out over batches; all names stand once in front of each part of the pool.
    all_names = sum(of_name[name] for own in names.values() for name in own)
    all_names += joint * (sum(map(len, names.values())) - n_batches)
    per_prompt = fixed.whole + lines + (all_names / n_batches if n_batches else 0.0)
    prompts = np.repeat(per_prompt, n_batches)
    shared = np.repeat(fixed.head + lines + fixed.before_name, n_batches)

    def whole(subject: Any) -> float:
        # A sampled prompt is compared with its own names, which only its text tells apart.
        lines_of = lines[parts.index((subject.first, subject.last))]
        shown = stage.request(subject).messages[-1].content.rsplit("\n\n", 1)[-1].splitlines()
        own = [line[1:] for line in shown if line.startswith("- ")]
        return float(fixed.whole + lines_of + counter.count(own).sum() + joint * (len(own) - 1))

    return _counted(stage, asker, counter, subjects, prompts, shared=shared, n_first=len(parts), added_up=whole)


def _count_map(
    asker: Asker,
    counter: TokenCounter,
    mapping: Map,
    batches: Sequence[Any],
    example: str,
    of_name: dict[str, float],
    interests: Interests,
    size: int,
) -> StageCount:
    categories = re.findall(r"^\d+ \| .*$", example.partition("\n0 | ")[0], re.MULTILINE)
    fixed = _Fixed.of(counter, asker, categories=categories, interests=[_NAME])
    numbers = np.concatenate([[0.0], counter.count([f"\n{number} |" for number in range(2, size + 1)])])

    def added_up(batch: Any) -> float:
        return float(fixed.whole + sum(of_name[name] for name in batch.names) + numbers[: len(batch.names)].sum())

    prompts = np.array([added_up(batch) for batch in batches])
    if not interests.is_whole:
        # Names of categories stand for those of interests: as many prompts as there are names, as long as these.
        full = prompts[: max(len(prompts) - 1, 1)]
        prompts = np.resize(full, -(-interests.n_names // size)) if len(full) else full
    return _counted(mapping, asker, counter, batches, prompts, shared=fixed.head, added_up=added_up)


def _counted(
    stage: Any,
    asker: Asker,
    counter: TokenCounter,
    subjects: Sequence[Any],
    prompts: NDArray[np.float64],
    *,
    shared: float | NDArray[np.float64],
    weight: float = 1.0,
    n_first: int = 1,
    added_up: Any = None,
) -> StageCount:
    """Sum up a stage, and compare some of its prompts with themselves tokenised whole.

    Args:
        stage: what is asked.
        asker: of the stage.
        counter: of tokens.
        subjects: what the prompts are about.
        prompts: tokens of each prompt.
        shared: tokens at the beginning that prompts share.
        weight: for how many prompts each of these stands.
        n_first: prompts that are the first with their beginning.
        added_up: the tokens of a sampled subject, where they are not those of the prompt at its place.
    """
    n_prompts = round(len(prompts) * weight)
    blocks = np.broadcast_to(np.floor(np.asarray(shared) / CACHE_BLOCK) * CACHE_BLOCK, prompts.shape)
    share_again = max(n_prompts - n_first, 0) / n_prompts if n_prompts else 0.0
    places = np.unique(np.linspace(0, len(subjects) - 1, N_SAMPLED).astype(int)) if subjects else np.zeros(0, int)
    sampled = [subjects[place] for place in places]
    whole = counter.count([counter.chat(stage.request(subject).messages) for subject in sampled])
    ours = np.array([added_up(subject) for subject in sampled]) if added_up else prompts[places]
    context = asker.context_tokens
    too_long = 0 if context is None else int((prompts + MIN_ANSWER_TOKENS > context).sum())
    return StageCount(
        stage=stage.name,
        n_prompts=n_prompts,
        n_prompt_tokens=float(prompts.sum() * weight),
        n_shared_tokens=float(blocks.sum() * weight * share_again),
        n_too_long=round(too_long * weight),
        longest_prompt=float(prompts.max()) if len(prompts) else 0.0,
        answer_tokens=asker.answer_tokens,
        n_sampled=len(sampled),
        sampled_error=float(ours.sum() / whole.sum() - 1) if len(sampled) else 0.0,
        worst_error=float(np.abs(ours / whole - 1).max()) if len(sampled) else 0.0,
    )
