from collections.abc import Sequence
from dataclasses import replace

import pytest
from gistbench.hf_datasets.errors import EngineError, RunStoppedError
from gistbench.runners import execute as module
from gistbench.runners.execute import SilentProgress, execute
from gistbench.runners.halt import CallLimit, Halt
from gistbench.runners.parsing import Parsed
from gistbench.runners.requests import Message, ModelRef, Outcome, Request, Sampling
from gistbench.runners.store import ResponseStore
from hypothesis import given, settings
from hypothesis import strategies as st


class Quiz:
    """A stage that wants numbers: of each subject, its name is the prompt."""

    name = "quiz"

    def __init__(self, subjects: Sequence[str]) -> None:
        self._subjects = subjects
        self.rendered: list[tuple[str, int]] = []

    def subjects(self):
        return self._subjects

    def request(self, subject, retry):
        self.rendered.append((subject, retry))
        # What follows a dash is not asked: such subjects share a request.
        prompt = subject.partition("-")[0] + " please" * retry.n
        messages = (Message("user", prompt),)
        return Request("quiz", subject, messages, ModelRef("m", "1", "p/1"), retry.applied_to(Sampling()))

    def parse(self, subject, outcome):
        text = outcome.text
        if text.endswith("..."):
            return Parsed("truncated", int(text[:-3]), "cut off")
        return Parsed("ok", int(text)) if text.isdigit() else Parsed("invalid", None, f"{text!r} is no number")

    def follow_up(self, subject, parsed):
        return subject if parsed.value is None else None


class Loud(SilentProgress):
    """Writes down what it is told."""

    def __init__(self):
        self.told = []

    def start(self, description, total):
        self.told.append(("start", description, total))

    def advance(self, outcome, *, stored):
        self.told.append("stored" if stored else "asked")

    def grow(self, n):
        self.told.append(("grow", n))

    def finish(self):
        self.told.append("finish")


@pytest.fixture
def store(tmp_path):
    with ResponseStore(tmp_path / "responses.sqlite") as store:
        yield store


@pytest.fixture(scope="session")
def scripted(make_engine):
    """Make an engine that gives each prompt's answers in turn; a word that is a status gives that status."""

    def make(arrange=None, **answers):
        used: dict[str, int] = {}

        def answer(request):
            prompt = request.messages[0].content
            name = prompt.split()[0]
            script = answers.get(name, "1")
            script = [script] if isinstance(script, str) else script
            text = script[min(used.get(name, 0), len(script) - 1)]
            used[name] = used.get(name, 0) + 1
            if text in ("error", "refused"):
                return [Outcome(request.key, text, problem=f"{name} {text}")]
            return [Outcome(request.key, "ok", text=text)]

        return make_engine(answer, arrange)

    return make


def prompts(engine):
    return [request.messages[0].content for request in engine.asked]


def test_every_subject_ends_with_an_answer(store, scripted):
    engine = scripted(a="1", b="2")
    answers = {answer.subject: answer for answer in execute(Quiz(["a", "b"]), engine, store)}
    assert {name: answer.parsed.value for name, answer in answers.items()} == {"a": 1, "b": 2}
    assert store.served([answers["a"].key])[answers["a"].key] == answers["a"].outcome


def test_nothing_is_asked_when_there_are_no_subjects(store, scripted):
    engine = scripted()
    assert list(execute(Quiz([]), engine, store)) == []
    assert engine.asked == []


def test_what_the_store_has_is_not_asked_again(store, scripted):
    first = list(execute(Quiz(["a", "b"]), scripted(a="1", b="2"), store))
    engine = scripted(a="9", b="9", c="3")
    again = list(execute(Quiz(["a", "b", "c"]), engine, store))
    assert prompts(engine) == ["c"]
    assert again[:2] == first
    assert again[2].parsed.value == 3


def test_one_request_is_asked_once_for_all_its_subjects(store, scripted):
    engine = scripted(a="5")
    answers = list(execute(Quiz(["a-1", "a-2", "a-3"]), engine, store))
    assert prompts(engine) == ["a"]
    assert [(answer.subject, answer.parsed.value) for answer in answers] == [("a-1", 5), ("a-2", 5), ("a-3", 5)]
    assert len(store) == 1


def test_one_request_in_two_windows_is_asked_once(store, scripted):
    engine = scripted(a="5")
    answers = list(execute(Quiz(["a-1", "b", "a-2"]), engine, store, window=1))
    assert prompts(engine) == ["a", "b"]
    assert len(answers) == 3


def test_an_unreadable_answer_is_asked_for_again_with_a_reminder(store, scripted):
    engine = scripted(a=["what?", "7"])
    first, second = execute(Quiz(["a"]), engine, store)
    assert prompts(engine) == ["a", "a please"]
    assert (first.followed_up, first.outcome.status, first.parsed.value) == (True, "invalid", None)
    assert first.outcome.problem == "'what?' is no number"
    assert (second.followed_up, second.outcome.status, second.parsed.value) == (False, "ok", 7)


@pytest.mark.parametrize("max_reasks", [0, 1, 2])
def test_in_the_end_it_is_yielded_unreadable(store, scripted, max_reasks):
    engine = scripted(a="what?")
    answers = list(execute(Quiz(["a"]), engine, store, max_reasks=max_reasks))
    assert prompts(engine) == ["a" + " please" * n for n in range(max_reasks + 1)]
    assert [answer.followed_up for answer in answers] == [True] * max_reasks + [False]
    assert answers[-1].parsed.value is None
    assert {row["status"] for answer in answers for row in store.rows(answer.key)} == {"invalid"}


def test_unreadable_answers_are_served_to_the_next_run(store, scripted):
    list(execute(Quiz(["a"]), scripted(a="what?"), store))
    engine = scripted(a="7")
    answers = list(execute(Quiz(["a"]), engine, store))
    assert engine.asked == []
    assert answers[-1].parsed.value is None


def test_retry_failed_asks_again_what_could_not_be_read_and_nothing_else(store, scripted):
    list(execute(Quiz(["a", "b", "c"]), scripted(a="what?", b="refused", c="3"), store, max_reasks=0))
    engine = scripted(a="7", b="8", c="9")
    answers = list(execute(Quiz(["a", "b", "c"]), engine, store, max_reasks=0, retry_failed=True))
    assert sorted(prompts(engine)) == ["a", "b"]
    assert {answer.subject: answer.parsed.value for answer in answers} == {"a": 7, "b": 8, "c": 3}
    assert len(store) == 5


def test_a_readable_part_of_a_cut_off_answer_is_an_answer(store, scripted):
    engine = scripted(a="4...")
    (answer,) = execute(Quiz(["a"]), engine, store)
    assert (answer.parsed.value, answer.outcome.status, answer.outcome.problem) == (4, "truncated", "cut off")
    list(execute(Quiz(["a"]), engine, store, retry_failed=True))
    assert prompts(engine) == ["a"]


@pytest.mark.parametrize("status", ["refused", "error"])
def test_refusals_and_errors_are_not_asked_for_again_within_a_run(store, scripted, status):
    engine = scripted(a=[status, "7"])
    (answer,) = execute(Quiz(["a"]), engine, store)
    assert prompts(engine) == ["a"]
    assert (answer.outcome.status, answer.followed_up) == (status, False)
    assert (answer.parsed.status, answer.parsed.value, answer.parsed.problem) == ("invalid", None, f"a {status}")


def test_a_refusal_whose_text_could_be_read_is_no_answer(store, make_engine):
    engine = make_engine(lambda request: [Outcome(request.key, "refused", text="7", problem="filtered")])
    (answer,) = execute(Quiz(["a"]), engine, store)
    assert answer.parsed.value is None


def test_an_error_is_asked_again_by_the_next_run_a_refusal_is_not(store, scripted):
    list(execute(Quiz(["a", "b"]), scripted(a="error", b="refused"), store))
    engine = scripted(a="7", b="8")
    answers = list(execute(Quiz(["a", "b"]), engine, store))
    assert prompts(engine) == ["a"]
    assert {answer.subject: answer.parsed.value for answer in answers} == {"a": 7, "b": None}


def busy_then(text):
    def answer(request):
        busy = Outcome(request.key, "error", problem="busy", final=False)
        return [busy, busy, Outcome(request.key, "ok", text=text)]

    return answer


def test_attempts_that_the_engine_repeats_are_kept_and_not_counted(store, make_engine):
    progress = Loud()
    (answer,) = execute(Quiz(["a"]), make_engine(busy_then("7")), store, progress=progress)
    assert answer.parsed.value == 7
    assert [outcome.status for outcome in store.attempts(answer.key)] == ["error", "error", "ok"]
    assert progress.told == [("start", "quiz", 1), "asked", "finish"]


def test_attempts_that_the_engine_repeats_do_not_stop_a_run(store, make_engine, monkeypatch):
    monkeypatch.setattr(module, "MAX_ERRORS_IN_A_ROW", 3)
    answers = list(execute(Quiz(list("abcdef")), make_engine(busy_then("7")), store))
    assert {answer.parsed.value for answer in answers} == {7}


def test_an_attempt_that_the_engine_repeats_does_not_end_a_request_that_another_answered(store, make_engine):
    """The store serves what another process, or an earlier run, was told: the engine's own outcome is still to come."""
    (unread,) = execute(Quiz(["a"]), make_engine(lambda r: [Outcome(r.key, "ok", text="?")]), store, max_reasks=0)
    (answer,) = execute(Quiz(["a"]), make_engine(busy_then("7")), store, max_reasks=0, retry_failed=True)
    assert answer.parsed.value == 7
    assert len(store.attempts(unread.key)) == 4


def test_what_another_process_was_told_first_is_what_counts(store, make_engine):
    def overtaken(request):
        with ResponseStore(store.path) as other:
            other.commit(request, Outcome(request.key, "ok", text="1"))
        return [Outcome(request.key, "ok", text="2")]

    (answer,) = execute(Quiz(["a"]), make_engine(overtaken), store)
    assert answer.parsed.value == 1
    assert [outcome.text for outcome in store.attempts(answer.key)] == ["1", "2"]


def test_an_engine_that_only_fails_stops_the_run(store, scripted):
    names = [f"s{n}" for n in range(100)]
    engine = scripted(s0="1", **dict.fromkeys(names[1:], "error"))
    got = []
    with pytest.raises(EngineError, match=f"failed at {module.MAX_ERRORS_IN_A_ROW} requests in a row") as e:
        got.extend(execute(Quiz(names), engine, store))
    assert "s32 error" in str(e.value)
    assert "run the same command again" in str(e.value)
    assert len(engine.asked) <= module.MAX_ERRORS_IN_A_ROW + 2

    engine = scripted()
    answers = list(execute(Quiz(names), engine, store))
    assert "s0" not in prompts(engine)
    assert len(engine.asked) == 99
    assert all(answer.parsed.value == 1 for answer in answers)


def test_an_engine_that_only_fails_stops_a_run_that_retries_too(store, scripted):
    names = [f"s{n}" for n in range(100)]
    list(execute(Quiz(names), scripted(**dict.fromkeys(names, "what?")), store, max_reasks=0))
    with pytest.raises(EngineError, match="in a row"):
        list(execute(Quiz(names), scripted(**dict.fromkeys(names, "error")), store, max_reasks=0, retry_failed=True))


def test_errors_with_answers_between_them_do_not_stop_a_run(store, scripted, monkeypatch):
    monkeypatch.setattr(module, "MAX_ERRORS_IN_A_ROW", 3)
    names = [f"s{n}" for n in range(30)]
    engine = scripted(**{name: "error" for n, name in enumerate(names) if n % 3})
    answers = list(execute(Quiz(names), engine, store))
    assert sum(answer.outcome.status == "error" for answer in answers) == 20


def test_an_engine_that_forgets_a_request_is_an_error(store, make_engine):
    engine = make_engine(lambda r: [] if r.about == "b" else [Outcome(r.key, "ok", text="1")])
    got = []
    with pytest.raises(EngineError, match="without an outcome for 1 requests, such as b"):
        got.extend(execute(Quiz(["a", "b", "c"]), engine, store))
    assert [answer.subject for answer in got] == ["a", "c"]
    assert len(store) == 2


def test_every_outcome_is_in_the_store_before_it_is_yielded(store, scripted):
    for n, answer in enumerate(execute(Quiz(list("abc")), scripted(), store), start=1):
        with ResponseStore(store.path) as other:
            assert len(other) == n
            assert answer.key in other.served([answer.key])


def test_a_run_that_stops_in_the_middle_goes_on_where_it_was(store, scripted):
    names = [f"s{n}" for n in range(10)]
    answers = execute(Quiz(names), scripted(), store)
    for _ in range(4):
        next(answers)
    answers.close()
    engine = scripted()
    assert len(list(execute(Quiz(names), engine, store))) == 10
    assert prompts(engine) == names[4:]


def test_requests_are_rendered_as_the_engine_takes_them(store, make_engine):
    quiz = Quiz([f"s{n}" for n in range(20)])
    seen = []

    def answer(request):
        seen.append(len(quiz.rendered))
        return [Outcome(request.key, "ok", text="1")]

    list(execute(quiz, make_engine(answer), store, window=4))
    assert seen == [4 * (n // 4 + 1) for n in range(20)]


def test_progress_is_told_of_every_request(store, scripted):
    list(execute(Quiz(["a"]), scripted(), store))
    progress = Loud()
    quiz = Quiz(["a", "b-1", "b-2"])
    list(execute(quiz, scripted(b=["?", "2"]), store, progress=progress, description="quiz  m"))
    assert progress.told == [
        ("start", "quiz  m", 3),
        "stored",
        "asked",
        "asked",
        ("grow", 2),
        "asked",
        "asked",
        "finish",
    ]


@settings(max_examples=40)
@given(data=st.data())
def test_the_order_of_arrival_changes_nothing(data, tmp_path_factory, scripted):
    names = [f"s{n}" for n in range(8)]
    kinds = st.lists(st.sampled_from(["?", "3", "4...", "error", "refused"]), min_size=1, max_size=3)
    answers = {name: data.draw(kinds) for name in names}

    def records(arrange):
        with ResponseStore(tmp_path_factory.mktemp("s") / "s.sqlite") as store:
            quiz = Quiz(names)
            found = list(execute(quiz, scripted(arrange, **answers), store))
            reasked = [rendered for rendered in quiz.rendered if rendered[1].n]
        return sorted(found, key=lambda answer: (answer.subject, answer.key)), reasked

    assert records(lambda held: data.draw(st.permutations(held))) == records(None)


# Asked again in another way


def cut(request, text="4..."):
    return [Outcome(request.key, "truncated", text=text, finish_reason="length", n_output_tokens=4096)]


def test_an_answer_that_was_cut_is_asked_for_once_more_with_twice_the_room(store, make_engine):
    def answer(request):
        if request.sampling.max_tokens > 4096:
            return [Outcome(request.key, "ok", text="42")]
        return cut(request)

    engine = make_engine(answer)
    first, second = execute(Quiz(["a"]), engine, store)
    assert [request.sampling.max_tokens for request in engine.asked] == [4096, 8192]
    assert prompts(engine) == ["a", "a"]
    assert (first.followed_up, second.parsed.value) == (True, 42)


@pytest.mark.parametrize(
    ("n_prompt_tokens", "asked"), [(100, [4096, 8192]), (5000, [4096, 5000]), (6000, [4096]), (10**9, [4096, 8192])]
)
def test_no_more_room_is_asked_for_than_the_context_leaves(store, make_engine, n_prompt_tokens, asked):
    """A count beyond the context is none that a server made of its tokens."""
    engine = make_engine(lambda r: [replace(cut(r)[0], n_prompt_tokens=n_prompt_tokens)])
    engine.context_tokens = 10_000
    list(execute(Quiz(["a"]), engine, store))
    assert [request.sampling.max_tokens for request in engine.asked] == asked


@pytest.mark.parametrize("then", ["refused", "error", "?"])
def test_the_readable_part_stands_where_nothing_better_comes(store, make_engine, then):
    def answer(request):
        if request.sampling.max_tokens == 4096:
            return cut(request)
        return [Outcome(request.key, "ok" if then == "?" else then, text="?", problem="too long")]

    engine = make_engine(answer)
    for _ in range(2):  # the second time from the store, but for an error
        *before, last = execute(Quiz(["a"]), engine, store)
        assert (last.parsed.value, last.outcome.status, last.followed_up) == (4, "truncated", False)
        assert all(one.followed_up for one in before)
        assert len({one.key for one in before} - {last.key}) == (3 if then == "?" else 1)


def test_a_limit_that_was_set_is_kept_to(store, make_engine):
    class Limited(Quiz):
        def request(self, subject, retry):
            return replace(super().request(subject, retry), may_grow=False)

    engine = make_engine(cut)
    list(execute(Limited(["a"]), engine, store))
    assert [request.sampling.max_tokens for request in engine.asked] == [4096]


def test_it_is_given_more_room_only_once(store, make_engine):
    engine = make_engine(
        lambda r: [
            Outcome(r.key, "truncated", text="4...", finish_reason="length", n_output_tokens=r.sampling.max_tokens)
        ]
    )
    answers = list(execute(Quiz(["a"]), engine, store))
    assert [request.sampling.max_tokens for request in engine.asked] == [4096, 8192]
    assert (answers[-1].parsed.value, answers[-1].followed_up) == (4, False)


@pytest.mark.parametrize(
    ("outcome", "n_asked"),
    [
        ({"text": "and so on " * 500, "n_output_tokens": 4096}, 3),  # only repeats itself: reminders, no more room
        ({"text": "4...", "n_output_tokens": 100}, 1),  # the context ended, not the budget
    ],
)
def test_more_room_is_not_given_where_it_cannot_help(store, make_engine, outcome, n_asked):
    engine = make_engine(lambda r: [Outcome(r.key, "truncated", finish_reason="length", **outcome)])
    answers = list(execute(Quiz(["a"]), engine, store))
    assert {request.sampling.max_tokens for request in engine.asked} == {4096}
    assert len(engine.asked) == n_asked
    if n_asked == 3:
        assert "repeats itself" in answers[-1].outcome.problem


def test_the_second_reminder_comes_with_a_new_seed(store, scripted):
    engine = scripted(a="what?")
    list(execute(Quiz(["a"]), engine, store, max_reasks=3))
    assert [(r.sampling.seed, r.sampling.temperature) for r in engine.asked] == [
        (None, 0.0),
        (None, 0.0),
        (1_000_003, 0.7),
        (2_000_006, 0.7),
    ]


def test_the_model_is_told_what_was_wrong(store, scripted):
    quiz = Quiz(["a"])
    list(execute(quiz, scripted(a=["what?", "who?", "1"]), store))
    assert [retry.problem for _, retry in quiz.rendered] == ["", "'what?' is no number", "'who?' is no number"]


# Stopped in good order


def test_a_halted_run_waits_for_what_is_in_flight_and_goes_on_later(store, scripted):
    halt = Halt(CallLimit(3))
    names = [f"s{n}" for n in range(10)]
    engine = scripted()
    got = []
    with pytest.raises(RunStoppedError, match="Stopped after 3 calls") as e:
        got.extend(execute(Quiz(names), engine, store, halt=halt))
    assert e.value.exit_status == 3
    assert [answer.subject for answer in got] == names[:3]
    assert len(store) == len(engine.asked) == 3
    engine = scripted()
    assert len(list(execute(Quiz(names), engine, store))) == 10
    assert prompts(engine) == names[3:]


def test_a_limit_that_is_just_enough_stops_nothing(store, scripted):
    names = [f"s{n}" for n in range(5)]
    assert len(list(execute(Quiz(names), scripted(), store, halt=Halt(CallLimit(5))))) == 5


def test_a_halted_run_asks_no_follow_up(store, scripted):
    engine = scripted(a="what?")
    with pytest.raises(RunStoppedError):
        list(execute(Quiz(["a"]), engine, store, halt=Halt(CallLimit(1))))
    assert prompts(engine) == ["a"]


def test_answers_that_lie_between_are_handed_out_while_the_engine_works(store, scripted):
    """Memory: what the store has of a window is not kept until the engine has answered everything."""
    names = [f"s{n}" for n in range(60)]
    list(execute(Quiz(names[10:50]), scripted(), store))
    subjects = [answer.subject for answer in execute(Quiz(names), scripted(), store, window=5)]
    assert sorted(subjects, key=names.index) == names
    assert subjects.index("s49") < subjects.index("s59")
