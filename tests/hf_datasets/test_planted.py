import re

import numpy as np
import pytest
from gistbench.hf_datasets.errors import ConfigError
from gistbench.hf_datasets.planted import planted_oracle, planted_truth
from gistbench.hf_datasets.planting import Planting, PlantingParameters
from gistbench.hf_datasets.registry import load_engagements
from gistbench.hf_datasets.schema import INTERACTION_TYPES, describe_engagements, fingerprint_engagements
from gistbench.hf_datasets.taxonomy import Taxonomy, load_taxonomy

SETTINGS = {  # explicit, implicit, hybrid explicit and implicit, implicit cap, explicit cap (the paper's Table 20)
    "lenient": (1, 1, 1, 1, 4, 3),
    "base": (2, 3, 1, 2, 3, 2),
    "strict": (3, 4, 2, 3, 2, 1),
}
VERDICTS = {  # lenient, base, strict
    "strong": (True, True, True),
    "explicit_minimum": (True, True, False),
    "implicit_minimum": (True, True, False),
    "hybrid_minimum": (True, True, False),
    "only_negatives": (False, False, False),
    "too_few": (True, False, False),
    "over_cap": (True, False, False),
}
SMALL = {"n_users": 60, "n_engagements_per_user": 90, "n_topics": 12}


def verdict(counts, setting):
    ep, ip, in_, en = counts
    e, i, hybrid_e, hybrid_i, in_cap, en_cap = SETTINGS[setting]
    return (ep >= e or ip >= i or (ep >= hybrid_e and ip >= hybrid_i)) and in_ <= in_cap and en <= en_cap


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    table = load_engagements("planted", cache_dir=tmp_path_factory.mktemp("cache"), **SMALL).to_pandas()
    return table, planted_truth(**SMALL).to_pylist()


def test_every_verdict_holds_in_the_rows(small):
    table, truth = small
    histories = dict(iter(table.groupby("user_id")))
    reasons = set()
    for interest in truth:
        history = histories[interest["user_id"]]
        items = history[history["object_id"].isin(interest["item_ids"])]
        assert len(items) == len(interest["item_ids"]) == len(set(interest["item_ids"]))
        counts = [int((items["interaction_type"] == kind).sum()) for kind in INTERACTION_TYPES]
        found = tuple(verdict(counts, setting) for setting in SETTINGS)
        assert found == VERDICTS[interest["reason"]], (interest, counts)
        assert interest["verified"] == found[1]
        reasons.add(interest["reason"])
    assert reasons == set(VERDICTS)


def test_items_are_exactly_the_objects_whose_text_names_the_interest(small):
    table, truth = small
    for interest in truth[:40]:
        history = table[table["user_id"] == interest["user_id"]]
        named = history[history["object_text"].str.contains(f" {interest['interest']} ", regex=False)]
        assert set(named["object_id"]) == set(interest["item_ids"])


def test_interests_are_categories_of_the_open_taxonomy(small):
    taxonomy = load_taxonomy("open")
    _, truth = small
    assert all(taxonomy.name_of(interest["category_id"]) == interest["interest"] for interest in truth)
    assert len({interest["interest"] for interest in truth}) == SMALL["n_topics"]
    per_user = {}
    for interest in truth:
        per_user.setdefault(interest["user_id"], []).append(interest["category_id"])
    assert all(len(ids) == len(set(ids)) == 8 for ids in per_user.values())


def test_noise_names_no_category(small):
    table, truth = small
    evidence = {(interest["user_id"], item) for interest in truth for item in interest["item_ids"]}
    keys = zip(table["user_id"], table["object_id"], strict=True)
    noise = table[[key not in evidence for key in keys]]
    assert len(noise) == 60 * 27  # 0.3 of 90
    words = {word for name in load_taxonomy("open").names for word in name.casefold().split()} - {"&", "the", "of"}
    for text in noise["object_text"]:
        assert not words & set(text.casefold().replace(",", "").replace(":", "").split()), text


def test_shape(small, tmp_path):
    table, _ = small
    stats = describe_engagements(load_engagements("planted", cache_dir=tmp_path, **SMALL))
    assert stats.n_users == 60
    assert stats.engagements_per_user.minimum == stats.engagements_per_user.maximum == 90
    assert stats.signals == INTERACTION_TYPES
    assert stats.n_duplicates == stats.n_objects_with_conflicting_text == stats.n_missing_times == 0
    assert not table.duplicated(["user_id", "object_id"]).any()
    assert (table.groupby("user_id")["interaction_time"].diff().dropna() <= 0).all()
    assert table["user_id"].is_monotonic_increasing


def test_oracle_is_the_verified_part_of_the_truth(small):
    _, truth = small
    oracle = planted_oracle(**SMALL)
    assert len(oracle) == 60
    for user, ids in oracle.items():
        assert ids == sorted(i["category_id"] for i in truth if i["user_id"] == user and i["verified"])
        assert len(ids) == 5


def test_the_first_users_do_not_depend_on_the_number_of_users():
    few = planted_truth(n_users=3).to_pylist()
    assert planted_truth(n_users=1001).to_pylist()[: len(few)] == few
    tables = [next(iter(Planting(PlantingParameters(n_users=n), load_taxonomy()).engagement_tables())) for n in (3, 20)]
    assert tables[1].slice(0, 900).equals(tables[0])


@pytest.fixture(scope="module")
def long_texts():
    planting = Planting(PlantingParameters(**SMALL, n_sentences_per_text=2), load_taxonomy("open"))
    return next(iter(planting.engagement_tables()))


def test_texts_are_as_long_as_captions_and_posts(long_texts):
    lengths = [len(text) for text in set(long_texts["object_text"].to_pylist())]
    lowest, median, high, longest = np.quantile(lengths, [0.05, 0.5, 0.9, 1])
    assert 40 < lowest < 150 < median < 250 < 350 < high < 550
    assert 900 < longest < 3000


def test_sentences_change_texts_and_nothing_else(long_texts):
    (short,) = Planting(PlantingParameters(**SMALL), load_taxonomy("open")).engagement_tables()
    assert long_texts.drop_columns("object_text").equals(short.drop_columns("object_text"))
    pairs = zip(long_texts["object_text"].to_pylist(), short["object_text"].to_pylist(), strict=True)
    assert all(long.startswith(f"{title}.") for long, title in pairs)


def test_sentences_hold_no_word_of_a_category(long_texts):
    words = {word for name in load_taxonomy("open").names for word in name.casefold().split()} - {"&", "the", "of"}
    for text in set(long_texts["object_text"].to_pylist()):
        sentences = text.partition(". ")[2]
        assert not words & set(re.findall(r"[a-z0-9]+", sentences.casefold())), text


def test_seed_counts_and_repeats():
    assert planted_truth(n_users=5, seed=1).equals(planted_truth(n_users=5, seed=1))
    assert not planted_truth(n_users=5, seed=1).equals(planted_truth(n_users=5, seed=2))
    long, again, other = (
        Planting(PlantingParameters(**SMALL, n_sentences_per_text=2, seed=seed), load_taxonomy()) for seed in (1, 1, 2)
    )
    assert long._object_texts == again._object_texts != other._object_texts


def test_rows_are_pinned_to_the_version():
    """A failure here means other rows for the same parameters: bump Planted.VERSION, then pin the new value."""
    taxonomy = Taxonomy("t", tuple(range(1, 13)), tuple(f"Name{i}" for i in range(12)))
    planting = Planting(PlantingParameters(**SMALL), taxonomy)
    (table,) = planting.engagement_tables()
    assert fingerprint_engagements(table) == "a75872188674612fda2a789808aeb1ae801b82192f5e615fcfc1f573b964917a"


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_interests_per_user": 1, "n_false_interests_per_user": 0, "n_topics": 1, "noise_share": 0.0},
        {"n_interests_per_user": 1, "n_false_interests_per_user": 0, "n_topics": 1, "noise_share": 0.0}
        | {"n_engagements_per_user": 4},
        {"n_interests_per_user": 2, "n_false_interests_per_user": 5, "n_topics": 7, "n_engagements_per_user": 2000},
        {"n_interests_per_user": 30, "n_false_interests_per_user": 10, "n_topics": 300},
    ],
)
def test_odd_shapes(parameters):
    planting = Planting(PlantingParameters(n_users=4, **parameters), load_taxonomy())
    (table,) = planting.engagement_tables()
    truth = planting.truth()
    size = planting.parameters.n_engagements_per_user
    assert np.unique(table["user_id"].to_numpy(), return_counts=True)[1].tolist() == [size] * 4
    n = parameters["n_interests_per_user"] + parameters["n_false_interests_per_user"]
    assert truth.num_rows == 4 * n
    assert sum(truth["verified"].to_pylist()) == 4 * parameters["n_interests_per_user"]


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"n_users": 0}, "n_users is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"n_sentences_per_text": -1}, "n_sentences_per_text is -1"),
        ({"noise_share": 1.0}, "noise_share is 1.0"),
        ({"n_topics": 7}, "n_topics is 7, but each user needs 8 topics"),
        ({"n_topics": 5000}, "has only"),
        ({"n_engagements_per_user": 30}, "leaves 5 for 4 strong interests"),
        ({"n_user": 3}, r"no parameter 'n_user'.* Did you mean 'n_users'\?"),
        ({"n_users": "3"}, "must be of type int"),
    ],
)
def test_parameters_that_do_not_fit(parameters, problem):
    with pytest.raises(ConfigError, match=problem):
        planted_truth(**parameters)
