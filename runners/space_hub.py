"""The leaderboard's way to the Hub: its results as a data set, its page as a Space.

Both pushes are one commit of the files that differ, on the revision that was looked at; nothing to change, no commit.
The folder ``space`` is read as files: nothing of it is imported.
"""

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from glob import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..hf_datasets.errors import HubError
from ..hf_datasets.hub import check_repo_name, hub_errors
from .rejudge import Rejudged, Submission, find_submission
from .results import ResultsFolder

__all__ = ["HubPush", "fetch_submission", "push_rejudged", "push_results", "push_space", "space_files"]

RESULTS_REPO = "gistbench/results"
SPACE_REPO = "gistbench/leaderboard"
NEEDED_TO_INDEX = (
    "results.json",
    "oracles/*",
    "qrels/*",
    "records/**/manifest.json",
    "records/**/scores.parquet",
    "records/**/interests.parquet",
)
MANIFESTS = ("results.json", "oracles/*", "records/**/manifest.json")
CARD = """---
pretty_name: gistbench results
configs:
  - config_name: index
    data_files: index.parquet
    default: true
  - config_name: published
    data_files: published.parquet
  - config_name: scores
    data_files: records/*/*/*/scores.parquet
---

# gistbench results

What the leaderboard shows: `index.parquet` has one row for each model revision, data set and judge revision, with
medians over users, 95 % intervals and what they stand on; `records/` the tables of each run, from which every score
can be made again without a model; `oracles/` what there is to find about each user; `published.parquet` the numbers
that the two papers print. Published numbers were obtained with other prompts and are not comparable to the digit.

Rows whose `origin` is `self-judged` were submitted together with the judge's answers. Their scores were computed anew,
but the answers themselves can be checked only by judging the same interests again; rows whose `origin` is `re-judged`
are submissions with which that was done.
"""


@dataclass(frozen=True)
class HubPush:
    """What a push did."""

    repo: str
    url: str
    commit: str
    changed: bool
    """False where the repository held the same already, and no commit was made."""
    is_proposal: bool = False
    """Whether ``url`` is a pull request, and the repository itself stands as it was."""


def push_results(
    suites: Sequence[Path],
    repo: str = RESULTS_REPO,
    *,
    qrels: Sequence[Path] = (),
    new_oracle: bool = False,
    private: bool = False,
    token: str | None = None,
) -> HubPush:
    """Add the scored runs of suites to the results on the Hub, and make their index anew.

    Without suites only the index is made anew, as after a submission was merged.

    Args:
        suites: suite folders.
        repo: the data set.
        qrels: folders with tables of a qrels expansion.
        new_oracle: submissions are scored against these suites' oracles from now on.
        private: make the data set private, if it is made.
        token: default ``$HF_TOKEN`` or the one that ``hf auth login`` stored.

    Raises:
        ConfigError: the name is none, or a data set must not be passed on.
        StoreError: a run is not scored.
        HubError: the Hub refuses or cannot be reached.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import RepositoryNotFoundError

    check_repo_name(repo)
    api = HfApi(token=token)
    with tempfile.TemporaryDirectory(prefix="gistbench-results-") as work:
        results = ResultsFolder(Path(work) / "results")
        with hub_errors(api.endpoint, repo):
            try:
                head = _fetch(api, repo, results.path, NEEDED_TO_INDEX)
            except RepositoryNotFoundError:
                head = None
        for suite in suites:
            results.add(suite, public=True, new_oracle=new_oracle)
        for folder in qrels:
            results.add_qrels(folder)
        results.build()
        (results.path / "README.md").write_text(CARD, encoding="utf-8")
        ours = _files(results.path)
        with hub_errors(api.endpoint, repo):
            if head is None:
                api.create_repo(repo, repo_type="dataset", private=private)
            return _push(api, repo, "dataset", ours, "Add results" if suites else "Make the index anew")


def fetch_submission(
    repo: str, folder: Path, place: str | None = None, *, revision: str | None = None, token: str | None = None
) -> tuple[Submission, str]:
    """Download a submitted record, and what is needed to judge it again.

    Of another revision than ``main``, which anyone may have made, nothing but the record is taken: oracles, measured
    records and which of them count are those of ``main``.

    Args:
        repo: the results data set.
        folder: where it goes.
        place: the record's folder; None where there is one self-judged record only.
        revision: of the record: a branch, a commit, or a pull request such as ``refs/pr/3``.
        token: default ``$HF_TOKEN`` or the one that ``hf auth login`` stored.

    Returns:
        The submission, and the commit that its record was taken from.

    Raises:
        ConfigError, StoreError: as of `find_submission`.
        HubError: the Hub refuses or cannot be reached.
    """
    from huggingface_hub import HfApi

    check_repo_name(repo)
    api = HfApi(token=token)
    with hub_errors(api.endpoint, repo):
        main, proposed = folder / "main", folder / "proposed"
        trusted = commit = _fetch(api, repo, main, MANIFESTS)
        if revision is not None:
            commit = _fetch(api, repo, proposed, MANIFESTS[-1:], revision)
        submission = find_submission(main, place, proposed=None if commit == trusted else proposed)
        _fetch(api, repo, submission.proposed or main, [f"{escape(submission.place)}/*.parquet"], commit)
        _fetch(api, repo, main, [f"{escape(submission.official)}/users.parquet"], trusted)
    return submission, commit


def push_rejudged(
    rejudged: Rejudged, repo: str = RESULTS_REPO, *, pull_request: bool = True, token: str | None = None
) -> HubPush:
    """Put a record that was judged again in place of the submitted one.

    Args:
        rejudged: from `rejudge`.
        repo: the results data set.
        pull_request: open one, with the comparison; otherwise ``main`` is changed, and the index made anew.
        token: default ``$HF_TOKEN`` or the one that ``hf auth login`` stored.

    Raises:
        ConfigError: the data set must not be passed on.
        HubError: the Hub refuses or cannot be reached.
    """
    from huggingface_hub import HfApi

    check_repo_name(repo)
    api = HfApi(token=token)
    manifest = rejudged.run.manifest
    message = f"Re-judge {manifest['candidate']['name']} on {manifest['data']['dataset']}"
    with tempfile.TemporaryDirectory(prefix="gistbench-results-") as work:
        results = ResultsFolder(Path(work) / "results")
        if not pull_request:
            with hub_errors(api.endpoint, repo):
                _fetch(api, repo, results.path, NEEDED_TO_INDEX)
        rejudged.put(results, public=True)
        if not pull_request:
            results.build()
        text = rejudged.markdown() if pull_request else None
        gone = () if rejudged.place == rejudged.submission.place else (rejudged.submission.place + "/",)
        with hub_errors(api.endpoint, repo):
            return _push(api, repo, "dataset", _files(results.path), message, gone=gone, proposal=text)


def space_files(root: Path | None = None) -> dict[str, Path]:
    """Return the files that make the Space, by their place in it."""
    root = Path(str(files("gistbench.space"))) if root is None else root
    return {
        path.relative_to(root).as_posix(): path
        for path in sorted(root.rglob("*"))
        if path.is_file()
        and path.relative_to(root).as_posix() not in ("__init__.py", "py.typed")
        and not any(part.startswith((".", "__pycache__")) for part in path.relative_to(root).parts)
    }


def push_space(
    repo: str = SPACE_REPO, *, results: str = RESULTS_REPO, private: bool = False, token: str | None = None
) -> HubPush:
    """Publish the leaderboard as a Space that shows a results data set.

    Raises:
        ConfigError: a name is none.
        HubError: the Hub refuses or cannot be reached.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import RepositoryNotFoundError

    check_repo_name(repo)
    check_repo_name(results)
    api = HfApi(token=token)
    with hub_errors(api.endpoint, repo), tempfile.TemporaryDirectory() as work:
        try:
            api.space_info(repo)
        except RepositoryNotFoundError:
            api.create_repo(repo, repo_type="space", space_sdk="gradio", private=private)
        ours = space_files()
        settings = Path(work) / "results.txt"
        settings.write_text(results + "\n", encoding="utf-8")
        return _push(api, repo, "space", {**ours, settings.name: settings}, "Update the leaderboard")


def _files(folder: Path) -> dict[str, Path]:
    """Return the files of a folder by their place in it, without what the Hub's client keeps there."""
    return {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".cache" not in path.relative_to(folder).parts
    }


def _fetch(api: Any, repo: str, folder: Path, patterns: Sequence[str], revision: str | None = None) -> str:
    """Download what fits patterns into a folder; return the commit that it was taken from."""
    from huggingface_hub import snapshot_download

    commit = api.dataset_info(repo, revision=revision).sha
    if commit is None:
        raise HubError(f"{api.endpoint} does not say which revision {repo} is at.")
    snapshot_download(
        repo,
        repo_type="dataset",
        revision=commit,
        local_dir=folder,
        allow_patterns=list(patterns),
        token=api.token,
    )
    return str(commit)


def _push(
    api: Any,
    repo: str,
    kind: str,
    ours: Mapping[str, Path],
    message: str,
    *,
    gone: tuple[str, ...] = (),
    proposal: str | None = None,
) -> HubPush:
    """Commit the files that differ from what is there, or propose them.

    Args:
        api: of the Hub.
        repo: the repository.
        kind: of the repository; of a Space, what is no longer ours goes.
        ours: files by their place.
        message: of the commit.
        gone: what begins with these goes too.
        proposal: the text of a pull request, in place of a commit on ``main``.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    head = api.repo_info(repo, repo_type=kind).sha
    if head is None:
        raise HubError(f"{api.endpoint} does not say which revision {repo} is at.")
    there = {
        entry.path: entry.lfs.sha256 if entry.lfs else entry.blob_id
        for entry in api.list_repo_tree(repo, recursive=True, revision=head, repo_type=kind)
        if hasattr(entry, "blob_id")
    }
    operations: list[CommitOperationAdd | CommitOperationDelete] = []
    for place, path in ours.items():
        content = path.read_bytes()
        ids = (hashlib.sha256(content).hexdigest(), hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest())
        if there.get(place) not in ids:
            operations.append(CommitOperationAdd(path_in_repo=place, path_or_fileobj=str(path)))
    stale = [
        place
        for place in there
        if place not in ours and (place.startswith(gone) or (kind == "space" and place != ".gitattributes"))
    ]
    operations += [CommitOperationDelete(path_in_repo=place, is_folder=False) for place in stale]
    if operations:
        made = api.create_commit(
            repo,
            operations,
            commit_message=message,
            commit_description=proposal,
            repo_type=kind,
            parent_commit=head,
            create_pr=proposal is not None,
        )
        if proposal is not None:
            return HubPush(repo, str(made.pr_url), str(made.oid), True, is_proposal=True)
        head = str(made.oid)
    return HubPush(repo, f"{api.endpoint}/{kind}s/{repo}", head, bool(operations))
