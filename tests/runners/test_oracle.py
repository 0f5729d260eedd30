import json
import warnings

import pytest
from gistbench.hf_datasets import Taxonomy
from gistbench.hf_datasets.errors import ConfigError, GistbenchWarning
from gistbench.runners.oracle import build_oracle, read_given_oracle
from hypothesis import given
from hypothesis import strategies as st

TAXONOMY = Taxonomy("test", (1, 2, 3, 4), ("Jazz", "Tea", "Chess", "Golf"))
OTHER = Taxonomy("other", (1, 2, 3, 4), ("Golf", "Tea", "Chess", "Jazz"))
BASE = {"preset": "base", "explicit_positive": 2}
VERIFIED = {
    "a": [("u", 3), ("u", 1), ("u", 1), ("v", 0)],
    "b": [("u", 3), ("w", 2), ("u", 0)],
    "c": [("u", 3), ("w", 4), ("u", 1)],
}


def build(verified=VERIFIED, *, given=None, taxonomy=TAXONOMY, judge="judge@1", thresholds=BASE):
    return build_oracle(verified, given=given, taxonomy=taxonomy, judge=judge, thresholds=thresholds)


def test_the_union_of_what_candidates_verified():
    oracle = build()
    assert oracle.categories == {"u": [1, 3], "w": [2, 4]}
    assert oracle.verified_by == {"u": {1: ("a", "c"), 3: ("a", "b", "c")}, "w": {2: ("b",), 4: ("c",)}}


def test_a_given_oracle_joins_and_counts_as_one():
    oracle = build(given={"u": [1, 2, 0], "x": [4], "y": []})
    assert oracle.categories == {"u": [1, 2, 3], "w": [2, 4], "x": [4]}
    assert oracle.verified_by["u"] == {1: ("a", "c", "given"), 2: ("given",), 3: ("a", "b", "c")}


def test_category_0_is_in_no_oracle_and_leaves_no_trace():
    with_zeros = {**VERIFIED, "c": [*VERIFIED["c"], ("z", 0)]}
    without = {name: [pair for pair in pairs if pair[1]] for name, pairs in VERIFIED.items()}
    assert build(with_zeros).categories == build(without).categories
    assert build(with_zeros).version == build(without).version


def test_without_a_taxonomy_names_are_categories():
    oracle = build({"a": [("u", "Jazz"), ("u", "Bebop")], "b": [("u", "Jazz")], "c": []}, taxonomy=None)
    assert oracle.categories == {"u": ["Bebop", "Jazz"]}
    assert (oracle.taxonomy, oracle.taxonomy_sha256) == ("none", "")


PAIRS = st.lists(st.tuples(st.sampled_from("uvw"), st.integers(0, 4)), max_size=12)


@given(st.lists(PAIRS, min_size=3, max_size=3), st.permutations(range(3)), st.randoms())
def test_order_changes_neither_the_version_nor_a_byte(tmp_path_factory, candidates, places, random):
    verified = dict(zip("abc", candidates, strict=True))
    shuffled = {name: random.sample(verified[name], len(verified[name])) for name in ("abc"[i] for i in places)}
    one, two = build(verified), build(shuffled)
    assert one.version == two.version
    folder = tmp_path_factory.getbasetemp()
    one.write(folder / "one.json")
    two.write(folder / "two.json")
    assert (folder / "one.json").read_bytes() == (folder / "two.json").read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        {"verified": {**VERIFIED, "c": [("w", 4), ("w", 3)]}},
        {"given": {"u": [2]}},
        {"taxonomy": OTHER},
        {"judge": "judge@2"},
        {"thresholds": {**BASE, "explicit_positive": 3}},
    ],
)
def test_all_it_depends_on_changes_the_version(change):
    assert build(**change).version != build().version


def test_who_found_it_and_what_the_taxonomy_is_called_does_not_change_the_version():
    renamed = Taxonomy("renamed", TAXONOMY.ids, TAXONOMY.names)
    assert build(dict(zip("xyz", VERIFIED.values(), strict=True)), taxonomy=renamed).version == build().version
    assert build(given={"u": [1]}).version == build().version


@pytest.mark.parametrize(("n", "words"), [(1, "one candidate"), (2, "2 candidates")])
def test_fewer_than_three_candidates_are_told_what_recall_then_means(n, words):
    few = dict(list(VERIFIED.items())[:n])
    with pytest.warns(GistbenchWarning, match=f"The oracle is what {words} verified: recall says how much of that"):
        assert build(few).categories["u"] == [1, 3]


def test_three_candidates_or_a_given_oracle_need_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build()
        build({"a": VERIFIED["a"]}, given={"u": [1]})


def test_ours_reads_back(tmp_path):
    oracle = build(given={"x": [4]})
    oracle.write(tmp_path / "oracle.json")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_given_oracle(tmp_path / "oracle.json", TAXONOMY) == oracle.categories
    named = build({"a": [("u", "Jazz")], "b": [], "c": []}, taxonomy=None)
    named.write(tmp_path / "named.json")
    assert read_given_oracle(tmp_path / "named.json", None) == {"u": ["Jazz"]}


def write(path, value):
    path.write_text(json.dumps(value))
    return path


@pytest.mark.parametrize(
    "content", [{"dataset": "synthetic", "oracle": {"7": [1, 3], "8": []}}, {"7": [1, 3], "8": []}]
)
def test_the_official_format_and_a_bare_one_are_read_with_a_warning(tmp_path, content):
    with pytest.warns(GistbenchWarning, match="does not name its taxonomy; its ids are taken to belong to 'test'"):
        assert read_given_oracle(write(tmp_path / "o.json", content), TAXONOMY) == {"7": [1, 3], "8": []}


@pytest.mark.filterwarnings("ignore::gistbench.hf_datasets.errors.GistbenchWarning")
def test_the_official_oracle(shared):
    from gistbench.hf_datasets import load_taxonomy

    folder = shared / "reference" / "gistbench"
    official = load_taxonomy("official", source=folder / "categories.csv")
    oracle = read_given_oracle(folder / "oracle_synthetic.json", official)
    assert len(oracle) == 997
    # The copy beside the checkout has no white space; the official bytes are its indented form.
    with pytest.raises(ConfigError, match="belongs to the taxonomy 'official'"):
        read_given_oracle(folder / "oracle_synthetic.json", TAXONOMY)
    with pytest.raises(ConfigError, match="belongs to the taxonomy 'official'"):
        read_given_oracle(folder / "oracle_synthetic.json", load_taxonomy("open"))


@pytest.mark.parametrize("taxonomy", [OTHER, None])
def test_an_oracle_of_another_taxonomy_is_refused(tmp_path, taxonomy):
    build().write(tmp_path / "oracle.json")
    with pytest.raises(ConfigError, match=r"belongs to the taxonomy 'test' .*, this run to '(other|none)'"):
        read_given_oracle(tmp_path / "oracle.json", taxonomy)
    build({"a": [("u", "Jazz")], "b": [], "c": []}, taxonomy=None).write(tmp_path / "named.json")
    with pytest.raises(ConfigError, match="different taxonomies mean different things"):
        read_given_oracle(tmp_path / "named.json", TAXONOMY)


@pytest.mark.filterwarnings("ignore::gistbench.hf_datasets.errors.GistbenchWarning")
@pytest.mark.parametrize("category", [9, -1, "1", "Jazz", True, 3.0, None, [1]])
def test_what_is_no_category_is_refused(tmp_path, category):
    path = write(tmp_path / "o.json", {"u": [1, category]})
    with pytest.raises(ConfigError, match=r"category .* of user 'u' is not in the taxonomy of this run"):
        read_given_oracle(path, TAXONOMY)


@pytest.mark.filterwarnings("ignore::gistbench.hf_datasets.errors.GistbenchWarning")
def test_category_0_in_a_given_oracle_is_passed_over(tmp_path):
    given = read_given_oracle(write(tmp_path / "o.json", {"u": [0, 2]}), TAXONOMY)
    assert build({"a": [], "b": [], "c": []}, given=given).categories == {"u": [2]}


@pytest.mark.filterwarnings("ignore::gistbench.hf_datasets.errors.GistbenchWarning")
@pytest.mark.parametrize("content", [[1, 2], {"u": 3}, {"oracle": [1]}, "x", None])
def test_what_is_no_oracle_is_refused(tmp_path, content):
    with pytest.raises(ConfigError, match="is no oracle: expected a JSON object of users"):
        read_given_oracle(write(tmp_path / "o.json", content), TAXONOMY)


def test_no_file(tmp_path):
    with pytest.raises(ConfigError, match="There is no oracle file"):
        read_given_oracle(tmp_path / "o.json", TAXONOMY)
