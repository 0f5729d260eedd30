"""A model's page and evidence: what is shown without a taxonomy, and while records cannot be had."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from gistbench.space.leaderboard.data import FolderSource, HubSource, NotInResultsError, Snapshot, SourceError, Store
from gistbench.space.leaderboard.models import compared, evidence, model_page
from gistbench.space.leaderboard.page import _Page, client_of
from gistbench.space.leaderboard.submit import Submissions
from gistbench.space.leaderboard.view import View


@dataclass(frozen=True)
class Flaky(FolderSource):
    """A folder that is away as the Hub can be."""

    away: list[str] = field(default_factory=list, hash=False)

    def fetch(self, place: str, revision: str) -> Path:
        if self.away:
            raise SourceError(self.away[0])
        return super().fetch(place, revision)


@pytest.fixture
def source(own_results):
    return Flaky(own_results)


@pytest.fixture
def page(source):
    store = Store(source)
    return _Page(store, Submissions(store))


def test_an_interest_without_a_taxonomy_has_no_number(snapshot, monkeypatch):
    (row,) = snapshot.rows(snapshot.measured.head(1))
    record = Snapshot.record

    def without_categories(self, row, table):
        found = record(self, row, table)
        return found.assign(category_id=pd.NA) if table == "interests" else found

    monkeypatch.setattr(Snapshot, "record", without_categories)
    html = evidence(replace(snapshot), row["id"], "u01")
    assert "<summary>" in html
    assert "category -1" not in html
    assert "its own category" in html


def test_the_model_tab_shows_the_rest_while_records_are_away(page, source):
    snapshot = page.store.snapshot
    ids = [row["id"] for row in snapshot.rows(snapshot.measured.head(2))]
    view = View(tab="model", model=ids[0], user="u01")
    source.away.append("The Hub does not give these.")
    html, figure, about, _, items, *_ = page._model(view)
    assert "Scores: medians over users" in html
    assert figure is None
    assert "The Hub does not give these." in about
    assert "The Hub does not give these." in items
    assert "licence of this data set" not in items
    assert "The Hub does not give these." in compared(snapshot, *ids)
    source.away.clear()  # and what could not be had is not remembered
    html, figure, about, _, items, *_ = page._model(view)
    assert "How to make it again" in html
    assert figure is not None
    assert "The Hub does not give" not in html + about + items + compared(snapshot, *ids)
    assert "<summary>" in items


def test_items_that_may_not_be_shown(own_results):
    snapshot = Snapshot.load(FolderSource(own_results))
    (row,) = snapshot.rows(snapshot.measured.head(1))
    for name in ("interests", "extractions", "evidence"):
        (own_results / row["record"] / f"{name}.parquet").unlink()
    assert "licence of this data set" in evidence(snapshot, row["id"], "u01")
    assert "Scores: medians" in model_page(snapshot, row["id"])


def test_what_the_hub_does_not_hold_is_told_from_a_hub_that_is_away():
    import httpx2
    from huggingface_hub.errors import LocalEntryNotFoundError, RemoteEntryNotFoundError

    def fails(error):
        def call():
            raise error

        return call

    response = httpx2.Response(404, request=httpx2.Request("GET", "http://x"))
    source = HubSource("a/b")
    with pytest.raises(NotInResultsError):
        source._ask(fails(RemoteEntryNotFoundError("gone", response=response)))
    with pytest.raises(SourceError) as caught:
        source._ask(fails(LocalEntryNotFoundError("offline")))
    assert not isinstance(caught.value, NotInResultsError)


class Headers(dict):
    def getlist(self, name):
        return self.get(name.lower(), [])


@pytest.mark.parametrize(
    ("space", "forwarded", "expected"),
    [
        ("a/b", ["6.6.6.6, 1.2.3.4"], "1.2.3.4"),  # the first ones are what the reader says
        ("a/b", ["6.6.6.6", "1.2.3.4 "], "1.2.3.4"),
        ("a/b", [], "10.0.0.1"),
        ("a/b", ["1.2.3.4,"], "10.0.0.1"),
        ("", ["1.2.3.4"], "10.0.0.1"),  # without a proxy anybody may write the header
    ],
)
def test_who_asks(monkeypatch, space, forwarded, expected):
    monkeypatch.setenv("SPACE_ID", space)
    headers = Headers({"x-forwarded-for": forwarded})
    request = SimpleNamespace(client=SimpleNamespace(host="10.0.0.1"), headers=headers)
    assert client_of(request) == expected
    assert client_of(SimpleNamespace(client=None, headers=Headers())) == "unknown"
