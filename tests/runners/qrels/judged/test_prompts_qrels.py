import json
import os
from pathlib import Path

import jinja2
import pytest
from gistbench.runners.prompts import PROMPTS, QRELS_PROMPTS, load_prompt

GOLDEN = Path(__file__).parent / "golden"
WRITE = os.environ.get("GISTBENCH_WRITE_GOLDEN") == "1"
HOW = "If the change is meant: GISTBENCH_WRITE_GOLDEN=1 python -m pytest on this file, and look at it."

LINES = "5 | Heat | 1995 | Crime\n1.5 | Big | 1988 | Comedy"
VALUES = {
    "induce": {"items": LINES, "scale": "0.5 to 5", "n_shown": 2, "n_rated": 3},
    "grade": {"ipp": "Likes: crime films.\nGrade 4 or 5: Heat.", "profile": LINES, "scale": "0.5 to 5",
              "item": "Ronin | 1998 | Action"},
}  # fmt: skip
VARIANTS = {
    "induce": ("induce", {}),
    "induce_asked_again": ("induce", {"problem": "The object lacks low."}),
    "grade_ipp": ("grade", {"profile": ""}),
    "grade_profile": ("grade", {"ipp": ""}),
    "grade_both": ("grade", {}),
    "grade_plot": ("grade", {"profile": "", "item": "Ronin | 1998 | Action | Plot: A case is stolen."}),
    "grade_asked_again": ("grade", {"ipp": "", "problem": "The answer is empty."}),
}


def text_of(messages):
    return "".join(f"--- {message.role}\n{message.content}\n" for message in messages)


def test_the_benchmarks_prompts_are_what_they_were():
    assert PROMPTS == ("extract", "ground", "shortlist", "retrieve", "map")
    assert not set(PROMPTS) & set(QRELS_PROMPTS)


@pytest.mark.parametrize("variant", VARIANTS)
def test_renders_the_golden_text(variant):
    name, change = VARIANTS[variant]
    rendered = text_of(load_prompt(name).render(**VALUES[name] | change))
    path = GOLDEN / f"{variant}.txt"
    if WRITE:
        path.write_text(rendered, encoding="utf-8")
    assert rendered == path.read_text(encoding="utf-8"), HOW


@pytest.mark.parametrize("name", QRELS_PROMPTS)
def test_a_changed_prompt_has_a_new_version(name):
    path = GOLDEN / "prompts.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    prompt = load_prompt(name)
    if WRITE:
        known.setdefault(name, {}).setdefault(str(prompt.version), prompt.sha256)
        path.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    assert known.get(name, {}).get(str(prompt.version)) == prompt.sha256, f"Raise the version of {name}.toml. {HOW}"


def test_every_golden_file_is_used():
    assert {path.name for path in GOLDEN.iterdir()} == {f"{variant}.txt" for variant in VARIANTS} | {"prompts.json"}


@pytest.mark.parametrize("name", QRELS_PROMPTS)
def test_asking_again_keeps_the_prefix(name):
    first, again = (
        load_prompt(name).render(problem=problem, **VALUES[name]) for problem in (None, "It is <b>cut</b>.")
    )
    assert first[0] == again[0]
    assert again[1].content.startswith(first[1].content)
    assert "It is ‹b›cut‹/b›." in again[1].content


@pytest.mark.parametrize("name", QRELS_PROMPTS)
def test_a_missing_value_is_an_error(name):
    for left_out in VALUES[name]:
        with pytest.raises(jinja2.UndefinedError):
            load_prompt(name).render(**{key: value for key, value in VALUES[name].items() if key != left_out})


@pytest.mark.parametrize("variant", ["grade_ipp", "grade_profile", "grade_both"])
def test_the_item_stands_last_so_that_a_users_requests_share_all_before_it(variant, common_beginning):
    name, change = VARIANTS[variant]
    texts = [text_of(load_prompt(name).render(**VALUES[name] | change | {"item": item})) for item in ("Alien", "Big")]
    shared = common_beginning(*texts)
    assert shared.endswith("The item to grade: ")
    assert texts[0] == f"{shared}Alien\n"


def test_each_mode_shows_its_evidence_and_no_other():
    shown = {name: text_of(load_prompt("grade").render(**VALUES["grade"] | VARIANTS[name][1])) for name in VARIANTS
             if name in ("grade_ipp", "grade_profile", "grade_both")}  # fmt: skip
    assert ["Likes: crime" in shown[name] for name in shown] == [True, False, True]
    assert ["1.5 | Big" in shown[name] for name in shown] == [False, True, True]
    assert ["Where the profile says how to grade" in shown[name] for name in shown] == [True, False, True]
