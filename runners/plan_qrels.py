"""Plans paper B's use of a model: a profile induced for each sampled user, and each pooled pair judged in each mode.

The pool is known only after the recommenders have run; before, the most it can hold stands for it, and a note says so.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..hf_datasets.errors import ConfigError
from .engines import parse_model
from .engines.local import MIN_ANSWER_TOKENS
from .plan import Costs, Expectations, Plan, PlannedStage
from .plan_stages import CACHE_BLOCK, StageCount
from .plan_tokens import find_context, find_counter

__all__ = ["MODES", "plan_expansion"]

MODES = ("ipp", "profile", "ipp+profile")
INSTRUCTION_TOKENS = 400
IPP_TOKENS = 450
"""Of an induced profile: Table 1's example has about 1,900 characters."""
ITEM_TOKENS = 25
"""Of a title with year, genres and a rating, where no texts are given."""
JUDGE_OUTPUT_TOKENS = 10
"""A grade, held to a form."""


def plan_expansion(
    model: str,
    *,
    n_users: int = 500,
    n_pairs: int | None = None,
    n_runs: int = 31,
    depth: int = 100,
    modes: Sequence[str] = MODES,
    n_profile_items: float = 100,
    item_texts: Sequence[str] | None = None,
    expectations: Expectations | None = None,
) -> Plan:
    """Plan the induction of profiles and the judging of pooled pairs.

    Args:
        model: that induces and judges.
        n_users: sampled users.
        n_pairs: pooled pairs of all users; None takes ``n_users * n_runs * depth``, which no pool exceeds.
        n_runs, depth: of the pool.
        modes: evidence that the judge is given, some of `MODES`.
        n_profile_items: items of a user's profile in a prompt.
        item_texts: the items' texts, from which an item's mean length is taken.
        expectations: tokenizer, speed, prices, and tokens of answers under ``induce`` and ``judge``.

    Raises:
        ConfigError: an unknown mode, or numbers that plan nothing.
    """
    expect = expectations or Expectations()
    if unknown := [mode for mode in modes if mode not in MODES]:
        raise ConfigError(f"There is no mode {unknown[0]!r}. There are: {', '.join(MODES)}.")
    if n_users < 1 or n_runs < 1 or depth < 1 or (n_pairs is not None and n_pairs < 1) or n_profile_items < 1:
        raise ConfigError("Users, runs, depth, pairs and items of a profile must each be 1 or more.")
    config = parse_model(model)
    counter = find_counter(config, tokenizer=expect.tokenizer, chars_per_token=expect.chars_per_token)
    notes = [f"Tokens of {config.name}: {counter.name}."]
    item = float(ITEM_TOKENS)
    if item_texts:
        item = float(np.mean(counter.count([f"{text}\n" for text in item_texts])))
        notes.append(f"An item has {item:.1f} tokens, the mean of {len(item_texts):,} texts.")
    else:
        notes.append(f"An item is taken to have {ITEM_TOKENS} tokens: give the texts (--items) to count them.")
    pairs = n_pairs if n_pairs is not None else n_users * n_runs * depth
    if n_pairs is None:
        notes.append(f"Pairs: {n_runs} runs x {depth} for each user, which no pool exceeds; lists overlap (--pairs).")
    notes.append(
        f"Instructions are taken to have {INSTRUCTION_TOKENS} tokens, an induced profile {IPP_TOKENS}, a profile "
        f"{n_profile_items:g} items. A user's prompts are asked one after the other and share all but the item."
    )
    profile = n_profile_items * item
    context = find_context(config)
    output = {"induce": float(IPP_TOKENS), "judge": float(JUDGE_OUTPUT_TOKENS)} | dict(expect.output_tokens)
    costs = Costs(expect, None, notes)
    stages: list[PlannedStage] = []
    beginnings = {"ipp": IPP_TOKENS, "profile": profile, "ipp+profile": IPP_TOKENS + profile}
    planned = [("induce", n_users, INSTRUCTION_TOKENS + profile, float(INSTRUCTION_TOKENS), 1)]
    planned += [
        (
            f"judge {mode}",
            pairs,
            INSTRUCTION_TOKENS + beginnings[mode] + item,
            INSTRUCTION_TOKENS + beginnings[mode],
            n_users,
        )
        for mode in modes
    ]
    for stage, n_prompts, tokens, shared, n_first in planned:
        answer = output[stage.split()[0]]
        fits = context is None or tokens + MIN_ANSWER_TOKENS <= context
        count = StageCount(
            stage=stage,
            n_prompts=n_prompts,
            n_prompt_tokens=n_prompts * tokens,
            n_shared_tokens=max(n_prompts - n_first, 0) * (shared // CACHE_BLOCK) * CACHE_BLOCK,
            n_too_long=0 if fits else n_prompts,
            longest_prompt=tokens,
            answer_tokens=round(answer),
            n_sampled=0,
            sampled_error=0.0,
            worst_error=0.0,
        )
        costs.expect = replace(expect, output_tokens={stage: answer})
        stages.append(costs.planned(count, config, ""))
    return Plan(tuple(stages), tuple(dict.fromkeys(notes)))
