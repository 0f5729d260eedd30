import re
from collections import Counter, defaultdict
from decimal import Decimal

import datasets
import pyarrow as pa
import pytest
from gistbench.hf_datasets import results_published as module
from gistbench.hf_datasets.errors import DataError
from gistbench.hf_datasets.registry import config_record
from gistbench.hf_datasets.results_published import (
    CITATIONS,
    DISAGREES,
    RESULTS_FEATURES,
    RESULTS_SCHEMA,
    UNITS,
    ResultsPublished,
    load_results_published,
    published_value,
    validate_results_published,
)

A, B = "gistbench", "preference-induction"

# Cells of the table, numbers of its caption, whether the page shows the whole table.
COUNTS = {
    (A, "Table 3"): (40, 2, False),
    (A, "Table 4"): (20, 0, False),
    (A, "Table 5"): (30, 2, False),
    (A, "Table 6"): (12, 0, False),
    (A, "Table 7"): (18, 2, False),
    (A, "Table 10"): (12, 0, True),
    (A, "Table 11"): (18, 3, False),
    (A, "Table 14"): (20, 2, True),
    (A, "Table 15"): (12, 3, False),
    (A, "Table 16"): (18, 1, False),
    (A, "Table 17"): (10, 3, False),
    (A, "Table 18"): (24, 2, True),
    (A, "Table 19"): (6, 2, True),
    (A, "Table 20"): (14, 0, True),
    (A, "Table 21"): (18, 0, False),
    (A, "Table 22"): (8, 2, True),
    (A, "Table 23"): (6, 1, False),
    (A, "Table 24"): (18, 0, True),
    (A, "Table 25"): (15, 1, True),
    (A, "Table 26"): (5, 3, True),
    (A, "Table 27"): (12, 1, False),
    (A, "Figure 3"): (0, 3, False),
    (A, "Figure 6"): (0, 2, False),
    (A, "Figure 7"): (0, 2, False),
    (A, "Figure 8"): (4, 1, False),
    (A, "Figure 10"): (0, 4, False),
    (B, "Table 2"): (8, 0, True),
    (B, "Table 3"): (6, 0, True),
    (B, "Table 4"): (18, 0, True),
    (B, "Table 5"): (12, 0, True),
    (B, "Table 6"): (12, 0, True),
    (B, "Table 7"): (18, 0, True),
    (B, "Table 8"): (12, 0, True),
}

# Read off the pages by hand.
SPOTS = [
    (A, "Table 3", "GPT-OSS-120B", "Synthetic / IG F1", 67.8),
    (A, "Table 3", "GPT-5", "Amazon Music / IS", 90.9),
    (A, "Table 3", "Claude 4.6", "Goodreads / IS", 83.4),
    (A, "Table 3", "caption", "IS upper bound", 1),
    (A, "Table 4", "DeepSeek-R1", "Synthetic / IG P", 82.4),
    (A, "Table 4", "GPT-5", "KuaiRec / IG R", 54.2),
    (A, "Table 4", "Qwen2.5-72B", "Synthetic / IG R", 34.8),
    (A, "Table 5", "DeepSeek-R1", "Survey-Based / S-Prec", 62.3),
    (A, "Table 5", "Qwen3-VL-235B", "Proposed Metrics / IG R", 26.9),
    (A, "Table 5", "DeepSeek-R1-Distill-70B", "Proposed Metrics / IS", 83.3),
    (A, "Table 5", "caption", "models with IG P > IG R", 7),
    (A, "Table 6", "DeepSeek-R1", "Arena IF Elo", 1395),
    (A, "Table 6", "Qwen2.5-72B", "Median IG F1 (%)", 37.7),
    (A, "Table 6", "DeepSeek-R1-Distill-70B", "Median IG F1 (%)", 24.3),
    (A, "Table 7", "DeepSeek-R1", "Ins. Imp+", 86.7),
    (A, "Table 7", "Qwen3-VL-235B", "Ins. Exp+", 98.3),
    (A, "Table 7", "Qwen2.5-72B", "Exc. Neg", 22.9),
    (A, "Table 10", "Implicit Negative", "p-value", 4.80e-52),
    (A, "Table 10", "Implicit Positive", "Syn. Mean", 3308.83),
    (A, "Table 10", "Explicit Positive", "Real Mean", 43.79),
    (A, "Table 11", "GPT-OSS-120B", "Unique Int.", 127_495),
    (A, "Table 11", "Llama-3.1-8B-Instruct", "Covered", 323),
    (A, "Table 11", "Qwen2-7B", "Cov. %", 97.8),
    (A, "Table 11", "caption", "Cov. % of every model", 97),
    (A, "Table 14", "IG P (%)", "UIH Length 50", 74.4),
    (A, "Table 14", "IS (%)", "UIH Length 200", 74.6),
    (A, "Table 14", "# Interests", "UIH Length 150", 72),
    (A, "Table 14", "caption", "IG R gain from 50 to 200", 10.8),
    (A, "Table 15", "1", "Count", 37_672),
    (A, "Table 15", "3", "%", 14.6),
    (A, "Table 15", "6", "Count", 3_276),
    (A, "Table 15", "caption", "verified by 3+ models", 36.8),
    (A, "Table 16", "GPT-OSS-120B", "Verified", 60_971),
    (A, "Table 16", "DeepSeek-R1", "Sole provider", 3_569),
    (A, "Table 16", "Qwen3-32B", "% oracle", 1.4),
    (A, "Table 17", "A1", "IG / A2", 0.40),
    (A, "Table 17", "A2", "IG / A4", 0.43),
    (A, "Table 17", "A3", "IG / A4", 0.65),
    (A, "Table 17", "caption", "IS / average pairwise kappa", 0.86),
    (A, "Table 18", "A1", "IG / Agree%", 93.7),
    (A, "Table 18", "A2", "IS / kappa", 0.96),
    (A, "Table 18", "A4", "IS / F1", 0.90),
    (A, "Table 19", "Unanimous (4/4 or 0/4)", "IG", 77.0),
    (A, "Table 19", "3-1 split", "IS", 4.2),
    (A, "Table 19", "2-2 split", "IG", 7.8),
    (A, "Table 20", "Lenient (-1)", "Imp+", 1),
    (A, "Table 20", "Base (paper)", "Hybrid / Imp+", 2),
    (A, "Table 20", "Strict (+1)", "Imp- cap", 2),
    (A, "Table 21", "GPT-OSS-120B", "Lenient", 76.1),
    (A, "Table 21", "Qwen3-32B", "Base", 46.3),
    (A, "Table 21", "DeepSeek-R1-Distill-70B", "Strict", 26.1),
    (A, "Table 22", "IG P", "Base vs Lenient", 0.815),
    (A, "Table 22", "IG F1", "Base vs Strict", 0.893),
    (A, "Table 22", "IS", "Base vs Strict", 1.0),
    (A, "Table 22", "caption", "every rho", 0.81),
    (A, "Table 24", "Synthetic", "Input tok.", 175_300_000),
    (A, "Table 24", "Amazon Music", "Prompts", 126),
    (A, "Table 24", "Total", "Output tok.", 260_600_000),
    (A, "Table 25", "IG evidence relevance (Sec. 4.2)", "Prompts", 2_497_314),
    (A, "Table 25", "IS retrieval (Sec. 4.3)", "Input tok.", 4_650_000_000),
    (A, "Table 25", "Total", "Output tok.", 117_700_000),
    (A, "Table 26", "IG evidence relevance filtering (Section 4.2)", "H100-hours", 380),
    (A, "Table 26", "Interest-to-taxonomy mapping (Section 4.4)", "H100-hours", 20),
    (A, "Table 26", "Total (across all 8 evaluated candidates)", "H100-hours", 760),
    (A, "Table 26", "caption", "H100 GPUs", 64),
    (A, "Table 27", "DeepSeek-R1", "Generated interests", 35_550),
    (A, "Table 27", "Qwen2-7B", "Benchmark computation H100-hr", 97),
    (A, "Table 27", "Llama-3.1-8B-Instruct", "Generated interests", 68_496),
    (A, "Figure 3", "caption", "DeepSeek-R1 / IG P", 57.3),
    (A, "Figure 6", "caption", "categories covered by every model", 97.5),
    (A, "Figure 7", "caption", "categories that hold 50% of interests", 10.1),
    (A, "Figure 7", "caption", "categories that hold 80% of interests", 29.4),
    (A, "Figure 8", "MIND", "GPT-OSS-120B alone", 53),
    (A, "Figure 8", "Goodreads", "union of all models", 76),
    (A, "Figure 8", "caption", "taxonomy categories", 325),
    (A, "Figure 10", "caption", "users of the full set", 982),
    (A, "Figure 10", "caption", "rho at N=10", 0.96),
    (A, "Figure 10", "caption", "rho by N=200", 1.0),
    (B, "Table 2", "MovieLens 32M", "Ratings", 32_000_204),
    (B, "Table 2", "MovieLens 32M", "Density", 0.182),
    (B, "Table 2", "Goodbooks-10k", "Users", 53_424),
    (B, "Table 3", "MovieLens 32M", "tau AP@100", 0.9594),
    (B, "Table 3", "Goodbooks-10k", "tau AP@100", 0.8260),
    (B, "Table 3", "Goodbooks-10k", "Users", 500),
    (B, "Table 4", "IPP", "MAE / w/o plot", 1.1123),
    (B, "Table 4", "Profile", "tau AP / w/ plot", 0.9212),
    (B, "Table 4", "IPP + Profile", "tau NDCG / w/ plot", 1.0),
    (B, "Table 5", "IPP", "Synthetic pool / tau AP", 0.7714),
    (B, "Table 5", "Profile", "Augmented pool / tau NDCG", 0.8190),
    (B, "Table 5", "IPP + Profile", "Synthetic pool / tau NDCG", 0.7799),
    (B, "Table 6", "IPP", "Augmented Pool / AP", -0.1524),
    (B, "Table 6", "Profile", "Synthetic Pool / AP", 0.0095),
    (B, "Table 6", "IPP + Profile", "Synthetic Pool / NDCG", -0.2000),
    (B, "Table 7", "IPP", "MAE / w/ plot", 1.2279),
    (B, "Table 7", "Profile", "tau NDCG / w/o plot", 0.9766),
    (B, "Table 7", "IPP + Profile", "tau AP / w/ plot", 0.8680),
    (B, "Table 8", "IPP", "Synthetic Pool / AP", 0),
    (B, "Table 8", "Profile", "Synthetic Pool / AP", -0.0584),
    (B, "Table 8", "IPP + Profile", "Augmented Pool / NDCG", 0.0585),
]


@pytest.fixture(scope="module")
def records():
    return load_results_published().to_pylist()


def test_counts_and_completeness(records):
    cells, captions, complete = Counter(), Counter(), defaultdict(set)
    for record in records:
        key = record["paper"], record["table"]
        (captions if record["row"] == "caption" else cells)[key] += 1
        complete[key].add(record["complete"])
    assert {key: (cells[key], captions[key], *complete[key]) for key in complete} == COUNTS
    assert len(records) == 468


def test_tables_are_in_the_papers_order(records):
    assert list(dict.fromkeys((record["paper"], record["table"]) for record in records)) == list(COUNTS)


@pytest.mark.parametrize(("paper", "table", "row", "column", "value"), SPOTS)
def test_values_read_off_the_pages_by_hand(paper, table, row, column, value):
    assert published_value(table, row, column, paper=paper) == value


def test_the_hand_read_values_cover_every_table_of_numbers():
    covered = Counter((paper, table) for paper, table, *_ in SPOTS)
    assert {key for key in COUNTS if covered[key] < min(3, sum(COUNTS[key][:2]))} == {
        (A, "Table 23"),  # names: below
        (A, "Figure 3"),
        (A, "Figure 6"),
    }


def test_table_23_names_models(records):
    names = {r["row"]: r for r in records if r["table"] == "Table 23" and r["row"] != "caption"}
    assert names["GPT-OSS-120B"]["printed"] == "openai/gpt-oss-120b"
    assert names["Qwen3-VL-235B"]["printed"] == "Qwen/Qwen3-VL-235B-A22B-Instruct"
    assert names["R1-Distill-70B"]["printed"] == "deepseek-ai/DeepSeek-R1-Distill-Llama-70B"
    assert {(r["unit"], r["value"]) for r in names.values()} == {("name", None)}


def test_cells_are_unique(records):
    assert len({tuple(r[name] for name in ("paper", "table", "row", "column")) for r in records}) == len(records)


def number(printed):
    """Read a number off its printed form."""
    text = re.sub(r"^(~|>= |<= |< |\+)|(%|pp)$", "", printed).replace(",", "")
    text, _, suffix = text.partition(" ")
    return float({"seven": 7, "eight": 8}.get(text) or Decimal(text) * {"": 1, "M": 10**6, "B": 10**9}[suffix])


def test_values_are_what_is_printed(records):
    for record in records:
        if record["unit"] == "name" or record["printed"] == "—":
            assert record["value"] is None
        else:
            assert record["value"] == number(record["printed"]), record


def test_notes_say_what_a_sign_means(records):
    signs = {"~": "approximate", ">= ": "at least", "<= ": "at most", "< ": "below", "—": "a dash on the page"}
    for record in records:
        expected = next((note for sign, note in signs.items() if record["printed"].startswith(sign)), "")
        assert record["note"].startswith(expected), record
        assert bool(expected) == record["note"].startswith(tuple(signs.values())), record
    assert {record["unit"] for record in records} == set(UNITS)


def test_disagreements_of_the_pages(records):
    found = Counter((r["paper"], r["table"]) for r in records if DISAGREES in r["note"])
    assert found == {
        (A, "Table 3"): 2,  # IS in percent, bounded by 1
        (A, "Table 11"): 3,  # coverage against Figure 6; two models against Table 27
        (A, "Table 14"): 8,  # IG R and IG F1 against Tables 4 and 3
        (A, "Table 27"): 2,
        (A, "Figure 6"): 1,
        (B, "Table 5"): 4,  # the prose has the two pools the other way round
        (B, "Table 8"): 5,  # the prose has only positive shifts
    }
    generated = published_value("Table 27", "DeepSeek-R1", "Generated interests")
    assert generated < published_value("Table 11", "DeepSeek-R1", "Unique Int.")


def test_totals(records):
    for table, columns in (
        ("Table 24", ["Prompts", "Input tok.", "Output tok."]),
        ("Table 25", ["Prompts"]),
        ("Table 26", ["H100-hours"]),
    ):
        for column in columns:
            rows = [r for r in records if r["table"] == table and r["column"] == column and r["row"] != "caption"]
            *parts, total = [int(r["value"]) for r in rows]
            assert rows[-1]["row"].startswith("Total")
            assert sum(parts) == total


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Table 3", "GPT-OSS-120", "Synthetic / IG F1"), r"no row 'GPT-OSS-120' .* mean 'GPT-OSS-120B'\?"),
        (("Table 3", "GPT-5", "Synthetic/IG F1"), r"no column .* mean 'Synthetic / IG F1'\?"),
        (("table 3", "GPT-5", "x"), r"no table 'table 3' .* mean 'Table 3'\?"),
        (("Table 8", "IPP", "Synthetic Pool / AP"), "no table 'Table 8' in the results of 'gistbench'"),
        (("Table 17", "A1", "IG / A1"), "prints '—', which is not a number"),
        (("Table 23", "Qwen3-32B", "HuggingFace Model ID"), "prints 'Qwen/Qwen3-32B', which is not a number"),
    ],
)
def test_what_is_not_printed_is_an_error(arguments, message):
    with pytest.raises(DataError, match=message):
        published_value(*arguments)


def test_an_unknown_paper_is_an_error():
    with pytest.raises(DataError, match=r"no paper 'gistbenc' .* mean 'gistbench'\?"):
        published_value("Table 3", "GPT-5", "Synthetic / IS", paper="gistbenc")


def test_two_values_for_one_cell_are_never_chosen_from(monkeypatch):
    record = {"paper": A, "table": "T", "row": "r", "column": "c"}
    found = [record | {"value": 1.0}, record | {"value": 2.0}]
    monkeypatch.setattr(module, "_by_label", lambda: {A: {"T": {"r": {"c": found}}}})
    with pytest.raises(DataError, match=r"the page prints \[1\.0, 2\.0\]"):
        published_value("T", "r", "c")


RECORD = {
    "paper": A,
    "table": "Table 3",
    "row": "GPT-5",
    "column": "Synthetic / IS",
    "value": 81.1,
    "printed": "81.1",
    "unit": "percent",
    "note": "",
    "complete": False,
}


def validate(*rows):
    return validate_results_published(pa.Table.from_pylist([RECORD | row for row in rows], RESULTS_SCHEMA), source="x")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{}, {"value": 2.0}], "x, record 1: Table 3 of 'gistbench', row 'GPT-5', column 'Synthetic / IS' is there 2"),
        ([{"note": DISAGREES}, {}], "record 2: .* is there 2 times"),
        ([{"paper": "gistbench2"}], r"paper is 'gistbench2'; known: .* mean 'gistbench'\?"),
        ([{"unit": "percents"}], r"unit is 'percents'; known: .* mean 'percent'\?"),
        ([{"row": " "}], "row is blank"),
        ([{"note": None}], "note is null"),
        ([{"value": None}], "prints '81.1', its value is None"),
        ([{"printed": "—"}], "prints '—', its value is 81.1"),
        ([{}, {"row": "Claude 4.6", "complete": True}], "record 2: Table 3 is both complete and not"),
    ],
)
def test_wrong_records(rows, message):
    with pytest.raises(DataError, match=message):
        validate(*rows)


def test_a_cell_may_be_there_twice_where_the_page_disagrees_with_itself():
    assert validate({"note": DISAGREES}, {"note": DISAGREES, "value": 2.0, "printed": "2.0"}).num_rows == 2


def test_wrong_columns():
    table = pa.Table.from_pylist([RECORD], RESULTS_SCHEMA)
    with pytest.raises(DataError, match="x: missing columns: unit"):
        validate_results_published(table.drop_columns("unit"), source="x")
    with pytest.raises(DataError, match="x: columns are not of the types"):
        validate_results_published(table.set_column(4, "value", pa.array(["many"])), source="x")


def test_builder(tmp_path):
    builder = ResultsPublished(dataset_name="results_published", cache_dir=str(tmp_path))
    builder.download_and_prepare()
    dataset = builder.as_dataset(split="train")
    assert isinstance(dataset, datasets.Dataset)
    assert dataset.features == RESULTS_FEATURES
    assert RESULTS_FEATURES.arrow_schema.remove_metadata() == RESULTS_SCHEMA
    assert dataset.data.table.cast(RESULTS_SCHEMA).equals(load_results_published())
    assert all(citation in config_record("results_published").citation for citation in CITATIONS.values())
    assert (tmp_path / "results_published").is_dir()


# The pages themselves, read without the records and without the module.


def plain(text):
    """Take the markup away: what is left is ASCII but for the dash of an empty cell."""
    text = text.replace("$", "")
    text = re.sub(r"\\(?:mathbf|boldsymbol)\{((?:[^{}]|\{[^{}]*\})*)\}", r"\1", text)
    for markup, character in {
        "{,}": ",",
        "{}": "",
        r"\sim ": "~",
        r"\sim": "~",
        r"\geq": ">=",
        r"\leq": "<=",
        r"\to": "->",
        r"\pm": "+-",
        r"\%": "%",
        "–": "-",
        "≥": ">=",
    }.items():
        text = text.replace(markup, character)
    text = re.sub(r"\\(tau|kappa|rho|alpha)\b", r"\1", text)
    text = re.sub(r"Imp\s+-", "Imp-", re.sub(r"\s+", " ", text)).strip()
    text = text.replace("( ", "(").replace(" )", ")")
    return re.sub(r"\b([AF]) (\d)\b", r"\1\2", text).replace("R1- Distill", "R1-Distill")


def blocks_and_captions(page):
    """Yield ("table", lines of cells), ("caption", name, text): what a page consists of, in its order."""
    lines = page.splitlines()
    place = 0
    while place < len(lines):
        start = place
        while place < len(lines) and lines[place].strip() and not re.match(r"(Table|Figure) \d+[:.]", lines[place]):
            place += 1
        block = lines[start:place]
        if any("\t" in line for line in block):
            yield "table", [[plain(cell) for cell in line.split("\t")] for line in block]
            continue
        found = re.search(r"((?:Table|Figure) \d+)[:.] (.*)", "\n".join(lines[start : place + 1]))
        place += 1
        if found:
            parts = [found[2]]
            # A formula splits a caption into several paragraphs; the next asset, or a heading, ends it.
            while place < len(lines) and "\t" not in lines[place]:
                if re.match(r"Appendix|Panel of|Figure \d|Table \d|Evidence Relevance|\d\. |\d\.\d", lines[place]):
                    break
                parts.append(lines[place])
                place += 1
            yield "caption", found[1], plain(" ".join(parts))


def labelled(lines, prefix=""):
    """Return the cells of a table by row and column; a first line of headings is spread over its columns."""
    if len(lines[0]) == 1:  # a title line, as over the parts of Table 17
        return labelled(lines[1:], re.search(r"\((.*)\)", lines[0][0])[1] + " / ")
    if prefix or (lines[0][0] and lines[1][0]):
        columns, body = lines[0], lines[1:]
        headings = [prefix] * len(columns)
    else:
        columns, body = lines[1], lines[2:]
        spread, heading = lines[0] + [""] * (len(columns) - len(lines[0])), ""
        headings = [(heading := cell or heading) + " / " for cell in spread]
    cells = {}
    for row in body:
        for place, cell in enumerate(row[1:], start=1):
            if cell:
                cells[row[0], headings[place] + columns[place]] = cell
    return cells


def read_page(path, caption_first):
    tables, captions, waiting = {}, {}, None
    for kind, *found in blocks_and_captions(path.read_text(encoding="utf-8")):
        if kind == "caption":
            captions[found[0]] = found[1]
            if caption_first:
                waiting = found[0]
            elif waiting is not None and found[0].startswith("Table"):
                tables[found[0]], waiting = labelled(waiting), None
        elif caption_first:
            tables[waiting] = labelled(found[0])
        else:
            waiting = found[0]
    return tables, captions


@pytest.fixture(scope="module")
def pages(shared):
    return {
        A: read_page(shared / "papers" / "gistbench.txt", caption_first=False),
        B: read_page(shared / "papers" / "preference-induction.txt", caption_first=True),
    }


NOT_RECORDED = {(A, name) for name in ("Table 1", "Table 2", "Table 12", "Table 13")}
"""Tables of words and of one worked example."""


def test_every_cell_of_the_pages_is_recorded_and_no_other(records, pages):
    printed = {
        (paper, table, row, column): cell
        for paper, (tables, _) in pages.items()
        for table, cells in tables.items()
        for (row, column), cell in cells.items()
        if (paper, table) not in NOT_RECORDED
    }
    recorded = defaultdict(list)
    for record in records:
        if record["row"] != "caption" and record["table"].startswith("Table"):
            column = record["column"]
            if record["table"] == "Table 14":
                column = column.removeprefix("UIH Length ")
            if record["table"] == "Table 20" and column.startswith("Hybrid"):
                column = "Hybrid"
            recorded[record["paper"], record["table"], record["row"], column].append(record["printed"])
    assert {key: " & ".join(cells) for key, cells in recorded.items()} == printed
    assert {key[:2] for key in printed} == {key for key in COUNTS if key[1].startswith("Table")}


# Numbers of captions that are no results: a plot's drawing, a rule's definition, a model's or section's name.
NO_RESULTS = {
    "Table 5": ["4"],
    "Table 6": ["2024"],
    "Table 11": [">= 1"],
    "Table 15": ["3"],
    "Table 18": [">= 3", "4"],
    "Table 21": ["20"],
    "Table 24": ["27"],
    "Table 27": ["26"],
    "Table 26": ["27"],
    "Figure 3": ["0.1", "0.5"],
    "Figure 7": ["50%", "80%"],
    "Figure 10": ["10", "200", "1"],
}
MODELS = r"GPT-OSS-120B|GPT-5|Qwen3-VL-235B|Qwen2\.5-72B|Llama-3\.\d-\d+B(-Instruct)?|DeepSeek-R1|R1-Distill-70B"
MARKS = r"H100|IG F1|survey F1|iso-F1|rho=|kappa=|[nN]="
NUMBER = r"(?:>= ?|< ?|~|\+)?\d+(?:,\d{3})*(?:\.\d+)?(?:%|pp)?|\b(?:seven|eight)\b"


def test_every_number_of_the_captions_is_recorded_and_no_other(records, pages):
    found, expected = {}, {}
    for name in (table for paper, table in COUNTS if paper == A):  # the other page's captions print no results
        text = re.sub(MARKS, " ", re.sub(MODELS, " ", pages[A][1][name]))
        found[name] = {re.sub(r"^(>=|<) ?", r"\1 ", number) for number in re.findall(NUMBER, text)}
        mine = [r for r in records if r["paper"] == A and r["table"] == name]
        in_caption = [r["printed"] for r in mine if r["row"] == "caption" or name.startswith("Figure")]
        expected[name] = {*in_caption, *NO_RESULTS.get(name, [])}
    assert found == expected
