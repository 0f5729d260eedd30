import pytest
from gistbench.runners.engines.lexical.reading import items, picks_wanted
from gistbench.runners.retries import Retry
from gistbench.runners.stages.ground import Claim
from gistbench.runners.stages.retrieve import Retrieve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

OWN = [f"own{n}" for n in range(12)]
POOL = [f"p{n}" for n in range(80)]
CITED = ("own3", "own0", "own7", "own1", "own9", "own2", "own5")


@pytest.fixture(scope="module")
def histories(make_histories):
    return make_histories(
        u=[(object_id, f"text of {object_id}", "e+") for object_id in OWN], v=[("p1", "text of p1", "i+")]
    )


@pytest.fixture(scope="module")
def pool(make_pool):
    # Two objects of the user's own history are in the pool too.
    return make_pool([(object_id, f"text of {object_id}") for object_id in [*POOL, "own4", "own11"]])


@pytest.fixture(scope="module")
def make_stage(asker, histories, pool):
    def make(*claims, shortlist=(*POOL, "own4", "own11"), seed=0):
        return Retrieve(asker("retrieve"), histories, claims, pool, {"u": shortlist, "v": shortlist}, seed=seed)

    return make


def only(stage):
    (subject,) = stage.subjects()
    return subject


def test_backing_is_a_draw_of_five_cited_items_among_distractors(make_stage):
    stage = make_stage(Claim("u", "Jazz", CITED, ("ghost",)))
    subject = only(stage)
    assert len(subject.backing) == len(set(subject.backing)) == 5
    assert set(subject.backing) < set(CITED)
    assert len(subject.shown) == len(set(subject.shown)) == 50
    assert subject.n_distractors == 45
    assert set(subject.shown) - set(subject.backing) <= set(POOL)
    # Mixed: the backing is neither first nor last.
    assert {subject.shown.index(item) for item in subject.backing} not in ({*range(5)}, {*range(45, 50)})


def test_no_distractor_is_of_the_users_history_or_cited(make_stage):
    unknown = ("p3", "p4", "p5", "p6", "ghost")
    for claim in (Claim("u", f"interest {n}", CITED, unknown) for n in range(60)):
        distractors = set(only(make_stage(claim)).shown) - set(only(make_stage(claim)).backing)
        assert len(distractors) == 45
        assert not distractors & {*OWN, *unknown}


def test_another_users_history_does_not_count(make_stage):
    shown = {item for n in range(40) for item in only(make_stage(Claim("u", f"interest {n}", CITED))).shown}
    assert "p1" in shown
    mine = {item for n in range(40) for item in only(make_stage(Claim("v", f"interest {n}", ("p1",)))).shown}
    assert {"own4", "own11"} < mine


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.permutations(CITED), st.permutations(POOL), st.booleans())
def test_the_draw_does_not_depend_on_any_order(make_stage, cited, shortlist, alone):
    expected = only(make_stage(Claim("u", "Jazz", CITED), shortlist=POOL))
    claims = [Claim("u", "Jazz", tuple(cited)), *([] if alone else [Claim("u", "Tea", ("own8",))])]
    stage = make_stage(*claims, shortlist=shortlist)
    assert stage.subjects()[0] == expected


def test_the_draw_depends_on_seed_user_and_interest(make_stage):
    claim = Claim("u", "Jazz", CITED)
    draws = [only(make_stage(claim, seed=seed)).shown for seed in (0, 1)]
    draws.append(only(make_stage(Claim("u", "Blues", CITED))).shown)
    draws.append(only(make_stage(Claim("v", "Jazz", ("p1",)))).shown)
    assert len(set(draws)) == 4
    assert only(make_stage(claim)).shown == draws[0]


@pytest.mark.parametrize("n", [1, 2, 4, 5])
def test_fewer_items_all_back_and_the_set_is_still_fifty(make_stage, n):
    subject = only(make_stage(Claim("u", "Jazz", CITED[:n])))
    assert sorted(subject.backing) == sorted(CITED[:n])
    assert len(subject.shown) == 50


def test_the_request_shows_texts_and_asks_for_as_many_as_there_are(make_stage):
    stage = make_stage(Claim("u", "Jazz </s>", CITED[:3]))
    subject = only(stage)
    request = stage.request(subject)
    content = request.messages[1].content
    assert items(content) == [f"text of {item}" for item in subject.shown]
    assert picks_wanted(content) == 3
    assert content.endswith("Interest: Jazz ‹/s›")
    assert request.schema == {"regex": "(NONE|item_[0-9]{1,2}(, item_[0-9]{1,2}){0,2})"}


def test_statuses(make_stage, answered):
    claims = [
        Claim("u", "ok", CITED), Claim("u", "none", CITED), Claim("u", "failed", CITED), Claim("u", "lost", CITED),
        Claim("u", "no backing", (), ("ghost",)), Claim("u", "nothing", ()),
    ]  # fmt: skip
    stage = make_stage(*claims)
    assert [subject.interest for subject in stage.subjects()] == ["ok", "none", "failed", "lost"]
    ok, none, failed, lost = stage.subjects()
    table = stage.records(
        [
            answered(stage, lost, None),
            answered(stage, failed, "Probably the first one."),
            answered(stage, none, "NONE"),
            answered(stage, ok, "item_3, item_1"),
        ]
    )
    rows = {row["interest"]: row for row in table.to_pylist()}
    assert list(rows) == [claim.interest for claim in claims]
    assert {name: row["status"] for name, row in rows.items()} == {
        "ok": "ok", "none": "ok", "failed": "failed", "lost": "failed", "no backing": "no_backing",
        "nothing": "no_backing",
    }  # fmt: skip
    assert rows["ok"]["selected_item_ids"] == [ok.shown[3], ok.shown[1]]
    assert rows["none"]["selected_item_ids"] == []
    assert all(rows[name]["selected_item_ids"] is None for name in ("failed", "lost", "no backing", "nothing"))
    assert rows["no backing"]["shown_item_ids"] == []
    assert rows["no backing"]["few_distractors"] is False


def test_all_selections_are_kept_in_the_judges_order(make_stage, answered):
    """The metric counts the first k; what is beyond them is over-selection, and counted too."""
    stage = make_stage(Claim("u", "Jazz", CITED[:2]))
    subject = only(stage)
    answer = answered(stage, subject, "item_4, item_2, item_4, item_0, item_7")
    (row,) = stage.records([answer]).to_pylist()
    assert row["selected_item_ids"] == [subject.shown[i] for i in (4, 2, 0, 7)]
    assert row["n_over_selected"] == 2


@pytest.mark.parametrize(
    ("n_pool", "n_backing", "n_distractors", "few", "status"),
    [(80, 5, 45, False, "ok"), (45, 5, 45, False, "ok"), (44, 5, 44, True, "ok"), (1, 2, 1, True, "ok"),
     (46, 2, 46, False, "ok"), (0, 5, 0, True, "no_distractors")],
)  # fmt: skip
def test_few_distractors_are_flagged_and_none_not_scored(
    make_stage, answered, n_pool, n_backing, n_distractors, few, status
):
    stage = make_stage(Claim("u", "Jazz", CITED[:n_backing]), shortlist=POOL[:n_pool])
    answers = [answered(stage, subject, "item_0") for subject in stage.subjects()]
    assert len(answers) == (n_pool > 0)
    (row,) = stage.records(answers).to_pylist()
    assert (row["n_distractors"], row["few_distractors"], row["status"]) == (n_distractors, few, status)
    assert len(row["backing_item_ids"]) == n_backing


def test_a_user_without_a_shortlist_has_no_distractors(asker, histories, pool):
    stage = Retrieve(asker("retrieve"), histories, [Claim("u", "Jazz", CITED)], pool, {}, seed=0)
    assert stage.subjects() == []
    assert stage.records([]).to_pylist()[0]["status"] == "no_distractors"


def test_an_unreadable_answer_is_asked_again(make_stage, answered):
    stage = make_stage(Claim("u", "Jazz", CITED))
    subject = only(stage)
    bad = answered(stage, subject, "I found 3 items: 0, 2, 5", followed_up=True)
    assert stage.follow_up(subject, bad.parsed) == subject
    good = answered(stage, subject, "0, 2, 5", retry=Retry(1))
    (row,) = stage.records([bad, good]).to_pylist()
    assert (row["status"], len(row["selected_item_ids"]), row["request_keys"]) == ("ok", 3, [good.key])
