import json
import shutil
import signal
import subprocess
import sys

import pandas as pd
import pyarrow.parquet as pq
import pytest
from gistbench.hf_datasets.errors import ConfigError, StoreError
from gistbench.runners.report import build
from gistbench.runners.report.analysis import Analysis, FigureSpec
from gistbench.runners.report.build import Report, build_report


@pytest.fixture(scope="module")
def written(demo_report, tmp_path_factory):
    folder = tmp_path_factory.mktemp("written") / "report"
    assert demo_report.write(folder) == folder / "report.html"
    return folder


@pytest.fixture
def tiny():
    frame = pd.DataFrame({"model": ["a"], "ig_f1": [0.5]})
    return Report((Analysis("table_3", "t", "c", {"medians": frame}),), {"gistbench": "1", "runs": []})


def test_from_python_there_are_data_frames_and_figures(demo_report):
    assert len(demo_report.tables["table_3.medians"]) == 3
    figures = demo_report.figures()
    assert {"figure_3", "figure_4", "figure_5", "figure_9", "comparisons"} <= set(figures)
    assert figures["figure_5"].data[0].x == pytest.approx(demo_report.tables["figure_5.means"]["mean_ig_f1"])


def test_versions_name_every_run_with_data_models_prompts_and_conditions(demo_report):
    runs = demo_report.versions["runs"]
    assert [run["model"] for run in runs] == ["lexical/hashtag", "lexical/tfidf", "lexical/phrase"]
    for run in runs:
        assert {"dataset", "data", "judge", "revision", "prompts", "oracle", "thresholds", "modules"} <= set(run)


def test_the_index_names_every_file(written):
    index = json.loads((written / "report.json").read_text())
    there = {str(path.relative_to(written)) for path in written.rglob("*") if path.is_file()}
    assert there == {*index["files"], "report.json"}


def test_every_table_is_there_in_every_form(written, demo_report):
    for name, frame in demo_report.tables.items():
        for form in ("csv", "parquet", "md", "tex"):
            assert (written / "tables" / f"{name}.{form}").stat().st_size > 0
        table = pq.read_table(written / "tables" / f"{name}.parquet")
        assert table.num_rows == len(frame)
        about = json.loads(table.schema.metadata[b"gistbench"])
        assert about["versions"]["runs"][0]["dataset"] == "demo"
        assert about["policy"] is not None
        assert len(pd.read_csv(written / "tables" / f"{name}.csv")) == len(frame)


def test_every_table_and_figure_says_what_it_stands_on(written, demo_report):
    for one in demo_report.analyses:
        if not one.missing:
            about = json.loads((written / "tables" / f"{one.id}.json").read_text())
            assert set(about["policy"]) == set(one.policy)
            assert about["versions"]["gistbench"]
    assert "% policy scores:" in (written / "tables" / "table_3.medians.tex").read_text()
    assert "policy scores:" in (written / "tables" / "table_3.medians.md").read_text()
    for name in demo_report.drawings:
        meta = json.loads((written / "figures" / f"{name}.json").read_text())["layout"]["meta"]
        assert meta["versions"]["runs"]
        assert "policy" in meta


def test_every_figure_is_there_in_every_form(written, demo_report):
    for name in demo_report.drawings:
        for form in ("svg", "png", "json", "dark.json"):
            assert (written / "figures" / f"{name}.{form}").stat().st_size > 0


def test_what_is_missing_is_named_with_what_it_needs(written):
    assert "annotators: Needs a csv" in (written / "report.md").read_text().partition("## Not in this report")[2]
    assert "Not in this report" in (written / "report.html").read_text()
    assert not (written / "tables" / "table_17.json").exists()


def test_figures_of_the_markdown_report_are_there(written):
    import re

    text = (written / "report.md").read_text()
    named = re.findall(r"\]\((figures/[^)]*)\)", text) + re.findall(r"`(tables/[^`]*)`", text)
    assert named
    assert all((written / name).exists() for name in named)


def test_a_report_replaces_an_earlier_one_and_nothing_else(tiny, tmp_path):
    folder = tmp_path / "report"
    tiny.write(folder)
    (folder / "mine.txt").write_text("keep")
    other = Report((Analysis("table_4", "t", "c", dict(tiny.analyses[0].tables)),), tiny.versions)
    other.write(folder)
    assert (folder / "mine.txt").read_text() == "keep"
    assert not (folder / "tables" / "table_3.medians.csv").exists()
    assert (folder / "tables" / "table_4.medians.csv").exists()


KILLED = """
import os, signal, sys
import pandas as pd
from gistbench.runners.report import build
from gistbench.runners.report.analysis import Analysis

written = []
def killing(frame, about, whole=build.to_parquet):
    written.append(whole(frame, about))
    if len(written) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return written[-1]
build.to_parquet = killing
frame = pd.DataFrame({"model": ["a"], "ig_f1": [0.5]})
tables = {name: frame for name in ("one", "two", "three")}
build.Report((Analysis("table_4", "t", "c", tables),), {"gistbench": "1", "runs": []}).write(sys.argv[1])
"""


@pytest.mark.parametrize("earlier", [False, True])
def test_a_killed_report_is_written_again(tiny, tmp_path, earlier):
    folder = tmp_path / "report"
    if earlier:
        tiny.write(folder)
        (folder / "mine.txt").write_text("keep")
    died = subprocess.run([sys.executable, "-c", KILLED, str(folder)], check=False, capture_output=True, timeout=120)
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert "tables/table_4.one.parquet" in there
    assert "report.html" not in there
    index = json.loads((folder / "report.json").read_text())
    assert index["complete"] is False
    assert there - {"mine.txt", "report.json"} < set(index["files"])
    (folder / "tables" / ".table_4.two.csv.abcd1234").write_text("what a killed writer leaves")
    tiny.write(folder)
    index = json.loads((folder / "report.json").read_text())
    assert index["complete"] is True
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert there == {*index["files"], "report.json"} | ({"mine.txt"} if earlier else set())


def test_a_writer_killed_at_its_first_file_leaves_a_folder_that_can_be_used(tiny, tmp_path):
    folder = tmp_path / "report"
    folder.mkdir()
    (folder / ".report.json.abcd1234").write_text("{")
    tiny.write(folder)
    assert not (folder / ".report.json.abcd1234").exists()


def test_texts_of_runs_are_read_as_they_are_in_markdown(tmp_path):
    nasty = "<img src=x> [x](http://evil) `a` --->"
    frame = pd.DataFrame({"model": [nasty], "ig_f1": [0.5]})
    spec = FigureSpec("bar", "rows", f"Figure {nasty}", f"See {nasty}", x="ig_f1", y="model")
    found = Analysis(
        "table_3", f"Title {nasty}", f"Caption {nasty}", {"rows": frame}, {"table_3": spec}, policy={"said": nasty},
        notes=(f"Note {nasty}",),
    )  # fmt: skip
    missing = Analysis("table_4", f"Other {nasty}", "", missing=f"Needs {nasty}")
    report = Report((found, missing), {"gistbench": "1", "runs": []})
    text = report.markdown()
    assert "<img" not in text
    assert "[x](" not in text
    escaped = r"&lt;img src=x&gt; \[x\](http://evil) \`a\`"
    for line in ("## Title ", "Caption ", "![Figure ", "See ", "- Note ", "- Other "):
        assert f"\n{line}{escaped}" in text, line
    assert f": Needs {escaped}" in text
    report.write(tmp_path / "report")
    head = (tmp_path / "report" / "tables" / "table_3.rows.md").read_text().partition("\n-->\n")[0]
    assert "said" in head
    assert "-->" not in head


def test_the_same_report_gives_the_same_bytes(tiny, tmp_path):
    tiny.write(tmp_path / "a")
    tiny.write(tmp_path / "b")
    for name in json.loads((tmp_path / "a" / "report.json").read_text())["files"]:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_folder_of_something_else_is_left_alone(tiny, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(StoreError, match="--out"):
        tiny.write(tmp_path)
    with pytest.raises(StoreError, match="--out"):
        tiny.write(tmp_path / "mine.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_an_index_cannot_reach_out_of_its_folder(tiny, tmp_path):
    folder = tmp_path / "report"
    tiny.write(folder)
    outside = tmp_path / "outside.txt"
    outside.write_text("mine")
    (folder / "report.json").write_text(json.dumps({"files": ["../outside.txt"]}))
    tiny.write(folder)
    assert outside.exists()


def test_without_the_libraries_the_extra_is_named_before_anything_is_written(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(build, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"gistbench\[report\]"):
        tiny.write(tmp_path / "report")
    assert not (tmp_path / "report").exists()


def test_a_whole_suite_and_its_runs_named_apart_are_the_same(demo_suite):
    folders = [path for path in demo_suite.iterdir() if (path / "manifest.json").exists()]
    whole = build_report([demo_suite], ["figure_3"])
    apart = build_report(sorted(folders), ["figure_3"])
    keys = ["model", "ig_f1"]
    one, other = (
        found.tables["figure_3.models"][keys].sort_values("model", ignore_index=True) for found in (whole, apart)
    )
    pd.testing.assert_frame_equal(one, other)


def test_runs_without_scores_are_an_error(demo_suite, tmp_path):
    copy = tmp_path / "suite"
    shutil.copytree(demo_suite, copy)
    path = copy / "lexical--hashtag@1" / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["phases"]["score"]
    path.write_text(json.dumps(manifest))
    with pytest.raises(StoreError, match="gistbench score"):
        build_report([copy], ["figure_3"])
