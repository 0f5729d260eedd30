"""Expanded judgements go to a Hub on loopback and come back, with the real clients in processes of their own."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from gistbench.runners.qrels.induce import induce
from gistbench.runners.qrels.judge import judge
from gistbench.runners.qrels.judging import open_judge
from gistbench.runners.stages.grade import Condition

SPEC = importlib.util.spec_from_file_location("qrels_hub_server", Path(__file__).parents[3] / "hub_server.py")
hub_server = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = hub_server
SPEC.loader.exec_module(hub_server)

REPO = "me/ml-qrels"
TOKEN = "hf_writer"
COMMAND = "import sys; sys.argv[0] = 'gistbench'; from gistbench.runners.cli import main; main()"
LOAD = """
import json, sys, datasets
names = datasets.get_dataset_config_names(sys.argv[1])
print(json.dumps({name: datasets.load_dataset(sys.argv[1], name, split="train").to_list() for name in names}))
"""


@pytest.fixture
def hub():
    with hub_server.Hub(tokens={TOKEN: "me"}) as running:
        yield running


@pytest.fixture
def client(hub, tmp_path):
    """Run a script against the Hub in a process of its own."""

    def run(script, *arguments, token=TOKEN):
        command = [sys.executable, "-c", script, *map(str, arguments)]
        env = hub.environment(tmp_path / "home", token)
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=180)

    return run


@pytest.fixture
def work(pooled, simulate):
    """A folder with grades of one judge under two conditions."""
    simulate()
    with open_judge(pooled, "simulated:judge") as judging:
        induce(pooled, judging)
        judge(pooled, judging, [Condition("ipp"), Condition("ipp+profile")])
    return pooled


def expand(client, work, folder, *options):
    return client(COMMAND, "qrels", "expand", "-w", work.path, "--hub-folder", folder, "--push", REPO, *options)


def test_judgements_go_to_the_hub_and_come_back(client, hub, work, tmp_path):
    done = expand(client, work, tmp_path / "out", "--with-ratings", "--private")
    assert done.returncode == 0, done.stderr
    assert hub.repo(REPO).private
    assert hub.repo(REPO).head.message == "Judgements"
    assert hub.repo(REPO).head.oid[:12] in done.stdout
    loaded = client(LOAD, REPO)
    assert loaded.returncode == 0, loaded.stderr
    found = json.loads(loaded.stdout)
    assert set(found) == {"judge_at_1.ipp", "judge_at_1.ipp_and_profile"}
    for name, condition in (("judge_at_1.ipp", "ipp"), ("judge_at_1.ipp_and_profile", "ipp+profile")):
        written = pq.ParquetFile(work.path / "expanded" / "judge@1" / f"{condition}.parquet").read()
        assert found[name] == written.to_pylist()
        assert {row["source"] for row in found[name]} == {"human", "llm"}


def test_ratings_stay_at_home_unless_they_are_asked_for(client, hub, work, tmp_path):
    done = expand(client, work, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    found = json.loads(client(LOAD, REPO).stdout)["judge_at_1.ipp"]
    assert {row["source"] for row in found} == {"llm"}
    assert "human_rating" not in found[0]
    assert not hub.repo(REPO).private


def test_what_an_earlier_call_left_in_the_folder_is_not_pushed(client, hub, work, tmp_path):
    first = client(
        COMMAND,
        "qrels",
        "expand",
        "-w",
        work.path,
        "--hub-folder",
        tmp_path / "out",
        "--with-ratings",
        "--name",
        "judge@1",
    )
    assert first.returncode == 0, first.stderr
    data = tmp_path / "out" / "data"
    (data / "judge_at_1.ipp.parquet").rename(data / "other.ipp.parquet")
    (tmp_path / "out" / "notes.txt").write_text("private")
    done = expand(client, work, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    names = set(hub.repo(REPO).head.files)
    assert {"README.md", "data/judge_at_1.ipp.parquet", "data/judge_at_1.ipp_and_profile.parquet"} <= names
    assert not [name for name in names if "other" in name or "notes" in name]


def test_nothing_is_pushed_where_the_licence_forbids_ratings(client, hub, work, tmp_path):
    path = work.path / "split.json"
    path.write_text(path.read_text().replace(work.record("split")["dataset"], "movielens_ratings"))
    done = expand(client, work, tmp_path / "out", "--with-ratings")
    assert done.returncode == 1
    assert "does not allow to pass its ratings on" in " ".join(done.stderr.split())
    assert not hub.repos
    assert not (tmp_path / "out").exists()


def test_a_token_that_may_not_write_is_told(client, hub, work, tmp_path):
    done = client(
        COMMAND, "qrels", "expand", "-w", work.path, "--hub-folder", tmp_path / "out", "--push", REPO, token="hf_wrong"
    )
    assert done.returncode == 1
    assert REPO in done.stderr
    assert "Traceback" not in done.stderr
