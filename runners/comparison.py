"""The comparison of run folders: one row for each, as people read it and as other tools read it."""

import csv
import io
from collections.abc import Iterable
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from ..hf_datasets.errors import StoreError
from .runfolder import RunFolder
from .runfolder import write_json
from .runfolder import write_text
from .score import METRICS

__all__ = ["Comparison"]

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
            if score is None:
                raise StoreError(f"{run.path} has no scores yet. Run `gistbench score {run.path.parent}` first.")
            candidate, judge = manifest["candidate"], manifest["phases"]["judge"]["model"]
            taxonomy = manifest["data"]["taxonomy"]
            rows.append(
                {
                    "candidate": candidate["name"],
                    "candidate_revision": candidate["revision"],
                    "dataset": manifest["data"]["dataset"],
                    "judge": judge["name"],
                    "judge_revision": judge["revision"],
                    "taxonomy": taxonomy["name"] if taxonomy else "none",
                    "oracle": score["oracle"]["version"],
                    "thresholds": score["policy"]["ig"]["thresholds"]["preset"],
                    **{name: score[name] for metric in METRICS for name in (metric, f"ci_{metric}")},
                    **{f"mean_{metric}": score[f"mean_{metric}"] for metric in METRICS},
                    **{f"ci_mean_{metric}": score[f"ci_mean_{metric}"] for metric in METRICS},
                    "interests_per_user": score["interests_per_user"],
                    "verified_share": score["verified_share"],
                    "n_unknown_item_ids": score["n_unknown_item_ids"],
                    "n_users": score["n_users"],
                    "n_requested": score["n_requested"],
                    "coverage": score["coverage"],
                    **{f"n_{what}_failed": n for what, n in score["left_out"].items()},
                }
            )
        return cls(tuple(rows))

    @property
    def caption(self) -> str:
        """What the scores were obtained on and under."""
        parts = []
        for name in ("dataset", "judge", "taxonomy", "thresholds", "oracle"):
            found = dict.fromkeys(str(row[name]) for row in self.rows)
            parts.append(f"{name} {', '.join(found)}")
        return "; ".join(parts)

    def table(self) -> Table:
        """Return the comparison as a table for the terminal: medians with 95 % intervals, in per cent."""
        table = Table(title="Medians over users in %, with 95 % intervals", caption=self.caption, caption_justify="left")
        several = len({row["dataset"] for row in self.rows}) > 1
        headings = ["Candidate", *(["Data set"] if several else []), *HEADINGS.values(), "Interests per user", "Coverage"]
        for position, heading in enumerate(headings):
            table.add_column(heading, justify="left" if position == 0 else "right", no_wrap=position == 0)
        best = {metric: max((row[metric] for row in self.rows if row[metric] is not None), default=None) for metric in HEADINGS}
        for row in self.rows:
            cells = [row["candidate"], *([row["dataset"]] if several else [])]
            for metric in HEADINGS:
                cell = _cell(row[metric], row[f"ci_{metric}"])
                leads = len(self.rows) > 1 and row[metric] is not None and row[metric] == best[metric]
                cells.append(f"[bold]{cell}[/bold]" if leads else cell)
            per_user = row["interests_per_user"]
            cells.append("-" if per_user is None else f"{per_user:.1f}")
            cells.append(f"{100 * row['coverage']:.0f} % of {row['n_requested']}")
            table.add_row(*cells)
        return table

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
        headings = ["Candidate", "Data set", *HEADINGS.values(), "Interests per user", "Coverage"]
        lines = [_markdown_row(headings), _markdown_row(["---"] * len(headings))]
        for row in self.rows:
            cells = [row["candidate"], row["dataset"], *(_cell(row[m], row[f"ci_{m}"]) for m in HEADINGS)]
            per_user = row["interests_per_user"]
            cells += ["-" if per_user is None else f"{per_user:.1f}", f"{100 * row['coverage']:.0f} % of {row['n_requested']}"]
            lines.append(_markdown_row(cells))
        return "\n".join([*lines, "", f"Medians over users in %, with 95 % intervals. {self.caption}.", ""])

    def write(self, folder: Path) -> None:
        """Write ``comparison.csv``, ``comparison.md`` and ``comparison.json``."""
        write_text(folder / "comparison.csv", self.csv())
        write_text(folder / "comparison.md", self.markdown())
        write_json(folder / "comparison.json", list(self.rows))


def _cell(value: float | None, interval: Sequence[float] | None) -> str:
    """Return a value in per cent with its interval."""
    if value is None:
        return "-"
    shown = f"{100 * value:.1f}"
    return f"{shown} ({100 * interval[0]:.0f}-{100 * interval[1]:.0f})" if interval else shown


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if name.startswith("ci_"):
            flat[f"{name}_low"], flat[f"{name}_high"] = value or (None, None)
        else:
            flat[name] = value
    return flat


def _markdown_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
