"""Results and the Space go to a Hub on loopback, are shown from there, and submissions come back as pull requests."""

import ast
import importlib.util
import io
import json
import re
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from gistbench.runners.space_hub import space_files
from gistbench.space.leaderboard.intake import FILES

SPEC = importlib.util.spec_from_file_location("hub_server", Path(__file__).parents[1] / "hub_server.py")
hub_server = importlib.util.module_from_spec(SPEC)
sys.modules["hub_server"] = hub_server
SPEC.loader.exec_module(hub_server)

WRITER = "hf_writer"
QUICK = "import sys; sys.modules['transformers'] = None; import evaluate; del sys.modules['transformers']\n"
PUSH = (
    QUICK
    + """
from pathlib import Path
from gistbench.runners.space_hub import push_results, push_space
first = push_results([Path(sys.argv[1])], "gistbench/results")
again = push_results([Path(sys.argv[1])], "gistbench/results")
only_index = push_results([], "gistbench/results")
space = push_space("gistbench/leaderboard", results="gistbench/results")
space_again = push_space("gistbench/leaderboard", results="gistbench/results")
print(first.changed, again.changed, only_index.changed, space.changed, space_again.changed)
"""
)
SUBMIT = (
    QUICK
    + """
from huggingface_hub import HfApi
from leaderboard.data import open_store
from leaderboard.intake import SubmissionError
from leaderboard.submit import Submissions
from leaderboard import check, submit
submit._run_check = check.check
HfApi().create_repo("gistbench/mine", repo_type="dataset")
HfApi().upload_folder(repo_id="gistbench/mine", repo_type="dataset", folder_path=sys.argv[1], path_in_repo="run")
store = open_store("gistbench/results", "hf_writer")
assert store.snapshot is not None, store.problem
submissions = Submissions(store, "hf_writer")
from types import SimpleNamespace
from leaderboard.page import _Page
page = _Page(store, submissions)
said, checked, button, _ = page._check(None, "gistbench/mine/run", SimpleNamespace(client=None))
assert "The records hold together" in said, said
assert button.visible
print(checked.result["summary"]["hm"])
opened, nothing, button = page._open(checked)
assert nothing is None and not button.visible
print(opened)
print(page._open(checked)[0])
for name in ("gistbench/none", "gistbench/mine", "gistbench/mine/other"):
    try:
        submissions.check([], name, "1")
    except SubmissionError as error:
        print("refused:", error)
"""
)
REJUDGE = (
    QUICK
    + """
from gistbench.runners.cli import app
app(["hub", "rejudge", "gistbench/results", "--revision", "refs/pr/1", "--judge", "lexical/overlap", *sys.argv[1:]])
"""
)
REFRESH = """
import sys
from huggingface_hub.utils import close_session
from leaderboard.data import open_store
store = open_store("gistbench/results")
rows = len(store.snapshot.index)
print(rows, store.refresh(), store.problem)
sys.stdin.readline()
close_session()  # a connection that is kept alive outlives the server's end
print(store.refresh(), len(store.snapshot.index) == rows, store.problem)
"""


@pytest.fixture(scope="module")
def hub():
    with hub_server.Hub(tokens={WRITER: "gistbench"}) as running:
        yield running


@pytest.fixture(scope="module")
def environment(hub, tmp_path_factory, repo_root):
    made = hub.environment(tmp_path_factory.mktemp("home"), token=WRITER)
    return made | {"GISTBENCH_METRICS": str(repo_root / "metrics")}


@pytest.fixture(scope="module")
def pushed(environment, demo_suite):
    done = subprocess.run(
        [sys.executable, "-c", PUSH, str(demo_suite)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_results_and_space_are_pushed_once(pushed, hub):
    assert pushed == ["True", "False", "False", "True", "False"]
    files = hub.repo("gistbench/results").head.files
    assert {"index.parquet", "published.parquet", "categories.parquet", "results.json", "README.md"} <= set(files)
    assert sum(name.endswith("/scores.parquet") for name in files) == 3
    assert not any("answers" in name for name in files)
    space = hub.repo("gistbench/leaderboard", "spaces").head.files
    assert {"app.py", "README.md", "requirements.txt", "leaderboard/page.py", "leaderboard/page.css"} <= set(space)
    assert space["results.txt"].content == b"gistbench/results\n"


def test_a_submission_from_the_hub_becomes_a_pull_request(pushed, hub, environment, demo_suite, repo_root, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in FILES:
        (folder / name).write_bytes((demo_suite / "lexical--tfidf@1" / name).read_bytes())
    before = hub.repo("gistbench/results").head.oid
    done = subprocess.run(
        [sys.executable, "-c", SUBMIT, str(folder)],
        env=environment,
        cwd=repo_root / "space",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    hm, opened, again, *refusals = done.stdout.splitlines()
    manifest = json.loads((demo_suite / "lexical--tfidf@1" / "manifest.json").read_text())
    assert float(hm) == manifest["phases"]["score"]["hm"]
    assert f'href="{hub.endpoint}/datasets/gistbench/results/discussions/1"' in opened
    assert "check again" in again  # one press, one pull request
    assert [bool(re.match("refused: (The Hub does not give|These files are missing)", line)) for line in refusals] == [
        True,
        True,
        True,
    ]
    repo = hub.repo("gistbench/results")
    assert repo.head.oid == before  # nobody but a maintainer changes the results
    proposed = repo.at("refs/pr/1").files
    new = sorted(set(proposed) - set(repo.head.files))
    place = "records/demo/lexical--tfidf@1/lexical--overlap+self-judged"
    assert {f"{place}/manifest.json", f"{place}/scores.parquet"} <= set(new)
    assert all(name.startswith(f"{place}/") for name in new)
    assert json.loads(proposed[f"{place}/manifest.json"].content)["origin"] == "self-judged"


def test_a_submission_is_judged_again_from_its_pull_request(pushed, hub, environment, tmp_path):
    repo = hub.repo("gistbench/results")
    if repo.at("refs/pr/1") is None:
        pytest.skip("needs the pull request of the test before")
    before = repo.head.oid

    def rejudge(*arguments):
        command = [sys.executable, "-c", REJUDGE, "-o", str(tmp_path / "again"), *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "/datasets/gistbench/results/discussions/2" in rejudge("--pull-request")
    assert repo.head.oid == before
    proposed = repo.at("refs/pr/2").files
    place = "records/demo/lexical--tfidf@1/lexical--overlap@1+re-judged"
    new = sorted(set(proposed) - set(repo.head.files))
    assert {f"{place}/manifest.json", f"{place}/groundings.parquet", f"{place}/scores.parquet"} <= set(new)
    assert all(name.startswith(f"{place}/") for name in new)
    assert not any("answers" in name for name in new)
    manifest = json.loads(proposed[f"{place}/manifest.json"].content)
    assert manifest["origin"] == "re-judged"
    assert manifest["rejudged"]["revision"] == repo.at("refs/pr/1").oid
    assert "Pushed" in rejudge("--push")
    assert repo.head.oid != before
    rows = pq.read_table(io.BytesIO(repo.head.files["index.parquet"].content)).to_pylist()
    assert [row["model"] for row in rows if row["origin"] == "re-judged"] == ["lexical/tfidf"]


FETCH = """
import json, sys
from pathlib import Path
from gistbench.runners.space_hub import fetch_submission
submission, commit = fetch_submission("gistbench/results", Path(sys.argv[1]), sys.argv[2], revision=sys.argv[3])
oracle = json.loads(submission.oracle.read_text())
users = submission.measured.read("users", ["user_id"]).num_rows
print(json.dumps([submission.official, submission.place, commit, len(oracle["oracle"]), users]))
"""


def test_a_pull_request_decides_about_nothing_but_its_record(pushed, hub, environment, submission, tmp_path):
    repo = hub.repo("gistbench/results")
    place, forged = "records/demo/mine@1/lexical--overlap+self-judged", "records/demo/forged@1/lexical--overlap@1"
    files = dict(repo.head.files)
    (official,) = (name for name in files if name.startswith("records/demo/lexical--hashtag@1/") and "users" in name)
    blob = type(files[official])
    about = json.loads(files[official.replace("users.parquet", "manifest.json")].content)
    for path in submission():
        files[f"{place}/{path.name}"] = blob(path.read_bytes(), None)
    files[f"{place}/manifest.json"] = blob(json.dumps(about | {"origin": "self-judged"}).encode(), None)
    about["phases"]["score"]["n_requested"] = 10**9
    files[f"{forged}/manifest.json"] = blob(json.dumps(about | {"origin": "measured"}).encode(), None)
    files[f"{forged}/users.parquet"] = files[official]
    (oracle,) = (name for name in files if name.startswith("oracles/"))
    files[oracle] = blob(json.dumps(json.loads(files[oracle].content) | {"oracle": {}}).encode(), None)
    files["results.json"] = blob(b'{"format": 1, "oracles": {}}', None)
    number, commit = repo.propose("forged", files)
    command = [sys.executable, "-c", FETCH, str(tmp_path / "work"), place, f"refs/pr/{number}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [official.rpartition("/")[0], place, commit.oid, 12, 12]
    assert not list((tmp_path / "work").rglob("forged@1/*/users.parquet"))


def test_the_last_results_are_served_where_the_hub_goes_away(pushed, environment, repo_root, tmp_path, demo_suite):
    with hub_server.Hub(tokens={WRITER: "gistbench"}) as other:
        own = environment | {"HF_ENDPOINT": other.endpoint, "HF_HOME": str(tmp_path)}
        subprocess.run([sys.executable, "-c", PUSH, str(demo_suite)], env=own, check=True, capture_output=True)
        process = subprocess.Popen(
            [sys.executable, "-c", REFRESH],
            env=own,
            cwd=repo_root / "space",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout.readline().strip().endswith("False")
    out, _ = process.communicate("\n")
    assert out.startswith("False True The Hub does not give gistbench/results")


CLEAN = """
import sys
from pathlib import Path
from leaderboard.data import open_store
from leaderboard.models import compared
from leaderboard.submit import Submissions
store = open_store("gistbench/results")
ids = [row["id"] for row in store.snapshot.rows(store.snapshot.measured)]
print("A better / B better / equal" in compared(store.snapshot, ids[0], ids[1]))
print(Submissions(store).check([Path(name) for name in sys.argv[1:]], "", "1").result["summary"]["n_users"])
"""


@pytest.mark.slow
def test_the_pushed_copy_runs_in_a_clean_environment(pushed, hub, environment, submission, tmp_path):
    """With nothing but its requirements: the page is served, two models compared, a submission checked."""
    folder = tmp_path / "space"
    for place, blob in hub.repo("gistbench/leaderboard", "spaces").head.files.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_bytes(blob.content)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--requirement", folder / "requirements.txt"]
    subprocess.run(install, check=True, timeout=1200)
    found = subprocess.run([python, "-c", "import gistbench"], capture_output=True, text=True, check=False)
    assert "No module named 'gistbench'" in found.stderr
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = environment | {"GRADIO_SERVER_NAME": "127.0.0.1", "GRADIO_SERVER_PORT": str(port)}
    own = {name: value for name, value in own.items() if not name.startswith("PYTHON")}
    server = subprocess.Popen([python, "app.py"], cwd=folder, env=own)
    try:
        address = f"http://127.0.0.1:{port}/"
        for _ in range(600):
            try:
                html = urllib.request.urlopen(address, timeout=10).read().decode()
                break
            except OSError:
                assert server.poll() is None, "the page did not start"
                time.sleep(0.2)
        assert "gistbench leaderboard" in html
        table = urllib.request.urlopen(address + "leaderboard.csv?data=demo", timeout=10).read().decode()
        assert {"lexical/hashtag", "lexical/phrase", "lexical/tfidf"} <= set(re.split("[,\n]", table))
    finally:
        server.terminate()
        server.wait()
    command = [python, "-c", CLEAN, *map(str, submission())]
    done = subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True", "12"], done.stderr


def test_the_space_imports_only_what_its_requirements_name(repo_root):
    """It is deployed alone."""
    allowed = {
        line.split(">")[0].split("=")[0] for line in (repo_root / "space" / "requirements.txt").read_text().split()
    }
    allowed |= {"fastapi", "uvicorn", "httpx2"}  # of gradio and huggingface_hub
    for place, path in space_files().items():
        if not place.endswith(".py"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level <= 1, place
                names = [node.module] if node.level == 0 else []
            for name in names:
                top = name.split(".")[0]
                assert top in allowed or top in sys.stdlib_module_names or (place == "app.py" and top == "leaderboard")
    import yaml

    front = yaml.safe_load((repo_root / "space" / "README.md").read_text().split("---")[1])
    assert (front["sdk"], front["app_file"]) == ("gradio", "app.py")
    assert len(front["short_description"]) <= 60
