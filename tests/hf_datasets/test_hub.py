"""Pushes to, and loads from, a Hub on loopback, with the real clients in processes of their own."""

import contextlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from gistbench.hf_datasets.errors import ConfigError
from gistbench.hf_datasets.folder import build_config, fingerprint_splits
from gistbench.hf_datasets.hub import push_configs, require_redistributable
from gistbench.hf_datasets.registry import CONFIG_NAMES

from .small_configs import PINNED, REDISTRIBUTABLE, parameters_of, source_of

SPEC = importlib.util.spec_from_file_location("hub_server", Path(__file__).parents[1] / "hub_server.py")
hub_server = importlib.util.module_from_spec(SPEC)
sys.modules["hub_server"] = hub_server
SPEC.loader.exec_module(hub_server)

REPO = "gistbench/gistbench"
WRITER, READER = "hf_writer", "hf_reader"

COMMAND = """
import sys, time
from gistbench.hf_datasets.errors import GistbenchError
from gistbench.runners.cli_hub import hub_app
import huggingface_hub.utils._http as http
http.time = type("Impatient", (), {**vars(time), "sleep": staticmethod(lambda seconds: time.sleep(seconds / 100))})
try:
    hub_app(["push-dataset", *sys.argv[1:]])
except GistbenchError as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""
"""The command, whose client waits a hundredth of the usual time before it tries again."""

LOAD = """
import json, sys, datasets, pyarrow as pa
from gistbench.hf_datasets.folder import fingerprint_splits
repo, revision, *names = sys.argv[1:]
found = {}
for name in names:
    whole = datasets.load_dataset(repo, name, revision=revision)
    tables = {split: rows.data.table.replace_schema_metadata() for split, rows in whole.items()}
    found[name] = fingerprint_splits(tables)
    stream = datasets.load_dataset(repo, name, split="train", revision=revision, streaming=True)
    rows = pa.Table.from_pylist(list(stream), schema=stream.features.arrow_schema.remove_metadata())
    found[name + " streamed"] = fingerprint_splits({"train": rows})
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def hub():
    with hub_server.Hub(tokens={WRITER: "gistbench"}, readers={READER: "visitor"}) as running:
        yield running


@pytest.fixture
def client(hub, cache, tmp_path):
    """Run a script against the Hub in a process with a cache of its own; builds are shared."""

    def run(script, *arguments, token=WRITER, wait=True, **environment):
        homes = len(list(tmp_path.glob("home*")))
        env = hub.environment(tmp_path / f"home{homes}", token)
        if script is COMMAND:
            env["HF_DATASETS_CACHE"] = str(cache)
        started = subprocess.Popen(
            [sys.executable, "-c", script, *arguments],
            env=env | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        (tmp_path / f"home{homes}").mkdir(exist_ok=True)
        if not wait:
            return started
        out, err = started.communicate(timeout=180)
        return subprocess.CompletedProcess(started.args, started.returncode, out, err)

    return run


@pytest.fixture
def push(client):
    def run(*arguments, **options):
        done = client(COMMAND, *arguments, "--repo", REPO, **options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def load(client):
    def run(*names, revision="main", repo=REPO, **options):
        done = client(LOAD, repo, revision, *names, **options)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def rows_of(cache, name, source=None, **parameters):
    """The hash of what loading has to return, as a whole and streamed."""
    content = fingerprint_splits(build_config(name, source=source, cache_dir=cache, parameters=parameters).splits)
    return {name: content, f"{name} streamed": content}


def commits(hub, repo=REPO):
    return [commit.message for commit in hub.repo(repo).commits]


@pytest.mark.parametrize(
    "names", [[name for name in REDISTRIBUTABLE if name not in PINNED], PINNED], ids=["ours and from files", "pinned"]
)
def test_every_config_that_may_be_passed_on_goes_there_and_back(names, hub, push, load, cache, tmp_path):
    arguments, expected = [], {}
    for name in names:
        source, parameters = source_of(name, tmp_path), parameters_of(name)
        arguments += ["--source", f"{name}={source}"] if source else []
        arguments += [part for key, value in parameters.items() for part in ("--option", f"{name}.{key}={value}")]
        expected |= rows_of(cache, name, source, **parameters)
    said = push(*names, *arguments, "--tag", "v1")
    assert commits(hub) == ["initial commit", f"Add {', '.join(names)}"]
    assert f"{hub.endpoint}/datasets/{REPO}" in said
    assert load(*names, token=None) == expected
    first = {key: expected[key] for key in (names[0], f"{names[0]} streamed")}
    assert load(names[0], revision="v1", token=None) == first

    # The same again: no commit, and nothing is offered for upload.
    before = list(hub.requests)
    assert "Nothing to push" in push(*names, *arguments, "--tag", "v1")
    assert len(commits(hub)) == 2
    assert all(method in ("GET", "HEAD") for method, _ in hub.requests[len(before) :])


def test_configs_stay_and_tags_keep_what_was(hub, push, load, cache):
    push("planted", "--option", "n_users=2", "--tag", "v1")
    push("demo")
    push("planted", "--option", "n_users=3", "--tag", "v2")
    assert commits(hub) == ["initial commit", "Add planted", "Add demo", "Add planted"]
    files = sorted(hub.repo(REPO).head.files)
    assert sum(path.startswith("planted/") for path in files) == 1
    assert load("demo", "planted") == rows_of(cache, "demo") | rows_of(cache, "planted", n_users=3)
    assert load("planted", revision="v1") == rows_of(cache, "planted", n_users=2)


def test_what_others_put_there_stays(hub, client, push, load):
    script = f"import datasets; datasets.Dataset.from_dict({{'a': [1, 2]}}).push_to_hub({REPO!r}, 'theirs')"
    assert client(script).returncode == 0
    push("demo")
    assert set(load("theirs", "demo")) == {"theirs", "theirs streamed", "demo", "demo streamed"}


def test_private_needs_a_token_that_may(hub, client, push, load, cache):
    push("demo", "--private")
    assert hub.repo(REPO).private
    refused = client(LOAD, REPO, "main", "demo", token=None)
    assert refused.returncode != 0
    assert "DatasetNotFoundError" in refused.stderr
    assert load("demo", token=READER) == rows_of(cache, "demo")
    refused = client(COMMAND, "planted", "--repo", REPO, "--option", "n_users=2", token=READER)
    assert f"HubError: {hub.endpoint} does not let you write to {REPO} (403)" in refused.stderr
    refused = client(COMMAND, "demo", "--repo", REPO, token=None)
    assert "Log in with `hf auth login` or set HF_TOKEN" in refused.stderr
    assert READER not in refused.stderr
    assert len(commits(hub)) == 2


def test_a_public_repository_is_not_taken_for_private(hub, client, push):
    push("demo")
    refused = client(COMMAND, "demo", "--repo", REPO, "--private")
    assert "ConfigError: gistbench/gistbench exists and is public" in refused.stderr


def test_a_connection_that_breaks_during_upload_leaves_the_old_revision(hub, client, push, load, cache):
    push("planted", "--option", "n_users=2")
    old = hub.repo(REPO).head.oid
    with hub.interrupt("PUT", "^/lfs/", after_bytes=1000) as happened:
        failed = client(COMMAND, "planted", "--repo", REPO, "--option", "n_users=3")
    assert happened.is_set()
    assert f"HubError: The upload to {hub.endpoint} failed" in failed.stderr
    assert "the same command again goes on" in failed.stderr
    assert hub.count("PUT", "^/lfs/") == 1 + 6  # the client tries again by itself
    assert hub.repo(REPO).head.oid == old
    assert load("planted") == rows_of(cache, "planted", n_users=2)
    push("planted", "--option", "n_users=3")
    assert load("planted") == rows_of(cache, "planted", n_users=3)


def test_a_push_that_is_killed_during_upload_leaves_the_old_revision(hub, client, push, load, cache):
    push("demo")
    with hub.interrupt("PUT", "^/lfs/", after_bytes=1000) as happened:
        killed = client(COMMAND, "planted", "--repo", REPO, "--option", "n_users=3", wait=False)
        assert happened.wait(120)
        os.kill(killed.pid, signal.SIGKILL)
        killed.communicate()
    assert commits(hub) == ["initial commit", "Add demo"]
    assert load("demo") == rows_of(cache, "demo")
    push("planted", "--option", "n_users=3")
    assert load("demo", "planted") == rows_of(cache, "demo") | rows_of(cache, "planted", n_users=3)


def test_a_connection_that_breaks_before_the_commit_leaves_the_old_revision(hub, client, push):
    push("demo")
    old = hub.repo(REPO).head
    with hub.interrupt("POST", "/commit/main$"):
        failed = client(COMMAND, "planted", "--repo", REPO, "--option", "n_users=2", "--tag", "v1")
    assert "HubError: The connection to" in failed.stderr
    assert hub.repo(REPO).head == old
    assert hub.repo(REPO).tags == {}
    uploads = hub.count("PUT", "^/lfs/")
    push("planted", "--option", "n_users=2", "--tag", "v1")
    assert hub.count("PUT", "^/lfs/") == uploads  # what was uploaded is not uploaded again
    assert hub.repo(REPO).tags == {"v1": hub.repo(REPO).head.oid}


def test_tags_are_not_moved(hub, client, push):
    push("demo", "--tag", "v1")
    refused = client(COMMAND, "planted", "--option", "n_users=2", "--repo", REPO, "--tag", "v1")
    assert "ConfigError: Tag 'v1' of gistbench/gistbench stands for commit" in refused.stderr
    assert commits(hub) == ["initial commit", "Add demo"]


def test_a_commit_of_somebody_else_meanwhile(hub, client, cache):
    script = COMMAND.replace(
        "try:",
        """
from gistbench.hf_datasets import hub
commit, others = hub._commit, iter([True])
def after_another(api, repo, *rest):
    if next(others, False):
        api.upload_file(path_or_fileobj=b"theirs", path_in_repo="their.txt", repo_id=repo, repo_type="dataset")
    return commit(api, repo, *rest)
hub._commit = after_another
try:""",
    )
    done = client(script, "demo", "--repo", REPO, HF_DATASETS_CACHE=str(cache))
    assert done.returncode == 0, done.stderr
    assert commits(hub)[2:] == ["Add demo"]
    assert {"their.txt", "gistbench.json", "README.md"} < set(hub.repo(REPO).head.files)


@pytest.mark.parametrize("name", [name for name in CONFIG_NAMES if name not in REDISTRIBUTABLE])
def test_what_may_not_be_passed_on_is_built_but_not_pushed(name, tmp_path, monkeypatch):
    monkeypatch.setattr("gistbench.hf_datasets.hub.HfApi", None)
    built = build_config(
        name, source=source_of(name, tmp_path), cache_dir=tmp_path / "cache", parameters=parameters_of(name)
    )
    assert built.entry.n_rows > 0
    with pytest.raises(
        ConfigError, match=rf"does not let us pass the rows on: {name} \(.*datasets build {name} --source"
    ):
        push_configs([built], REPO)


def test_licences_are_asked_before_anything_is_done(hub, client):
    refused = client(COMMAND, "demo", "movielens", "--repo", REPO, "--source", "movielens=/nowhere")
    assert "ConfigError: Not pushed, since the licence does not let us pass the rows on: movielens (" in refused.stderr
    assert "gistbench datasets build movielens --source PATH --out DIR" in refused.stderr
    assert hub.requests == []
    with pytest.raises(ConfigError, match="No dataset is called 'dem'"):
        require_redistributable(["dem"])


@pytest.mark.parametrize("name", ["gistbench", "a/b/c", "a/b c"])
def test_names_that_are_none(name):
    with pytest.raises(ConfigError, match=r"no name of a repository: write namespace/name"):
        push_configs([], name)


def test_options_and_sources_of_several_configs(hub, client):
    refused = client(COMMAND, "demo", "planted", "--repo", REPO, "--option", "n_users=2")
    assert "with several data sets, write CONFIG.NAME=VALUE" in refused.stderr
    refused = client(COMMAND, "demo", "planted", "--repo", REPO, "--source", "x.zip")
    assert "with several data sets, write CONFIG=PATH" in refused.stderr


def test_no_network_wanted_or_there(hub, client):
    refused = client(COMMAND, "demo", "--repo", REPO, HF_HUB_OFFLINE="1")
    assert "HubError: HF_HUB_OFFLINE is set" in refused.stderr
    refused = client(COMMAND, "demo", "--repo", REPO, HF_ENDPOINT="http://127.0.0.1:9")
    assert "HubError: The connection to http://127.0.0.1:9 failed" in refused.stderr


def test_a_repository_whose_records_cannot_be_read(hub, client, push):
    push("demo")
    repo = hub.repo(REPO)
    repo.commit("break", repo.head.files | {"gistbench.json": hub_server.Blob(b"{}", None)})
    refused = client(COMMAND, "demo", "--repo", REPO)
    assert f"DataError: {REPO}: gistbench.json at {repo.head.oid[:12]}: this is not the list" in refused.stderr


def test_the_hub_serves_spaces_as_well(hub, client, tmp_path):
    script = """
import huggingface_hub as hf
api = hf.HfApi()
api.create_repo("gistbench/ig", repo_type="space", space_sdk="gradio")
api.upload_file(path_or_fileobj=b"x = 1", path_in_repo="ig.py", repo_id="gistbench/ig", repo_type="space")
api.create_tag("gistbench/ig", tag="v0.4.6", repo_type="space")
print(open(hf.hf_hub_download("gistbench/ig", "ig.py", repo_type="space", revision="v0.4.6")).read())
print(api.space_info("gistbench/ig").sdk, [c.title for c in api.list_repo_commits("gistbench/ig", repo_type="space")])
"""
    done = client(script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["x = 1", "gradio ['Upload ig.py with huggingface_hub', 'initial commit']"]


@contextmanager
def olah(folder):
    """Install and start olah on the git repositories below ``folder/mirrors``; skip where it cannot be had."""
    python = folder / "olah" / "bin" / "python"
    try:
        subprocess.run([sys.executable, "-m", "venv", folder / "olah"], check=True, capture_output=True, timeout=60)
        install = [python, "-m", "pip", "install", "--quiet", "olah==0.5.4"]
        subprocess.run(install, check=True, capture_output=True, timeout=120)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"olah could not be installed within two minutes: {error}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = folder / "olah.toml"
    config.write_text(
        f'[basic]\nhost = "127.0.0.1"\nport = {port}\nmirror-netloc = "127.0.0.1:{port}"\n'
        f'mirror-lfs-netloc = "127.0.0.1:{port}"\nrepos-path = "{folder}/repos"\n'
        f'mirrors-path = ["{folder}/mirrors"]\n[accessibility]\noffline = true\n'
    )
    server = subprocess.Popen(
        [folder / "olah" / "bin" / "olah-cli", "-c", config, "--log-path", folder / "logs"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and server.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(20)


@pytest.mark.slow
def test_olah_serves_what_was_pushed(hub, push, load, cache, tmp_path):
    """An independent server, which reads git repositories, gives `datasets` the same rows."""
    push("demo", "planted", "--option", "planted.n_users=5")
    repository = tmp_path / "mirrors" / "datasets" / REPO
    for path, blob in hub.repo(REPO).head.files.items():
        file = repository / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(blob.pointer if blob.lfs else blob.content)
        if blob.lfs:
            stored = repository / ".git" / "lfs" / "objects" / blob.lfs[:2] / blob.lfs[2:4] / blob.lfs
            stored.parent.mkdir(parents=True, exist_ok=True)
            stored.write_bytes(blob.content)
    git = ["git", "-C", str(repository), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "as pushed"]):
        subprocess.run([*git, "-c", "filter.lfs.required=false", *command], check=True, capture_output=True)
    with olah(tmp_path) as endpoint:
        expected = rows_of(cache, "demo") | rows_of(cache, "planted", n_users=5)
        assert load("demo", "planted", token=None, HF_ENDPOINT=endpoint) == expected
