"""The `mind` dataset: news that people were shown, and which of it they clicked, from MIND (Microsoft News).

Reads ``behaviors.tsv`` and ``news.tsv`` of one split (MINDsmall_train, MINDlarge_dev, ...), in a folder or the zip
file as downloaded. The test split of MINDlarge has no clicks and cannot be used. Times are written without a zone and
read as UTC.

A click is an explicit positive, an article shown and not clicked an implicit negative: the signals of the paper's
Table 1. The articles that a person clicked before (the column of histories) have no time, and what was shown beside
them is not known, so they are left out unless ``include_history`` asks for them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ._objects import ObjectTexts, describe_objects, engagements
from ._texts import clean, joined, listed
from ._times import parse_times
from .builder import EngagementBuilder, EngagementConfig
from .raw import LINE, Layout, RawFile, keep_rows, read_delimited
from .registry import DatasetRecord

__all__ = ["RECORD", "Mind", "MindConfig", "news_text"]

_BEHAVIORS, _NEWS = "behaviors.tsv", "news.tsv"
_BEHAVIOR_FIELDS = ("impression_id", "user_id", "time", "history", "impressions")
_NEWS_FIELDS = ("news_id", "category", "subcategory", "title", "abstract", "url", "title_entities", "abstract_entities")
_TIME = (
    r"(?P<month>\d{1,2})/(?P<day>\d{1,2})/(?P<year>\d{4}) "
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2}):(?P<second>\d{2}) (?P<half>AM|PM)"
)
_SHOWN = r"^(?P<news>\S+)-(?P<click>[01])$"
_TEXT = pa.string()


@dataclass
class MindConfig(EngagementConfig):
    """What counts as an engagement."""

    needs_source: ClassVar[str] = (
        "a MIND split (train or dev, small or large), a folder or .zip with behaviors.tsv and news.tsv "
        "(https://msnews.github.io)"
    )
    layouts: ClassVar[tuple[Layout, ...]] = (Layout("MIND", (_BEHAVIORS, _NEWS)),)

    min_engagements: int = 100
    include_history: bool = False
    """Articles clicked before the log begins are explicit positives too, without a time, once per person."""


class Mind(EngagementBuilder):
    """Builder of `mind`."""

    VERSION = datasets.Version("1.0.0")
    BUILDER_CONFIG_CLASS = MindConfig

    def engagement_tables(self) -> Iterable[pa.Table]:
        """Yield what was shown, in the order of the log."""
        config: MindConfig = self.config
        news = self._news()
        file = config.raw_file(_BEHAVIORS, names=_BEHAVIOR_FIELDS, delimiter="\t", quoted=False)
        earlier: dict[str, str] = {}
        for batch in read_delimited(file, dict.fromkeys(_BEHAVIOR_FIELDS, _TEXT), self.bad_rows):
            batch = batch.append_column("seconds", parse_times(batch["time"], _TIME))
            good = pc.greater_equal(batch["seconds"], 0)
            problem = "a time such as 11/11/2019 9:05:58 AM was expected"
            batch = keep_rows(batch, good, problem, "time", file.source, self.bad_rows)
            yield from engagements(self._shown(batch, file), news, file.source, self)
            if config.include_history:
                yield from engagements(_history(batch, earlier), news, file.source, self)

    def _shown(self, batch: pa.Table, file: RawFile) -> pa.Table:
        """Return a row for each article of each impression: ``N1-1`` was clicked, ``N2-0`` was not."""
        labelled = pc.match_substring_regex(batch["impressions"], r"^\s*\S+-[01](\s+\S+-[01])*\s*$")
        problem = "articles with clicks (N1-1 N2-0) were expected; the test split has none"
        batch = keep_rows(batch, labelled, problem, "impressions", file.source, self.bad_rows)
        lists = pc.utf8_split_whitespace(pc.utf8_trim_whitespace(batch["impressions"])).combine_chunks()
        rows = pc.list_parent_indices(lists)
        shown = pc.extract_regex(lists.flatten(), _SHOWN)
        clicked = pc.equal(shown.field("click"), "1")
        return pa.table(
            {
                "user_id": batch["user_id"].take(rows),
                "object_id": shown.field("news"),
                "interaction_type": pc.if_else(clicked, "explicit_positive", "implicit_negative"),
                "interaction_time": batch["seconds"].take(rows),
                LINE: batch[LINE].take(rows),
            }
        )

    def _news(self) -> ObjectTexts:
        config: MindConfig = self.config
        file = config.raw_file(_NEWS, names=_NEWS_FIELDS, delimiter="\t", quoted=False)
        fields = dict.fromkeys(("news_id", "category", "subcategory", "title", "abstract"), _TEXT)
        return describe_objects(read_delimited(file, fields, self.bad_rows), "news_id", news_text, file, self)


def news_text(news: dict[str, Any]) -> str:
    """Return what is known of an article: ``Title. Abstract. Category: sports, soccer``.

    Args:
        news: ``title``, ``abstract``, ``category`` and ``subcategory`` of a row of news.tsv.
    """
    categories = [clean(news["category"]), clean(news["subcategory"])]
    return joined([clean(news["title"]), clean(news["abstract"]), listed("Category", categories)])


def _history(batch: pa.Table, earlier: dict[str, str]) -> pa.Table:
    """Return the articles of histories that their people's histories did not hold before, the latest first.

    Args:
        batch: of the log.
        earlier: the last history of each person so far; a split repeats the same one in every impression.
    """
    rows: list[int] = []
    ids: list[str] = []
    users = batch["user_id"].to_pylist()
    for row, (user, history) in enumerate(zip(users, batch["history"].to_pylist(), strict=True)):
        before = earlier.get(user, "")
        if history != before:
            known = set(before.split())
            new = [news for news in dict.fromkeys(reversed(history.split())) if news not in known]
            ids.extend(new)
            rows.extend([row] * len(new))
            earlier[user] = history
    places = pa.array(np.array(rows, dtype=np.int64))
    return pa.table(
        {
            "user_id": batch["user_id"].take(places),
            "object_id": pa.array(ids, _TEXT),
            "interaction_type": pa.array(["explicit_positive"] * len(ids), _TEXT),
            "interaction_time": pa.nulls(len(ids), pa.float64()),
            LINE: batch[LINE].take(places),
        }
    )


RECORD = DatasetRecord(
    name="mind",
    title="MIND: Microsoft News Dataset",
    summary="News articles that people were shown and clicked, from a split of MIND on your disk.",
    signals=("explicit_positive", "implicit_negative"),
    licence="Microsoft Research License Terms: research use; no redistribution",
    builder=Mind,
    citation=(
        "Fangzhao Wu, Ying Qiao, Jiun-Hung Chen, Chuhan Wu, Tao Qi, Jianxun Lian, Danyang Liu, Xing Xie, Jianfeng Gao, "
        "Winnie Wu and Ming Zhou. 2020. MIND: A Large-scale Dataset for News Recommendation. ACL 2020, 3597-3606. "
        "https://aclanthology.org/2020.acl-main.331"
    ),
    homepage="https://msnews.github.io",
)
