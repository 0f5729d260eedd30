"""What the builders whose objects have a file of their own have in common, shown on `yelp` and `mind`."""

import json

import pyarrow as pa
import pytest
from gistbench.hf_datasets import _objects, raw
from gistbench.hf_datasets.builder import build_report, prepare
from gistbench.hf_datasets.errors import DataError
from gistbench.hf_datasets.mind import Mind
from gistbench.hf_datasets.registry import load_engagements
from gistbench.hf_datasets.yelp import Yelp


@pytest.fixture
def yelp(tmp_path):
    folder = tmp_path / "yelp"
    folder.mkdir()
    businesses = [{"business_id": f"b{i}", "name": f"Place {i}" if i else ""} for i in range(7)]
    reviews = [
        {"user_id": f"u{i % 3}", "business_id": f"b{i % 7}", "stars": i % 5 + 1, "date": f"2018-01-{i % 28 + 1:02}"}
        for i in range(100)
    ]
    for name, records in (("business", businesses), ("review", reviews)):
        text = "".join(f"{json.dumps(record)}\n" for record in records)
        (folder / f"yelp_academic_dataset_{name}.json").write_text(text)
    return folder


@pytest.fixture
def mind(tmp_path):
    folder = tmp_path / "mind"
    folder.mkdir()
    (folder / "news.tsv").write_text("".join(f"N{i}\tc\ts\tTitle {i}\t\t\t\t\n" for i in range(7)))
    rows = [f"{i}\tU{i % 3}\t1/{i % 28 + 1}/2019 1:00:00 AM\tN1 N2\tN{i % 7}-1 N{(i + 1) % 7}-0\n" for i in range(100)]
    (folder / "behaviors.tsv").write_text("".join(rows))
    return folder


def load(name, source, cache, **parameters):
    return load_engagements(name, source=source, cache_dir=cache, min_engagements=1, **parameters)


@pytest.mark.parametrize(("name", "parameters"), [("yelp", {}), ("mind", {"include_history": True})])
def test_batches_join_to_the_same_rows(name, parameters, request, tmp_path, monkeypatch):
    source = request.getfixturevalue(name)
    expected = load(name, source, tmp_path / "whole", **parameters)
    monkeypatch.setattr(raw, "_BLOCK_BYTES", 100)
    monkeypatch.setattr(_objects, "_BATCH_ROWS", 3)
    assert load(name, source, tmp_path / "pieces", **parameters).equals(expected)


def test_lines_are_counted_over_batches(yelp, tmp_path, monkeypatch):
    monkeypatch.setattr(raw, "_BLOCK_BYTES", 100)
    with (yelp / "yelp_academic_dataset_review.json").open("a") as file:
        file.write('{"user_id": "u1", "business_id": "b9", "stars": 1}\n')
    with pytest.raises(DataError, match=r"review\.json: line 101: business_id is 'b9'; it is not in yelp_academic"):
        load("yelp", yelp, tmp_path / "cache")


@pytest.mark.parametrize(("builder_class", "name"), [(Yelp, "yelp"), (Mind, "mind")])
def test_streaming_gives_the_same_rows(builder_class, name, request, tmp_path):
    source = str(request.getfixturevalue(name))
    builder = builder_class(dataset_name=name, cache_dir=str(tmp_path / "own"), source=source, min_engagements=1)
    streamed = list(builder.as_streaming_dataset("train"))
    assert pa.Table.from_pylist(streamed).equals(load(name, source, tmp_path / "cache"))


def test_a_file_that_describes_nothing(yelp, tmp_path):
    (yelp / "yelp_academic_dataset_business.json").write_text("{\n")
    with pytest.raises(DataError, match=r"business\.json: line 1: not JSON"):
        load("yelp", yelp, tmp_path / "cache")
    with pytest.raises(DataError, match=r"business\.json: the file describes nothing"):
        load("yelp", yelp, tmp_path / "cache", on_error="skip")


def test_a_changed_description_is_not_served_stale(yelp, tmp_path):
    before = load("yelp", yelp, tmp_path / "cache")["object_text"].to_pylist()
    path = yelp / "yelp_academic_dataset_business.json"
    path.write_text(path.read_text().replace("Place", "Spot"))
    after = load("yelp", yelp, tmp_path / "cache")["object_text"].to_pylist()
    assert after == [text.replace("Place", "Spot") for text in before]


def test_counts_add_up(yelp, tmp_path):
    parameters = {"min_engagements": 29, "on_error": "skip"}
    with (yelp / "yelp_academic_dataset_review.json").open("a") as file:
        file.write('{"user_id": "u1", "business_id": "b1", "stars": 9}\n')
    report = build_report(prepare(Yelp, "yelp", source=yelp, cache_dir=tmp_path, parameters=parameters))
    skipped, unnamed = sum(report.skipped.values()), report.left_out["the object has no text"]
    assert (skipped, unnamed, report.n_users + report.n_users_left_out) == (1, 15, 3)
    assert report.n_rows + report.n_rows_left_out + skipped + unnamed == 101
