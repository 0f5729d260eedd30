"""The `kuairec` dataset: short videos and how long people watched them, from the files of KuaiRec 2.0 (Kuaishou).

Reads ``small_matrix.csv`` (1,411 people who saw nearly all of 3,327 videos) or ``big_matrix.csv`` (7,176 people,
10,728 videos), ``kuairec_caption_category.csv`` and, as an option, ``item_categories.csv``, in a folder or a zip
file.

The paper names the signal, the watch ratio (time played / length of the video), but not where it becomes an
engagement. Ours: 2 and more (watched twice) is an explicit positive, 1 and more (watched to its end) an implicit
positive, less than 0.3 (skipped) an implicit negative. Ratios from 0.3 to 1 say neither: such rows are left out and
counted. All three are parameters; ``implicit_negative_below`` set to ``implicit_positive_min`` leaves nothing out.
"""

import dataclasses
import io
from collections.abc import Iterable
from dataclasses import dataclass
from typing import IO, Any, ClassVar

import datasets
import pyarrow as pa
import pyarrow.compute as pc

from ._objects import ObjectTexts, describe_objects, engagements
from ._texts import clean, joined, listed
from .builder import EngagementBuilder, EngagementConfig
from .errors import ConfigError
from .raw import LINE, Layout, RawFile, keep_rows, read_delimited, read_whole
from .registry import DatasetRecord

__all__ = ["RECORD", "KuaiRec", "KuaiRecConfig", "video_text"]

_MATRICES = {"small": "small_matrix.csv", "big": "big_matrix.csv"}
_CAPTIONS, _CATEGORIES = "kuairec_caption_category.csv", "item_categories.csv"
_LEVELS = ("first_level_category_name", "second_level_category_name", "third_level_category_name")
_TEXT, _NUMBER = pa.string(), pa.float64()


@dataclass
class KuaiRecConfig(EngagementConfig):
    """How watch ratios become signals, and what the text of a video holds."""

    needs_source: ClassVar[str] = (
        "a KuaiRec 2.0 folder or .zip with small_matrix.csv or big_matrix.csv, kuairec_caption_category.csv and, as an "
        "option, item_categories.csv (https://kuairec.com)"
    )
    layouts: ClassVar[tuple[Layout, ...]] = (Layout("KuaiRec", (_CAPTIONS,), (*_MATRICES.values(), _CATEGORIES)),)

    min_engagements: int = 100
    matrix: str = "small"
    """Which of the two matrices: ``small`` or ``big``."""
    explicit_positive_min: float = 2.0
    """Lowest watch ratio that is an explicit positive."""
    implicit_positive_min: float = 1.0
    """Lowest watch ratio that is an implicit positive."""
    implicit_negative_below: float = 0.3
    """Watch ratios below this are implicit negatives; those from here to ``implicit_positive_min`` are left out."""
    captions: bool = True
    """A video's caption is part of its text. False: tags and categories only, as the paper's Table 1 has it."""

    def check(self) -> None:
        """Check the order of the limits and that the matrix is there."""
        limits = (0.0, self.implicit_negative_below, self.implicit_positive_min, self.explicit_positive_min)
        if list(limits) != sorted(limits):
            raise ConfigError(
                f"implicit_negative_below={limits[1]}, implicit_positive_min={limits[2]} and "
                f"explicit_positive_min={limits[3]} must be 0 or more, each at least as high as the one before."
            )
        if self.matrix not in _MATRICES:
            raise ConfigError(f"matrix is {self.matrix!r}; it must be one of {', '.join(_MATRICES)}.")
        if _MATRICES[self.matrix] not in self.found[1]:
            raise ConfigError(f"matrix={self.matrix!r}, but {self.source} does not hold {_MATRICES[self.matrix]}.")


class KuaiRec(EngagementBuilder):
    """Builder of `kuairec`."""

    VERSION = datasets.Version("1.0.0")
    BUILDER_CONFIG_CLASS = KuaiRecConfig

    def engagement_tables(self) -> Iterable[pa.Table]:
        """Yield the rows of the matrix that are signals, in its order."""
        config: KuaiRecConfig = self.config
        videos = self._videos()
        file = config.raw_file(_MATRICES[config.matrix])
        kinds = {"user_id": _TEXT, "video_id": _TEXT, "timestamp": _NUMBER, "watch_ratio": _NUMBER}
        for batch in read_delimited(file, kinds, self.bad_rows):
            good = pc.and_(pc.greater_equal(batch["watch_ratio"], 0), pc.is_finite(batch["watch_ratio"]))
            problem = "a number of 0 or more was expected"
            batch = keep_rows(batch, good, problem, "watch_ratio", file.source, self.bad_rows)
            # The release itself lacks some times; nobody watched before 1970.
            times = batch["timestamp"]
            good = pc.or_kleene(pc.is_null(times, nan_is_null=True), pc.greater_equal(times, 0))
            batch = keep_rows(batch, good, "seconds since 1970 were expected", "timestamp", file.source, self.bad_rows)
            kinds_found = _signals(batch["watch_ratio"], config)
            self.leave_out("the watch ratio says neither yes nor no", kinds_found.null_count)
            rows = pa.table(
                {
                    "user_id": batch["user_id"],
                    "object_id": batch["video_id"],
                    "interaction_type": kinds_found,
                    "interaction_time": batch["timestamp"],
                    LINE: batch[LINE],
                }
            )
            yield from engagements(rows.filter(pc.is_valid(kinds_found)), videos, file.source, self)

    def _videos(self) -> ObjectTexts:
        config: KuaiRecConfig = self.config
        file = _without_carriage_returns(config.raw_file(_CAPTIONS))
        fields = ("video_id", "caption", "topic_tag", "first_level_category_id", *_LEVELS)
        videos = read_whole(read_delimited(file, dict.fromkeys(fields, _TEXT), self.bad_rows), file.source)
        more = self._more_categories(videos.to_pylist())

        def text_of(video: dict[str, Any]) -> str:
            return video_text(video, more.get(video["video_id"], ()), captions=config.captions)

        return describe_objects(iter([videos]), "video_id", text_of, file, self)

    def _more_categories(self, videos: list[dict[str, Any]]) -> dict[str, list[str]]:
        """Return the names of all first-level categories of each video: the captions file names just one."""
        config: KuaiRecConfig = self.config
        if _CATEGORIES not in config.found[1]:
            return {}
        names = {_integer(video["first_level_category_id"]): _known(video[_LEVELS[0]]) for video in videos}
        file = config.raw_file(_CATEGORIES)
        found = {}
        for batch in read_delimited(file, {"video_id": _TEXT, "feat": _TEXT}, self.bad_rows):
            listing = pc.match_substring_regex(batch["feat"], r"^\[ *(\d+( *, *\d+)*)? *\]$")
            batch = keep_rows(batch, listing, "a list such as [27, 9] was expected", "feat", file.source, self.bad_rows)
            for video, feat in zip(batch["video_id"].to_pylist(), batch["feat"].to_pylist(), strict=True):
                found[video] = [names.get(_integer(number), "") for number in feat.strip("[]").split(",")]
        return found


def video_text(video: dict[str, Any], more_categories: Iterable[str] = (), *, captions: bool = True) -> str:
    """Return what is known of a video, empty where nothing is: ``Morning run. Tags: park. Category: sports, running``.

    Args:
        video: a row of kuairec_caption_category.csv; UNKNOWN stands for what is not known.
        more_categories: names of further categories.
        captions: the caption is part of it.
    """
    caption = _known(video["caption"]) if captions else ""
    tags = [_known(tag.strip(" \"'")) for tag in _known(video["topic_tag"]).strip("[]").replace("，", ",").split(",")]
    tags = [tag for tag in tags if f"#{tag}" not in caption]
    categories = [*(_known(video[level]) for level in _LEVELS), *more_categories]
    return joined([caption, listed("Tags", tags), listed("Category", categories)])


def _signals(ratios: pa.ChunkedArray, config: KuaiRecConfig) -> pa.ChunkedArray:
    negative = pc.if_else(pc.less(ratios, config.implicit_negative_below), "implicit_negative", None)
    positive = pc.if_else(pc.greater_equal(ratios, config.implicit_positive_min), "implicit_positive", negative)
    return pc.if_else(pc.greater_equal(ratios, config.explicit_positive_min), "explicit_positive", positive)


def _known(text: str | None) -> str:
    text = clean(text)
    return "" if text in ("UNKNOWN", "[]") else text


def _integer(text: str) -> int | None:
    """Return a category's number, which some copies of the file write as ``8.0``."""
    whole = text.strip().removesuffix(".0")
    return int(whole) if whole.isascii() and whole.isdigit() else None


def _without_carriage_returns(file: RawFile) -> RawFile:
    """Captions hold bare carriage returns outside quotes, which readers take for line ends: make them spaces."""

    def opener() -> IO[bytes]:
        with file.opener() as stream:
            return io.BytesIO(stream.read().replace(b"\r\n", b"\n").replace(b"\r", b" "))

    return dataclasses.replace(file, opener=opener)


RECORD = DatasetRecord(
    name="kuairec",
    title="KuaiRec 2.0",
    summary="Short videos, mostly with Chinese captions, and how long people watched them, from KuaiRec on your disk.",
    signals=("explicit_positive", "implicit_positive", "implicit_negative"),
    licence="CC-BY-SA-4.0: may be passed on with attribution, under the same licence",
    redistributable=True,
    builder=KuaiRec,
    citation=(
        "Chongming Gao, Shijun Li, Wenqiang Lei, Jiawei Chen, Biao Li, Peng Jiang, Xiangnan He, Jiaxin Mao and "
        "Tat-Seng Chua. 2022. KuaiRec: A Fully-observed Dataset and Insights for Evaluating Recommender Systems. CIKM "
        "'22, 540-550. https://doi.org/10.1145/3511808.3557220"
    ),
    homepage="https://kuairec.com",
)
