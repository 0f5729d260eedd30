"""Metrics go to a Hub on loopback, and into a modules cache, and load from there in processes of their own."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import evaluate
import pytest
from gistbench.hf_datasets.errors import ConfigError
from gistbench.runners.metrics_hub import install_metrics, metric_folders, uninstall_metrics

SPEC = importlib.util.spec_from_file_location("hub_server", Path(__file__).parents[1] / "hub_server.py")
hub_server = importlib.util.module_from_spec(SPEC)
sys.modules["hub_server"] = hub_server
SPEC.loader.exec_module(hub_server)

NAMES = tuple(metric_folders())
TAG = f"v{evaluate.__version__}"
WRITER, READER = "hf_writer", "hf_reader"
NOWHERE = "http://127.0.0.1:9"  # the port of discard: nothing listens

QUICK = "import sys; sys.modules['transformers'] = None; import evaluate; del sys.modules['transformers']\n"
"""`evaluate` would load transformers, and with it torch, for its pipelines: seconds that no test here needs."""

COMMAND = """
import sys, time
from gistbench.hf_datasets.errors import GistbenchError
from gistbench.runners.cli_hub import hub_app
import huggingface_hub.utils._http as http
http.time = type("Impatient", (), {**vars(time), "sleep": staticmethod(lambda seconds: time.sleep(seconds / 100))})
try:
    hub_app(sys.argv[1:])
except GistbenchError as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""

USE = """
import json, sys, time, evaluate
started = time.monotonic()
history = {"user_id": ["7"] * 2, "object_id": ["a", "b"], "interaction_type": ["explicit_positive"] * 2}
record = {"interest": "NBA", "category_id": 3, "item_ids": ["a", "b"], "relevant_item_ids": None}
retrieval = {"verified": True, "backing_item_ids": ["a", "b"], "selected_item_ids": ["a", "x"]}
options = {"history": history, "oracle": {"7": [3, 9]}}
ig, specificity, survey = (evaluate.load(f"gistbench/{name}") for name in ("ig", "is", "survey"))
found = ig.compute(predictions=[[record]], references=["7"], **options)
scores = {"ig_recall": found["ig_recall"]}
only = {"interest": "NBA", "category_id": 3, **retrieval}
scores["is"] = specificity.compute(predictions=[[only]], references=["7"], ig_f1={"7": found["ig_f1"]})["is"]
scores["s_recall"] = survey.compute(predictions=[[3]], references=[[3, 9]])["s_recall"]
qrels_expansion = evaluate.load("gistbench/qrels_expansion")
runs = {"system": ["A"] * 2, "user": ["7"] * 2, "item": ["x", "y"], "score": [2.0, 1.0]}
human, llm = {"user": ["7"], "item": ["y"], "rating": [5]}, {"user": ["7"], "item": ["x"], "rating": [4]}
qrels = {"human_qrels": human, "llm_qrels": llm, "n_resamples": 0}
expanded = qrels_expansion.compute(runs=runs, **qrels)["per_system"]
qrels_expansion.add_batch(predictions=[{name: runs[name] for name in ("user", "item", "score")}], references=["A"])
assert qrels_expansion.compute(**qrels)["per_system"] == expanded
scores["ap"] = [expanded["ap_human"], expanded["ap_augmented"]]

# Collected batches, two instances of one module at once, in memory and on disk.
others = [evaluate.load("gistbench/ig"), evaluate.load("gistbench/ig", keep_in_memory=True)]
for module in (ig, *others):
    module.add_batch(predictions=[[record]], references=["7"])
scores["collected"] = [module.compute(**options)["ig_recall"] for module in (ig, *others)]

# One call for two modules, on records that hold what both need.
combined = evaluate.combine(["gistbench/ig", "gistbench/is"])
both = combined.compute(predictions=[[{**record, **retrieval}]], references=["7"], **options)
scores["combined"] = [both["ig_recall"], both["is"], both["is_policy"]["arguments_not_used"]]
combined.add_batch(predictions=[[{**record, **retrieval}]], references=["7"])
scores["combined batches"] = combined.compute(**options)["is"]

path = evaluate.save(sys.argv[1], **both)
scores["saved"] = json.loads(path.read_text())["ig_per_user"]["user_id"]
scores["oracle"] = ig.build_oracle(predictions={"x": [[record]]}, references=["7"], history=history)["oracle"]
print(json.dumps(scores))
"""
EXPECTED = {
    "ig_recall": 0.5,
    "is": 0.5,
    "s_recall": 0.5,
    "ap": [[0.5], [1.0]],
    "collected": [0.5, 0.5, 0.5],
    "combined": [0.5, 0.5, ["history", "oracle"]],
    "combined batches": 0.5,
    "saved": ["7"],
    "oracle": {"7": [3]},
}


@pytest.fixture
def hub():
    with hub_server.Hub(tokens={WRITER: "gistbench"}, readers={READER: "visitor"}) as running:
        yield running


@pytest.fixture
def client(tmp_path):
    """Run a script in a process with an environment and an empty directory of its own."""

    def run(script, *arguments, env):
        directory = tmp_path / f"directory{len(list(tmp_path.glob('directory*')))}"
        directory.mkdir()
        return subprocess.run(
            [sys.executable, "-c", QUICK + script, *arguments],
            env=env,
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=180,
        )

    return run


@pytest.fixture
def command(client):
    def run(*arguments, env):
        done = client(COMMAND, *arguments, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def use(client, tmp_path):
    def run(env):
        done = client(USE, str(tmp_path / "saved.json"), env=env)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def nowhere(home):
    """The environment of a client that reaches no Hub."""
    with hub_server.Hub() as never:
        env = never.environment(home)
    return env | {"HF_ENDPOINT": NOWHERE}


# --- the Hub --------------------------------------------------------------------------------------------------------


def test_pushed_metrics_load_anywhere_and_again_when_the_hub_is_gone(client, command, use, tmp_path):
    with hub_server.Hub(tokens={WRITER: "gistbench"}) as hub:
        said = command("push-metrics", env=hub.environment(tmp_path / "writer", WRITER))
        for name in NAMES:
            assert f"gistbench/{name}: pushed, commit " in said
            space = hub.repo(f"gistbench/{name}", "spaces")
            assert [commit.message for commit in space.commits] == ["initial commit", f"Add {name}"]
            assert space.sdk == "gradio"
            assert space.tags == {TAG: space.head.oid}
            assert {f"{name}.py", "README.md", "app.py", "requirements.txt", "common.py"} <= set(space.head.files)
            assert not any("__pycache__" in path for path in space.head.files)
        reader = hub.environment(tmp_path / "reader")
        assert use(reader) == EXPECTED
        assert hub.count("GET", f"^/spaces/gistbench/ig/resolve/{TAG}/ig.py$") > 0
        assert hub.count("GET", "^/spaces/gistbench/ig/resolve/main/") == 0
    assert use(reader) == EXPECTED
    assert use(reader | {"HF_EVALUATE_OFFLINE": "1"}) == EXPECTED


def test_the_same_again_makes_no_commit(hub, command, tmp_path):
    env = hub.environment(tmp_path / "home", WRITER)
    command("push-metrics", "survey", env=env)
    before = len(hub.requests)
    assert "gistbench/survey: nothing to push, commit " in command("push-metrics", "survey", env=env)
    assert len(hub.repo("gistbench/survey", "spaces").commits) == 2
    assert all(method in ("GET", "HEAD") for method, _ in hub.requests[before:])


def test_a_changed_metric_replaces_the_old_one_and_the_tag_follows(hub, command, tmp_path):
    env = hub.environment(tmp_path / "home", WRITER)
    command("push-metrics", "survey", "--repo-namespace", "others", env=env)
    space = hub.repo("others/survey", "spaces")
    files = dict(space.head.files)
    files["README.md"] = hub_server.Blob(b"old", None)
    files["helper.py"] = hub_server.Blob(b"stale", None)
    space.commit("by hand", files)
    space.tags[TAG] = space.commits[0].oid
    assert "pushed" in command("push-metrics", "survey", "--repo-namespace", "others", env=env)
    assert space.head.message == "Update survey"
    assert "helper.py" not in space.head.files
    assert space.head.files["README.md"].content == (metric_folders()["survey"] / "README.md").read_bytes()
    assert ".gitattributes" in space.head.files
    assert space.tags == {TAG: space.head.oid}


def test_a_push_that_broke_before_its_tag_is_completed(hub, client, command, tmp_path):
    env = hub.environment(tmp_path / "home", WRITER)
    with hub.interrupt("POST", "/tag/") as happened:
        failed = client(COMMAND, "push-metrics", "survey", env=env)
    assert happened.is_set()
    assert failed.returncode != 0
    assert "HubError: " in failed.stderr
    assert not hub.repo("gistbench/survey", "spaces").tags
    assert "nothing to push" in command("push-metrics", "survey", env=env)
    assert hub.repo("gistbench/survey", "spaces").tags


def test_who_may_not_write_is_told_so(hub, client, tmp_path):
    refused = client(COMMAND, "push-metrics", "survey", env=hub.environment(tmp_path / "a", READER))
    assert f"HubError: {hub.endpoint} does not let you write to gistbench/survey (403)" in refused.stderr
    refused = client(COMMAND, "push-metrics", "survey", env=hub.environment(tmp_path / "b"))
    assert "Log in with `hf auth login` or set HF_TOKEN" in refused.stderr
    refused = client(COMMAND, "push-metrics", "survey", env=nowhere(tmp_path / "c"))
    assert f"HubError: The connection to {NOWHERE} failed" in refused.stderr
    refused = client(COMMAND, "push-metrics", "bleu", env=nowhere(tmp_path / "d"))
    assert f"ConfigError: There is no metric 'bleu'; there are {', '.join(NAMES)}." in refused.stderr


# --- the modules cache ----------------------------------------------------------------------------------------------


def tree(folder):
    """Every file with its content and every folder."""
    if not folder.exists():
        return None
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def test_installed_metrics_load_without_any_server_and_go_without_a_trace(command, client, use, tmp_path):
    env = nowhere(tmp_path / "home")
    said = command("install-metrics", env=env)
    assert all(f'evaluate.load("gistbench/{name}")' in said for name in NAMES)
    assert use(env) == EXPECTED
    assert use(env | {"HF_EVALUATE_OFFLINE": "1"}) == EXPECTED
    assert f"Removed: {', '.join(NAMES)}" in command("install-metrics", "--uninstall", env=env)
    assert not (tmp_path / "home" / "modules").exists()
    assert "Nothing was installed." in command("install-metrics", "--uninstall", env=env)
    failed = client(USE, "saved.json", env=env)
    assert "FileNotFoundError" in failed.stderr


def test_an_installation_is_what_a_download_makes(tmp_path, command, use):
    with hub_server.Hub(tokens={WRITER: "gistbench"}) as hub:
        command("push-metrics", env=hub.environment(tmp_path / "writer", WRITER))
        downloaded = hub.environment(tmp_path / "downloaded")
        use(downloaded | {"PYTHONDONTWRITEBYTECODE": "1"})
    command("install-metrics", env=nowhere(tmp_path / "installed") | {"PYTHONDONTWRITEBYTECODE": "1"})
    one, two = (tree(tmp_path / home / "modules") for home in ("downloaded", "installed"))
    two.pop(".gistbench-installed.json")
    same = {path for path in one if not path.endswith((".json", ".lock"))}
    assert {path: one[path] for path in same} == {path: two[path] for path in two if not path.endswith(".json")}

    # Over a download nothing is copied, and afterwards all is as it was, times too.
    cache = tmp_path / "downloaded" / "modules"
    before, times = tree(cache), {path: path.stat().st_mtime_ns for path in cache.rglob("*.py")}
    install_metrics(cache=cache)
    assert set(tree(cache)) - set(before) == {".gistbench-installed.json"}
    assert uninstall_metrics(cache=cache) == list(NAMES)
    assert tree(cache) == before
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*.py")} == times


def changed(folder, tmp_path, version):
    """A copy of a metric's folder that differs in its version."""
    import shutil

    root = tmp_path / f"root{version}"
    shutil.copytree(folder, root / folder.name, ignore=shutil.ignore_patterns("__pycache__"))
    main = root / folder.name / f"{folder.name}.py"
    main.write_text(main.read_text().replace('__version__ = "', f'__version__ = "{version}.'))
    return root


def test_the_newest_installation_counts_and_replaces_the_last(tmp_path, client):
    cache = tmp_path / "home" / "modules"
    env = nowhere(tmp_path / "home")
    script = (
        "import evaluate; m = evaluate.load('gistbench/survey', keep_in_memory=True); "
        "print(m.compute(predictions=[[1]], references=[[1]])['policy']['module_version'])"
    )
    folder = metric_folders()["survey"]
    for version in ("8", "9"):
        install_metrics(cache=cache, root=changed(folder, tmp_path, version))
        done = client(script, env=env)
        assert done.stdout.startswith(f"{version}."), done.stderr
        copies = [
            path for path in (cache / "evaluate_modules/metrics/gistbench--survey").iterdir() if len(path.name) == 64
        ]
        assert len(copies) == 1
    assert uninstall_metrics(cache=cache, root=tmp_path / "root9") == ["survey"]
    assert not cache.exists()


def test_what_others_put_there_stays(tmp_path):
    cache = tmp_path / "modules"
    foreign = cache / "evaluate_modules" / "metrics" / "accuracy" / ("a" * 64) / "accuracy.py"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("theirs")
    before = tree(cache)
    install_metrics(["ig", "is"], cache=cache)
    assert uninstall_metrics(["ig"], cache=cache) == ["ig"]
    assert (cache / "evaluate_modules" / "metrics" / "gistbench--is").is_dir()
    assert not (cache / "evaluate_modules" / "metrics" / "gistbench--ig").exists()
    assert uninstall_metrics(cache=cache) == ["is"]
    assert tree(cache) == before

    # And what came later, into folders that the installation made.
    other = tmp_path / "other"
    install_metrics(["survey"], cache=other)
    later = other / "evaluate_modules" / "metrics" / "accuracy" / "accuracy.py"
    later.parent.mkdir()
    later.write_text("theirs")
    assert uninstall_metrics(cache=other) == ["survey"]
    assert later.read_text() == "theirs"
    assert (other / "evaluate_modules" / "metrics" / "__init__.py").is_file()
    assert not (other / "evaluate_modules" / "metrics" / "gistbench--survey").exists()


def test_an_installation_that_broke_leaves_nothing_that_counts(tmp_path, monkeypatch):
    cache = tmp_path / "modules"

    def breaks(*_):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr("shutil.copyfile", breaks)
        with pytest.raises(ConfigError, match=r"cannot be written \(disk full\)"):
            install_metrics(["survey"], cache=cache)
    copies = [path for path in cache.rglob("*") if len(path.name) == 64]
    assert not copies
    assert install_metrics(["survey"], cache=cache)["survey"].is_dir()
    uninstall_metrics(cache=cache)
    assert not cache.exists()


def test_a_cache_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"modules cache .* cannot be written"):
        install_metrics(cache=tmp_path / "file" / "modules")
    with pytest.raises(ConfigError, match="'a/b/ig' is no name of a repository"):
        install_metrics(namespace="a/b", cache=tmp_path / "x")
    with pytest.raises(ConfigError, match="There is no metric 'bleu'"):
        uninstall_metrics(["bleu"], cache=tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_every_folder_with_a_module_of_its_name_is_a_metric(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "one" / "one.py").touch()
    (tmp_path / "two" / "other.py").touch()
    assert list(metric_folders(tmp_path)) == ["one"]
    assert set(NAMES) == {"ig", "is", "survey", "qrels_expansion"}
    assert os.path.isdir(metric_folders()["ig"])
