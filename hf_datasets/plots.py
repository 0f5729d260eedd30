"""Plots of films and books, from a file that the user writes, added to the texts of objects.

A file ``plots.csv`` or ``plots.tsv`` beside the ratings, with the columns of the item's id and ``plot``.
Knows nothing about ratings.
"""

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from .errors import ConfigError
from .raw import BadRows, read_delimited, read_whole, unique_rows

if TYPE_CHECKING:
    from .builder import EngagementConfig

__all__ = ["PLOTS_FILES", "add_plots", "check_plots", "plots_of"]

PLOTS_FILES = ("plots.csv", "plots.tsv")


def check_plots(config: "EngagementConfig") -> None:
    """Raise ConfigError where the source of a config holds no plots."""
    if not any(name in config.found[1] for name in PLOTS_FILES):
        raise ConfigError(
            f"plots=True, but {config.source} holds neither {' nor '.join(PLOTS_FILES)}: put one there, with the id of "
            "each item and its plot."
        )


def add_plots(
    texts: pa.Array, item_ids: pa.Array, config: "EngagementConfig", id_column: str, bad_rows: BadRows
) -> pa.Array:
    """Append plots to texts; items without one keep their text as it is.

    Args:
        texts: one per item.
        item_ids: in the same order.
        config: whose source holds the plots.
        id_column: name of the item's id in the plots file.
        bad_rows: what to do with broken rows, of which a second plot of an item is one.
    """
    found = plots_of(item_ids, config, id_column, bad_rows)
    joined = pc.binary_join_element_wise(texts, found, ". ", null_handling="skip")
    return pc.if_else(pc.is_null(found), texts, joined)


def plots_of(item_ids: pa.Array, config: "EngagementConfig", id_column: str, bad_rows: BadRows) -> pa.Array:
    """Return the plot of each item on one line, null where the source has none; arguments as of :func:`add_plots`."""
    name = next((name for name in PLOTS_FILES if name in config.found[1]), None)
    if name is None:
        return pa.nulls(len(item_ids), pa.string())
    file = config.raw_file(name, delimiter="," if name.endswith(".csv") else "\t")
    columns = {id_column: pa.string(), "plot": pa.string()}
    plots = unique_rows(
        read_whole(read_delimited(file, columns, bad_rows), file.source), id_column, file.source, bad_rows
    )
    one_line = pc.utf8_trim_whitespace(pc.replace_substring_regex(plots["plot"], r"\s+", " ")).combine_chunks()
    one_line = pc.if_else(pc.equal(one_line, ""), None, one_line)
    return one_line.take(pc.index_in(item_ids, value_set=plots[id_column].combine_chunks()))
