"""The comparison of run folders: one row for each, as people read it and as other tools read it."""

import csv
import html
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from ..hf_datasets.errors import StoreError
from .requests import ModelRef
from .runfolder import RunFolder, write_json, write_text
from .score import METRICS

__all__ = ["Comparison"]

SCORED_BY_THIS_VERSION = {"max_unusable_share", "n_users_is", "n_interests", "n_shortlist_failed", "policy"}
"""What this version's summaries hold and earlier ones may not."""
PRESETS = ("base", "lenient", "strict")
CONDITIONS = ("dataset", "judge", "judge_revision", "taxonomy", "thresholds", "is_scope", "oracle")
"""What scores must share to compare."""
HEADINGS = {
    "ig_precision": "IG precision",
    "ig_recall": "IG recall",
    "ig_f1": "IG F1",
    "is": "IS",
    "hm": "HM",
}


@dataclass(frozen=True)
class Comparison:
    """Scored runs side by side."""

    rows: tuple[dict[str, Any], ...]
    """One for each run: names, versions, each metric with ``ci_*`` pairs, counts and coverage."""

    @classmethod
    def of_runs(cls, runs: Iterable[RunFolder]) -> "Comparison":
        """Read the manifests of scored runs.

        Raises:
            StoreError: a run has not been scored.
        """
        rows = []
        for run in runs:
            manifest = run.manifest
            score = manifest["phases"].get("score")
            if score is not None and not set(score) >= SCORED_BY_THIS_VERSION:
                raise StoreError(f"{run.path} was scored by another version. Run `gistbench score {run.path.parent}`.")
            if score is None:
                raise StoreError(f"{run.path} has no scores yet. Run `gistbench score {run.path.parent}` first.")
            candidate, judge = ModelRef(**manifest["candidate"]), manifest["phases"]["judge"]["model"]
            stages = manifest["phases"]["extract"]["stages"] | manifest["phases"]["judge"]["stages"]
            taxonomy = manifest["data"]["taxonomy"]
            rows.append(
                {
                    "candidate": candidate.label,
                    "candidate_revision": candidate.revision,
                    "dataset": manifest["data"]["dataset"],
                    "judge": ModelRef.of(judge).label,
                    "judge_revision": judge["revision"],
                    "taxonomy": taxonomy["name"] if taxonomy else "none",
                    "oracle": score["oracle"]["version"],
                    "is_scope": score["policy"]["is"]["is_scope"],
                    "thresholds": _thresholds(score["policy"]["ig"]["thresholds"]),
                    **{name: score[name] for m in METRICS for name in (m, f"ci_{m}", f"n_users_{m}")},
                    **{f"mean_{metric}": score[f"mean_{metric}"] for metric in METRICS},
                    **{f"ci_mean_{metric}": score[f"ci_mean_{metric}"] for metric in METRICS},
                    "interests_per_user": score["interests_per_user"],
                    "n_interests": score["n_interests"],
                    "verified_share": score["verified_share"],
                    "n_unknown_item_ids": score["n_unknown_item_ids"],
                    "n_over_selected": score["n_over_selected"],
                    "n_retrieval_failed": score["n_retrieval_failed"],
                    "n_without_distractors": score["n_without_distractors"],
                    "n_shortlist_failed": score["n_shortlist_failed"],
                    "n_users_unjudged": score["n_users_unjudged"],
                    "n_few_distractors": score["n_few_distractors"],
                    "n_users": score["n_users"],
                    "n_requested": score["n_requested"],
                    "coverage": score["coverage"],
                    **{f"n_{what}_failed": n for what, n in score["left_out"].items()},
                    **_answer_shares(stages),
                    "n_engines": max(len(stage["engines"]) for stage in stages.values()),
                    "not_ranked": _why_not_ranked(stages, score["max_unusable_share"]),
                }
            )
        return cls(tuple(rows))

    @property
    def varying(self) -> list[str]:
        """What the runs differ in, apart from the candidate: scores that differ in it do not compare."""
        found = [name for name in CONDITIONS if len({row[name] for row in self.rows}) > 1]
        names = {row["candidate"] for row in self.rows}
        several = len({(row["candidate"], row["candidate_revision"]) for row in self.rows}) > len(names)
        return (["candidate_revision"] if several else []) + found

    def _condition(self, row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in CONDITIONS)

    @property
    def caption(self) -> str:
        """What the scores were obtained on and under."""
        parts = []
        for name in CONDITIONS:
            if name not in self.varying:
                parts += [f"{name.replace('_', ' ')} {row[name]}" for row in self.rows[:1] if row[name]]
        return "; ".join(parts)

    def table(self) -> Table:
        """Return the comparison as a table for the terminal: medians in per cent, their intervals beneath."""
        title = "Medians over users in %, with 95 % intervals"
        table = Table(
            title=title, caption=self.caption, caption_justify="left", box=SIMPLE_HEAD, padding=0, pad_edge=False
        )
        varying = self.varying
        table.add_column("Candidate", overflow="fold", min_width=15)
        for name in varying:
            table.add_column(name.replace("_", " ").capitalize(), no_wrap=True)
        for heading in (*HEADINGS.values(), "Named per user", "Users scored", "Cut or failed"):
            table.add_column(_on_two_lines(heading), justify="right", no_wrap=True)
        for row in self.rows:
            cells = [escape(row["candidate"]), *(escape(str(row[name])[:16]) for name in varying)]
            # Only scores under the same conditions compare.
            rivals = [
                other
                for other in self.rows
                if self._condition(other) == self._condition(row) and not other["not_ranked"]
            ]
            for metric in HEADINGS:
                values = [rival[metric] for rival in rivals if rival[metric] is not None]
                leads = row in rivals and len(rivals) > 1 and row[metric] is not None and row[metric] == max(values)
                shown, interval = _cell(row, metric)
                cells.append(f"{f'[bold]{shown}[/bold]' if leads else shown}\n[dim]{interval}[/dim]")
            cells += [
                _per_user(row),
                f"{100 * row['coverage']:.0f} %\n[dim]{row['n_users']}/{row['n_requested']}[/dim]",
                "{}\n[dim]{}[/dim]".format(*_worst(row)),
            ]
            table.add_row(*cells)
        return table

    @property
    def notes(self) -> list[str]:
        """What a reader must know besides: which candidates are not ranked, and whose answers are mixed."""
        unranked = [f"{row['candidate']} is not ranked: {row['not_ranked']}" for row in self.rows if row["not_ranked"]]
        mixed = [
            f"{row['candidate']}: answers of {row['n_engines']} engines, versions or machines are mixed in one stage "
            "(its manifest names them); they may differ in their last digits."
            for row in self.rows
            if row["n_engines"] > 1
        ]
        return unranked + mixed

    @property
    def min_width(self) -> int:
        """Characters that a line of the table needs: 66 for the numbers, 17 for each name."""
        return 66 + 17 * (1 + len(self.varying))

    def csv(self) -> str:
        """Return the comparison as CSV; intervals as two columns."""
        flat = [_flat(row) for row in self.rows]
        columns = list(dict.fromkeys(name for row in flat for name in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, columns, lineterminator="\n", restval="")
        writer.writeheader()
        writer.writerows(flat)
        return text.getvalue()

    def markdown(self) -> str:
        """Return the comparison as a Markdown table."""
        headings = [
            "Candidate",
            *(name.replace("_", " ").capitalize() for name in self.varying),
            *HEADINGS.values(),
            "Interests per user",
            "Coverage",
            "Cut or failed",
        ]
        lines = [_markdown_row(headings), _markdown_row(["---"] * len(headings))]
        for row in self.rows:
            scores = (" ".join(_cell(row, m)).replace("\n", " ").strip() for m in HEADINGS)
            coverage = f"{100 * row['coverage']:.0f} % of {row['n_requested']}"
            names = [row["candidate"], *(str(row[name]) for name in self.varying)]
            lines.append(_markdown_row([*names, *scores, _per_user(row), coverage, " ".join(_worst(row)).strip()]))
        notes = [f"Medians over users in %, with 95 % intervals. {self.caption}.", *self.notes]
        return "\n".join([*lines, "", *map(_plain, notes), ""])

    def json(self) -> str:
        """Return the comparison as a JSON list; intervals as pairs."""
        return json.dumps(list(self.rows), indent=2, ensure_ascii=False, allow_nan=False)

    def write(self, folder: Path) -> None:
        """Write ``comparison.csv``, ``comparison.md`` and ``comparison.json``."""
        write_text(folder / "comparison.csv", self.csv())
        write_text(folder / "comparison.md", self.markdown())
        write_json(folder / "comparison.json", list(self.rows))


def _cell(row: dict[str, Any], metric: str) -> tuple[str, str]:
    """Return a median in per cent, and beneath it its interval and the number of users where some have no value."""
    value, interval, n_users = row[metric], row[f"ci_{metric}"], row[f"n_users_{metric}"]
    if value is None:
        return "-", ""
    notes = [f"{100 * interval[0]:.0f}-{100 * interval[1]:.0f}"] if interval else []
    notes += [f"n={n_users}"] if n_users < row["n_users"] else []
    return f"{100 * value:.1f}", "\n".join(notes)


def _on_two_lines(heading: str) -> str:
    before, _, last = heading.rpartition(" ")
    return f"{before}\n{last}" if before and heading != "Named per user" else heading.replace(" ", "\n", 1)


def _answer_shares(stages: dict[str, Any]) -> dict[str, float]:
    """Return, for each stage, the share of unusable last answers, and of requests by what became of them."""
    shares = {}
    for name, stage in stages.items():
        shares[f"unusable_share_{name}"] = stage["unusable_share"]
        for status in ("truncated", "invalid", "refused", "error"):
            shares[f"{status}_share_{name}"] = stage["outcomes"][status] / max(stage["n_requests"], 1)
    return shares


def _why_not_ranked(stages: dict[str, Any], max_share: float) -> str:
    """Return why scores may not be compared; empty where they may."""
    over = {name: stage["unusable_share"] for name, stage in stages.items() if stage["unusable_share"] > max_share}
    if not over:
        return ""
    shares = ", ".join(f"{100 * share:.0f} % of the answers of {name}" for name, share in over.items())
    return f"{shares} cannot be used or were cut (more than {100 * max_share:g} %)."


def _worst(row: dict[str, Any]) -> tuple[str, str]:
    """Return the largest share of unusable answers, and the stage that has it."""
    shares = {name: value for name, value in row.items() if name.startswith("unusable_share_")}
    worst = max(shares, key=lambda name: shares[name])
    return f"{100 * shares[worst]:.0f} %", worst.removeprefix("unusable_share_") if shares[worst] else ""


def _thresholds(policy: dict[str, Any]) -> str:
    """Return the name of the thresholds, or their numbers where they have none."""
    if policy["preset"] in PRESETS:
        return str(policy["preset"])
    return ", ".join(f"{name}={value}" for name, value in policy.items() if name != "preset")


def _per_user(row: dict[str, Any]) -> str:
    value = row["interests_per_user"]
    return "-" if value is None else f"{value:.1f}"


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if name.startswith("ci_"):
            flat[f"{name}_low"], flat[f"{name}_high"] = value or (None, None)
        else:
            flat[name] = value
    return flat


def _markdown_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(_plain(cell).replace("|", "\\|") for cell in cells) + " |"


def _plain(text: str) -> str:
    """Return a text that Markdown takes for no HTML; names of files and models are other people's."""
    return html.escape(text, quote=False)
