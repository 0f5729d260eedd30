"""Each module folder is a Space of its own: a copy of what the modules share, a card, a demo, requirements."""

import ast
import importlib.util
import json
import re
import sys
from pathlib import Path

import evaluate
import pytest
import yaml
from evaluate.loading import get_imports

MODULES = ("ig", "is")
ALLOWED = {"numpy", "scipy", "datasets", "evaluate", "pandas", "pyarrow", "gradio"}


@pytest.mark.parametrize("name", MODULES)
def test_common_is_the_same_everywhere(repo_root, name):
    original = (repo_root / "metrics" / "common.py").read_bytes()
    assert (repo_root / "metrics" / name / "common.py").read_bytes() == original, "run `make sync-metrics`"


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
    assert internal == {"common"}


@pytest.mark.parametrize("name", MODULES)
def test_first_metric_class_is_the_module(repo_root, name):
    module = evaluate.load(str(repo_root / "metrics" / name))
    assert type(module).__name__ == name.upper()
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
def test_demo_scores_its_own_example(repo_root, name):
    app = load_app(repo_root / "metrics" / name)
    summary, per_user, per_interest = app.score(*app.EXAMPLE)
    assert summary
    assert per_user
    assert per_interest
    json.dumps([summary, per_user, per_interest], allow_nan=False)
    with pytest.raises(ValueError, match="records"):
        app.score("[{]", *app.EXAMPLE[1:])


@pytest.mark.parametrize("name", MODULES)
def test_demo_builds(repo_root, name):
    pytest.importorskip("gradio", reason="gradio comes with the extra `space`")
    assert load_app(repo_root / "metrics" / name).build()
