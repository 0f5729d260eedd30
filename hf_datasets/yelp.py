"""The `yelp` dataset: ratings of local businesses, from the files of the Yelp Open Dataset.

Reads ``yelp_academic_dataset_review.json`` and ``yelp_academic_dataset_business.json`` (unpacked from the tar file as
downloaded), plain or gzipped, in a folder or a zip file. Times are written without a zone and read as UTC.

Where stars become signals is ours, see :mod:`gistbench.hf_datasets.signals`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import datasets
import pyarrow as pa
import pyarrow.compute as pc

from ._objects import ObjectTexts, describe_objects, engagements
from ._texts import clean, joined, listed
from ._times import parse_times
from .builder import EngagementBuilder, EngagementConfig
from .raw import LINE, Layout, keep_rows, read_json_lines
from .registry import DatasetRecord
from .signals import RATING_SIGNALS, check_rating_limits, check_ratings, rating_signals

__all__ = ["RECORD", "Yelp", "YelpConfig", "business_text"]

_REVIEWS, _BUSINESSES = "yelp_academic_dataset_review.json", "yelp_academic_dataset_business.json"
_TEXT = pa.string()
_REVIEW_FIELDS = {"user_id": _TEXT, "business_id": _TEXT, "stars": pa.float64(), "date": _TEXT}
_BUSINESS_FIELDS = dict.fromkeys(("business_id", "name", "categories", "city", "state"), _TEXT)
_DATE = r"(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})(?: (?P<hour>\d{2}):(?P<minute>\d{2}):(?P<second>\d{2}))?"


@dataclass
class YelpConfig(EngagementConfig):
    """How stars become signals."""

    needs_source: ClassVar[str] = (
        "a folder or .zip with yelp_academic_dataset_review.json and yelp_academic_dataset_business.json "
        "(https://business.yelp.com/data/resources/open-dataset/)"
    )
    layouts: ClassVar[tuple[Layout, ...]] = (Layout("the Yelp Open Dataset", (_REVIEWS, _BUSINESSES)),)

    min_engagements: int = 100
    explicit_positive_min: float = 4.0
    """Fewest stars (1 to 5) that are an explicit positive."""
    implicit_positive_min: float = 3.0
    """Fewest stars that are an implicit positive; fewer are explicit negatives."""

    def check(self) -> None:
        """Check the order of the limits."""
        check_rating_limits(self.explicit_positive_min, self.implicit_positive_min)


class Yelp(EngagementBuilder):
    """Builder of `yelp`."""

    VERSION = datasets.Version("1.0.0")
    BUILDER_CONFIG_CLASS = YelpConfig

    def engagement_tables(self) -> Iterable[pa.Table]:
        """Yield the reviews' ratings as engagements, in the order of the file."""
        config: YelpConfig = self.config
        businesses = self._businesses()
        file = config.raw_file(_REVIEWS)
        for batch in read_json_lines(file, _REVIEW_FIELDS, self.bad_rows):
            batch = check_ratings(batch, file.source, self.bad_rows, rating="stars", lowest=1)
            batch = batch.append_column("seconds", parse_times(batch["date"], _DATE))
            good = pc.or_kleene(pc.is_null(batch["date"]), pc.greater_equal(batch["seconds"], 0))
            problem = "a time such as 2018-07-07 22:09:11 was expected"
            batch = keep_rows(batch, good, problem, "date", file.source, self.bad_rows)
            rows = pa.table(
                {
                    "user_id": batch["user_id"],
                    "object_id": batch["business_id"],
                    "interaction_type": rating_signals(
                        batch["stars"], config.explicit_positive_min, config.implicit_positive_min
                    ),
                    "interaction_time": batch["seconds"],
                    LINE: batch[LINE],
                }
            )
            yield from engagements(rows, businesses, file.source, self)

    def _businesses(self) -> ObjectTexts:
        config: YelpConfig = self.config
        file = config.raw_file(_BUSINESSES)
        batches = read_json_lines(file, _BUSINESS_FIELDS, self.bad_rows)
        return describe_objects(batches, "business_id", business_text, file, self)


def business_text(business: dict[str, Any]) -> str:
    """Return what is known of a business: ``Pho 75. Category: Vietnamese, Soup. In Philadelphia, PA``.

    Args:
        business: ``name``, ``categories`` (text, ``,`` between), ``city`` and ``state`` of a line of the business file.
    """
    place = ", ".join(filter(None, [clean(business["city"]), clean(business["state"])]))
    return joined(
        [
            clean(business["name"]),
            listed("Category", map(clean, (business["categories"] or "").split(","))),
            f"In {place}" if place else "",
        ]
    )


RECORD = DatasetRecord(
    name="yelp",
    title="Yelp Open Dataset",
    summary="Star ratings of restaurants and other local businesses, from the Yelp Open Dataset on your disk.",
    signals=RATING_SIGNALS,
    licence="Yelp Dataset Terms of Use: academic, non-commercial use; no redistribution",
    builder=Yelp,
    citation="Yelp Inc. Yelp Open Dataset. https://business.yelp.com/data/resources/open-dataset/",
    homepage="https://business.yelp.com/data/resources/open-dataset/",
)
