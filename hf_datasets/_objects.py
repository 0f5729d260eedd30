"""The last step of builders whose objects are described in a file of their own: engagements get their objects' texts.

Knows nothing about where the files are or how their rows become signals.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .builder import EngagementBuilder
from .errors import DataError
from .raw import LINE, RawFile, keep_rows, unique_rows
from .schema import ENGAGEMENT_SCHEMA

__all__ = ["ObjectTexts", "describe_objects", "engagements"]

_BATCH_ROWS = 65_536
"""Each row carries its object's text: a block of a log of ids becomes many times as long."""


@dataclass(frozen=True)
class ObjectTexts:
    """What a model reads of each object."""

    ids: pa.Array
    """Unique."""
    texts: pa.Array
    """One per id, in the same order; empty where nothing is known of the object but its id."""
    file: str
    """The name of the file that describes the objects."""
    id_column: str
    """What that file and the file of engagements call their ids."""


def describe_objects(
    batches: Iterator[pa.Table],
    id_column: str,
    text_of: Callable[[dict[str, Any]], str],
    file: RawFile,
    builder: EngagementBuilder,
) -> ObjectTexts:
    """Return the texts of objects; a second line for an object is a broken row.

    Args:
        batches: of the file that describes them, with the line.
        id_column: their ids.
        text_of: makes the text of a row of the file.
        file: the file.
        builder: whose objects they are.
    """
    tables = [
        pa.table(
            {
                id_column: batch[id_column],
                "text": pa.array([text_of(row) for row in batch.to_pylist()], pa.string()),
                LINE: batch[LINE],
            }
        )
        for batch in batches
    ]
    if not tables:
        raise DataError(f"{file.source}: the file describes nothing (0 rows that can be read).")
    table = unique_rows(pa.concat_tables(tables), id_column, file.source, builder.bad_rows)
    name = file.source.removeprefix(f"{builder.config.source}: ")
    return ObjectTexts(table[id_column].combine_chunks(), table["text"].combine_chunks(), name, id_column)


def engagements(rows: pa.Table, objects: ObjectTexts, source: str, builder: EngagementBuilder) -> Iterator[pa.Table]:
    """Yield rows as engagements, in the same order, in tables of a bounded size.

    A row without ids, or of an object that is not described, is broken; one of an object without any text is left out.

    Args:
        rows: ``user_id``, ``object_id``, ``interaction_type``, ``interaction_time`` and the line.
        objects: their texts.
        source: the file that the rows are from.
        builder: whose rows they are.
    """
    for start in range(0, rows.num_rows, _BATCH_ROWS):
        yield _engagements(rows.slice(start, _BATCH_ROWS), objects, source, builder)


def _engagements(rows: pa.Table, objects: ObjectTexts, source: str, builder: EngagementBuilder) -> pa.Table:
    rows = rows.rename_columns({"object_id": objects.id_column})
    for column in ("user_id", objects.id_column):
        present = pc.not_equal(pc.utf8_trim_whitespace(rows[column]), "")
        rows = keep_rows(rows, present, "an id was expected", column, source, builder.bad_rows)
    places = pc.index_in(rows[objects.id_column], value_set=objects.ids)
    known = pc.is_valid(places)
    problem = f"it is not in {objects.file}; the two files must be of the same release"
    rows = keep_rows(rows, known, problem, objects.id_column, source, builder.bad_rows)
    texts = objects.texts.take(places.filter(known))
    described = pc.not_equal(texts, "")
    builder.leave_out("the object has no text", pc.sum(pc.invert(described), min_count=0).as_py())
    rows = rows.append_column("object_text", texts).filter(described)
    return rows.rename_columns({objects.id_column: "object_id"}).select(ENGAGEMENT_SCHEMA.names).cast(ENGAGEMENT_SCHEMA)
