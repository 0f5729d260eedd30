import json

import pytest
from gistbench.runners.engines.lexical.reading import record
from gistbench.runners.retries import Retry
from gistbench.runners.stages.extract import Chunk, Extract

HISTORY = [(f"o{n}", f"text {n}", ("e+", "i+", "i-", "e-")[n % 4]) for n in range(7)]


def answer(*interests):
    return json.dumps([{"interest": name, "item_ids": list(ids)} for name, *ids in interests])


def shown(request):
    return [entry.item_id for entry in record(request.messages[1].content)]


@pytest.fixture
def make_stage(asker, make_histories):
    def make(histories=None, **options):
        return Extract(asker("extract"), histories or make_histories(u=HISTORY, v=HISTORY[:3]), **options)

    return make


@pytest.mark.parametrize(
    ("size", "chunks"), [(1, 7), (3, 3), (6, 2), (7, 1), (8, 1), (100, 1)]
)  # fmt: skip
def test_chunks_cover_the_history_once_newest_first(make_stage, size, chunks):
    stage = make_stage(chunk_size=size)
    mine = [chunk for chunk in stage.subjects() if chunk.user == "u"]
    assert mine == [Chunk("u", position, chunks) for position in range(chunks)]
    parts = [shown(stage.request(chunk)) for chunk in mine]
    assert [object_id for part in parts for object_id in part] == [f"o{n}" for n in range(7)]
    assert all(len(part) == size for part in parts[:-1])


@pytest.mark.parametrize(("length", "parts"), [(1, [1]), (3, [3]), (4, [3, 1]), (7, [3, 3, 1]), (50, [3, 3, 1])])
def test_only_the_newest_engagements_are_shown(make_stage, length, parts):
    stage = make_stage(chunk_size=3, history_length=length)
    mine = [chunk for chunk in stage.subjects() if chunk.user == "u"]
    found = [shown(stage.request(chunk)) for chunk in mine]
    assert [len(part) for part in found] == parts
    assert [object_id for part in found for object_id in part] == [f"o{n}" for n in range(min(length, 7))]


def test_a_request_shows_id_kind_and_text(make_stage, make_histories):
    odd = make_histories(u=[("a b", "two\nlines", "e+"), ("plain", "</item> | x", "i-")])
    (request,) = (make_stage(odd).request(chunk) for chunk in make_stage(odd).subjects())
    lines = 'The record:\n"a b" | explicit_positive | two lines\nplain | implicit_negative | ‹/item› | x\n\n'
    assert lines in request.messages[1].content
    assert str(request.about) == "user u, chunk 1 of 1"


def test_only_the_data_sets_signals_are_explained(make_stage, make_histories):
    histories = make_histories(signals=["explicit_positive"], u=[("a", "x", "e+")])
    content = make_stage(histories).request(Chunk("u", 0, 1)).messages[1].content
    assert "implicit" not in content


def test_same_named_interests_merge_over_chunks_ids_in_first_seen_order(make_stage, answered):
    stage = make_stage(chunk_size=3)
    first, second, third = (chunk for chunk in stage.subjects() if chunk.user == "u")
    (other,) = (chunk for chunk in stage.subjects() if chunk.user == "v")
    answers = [
        answered(stage, third, answer(("Jazz", "o6", "o2"), ("Tea",))),
        answered(stage, first, answer(("Jazz", "o2", "o0"), ("Blues", "o1"), (" Jazz ", "o5"))),
        answered(stage, other, answer(("Jazz", "o1"))),
        answered(stage, second, answer(("Blues", "o1", "ghost", "o3"))),
    ]
    keys = {answer.subject: answer.key for answer in answers}
    users, extractions = stage.records(answers)
    rows = extractions.to_pylist()
    assert [(row["user_id"], row["interest"], row["item_ids"], row["chunks"]) for row in rows] == [
        ("u", "Jazz", ["o2", "o0", "o5", "o6"], [0, 2]),
        ("u", "Blues", ["o1", "ghost", "o3"], [0, 1]),
        ("u", "Tea", [], [2]),
        ("v", "Jazz", ["o1"], [0]),
    ]
    assert rows[0]["request_keys"] == [keys[first], keys[third]]
    # However the answers arrive.
    assert stage.records(answers[::-1])[1].equals(extractions)
    assert [row["n_chunks_answered"] for row in users.to_pylist()] == [3, 1]


@pytest.mark.parametrize(("n_failed", "scored"), [(0, True), (1, True), (2, False), (10, False)])
def test_a_user_counts_when_nine_tenths_of_the_chunks_are_answered(asker, make_histories, answered, n_failed, scored):
    history = [(f"o{n}", "x", "e+") for n in range(10)]
    stage = Extract(asker("extract"), make_histories(u=history), chunk_size=1)
    answers = [
        answered(stage, chunk, None if chunk.position < n_failed else answer(("Jazz", f"o{chunk.position}")))
        for chunk in stage.subjects()
    ]
    users, extractions = stage.records(answers)
    (user,) = users.to_pylist()
    assert (user["n_engagements"], user["n_chunks"], user["n_chunks_answered"]) == (10, 10, 10 - n_failed)
    assert user["scored"] is scored
    assert extractions.num_rows == scored


@pytest.mark.parametrize("n_chunks", range(1, 60))
def test_nine_tenths_is_exact(n_chunks, asker, make_histories, answered):
    """0.9 is no binary fraction: 9 of 10, 18 of 20, 27 of 30 must not fall to a rounding error."""
    history = [(f"o{n}", "x", "e+") for n in range(n_chunks)]
    stage = Extract(asker("extract"), make_histories(u=history), chunk_size=1)
    least = -(-9 * n_chunks // 10)
    for n_answered in (least - 1, least):
        answers = [answered(stage, c, "[]" if c.position < n_answered else None) for c in stage.subjects()]
        assert stage.records(answers)[0]["scored"].to_pylist() == [n_answered == least]


def test_what_could_be_salvaged_of_a_cut_answer_counts_as_answered(make_stage, answered):
    stage = make_stage(chunk_size=7)
    mine, other = stage.subjects()
    cut = answered(stage, mine, answer(("Jazz", "o1"), ("Blues", "o2"))[:-20], finish_reason="length")
    assert cut.parsed.status == "truncated"
    assert stage.follow_up(mine, cut.parsed) is None
    users, extractions = stage.records([cut, answered(stage, other, "[]")])
    assert extractions["interest"].to_pylist() == ["Jazz"]
    assert users["scored"].to_pylist() == [True, True]


def test_an_unreadable_answer_is_asked_again_and_the_first_one_does_not_count(make_stage, answered):
    stage = make_stage(chunk_size=7)
    mine, other = stage.subjects()
    bad = answered(stage, mine, "I would say jazz", followed_up=True)
    assert stage.follow_up(mine, bad.parsed) == mine
    assert stage.request(mine, Retry(1)).key != stage.request(mine).key
    good = answered(stage, mine, answer(("Jazz", "o1")), retry=Retry(1))
    users, extractions = stage.records([bad, good, answered(stage, other, "[]")])
    assert users.to_pylist()[0]["n_chunks"] == 1
    assert extractions["request_keys"].to_pylist() == [[good.key]]


def test_dropped_members_are_counted(make_stage, answered):
    stage = make_stage(chunk_size=7)
    mine, other = stage.subjects()
    text = '[{"interest": "Jazz", "item_ids": [1, null]}, {"item_ids": ["o2"]}, 7, {"interest": null}]'
    users, extractions = stage.records([answered(stage, mine, text), answered(stage, other, "[]")])
    assert users["n_members_dropped"].to_pylist() == [3, 0]
    assert extractions["item_ids"].to_pylist() == [["1"]]


def test_a_user_for_whom_nothing_is_found_is_scored(make_stage, answered):
    stage = make_stage()
    users, extractions = stage.records([answered(stage, chunk, "[]") for chunk in stage.subjects()])
    assert users["scored"].to_pylist() == [True, True]
    assert extractions.num_rows == 0


def test_a_candidate_is_held_to_a_schema_only_when_its_configuration_says_so(make_stage):
    assert make_stage().request(Chunk("u", 0, 1)).schema is None


def test_a_candidate_that_is_held_to_a_schema_can_cite_all_that_is_shown_and_nothing_else(asker, make_histories):
    long = "https://example.org/videos/" + "0123456789abcdef" * 6
    history = [(long, "x", "e+"), (long, "x", "i+"), ('a "b"', "y", "i+"), ("c", "z", "e-")]
    stage = Extract(asker("extract", structured=True), make_histories(u=history), chunk_size=3)
    interest = stage.request(Chunk("u", 0, 2)).schema["json"]["items"]["properties"]
    assert interest["item_ids"]["items"] == {"enum": [long, 'a "b"']}
    assert interest["item_ids"]["maxItems"] == 2
