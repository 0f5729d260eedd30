import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gistbench.hf_datasets.errors import ConfigError, DataError
from gistbench.runners.qrels.expand import EXPANDED, expand, expand_tables, hub_folder
from gistbench.runners.qrels.induce import induce
from gistbench.runners.qrels.judge import judge
from gistbench.runners.qrels.judged import Judged, held_out_pairs, sampled_users
from gistbench.runners.qrels.judging import open_judge
from gistbench.runners.qrels.setting import Setting, score_setting
from gistbench.runners.qrels.validate import import_validations, list_uncertain, read_validations, write_uncertain
from gistbench.runners.score import load_metric
from gistbench.runners.stages.grade import Condition

IPP = Condition("ipp")


def grades(**by_pair):
    """Return grades of the user u, `item=grade`, or `item=(grade, lowest, highest)`."""
    rows = [(value, value, value) if not isinstance(value, tuple) else value for value in by_pair.values()]
    n = len(rows)
    whole = [pa.array([row[at] for row in rows], pa.int64()) for at in range(3)]
    return pa.table(
        {
            "user": ["u"] * n,
            "item": list(by_pair),
            "grade": whole[0],
            "n_samples": [1] * n,
            "n_parsed": [int(row[0] is not None) for row in rows],
            "lowest": whole[1],
            "highest": whole[2],
            "request_key": [f"key of {item}" for item in by_pair],
        }
    )


HUMAN = pa.table({"user": ["u", "u"], "item": ["a", "z"], "rating": [4.5, 2.0]})
POOL = pa.table({"user": ["u"] * 4, "item": ["a", "b", "c", "d"], "n_systems": [3, 1, 2, 2], "depth": [1, 2, 3, 4]})


# --- Eq. 1 -----------------------------------------------------------------------------------------------------------


def test_people_first_then_validations_then_the_judge():
    validated = pa.table({"user": ["u", "u"], "item": ["a", "c"], "grade": [0.0, 3.5]})
    table, n_holes = expand_tables(HUMAN, POOL, grades(a=1, b=5, c=0, d=None, z=4, q=5), validated)
    rows = {row["item"]: row for row in table.to_pylist()}
    assert {item: (row["rating"], row["source"]) for item, row in rows.items()} == {
        "a": (4.5, "human"),
        "b": (5.0, "llm"),
        "c": (3.5, "validated"),
        "z": (2.0, "human"),
    }
    assert n_holes == 1, "d has no readable grade"
    assert rows["a"]["llm_grade"] == 1
    assert rows["a"]["validated_grade"] == 0
    assert (rows["z"]["llm_grade"], rows["z"]["in_pool"]) == (4, False)
    assert rows["b"]["request_key"] == "key of b"


def test_what_is_outside_the_pool_is_never_added():
    table, _ = expand_tables(HUMAN, POOL, grades(q=5))
    assert "q" not in table["item"].to_pylist()


def test_the_same_judgements_as_the_metric_scores(pooled, simulate):
    """AP and NDCG of what is exported, read as people's judgements, are the module's augmented ones."""
    simulate()
    judged = one_judge(pooled)
    expand(pooled, judged, IPP)
    setting = Setting.read(pooled)
    table = pq.ParquetFile(pooled.path / "expanded" / judged.name / "ipp.parquet").read()
    assert table.schema.equals(EXPANDED)
    results = score_setting(setting, judged.grades(IPP), "runs", n_resamples=0)["per_system"]
    again = load_metric("qrels_expansion").compute(
        runs=setting.runs,
        human_qrels=table.select(["user", "item", "rating"]),
        systems=setting.systems["runs"],
        k=setting.k,
        n_resamples=0,
        parts=[],
    )["per_system"]
    assert again["system"] == results["system"]
    assert again["ap_human"] == pytest.approx(results["ap_augmented"], abs=1e-12)
    assert again["ndcg_human"] == pytest.approx(results["ndcg_augmented"], abs=1e-12)


def test_exports(pooled, simulate, tmp_path):
    simulate()
    judged = one_judge(pooled)
    record = expand(pooled, judged, IPP)
    assert record["n_human"] == held_out_pairs(pooled, sampled_users(pooled)).num_rows
    assert record["n_holes_left"] == 0
    read = load_metric("qrels_expansion").read_qrels(pooled.path / "expanded" / judged.name / "ipp.qrels")
    assert read.num_rows == record["n_judgements"] == record["n_human"] + record["n_llm"]
    folder = tmp_path / "hub"
    files = hub_folder(pooled, [(judged, IPP)], folder, with_ratings=False)
    assert files == ["README.md", "data/judge_at_1.ipp.parquet"]
    card = (folder / "README.md").read_text()
    assert "for `ratings.csv`" in card
    assert str(pooled.record("split")["dataset"]) not in card
    assert "license" not in card
    from datasets import load_dataset

    data = load_dataset(str(folder), "judge_at_1.ipp", split="train", cache_dir=str(tmp_path / "cache"))
    assert set(data["source"]) == {"llm"}
    assert "human_rating" not in data.column_names
    hub_folder(pooled, [(judged, IPP)], tmp_path / "all", with_ratings=True)
    (file,) = (tmp_path / "all" / "data").iterdir()
    assert set(pq.ParquetFile(file).read()["source"].to_pylist()) == {"human", "llm"}


def test_ratings_whose_licence_forbids_it_are_not_written(pooled, simulate, tmp_path):
    simulate()
    judged = one_judge(pooled)
    path = pooled.path / "split.json"
    path.write_text(path.read_text().replace(pooled.record("split")["dataset"], "movielens_ratings"))
    with pytest.raises(ConfigError, match="does not allow to pass its ratings on"):
        hub_folder(pooled, [(judged, IPP)], tmp_path / "hub", with_ratings=True)
    assert not (tmp_path / "hub").exists()


def test_ratings_that_are_passed_on_go_with_their_licence(pooled, simulate, tmp_path):
    simulate()
    judged = one_judge(pooled)
    path = pooled.path / "split.json"
    path.write_text(path.read_text().replace(pooled.record("split")["dataset"], "goodbooks_ratings"))
    for with_ratings in (True, False):
        hub_folder(pooled, [(judged, IPP)], tmp_path / "hub", with_ratings=with_ratings)
        card = (tmp_path / "hub" / "README.md").read_text()
        assert card.startswith("---\nlicense: cc-by-sa-4.0\nconfigs:" if with_ratings else "---\nconfigs:")
        assert ("CC BY-SA 4.0: may be passed on with attribution, under the same licence" in card) == with_ratings
        assert "Goodbooks-10k ratings (https://github.com/zygmuntz/goodbooks-10k)" in card
        assert "Zygmunt Zając. 2017." in card


# --- people's validation ---------------------------------------------------------------------------------------------


def test_uncertain_pairs_the_farthest_apart_first():
    one = grades(a=(3, 0, 5), b=(2, 2, 3), c=3, d=(None, None, None), q=(1, 0, 5))
    other = grades(b=2, c=1, d=4)
    found = list_uncertain({"one": one, "other": other}, HUMAN, POOL)
    # a is rated, q is not pooled, d has one grade only.
    assert found.select(["item", "lowest", "highest", "range"]).to_pylist() == [
        {"item": "c", "lowest": 1, "highest": 3, "range": 2},
        {"item": "b", "lowest": 2, "highest": 3, "range": 1},
    ]
    assert list_uncertain({"one": one, "other": other}, HUMAN, POOL, n=1)["item"].to_pylist() == ["c"]


def test_validations_come_back_and_go_before_the_judge(pooled, simulate, tmp_path):
    simulate(answer=lambda request: str(2 * request.repeat) if request.stage == "grade" else None)
    judged = one_judge(pooled, "simulated:judge?temperature=1", n_samples=2)
    human = held_out_pairs(pooled, sampled_users(pooled))
    table = list_uncertain({"": judged.grades(IPP)}, human, pooled.read("pool"), n=4)
    assert table.num_rows == 4
    path = tmp_path / "todo.csv"
    write_uncertain(pooled, table, path)
    lines = path.read_text().splitlines()
    assert lines[0].endswith('"text","grade"')
    assert "Plot: A story" in lines[1]
    path.write_text("\n".join([lines[0], *(line.removesuffix('""') + '"4.5"' for line in lines[1:4]), lines[4]]) + "\n")
    assert import_validations(pooled, path, by="me") == {"n_imported": 3, "n_replaced": 0, "n_empty": 1}
    assert import_validations(pooled, path)["n_replaced"] == 3
    record = expand(pooled, judged, IPP)
    assert record["n_validated"] == 3
    assert set(read_validations(pooled)["grade"].to_pylist()) == {4.5}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["u,i,6"], "the grade is '6'; it must be a number from 0 to 5"),
        (["u,i,good"], "the grade is 'good'"),
        (["u,i,nan"], "the grade is 'nan'"),
        (["nobody,nothing,3"], "the pair is not in the pool"),
        (["{user},{item},3", "{user},{item},4"], "the pair stands there twice"),
    ],
)
def test_broken_validations_are_errors_that_name_the_row(pooled, tmp_path, lines, message):
    pair = pooled.read("pool").slice(0, 1).to_pylist()[0]
    path = tmp_path / "graded.csv"
    path.write_text("\n".join(["user,item,grade", *(line.format(**pair) for line in lines)]) + "\n")
    with pytest.raises(DataError, match=message) as raised:
        import_validations(pooled, path)
    assert "graded row" in str(raised.value)
    assert read_validations(pooled) is None


def test_a_file_without_the_columns(pooled, tmp_path):
    path = tmp_path / "graded.csv"
    path.write_text("user,item\nu,i\n")
    with pytest.raises(DataError, match="no csv with the columns user, item, grade"):
        import_validations(pooled, path)


def one_judge(work, model="simulated:judge", **options):
    with open_judge(work, model) as judging:
        induce(work, judging)
        judge(work, judging, [IPP], **options)
        return Judged(work, judging.name)
