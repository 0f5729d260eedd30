"""A results folder: the records of many runs and the index that the leaderboard reads.

    results.json            which oracle each data set is scored against
    index.parquet           one row for each run, and for each published result of paper A
    published.parquet       every published number of both papers
    categories.parquet      names and domains of the categories
    oracles/VERSION.json    what there is to find about each user
    records/DATASET/CANDIDATE/JUDGE/   the tables and the manifest of a run
    qrels/NAME/             tables of a qrels expansion, as CSV

Ranks are those that the `ig` module computes from the per-user scores of everything that was scored under the same
conditions, so a reader's filters do not change them.
"""

import json
import re
import shutil
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..hf_datasets._atomic import replacing
from ..hf_datasets.errors import ConfigError, StoreError
from ..hf_datasets.registry import DATASET_NAMES, dataset_record
from ..hf_datasets.results_published import load_results_published
from ..hf_datasets.taxonomy import load_taxonomy, taxonomy_table
from .asking import REACH
from .comparison import Comparison
from .oracle import Oracle
from .prices import Prices
from .profiles import find_profile
from .requests import ModelRef
from .runfolder import RunFolder, read_json, slug, write_json
from .score import METRICS, load_metric
from .suitefolder import run_folders

__all__ = ["RECORD_TABLES", "RESULTS_FORMAT", "ResultsFolder", "check_oracle", "index_row"]

RESULTS_FORMAT = 1
RECORD_TABLES = ("users", "extractions", "evidence", "groundings", "retrievals", "mappings", "interests", "scores")
"""What everything is recomputed from. Raw answers and shortlists stay where they were made."""
SCORES_ONLY = ("scores",)
RANKED = ("ig_f1", "is", "hm")
SETTINGS = (
    "dataset",
    "n_users",
    "sample",
    "min_engagements",
    "chunk_size",
    "history_length",
    "pool_size",
    "names_per_mapping",
    "max_reasks",
    "seed",
    "thresholds",
    "is_scope",
    "n_resamples",
)
MIN_COVERAGE = 0.9
CONDITIONS = (
    "dataset",
    "users_sha256",
    "judge",
    "judge_revision",
    "taxonomy_sha256",
    "thresholds",
    "is_scope",
    "oracle",
)
"""What rows must share to be ranked together."""
PUBLISHED_TABLES = {
    "Table 3": {"IG F1": "ig_f1", "IS": "is"},
    "Table 4": {"IG P": "ig_precision", "IG R": "ig_recall"},
}
PUBLISHED_DATASETS = {
    "Synthetic": "synthetic",
    "KuaiRec": "kuairec",
    "Amazon Music": "amazon_music",
    "Goodreads": "goodreads",
}
PUBLISHED_NOTE = "published; other prompts, not comparable to the digit"

_INTERVALS = tuple(f"{begin}{metric}_{end}" for metric in METRICS for begin in ("", "mean_") for end in ("low", "high"))
_FLOATS = (
    *METRICS,
    *(f"mean_{metric}" for metric in METRICS),
    *_INTERVALS,
    "coverage",
    "unusable_share",
    "truncated_share",
    "invalid_share",
    "few_distractors_share",
    "interests_per_user",
    "verified_share",
    "verified_share_lenient",
    "verified_share_strict",
    "ig_recall_2",
    "ig_recall_3",
    "parameters_b",
    "active_parameters_b",
    "cost_usd",
)
_COUNTS = (
    *(f"n_users_{metric}" for metric in METRICS),
    *(f"rank_{metric}" for metric in RANKED),
    "n_users",
    "n_requested",
    "n_interests",
    "n_ranked_users",
    "n_ranked_models",
    "n_prompt_tokens",
    "n_cached_tokens",
    "n_output_tokens",
    "history_length",
    "n_oracle_models",
)
_TEXTS = (
    "id",
    "origin",
    "note",
    "model",
    "revision",
    "profile",
    "dataset",
    "users_sha256",
    "judge",
    "judge_revision",
    "taxonomy",
    "taxonomy_sha256",
    "thresholds",
    "is_scope",
    "oracle",
    "not_ranked",
    *(f"group_{metric}" for metric in RANKED),
    "weights",
    "licence",
    "failure_modes",
    "domains",
    "record",
)
INDEX_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in _TEXTS),
        *((name, pa.float64()) for name in _FLOATS),
        *((name, pa.int64()) for name in _COUNTS),
    ]
)
"""``origin`` is measured, self-judged, re-judged or published; ``failure_modes`` and ``domains`` are JSON objects."""


def check_oracle(path: Path, version: str) -> None:
    """Refuse an oracle file whose content is not that of a version.

    Raises:
        StoreError: it is not, or the file is no oracle.
    """
    found = read_json(path)
    try:
        categories = found["oracle"]
        verified_by = {user: dict.fromkeys(some, ()) for user, some in categories.items()}
        oracle = Oracle(
            found["taxonomy"], found["taxonomy_sha256"], found["judge"], dict(found["thresholds"]), verified_by
        )
        fits = oracle.version == version == found["version"] and oracle.categories == categories
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(f"{path} is no oracle that this package wrote ({error!r}).") from error
    if not fits:
        raise StoreError(
            f"{path} is not what its version says: expected {version}, its content makes {oracle.version}. It was "
            "changed after it was written. Put the file back as it was, or score again."
        )


@dataclass
class ResultsFolder:
    """A results folder on disk."""

    path: Path

    @property
    def oracles(self) -> dict[str, str]:
        """The version of the oracle that each data set is scored against."""
        path = self.path / "results.json"
        if not path.exists():
            return {}
        found = read_json(path)
        if not isinstance(found, dict) or found.get("format") != RESULTS_FORMAT:
            raise StoreError(f"{path} is not what a results folder of format {RESULTS_FORMAT} records.")
        return dict(found["oracles"])

    def add(self, suite: Path, *, public: bool = False, new_oracle: bool = False) -> list[str]:
        """Copy the scored runs of a suite folder, and its oracle.

        Args:
            suite: a suite folder or one of its run folders.
            public: leave out what the data set's licence does not let us pass on, and refuse data of one's own.
            new_oracle: score the data set's submissions against this suite's oracle from now on.

        Returns:
            The records' folders, relative to this one.

        Raises:
            ConfigError: the data set may not be passed on at all.
            StoreError: a run is not scored, or its oracle is not there, or was changed.
        """
        added, oracles = [], self.oracles
        Comparison.of_runs(run_folders(suite))  # says which run is not scored
        for run in run_folders(suite):
            manifest = run.manifest
            dataset = str(manifest["data"]["dataset"])
            judge = ModelRef.of(manifest["phases"]["judge"]["model"])
            record = Path("records", _plain(dataset), slug(ModelRef(**manifest["candidate"])), slug(judge))
            source = run.path.parent / "oracle.json"
            version = manifest["phases"]["score"]["oracle"]["version"]
            if not source.exists() or read_json(source).get("version") != version:
                raise StoreError(f"{source} is not the oracle of {run.path}. Run `gistbench score {suite}` again.")
            check_oracle(source, version)
            self.write_record(record.as_posix(), run, source, public=public, config=_settings(run.path.parent))
            (self.path / "oracles").mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, self.path / "oracles" / f"{version}.json")
            if new_oracle or dataset not in oracles:
                oracles[dataset] = version
            added.append(record.as_posix())
        write_json(self.path / "results.json", {"format": RESULTS_FORMAT, "oracles": oracles})
        return added

    def write_record(
        self, place: str, run: RunFolder, oracle: Path, *, public: bool, origin: str = "measured", **about: Any
    ) -> None:
        """Copy what may be passed on of a scored run.

        Args:
            place: the record's folder, relative to this one.
            run: the run.
            oracle: the file of the oracle that it is scored against.
            public: leave out what the data set's licence does not let us pass on, and refuse data of one's own.
            origin: what the record says of itself.
            about: more that its manifest is to hold.

        Raises:
            ConfigError: the data set may not be passed on at all.
        """
        manifest = run.manifest
        tables = self._tables(str(manifest["data"]["dataset"]), public)
        target = self.path / place
        if target.exists():
            shutil.rmtree(target)
        target.mkdir(parents=True)
        for name in tables:
            shutil.copyfile(run.path / f"{name}.parquet", target / f"{name}.parquet")
        if "interests" not in tables:
            version = manifest["phases"]["score"]["oracle"]["version"]
            manifest["counts"] = _counts_of_interests(run, version, oracle)
        if public:
            _take_out_addresses(manifest)
        write_json(target / "manifest.json", {"origin": origin, **manifest, **about})

    def remove_record(self, place: str) -> None:
        """Take a record away, if it is there."""
        shutil.rmtree(self.path / place, ignore_errors=True)

    def add_qrels(self, folder: Path) -> str:
        """Copy the tables of a qrels expansion, but for Table 1, which tells what one user likes."""
        found = sorted(path for path in folder.glob("*.csv") if not re.match(r"table_1\b", path.stem))
        if not found:
            raise ConfigError(f"{folder} holds no tables. `gistbench qrels experiments` writes them.")
        target = self.path / "qrels" / _plain(folder.name)
        target.mkdir(parents=True, exist_ok=True)
        for path in found:
            shutil.copyfile(path, target / path.name)
        return target.name

    def build(self) -> pa.Table:
        """Make the index from the records, and the tables beside it; return the index."""
        self.path.mkdir(parents=True, exist_ok=True)
        domains = _domains()
        rows, scores = [], {}
        for manifest in sorted(self.path.glob("records/*/*/*/manifest.json")):
            row, per_user = index_row(self.path, manifest.parent, domains)
            rows.append(row)
            scores[row["id"]] = per_user
        _rank(rows, scores)
        table = pa.Table.from_pylist([_whole(row) for row in [*rows, *_published_rows()]], schema=INDEX_SCHEMA)
        _write(self.path / "index.parquet", table)
        _write(self.path / "published.parquet", load_results_published())
        _write(self.path / "categories.parquet", _categories())
        if not (self.path / "results.json").exists():
            write_json(self.path / "results.json", {"format": RESULTS_FORMAT, "oracles": {}})
        return table

    @staticmethod
    def _tables(dataset: str, public: bool) -> tuple[str, ...]:
        if not public:
            return RECORD_TABLES
        if dataset not in DATASET_NAMES:
            raise ConfigError(
                f"{dataset!r} is no data set of `gistbench datasets list`: records of data of your own hold what "
                "people did, and are not published. Show them with `gistbench space` instead."
            )
        return RECORD_TABLES if dataset_record(dataset).redistributable else SCORES_ONLY


def index_row(
    root: Path, record: Path, domains: Mapping[str, Mapping[int, str]]
) -> tuple[dict[str, Any], dict[str, dict[str, float | None]]]:
    """Return the index row of a record, without ranks, and its per-user scores by metric."""
    run = RunFolder(record)
    manifest = run.manifest
    (row,) = Comparison.of_runs([run]).rows
    data, score, extract = manifest["data"], manifest["phases"]["score"], manifest["phases"]["extract"]
    candidate = manifest["candidate"]
    tokens = list(extract["stages"].values())
    n_in, n_cached, n_out = (
        sum(stage[f"n_{what}_tokens"] or 0 for stage in tokens) for what in ("prompt", "cached", "output")
    )
    profile = find_profile(candidate["name"])
    price = Prices.load().find(candidate["name"])
    columns = run.read("scores").to_pydict()
    per_user = {metric: dict(zip(columns["user_id"], columns[metric], strict=True)) for metric in METRICS}
    oracle = root / "oracles" / f"{row['oracle']}.json"
    if "counts" in manifest:
        counts = manifest["counts"]
    else:
        counts = _counts_of_interests(
            run, row["oracle"], oracle, domains.get((data["taxonomy"] or {}).get("sha256", ""))
        )
    n_interests = row["n_interests"]
    about = {
        "origin": manifest.get("origin", "measured"),
        "model": row["candidate"],
        "revision": row["candidate_revision"],
        "profile": candidate["profile"],
        "users_sha256": data["users_sha256"],
        "taxonomy_sha256": data["taxonomy"]["sha256"] if data["taxonomy"] else "",
        **{name: row[name] for name in ("dataset", "judge", "judge_revision", "taxonomy", "thresholds", "is_scope")},
        "oracle": row["oracle"],
        "n_oracle_models": score["oracle"]["n_candidates"],
        "not_ranked": row["not_ranked"] or score.get("not_ranked") or _too_few(row["coverage"]),
        "history_length": extract.get("history_length"),
    }
    intervals = {}
    for metric in METRICS:
        for name, key in ((metric, f"ci_{metric}"), (f"mean_{metric}", f"ci_mean_{metric}")):
            intervals[f"{name}_low"], intervals[f"{name}_high"] = row[key] or (None, None)
    shares = {f"{what}_share": _largest(row, f"{what}_share_") for what in ("unusable", "truncated", "invalid")}
    return {
        "id": sha256(record.relative_to(root).as_posix().encode()).hexdigest()[:10],
        "record": record.relative_to(root).as_posix(),
        **about,
        **{name: row[name] for metric in METRICS for name in (metric, f"mean_{metric}", f"n_users_{metric}")},
        **intervals,
        **shares,
        **{name: row[name] for name in ("coverage", "n_users", "n_requested", "interests_per_user", "verified_share")},
        "n_interests": n_interests,
        "few_distractors_share": row["n_few_distractors"] / n_interests if n_interests else None,
        "parameters_b": profile.parameters_b,
        "active_parameters_b": profile.active_parameters_b,
        "weights": profile.weights or ("none" if candidate["name"].startswith("lexical/") else None),
        "licence": profile.licence or None,
        "n_prompt_tokens": n_in,
        "n_cached_tokens": n_cached,
        "n_output_tokens": n_out,
        "cost_usd": price.money(n_in, n_cached, n_out) if price else None,
        **counts,
    }, per_user


def _take_out_addresses(manifest: dict[str, Any]) -> None:
    """Take out of a manifest how servers are reached, and paths of this machine."""
    for phase in manifest["phases"].values():
        for name in REACH:
            phase.get("model", {}).get("options", {}).pop(name, None)
    oracle = manifest["phases"]["score"]["oracle"]
    if oracle.get("given"):
        oracle["given"] = Path(oracle["given"]).name


def _settings(suite: Path) -> dict[str, Any]:
    """Return what a suite was asked for, without paths of this machine."""
    path = suite / "config.json"
    config = read_json(path)["config"] if path.exists() else {}
    return {name: value for name, value in config.items() if name in SETTINGS}


def _too_few(coverage: float) -> str:
    return f"{100 * coverage:.0f} % of the users are scored (less than {100 * MIN_COVERAGE:g} %)." * (
        coverage < MIN_COVERAGE
    )


def _largest(row: Mapping[str, Any], begin: str) -> float | None:
    return max((value for name, value in row.items() if name.startswith(begin)), default=None)


def _counts_of_interests(
    run: RunFolder, version: str, oracle: Path, domain_of: Mapping[int, str] | None = None
) -> dict[str, Any]:
    """Return what the interests say besides the scores: failure modes, domains, other thresholds and oracles."""
    manifest = run.manifest
    if domain_of is None:
        domain_of = _domains().get((manifest["data"]["taxonomy"] or {}).get("sha256", ""), {})
    table = run.read("interests")
    interests, scores = table.to_pydict(), run.read("scores").to_pydict()
    reasons: dict[str, int] = defaultdict(int)
    tallies: dict[str, list[float]] = {}
    n_unverified = 0
    for category, verified, why, specificity in zip(
        *(interests[name] for name in ("category_id", "verified", "failure_reasons", "specificity")), strict=True
    ):
        n_unverified += not verified
        for reason in () if verified else why:
            reasons[reason] += 1
        domain = domain_of.get(category)
        if domain is not None:
            tally = tallies.setdefault(domain, [0, 0, 0.0, 0])
            tally[0] += 1
            tally[1] += verified
            if specificity is not None:
                tally[2] += specificity
                tally[3] += 1
    found: dict[str, Any] = {
        "failure_modes": json.dumps({name: n / n_unverified for name, n in sorted(reasons.items())}),
        "domains": json.dumps(
            {
                name: {"n": int(n), "verified": ok / n, "is": total / known if known else None}
                for name, (n, ok, total, known) in sorted(tallies.items())
            }
        ),
    }
    if not interests["user_id"]:
        return found
    policy = {"signals": manifest["data"]["signals"], "thresholds": {}}
    result = {"per_interest": interests, "per_user": scores, "failure_modes": {}, "evidence": {}, "policy": policy}
    ig = load_metric("ig")
    for preset in ("lenient", "strict"):
        again = ig.rescore({"x": result}, thresholds=preset, n_resamples=0)["x"]
        found[f"verified_share_{preset}"] = sum(again["per_interest"]["verified"]) / len(interests["user_id"])
    verified_by = read_json(oracle).get("verified_by", {}) if oracle.exists() else {}
    by_id = interests["category_id"][0] is not None
    for least in (2, 3):
        wanted = {
            user: [int(c) if by_id else c for c, models in kinds.items() if len(models) >= least]
            for user, kinds in verified_by.items()
        }
        if any(wanted.values()):
            wanted |= {user: [] for user in scores["user_id"] if user not in wanted}
            again = ig.rescore({"x": result}, oracle=wanted, missing_from_oracle="ignore", n_resamples=0)["x"]
            found[f"ig_recall_{least}"] = again["ig_recall"]
    return found


def _rank(rows: list[dict[str, Any]], scores: Mapping[str, Mapping[str, Mapping[str, float | None]]]) -> None:
    """Write ranks and groups into the rows, from the users that all ranked models of a condition share."""
    from .report.frames import letters  # it imports pandas

    by_condition: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if not row["not_ranked"]:
            by_condition[tuple(row[name] for name in CONDITIONS)].append(row)
    for together in by_condition.values():
        for metric in RANKED:
            given = {row["id"]: scores[row["id"]][metric] for row in together}
            users = set().union(*given.values())
            columns = {name: {user: values.get(user) for user in users} for name, values in given.items()}
            for row in together:
                row["n_ranked_models"] = len(together)
            if len(columns) < 2:
                continue
            found = load_metric("ig").rank_groups(columns, n_resamples=0)
            ranks = dict(zip(found["models"]["model"], found["models"]["rank"], strict=True))
            marks = letters(found["groups"])
            for row in together:
                row[f"rank_{metric}"], row[f"group_{metric}"] = ranks[row["id"]], marks[row["id"]]
                row["n_ranked_users"] = found["n_users"]


def _published_rows() -> Iterable[dict[str, Any]]:
    """Return paper A's results as rows: one for each model and data set."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for record in load_results_published().to_pylist():
        names = PUBLISHED_TABLES.get(record["table"]) if record["paper"] == "gistbench" else None
        dataset, _, column = record["column"].partition(" / ")
        if names is None or column not in names or dataset not in PUBLISHED_DATASETS:
            continue
        key = (record["row"], PUBLISHED_DATASETS[dataset])
        profile = find_profile(record["row"])
        row = rows.setdefault(
            key,
            {
                "id": sha256("/".join(("published", *key)).encode()).hexdigest()[:10],
                "origin": "published",
                "note": PUBLISHED_NOTE,
                "model": key[0],
                "dataset": key[1],
                "judge": "as published",
                "parameters_b": profile.parameters_b,
                "active_parameters_b": profile.active_parameters_b,
                "weights": profile.weights,
                "licence": profile.licence or None,
                "not_ranked": "published numbers have no per-user scores",
            },
        )
        row[names[column]] = record["value"] / 100
    return rows.values()


def _categories() -> pa.Table:
    taxonomy = load_taxonomy("open")
    table = taxonomy_table(taxonomy)
    return table.append_column("taxonomy_sha256", pa.array([taxonomy.sha256] * len(table), pa.string()))


def _domains() -> dict[str, dict[int, str]]:
    """Return the domain of each category that has one, by the taxonomy's hash."""
    table = _categories().to_pydict()
    found: dict[str, dict[int, str]] = defaultdict(dict)
    for taxonomy, category, domain in zip(table["taxonomy_sha256"], table["category_id"], table["domain"], strict=True):
        if domain:
            found[taxonomy][category] = domain
    return found


def _whole(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row.get(name) for name in INDEX_SCHEMA.names}


def _plain(name: str) -> str:
    return slug(ModelRef(name, "", ""))


def _write(path: Path, table: pa.Table) -> None:
    with replacing(path) as temporary:
        pq.write_table(table, temporary)
