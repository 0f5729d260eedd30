"""Run folders on a Hub on loopback are reported like those on this machine."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from gistbench.runners.report.hub import local_folder

SPEC = importlib.util.spec_from_file_location("hub_server", Path(__file__).parents[2] / "hub_server.py")
hub_server = importlib.util.module_from_spec(SPEC)
sys.modules["hub_server"] = hub_server
SPEC.loader.exec_module(hub_server)

PUSH = """
import sys
from huggingface_hub import HfApi
HfApi().create_repo("me/runs", repo_type="dataset")
HfApi().upload_folder(repo_id="me/runs", repo_type="dataset", folder_path=sys.argv[1], path_in_repo="demo")
"""
OPEN = """
import json, sys
from pathlib import Path
from gistbench.hf_datasets.errors import GistbenchError
from gistbench.runners.report import Runs
found = []
for path in sys.argv[1:]:
    try:
        runs = Runs.open([Path(path)])
        found.append([[run.model, run.scores["ig_f1"].tolist(), run.oracle] for run in runs.all])
    except GistbenchError as error:
        found.append(f"{type(error).__name__}: {error}")
print(json.dumps(found))
"""


def call(script, environment, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_suite_and_a_run_on_the_hub_are_those_that_were_pushed(suite, interest, tmp_path):
    path = suite("one", {name: {"u": [interest("jazz", n + 1, e=2)]} for n, name in enumerate(("org/a", "org/b"))})
    with hub_server.Hub(tokens={"hf_writer": "me"}) as hub:
        environment = hub.environment(tmp_path / "home", token="hf_writer")
        call(PUSH, environment, path)
        address = "hf://datasets/me/runs"
        whole, one, absent, unknown = json.loads(
            call(OPEN, environment, f"{address}/demo", f"{address}@main/demo/org--a", f"{address}/films",
                 "hf://datasets/me/nothing/demo")
        )  # fmt: skip
    f1 = 2 / 3  # one of the two categories that the two verify together
    assert [(model, scores) for model, scores, _ in whole] == [("org/a", [f1]), ("org/b", [f1])]
    assert one == [["org/a", [f1], {"u": [1, 2]}]]
    assert absent.startswith("HubError: ")
    assert "me/runs has no folder 'films'" in absent
    assert unknown.startswith("HubError: ")
    assert "hf auth login" in unknown


@pytest.mark.parametrize("path", ["runs/demo", Path("/runs/hf:"), "hf/datasets/me/runs", "hf://models/me/runs"])
def test_other_paths_are_left_alone(path):
    assert local_folder(path) == Path(path)
