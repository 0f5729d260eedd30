"""What befalls raw files, tried on every file of every format."""

import gzip
import re
import zipfile

import pytest

from .test_amazon_music import AMAZON_MUSIC
from .test_goodbooks import GOODBOOKS
from .test_goodreads import GOODREADS
from .test_kuairec import KUAIREC
from .test_mind import MIND
from .test_movielens import MOVIELENS
from .test_yelp import YELP

FORMATS = (KUAIREC, MIND, AMAZON_MUSIC, GOODREADS, YELP, MOVIELENS, GOODBOOKS)
FILES = [pytest.param(f, file, id=f"{f.name}-{file}") for f in FORMATS for file in f.files]
DELIMITED = [pytest.param(f, file, id=f"{f.name}-{file}") for f in FORMATS if f.delimiter for file in f.files]
every_format = pytest.mark.parametrize("raw", FORMATS, ids=lambda raw: raw.name)


@pytest.fixture
def folder(raw, tmp_path):
    return raw.write(tmp_path / "source")


@every_format
def test_gzip_zip_byte_order_mark_and_crlf_give_the_same_rows(raw, folder, tmp_path):
    expected = raw.load(folder, tmp_path)
    packed = tmp_path / "packed"
    packed.mkdir()
    with zipfile.ZipFile(tmp_path / "source.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in raw.files.items():
            content = ("\ufeff" + text.replace("\n", "\r\n")).encode()
            (packed / f"{name}.gz").write_bytes(gzip.compress(content))
            archive.writestr(f"release/data/{name}", content)
    assert raw.load(packed, tmp_path).equals(expected)
    assert raw.load(tmp_path / "source.zip", tmp_path).equals(expected)


@pytest.mark.parametrize(("raw", "file"), FILES)
def test_a_file_that_is_cut_off_is_an_error_in_any_case(raw, file, folder, tmp_path):
    (folder / f"{file}.gz").write_bytes(gzip.compress((folder / file).read_bytes())[:-9])
    (folder / file).unlink()
    for on_error in ("raise", "skip"):
        text = raw.error(folder, tmp_path, on_error=on_error)
        assert re.search(rf"{re.escape(file)}\.gz: line \d+: the file cannot be read any further", text)


@pytest.mark.parametrize(("raw", "file"), FILES)
def test_bytes_of_another_encoding(raw, file, folder, tmp_path):
    plain = [line for line in raw.files[file].splitlines() if '"' not in line or raw.delimiter is None][-1]
    fields = plain.split(raw.delimiter) if raw.delimiter else [plain]
    line = (raw.delimiter or "").encode().join(b"\xe9" + field.encode() for field in fields)
    raw.check_broken_line(folder, tmp_path, file, line + b"\n", "")
    assert "not UTF-8 text" in raw.error(folder, tmp_path)


@every_format
def test_an_object_described_twice(raw, folder, tmp_path):
    last = raw.files[raw.objects].rstrip("\n").rpartition("\n")[2]
    raw.check_broken_line(folder, tmp_path, raw.objects, f"{last}\n", "")
    assert "is already on line" in raw.error(folder, tmp_path)


@pytest.mark.parametrize(("raw", "file"), FILES)
def test_an_empty_file(raw, file, folder, tmp_path):
    (folder / file).write_text("")
    assert file in raw.error(folder, tmp_path)


@pytest.mark.parametrize(("raw", "file"), DELIMITED)
def test_a_wrong_delimiter(raw, file, folder, tmp_path):
    (folder / file).write_text(raw.files[file].replace(raw.delimiter, ";"), encoding="utf-8")
    text = raw.error(folder, tmp_path)
    assert f"{file}: " in text
    assert "Is the delimiter " in text


@pytest.mark.parametrize(("raw", "file"), [p for p in DELIMITED if p.values[0].header])
def test_missing_columns(raw, file, folder, tmp_path):
    header, _, rows = raw.files[file].partition("\n")
    renamed = ",".join(f"x_{column}" for column in header.split(","))
    (folder / file).write_text(f"{renamed}\n{rows}", encoding="utf-8", newline="")
    assert f"{file}: missing columns: " in raw.error(folder, tmp_path)


@every_format
def test_without_the_file_of_objects(raw, folder, tmp_path):
    (folder / raw.objects).unlink()
    assert "no known set of files was found together" in raw.error(folder, tmp_path)
