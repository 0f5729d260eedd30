"""Suites in which there is nothing to find, or in which a candidate names nothing: a report all the same."""

import json

import pandas as pd
import pytest
from gistbench.runners.report import Options, Runs, run_analyses
from gistbench.runners.report.analysis import KINDS, FigureSpec
from gistbench.runners.report.build import build_report
from gistbench.runners.report.figures import draw
from gistbench.runners.report.frames import quantiles

USERS = ("u", "v", "w")
NOTHING: dict[str, list[object]] = {user: [] for user in USERS}


@pytest.fixture
def unbacked(interest):
    """Interests without evidence, of these categories in turn."""
    return lambda *categories: {user: [interest(f"i{c}", c) for c in categories] for user in USERS}


@pytest.fixture
def backed(interest):
    return {user: [interest("jazz", 1, e=2), interest("chess", 9)] for user in USERS}


@pytest.fixture
def three(unbacked, backed):
    """Three candidates of each case; three, since what is left without one of them is computed from three on."""
    names, few, many = ("org/a", "org/b", "org/c"), unbacked(1), unbacked(2, 3)
    return {
        "nothing verified": dict(zip(names, (few, many, unbacked(4)), strict=True)),
        "nothing mapped": dict.fromkeys(names, unbacked(0)),
        "nothing verified, one names nothing": dict(zip(names, (few, many, NOTHING), strict=True)),
        "nothing named": dict.fromkeys(names, NOTHING),
        "one names nothing": dict(zip(names, (backed, many, NOTHING), strict=True)),
    }


def write_all(path, folder):
    """Write the whole report, see that all files are there and can be read, and return the report."""
    report = build_report([path])
    report.write(folder)
    index = json.loads((folder / "report.json").read_text())
    assert index["complete"] is True
    assert all((folder / name).stat().st_size for name in index["files"])
    for name, frame in report.tables.items():
        assert len(frame.columns), name
        assert len(pd.read_csv(folder / "tables" / f"{name}.csv")) == len(frame), name
    return report


@pytest.mark.parametrize(
    ("case", "missing"),
    [
        ("nothing verified", {"figure_4", "figure_9"}),
        ("nothing mapped", {"figure_4", "figure_9", "table_11"}),
        ("nothing verified, one names nothing", {"figure_4", "figure_9"}),
        ("nothing named", {"figure_4", "figure_9", "table_11"}),
        ("one names nothing", set()),
    ],
)
def test_every_analysis_and_the_whole_report(suite, three, tmp_path, case, missing):
    path = suite("suite", three[case])
    report = write_all(path, tmp_path / "report")
    reasons = {one.id: one.missing for one in report.analyses}
    for id in ("figure_4", "figure_9", "table_11"):
        assert bool(reasons[id]) == (id in missing), id
    for id in missing - {"table_11"}:
        assert "no candidate verified" in reasons[id]
        assert "no candidate verified" in (tmp_path / "report" / "report.md").read_text()
    if "table_11" in missing:
        assert "mapped to a category" in reasons["table_11"]
    assert not missing & set(report.drawings)
    assert not reasons["table_3"]
    assert not reasons["table_16"]


def test_implicit_positives_alone_and_too_few_of_them(suite, interest, tmp_path):
    named = {user: [interest(f"#{user}", 1 + place, i=1)] for place, user in enumerate(USERS)}
    path = suite("suite", {"org/a": named, "org/b": named}, signals=("implicit_positive",))
    report = write_all(path, tmp_path / "report")
    assert "no user has a recall" in next(one.missing for one in report.analyses if one.id == "figure_4")
    assert report.tables["table_7.failure_modes"]["verified_share"].tolist() == [0.0, 0.0]


def test_without_a_taxonomy(suite, unbacked):
    runs = {"org/a": unbacked(1), "org/b": unbacked(2), "org/c": NOTHING}
    report = build_report([suite("suite", runs, categories=False)])
    assert report.tables["table_16.by_model"]["n_verified_pairs"].tolist() == [0, 0, 0]
    report.html()


def test_without_users(suite):
    report = build_report([suite("suite", {"org/a": {}, "org/b": {}})])
    assert report.tables["table_22.places"].columns.tolist()[-1] == "rank"
    report.html()


def test_a_data_set_with_nothing_to_find_is_left_out_beside_another(suite, unbacked, backed):
    found = suite("found", {"org/a": backed, "org/b": unbacked(2)})
    none = suite("none", {"org/a": unbacked(0), "org/b": NOTHING}, dataset="films")
    for paths in ([found, none], [none, found]):
        four, nine, one = run_analyses(Runs.open(paths), ["figure_4", "figure_9", "table_11"], Options())
        assert set(four.tables["users"]["dataset"]) == {"demo"}
        assert four.tables["medians"]["precision_leads_share"].tolist() == [0.0, 0.0]
        assert nine.tables["boxes"]["n_users"].tolist() == [3, 3]
        assert nine.tables["overall"]["dataset"].tolist() == ["demo"]
        assert nine.figures["figure_9"].references[0].value == nine.tables["overall"]["median"].iloc[0]
        assert one.tables["models"]["model"].tolist() == ["org/a", "org/b"]


def test_a_summary_of_no_values_has_its_columns():
    frame = pd.DataFrame({"model": ["a"], "ig_f1": [float("nan")]})
    found = quantiles(frame, ["model"], "ig_f1")
    assert len(found) == 0
    assert {"model", "minimum", "median", "maximum", "n_users"} <= set(found)


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_table_is_not_drawn(kind):
    spec = FigureSpec(kind, "rows", "Title", "Caption", x="n_covered", y="model")
    assert draw(spec, {"rows": pd.DataFrame()}) is None
