"""Each module folder is a Space of its own: a copy of what the modules share, a card, a demo, requirements."""

import ast
import importlib.util
import json
import re
import sys
from pathlib import Path

import evaluate
import pandas as pd
import pytest
import yaml
from evaluate.loading import get_imports

MODULES = ("ig", "is", "survey", "qrels_expansion")
SHARED = ("common", "comparison", "page")
DEMO = {"app", "page"}
ALLOWED = {"numpy", "scipy", "datasets", "evaluate", "pandas", "pyarrow", "gradio"}


def test_every_copy_anywhere_is_the_same(repo_root):
    for shared in SHARED:
        copies = {path.read_bytes() for path in (repo_root / "metrics").glob(f"**/{shared}.py")}
        assert len(copies) == 1, "run `make sync-metrics`"
    for name in MODULES:
        assert {"common.py", "page.py"} <= {path.name for path in (repo_root / "metrics" / name).glob("*.py")}


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
                    beside = path.stem == "app" and top == "page"
                    assert beside or top in ALLOWED or top in sys.stdlib_module_names, (path, full)
    lines = [line for line in (folder / f"{name}.py").read_text().splitlines() if re.match(r"(from|import)\s", line)]
    assert all("," not in line and "#" not in line and "(" not in line for line in lines)
    internal = {module for kind, module, *_ in get_imports(str(folder / f"{name}.py")) if kind == "internal"}
    helpers = {path.stem for path in folder.glob("*.py")} - {name} - DEMO
    assert internal == helpers  # `evaluate` fetches what the main module imports, and nothing else


@pytest.mark.parametrize("name", MODULES)
def test_first_metric_class_is_the_module(repo_root, name):
    module = evaluate.load(str(repo_root / "metrics" / name))
    assert type(module).__name__.lower() == name.replace("_", "")
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


@pytest.fixture
def load_app(repo_root, monkeypatch):
    """Load a demo as a Space runs it: with its folder first on the path."""

    def load(name):
        folder = repo_root / "metrics" / name
        monkeypatch.syspath_prepend(folder)
        monkeypatch.delitem(sys.modules, "page", raising=False)
        spec = importlib.util.spec_from_file_location(f"app_{name}", folder / "app.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.mark.parametrize("name", MODULES)
def test_demo_scores_its_own_example(load_app, name):
    app = load_app(name)
    tables = app.score(*app.EXAMPLE)
    assert tuple(tables) == app.TABLES
    for header, *rows in tables.values():
        assert rows
        assert all(len(row) == len(header) for row in rows)
    json.dumps(tables, allow_nan=False)
    *_, height = (bars := app.bars(tables))
    assert len(bars) == 3
    assert bars[height]
    assert all(0 <= value <= 1 for value in bars[height])


@pytest.mark.parametrize("name", ["ig", "is", "survey"])
def test_demo_says_what_is_wrong_with_records(load_app, name):
    app = load_app(name)
    with pytest.raises(ValueError, match="records: line 1 is no valid JSON"):
        app.score("[{]", *app.EXAMPLE[1:])
    with pytest.raises(ValueError, match="records must be a JSON object by user id"):
        app.score("[]", *app.EXAMPLE[1:])


@pytest.mark.parametrize("name", ["ig", "is", "survey"])
def test_demo_takes_uploads(load_app, name, tmp_path):
    app = load_app(name)
    records, *rest = app.EXAMPLE
    wanted = app.score(*app.EXAMPLE)
    (tmp_path / "records.json").write_bytes(b"\xef\xbb\xbf" + records.encode())
    assert app.score(tmp_path / "records.json", *rest) == wanted
    by_user = json.loads(records)
    rows = [
        {"user_id": user, **record, "of_another_stage": 1}
        for user, own in by_user.items()
        for record in (own if isinstance(own, list) else [own])
    ]
    pd.DataFrame(rows).to_parquet(tmp_path / "records.parquet")
    assert app.score(tmp_path / "records.parquet", *rest) == wanted
    pd.DataFrame(rows).drop(columns="user_id").to_parquet(tmp_path / "records.parquet")
    with pytest.raises(ValueError, match="records: the Parquet file lacks the column user_id; it has "):
        app.score(tmp_path / "records.parquet", *rest)
    (tmp_path / "broken.parquet").write_text("no")
    with pytest.raises(ValueError, match=r"records: broken\.parquet is no Parquet file"):
        app.score(tmp_path / "broken.parquet", *rest)


def test_demo_of_ig_takes_histories_as_parquet(load_app, tmp_path):
    app = load_app("ig")
    (tmp_path / "history.csv").write_text(app.HISTORY)
    pd.read_csv(tmp_path / "history.csv", dtype=str).to_parquet(tmp_path / "history.parquet")
    for end in ("csv", "parquet"):
        assert app.score(app.RECORDS, tmp_path / f"history.{end}", app.ORACLE) == app.score(*app.EXAMPLE)


def test_demo_of_qrels_takes_trec_files_and_parquet(load_app, tmp_path):
    app = load_app("qrels_expansion")
    wanted = app.score(*app.EXAMPLE)
    assert [row[0] for row in wanted["Systems"][1:]] == ["EASE", "Popularity", "Random"]
    assert len(wanted["Rankings"]) == 9
    assert dict(wanted["Agreement"][1:])["n_unparsed"] == 1
    names = ("runs", "human_qrels", "llm_qrels", "popularity")
    frames = {name: pd.DataFrame(app._table(text, name)) for name, text in zip(names, app.EXAMPLE, strict=True)}
    for name, frame in frames.items():
        frame.to_parquet(tmp_path / f"{name}.parquet")
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    for end in ("parquet", "csv"):
        assert app.score(*(tmp_path / f"{name}.{end}" for name in names)) == wanted
    runs = [f"{u} Q0 {i} 1 {x} {s}" for s, u, i, x in frames["runs"].itertuples(index=False)]
    (tmp_path / "run.txt").write_text("\n".join(runs))
    judged = [f"{u} 0 {i} {r}" for u, i, r in frames["human_qrels"].itertuples(index=False)]
    (tmp_path / "people.qrels").write_text("\n".join(judged))
    assert app.score(tmp_path / "run.txt", tmp_path / "people.qrels", *app.EXAMPLE[2:]) == wanted
    assert len(app.score(app.RUNS, app.HUMAN)["Rankings"]) == 1
    (tmp_path / "run.txt").write_text("1 Q0 x 1\n")
    with pytest.raises(ValueError, match=r"run\.txt, line 1: found 4 field\(s\), expected 6"):
        app.score(tmp_path / "run.txt", app.HUMAN)
    with pytest.raises(ValueError, match="runs: the first line must name the columns system, user, item, score"):
        app.score("a,b\n1,2\n", *app.EXAMPLE[1:])
    with pytest.raises(ValueError, match="human_qrels, line 2: rating must be a number, found 'good'"):
        app.score(app.RUNS, "user,item,rating\nana,heat,good\n")


@pytest.mark.parametrize("name", MODULES)
def test_demo_builds_and_its_button_scores(load_app, name, tmp_path, monkeypatch):
    gradio = pytest.importorskip("gradio", reason="gradio comes with the extra `space`")
    monkeypatch.setenv("GRADIO_ANALYTICS_ENABLED", "False")
    app = load_app(name)
    page = app.build()
    press = next(function for function in page.fns.values() if function.targets[0][1] == "click")
    values = [component.value for component in press.inputs]
    bars, *frames = press.fn(*values)
    wanted = app.score(*app.EXAMPLE)
    assert [list(frame.columns) for frame in frames] == [table[0] for table in wanted.values()]
    assert len(bars)

    # An uploaded file counts before what is pasted; what is wrong with it is shown.
    (tmp_path / "upload.csv").write_text("nothing")
    values[len(app.EXAMPLE)] = str(tmp_path / "upload.csv")
    with pytest.raises(gradio.Error, match=r"records: line 1 is no valid JSON|runs: the first line must name"):
        press.fn(*values)
