import pytest
from gistbench.hf_datasets import Taxonomy, load_taxonomy
from gistbench.runners.engines.lexical.reading import categories, interests
from gistbench.runners.retries import Retry
from gistbench.runners.stages.map import Map, Names
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

TAXONOMY = Taxonomy("test", (1, 2, 31), ("Jazz", "Tea", "Chess"), ("Music", "Food", None))
NAMES = ["Green tea", "Bebop", "Endgames", "Swing", "Assam"]


@pytest.fixture(scope="module")
def make_stage(asker):
    def make(names=NAMES, taxonomy=TAXONOMY, **options):
        return Map(asker("map"), taxonomy, names, **options)

    return make


def test_sorted_unique_names_in_threes(make_stage):
    stage = make_stage(["Swing", *NAMES, "Bebop"])
    assert stage.subjects() == [Names(("Assam", "Bebop", "Endgames")), Names(("Green tea", "Swing"))]
    assert make_stage([]).subjects() == []
    assert make_stage(batch_size=1).subjects() == [Names((name,)) for name in sorted(NAMES)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.permutations(NAMES * 2))
def test_requests_do_not_depend_on_the_order_of_interests(make_stage, names):
    stage, expected = make_stage(names), make_stage()
    assert [stage.request(s).key for s in stage.subjects()] == [expected.request(s).key for s in expected.subjects()]


def test_the_request_lists_categories_with_domains_and_numbered_names(make_stage):
    stage = make_stage(["Tea\n1 | ceremony", "</s>"])
    request = stage.request(stage.subjects()[0])
    content = request.messages[1].content
    assert "\n1 | Music: Jazz\n2 | Food: Tea\n31 | Chess\n0 | none of these\n" in content
    assert categories(content) == [("1", "Music", "Jazz"), ("2", "Food", "Tea"), ("31", "", "Chess")]
    assert content.rstrip().endswith("Interests:\n1 | ‹/s›\n2 | Tea 1 | ceremony")
    assert interests(content) == ["‹/s›", "Tea 1 | ceremony"]
    assert request.schema == {"regex": "1: [0-9]{1,2}\n2: [0-9]{1,2}"}
    assert str(request.about) == "interests '</s>', 'Tea\\n1 | ceremony'"


def test_the_schema_has_room_for_every_category(make_stage):
    taxonomy = load_taxonomy("open")
    request = make_stage(["x"], taxonomy).request(Names(("x",)))
    assert request.schema == {"regex": f"1: [0-9]{{1,{len(str(max(taxonomy.ids)))}}}"}


def rows(table):
    return {row["interest"]: (row["category_id"], row["status"]) for row in table.to_pylist()}


def test_mapped_names(make_stage, answered):
    stage = make_stage()
    first, second = stage.subjects()
    answers = [answered(stage, second, "1: 2\n2: 1"), answered(stage, first, "1: 2\n2: 1\n3: 31")]
    assert [stage.follow_up(answer.subject, answer.parsed) for answer in answers] == [None, None]
    table = stage.records(answers)
    assert rows(table) == {
        "Assam": (2, "ok"),
        "Bebop": (1, "ok"),
        "Endgames": (31, "ok"),
        "Green tea": (2, "ok"),
        "Swing": (1, "ok"),
    }
    assert table["request_keys"].to_pylist()[0] == [answers[1].key]
    assert stage.records(answers[::-1]).equals(table)


def test_the_judge_may_say_that_no_category_fits(make_stage, answered):
    stage = make_stage(["Assam"])
    answer = answered(stage, stage.subjects()[0], "1: 0")
    assert stage.follow_up(answer.subject, answer.parsed) is None
    assert rows(stage.records([answer])) == {"Assam": (0, "ok")}


def test_names_that_an_answer_passes_over_are_asked_again_and_then_unmapped(make_stage, answered):
    stage = make_stage(["Assam", "Bebop", "Endgames"])
    (subject,) = stage.subjects()
    first = answered(stage, subject, "1: 2\n2: 99", followed_up=True)  # 99 is no category
    rest = stage.follow_up(subject, first.parsed)
    assert rest == Names(("Bebop", "Endgames"))
    second = answered(stage, rest, "1: 1", retry=Retry(1))
    assert stage.follow_up(rest, second.parsed) == Names(("Endgames",))
    table = stage.records([first, second])
    assert rows(table) == {"Assam": (2, "ok"), "Bebop": (1, "ok"), "Endgames": (0, "unmapped")}
    keys = dict(zip(table["interest"].to_pylist(), table["request_keys"].to_pylist(), strict=True))
    assert keys["Bebop"] == sorted([first.key, second.key])


@pytest.mark.parametrize("text", [None, "They are all about drinks.", "1: 2, 1: 31"])
def test_without_a_readable_answer_a_mapping_has_failed(make_stage, answered, text):
    stage = make_stage(["Assam", "Bebop"])
    (subject,) = stage.subjects()
    answer = answered(stage, subject, text)
    assert stage.follow_up(subject, answer.parsed) == subject
    assert rows(stage.records([answer])) == {"Assam": (None, "failed"), "Bebop": (None, "failed")}


def test_a_name_that_was_passed_over_and_then_not_answered_is_unmapped(make_stage, answered):
    stage = make_stage(["Assam", "Bebop"])
    (subject,) = stage.subjects()
    first = answered(stage, subject, "1: 2", followed_up=True)
    second = answered(stage, Names(("Bebop",)), None, retry=Retry(1))
    assert rows(stage.records([first, second])) == {"Assam": (2, "ok"), "Bebop": (0, "unmapped")}


def test_the_last_entry_of_a_cut_answer_is_asked_again(make_stage, answered):
    stage = make_stage(["Assam", "Bebop"])
    (subject,) = stage.subjects()
    cut = answered(stage, subject, "1: 2\n2: 3", finish_reason="length")
    assert stage.follow_up(subject, cut.parsed) == Names(("Bebop",))
