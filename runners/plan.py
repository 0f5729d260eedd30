"""Plans a run before anything of it runs: prompts, tokens, what a cache can share, GPU hours and money, per stage.

What a run would ask is counted by its own stages; what nobody can know before (interests, the length of answers, speed,
prices) is taken from paper A's tables, from parameters or from a probe, and each plan says in its notes from where.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..hf_datasets.errors import ConfigError
from ..hf_datasets.results_published import published_value
from .config import RunConfig
from .engines import ModelConfig, parse_model
from .plan_data import CITED_PER_INTEREST, Interests, PlanData, expect_interests, load_plan_data, published_rate
from .plan_stages import ObjectTokens, StageCount, chunks_per_user, count_extract, count_judge
from .plan_tokens import Estimate, find_context, find_counter
from .prices import Prices
from .profiles import find_profile
from .requests import ModelRef
from .runfolder import RunFolder
from .stages.base import Asker
from .throughput import Rate, Throughput

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Group

    from .plan_probe import Probed

__all__ = ["JUDGE_STAGES", "Costs", "Expectations", "Plan", "PlannedStage", "plan_run", "published_output_tokens"]

JUDGE_STAGES = ("ground", "shortlist", "retrieve", "map")
LOCAL_ENGINES = ("vllm", "transformers", "ray")
"""Engines whose time is that of our own GPUs."""
_TABLE_25 = {
    "ground": "IG evidence relevance (Sec. 4.2)",
    "shortlist": "IS distractor filtering (Sec. 4.3)",
    "retrieve": "IS retrieval (Sec. 4.3)",
    "map": "Taxonomy mapping (Sec. 4.4)",
}


@dataclass(frozen=True)
class Expectations:
    """What has to be assumed, and what may be set instead."""

    interests_per_user: float | None = None
    """None: from paper A's tables."""
    cited_per_interest: float = CITED_PER_INTEREST
    output_tokens: Mapping[str, float] = field(default_factory=dict)
    """Of one answer, by stage; stages left out are as in paper A's tables."""
    like: RunFolder | None = None
    """A run whose interests are taken for every candidate's."""
    tokenizer: str | None = None
    """Counts in place of every model's own."""
    chars_per_token: float | None = None
    gpu: str = "H100"
    throughput: Throughput = field(default_factory=Throughput.load)
    prices: Prices = field(default_factory=Prices.load)


@dataclass(frozen=True)
class PlannedStage:
    """One stage of one model, as it is expected to be."""

    stage: str
    model: str
    candidate: str
    """Whose answers are asked for, or judged."""
    n_prompts: int
    n_prompt_tokens: int
    n_shared_tokens: int
    """Of the prompt tokens: those that a prefix cache can serve."""
    n_too_long: int
    """Prompts that do not fit the model's context; None of it known: 0, and a note says so."""
    n_output_tokens: int
    gpu_hours: float | None
    """None: not on GPUs of one's own, or no speed is known."""
    usd: float | None
    """None: not a paid server, or no price is known."""
    sampled_error: float
    """Of the tokens, against whole prompts of a sample: a share."""
    n_sampled: int

    @property
    def shared_share(self) -> float:
        """The share of prompt tokens that a prefix cache can serve."""
        return self.n_shared_tokens / self.n_prompt_tokens if self.n_prompt_tokens else 0.0


@dataclass(frozen=True)
class Plan:
    """What a run is expected to take."""

    stages: tuple[PlannedStage, ...]
    notes: tuple[str, ...]
    """Where everything is from that is assumed, and what is not known."""

    def total(self) -> PlannedStage:
        """Return the sum of all stages; hours and money are of the stages that have them, None where none has."""
        return _total(self.stages)

    def frame(self) -> "pd.DataFrame":
        """Return one row per stage and model, the total last."""
        import pandas as pd

        rows = [*self.stages, self.total()]
        return pd.DataFrame([{**asdict(row), "shared_share": row.shared_share} for row in rows])

    def csv(self) -> str:
        """Return the rows as CSV."""
        return str(self.frame().to_csv(index=False))

    def json(self) -> str:
        """Return rows, total and notes as JSON."""
        rows = [{**asdict(row), "shared_share": round(row.shared_share, 4)} for row in (*self.stages, self.total())]
        return json.dumps({"stages": rows[:-1], "total": rows[-1], "notes": self.notes}, indent=2, ensure_ascii=False)

    def markdown(self) -> str:
        """Return a table with the notes beneath it."""
        cells = [[*_HEADINGS], ["---", "---", "---", *["---:"] * (len(_HEADINGS) - 3)], *map(list, self.cells())]
        lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells]
        return "\n".join([*lines, "", *(f"- {note}" for note in self.notes)]) + "\n"

    def table(self, title: str = "What the run would take") -> "Group":
        """Return the rows and notes for a terminal; 150 characters hold them without a fold."""
        from rich.console import Group
        from rich.markup import escape
        from rich.table import Table
        from rich.text import Text

        table = Table(title=title)
        for place, heading in enumerate(self.headings):
            table.add_column(heading, justify="left" if place < 3 else "right", overflow="fold")
        *rows, total = self.cells()
        for row in rows:
            table.add_row(*map(escape, row))
        table.add_section()
        table.add_row(*map(escape, total), style="bold")
        return Group(table, *(Text(f"- {note}") for note in self.notes))

    def cells(self) -> list[tuple[str, ...]]:
        """Return the rows as texts, under `headings`."""
        return [_cells(row) for row in (*self.stages, self.total())]

    @property
    def headings(self) -> tuple[str, ...]:
        """The columns of `cells`."""
        return _HEADINGS


_HEADINGS = (
    "Stage", "Model", "Candidate", "Prompts", "Tokens in", "Shared", "Do not fit", "Tokens out", "GPU hours", "USD",
    "Token error",
)  # fmt: skip


def plan_run(
    config: RunConfig,
    expectations: Expectations | None = None,
    *,
    data: PlanData | None = None,
    probed: "Probed | None" = None,
) -> Plan:
    """Plan a run; no model is loaded or asked, and nothing is downloaded.

    Args:
        config: of the run.
        expectations: what is assumed.
        data: as loaded for the same configuration already.
        probed: what a probe measured; it goes before what is assumed.

    Raises:
        ConfigError, DataError: the run could not start either.
    """
    expect = expectations or Expectations()
    if not config.candidates:
        raise ConfigError("No candidate is named. Name at least one: --candidate lexical/hashtag.")
    candidates = [parse_model(candidate, "candidate") for candidate in config.candidates]
    judge = parse_model(config.judge, "judge")
    data = data or load_plan_data(config)
    notes = [
        f"{len(data.histories.users):,} users, {data.n_engagements:,} engagements, "
        f"{len(data.histories.texts):,} objects."
    ]
    tokens = _object_tokens(expect, data, (*candidates, judge))
    for model in (*candidates, judge):
        notes.append(f"Tokens of {model.label}: {tokens[model.label].counter.name}.")
        if find_context(model) is None and model.engine != "lexical":
            notes.append(
                f"The context of {model.label} is not known here: nothing is split to it and every prompt is taken to "
                "fit. Name it (vllm: max_model_len, openai: context_tokens)."
            )
    stages: list[PlannedStage] = []
    errors: list[StageCount] = []
    costs = Costs(expect, probed, notes)
    asked: dict[str, Any] = {"chunk_size": config.chunk_size, "history_length": config.history_length}
    for candidate in candidates:
        count = count_extract(_askers(candidate)["extract"], data, tokens[candidate.label], **asked)
        errors.append(count)
        stages.append(costs.planned(count, candidate, candidate.label))
    chunks = chunks_per_user(data, **asked)
    judging = _askers(judge)
    for candidate in candidates:
        interests = _interests(expect, probed, data, chunks, candidate, config.seed)
        notes.append(
            f"Interests of {candidate.label}: {interests.n:,}, {interests.source}; {_cited(interests):.1f} cited items "
            "each that are in the history."
        )
        options: dict[str, Any] = {"names_per_mapping": config.names_per_mapping, "seed": config.seed}
        for count in count_judge(judging, data, tokens[judge.label], interests, **options):
            errors.append(count)
            stages.append(costs.planned(count, judge, candidate.label))
    worst = max((count.worst_error for count in errors), default=0.0)
    n_sampled = sum(count.n_sampled for count in errors)
    if any(not isinstance(one.counter, Estimate) for one in tokens.values()):  # else estimates, with themselves
        notes.append(
            f"Token sums were compared with {n_sampled} prompts tokenised whole: the largest difference of one prompt "
            f"is {worst:.2%}."
        )
    notes.append("Shared: prompt tokens in whole cache blocks of 16 at the beginning that an earlier prompt has too.")
    notes.append("What is asked again, after an unreadable or a truncated answer, comes on top.")
    return Plan(tuple(stages), tuple(dict.fromkeys(notes)))


def published_output_tokens(stage: str) -> float:
    """Return the tokens of one answer in paper A: Table 24 for extract (Llama-3.1-8B), Table 25 for the judge's stages.

    >>> round(published_output_tokens("retrieve"), 1)
    14.3
    """
    table, row = ("Table 24", "Total") if stage == "extract" else ("Table 25", _TABLE_25[stage])
    return published_value(table, row, "Output tok.") / published_value(table, row, "Prompts")


@dataclass
class Costs:
    """Turns counts into hours and money, and notes what cannot be."""

    expect: Expectations
    probed: "Probed | None"
    notes: list[str]

    def planned(self, count: StageCount, model: ModelConfig, candidate: str) -> PlannedStage:
        """Return what a stage of a model is expected to take."""
        per_answer = self._output_tokens(count, model)
        n_output = per_answer * count.n_prompts
        return PlannedStage(
            stage=count.stage,
            model=model.label,
            candidate=candidate,
            n_prompts=count.n_prompts,
            n_prompt_tokens=round(count.n_prompt_tokens),
            n_shared_tokens=round(count.n_shared_tokens),
            n_too_long=count.n_too_long,
            n_output_tokens=round(n_output),
            gpu_hours=self._gpu_hours(count, model, n_output),
            usd=self._usd(count, model, n_output),
            sampled_error=round(count.sampled_error, 5),
            n_sampled=count.n_sampled,
        )

    def _output_tokens(self, count: StageCount, model: ModelConfig) -> float:
        if model.engine == "lexical":
            return 0.0
        measured = self.probed.stage(count.stage, model.label) if self.probed else None
        if measured is not None:
            self.notes.append(f"Tokens of one {count.stage} answer: as in the probe of {model.label}.")
            return measured.n_output_tokens / measured.n_prompts
        given = self.expect.output_tokens.get(count.stage)
        whose = "as given" if given is not None else f"as in paper A's Table {24 if count.stage == 'extract' else 25}"
        per_answer = min(published_output_tokens(count.stage) if given is None else given, count.answer_tokens)
        if given is None and count.stage == "extract" and find_profile(model.name, model.profile).reasoning_tokens:
            whose += f", of a model that does not reason first: {model.name} may write much more"
        self.notes.append(f"Tokens of one {count.stage} answer: {per_answer:,.0f}, {whose}.")
        return per_answer

    def _gpu_hours(self, count: StageCount, model: ModelConfig, n_output: float) -> float | None:
        if model.engine not in LOCAL_ENGINES:
            return None
        measured = self.probed.stage(count.stage, model.label) if self.probed else None
        if measured is not None:
            self.notes.append(
                f"GPU hours of {model.name}: as measured by the probe on {measured.hardware}, in proportion to tokens."
            )
            return measured.hours(count.n_prompt_tokens, n_output)
        rate: Rate | None = self.expect.throughput.find(model.name, self.expect.gpu)
        if rate is None:
            self.notes.append(
                f"No speed of {model.name} on {self.expect.gpu} is known, so its GPU hours are not either: measure "
                "with --probe, or give a --throughput file."
            )
            return None
        self.notes.append(
            f"GPU hours of {model.name} on {self.expect.gpu}: {rate.prefill_tokens_per_second:,.0f} tokens/s read and "
            f"{rate.decode_tokens_per_second:,.0f} written ({rate.source}); shared tokens cost none."
        )
        return rate.gpu_hours(count.n_prompt_tokens - count.n_shared_tokens, n_output)

    def _usd(self, count: StageCount, model: ModelConfig, n_output: float) -> float | None:
        if model.engine != "openai":
            return None
        price = self.expect.prices.find(model.name)
        if price is None:
            self.notes.append(
                f"No price of {model.name} is known: give --price-in and --price-out, in USD per million tokens."
            )
            return None
        self.notes.append(
            f"Price of {model.name}: {price.input:g} USD in, {price.output:g} out per million tokens "
            f"({price.source}, {price.date}); nothing is taken to come from the server's cache."
        )
        return price.money(count.n_prompt_tokens, 0, n_output)


def _interests(
    expect: Expectations,
    probed: "Probed | None",
    data: PlanData,
    chunks: Any,
    candidate: ModelConfig,
    seed: int,
) -> Interests:
    if expect.like is not None:
        return Interests.of_run(expect.like, data.histories)
    per_chunk, cited = published_rate(candidate.name), expect.cited_per_interest
    found = probed.interests(candidate.label) if probed else None
    if found is not None:
        per_chunk, cited = found.per_chunk, found.cited_per_interest
    return expect_interests(
        data, chunks, per_user=expect.interests_per_user, per_chunk=per_chunk, cited_per_interest=cited, seed=seed
    )


def _object_tokens(expect: Expectations, data: PlanData, models: Sequence[ModelConfig]) -> dict[str, ObjectTokens]:
    """Return the tokens of the objects for each model, by label; models that share a tokenizer share the work."""
    by_tokenizer: dict[str, ObjectTokens] = {}
    tokens = {}
    for model in models:
        key = expect.tokenizer or f"{model.engine}:{model.name}"
        if key not in by_tokenizer:
            counter = find_counter(model, tokenizer=expect.tokenizer, chars_per_token=expect.chars_per_token)
            by_tokenizer[key] = ObjectTokens(counter, data)
        tokens[model.label] = by_tokenizer[key]
    return tokens


def _cited(interests: Interests) -> float:
    claims: Sequence[Any] = interests.claims
    return sum(len(claim.item_ids) for claim in claims) / len(claims) if claims else 0.0


def _askers(model: ModelConfig) -> dict[str, Asker]:
    """Return the askers of every stage, with the context as far as it is known."""
    ref = ModelRef(model.name, model.revision or "", str(find_profile(model.name, model.profile)))
    context = find_context(model)
    return {stage: Asker.of(stage, ref, model, context) for stage in ("extract", *JUDGE_STAGES)}


def _total(rows: Sequence[PlannedStage]) -> PlannedStage:
    def added(name: str) -> Any:
        known = [getattr(row, name) for row in rows if getattr(row, name) is not None]
        return sum(known) if known else None

    n_prompt_tokens = added("n_prompt_tokens") or 0
    weighted = sum(row.sampled_error * row.n_prompt_tokens for row in rows)
    return PlannedStage(
        stage="total",
        model="",
        candidate="",
        n_prompts=added("n_prompts") or 0,
        n_prompt_tokens=n_prompt_tokens,
        n_shared_tokens=added("n_shared_tokens") or 0,
        n_too_long=added("n_too_long") or 0,
        n_output_tokens=added("n_output_tokens") or 0,
        gpu_hours=added("gpu_hours"),
        usd=added("usd"),
        sampled_error=round(weighted / n_prompt_tokens, 5) if n_prompt_tokens else 0.0,
        n_sampled=added("n_sampled") or 0,
    )


def _cells(row: PlannedStage) -> tuple[str, ...]:
    return (
        row.stage,
        Path(row.model).name if row.model.startswith("/") else row.model,
        Path(row.candidate).name if row.candidate.startswith("/") else row.candidate,
        f"{row.n_prompts:,}",
        f"{row.n_prompt_tokens:,}",
        f"{row.shared_share:.1%}",
        f"{row.n_too_long:,}",
        f"{row.n_output_tokens:,}",
        "" if row.gpu_hours is None else f"{row.gpu_hours:,.2f}",
        "" if row.usd is None else f"{row.usd:,.2f}",
        f"{row.sampled_error:+.2%}",
    )
