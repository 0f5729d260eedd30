import pytest
from gistbench.runners.report import Options, run_analyses
from gistbench.runners.report.summary import summary_sentences


@pytest.fixture
def users():
    return [f"u{k}" for k in range(30)]


def test_a_clear_lead_is_said_and_a_tie_too(opened, interest, users):
    def all_of(e, name="jazz"):
        return {user: [interest(name, 1, e=e)] for user in users}

    runs = opened({"org/a": all_of(2), "org/b": all_of(2, "swing"), "org/c": all_of(1)})
    (found,) = run_analyses(runs, ["summary"], Options())
    sentences = found.tables["sentences"]["sentence"].tolist()
    assert sentences[0] == (
        "On demo, org/a has the highest median IG F1, 100.0 % (95 % interval 100.0 to 100.0), judged by org/judge@2 "
        "over 30 users."
    )
    assert sentences[1] == "Its lead over org/b is not more than chance."
    assert found.caption == " ".join(sentences)


def test_a_lead_over_all(opened, interest, users):
    runs = opened(
        {
            "org/a": {user: [interest("jazz", 1, e=2)] for user in users},
            "org/c": {user: [interest("tea", 2, e=1)] for user in users},
        }
    )
    sentences = summary_sentences(runs, Options())
    assert sentences[1] == "Its lead over all others is more than chance."
    assert any("The oracle rests on 2 candidates" in sentence for sentence in sentences)


def test_one_candidate_alone_leads_nobody(opened, interest):
    runs = opened({"org/a": {"u": [interest("jazz", 1, e=2)], "v": [interest("jazz", 1, e=2)]}}, unscored=("x",))
    sentences = summary_sentences(runs, Options())
    assert sentences[0].startswith("On demo, org/a has a median IG F1 of 100.0 %")
    assert not any("lead" in sentence for sentence in sentences)
    assert "Only 66.7 % of the users could be scored for org/a." in sentences
