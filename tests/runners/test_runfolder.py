import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gistbench.hf_datasets.errors import StoreError
from gistbench.runners.requests import ModelRef
from gistbench.runners.runfolder import FORMAT, TABLES, RunFolder, read_json, slug, write_json, write_text

TABLE = pa.table({"user_id": ["1", "2"], "n": [3, None]})


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_tables_and_manifest_come_back(tmp_path):
    run = RunFolder(tmp_path / "new" / "run")
    run.write({"users": TABLE}, {"phases": {"extract": {}}})
    assert run.read("users") == TABLE
    assert run.manifest == {"format": FORMAT, "phases": {"extract": {}}}
    assert names(run.path) == ["manifest.json", "users.parquet"]
    assert run.has("extract")
    assert not run.has("judge")
    assert (run.path / "users.parquet").stat().st_mode & 0o777 == 0o644


def test_the_same_tables_give_the_same_bytes(tmp_path):
    for name in "ab":
        RunFolder(tmp_path / name).write({"users": TABLE}, {"phases": {}})
    assert (tmp_path / "a" / "users.parquet").read_bytes() == (tmp_path / "b" / "users.parquet").read_bytes()


def test_the_manifest_is_written_last(tmp_path, monkeypatch):
    moved = []
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda source, target: (moved.append(target.name), replace(source, target)))
    RunFolder(tmp_path).write({"users": TABLE, "scores": TABLE}, {"phases": {}})
    assert moved == ["users.parquet", "scores.parquet", "manifest.json"]


def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    run = RunFolder(tmp_path)
    run.write({"users": TABLE}, {"phases": {}})

    def half(table, where):
        with open(where, "wb") as file:
            file.write(b"PAR1 half")
        raise OSError("No space left on device")

    monkeypatch.setattr(pq, "write_table", half)
    with pytest.raises(OSError, match="No space"):
        run.write({"users": TABLE}, {"phases": {"extract": {}}})
    monkeypatch.undo()
    assert run.read("users") == TABLE
    assert run.manifest["phases"] == {}
    assert names(tmp_path) == ["manifest.json", "users.parquet"]


def test_a_folder_without_manifest_is_no_run_folder(tmp_path):
    run = RunFolder(tmp_path)
    assert not run.has("extract")
    with pytest.raises(StoreError, match=r"has no manifest\.json"):
        _ = run.manifest


def test_another_format_is_refused(tmp_path):
    write_json(tmp_path / "manifest.json", {"format": 99, "phases": {}})
    with pytest.raises(StoreError, match="has format 99; this version reads format 1"):
        _ = RunFolder(tmp_path).manifest


@pytest.mark.parametrize("content", ["", "{", "\udcff"])
def test_a_manifest_that_is_not_json_is_refused(tmp_path, content):
    (tmp_path / "manifest.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(StoreError, match=r"manifest\.json cannot be read as JSON"):
        _ = RunFolder(tmp_path).manifest


@pytest.mark.parametrize("table", TABLES)
def test_a_missing_table_is_named_with_what_it_would_hold(tmp_path, table):
    with pytest.raises(StoreError) as error:
        RunFolder(tmp_path).read(table)
    assert f"{table}.parquet ({TABLES[table]})" in str(error.value)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (ModelRef("openai/gpt-oss-120b", "0123456789abcdef", "p/1"), "openai--gpt-oss-120b@0123456789ab"),
        (ModelRef("gpt-5", "", "p/1"), "gpt-5"),
        (ModelRef("../../etc", "", "p/1"), "--..--etc-74ccf3c5"),
        (ModelRef("a b:c?d*", "1", "p/1"), "a-b-c-d--9bb2042b@1"),
        (ModelRef("modèle_1.5", "1", "p/1"), "modèle_1.5@1"),
    ],
)
def test_slugs_are_readable_names_of_folders(model, expected):
    assert slug(model) == expected


def test_json_is_written_as_people_read_it(tmp_path):
    write_json(tmp_path / "a" / "b.json", {"name": "café", "n": 1})
    assert (tmp_path / "a" / "b.json").read_text(encoding="utf-8") == '{\n  "name": "café",\n  "n": 1\n}\n'
    assert read_json(tmp_path / "a" / "b.json") == {"name": "café", "n": 1}


def test_json_never_holds_nan(tmp_path):
    write_json(tmp_path / "b.json", 1)
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "b.json", {"score": float("nan")})
    assert json.loads((tmp_path / "b.json").read_text()) == 1


def test_text_is_replaced_whole(tmp_path):
    for text in ("long " * 1000, "short\n"):
        write_text(tmp_path / "x.md", text)
    assert (tmp_path / "x.md").read_text() == "short\n"
    assert names(tmp_path) == ["x.md"]
