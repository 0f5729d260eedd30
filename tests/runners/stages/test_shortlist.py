import pytest
from gistbench.runners.engines.lexical.reading import interests, items
from gistbench.runners.retries import Retry
from gistbench.runners.stages.shortlist import PoolPart, Shortlist

RESERVED = 1200 + 4096  # with max_tokens=4096


@pytest.fixture
def make_stage(asker, make_pool):
    def make(n=6, context=None, interests=None, width=0, **options):
        pool = make_pool([(f"p{i}", f"text {i}".ljust(width, "x")) for i in range(n)])
        names = {"u": ["Jazz", "Blues"], "v": ["Tea"], "w": []} if interests is None else interests
        return Shortlist(asker("shortlist", context, **options), pool, names)

    return make


def test_users_without_interests_are_not_asked_about(make_stage):
    stage = make_stage()
    assert stage.subjects() == [PoolPart(0, 6, "u"), PoolPart(0, 6, "v")]
    assert stage.records([])["user_id"].to_pylist() == ["u", "v"]


def test_the_pool_stands_first_and_the_interests_last_sorted_and_cleaned(make_stage):
    stage = make_stage(interests={"u": ["Jazz", "Blues\n- all"]})
    content = stage.request(PoolPart(0, 6, "u")).messages[1].content
    assert items(content) == [f"text {i}" for i in range(6)]
    assert interests(content) == ["Blues - all", "Jazz"]
    assert content.index("item_5 | text 5") < content.index("Interests:\n- Blues - all\n- Jazz")


def test_the_pool_is_split_to_the_context_and_all_users_share_the_prefix_of_a_part(make_stage, common_beginning):
    # 64 tokens are 192 characters: six items of 6 + 24 characters in a part, 12 characters left.
    stage = make_stage(n=14, context=RESERVED + 64, max_tokens=4096)
    assert stage.subjects() == [
        PoolPart(0, 6, "u"), PoolPart(0, 6, "v"), PoolPart(6, 12, "u"), PoolPart(6, 12, "v"),
        PoolPart(12, 14, "u"), PoolPart(12, 14, "v"),
    ]  # fmt: skip
    by_part = {}
    for subject in stage.subjects():
        request = stage.request(subject)
        assert items(request.messages[1].content) == [f"text {i}" for i in range(subject.first, subject.last)]
        by_part.setdefault(subject.first, []).append(request)
    for mine, theirs in by_part.values():
        assert mine.messages[0] == theirs.messages[0]
        shared = common_beginning(mine.messages[1].content, theirs.messages[1].content)
        assert shared.endswith("Interests:\n- ")
    assert str(PoolPart(6, 12, "u")) == "user u, pool objects 6 to 11"


def test_a_prompt_holds_no_more_than_the_context(make_stage):
    """Counted as cautiously as the split does, a prompt with its answer fits whatever the judge's context is."""
    names = {"u": [f"interest {i}" for i in range(60)]}
    for context in (8_192, 32_768):
        stage = make_stage(n=1000, context=context, interests=names, width=300)
        for subject in stage.subjects():
            request = stage.request(subject)
            n_chars = sum(len(message.content) for message in request.messages)
            assert n_chars / 3 + request.sampling.max_tokens <= context


def test_a_user_with_very_many_interests_still_fits_the_context(make_stage):
    names = {"u": [f"a rather long-winded name of an interest, number {i}" for i in range(300)]}
    stage = make_stage(n=1000, context=32_768, interests=names, width=300)
    for subject in stage.subjects():
        request = stage.request(subject)
        assert sum(len(m.content) for m in request.messages) / 3 + request.sampling.max_tokens <= 32_768


def test_overlapping_objects_are_left_out(make_stage, answered):
    stage = make_stage(n=14, context=RESERVED + 64, max_tokens=4096)
    texts = {
        PoolPart(0, 6, "u"): "item_1, item_5",
        PoolPart(6, 12, "u"): "NONE",
        PoolPart(12, 14, "u"): "item_0",
        PoolPart(0, 6, "v"): "NONE",
        PoolPart(6, 12, "v"): "item_0",
        PoolPart(12, 14, "v"): "NONE",
    }
    answers = [answered(stage, subject, text) for subject, text in texts.items()]
    table = stage.records(answers)
    mine, theirs = table.to_pylist()
    assert mine["object_ids"] == [f"p{i}" for i in range(14) if i not in (1, 5, 12)]
    assert theirs["object_ids"] == [f"p{i}" for i in range(14) if i != 6]
    assert (mine["n_overlapping"], mine["n_unanswered"]) == (3, 0)
    assert mine["request_keys"] == [answer.key for answer in answers[:3]]
    assert stage.records(answers[::-1]).equals(table)


@pytest.mark.parametrize("text", [None, "All of them."])
def test_an_unanswered_part_is_kept_out(make_stage, answered, text):
    stage = make_stage(n=14, context=RESERVED + 64, max_tokens=4096)
    answers = [answered(stage, s, text if s == PoolPart(6, 12, "u") else "item_0") for s in stage.subjects()]
    mine, theirs = stage.records(answers).to_pylist()
    assert mine["object_ids"] == ["p1", "p2", "p3", "p4", "p5", "p13"]
    assert (mine["n_overlapping"], mine["n_unanswered"]) == (2, 6)
    assert theirs["n_unanswered"] == 0


def test_an_unreadable_answer_is_asked_again_and_does_not_count(make_stage, answered):
    stage = make_stage(interests={"u": ["Jazz"]})
    subject = PoolPart(0, 6, "u")
    bad = answered(stage, subject, "All of them", followed_up=True)
    assert stage.follow_up(subject, bad.parsed) == subject
    good = answered(stage, subject, "item_3", retry=Retry(1))
    (row,) = stage.records([bad, good]).to_pylist()
    assert (row["n_overlapping"], row["n_unanswered"], row["request_keys"]) == (1, 0, [good.key])


def test_the_longest_answer_given_with_the_judge_is_reserved(make_stage):
    assert len(make_stage(n=14, context=RESERVED + 64, max_tokens=4096 - 1000).subjects()) == 2
