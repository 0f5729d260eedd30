"""What the tests of the Space share: a suite of the demo, its results folder, and submissions to tamper with."""

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gistbench.hf_datasets.errors import GistbenchWarning
from gistbench.runners.config import RunConfig
from gistbench.runners.results import ResultsFolder
from gistbench.runners.suite import Suite
from gistbench.space.leaderboard.data import Snapshot, Store, open_store
from gistbench.space.leaderboard.intake import FILES

REPO_ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def repo_root() -> Path:
    return REPO_ROOT


@pytest.fixture(scope="session")
def demo_suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scored suite: three rules on the demo."""
    path = tmp_path_factory.mktemp("suite") / "demo"
    config = RunConfig(
        dataset="demo",
        candidates=("lexical/hashtag", "lexical/tfidf", "lexical/phrase"),
        judge="lexical/overlap",
        n_resamples=100,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GistbenchWarning)
        Suite(path, config).run()
    return path


@pytest.fixture(scope="session")
def results(demo_suite: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder of it; not to be changed."""
    folder = ResultsFolder(tmp_path_factory.mktemp("results") / "results")
    folder.add(demo_suite)
    folder.build()
    return folder.path


@pytest.fixture
def own_results(results: Path, tmp_path: Path) -> Path:
    """A copy of it to change."""
    return Path(shutil.copytree(results, tmp_path / "results"))


@pytest.fixture(scope="session")
def store(results: Path) -> Store:
    return open_store(str(results))


@pytest.fixture(scope="session")
def snapshot(store: Store) -> Snapshot:
    assert store.snapshot is not None
    return store.snapshot


@pytest.fixture(autouse=True)
def _own_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load the metrics of this checkout."""
    monkeypatch.setenv("GISTBENCH_METRICS", str(REPO_ROOT / "metrics"))


@pytest.fixture
def submission(demo_suite: Path, tmp_path: Path) -> Callable[..., list[Path]]:
    """Make the files of a submission, with changes: NAME=function of the table, or manifest=function of the object."""

    def make(**changes: Callable[[Any], Any]) -> list[Path]:
        folder = tmp_path / "upload"
        folder.mkdir(exist_ok=True)
        for name in FILES:
            shutil.copyfile(demo_suite / "lexical--tfidf@1" / name, folder / name)
        for name, change in changes.items():
            if name == "manifest":
                manifest = json.loads((folder / "manifest.json").read_text())
                (folder / "manifest.json").write_text(json.dumps(change(manifest)))
            else:
                path = folder / f"{name}.parquet"
                table = pq.read_table(path)
                rows = change(table.to_pylist())
                changed = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows, schema=table.schema)
                pq.write_table(changed, path)
        return [folder / name for name in FILES]

    return make
