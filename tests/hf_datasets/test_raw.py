import csv
import gzip
import io
import json
import logging
import zipfile

import pyarrow as pa
import pytest
from gistbench.hf_datasets import raw
from gistbench.hf_datasets.errors import DataError
from gistbench.hf_datasets.raw import (
    LINE,
    BadRows,
    Layout,
    RawFile,
    find_layout,
    hash_files,
    keep_rows,
    open_file,
    read_delimited,
    read_json_lines,
    read_whole,
    unique_rows,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

TEXT, INTEGER, NUMBER = pa.string(), pa.int64(), pa.float64()
COLUMNS = {"id": TEXT, "n": NUMBER}
RECORD = {"id": TEXT, "n": NUMBER, "tags": pa.list_(TEXT)}


def raw_file(content, **written):
    content = content.encode() if isinstance(content, str) else content
    return RawFile(lambda: io.BytesIO(content), "f", **written)


def rows(content, columns=COLUMNS, bad=None, reader=read_delimited, **written):
    tables = list(reader(raw_file(content, **written), columns, bad))
    return [tuple(row.values()) for table in tables for row in table.to_pylist()]


def error(content, columns=COLUMNS, reader=read_delimited, **written):
    with pytest.raises(DataError) as caught:
        rows(content, columns, reader=reader, **written)
    assert str(caught.value).startswith("f: ")
    return str(caught.value).removeprefix("f: ")


@pytest.fixture(params=[16 << 20, 7])
def _blocks(request, monkeypatch):
    """Read everything at once, and in blocks that cut rows and characters in two."""
    monkeypatch.setattr(raw, "_BLOCK_BYTES", request.param)


@pytest.mark.usefixtures("_blocks")
class TestDelimited:
    def test_rows_and_lines(self):
        assert rows("n,x,id\n1.5,?,007\n,é,NA\n") == [("007", 1.5, 2), ("NA", None, 3)]

    def test_byte_order_mark_windows_line_ends_blank_lines_and_no_last_line_end(self):
        content = b"\xef\xbb\xbfid,n\r\n\r\na,1\r\n\r\n\r\nb,2"
        assert rows(content) == [("a", 1, 3), ("b", 2, 6)]

    def test_quotes_delimiters_and_line_breaks_in_fields(self):
        content = 'id,"n"\n"a, ""b""\r\nc\n\n",1\n"",2\nd "e" f,3\n'
        assert rows(content) == [('a, "b"\r\nc\n\n', 1, 2), ("", 2, 6), ('d "e" f', 3, 7)]

    def test_quotes_are_text_where_nothing_is_quoted(self):
        assert rows('id\tn\n"a\t1\nb"\t2\n', delimiter="\t", quoted=False) == [('"a', 1, 2), ('b"', 2, 3)]

    def test_no_header(self):
        assert rows("a|x|1\nb|y|2\n", names=("id", "x", "n"), delimiter="|") == [("a", 1, 1), ("b", 2, 2)]

    def test_latin_1(self):
        assert rows("id,n\ncaf\xe9,1\n".encode("latin-1"), encoding="latin-1") == [("café", 1, 2)]

    def test_latin_1_bytes_in_utf_8(self):
        text = error("id,n\nx,1\ncaf\xe9,1\n".encode("latin-1"))
        assert text == "line 3: id is not UTF-8 text (caf\\xe9). Save the file as UTF-8."

    def test_latin_1_header(self):
        assert error("id,n,\xe9\n".encode("latin-1")).startswith("line 1: this is not UTF-8 text")

    def test_wrong_delimiter(self):
        text = error("id\tn\na\t1\n")
        assert text == r"missing columns: id, n. Found: id	n. Needed: id, n. Is the delimiter '\t' instead of ','?"
        assert "line 1: 1 fields, expected 2 (id, n)" in error("a\t1\n", names=("id", "n"))

    def test_missing_column(self):
        assert error("id,m\na,1\n") == "missing columns: n. Found: id, m. Needed: id, n."

    def test_repeated_column(self):
        assert error("id,n,n\na,1,2\n") == "the header has n more than once. Keep one of each."

    def test_wrong_number_of_fields(self):
        assert error("id,n\na,1\nb,2,3\n").startswith("line 3: 3 fields, expected as many as the header has: 2.")
        assert error('id,n\n"a\n",1\nb\n').startswith("line 4: 1 fields")

    def test_not_a_number(self):
        assert error("id,n\na,1\nb,1_0\n") == "line 3: n is '1_0', not a number."
        assert error("id,n\na,1.5\n", {"id": TEXT, "n": INTEGER}) == "line 2: n is '1.5', not an integer."

    def test_quote_that_is_not_closed(self):
        assert error('id,n\na,1\n"b,2\nc,3\n').startswith("line 3: 1 fields")
        bad = BadRows("skip")
        assert rows('id,n\na,1\n"b,2\nc,3\nd,4\n', bad=bad) == [("a", 1, 2), ("c", 3, 4), ("d", 4, 5)]
        assert bad.counts == {"f": 1}

    def test_empty(self):
        assert error("").startswith("the file is empty")
        assert error("\n\n").startswith("the file is empty")
        assert error("\n", names=("id", "n")) == "the file is empty; rows were expected."
        assert rows("id,n\n") == []

    def test_broken_rows_are_skipped_and_counted_on_request(self, caplog):
        content = b"id,n\na,1\nb\nc,x\n\xe9,4\nd,5\ne,6,7\n"
        bad = BadRows("skip")
        with caplog.at_level(logging.WARNING):
            assert rows(content, bad=bad) == [("a", 1, 2), ("d", 5, 6)]
        assert bad.counts == {"f": 4}
        assert bad.n_skipped == 4
        assert [message.split(": ")[1] for message in bad.examples] == ["line 3", "line 4", "line 5", "line 7"]
        assert [record.getMessage() for record in caplog.records] == [f"Skipped: {text}" for text in bad.examples]

    def test_cut_off_gzip_is_an_error_also_when_broken_rows_are_skipped(self, tmp_path):
        path = tmp_path / "a.csv.gz"
        path.write_bytes(gzip.compress(b"id,n\n" + b"".join(b"%d,1\n" % i for i in range(9999)))[:-900])
        with pytest.raises(DataError, match=r"f: line \d+: the file cannot be read any further .* Is it cut off\?"):
            list(read_delimited(RawFile(lambda: open_file(path), "f"), COLUMNS, BadRows("skip")))

    @settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        table=st.lists(
            st.tuples(
                st.text(st.sampled_from('a,"\n\r é'), max_size=6), st.text(st.sampled_from('b,"\n é'), max_size=6)
            ),
            min_size=1,
            max_size=8,
        ),
        end=st.sampled_from(["\n", "\r\n"]),
    )
    def test_what_the_standard_library_writes_is_read_back(self, table, end):
        out = io.StringIO(newline="")
        writer = csv.writer(out, lineterminator=end, quoting=csv.QUOTE_ALL)
        writer.writerows([("x", "y"), *table])
        assert [row[:2] for row in rows(out.getvalue(), {"x": TEXT, "y": TEXT})] == table


def test_a_row_longer_than_allowed(monkeypatch):
    monkeypatch.setattr(raw, "_BLOCK_BYTES", 10)
    monkeypatch.setattr(raw, "_LONGEST_ROW_BYTES", 50)
    assert error('id,n\na,1\n"b,2\n' + "c,3\n" * 99).startswith("line 3: the row is longer than")


@pytest.mark.usefixtures("_blocks")
class TestJsonLines:
    def rows(self, content, bad=None):
        return rows(content, RECORD, bad, read_json_lines)

    def error(self, content):
        return error(content, RECORD, read_json_lines)

    def test_rows(self):
        content = '{"id": "a", "n": 1, "x": {}, "tags": ["t", "u"]}\n\n{"id": null}\r\n{"n": 2.5, "id": "é"}'
        assert self.rows(content) == [("a", 1, ["t", "u"], 1), (None, None, None, 3), ("é", 2.5, None, 4)]

    def test_integers_may_be_texts(self):
        assert self.rows('{"id": 12}\n{"id": "b"}\n') == [("12", None, None, 1), ("b", None, None, 2)]

    def test_broken_lines(self):
        assert self.error('{"id": "a"}\n{"id": \n').startswith("line 2: not JSON (Expecting value, column ")
        assert self.error('{"id": "a"}\n[1]\n').startswith("line 2: a JSON object {...} was expected, found [1]")
        assert self.error('{"id": "a"}{"id": "b"}\n').startswith("line 1: not JSON (Extra data")
        wrong = self.error('{"id": "a", "n": "x"}\n')
        assert wrong == "line 1: n is 'x'; a JSON value of type double was expected."
        assert self.error('{"id": true}\n').startswith("line 1: id is True")
        assert self.error('{"id": "\\ud800"}\n').startswith("line 1: id is ")
        assert self.error(b'{"id": "a"}\n{"id": "\xe9"}\n').startswith("line 2: this is not UTF-8 text")

    def test_broken_lines_are_skipped_and_counted_on_request(self):
        bad = BadRows("skip")
        content = b'{"id": "a"}\nx\n{"id": "\xe9"}\n{"id": "b", "tags": "t"}\n{"id": "c"}\n'
        assert [row[::3] for row in self.rows(content, bad)] == [("a", 1), ("c", 5)]
        assert bad.counts == {"f": 3}

    def test_empty(self):
        assert self.error("").startswith("the file is empty")

    def test_cut_off(self, tmp_path):
        path = tmp_path / "a.gz"
        path.write_bytes(gzip.compress(b'{"id": "a"}\n' * 9999)[:-9])
        with pytest.raises(DataError, match="cannot be read any further"):
            list(read_json_lines(RawFile(lambda: open_file(path), "f"), RECORD, BadRows("skip")))

    @settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(records=st.lists(st.fixed_dictionaries({"id": st.text(max_size=5)}, optional={"n": st.floats(0, 9)})))
    def test_what_the_standard_library_writes_is_read_back(self, records):
        content = "".join(json.dumps(record) + "\n" for record in records) or "\n"
        if records:
            found = [row[:2] for row in self.rows(content)]
            assert found == [(record["id"], record.get("n")) for record in records]


class TestRows:
    table = pa.table({"id": ["a", "b", "a", "c", "b"], "n": [1.0, float("nan"), 3, -1, None], LINE: [2, 3, 5, 6, 7]})

    def test_keep(self):
        good = pa.array([True, False, True, None, True])
        with pytest.raises(DataError, match=r"f: line 3: n is nan; a rating was expected\."):
            keep_rows(self.table, good, "a rating was expected", "n", "f", BadRows())
        bad = BadRows("skip")
        assert keep_rows(self.table, good, "x", "n", "f", bad)[LINE].to_pylist() == [2, 5, 7]
        assert bad.counts == {"f": 2}

    def test_unique(self):
        with pytest.raises(DataError, match=r"f: line 5: id 'a' is already on line 2; it must be unique\."):
            unique_rows(self.table, "id", "f", BadRows())
        bad = BadRows("skip")
        assert unique_rows(self.table, "id", "f", bad)[LINE].to_pylist() == [2, 3, 6]
        assert bad.counts == {"f": 2}

    def test_whole(self):
        with pytest.raises(DataError, match="f: the file has a header but no rows"):
            read_whole(iter([]), "f")


class TestLayouts:
    layouts = (Layout("new", ("a.csv", "*.item"), ("c.csv",)), Layout("old", ("a.data",)))

    def find(self, path):
        layout, files = find_layout(path, self.layouts, "some files")
        return layout.name, {name: opener().read() for name, (opener, _, _) in files.items()}, hash_files(files)

    def test_folder_sub_folder_gzip_and_zip(self, tmp_path):
        folder = tmp_path / "x" / "sub"
        folder.mkdir(parents=True)
        (folder / "a.csv").write_bytes(b"A")
        (folder / "my.item.gz").write_bytes(gzip.compress(b"I", mtime=1))
        expected = ("new", {"a.csv": b"A", "*.item": b"I"})
        assert self.find(folder)[:2] == self.find(tmp_path / "x")[:2] == expected
        assert self.find(folder)[2] == self.find(tmp_path / "x")[2]
        with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
            for path in folder.iterdir():
                archive.write(path, f"deep/er/{path.name}")
            archive.writestr("__MACOSX/deep/er/a.csv", b"")
        assert self.find(tmp_path / "x.zip")[:2] == expected

    def test_which_layouts_are_known(self, tmp_path):
        (tmp_path / "a.csv").write_bytes(b"A")
        with pytest.raises(DataError, match=r"Known: new: a\.csv, \*\.item; old: a\.data\. Needed: some files"):
            self.find(tmp_path)
        (tmp_path / "a.data").write_bytes(b"D")
        assert self.find(tmp_path)[:2] == ("old", {"a.data": b"D"})

    def test_ambiguous(self, tmp_path):
        for name in ("a.csv", "x.item", "y.item"):
            (tmp_path / name).write_bytes(b"")
        with pytest.raises(DataError, match=r"several files are \*\.item \(x\.item, y\.item\)"):
            self.find(tmp_path)

    def test_nothing_there(self, tmp_path):
        with pytest.raises(DataError, match=r"no such file or folder\. Needed: some files"):
            self.find(tmp_path / "none")
        (tmp_path / "x.zip").write_text("x")
        with pytest.raises(DataError, match="not a zip file"):
            self.find(tmp_path / "x.zip")
