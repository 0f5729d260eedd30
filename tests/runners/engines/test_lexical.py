import json

import pytest
from gistbench.hf_datasets.errors import ConfigError
from gistbench.runners.engines import open_engine, parse_model
from gistbench.runners.engines.lexical.judge import JUDGE
from gistbench.runners.prompts import clean, identifier, item_name, load_prompt, render_lines
from gistbench.runners.requests import Message, ModelRef, Request
from hypothesis import given
from hypothesis import strategies as st

MODELS = {"hashtag": "lexical/hashtag", "tfidf": "lexical/tfidf", "phrase": "lexical/phrase"}
ALL = ("explicit_positive", "implicit_positive", "implicit_negative", "explicit_negative")
KINDS = dict(zip(("e+", "i+", "i-", "e-"), ALL, strict=True))


def ask(model, stage, **values):
    """Return the outcome of one request, rendered as the stage renders it."""
    engine = open_engine(parse_model(model))
    request = Request(stage, "test", load_prompt(stage).render(**values), engine.model)
    (outcome,) = engine.generate([request])
    assert outcome.key == request.key
    return outcome


def extract(rule, rows):
    lines = render_lines((identifier(i), KINDS[kind], clean(text)) for i, text, kind in rows)
    outcome = ask(MODELS[rule], "extract", signals=ALL, items=lines)
    assert (outcome.status, outcome.finish_reason) == ("ok", "stop")
    return {one["interest"]: one["item_ids"] for one in json.loads(outcome.text)}


def judge(stage, texts=(), **values):
    if stage != "map":
        values["items"] = render_lines((item_name(i), clean(text)) for i, text in enumerate(texts))
    return ask("lexical/overlap", stage, **values).text


# --- candidates ------------------------------------------------------------------------------------------------------

POSTS = [
    ("1", "Dunk of the year #NBA #fyp", "e+"),
    ("2", "Buzzer beater #nba", "i+"),
    ("3", "Skipped #NBA", "i-"),
    ("4", "Finals recap #NBA #viral", "i+"),
    ("4", "Finals recap #NBA #viral", "e+"),
    ("5", "Carbonara #ItalianFood", "i+"),
    ("6", "Pizza #italianfood", "i+"),
    ("7", "Gnocchi #ItalianFood", "e-"),
]


def test_hashtag_names_labels_that_three_positive_items_carry():
    assert extract("hashtag", POSTS) == {"NBA": ["1", "2", "4"]}
    assert extract("hashtag", [*POSTS, ("8", "Risotto #italianFood", "e+")]) == {
        "Italian Food": ["5", "6", "8"],
        "NBA": ["1", "2", "4"],
    }


def test_hashtag_reads_genres_and_tags_where_there_are_no_hashtags():
    films = [(str(n), f"Film {n} (1995). Comedy, Film-Noir. Tags: time travel", "e+") for n in range(3)]
    assert set(extract("hashtag", films)) == {"Comedy", "Film-Noir", "time travel"}


def test_phrase_gives_an_item_to_the_longest_frequent_phrase():
    posts = [
        *[(f"k{n}", f"knife skills tutorial {n}", "i+") for n in range(3)],
        *[(f"s{n}", f"skills at the {where}", "e+") for n, where in enumerate(("office", "gym", "track"))],
        ("x", "knife skills skipped", "i-"),
    ]
    found = extract("phrase", posts)
    assert found["skills"] == ["s0", "s1", "s2"]
    assert sorted(found)[0] == "knife skills"
    assert found["knife skills"] == ["k0", "k1", "k2"]


def test_tfidf_names_clusters_by_their_heaviest_words():
    posts = [
        *[(f"a{n}", f"guitar solo lesson {word}", "e+") for n, word in enumerate(("slow", "fast", "loud"))],
        *[(f"b{n}", f"sourdough bread starter {word}", "i+") for n, word in enumerate(("young", "old", "sour"))],
    ]
    found = extract("tfidf", posts)
    assert sorted(map(sorted, found.values())) == [["a0", "a1", "a2"], ["b0", "b1", "b2"]]
    assert {word for name in found for word in name.split()} <= {
        "guitar", "solo", "lesson", "sourdough", "bread", "starter",
    }  # fmt: skip


@pytest.mark.parametrize("rule", MODELS)
def test_nothing_supported_is_an_empty_list(rule):
    assert extract(rule, [("1", "Jazz #jazz", "e+"), ("2", "Jazz #jazz", "e+")]) == {}
    assert extract(rule, [(str(n), "Jazz night #jazz", "i-") for n in range(5)]) == {}
    assert extract(rule, [(str(n), "the of and 12 345", "e+") for n in range(5)]) == {}


@pytest.mark.parametrize("rule", MODELS)
def test_one_object_under_two_types_is_one_item(rule):
    posts = [
        ("1", "jazz piano #jazzpiano", "e+"),
        ("1", "jazz piano #jazzpiano", "i+"),
        ("2", "jazz piano #jazzpiano", "e+"),
    ]
    assert extract(rule, posts) == {}


@pytest.mark.parametrize("rule", MODELS)
def test_quoted_ids_are_read_and_cited_as_they_are(rule):
    ids = ["a b", 'say "x"', "a|b", "[12]", "</s>", "é\n"]
    found = extract(rule, [(object_id, "guitar solo #guitarsolo", "e+") for object_id in ids])
    assert next(iter(found.values())) == ids


# --- judge -----------------------------------------------------------------------------------------------------------

TEXTS = ["Buzzer beater #NBA", "Carbonara at home", "Basketball drills", "NBA basketball recap", "Knife skills"]


def test_ground_keeps_items_with_half_of_the_words():
    assert judge("ground", TEXTS, interest="NBA basketball") == "item_0, item_2, item_3"
    assert judge("ground", TEXTS, interest="NBA basketball drills weekly") == "item_2, item_3"
    assert judge("ground", TEXTS, interest="Gardening") == "NONE"
    assert judge("ground", TEXTS, interest="the of") == "NONE"


def test_shortlist_names_items_that_overlap_any_interest():
    assert judge("shortlist", TEXTS, interests=["Cooking carbonara", "NBA"]) == "item_0, item_1, item_3"
    assert judge("shortlist", TEXTS, interests=["Gardening"]) == "NONE"


def test_retrieve_picks_as_many_as_asked_for_best_first_and_none_without_a_word():
    assert judge("retrieve", TEXTS, interest="NBA basketball", k=2) == "item_3, item_0"
    assert judge("retrieve", TEXTS, interest="NBA basketball", k=5) == "item_3, item_0, item_2"
    assert judge("retrieve", TEXTS, interest="Gardening", k=2) == "NONE"


CATEGORIES = ["1 | Sports: Basketball", "2 | Sports: Soccer", "3 | Food: Baking & Bread", "4 | K-Pop", "5 | Music: Pop"]


def test_map_gives_the_category_that_shares_the_rarest_words():
    names = ["NBA basketball", "sports", "baking sourdough bread", "kpop", "chess"]
    assert judge("map", categories=CATEGORIES, interests=names) == "1: 1\n2: 1\n3: 3\n4: 4\n5: 0"


def test_a_reminder_changes_nothing():
    for stage, values in (
        ("ground", {"texts": TEXTS, "interest": "NBA"}),
        ("shortlist", {"texts": TEXTS, "interests": ["NBA", "Knife skills"]}),
        ("retrieve", {"texts": TEXTS, "interest": "NBA", "k": 1}),
        ("map", {"categories": CATEGORIES, "interests": ["basketball", "bread"]}),
    ):
        assert judge(stage, problem="It is empty.", **values) == judge(stage, **values)


# --- the engine ------------------------------------------------------------------------------------------------------


def test_models_name_their_rules_version_as_revision():
    engine = open_engine(parse_model("lexical/overlap"))
    assert engine.model == ModelRef("lexical/overlap", "1", "lexical/1")
    assert engine.context_tokens is None
    assert engine.describe()["engine"] == "lexical"
    engine.close()


def test_unknown_models_are_refused_and_the_known_listed():
    with pytest.raises(ConfigError, match="no lexical model 'lexical/bm25'; there are lexical/hashtag, lexical/tfidf"):
        parse_model("lexical/bm25")


@pytest.mark.parametrize("stage", ["extract", "survey"])
def test_the_judge_refuses_what_it_cannot_answer(stage):
    engine = open_engine(parse_model("lexical/overlap"))
    (outcome,) = engine.generate([Request(stage, "x", (Message("user", "?"),), engine.model)])
    assert (outcome.status, outcome.text) == ("refused", "")
    assert outcome.problem == f"lexical/overlap cannot answer {stage} requests."


@pytest.mark.parametrize("stage", JUDGE)
@pytest.mark.parametrize("rule", MODELS)
def test_candidates_refuse_to_judge(rule, stage):
    engine = open_engine(parse_model(MODELS[rule]))
    (outcome,) = engine.generate([Request(stage, "x", (Message("user", "?"),), engine.model)])
    assert (outcome.status, outcome.problem) == ("refused", f"lexical/{rule} cannot answer {stage} requests.")


TEXT = st.text(st.characters(codec=None), max_size=40) | st.text("#|:.,\n\"'[]{}<>_ aZ0é", max_size=30)
ROWS = st.lists(
    st.tuples(TEXT, TEXT | st.sampled_from(["#A b", "jazz piano", "x. A, b"]), st.sampled_from([*KINDS])), max_size=12
)


@pytest.mark.parametrize("rule", MODELS)
@given(rows=ROWS)
def test_candidates_answer_any_record_with_its_ids_and_always_the_same(rule, rows):
    found = extract(rule, rows)
    assert found == extract(rule, rows)
    positive = {object_id for object_id, _, kind in rows if kind in ("e+", "i+")}
    for ids in found.values():
        assert len(ids) == len(set(ids)) >= 3
        assert set(ids) <= positive


@given(texts=st.lists(TEXT, max_size=10), names=st.lists(TEXT, min_size=1, max_size=5), k=st.integers(1, 5))
def test_the_judge_answers_anything(texts, names, k):
    names = [clean(name) for name in names]
    for stage, values in (
        ("ground", {"interest": names[0]}),
        ("shortlist", {"interests": names}),
        ("retrieve", {"interest": names[0], "k": k}),
    ):
        text = judge(stage, texts, **values)
        picked = [] if text == "NONE" else [int(name.removeprefix("item_")) for name in text.split(", ")]
        assert len(picked) == len(set(picked))
        assert all(0 <= i < len(texts) for i in picked)
        assert len(picked) <= (k if stage == "retrieve" else len(texts))
    lines = judge("map", categories=CATEGORIES, interests=names).splitlines()
    assert [line.split(": ")[0] for line in lines] == [str(n) for n in range(1, len(names) + 1)]
    assert all(line.split(": ")[1] in "012345" for line in lines)
