import numpy as np
import pytest
from gistbench.hf_datasets.errors import DataError
from gistbench.runners.agreement import krippendorff_alpha
from gistbench.runners.report import Options, run_analyses
from gistbench.runners.report.annotators import cohen_kappa, fleiss_kappa, majority
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

LABELS = {  # item: labels of A1 to A4
    "one": "1111",
    "two": "1111",
    "three": "0000",
    "four": "1110",
    "five": "1101",
    "six": "1000",
    "seven": "1100",
    "eight": "0011",
}


@pytest.fixture
def file(tmp_path):
    rows = [
        f"{t},A{a + 1},{x},{item}" for t in ("relevance",) for item, own in LABELS.items() for a, x in enumerate(own)
    ]
    path = tmp_path / "labels.csv"
    path.write_text("\n".join(["task,annotator,label,item", *rows]) + "\n")
    return path


@pytest.fixture
def runs(opened, interest):
    return opened({"org/a": {"u": [interest("jazz", 1, e=2)]}})


def test_table_17_kappas(runs, file):
    (found,) = run_analyses(runs, ["table_17"], Options(annotations=file))
    table = np.array([[int(x) for x in own] for own in LABELS.values()])
    pairs = found.tables["pairs"].set_index(["annotator_a", "annotator_b"])
    for a in range(4):
        for b in range(a + 1, 4):
            row = pairs.loc[(f"A{a + 1}", f"A{b + 1}")]
            assert row["kappa"] == pytest.approx(cohen_kappa_score(table[:, a], table[:, b]))
            assert row["n_items"] == 8
    assert pairs.loc[("A1", "A3"), "published_kappa"] == 0.70
    overall = found.tables["overall"].iloc[0]
    assert overall["mean_kappa"] == pytest.approx(pairs["kappa"].mean())
    # 19 ones of 32. Agreeing pairs of each item of 6: 6, 6, 6, 3, 3, 3, 2, 2 = 31 of 48.
    chance = (19 / 32) ** 2 + (13 / 32) ** 2
    assert overall["fleiss_kappa"] == pytest.approx((31 / 48 - chance) / (1 - chance))
    # Disagreeing pairs of ordered labels: 17 x 2 of 8 x 12; expected 2 x 19 x 13 of 32 x 31.
    assert overall["krippendorff_alpha"] == pytest.approx(1 - (17 * 2 / 96) / (2 * 19 * 13 / (32 * 31)))


def test_table_18_against_the_majority(runs, file):
    (found,) = run_analyses(runs, ["table_18"], Options(annotations=file))
    frame = found.tables["annotators"].set_index("annotator")
    # Majority of the six decided items: 1 1 0 1 1 0. A1 says 1 1 0 1 1 1; A2 and A3 as below.
    assert frame["n_ties"].tolist() == [2] * 4
    assert frame["agreement_share"].tolist() == pytest.approx([5 / 6, 1.0, 5 / 6, 5 / 6])
    assert frame["f1"].tolist() == pytest.approx([8 / 9, 1.0, 6 / 7, 6 / 7])
    assert frame["kappa"]["A2"] == 1.0
    # With ties as label 0, A1 and A2 also miss item seven, A3 and A4 item eight.
    assert frame["agreement_share_with_ties"].tolist() == pytest.approx([6 / 8, 7 / 8, 6 / 8, 6 / 8])
    assert frame["published_agreement_share"].tolist() == [0.937, 0.88, 0.967, 0.908]


def test_disagreements_add_up_as_the_note_says(runs, file):
    levels = run_analyses(runs, ["table_19"], Options(annotations=file))[0].tables["levels"].set_index("level")
    assert levels["n_items"].to_dict() == {"4-0": 3, "3-1": 3, "2-2": 2}
    assert levels["published_item_share"].tolist() == [0.77, 0.152, 0.078]
    frame = run_analyses(runs, ["table_18"], Options(annotations=file))[0].tables["annotators"]
    assert (1 - frame["agreement_share"]).sum() == pytest.approx(3 / 6)
    assert (1 - frame["agreement_share_with_ties"]).sum() == pytest.approx((3 + 2 * 2) / 8)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=40))
def test_cohens_kappa_as_scikit_learn_has_it(labels):
    a, b = zip(*labels, strict=True)
    found = cohen_kappa(a, b)
    if len({*a, *b}) > 1:
        assert found == pytest.approx(cohen_kappa_score(a, b))
    else:
        assert np.isnan(found)


@given(st.lists(st.lists(st.integers(0, 1), min_size=3, max_size=3), min_size=2, max_size=20))
def test_alpha_and_fleiss_of_complete_labels_differ_by_their_known_factor(rows):
    table = np.array(rows, dtype=float)
    kappa, alpha = fleiss_kappa(table.sum(axis=1), 3), krippendorff_alpha(table)
    if np.isnan(kappa):
        assert np.isnan(alpha)
    else:  # alpha corrects chance for the sample's size
        assert 1 - alpha == pytest.approx((1 - kappa) * (table.size - 1) / table.size)


def test_alpha_of_the_literature():
    """Krippendorff's worked example of nominal, binary data: 10 items, two observers, alpha 0.095."""
    a = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0]
    b = [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    assert krippendorff_alpha(np.array([a, b]).T) == pytest.approx(0.095, abs=0.0005)


def test_majorities():
    table = np.array([[1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]], dtype=float)
    assert majority(table)[[0, 2, 3]].tolist() == [1.0, 0.0, 0.0]
    assert np.isnan(majority(table)[1])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("task,annotator,label\nrelevance,a,1\n", "does not say what was labelled"),
        ("task,annotator,label,item\nother,a,1,x\n", "no task 'other'"),
        ("task,annotator,label,item\nrelevance,a,2,x\n", "a label is '2'"),
        ("task,annotator,label,item\nrelevance,a,1,x\nrelevance,a,0,x\n", "row 3: a labels an item twice"),
        ("task,annotator,label,item\nrelevance,,1,x\n", "row 2: a cell is empty"),
    ],
)
def test_files_that_are_no_annotations(runs, tmp_path, content, message):
    path = tmp_path / "labels.csv"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        run_analyses(runs, ["table_17"], Options(annotations=path))


def test_one_annotator_agrees_with_nobody(runs, tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("task,annotator,label,item\nrelevance,a,1,x\n")
    assert "one annotator" in run_analyses(runs, ["table_17"], Options(annotations=path))[0].missing
