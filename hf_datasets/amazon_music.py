"""The `amazon_music` dataset: ratings of music, from the Digital_Music files of Amazon Reviews 2023 (McAuley Lab).

Reads ``Digital_Music.jsonl`` and ``meta_Digital_Music.jsonl``, plain or gzipped, in a folder or a zip file. An object
is a product family (``parent_asin``): editions of an album are one. Users need 20 engagements, as in the paper's
Table 1.

Where stars become signals is ours, see :mod:`gistbench.hf_datasets.signals`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import datasets
import pyarrow as pa
import pyarrow.compute as pc

from ._objects import ObjectTexts, describe_objects, engagements
from ._texts import clean, first_words, joined, listed
from .builder import EngagementBuilder, EngagementConfig
from .errors import ConfigError
from .raw import LINE, Layout, read_json_lines
from .registry import DatasetRecord
from .signals import RATING_SIGNALS, check_rating_limits, check_ratings, rating_signals

__all__ = ["RECORD", "AmazonMusic", "AmazonMusicConfig", "product_text"]

_REVIEWS, _META = "Digital_Music.jsonl", "meta_Digital_Music.jsonl"
_TEXT = pa.string()
_REVIEW_FIELDS = {"user_id": _TEXT, "parent_asin": _TEXT, "rating": pa.float64(), "timestamp": pa.int64()}
_META_FIELDS = {
    "parent_asin": _TEXT,
    "title": _TEXT,
    "store": _TEXT,
    "categories": pa.list_(_TEXT),
    "description": pa.list_(_TEXT),
}
_FORMAT = re.compile(r"\s*\bFormat: .*$")
"""What a store's name ends with where the shop shows a medium beside the artist: ``SWV   Format: Audio CD``."""


@dataclass
class AmazonMusicConfig(EngagementConfig):
    """How stars become signals, and what the text of a product holds."""

    needs_source: ClassVar[str] = (
        "a folder or .zip with Digital_Music.jsonl and meta_Digital_Music.jsonl, plain or gzipped "
        "(https://amazon-reviews-2023.github.io)"
    )
    layouts: ClassVar[tuple[Layout, ...]] = (Layout("Amazon Reviews 2023", (_REVIEWS, _META)),)

    min_engagements: int = 20
    explicit_positive_min: float = 4.0
    """Fewest stars (1 to 5) that are an explicit positive."""
    implicit_positive_min: float = 3.0
    """Fewest stars that are an implicit positive; fewer are explicit negatives."""
    n_description_words: int = 50
    """The first words of a product's description are part of its text; few products have one."""

    def check(self) -> None:
        """Check the order of the limits and the number of words."""
        check_rating_limits(self.explicit_positive_min, self.implicit_positive_min)
        if self.n_description_words < 0:
            raise ConfigError(f"n_description_words is {self.n_description_words}; it must be 0 or more.")


class AmazonMusic(EngagementBuilder):
    """Builder of `amazon_music`."""

    VERSION = datasets.Version("1.0.0")
    BUILDER_CONFIG_CLASS = AmazonMusicConfig

    def engagement_tables(self) -> Iterable[pa.Table]:
        """Yield the reviews' ratings as engagements, in the order of the file."""
        config: AmazonMusicConfig = self.config
        products = self._products()
        file = config.raw_file(_REVIEWS)
        for batch in read_json_lines(file, _REVIEW_FIELDS, self.bad_rows):
            batch = check_ratings(batch, file.source, self.bad_rows, rating="rating", time="timestamp", lowest=1)
            rows = pa.table(
                {
                    "user_id": batch["user_id"],
                    "object_id": batch["parent_asin"],
                    "interaction_type": rating_signals(
                        batch["rating"], config.explicit_positive_min, config.implicit_positive_min
                    ),
                    "interaction_time": pc.divide(batch["timestamp"].cast(pa.float64()), 1000),
                    LINE: batch[LINE],
                }
            )
            yield from engagements(rows, products, file.source, self)

    def _products(self) -> ObjectTexts:
        config: AmazonMusicConfig = self.config
        file = config.raw_file(_META)
        text_of = partial(product_text, n_description_words=config.n_description_words)
        return describe_objects(read_json_lines(file, _META_FIELDS, self.bad_rows), "parent_asin", text_of, file, self)


def product_text(product: dict[str, Any], n_description_words: int) -> str:
    """Return what is known of a product: ``Release Some Tension. By SWV. Category: R&B, Soul. Their second album …``.

    Args:
        product: ``title``, ``store``, ``categories``, ``description`` of a line of the meta file.
        n_description_words: most words of the description.
    """
    store = _FORMAT.sub("", clean(product["store"])).removesuffix(" (Artist)")
    description = clean(" ".join(part or "" for part in product["description"] or ()))
    return joined(
        [
            clean(product["title"]),
            f"By {store}" if store else "",
            listed("Category", map(clean, product["categories"] or ())),
            first_words(description, n_description_words),
        ]
    )


RECORD = DatasetRecord(
    name="amazon_music",
    title="Amazon Reviews 2023: Digital Music",
    summary="Star ratings of albums and songs, from Amazon Reviews 2023 on your disk.",
    signals=RATING_SIGNALS,
    licence="no licence is stated: the reviews are Amazon's and their authors'; research use, not passed on",
    builder=AmazonMusic,
    citation=(
        "Yupeng Hou, Jiacheng Li, Zhankui He, An Yan, Xiusi Chen and Julian McAuley. 2024. Bridging Language and Items "
        "for Retrieval and Recommendation. arXiv:2403.03952. https://arxiv.org/abs/2403.03952"
    ),
    homepage="https://amazon-reviews-2023.github.io",
)
