"""Checks a submission and scores it again from its records: ``python -m leaderboard.check FOLDER``.

It runs as a process of its own, with limits on memory and time, since it reads files that anyone may have made. The
folder holds the submission, ``context.json`` (what is known of its data set) and ``oracle.json``; ``result.json`` and,
where nothing is wrong, the folder ``record`` come out. The record is written anew from what was understood.
"""

import json
import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .intake import SubmissionError
from .metrics import MetricsError
from .score import comparisons, score
from .text import clean, excerpt, fits_name

__all__ = ["check", "main", "read_manifest", "read_tables"]

MAX_ROWS = 2_000_000
MAX_VALUES = 60_000_000
MAX_TABLE_BYTES = 1_000_000_000
MEMORY_BYTES = 6_000_000_000
CPU_SECONDS = 600
MAX_ID_CHARS, MAX_INTEREST_CHARS, MAX_TEXT_CHARS = 200, 500, 20_000
MAX_PROBLEMS = 20
MAX_BACKING = 5
TYPES = ("explicit_positive", "implicit_positive", "implicit_negative", "explicit_negative")
TEXT, INTEGER, FLAG, TEXTS = "text", "whole number", "yes or no", "list of texts"
COLUMNS: dict[str, dict[str, str]] = {
    "users": {
        "user_id": TEXT,
        "n_engagements": INTEGER,
        "n_chunks": INTEGER,
        "n_chunks_answered": INTEGER,
        "scored": FLAG,
    },
    "extractions": {"user_id": TEXT, "interest": TEXT, "item_ids": TEXTS},
    "evidence": {"user_id": TEXT, "object_id": TEXT, "object_text": TEXT, "interaction_type": TEXT},
    "groundings": {
        "user_id": TEXT,
        "interest": TEXT,
        "shown_item_ids": TEXTS,
        "relevant_item_ids": TEXTS,
        "status": TEXT,
    },
    "retrievals": {
        "user_id": TEXT,
        "interest": TEXT,
        "backing_item_ids": TEXTS,
        "shown_item_ids": TEXTS,
        "selected_item_ids": TEXTS,
        "status": TEXT,
    },
    "mappings": {"interest": TEXT, "category_id": INTEGER, "status": TEXT},
}
MAY_MISS = {("groundings", "relevant_item_ids"), ("retrievals", "selected_item_ids"), ("mappings", "category_id")}
MAY_MISS |= {("evidence", "object_text"), ("retrievals", "backing_item_ids"), ("retrievals", "shown_item_ids")}
STATUSES = {
    "groundings": ("ok", "no_known_items", "failed"),
    "retrievals": ("ok", "no_backing", "no_distractors", "shortlist_failed", "failed"),
    "mappings": ("ok", "unmapped", "failed"),
}
Key = tuple[str, str]


def main() -> None:
    """Check the folder that the command line names."""
    folder = Path(sys.argv[1])
    _limit_this_process()
    try:
        result = check(folder)
    except SubmissionError as error:
        result = {"problems": error.problems[:MAX_PROBLEMS]}
    except MetricsError as error:
        result = {
            "problems": [f"Nothing can be scored at the moment, whatever the files are: {error} Try again later."]
        }
    (folder / "result.json").write_text(json.dumps(result, allow_nan=False), encoding="utf-8")


def _limit_this_process() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def check(folder: Path) -> dict[str, Any]:
    """Check a submission, score it, and write its record.

    Raises:
        SubmissionError: what is wrong, in plain words.
    """
    context = json.loads((folder / "context.json").read_text(encoding="utf-8"))
    oracle = json.loads((folder / "oracle.json").read_text(encoding="utf-8"))
    manifest = read_manifest(folder / "manifest.json")
    notes = _check_manifest(manifest, context)
    tables = read_tables(folder)
    rows = {name: table.to_pylist() for name, table in tables.items()}
    problems = [*_problems(rows, context)]
    if problems:
        more = len(problems) - MAX_PROBLEMS
        raise SubmissionError(*problems[:MAX_PROBLEMS], *([f"... and {more} more."] if more > 0 else []))
    scored = score(rows, context, oracle)
    _write_record(folder / "record", manifest, tables, scored, context)
    return {
        "problems": [],
        "notes": notes + scored["notes"],
        "model": manifest["candidate"]["name"],
        "revision": str(manifest["candidate"]["revision"]),
        "judge": manifest["phases"]["judge"]["model"]["name"],
        "dataset": context["dataset"],
        "not_ranked": scored["not_ranked"],
        "summary": {name: value for name, value in scored["summary"].items() if name != "policy"},
        "comparisons": comparisons(scored["scores"], context["rivals"]),
    }


# --- the manifest ---------------------------------------------------------------------------------------------------


def read_manifest(path: Path) -> dict[str, Any]:
    """Read a manifest: plain JSON of bounded depth, with finite numbers and short texts.

    Raises:
        SubmissionError: it is none.
    """

    def refuse(text: str) -> Any:
        raise ValueError(f"{text} is no number")

    try:
        found = json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
        cleaned = _clean(found, [20_000])
    except (ValueError, RecursionError, OSError) as error:
        raise SubmissionError(f"manifest.json cannot be read as JSON: {str(error)[:200]}.") from error
    if not isinstance(cleaned, dict):
        raise SubmissionError("manifest.json holds no object.")
    return cleaned


def _clean(value: Any, left: list[int], depth: int = 0) -> Any:
    """Return a JSON value that is safe to keep: bounded, finite, without marks that mean something elsewhere."""
    left[0] -= 1
    if left[0] < 0 or depth > 10:
        raise ValueError("it is too large or too deep")
    if isinstance(value, dict):
        return {clean(str(key))[:80]: _clean(one, left, depth + 1) for key, one in value.items()}
    if isinstance(value, list):
        return [_clean(one, left, depth + 1) for one in value]
    if isinstance(value, str):
        return clean(value)[:500]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("it holds a number that is not finite")
    if isinstance(value, int) and abs(value) > 10**15:
        raise ValueError("it holds a number that is too large")
    return value


def _part(value: Any, *path: str) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _check_manifest(manifest: dict[str, Any], context: Mapping[str, Any]) -> list[str]:
    """Say what is wrong with a manifest, or what a reader should know."""
    problems, notes = [], []
    if manifest.get("format") != 1:
        problems.append(f"manifest.json has format {manifest.get('format')!r}; this leaderboard reads format 1.")
    for what, path in (
        ("candidate", ("candidate",)),
        ("judge", ("phases", "judge", "model")),
    ):
        for key in ("name", "revision", "profile"):
            value = _part(manifest, *path, key)
            # A served model may have no revision.
            if not fits_name(value) and not (key != "name" and value in ("", None)):
                problems.append(
                    f"The {what}'s {key} may hold letters, digits, spaces and / . _ - : @ + (at most 150), and begins "
                    "with a letter or a digit."
                )
    data = _part(manifest, "data")
    for key, what in (("sha256", "data"), ("users_sha256", "users")):
        if _part(data, key) != context[key]:
            problems.append(
                f"The {what} are not those of the leaderboard's {context['dataset']}: their hash is "
                f"{str(_part(data, key))[:16]}, expected {context[key][:16]}."
            )
    if _part(data, "taxonomy", "sha256") != context["taxonomy_sha256"]:
        problems.append("The taxonomy is another one than that of the leaderboard for this data set.")
    for phase in ("extract", "judge"):
        stages = _part(manifest, "phases", phase, "stages")
        if not isinstance(stages, dict) or not stages:
            problems.append(f"manifest.json does not say how the phase {phase} went.")
            continue
        problems += [f"{phase}, {name}: {fault}" for name, stage in stages.items() if (fault := _stage_fault(stage))]
        prompts = _part(manifest, "phases", phase, "prompts")
        ours = context["prompts"].get(phase, {})
        if isinstance(prompts, dict) and any(_part(prompts, name, "sha256") != sha for name, sha in ours.items()):
            notes.append(f"The prompts of {phase} are not those of the other rows: scores may differ for that reason.")
    if f"{_part(manifest, 'phases', 'judge', 'model', 'name')}" != context["judge"]:
        notes.append(f"The judge is not {context['judge']}, so the row is not ranked beside those that it judged.")
    if problems:
        raise SubmissionError(*problems)
    return notes


def _stage_fault(stage: Any) -> str:
    """Say what is wrong with the account of a stage; empty where nothing is."""
    outcomes = _part(stage, "outcomes")
    kinds = ("ok", "truncated", "invalid", "refused", "error")
    if not isinstance(outcomes, dict) or any(not _is_count(outcomes.get(kind)) for kind in kinds):
        return "the counts of outcomes are missing or no counts."
    if not _is_count(stage.get("n_requests")):
        return "n_requests is no count."
    share = stage.get("unusable_share")
    if not isinstance(share, (int, float)) or isinstance(share, bool) or not 0 <= share <= 1:
        return "unusable_share is not between 0 and 1."
    if not isinstance(stage.get("engines"), list):
        return "engines is no list."
    if any(not _is_count(stage.get(f"n_{what}_tokens") or 0) for what in ("prompt", "cached", "output", "reasoning")):
        return "a count of tokens is no count."
    return ""


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


# --- the tables -----------------------------------------------------------------------------------------------------


def read_tables(folder: Path) -> dict[str, pa.Table]:
    """Read the tables of a submission, only the columns that are needed.

    Raises:
        SubmissionError: a file is no Parquet, declares or holds too much, or has columns of other types.
    """
    found = {}
    for name, columns in COLUMNS.items():
        path = folder / f"{name}.parquet"
        if name == "mappings" and not path.exists():
            found[name] = pa.table({key: pa.array([], _ARROW[kind]) for key, kind in columns.items()})
            continue
        try:
            with pq.ParquetFile(path) as file:
                found[name] = _read_table(file, name, columns)
        except (pa.ArrowException, OSError, MemoryError, ValueError) as error:
            raise SubmissionError(f"{name}.parquet cannot be read as Parquet ({type(error).__name__}).") from error
    return found


_ARROW = {TEXT: pa.string(), INTEGER: pa.int64(), FLAG: pa.bool_(), TEXTS: pa.list_(pa.string())}


def _read_table(file: pq.ParquetFile, name: str, columns: Mapping[str, str]) -> pa.Table:
    about = file.metadata
    if about.num_rows > MAX_ROWS:
        raise SubmissionError(f"{name}.parquet declares {about.num_rows:,} rows; at most {MAX_ROWS:,} are read.")
    values = size = 0
    for group in range(about.num_row_groups):
        row_group = about.row_group(group)
        size += row_group.total_byte_size
        values += sum(row_group.column(at).num_values for at in range(row_group.num_columns))
    if values > MAX_VALUES or size > MAX_TABLE_BYTES:
        raise SubmissionError(f"{name}.parquet declares {values:,} values in {size:,} bytes, which is too much.")
    schema = file.schema_arrow
    problems = []
    for key, kind in columns.items():
        if key not in schema.names:
            problems.append(f"{name}.parquet lacks the column {key}.")
        elif schema.names.count(key) > 1 or not _fits(schema.field(key).type, kind):
            problems.append(f"{name}.parquet: the column {key} must be a {kind}, found {schema.field(key).type}.")
    if problems:
        raise SubmissionError(*problems)
    batches, seen = [], 0
    wanted = pa.schema([(key, _ARROW[kind]) for key, kind in columns.items()])
    for batch in file.iter_batches(batch_size=50_000, columns=list(columns)):
        seen += batch.nbytes
        if seen > MAX_TABLE_BYTES:
            raise SubmissionError(f"{name}.parquet unpacks to more than {MAX_TABLE_BYTES:,} bytes.")
        batch.validate(full=True)
        batches.append(pa.Table.from_batches([batch]).select(list(columns)).cast(wanted))
    return pa.concat_tables(batches) if batches else wanted.empty_table()


def _fits(found: pa.DataType, kind: str) -> bool:
    if kind == TEXTS:
        return (pa.types.is_list(found) or pa.types.is_large_list(found)) and _fits(found.value_type, TEXT)
    tests = {
        TEXT: lambda t: pa.types.is_string(t) or pa.types.is_large_string(t),
        INTEGER: lambda t: pa.types.is_integer(t) or pa.types.is_null(t),
        FLAG: pa.types.is_boolean,
    }
    return bool(tests[kind](found))


def _problems(rows: Mapping[str, list[dict[str, Any]]], context: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the rows, in plain words; stop early where the rest would only repeat it."""
    faults = []
    for name, table in rows.items():
        for number, row in enumerate(table, start=1):
            if fault := _row_fault(name, row):
                faults.append(f"{name}, row {number}: {fault}")
                break  # the first of a table: the same mistake is seldom made once
    if faults:
        yield from faults
        return  # what follows takes each value for what its column should hold
    users = [row["user_id"] for row in rows["users"]]
    known = set(users)
    for what, keys in (
        ("users", users),
        ("extractions", [(row["user_id"], row["interest"]) for row in rows["extractions"]]),
        ("groundings", [(row["user_id"], row["interest"]) for row in rows["groundings"]]),
        ("retrievals", [(row["user_id"], row["interest"]) for row in rows["retrievals"]]),
        ("mappings", [row["interest"] for row in rows["mappings"]]),
    ):
        if repeated := [key for key, n in Counter(keys).items() if n > 1]:
            yield f"{what}: {len(repeated)} keys stand twice, such as {excerpt(repeated[0])}."
    strangers = known - set(context["users"])
    if strangers:
        yield f"users: {len(strangers)} are not among the data set's, such as {excerpt(sorted(strangers)[0])}."
    for name in ("extractions", "evidence", "groundings", "retrievals"):
        if lost := {row["user_id"] for row in rows[name]} - known:
            yield f"{name}: {len(lost)} users are not in the table users, such as {excerpt(sorted(lost)[0])}."
    yield from _item_problems(rows, context)


def _row_fault(name: str, row: Mapping[str, Any]) -> str:
    for key, kind in COLUMNS[name].items():
        value = row[key]
        if value is None:
            if (name, key) not in MAY_MISS:
                return f"{key} is missing."
        elif kind == TEXT:
            limit = {"interest": MAX_INTEREST_CHARS, "object_text": MAX_TEXT_CHARS}.get(key, MAX_ID_CHARS)
            if len(value) > limit or (not value.strip() and key != "object_text"):
                return f"{key} is empty or longer than {limit} characters."
        elif kind == TEXTS:
            if any(not isinstance(item, str) or not 0 < len(item) <= MAX_ID_CHARS for item in value):
                return f"{key} holds an id that is missing, empty or longer than {MAX_ID_CHARS} characters."
        elif kind == INTEGER and not 0 <= value < 2**31:
            return f"{key} is {value}, which is out of range."
    if name in STATUSES and row["status"] not in STATUSES[name]:
        return f"status is {excerpt(row['status'])}; there are {', '.join(STATUSES[name])}."
    if name == "evidence" and row["interaction_type"] not in TYPES:
        return f"interaction_type is {excerpt(row['interaction_type'])}; there are {', '.join(TYPES)}."
    if name == "users" and row["n_chunks_answered"] > row["n_chunks"]:
        return "more chunks are answered than there are."
    return ""


def _item_problems(rows: Mapping[str, list[dict[str, Any]]], context: Mapping[str, Any]) -> Iterator[str]:
    """Yield where judgements do not belong to what they judge, and where evidence is not what others have seen."""
    cited: dict[Key, set[str]] = {
        (row["user_id"], row["interest"]): set(row["item_ids"]) for row in rows["extractions"]
    }
    history: dict[str, set[str]] = {}
    for row in rows["evidence"]:
        history.setdefault(row["user_id"], set()).add(row["object_id"])
    foreign = Counter[str]()
    for row in rows["groundings"]:
        key = (row["user_id"], row["interest"])
        if key not in cited:
            foreign["a grounding is of an interest that the model did not name"] += 1
        elif not set(row["relevant_item_ids"] or ()) <= cited[key]:
            foreign["a judge kept an item that the interest does not cite"] += 1
    for row in rows["retrievals"]:
        key = (row["user_id"], row["interest"])
        backing, shown = list(row["backing_item_ids"] or ()), list(row["shown_item_ids"] or ())
        if key not in cited:
            foreign["a test set is of an interest that the model did not name"] += 1
            continue
        mine = history.get(row["user_id"], set())
        if len(backing) > MAX_BACKING or len(set(backing)) != len(backing):
            foreign[f"a test set has more than {MAX_BACKING} backing items, or one twice"] += 1
        if not set(backing) <= cited[key] & mine:
            foreign["a backing item is not cited, or not in the history"] += 1
        if row["status"] == "ok" and not set(backing) <= set(shown):
            foreign["a backing item was not shown to the judge"] += 1
        if (set(shown) - set(backing)) & mine:
            foreign["a distractor is in the user's own history"] += 1
        if len(set(shown)) != len(shown):
            foreign["a test set shows an item twice"] += 1
        if row["status"] == "ok" and row["selected_item_ids"] is None:
            foreign["a test set counts as judged and has no selection"] += 1
    for what, n in foreign.items():
        yield f"{n} times {what}."
    known = {(user, item): set(kinds) for user, item, kinds in context["evidence"]}
    seen: dict[Key, set[str]] = {}
    for row in rows["evidence"]:
        seen.setdefault((row["user_id"], row["object_id"]), set()).add(row["interaction_type"])
    wrong = [pair for pair, kinds in seen.items() if pair in known and kinds != known[pair]]
    if wrong:
        yield f"evidence: {len(wrong)} engagements are not those of the data set, such as {excerpt(wrong[0])}."
    categories = {row["category_id"] for row in rows["mappings"] if row["category_id"] is not None}
    if beyond := sorted(one for one in categories if one > context["max_category"]):
        yield f"mappings: category {beyond[0]} is not in the taxonomy."


# --- the record -----------------------------------------------------------------------------------------------------


def _write_record(
    folder: Path,
    manifest: Mapping[str, Any],
    tables: Mapping[str, pa.Table],
    scored: Mapping[str, Any],
    context: Mapping[str, Any],
) -> None:
    """Write what was understood: tables with the known columns only, scores made here, a manifest made anew."""
    folder.mkdir()
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet")
    for name in ("interests", "scores"):
        pq.write_table(pa.table(_typed(scored[name])), folder / f"{name}.parquet")
    phases = manifest["phases"]
    kept = {
        "format": 1,
        "origin": "self-judged",
        "data": context["data"],
        "candidate": {key: str(manifest["candidate"].get(key) or "") for key in ("name", "revision", "profile")},
        "phases": {
            "extract": _phase(phases["extract"]),
            "judge": {**_phase(phases["judge"]), "taxonomy": context["data"]["taxonomy"]},
            "score": {**scored["summary"], "not_ranked": scored["not_ranked"]},
        },
    }
    (folder / "manifest.json").write_text(json.dumps(kept, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def _phase(phase: Mapping[str, Any]) -> dict[str, Any]:
    model = phase.get("model") if isinstance(phase.get("model"), dict) else {}
    assert isinstance(model, dict)
    stages = {
        name: {
            **{key: stage[key] for key in ("outcomes", "n_requests", "unusable_share", "engines")},
            **{
                f"n_{what}_tokens": stage.get(f"n_{what}_tokens") or 0
                for what in ("prompt", "cached", "output", "reasoning")
            },
        }
        for name, stage in phase["stages"].items()
    }
    length = phase.get("history_length")
    return {
        "model": {
            **{key: str(model.get(key) or "") for key in ("name", "revision", "profile")},
            "sampling": model.get("sampling"),
            "structured": model.get("structured") is True,
        },
        "stages": stages,
        "history_length": length if _is_count(length) else None,
        "prompts": phase.get("prompts") if isinstance(phase.get("prompts"), dict) else {},
        "versions": phase.get("versions") if isinstance(phase.get("versions"), dict) else {},
    }


def _typed(columns: Mapping[str, list[Any]]) -> dict[str, pa.Array]:
    found = {}
    for name, values in columns.items():
        if name in ("failure_reasons", "unknown_item_ids", "relevant_item_ids"):
            kind: pa.DataType = pa.list_(pa.string())
        elif name in ("user_id", "interest"):
            kind = pa.string()
        elif name == "verified":
            kind = pa.bool_()
        elif name == "category_id" or name.startswith("n_"):
            kind = pa.int64()
        else:
            kind = pa.float64()
        found[name] = pa.array(values, kind)
    return found


if __name__ == "__main__":
    main()
