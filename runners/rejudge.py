"""Judges a submission's interests again, with a judge that whoever looks after the results runs.

The interests are taken as they were submitted; no candidate is asked anew. All from grounding on is judged by the
phases of an ordinary suite, on the data set as it lies on this machine, and scored against the frozen oracle, as the
page scores a submission. What the submitted record says of engagements, test sets, verdicts and scores is only compared
with. Knows nothing of the Hub.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..hf_datasets.errors import ConfigError, StoreError
from .comparison import Comparison
from .config import RunConfig, load_config
from .data import Data
from .oracle import read_given_oracle
from .requests import ModelRef
from .results import ResultsFolder, check_oracle
from .runfolder import RunFolder, read_json, slug
from .score import METRICS, load_metric, score_run, verify_run
from .stages.extract import EXTRACTIONS, USERS
from .suite import Suite

__all__ = ["Rejudged", "Submission", "find_submission", "rejudge"]

OPEN_ORIGINS = ("self-judged", "re-judged")
"""Records whose interests came from outside."""
MAX_ROWS = 2_000_000
TAKEN = {
    "users": ("user_id", "n_engagements", "n_chunks", "n_chunks_answered", "scored"),
    "extractions": ("user_id", "interest", "item_ids"),
}
"""What is read of a submission; all else is made anew."""
HEADINGS = {"ig_precision": "Precision", "ig_recall": "Recall", "ig_f1": "IG F1", "is": "IS", "hm": "HM"}
JUDGED = {
    "relevance": "cited items kept or not",
    "verdict": "interests verified or not",
    "picks": "items of test sets picked or not",
    "category": "categories of interests",
    "specificity": "IS of interests",
}


@dataclass(frozen=True)
class Submission:
    """A submitted record among results, and the measured one whose data, settings and oracle it has."""

    results: Path
    """A results folder."""
    place: str
    """The record's folder, relative to it."""
    official: str
    """The measured record's."""
    proposed: Path | None = None
    """Where the submitted record lies, if not among the results: a results folder that nothing else is taken of."""

    @property
    def run(self) -> RunFolder:
        """The submitted record."""
        return RunFolder((self.proposed or self.results) / self.place)

    @property
    def measured(self) -> RunFolder:
        """The measured record."""
        return RunFolder(self.results / self.official)

    @property
    def oracle(self) -> Path:
        """The frozen oracle of the data set."""
        return self.results / "oracles" / f"{self.oracle_version}.json"

    @property
    def oracle_version(self) -> str:
        """The version of that oracle."""
        return str(self.measured.manifest["phases"]["score"]["oracle"]["version"])


@dataclass(frozen=True)
class Rejudged:
    """A submission, judged again."""

    submission: Submission
    run: RunFolder
    """The run folder with the new judgements and scores."""
    revision: str
    """Which revision of the results the submission was taken from; empty for a folder."""
    scores: tuple[dict[str, Any], ...]
    """For each metric: ``metric``, ``submitted`` and ``rejudged`` medians with ``ci_*``, and the paired
    ``difference`` of means over users, rejudged - submitted, with ``ci_difference``."""
    agreement: tuple[dict[str, Any], ...]
    """For each kind of judgement: ``what``, ``n_items``, ``agreement_share`` and ``kappa``."""

    @property
    def judge(self) -> ModelRef:
        """Who judged again."""
        return _judge_of(self.run.manifest)

    @property
    def place(self) -> str:
        """Where the new record goes among the results, beside the submitted one."""
        candidate = self.submission.place.rpartition("/")[0]
        return f"{candidate}/{slug(self.judge)}+re-judged"

    @property
    def provenance(self) -> dict[str, Any]:
        """What the new record's manifest says of where it comes from."""
        return {
            "place": self.submission.place,
            "revision": self.revision,
            "judge": str(_judge_of(self.submission.run.manifest)),
            "scores": {row["metric"]: row["submitted"] for row in self.scores},
            "agreement": list(self.agreement),
        }

    def put(self, results: ResultsFolder, *, public: bool = False) -> None:
        """Put the new record among results, in place of the submitted one.

        Raises:
            ConfigError: the data set may not be passed on, and the results are public.
        """
        config = self.submission.measured.manifest.get("config", {})
        more: dict[str, Any] = {"config": config, "rejudged": self.provenance}
        results.write_record(self.place, self.run, self.submission.oracle, public=public, origin="re-judged", **more)
        if self.place != self.submission.place:
            results.remove_record(self.submission.place)

    def rows(self) -> tuple[list[list[str]], list[list[str]]]:
        """Return the lines of two tables: scores (per cent), and agreement."""
        scores = [
            [
                HEADINGS[row["metric"]],
                _percent(row["submitted"], row["ci_submitted"]),
                _percent(row["rejudged"], row["ci_rejudged"]),
                _percent(row["difference"], row["ci_difference"], sign="+"),
            ]
            for row in self.scores
        ]
        agreement = [
            [JUDGED[row["what"]], f"{row['n_items']:,}", _percent(row["agreement_share"]), _kappa(row["kappa"])]
            for row in self.agreement
        ]
        return scores, agreement

    def markdown(self) -> str:
        """Return the comparison as the text of a pull request."""
        scores, agreement = self.rows()
        data = self.run.manifest["data"]["dataset"]
        candidate = ModelRef(**self.run.manifest["candidate"])
        before = _judge_of(self.submission.run.manifest)
        lines = [
            f"The interests that {_code(candidate)} was submitted with on {_code(data)}, judged again by "
            f"{_code(self.judge)}; submitted as judged by {_code(before)}. **re-judged** takes the place of "
            "**self-judged**. `gistbench hub push-results --repo REPO` makes the index anew after a merge.",
            "",
            f"In place of {_code(self.submission.place)}" + (f" at {_code(self.revision)}." if self.revision else "."),
            "",
            "| median % | submitted | re-judged | difference of means |",
            "| --- | --- | --- | --- |",
            *(f"| {' | '.join(row)} |" for row in scores),
            "",
            "| judgements that both made | n | the same % | kappa |",
            "| --- | --- | --- | --- |",
            *(f"| {' | '.join(row)} |" for row in agreement),
        ]
        return "\n".join(lines) + "\n"


def find_submission(results: Path, place: str | None = None, *, proposed: Path | None = None) -> Submission:
    """Find a submitted record among results, or in what somebody proposes for them.

    Args:
        results: a results folder.
        place: the record's folder, relative to it; None where there is one only.
        proposed: another results folder, such as of a pull request: the record is looked for there, and everything that
            it is measured by is that of `results`.

    Raises:
        ConfigError: there is none, or several and none is named.
        StoreError: there is no measured record to take the data set's settings from.
    """
    known = _manifests(results)
    manifests = known if proposed is None else _manifests(proposed)
    open_ones = [name for name, found in manifests.items() if _origin(found) in OPEN_ORIGINS]
    if place is None:
        waiting = [
            name
            for name in open_ones
            if _origin(manifests[name]) == "self-judged" and (proposed is None or manifests[name] != known.get(name))
        ]
        if len(waiting) != 1:
            listed = "".join(f"\n  {name}" for name in waiting)
            raise ConfigError(
                f"{len(waiting)} records wait to be judged again. Name one with --record:{listed}"
                if waiting
                else "No record here waits to be judged again: none is self-judged."
            )
        (place,) = waiting
    place = place.strip("/")
    if place not in open_ones:
        about = f" It is {_origin(manifests[place])}." if place in manifests else ""
        listed = ", ".join(open_ones) or "none"
        raise ConfigError(f"{place} is no submitted record of these results.{about} There are: {listed}.")
    if _origin(known.get(place, manifests[place])) not in OPEN_ORIGINS:
        raise ConfigError(
            f"What is proposed as {place} would take the place of a measured record, so it is not judged again. The "
            "page proposes a record of its own: submit it there."
        )
    dataset = _part(manifests[place], "data", "dataset")
    version = ResultsFolder(results).oracles.get(str(dataset))
    official = [
        (-int(_part(found, "phases", "score", "n_requested") or 0), name)
        for name, found in known.items()
        if _origin(found) == "measured"
        and _part(found, "data", "dataset") == dataset
        and _part(found, "phases", "score", "oracle", "version") == version
    ]
    if not official:
        raise StoreError(
            f"These results hold no measured record on {dataset} under oracle {version}, so it is not known with which "
            "users and settings a submission is judged. Add one with `gistbench hub push-results`."
        )
    return Submission(results, place, min(official)[1], proposed)


def _manifests(results: Path) -> dict[str, Any]:
    """Return the manifests of a results folder, by the place of their record."""
    return {
        path.parent.relative_to(results).as_posix(): read_json(path)
        for path in sorted(results.glob("records/*/*/*/manifest.json"))
    }


def rejudge(
    submission: Submission,
    output: Path,
    *,
    judge: str,
    changes: Mapping[str, Any] | None = None,
    revision: str = "",
    **options: Any,
) -> Rejudged:
    """Judge a submission's interests again and score them; stopped at any moment, the same call goes on from there.

    Args:
        submission: from `find_submission`.
        output: a suite folder.
        judge: the model that judges.
        changes: configuration values for this machine, such as ``source``; None means not given.
        revision: of the results, for the new record's provenance.
        options: of `Suite`: ``store``, ``retry_failed``, ``progress``, ``halt``.

    Raises:
        ConfigError: the judge or a setting cannot be used.
        DataError: the data set cannot be had.
        StoreError: the data is another than that of the results, the record is none, or the oracle was changed.
        EngineError: the judge cannot be loaded, or fails at every request.
    """
    check_oracle(submission.oracle, submission.oracle_version)
    manifest = submission.run.manifest
    config = _config(submission, judge, changes or {})
    suite = Suite(output, config, **options)
    _check_data(suite.data.record, submission)
    users, extractions = _taken(submission, suite.data)
    try:
        Comparison.of_runs([submission.run])
        candidate, phase = ModelRef(**manifest["candidate"]), manifest["phases"]["extract"]
        model = {name: phase["model"].get(name) for name in ("sampling", "structured")}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(
            f"{submission.place} is no record that the page wrote ({error!r}). Submit it there."
        ) from error
    run = suite.adopt(candidate, users, extractions, {**phase, "model": asdict(candidate) | model})
    suite.judge()
    _score(run, suite, submission)
    return Rejudged(submission, run, revision, _scores(submission.run, run), _agreement(submission.run, run))


def _config(submission: Submission, judge: str, changes: Mapping[str, Any]) -> RunConfig:
    """Return the settings of the measured record, with its users and a judge of one's own."""
    manifest = submission.measured.manifest
    recorded = manifest.get("config", {})
    which = ("n_users", "sample", "min_engagements")
    values = {name: value for name, value in recorded.items() if name in RunConfig.model_fields and name not in which}
    taxonomy = manifest["data"]["taxonomy"]
    values |= {
        "dataset": manifest["data"]["dataset"],
        "users": tuple(submission.measured.read("users", ["user_id"])["user_id"].to_pylist()),
        "taxonomy": taxonomy["name"] if taxonomy else "none",
        "history_length": _part(submission.run.manifest, "phases", "extract", "history_length"),
        "judge": judge,
    }
    return load_config(None, values | {name: value for name, value in changes.items() if value is not None})


def _check_data(here: Mapping[str, Any], submission: Submission) -> None:
    """Refuse data that is not what the results, and the submission, were made on."""
    for place, run in ((submission.official, submission.measured), (submission.place, submission.run)):
        there = run.manifest["data"]
        for name in ("dataset", "sha256", "users_sha256", "taxonomy"):
            if here[name] != there.get(name):
                raise StoreError(
                    f"The data on this machine is not that of {place}: {name} is {_short(here[name])}, expected "
                    f"{_short(there.get(name))}. Name the same files with --source, and the same --dataset-option and "
                    "--taxonomy as the measured runs had."
                )


def _taken(submission: Submission, data: Data) -> tuple[pa.Table, pa.Table]:
    """Return the users and the interests of a submission as the runner's own tables have them.

    Users whom the submission passes over count as not scored, and interests of users who are not scored are not judged.
    """
    tables = {name: _read(submission, name, columns) for name, columns in TAKEN.items()}
    submitted: dict[str, dict[str, Any]] = {row["user_id"]: row for row in tables["users"].to_pylist()}
    known = data.histories.users
    extractions = tables["extractions"]
    strangers = sorted((submitted.keys() | set(extractions["user_id"].to_pylist())) - set(known))
    if strangers:
        raise StoreError(
            f"{submission.place}: {len(strangers)} users are not the data set's, such as {strangers[0]!r}."
        )
    keys = list(zip(extractions["user_id"].to_pylist(), extractions["interest"].to_pylist(), strict=True))
    if len(set(keys)) < len(keys):
        raise StoreError(f"{submission.place}: {len(keys) - len(set(keys))} interests stand twice for their user.")
    empty = {"n_chunks": 0, "n_chunks_answered": 0, "scored": False}
    rows = [
        {"user_id": user, **submitted.get(user, empty), "n_engagements": data.histories.n_engagements(user)}
        for user in known
    ]
    scored = {row["user_id"] for row in rows if row["scored"]}
    users = pa.Table.from_pylist(rows, USERS)
    return users, extractions.filter(pa.array([user in scored for user, _ in keys], pa.bool_()))


def _read(submission: Submission, name: str, columns: tuple[str, ...]) -> pa.Table:
    """Read a table of a submission, which anyone may have made."""
    path = submission.run.path / f"{name}.parquet"
    schema = USERS if name == "users" else EXTRACTIONS
    wanted = pa.schema([schema.field(column) for column in columns])
    try:
        with pq.ParquetFile(path) as file:
            if file.metadata.num_rows > MAX_ROWS:
                raise StoreError(f"{path.name} of {submission.place} has more than {MAX_ROWS:,} rows.")
            table = file.read(list(columns)).select(list(columns)).cast(wanted)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise StoreError(
            f"{path.name} of {submission.place} cannot be used: {error}. A record that the page wrote has the columns "
            f"{', '.join(columns)}."
        ) from error
    if any(column.null_count for column in table.columns):
        raise StoreError(f"{path.name} of {submission.place} has empty cells.")
    return table


def _score(run: RunFolder, suite: Suite, submission: Submission) -> None:
    """Score against the frozen oracle alone: what only this candidate found does not count."""
    config, manifest = suite.config, run.manifest
    verified = verify_run(run, signals=manifest["data"]["signals"], thresholds=config.thresholds)
    frozen = read_given_oracle(submission.oracle, suite.data.taxonomy)
    scored = score_run(
        verified,
        oracle={user: frozen.get(user, []) for user in verified.users},
        is_scope=config.is_scope,
        n_resamples=config.n_resamples,
        seed=config.seed,
    )
    manifest["phases"]["score"] = {
        **scored.summary,
        "oracle": submission.measured.manifest["phases"]["score"]["oracle"],
        "max_unusable_share": config.max_unusable_share,
    }
    run.write(scored.tables, manifest, phase="score")


def _scores(submitted: RunFolder, rejudged: RunFolder) -> tuple[dict[str, Any], ...]:
    summaries = [run.manifest["phases"]["score"] for run in (submitted, rejudged)]
    columns = [run.read("scores").to_pydict() for run in (submitted, rejudged)]
    rows = []
    for metric in METRICS:
        before, after = (dict(zip(one["user_id"], one[metric], strict=True)) for one in columns)
        users = before.keys() & after.keys()
        found = load_metric("ig").compare({u: after[u] for u in users}, {u: before[u] for u in users}) if users else {}
        rows.append(
            {
                "metric": metric,
                "submitted": summaries[0][metric],
                "ci_submitted": summaries[0][f"ci_{metric}"],
                "rejudged": summaries[1][metric],
                "ci_rejudged": summaries[1][f"ci_{metric}"],
                "difference": found.get("difference_of_means"),
                "ci_difference": found.get("ci_difference_of_means"),
            }
        )
    return tuple(rows)


def _agreement(submitted: RunFolder, rejudged: RunFolder) -> tuple[dict[str, Any], ...]:
    """Compare the judgements that both records hold."""
    from .report.judges import agreement_of
    from .report.run import Run

    rows = agreement_of(Run(submitted, "submitted"), Run(rejudged, "rejudged"))
    kept = [{name: _known(row.get(name)) for name in ("what", "n_items", "agreement_share", "kappa")} for row in rows]
    kept.insert(2, _agreement_of_picks(submitted, rejudged))
    return tuple(kept)


def _agreement_of_picks(submitted: RunFolder, rejudged: RunFolder) -> dict[str, Any]:
    """Compare what two judges picked, of the items that both were shown for the same interest."""
    from .report.annotators import cohen_kappa

    sets: list[dict[tuple[str, str], tuple[set[str], set[str]]]] = []
    for run in (submitted, rejudged):
        columns = run.read("retrievals", ["user_id", "interest", "shown_item_ids", "selected_item_ids"]).to_pylist()
        sets.append(
            {
                (row["user_id"], row["interest"]): (set(row["shown_item_ids"] or ()), set(row["selected_item_ids"]))
                for row in columns
                if row["selected_item_ids"] is not None
            }
        )
    one, other = sets
    pairs = [
        (item in one[key][1], item in other[key][1])
        for key in one.keys() & other.keys()
        for item in one[key][0] & other[key][0]
    ]
    share = sum(a == b for a, b in pairs) / len(pairs) if pairs else None
    kappa = cohen_kappa([a for a, _ in pairs], [b for _, b in pairs])
    return {"what": "picks", "n_items": len(pairs), "agreement_share": share, "kappa": _known(kappa)}


def _judge_of(manifest: Mapping[str, Any]) -> ModelRef:
    return ModelRef.of(manifest["phases"]["judge"]["model"])


def _origin(manifest: Any) -> str:
    return str(manifest.get("origin", "measured")) if isinstance(manifest, dict) else "unreadable"


def _part(value: Any, *path: str) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and value != value else value


def _short(value: Any) -> str:
    return repr(value)[:60]


def _code(value: object) -> str:
    return f"`{str(value)[:200].replace('`', '?')}`"


def _percent(value: float | None, interval: list[float] | None = None, *, sign: str = "") -> str:
    if value is None:
        return "-"
    ends = f" ({100 * interval[0]:{sign}.1f} to {100 * interval[1]:{sign}.1f})" if interval else ""
    return f"{100 * value:{sign}.1f}{ends}"


def _kappa(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
