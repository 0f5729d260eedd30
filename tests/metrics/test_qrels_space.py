"""The folder of `gistbench/qrels_expansion` is a Space of its own: imports, card, demo; docstring examples run."""

import ast
import doctest
import importlib.util
import json
import re
import sys
from pathlib import Path

import evaluate
import pytest
import yaml
from evaluate.loading import get_imports

FOLDER = Path(__file__).resolve().parents[2] / "metrics" / "qrels_expansion"
ALLOWED = {"numpy", "scipy", "datasets", "evaluate", "pandas", "pyarrow", "gradio"}


def test_common_is_the_same():
    original = FOLDER.parent / "common.py"
    assert (FOLDER / "common.py").read_bytes() == original.read_bytes(), "run `make sync-metrics`"


def test_imports_are_what_a_space_has_and_evaluate_fetches_every_helper():
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level:
                assert node.level == 1, path
                assert (FOLDER / f"{node.module}.py").is_file(), path
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                names = [node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
                for full in names:
                    top = full.split(".")[0]
                    assert top in ALLOWED or top in sys.stdlib_module_names, (path, full)
    main = FOLDER / "qrels_expansion.py"
    lines = [line for line in main.read_text().splitlines() if re.match(r"(from|import)\s", line)]
    assert all("," not in line and "#" not in line and "(" not in line for line in lines)
    fetched = {module for kind, module, *_ in get_imports(str(main)) if kind == "internal"}
    assert fetched == {path.stem for path in FOLDER.glob("*.py")} - {"app", "qrels_expansion"}


def test_the_first_metric_class_is_the_module():
    module = evaluate.load(str(FOLDER))
    assert type(module).__name__ == "QrelsExpansion"
    assert module.citation
    assert module.description


def card():
    _, front, body = (FOLDER / "README.md").read_text().split("---\n", 2)
    return yaml.safe_load(front), body


def test_the_card_is_complete():
    front, body = card()
    assert front["sdk"] == "gradio"
    assert str(front["sdk_version"]) == "6.31.0"
    assert front["app_file"] == "app.py"
    assert set(front["tags"]) >= {"evaluate", "metric"}
    assert {"title", "emoji"} <= set(front)
    for heading in ("How to use", "Inputs", "Output", "Formula", "Limitations", "Citation"):
        assert f"## {heading}" in body


@pytest.fixture
def published(monkeypatch):
    """Let `evaluate.load("gistbench/...")` find the modules of this checkout."""
    load = evaluate.load
    monkeypatch.setattr(evaluate, "load", lambda path: load(str(FOLDER.parent / path.removeprefix("gistbench/"))))


@pytest.mark.usefixtures("published")
def test_the_cards_example_gives_what_it_says(capsys):
    code, output = re.search(r"```python\n(.*?)```\n+```text\n(.*?)```", card()[1], re.DOTALL).groups()
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out == output


@pytest.mark.usefixtures("published")
def test_the_docstrings_examples_run():
    module = evaluate.load("gistbench/qrels_expansion")
    text = module.inputs_description
    test = doctest.DocTestParser().get_doctest(text, {"evaluate": evaluate}, "qrels_expansion", None, 0)
    assert len(test.examples) == 6
    assert doctest.DocTestRunner().run(test).failed == 0
    helper = sys.modules[type(module).__module__.rsplit(".", 1)[0] + ".significance"]
    assert doctest.testmod(helper) == (0, 1)


def load_app():
    spec = importlib.util.spec_from_file_location("app_qrels_expansion", FOLDER / "app.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_demo_scores_its_own_example():
    app = load_app()
    systems, rankings, agreement = app.score(*app.EXAMPLE)
    json.dumps([systems, rankings, agreement], allow_nan=False)
    assert [row[0] for row in systems[1:]] == ["EASE", "Popularity", "Random"]
    assert len(rankings) == 9
    assert dict(agreement[1:])["n_unparsed"] == 1
    bars = app.plot(systems)
    assert len(bars["ndcg"]) == 12
    assert all(0 <= value <= 1 for value in bars["ndcg"])
    assert len(app.score(app.RUNS, app.HUMAN)[1]) == 1
    with pytest.raises(ValueError, match="runs: the first line must name the columns system, user, item, score"):
        app.score("a,b\n1,2\n", *app.EXAMPLE[1:])
    with pytest.raises(ValueError, match="human_qrels, line 2: rating must be a number, found 'good'"):
        app.score(app.RUNS, "user,item,rating\nana,heat,good\n")


def test_the_demo_builds():
    pytest.importorskip("gradio", reason="gradio comes with the extra `space`")
    assert load_app().build()
