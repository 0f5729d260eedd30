import numpy as np
import pytest
from gistbench.runners.report import Options, Runs, run_analyses


@pytest.fixture
def runs(suite, interest):
    """Chunks of 50: two interests verified of three, in categories 1, 2, 3. Of 200: only category 1 is named.

    Another candidate, in both suites, verifies category 9.
    """
    other = {"u": [interest("chess", 9, e=2)]}
    short = {"u": [interest("a", 1, e=2), interest("b", 2, e=2), interest("c", 3, e=1)]}
    long = {"u": [interest("a", 1, e=2)]}
    name = "openai/gpt-oss-120b"
    return Runs.open(
        [
            suite("short", {name: short, "org/b": other}, chunk_size=50, dataset="synthetic"),
            suite("long", {name: long, "org/b": other}, chunk_size=200, dataset="synthetic"),
        ]
    )


def test_table_14_under_three_oracles(runs):
    (found,) = run_analyses(runs, ["table_14"], Options())
    frame = found.tables["lengths"]
    frame = frame.loc[frame["model"] == "openai/gpt-oss-120b"].set_index(["oracle", "length"])
    assert frame["ig_precision"].loc["own"].to_dict() == pytest.approx({50: 2 / 3, 200: 1.0})
    # Per setting: 1, 2, 9 and 1, 9. Fixed: 1, 2, 9. Own: 1, 2 and 1.
    assert frame["ig_recall"].loc["per setting"].to_dict() == pytest.approx({50: 2 / 3, 200: 1 / 2})
    assert frame["ig_recall"].loc["fixed"].to_dict() == pytest.approx({50: 2 / 3, 200: 1 / 3})
    assert frame["ig_recall"].loc["own"].to_dict() == {50: 1.0, 200: 1.0}
    assert frame["interests_per_user"].loc["own"].to_dict() == {50: 3.0, 200: 1.0}
    assert set(frame["length_option"]) == {"chunk size"}
    assert frame["published_ig_recall"].loc["own"].to_dict() == {50: 0.86, 200: 0.968}
    assert np.isnan(found.tables["lengths"].query("model == 'org/b'")["published_is"]).all()
    assert "--chunk-size" in found.notes[0]


def test_table_14_of_the_page_is_of_its_synthetic_data_alone(suite, interest):
    named = {"openai/gpt-oss-120b": {"u": [interest("a", 1, e=2)]}}
    runs = Runs.open([suite(f"c{n}", named, chunk_size=n) for n in (50, 200)])
    frame = run_analyses(runs, ["table_14"], Options())[0].tables["lengths"]
    published = [name for name in frame if name.startswith("published_")]
    assert published
    assert frame[published].isna().all(axis=None)


def test_table_14_by_history_length(suite, interest):
    paths = [
        suite(f"h{n}", {"org/a": {"u": [interest(f"i{k}", k, e=2) for k in range(1, n // 50 + 1)]}}, history_length=n)
        for n in (50, 100)
    ]
    (found,) = run_analyses(Runs.open(paths), ["table_14"], Options())
    frame = found.tables["lengths"]
    assert set(frame["length_option"]) == {"history length"}
    assert frame.query("oracle == 'fixed'")["ig_recall"].tolist() == [0.5, 1.0]
    assert frame.query("oracle == 'per setting'")["ig_recall"].tolist() == [1.0, 1.0]


def test_recall_is_never_below_precision_under_ones_own_oracle(runs):
    frame = run_analyses(runs, ["table_14"], Options())[0].tables["lengths"].query("oracle == 'own'")
    assert (frame["ig_recall"] >= frame["ig_precision"]).all()
