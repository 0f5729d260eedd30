import gzip
import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gistbench.hf_datasets.errors import ConfigError, DataError
from gistbench.hf_datasets.files import FILE_EXTENSIONS, read_engagements
from gistbench.hf_datasets.schema import validate_engagements

HEADER = "user_id,object_id,object_text,interaction_type,interaction_time\n"
RECORDS = [
    dict(zip(HEADER.strip().split(","), values, strict=True))
    for values in (
        ("007", "NA", "None", "explicit_positive", 9),
        ("007", "12", 'a "b"\nc, d', "implicit_negative", None),
    )
]
CSV = HEADER + '007,NA,None,explicit_positive,9\n007,12,"a ""b""\nc, d",implicit_negative,\n'


def write(folder, name, content):
    content = content.encode() if isinstance(content, str) else content
    path = folder / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def message(path, error=DataError):
    with pytest.raises(error) as caught:
        validate_engagements(read_engagements(path), source=str(path))
    assert str(caught.value).startswith(str(path))
    return str(caught.value).removeprefix(f"{path}: ")


def engagements(path):
    return validate_engagements(read_engagements(path), source=str(path)).to_pylist()


CONTENTS = {
    ".csv": CSV,
    ".tsv": CSV.replace("c, d", "c; d").replace(",", "\t").replace("c; d", "c, d"),
    ".json": json.dumps(RECORDS),
    ".jsonl": "\n".join(map(json.dumps, RECORDS)),
    ".ndjson": "\n\n".join(map(json.dumps, RECORDS)) + "\n",
}


@pytest.mark.parametrize("extension", [e for e in FILE_EXTENSIONS if e != ".parquet"])
def test_every_text_format_reads_the_same(tmp_path, extension):
    path = write(tmp_path, f"data{extension}", CONTENTS[extension.removesuffix(".gz")])
    assert engagements(path) == RECORDS


def test_upper_case_extension_and_byte_order_mark(tmp_path):
    assert engagements(write(tmp_path, "DATA.CSV", b"\xef\xbb\xbf" + CSV.encode())) == RECORDS


def test_windows_line_ends_and_blank_lines(tmp_path):
    text = HEADER + "\nu,o,t,explicit_positive,\n\n"
    assert len(engagements(write(tmp_path, "a.csv", text.replace("\n", "\r\n")))) == 1


def test_parquet_file_and_folder_in_path_order(tmp_path):
    folder = tmp_path / "parts" / "user=3"
    folder.mkdir(parents=True)
    table = pa.Table.from_pylist(RECORDS)
    pq.write_table(table.slice(1), folder / "b.parquet")
    pq.write_table(table.slice(0, 1), folder / "a.parquet")
    assert engagements(folder / "a.parquet") == RECORDS[:1]
    assert engagements(tmp_path / "parts") == RECORDS


def test_parquet_parts_that_differ(tmp_path):
    table = pa.Table.from_pylist(RECORDS)
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(table.drop_columns("interaction_time"), tmp_path / "b.parquet")
    with pytest.raises(DataError, match=r"b\.parquet: differs from a\.parquet in the columns interaction_time"):
        read_engagements(tmp_path)
    pq.write_table(table.set_column(0, "user_id", pa.array([1, 2])), tmp_path / "b.parquet")
    with pytest.raises(DataError, match="different types"):
        read_engagements(tmp_path)


def test_empty_folder(tmp_path):
    assert "no .parquet file" in message(tmp_path)


def test_broken_parquet(tmp_path):
    assert "not a Parquet file" in message(write(tmp_path, "a.parquet", "no"))


def test_unknown_extension_lists_the_known(tmp_path):
    text = message(write(tmp_path, "a.xlsx", "x"), ConfigError)
    assert "'.xlsx' is not known" in text
    assert all(extension in text for extension in FILE_EXTENSIONS)


def test_no_such_file(tmp_path):
    assert message(tmp_path / "a.csv", ConfigError) == "no such file."


class TestCsv:
    def error(self, tmp_path, text):
        return message(write(tmp_path, "a.csv", text))

    def test_too_few_fields_name_the_line_after_quoted_line_breaks(self, tmp_path):
        assert self.error(tmp_path, CSV + "u,o\n").startswith(
            "line 5: 2 fields, expected as many as the header has: 5."
        )

    def test_too_many_fields(self, tmp_path):
        assert self.error(tmp_path, HEADER + "u,o,a, b,explicit_positive,1\n").startswith("line 2: 6 fields")

    def test_quote_that_is_not_closed(self, tmp_path):
        assert "line 4: 3 fields" in self.error(tmp_path, HEADER + 'u,o,"t,explicit_positive,1\n' * 3)

    def test_not_utf8(self, tmp_path):
        text = HEADER.encode() + "u,o,t,explicit_positive,1\nu,o,é,explicit_positive,1\n".encode("latin-1")
        assert self.error(tmp_path, text).startswith("line 3: object_text is not UTF-8 text")

    def test_empty_file(self, tmp_path):
        assert self.error(tmp_path, "").startswith("the file is empty")

    def test_header_alone(self, tmp_path):
        assert self.error(tmp_path, HEADER).startswith("there are no engagements")

    def test_no_header(self, tmp_path):
        assert self.error(tmp_path, "u,o,t,explicit_positive,1\n" * 2).startswith("missing columns: user_id, object_id")

    def test_repeated_header(self, tmp_path):
        assert "the header has user_id more than once" in self.error(tmp_path, "user_id,user_id\n1,2\n")

    def test_only_an_empty_time_is_null(self, tmp_path):
        assert self.error(tmp_path, HEADER + "u,o,t,explicit_positive,NA\n").startswith("row 1: interaction_time is")
        assert self.error(tmp_path, HEADER + "u,o,,explicit_positive,1\n").startswith("row 1: object_text is missing")

    def test_cut_off_gzip(self, tmp_path):
        path = write(tmp_path, "a.csv.gz", CSV * 50)
        path.write_bytes(path.read_bytes()[:-20])
        assert "cannot be read" in message(path)

    def test_not_gzip(self, tmp_path):
        path = tmp_path / "a.csv.gz"
        path.write_text(CSV)
        assert "cannot be read" in message(path)

    def test_texts_longer_than_arrows_default_block(self, tmp_path):
        text = "x" * (3 << 20)
        path = write(tmp_path, "a.csv", HEADER + f"u,o,{text},explicit_positive,1\n")
        assert engagements(path)[0]["object_text"] == text


@pytest.mark.parametrize("extension", [".csv", ".tsv"])
@pytest.mark.parametrize("name", ["user_id", "object_id"])
def test_integers_written_as_decimals_are_no_ids(tmp_path, extension, name):
    """What pandas makes of a column of integers with a gap."""
    frame = pd.DataFrame(RECORDS * 2).assign(**{name: [1, None, 2, 3]})
    path = tmp_path / f"a{extension}"
    frame.to_csv(path, index=False, sep="\t" if extension == ".tsv" else ",")
    text = message(path)
    assert text.startswith(f"column {name!r} holds integers written as decimals, such as '1.0'; 12 and 12.0 would be")
    assert text.endswith(f"write the file again with integers: frame.astype({{{name!r}: 'Int64'}}).")
    frame.dropna(subset=name).astype({name: "Int64"}).to_csv(path, index=False, sep="\t" if "t" in extension else ",")
    assert [row[name] for row in engagements(path)] == ["1", "2", "3"]


def test_ids_that_only_look_a_little_like_decimals_stay(tmp_path):
    """Versions, say: not all of them end in .0."""
    path = write(tmp_path, "a.csv", HEADER + "u,1.0,t,explicit_positive,\nu,1.5,t,explicit_positive,\n")
    assert [row["object_id"] for row in engagements(path)] == ["1.0", "1.5"]


class TestJson:
    good = RECORDS[0]

    def lines(self, tmp_path, *records):
        return write(tmp_path, "a.jsonl", "".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records))

    def test_integer_ids_become_text_also_large_and_mixed_ones(self, tmp_path):
        ids = [1, 2**63 - 1, 2**64 + 1, "x"]
        for n in (2, 3, 4):
            path = self.lines(tmp_path, *[self.good | {"object_id": i} for i in ids[:n]])
            assert [row["object_id"] for row in engagements(path)] == [str(i) for i in ids[:n]]

    def test_decimal_ids_are_refused(self, tmp_path):
        text = message(self.lines(tmp_path, self.good, self.good | {"object_id": 12.0}))
        assert text == "line 2: object_id is the JSON number 12.0; it must be text or an integer."

    def test_malformed_line(self, tmp_path):
        assert message(self.lines(tmp_path, self.good, "", '{"user_id": ')).startswith("line 3: not JSON")

    def test_a_line_that_is_no_record(self, tmp_path):
        assert message(self.lines(tmp_path, self.good, "[1]")).startswith("line 2: a record {...} was expected")

    def test_text_that_is_a_number(self, tmp_path):
        text = message(self.lines(tmp_path, self.good | {"object_text": 3}))
        assert text == "line 1: object_text is the JSON number 3; it must be text."

    def test_texts_and_ids_that_look_like_dates_stay_text(self, tmp_path):
        record = self.good | {"object_text": "2024-01-01", "object_id": "2024-01-02", "interaction_time": "1970-01-02"}
        row = engagements(self.lines(tmp_path, record))[0]
        assert (row["object_text"], row["object_id"], row["interaction_time"]) == ("2024-01-01", "2024-01-02", 86400.0)

    def test_times_as_numbers_and_numerals(self, tmp_path):
        path = self.lines(tmp_path, *[self.good | {"interaction_time": t} for t in (9, "10", None, 1.5)])
        assert [row["interaction_time"] for row in engagements(path)] == [9.0, 10.0, None, 1.5]

    def test_missing_key_is_missing(self, tmp_path):
        record = {k: v for k, v in self.good.items() if k != "object_text"}
        assert message(self.lines(tmp_path, self.good, record)).startswith("row 2: object_text is missing")

    def test_half_a_surrogate_pair(self, tmp_path):
        assert "surrogate" in message(self.lines(tmp_path, self.good | {"object_text": "\ud800"}))

    def test_list_file_with_lines(self, tmp_path):
        path = write(tmp_path, "a.json", CONTENTS[".jsonl"])
        assert message(path).endswith("One record per line is JSON Lines: name it .jsonl.")

    def test_list_file_with_an_object(self, tmp_path):
        assert "found a JSON object" in message(write(tmp_path, "a.json", '{"data": []}'))

    def test_list_file_cut_off(self, tmp_path):
        assert message(write(tmp_path, "a.json", '[\n{"user_id": 1},\n{')).startswith("line 3: not JSON")

    def test_empty_files(self, tmp_path):
        assert message(write(tmp_path, "a.jsonl", ""))
        assert message(write(tmp_path, "a.json", "[]")).startswith("missing columns")
