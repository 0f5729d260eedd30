import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gistbench.runners.accounting import ANSWERS, answer_batches, write_answers
from gistbench.runners.execute import execute
from gistbench.runners.requests import Outcome
from gistbench.runners.stages.base import Parsed
from gistbench.runners.store import ResponseStore
from gistbench.runners.tally import Tally


@pytest.fixture
def store(tmp_path):
    with ResponseStore(tmp_path / "responses.sqlite") as store:
        yield store


@pytest.fixture
def keys(store, make_request):
    """Five requests with two attempts each, and the pairs that a run names them by, out of order and with repeats."""
    requests = [make_request(text, stage="map" if text in "ae" else "ground") for text in "ecbad"]
    with store.engine(lambda: {"engine": "x"}):
        for request in requests:
            store.commit(request, Outcome(request.key, "error", problem="busy"))
            store.commit(request, Outcome(request.key, "ok", text="é" * 5, n_output_tokens=3, seconds=0.5))
    return [(request.key, request.stage) for request in requests] * 2


def answers_table(store, keys):
    return pa.Table.from_batches(answer_batches(store, keys), ANSWERS)


def test_answers_stand_in_the_order_of_stage_subject_and_attempt(store, keys):
    table = answers_table(store, keys)
    assert table.schema == ANSWERS
    assert list(zip(*(table[name].to_pylist() for name in ("stage", "about", "attempt")), strict=True)) == [
        (stage, about, attempt)
        for stage, subjects in (("ground", "bcd"), ("map", "ae"))
        for about in subjects
        for attempt in (0, 1)
    ]
    last = table.slice(9).to_pylist()[0]
    assert last["request_key"] == keys[0][0]
    assert (last["status"], last["text"], last["n_output_tokens"], last["seconds"]) == ("ok", "ééééé", 3, 0.5)
    assert (last["made_by"], last["model"]) == (next(iter(store.engines())), "lexical/hashtag@1")


def test_no_keys_give_an_empty_table(store, keys, tmp_path):
    assert answers_table(store, []) == ANSWERS.empty_table()
    assert answers_table(store, [("0" * 64, "ground")]) == ANSWERS.empty_table()
    assert write_answers(store, [], tmp_path / "a.parquet") == 0
    assert pq.read_table(tmp_path / "a.parquet") == ANSWERS.empty_table()


def test_the_file_holds_the_table_whatever_the_size_of_its_parts(store, keys, tmp_path, monkeypatch):
    table = answers_table(store, keys)
    assert write_answers(store, keys, tmp_path / "one.parquet") == 10
    pq.write_table(table, tmp_path / "plain.parquet")
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "plain.parquet").read_bytes()
    monkeypatch.setattr("gistbench.runners.store._CHUNK_ROWS", 3)
    assert [batch.num_rows for batch in answer_batches(store, keys)] == [3, 3, 3, 1]
    assert write_answers(store, reversed(keys), tmp_path / "many.parquet") == 10
    assert pq.read_table(tmp_path / "many.parquet") == table


class Ask:
    """A stage that wants the word yes."""

    name = "ground"

    def __init__(self, make_request):
        self._make_request = make_request

    def subjects(self):
        return ["a", "b", "c"]

    def request(self, subject, n_reask):
        return self._make_request(subject)

    def parse(self, subject, outcome):
        return Parsed("ok", "yes") if outcome.text == "yes" else Parsed("invalid", None, "not yes")

    def follow_up(self, subject, parsed):
        return None


def test_a_stage_whose_answers_are_of_two_engines_says_so(store, make_request, make_engine):
    def by(name, **answers):
        def answer(request):
            status = "error" if request.about not in answers else "ok"
            return [Outcome(request.key, status, text=answers.get(request.about, ""))]

        tally = Tally()
        with store.engine(lambda: {"engine": name}):
            list(tally.over(execute(Ask(make_request), make_engine(answer), store, max_reasks=0)))
        return [(one["engine"], one["n_answers"]) for one in tally.account(store)["engines"]]

    assert by("first", a="yes") == [({"engine": "first"}, 1)]
    assert by("second", b="yes", c="no") == [({"engine": "second"}, 2), ({"engine": "first"}, 1)]
    assert by("third") == [({"engine": "second"}, 2), ({"engine": "first"}, 1)]
