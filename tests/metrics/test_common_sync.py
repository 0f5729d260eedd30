"""Each module folder is a Space of its own: a copy of what the modules share, a card, a demo, requirements."""

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

MODULES = ("ig", "is", "survey")
SHARED = ("common", "comparison")
ALLOWED = {"numpy", "scipy", "datasets", "evaluate", "pandas", "pyarrow", "gradio"}


@pytest.mark.parametrize("shared", SHARED)
@pytest.mark.parametrize("name", MODULES)
def test_what_is_shared_is_the_same_everywhere(repo_root, name, shared):
    original = (repo_root / "metrics" / f"{shared}.py").read_bytes()
    assert (repo_root / "metrics" / name / f"{shared}.py").read_bytes() == original, "run `make sync-metrics`"


def test_every_copy_anywhere_is_the_same(repo_root):
    for shared in SHARED:
        copies = {path.read_bytes() for path in (repo_root / "metrics").glob(f"**/{shared}.py")}
        assert len(copies) == 1, "run `make sync-metrics`"


@pytest.mark.parametrize("name", MODULES)
def test_imports_are_what_a_space_has_and_what_evaluate_can_read(repo_root, name):
    folder = repo_root / "metrics" / name
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level:
                assert node.level == 1, path
                assert (folder / f"{node.module}.py").is_file(), path
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                names = [node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
                for full in names:
                    top = full.split(".")[0]
                    assert top in ALLOWED or top in sys.stdlib_module_names, (path, full)
    lines = [line for line in (folder / f"{name}.py").read_text().splitlines() if re.match(r"(from|import)\s", line)]
    assert all("," not in line and "#" not in line and "(" not in line for line in lines)
    internal = {module for kind, module, *_ in get_imports(str(folder / f"{name}.py")) if kind == "internal"}
    helpers = {path.stem for path in folder.glob("*.py")} - {name, "app"}
    assert internal == helpers  # `evaluate` fetches what the main module imports, and nothing else


@pytest.mark.parametrize("name", MODULES)
def test_first_metric_class_is_the_module(repo_root, name):
    module = evaluate.load(str(repo_root / "metrics" / name))
    assert type(module).__name__.lower() == name
    assert module.citation
    assert module.description


def card(folder: Path) -> tuple[dict, str]:
    _, front, body = (folder / "README.md").read_text().split("---\n", 2)
    return yaml.safe_load(front), body


@pytest.mark.parametrize("name", MODULES)
def test_cards(repo_root, name):
    front, body = card(repo_root / "metrics" / name)
    assert front["sdk"] == "gradio"
    assert str(front["sdk_version"]) == "6.31.0"
    assert front["app_file"] == "app.py"
    assert set(front["tags"]) >= {"evaluate", "metric"}
    assert {"title", "emoji"} <= set(front)
    for heading in ("How to use", "Inputs", "Output", "Formula", "Limitations", "Citation"):
        assert f"## {heading}" in body


@pytest.mark.parametrize("name", MODULES)
def test_the_cards_example_gives_what_it_says(repo_root, name, monkeypatch, capsys):
    load = evaluate.load
    monkeypatch.setattr(
        evaluate, "load", lambda path: load(str(repo_root / "metrics" / path.removeprefix("gistbench/")))
    )
    _, body = card(repo_root / "metrics" / name)
    code, output = re.search(r"```python\n(.*?)```\n+```text\n(.*?)```", body, re.DOTALL).groups()
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out == output


def load_app(folder: Path):
    spec = importlib.util.spec_from_file_location(f"app_{folder.name}", folder / "app.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(repo_root, name, monkeypatch):
    """Those of the functions, those that `help(module.compute)` shows, and those of the helpers."""
    load = evaluate.load
    module = load(str(repo_root / "metrics" / name))
    monkeypatch.setattr(
        evaluate, "load", lambda path: load(str(repo_root / "metrics" / path.removeprefix("gistbench/")))
    )
    package = type(module).__module__.rpartition(".")[0]
    helpers = [path.stem for path in (repo_root / "metrics" / name).glob("*.py") if path.stem != "app"]
    finder, runner = doctest.DocTestFinder(exclude_empty=True), doctest.DocTestRunner()
    tests = [test for stem in helpers for test in finder.find(sys.modules[f"{package}.{stem}"])]
    assert sum(len(test.examples) for test in tests) >= 5
    shown = doctest.DocTestParser().get_doctest(
        module.inputs_description, {"evaluate": evaluate}, f"{name}.compute", None, None
    )
    assert len(shown.examples) >= 3
    for test in (*tests, shown):
        runner.run(test)
    assert runner.failures == 0


@pytest.mark.parametrize("name", MODULES)
def test_demo_scores_its_own_example(repo_root, name, tmp_path):
    app = load_app(repo_root / "metrics" / name)
    tables = app.score(*app.EXAMPLE)
    assert {"Summary", "Users"} <= set(tables)
    for header, *rows in tables.values():
        assert rows
        assert all(len(row) == len(header) for row in rows)
    json.dumps(tables, allow_nan=False)
    bars = app.bars(tables["Users"])
    assert set(bars) == {"user", "metric", "value"}
    assert set(bars["metric"]) <= set(app.METRICS)
    assert all(0 <= value <= 1 for value in bars["value"])
    assert app.bars([tables["Users"][0]]) == {}
    with pytest.raises(ValueError, match="records: line 1 is no valid JSON"):
        app.score("[{]", *app.EXAMPLE[1:])
    with pytest.raises(ValueError, match="records must be a JSON object by user id"):
        app.score("[]", *app.EXAMPLE[1:])
    (tmp_path / "upload.json").write_bytes(b"\xef\xbb\xbf{}")
    assert app.read(str(tmp_path / "upload.json")) == "{}"


@pytest.mark.parametrize("name", MODULES)
def test_demo_builds(repo_root, name):
    pytest.importorskip("gradio", reason="gradio comes with the extra `space`")
    assert load_app(repo_root / "metrics" / name).build()
