import csv
import io
import json
import math
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from gistbench.hf_datasets.errors import ConfigError
from gistbench.hf_datasets.fidelity import compare_engagements
from gistbench.hf_datasets.schema import ENGAGEMENT_SCHEMA
from scipy import stats

EP, IP, IN, EN = "explicit_positive", "implicit_positive", "implicit_negative", "explicit_negative"


def engagements(**counts):
    """One table whose users have so many engagements: type=[user 0, user 1, ...]."""
    rows = [
        (f"u{user}", f"o{i}", "text", kind, None)
        for kind, numbers in counts.items()
        for user, n in enumerate(numbers)
        for i in range(n)
    ]
    return pa.table(
        [pa.array(c, t) for c, t in zip(zip(*rows, strict=True), ENGAGEMENT_SCHEMA.types, strict=True)],
        ENGAGEMENT_SCHEMA,
    )


A = {EP: [3, 0, 4, 1], IP: [10, 12, 7, 9]}
B = {EP: [9, 9, 14], IP: [20, 31, 25], IN: [1, 0, 2]}


def by_type(fidelity):
    return {row.interaction_type: row for row in fidelity.rows}


@pytest.mark.parametrize("equal_variance", [False, True])
def test_t_tests_against_scipy(equal_variance):
    fidelity = compare_engagements(engagements(**A), engagements(**B), equal_variance=equal_variance)
    assert fidelity.test == ("student" if equal_variance else "welch")
    for kind in (EP, IP):
        row, expected = by_type(fidelity)[kind], stats.ttest_ind(A[kind], B[kind], equal_var=equal_variance)
        assert (row.t, row.p, row.df) == pytest.approx((expected.statistic, expected.pvalue, expected.df), rel=1e-12)
        assert (row.mean_a, row.mean_b) == (np.mean(A[kind]), np.mean(B[kind]))
        assert (row.n_users_a, row.n_users_b) == (4, 3)


def test_welch_by_hand():
    row = by_type(compare_engagements(engagements(**A), engagements(**B)))[EP]
    means, variances = (2, 32 / 3), (10 / 3, 25 / 3)  # sample variances of 3, 0, 4, 1 and of 9, 9, 14
    assert row.t == pytest.approx((means[0] - means[1]) / math.sqrt(variances[0] / 4 + variances[1] / 3))
    assert row.share_a == 8 / 46
    assert row.share_b == 32 / 111


def test_users_without_a_type_count_or_not():
    a, b = engagements(**A), engagements(**B)
    assert by_type(compare_engagements(a, b, users="with_type"))[EP].mean_a == 8 / 3
    assert by_type(compare_engagements(a, b, users="with_type"))[EP].n_users_a == 3
    assert by_type(compare_engagements(a, b))[EP].mean_a == 2
    with pytest.raises(ConfigError, match=r"users is 'some'\. Valid are all, with_type"):
        compare_engagements(a, b, users="some")


def test_what_cannot_be_tested_says_why():
    one = {IP: [5], EN: [2]}
    rows = by_type(compare_engagements(engagements(**A), engagements(**B), name_a="syn", name_b="real"))
    assert (rows[IN].t, rows[IN].p, rows[IN].mean_a, rows[IN].note) == (None, None, None, "syn has no such engagements")
    assert EN not in rows
    rows = by_type(compare_engagements(engagements(**A), engagements(**one), name_b="real"))
    assert rows[IP].note == "real has one user with such engagements; a test needs two"
    assert rows[EN].n_users_a == 0
    rows = by_type(compare_engagements(engagements(**{IP: [2, 2]}), engagements(**{IP: [5, 5]})))
    assert rows[IP].p is None
    assert "no variance" in rows[IP].note


def test_one_constant_side_is_tested():
    row = by_type(compare_engagements(engagements(**{IP: [2, 2, 2]}), engagements(**{IP: [5, 6, 9]})))[IP]
    assert 0 < row.p < 0.2


def test_order_of_frequencies():
    def same(a, b):
        return compare_engagements(engagements(**a), engagements(**b)).same_order

    assert same(A, B) is True
    assert same(A, {EP: [9, 8], IP: [3, 4]}) is False
    assert same(A, {IP: [3, 4]}) is None


def test_table_as_csv_and_json():
    fidelity = compare_engagements(engagements(**A), engagements(**B), name_a="syn", name_b="real")
    lines = list(csv.DictReader(io.StringIO(fidelity.csv())))
    assert [line["interaction_type"] for line in lines] == [EP, IP, IN]
    assert float(lines[0]["p"]) == fidelity.rows[0].p
    assert (lines[2]["t"], lines[2]["mean_a"], lines[2]["a"]) == ("", "", "syn")
    plain = json.loads(fidelity.json())
    assert (plain["a"], plain["b"], plain["same_order"]) == ("syn", "real", True)
    assert plain["rows"][1]["mean_b"] == pytest.approx(76 / 3)


def test_figures():
    fidelity = compare_engagements(engagements(**A), engagements(**B), name_a="syn", name_b="real")
    densities, boxes = fidelity.densities(), fidelity.boxes()
    assert [(t["name"], t["xaxis"]) for t in densities["data"]] == [
        *[("syn", "x"), ("real", "x"), ("syn", "x2"), ("real", "x2")],
        ("real", "x3"),
    ]
    assert [t["showlegend"] for t in densities["data"]] == [True, True, False, False, False]
    for trace in densities["data"]:
        assert len(trace["x"]) == len(trace["y"]) == 200
        assert 0.2 < np.trapezoid(trace["y"], trace["x"]) < 1.01  # what lies below 0 or above the last point is cut
    syn, real = boxes["data"]
    assert syn["x"] == ["explicit positive", "implicit positive"]
    assert syn["median"] == [2, 9.5]
    assert real["upperfence"] == [14, 31, 2]
    for figure in (densities, boxes):
        assert json.loads(json.dumps(figure, allow_nan=False)) == figure


def test_figures_are_what_plotly_takes():
    plotly = pytest.importorskip("plotly.graph_objects")
    fidelity = compare_engagements(engagements(**A), engagements(**B))
    for figure in (fidelity.densities(), fidelity.boxes()):
        assert plotly.Figure(figure).to_dict()["data"]


def test_no_density_without_variance():
    fidelity = compare_engagements(engagements(**{IP: [2, 2]}), engagements(**{IP: [5, 6]}), name_b="real")
    assert [trace["name"] for trace in fidelity.densities()["data"]] == ["real"]


def test_command(tmp_path):
    script = "from gistbench.runners.cli_datasets import datasets_app; datasets_app()"
    options = ["compare", "demo", "planted", "--option-b", "n_users=20", "--out", str(tmp_path), "--format", "csv"]
    done = subprocess.run([sys.executable, "-c", script, *options], capture_output=True, text=True, check=True)
    assert (tmp_path / "fidelity.csv").read_text() in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *["fidelity.csv", "figure_boxes.json", "figure_densities.json"]
    ]
