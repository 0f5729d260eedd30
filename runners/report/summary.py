"""A paragraph that says what the numbers say, made from them alone."""

import numpy as np

from .analysis import Analysis, Options, analysis
from .frames import medians, typed
from .load import Group, Runs

__all__ = ["summary_sentences"]


def summary_sentences(runs: Runs, options: Options) -> list[str]:
    """Return what can be said of the runs, one sentence each, group by group."""
    table = medians(runs, ["ig_f1", "ig_precision", "ig_recall", "is"], options.significance_level)
    sentences = []
    for group in runs.groups:
        own = table[(table["dataset"] == group.dataset) & (table["judge"] == group.judge)]
        own = own[own["setting"] == group.setting]
        where = f"On {group.dataset}" + (f" ({group.setting})" if group.setting else "")
        ranked = own[own["not_ranked"] == ""].dropna(subset="ig_f1").sort_values("ig_f1", ascending=False)
        if not len(ranked):
            sentences.append(f"{where} no candidate has a score that counts.")
            continue
        best = ranked.iloc[0]
        interval = ""
        if not np.isnan(best["ci_ig_f1_low"]):
            interval = f" (95 % interval {_percent(best['ci_ig_f1_low'])} to {_percent(best['ci_ig_f1_high'])})"
        lead = f"{where}, {best['model']} has the highest median IG F1, {_percent(best['ig_f1'])} %{interval}"
        if len(ranked) == 1:
            lead = f"{where}, {best['model']} has a median IG F1 of {_percent(best['ig_f1'])} %{interval}"
        sentences.append(f"{lead}, judged by {group.judge} over {int(best['n_users_ig_f1'])} users.")
        tied = ranked[ranked["rank_ig_f1"] == 1]["model"].tolist()
        if len(ranked) > 1 and len(tied) > 1:
            others = [model for model in tied if model != best["model"]]
            sentences.append(f"Its lead over {_listed(others)} is not more than chance.")
        elif len(ranked) > 1:
            sentences.append("Its lead over all others is more than chance.")
        specific = ranked.dropna(subset="is").sort_values("is", ascending=False)
        if len(specific) > 1 and specific.iloc[0]["model"] != best["model"]:
            top = specific.iloc[0]
            sentences.append(f"{top['model']} names the most distinctive interests (IS {_percent(top['is'])} %).")
        both = ranked.dropna(subset="ig_recall")
        n = int((both["ig_precision"] > both["ig_recall"]).sum())
        if n == len(both) and n:
            sentences.append("Precision is above recall for every candidate: interests are missed rather than made up.")
        elif n == 0 and len(both):
            sentences.append("Precision is above recall for no candidate: made-up interests, not missed ones, are the "
                             "bottleneck, or the oracle holds little more than each finds.")  # fmt: skip
        else:
            sentences.append(f"Precision is above recall for {n} of {len(both)} candidates.")
        sentences += _warnings(group)
    return sentences


def _warnings(group: Group) -> list[str]:
    found = []
    least = min(group.runs, key=lambda run: run.score["coverage"])
    if least.score["coverage"] < 0.9:
        found.append(f"Only {_percent(least.score['coverage'])} % of the users could be scored for {least.model}.")
    if len(group.runs) < 3 and not group.runs[0].score["oracle"].get("given"):
        found.append(
            f"The oracle rests on {len(group.runs)} candidate{'s' if len(group.runs) > 1 else ''}, so recall says how "
            "much of what these found a candidate finds."
        )  # fmt: skip
    if group.judge.startswith("lexical/"):
        found.append("The judge compares words and understands none.")
    return found


def _percent(value: float) -> str:
    return f"{100 * float(value):.1f}"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


@analysis("summary", "In short")
def summary(runs: Runs, options: Options) -> Analysis:
    """The report's first paragraph."""
    sentences = summary_sentences(runs, options)
    return Analysis(
        "summary",
        "In short",
        " ".join(sentences),
        {"sentences": typed([{"sentence": sentence} for sentence in sentences], ["sentence"])},
        policy={"text": "made from the medians, intervals and rank groups of Tables 3 and 4; no model is asked"},
    )
