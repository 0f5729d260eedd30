"""The way to the Hub: named datasets as configs of one dataset repository.

A push is one commit of data files, README and ``gistbench.json`` (:mod:`~gistbench.hf_datasets.folder`), made on the
revision that was looked at: a push that is interrupted leaves the old revision whole, and one that changes nothing
makes no commit. Configs that are there already stay. What a licence forbids to pass on is refused before anything is
built.

The way back needs nothing of ours: ``datasets.load_dataset("gistbench/gistbench", "demo")``.
"""

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.errors import (
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from .card import HOME, ConfigEntry, entries_from_json, entries_to_json, render_card
from .errors import ConfigError, GistbenchError, HubError
from .folder import README_NAME, RECORDS_NAME, BuiltConfig, stale_shards, write_shards
from .registry import config_record

__all__ = ["Push", "check_repo_name", "hub_errors", "push_configs", "require_redistributable"]

_TRIES = 3
"""How often a push looks again when another commit has come first."""
_CONFLICTS = (409, 412)


@dataclass(frozen=True)
class Push:
    """What :func:`push_configs` did."""

    repo: str
    url: str
    commit: str
    """The revision that now holds the configs."""
    changed: bool
    """False where the repository held the same already, and no commit was made."""
    tag: str | None


@dataclass(frozen=True)
class _Plan:
    """What a commit would hold."""

    to_upload: tuple[BuiltConfig, ...]
    texts: Mapping[str, str]
    to_delete: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        return not (self.to_upload or self.texts or self.to_delete)


def require_redistributable(names: Sequence[str]) -> None:
    """Raise ConfigError where a named dataset does not exist or its licence does not let it be passed on."""
    refused = [record for record in map(config_record, names) if not record.redistributable]
    if refused:
        reasons = "; ".join(f"{record.name} ({record.licence})" for record in refused)
        first = refused[0]
        raise ConfigError(
            f"Not pushed, since the licence does not let us pass the rows on: {reasons}. Build it where it is needed: "
            f"gistbench datasets build {first.name}{' --source PATH' if first.needs_source else ''} --out DIR"
        )


def push_configs(
    configs: Sequence[BuiltConfig],
    repo: str,
    *,
    private: bool = False,
    tag: str | None = None,
    token: str | None = None,
) -> Push:
    """Put configs into a dataset repository, which is made where there is none.

    Args:
        configs: from :func:`~gistbench.hf_datasets.folder.build_config`.
        repo: ``namespace/name``.
        private: make the repository private, if it is made.
        tag: a name for the revision; one that exists is never moved.
        token: default ``$HF_TOKEN`` or the one that ``hf auth login`` stored.

    Raises:
        ConfigError: the repository's name is none, a licence forbids it, or the tag stands for something else.
        DataError: the repository's ``gistbench.json`` or README cannot be read.
        HubError: the Hub refuses or cannot be reached.
    """
    require_redistributable([config.entry.name for config in configs])
    check_repo_name(repo)
    api = HfApi(token=token)
    with hub_errors(api.endpoint, repo):
        head = _head_or_create(api, repo, private)
        tagged = _tags(api, repo)
        changed = False
        for _ in range(_TRIES):
            plan = _plan(api, repo, head, configs)
            if tag in tagged and (tagged[tag] != head or not plan.is_empty):
                raise ConfigError(
                    f"Tag {tag!r} of {repo} stands for commit {tagged[tag][:12]}, which holds something else. Tags are "
                    "not moved: choose another one."
                )
            if plan.is_empty:
                break
            try:
                head = _commit(api, repo, head, plan, configs)
                changed = True
                break
            except HfHubHTTPError as error:
                if error.response.status_code not in _CONFLICTS:
                    raise
                head = _head(api, repo)
        else:
            raise HubError(f"{repo} was changed by somebody else {_TRIES} times meanwhile. Push again.")
        if tag is not None and tag not in tagged:
            api.create_tag(repo, tag=tag, revision=head, repo_type="dataset")
    return Push(repo, f"{api.endpoint}/datasets/{repo}", head, changed, tag)


def check_repo_name(repo: str) -> None:
    """Raise ConfigError where a name is not namespace/name."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repo):
        raise ConfigError(f"{repo!r} is no name of a repository: write namespace/name, such as {HOME}.")


def _head(api: HfApi, repo: str) -> str:
    sha = api.dataset_info(repo).sha
    if sha is None:
        raise HubError(f"{api.endpoint} does not say which revision {repo} is at.")
    return sha


def _head_or_create(api: HfApi, repo: str, private: bool) -> str:
    try:
        info = api.dataset_info(repo)
    except RepositoryNotFoundError:
        api.create_repo(repo, repo_type="dataset", private=private)
    else:
        if private and not info.private:
            raise ConfigError(f"{repo} exists and is public. Make it private on the Hub, or push without --private.")
    return _head(api, repo)


def _tags(api: HfApi, repo: str) -> dict[str | None, str]:
    refs = api.list_repo_refs(repo, repo_type="dataset")
    return {ref.name: ref.target_commit for ref in refs.tags}


def _plan(api: HfApi, repo: str, head: str, configs: Sequence[BuiltConfig]) -> _Plan:
    """Compare what is to be there with what is there at revision ``head``."""
    files = set(api.list_repo_files(repo, repo_type="dataset", revision=head))

    def read(name: str) -> str | None:
        if name not in files:
            return None
        return Path(api.hf_hub_download(repo, name, repo_type="dataset", revision=head)).read_text(encoding="utf-8")

    records, readme = read(RECORDS_NAME), read(README_NAME)
    source = f"{repo}: {RECORDS_NAME} at {head[:12]}"
    entries: dict[str, ConfigEntry] = {} if records is None else entries_from_json(records, source=source)
    entries |= {config.entry.name: config.entry for config in configs}
    wanted = {
        RECORDS_NAME: entries_to_json(entries.values()),
        README_NAME: render_card(entries.values(), repo=repo, existing=readme),
    }
    found = {RECORDS_NAME: records, README_NAME: readme}
    return _Plan(
        to_upload=tuple(config for config in configs if not files.issuperset(_shards(config))),
        texts={name: text for name, text in wanted.items() if text != found[name]},
        to_delete=tuple(path for config in configs for path in stale_shards(config.entry, sorted(files))),
    )


def _shards(config: BuiltConfig) -> list[str]:
    return [shard for split in config.entry.splits.values() for shard in split.shards]


def _commit(api: HfApi, repo: str, head: str, plan: _Plan, configs: Sequence[BuiltConfig]) -> str:
    """Make one commit on ``head``; return its id."""
    names = ", ".join(config.entry.name for config in configs)
    with tempfile.TemporaryDirectory(prefix="gistbench-push-") as folder:
        operations: list[CommitOperationAdd | CommitOperationDelete] = [
            CommitOperationAdd(path_in_repo=path, path_or_fileobj=os.fspath(file))
            for config in plan.to_upload
            for path, file in zip(_shards(config), write_shards(config, Path(folder)), strict=True)
        ]
        operations += [CommitOperationAdd(path, text.encode()) for path, text in plan.texts.items()]
        operations += [CommitOperationDelete(path, is_folder=False) for path in plan.to_delete]
        made = api.create_commit(
            repo,
            operations,
            commit_message=f"{'Add' if plan.to_upload else 'Describe'} {names}",
            repo_type="dataset",
            parent_commit=head,
        )
    return str(made.oid)


@contextmanager
def hub_errors(endpoint: str, repo: str) -> Iterator[None]:
    """Say what the clients' errors mean for a repository, as errors of ours."""
    whole = "The repository stands at a whole revision, the old one or the new one; the same command again goes on."
    try:
        yield
    except OfflineModeIsEnabled as error:
        raise HubError("HF_HUB_OFFLINE is set, and a push needs the Hub. Unset it.") from error
    except (RepositoryNotFoundError, RevisionNotFoundError) as error:
        raise HubError(f"{repo} is not on {endpoint}, or your token may not see it. {_LOG_IN}") from error
    except HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 403):
            raise HubError(f"{endpoint} does not let you write to {repo} ({status}). {_LOG_IN}") from error
        raise HubError(f"{endpoint} answered {status}: {error.server_message or error}. {whole}") from error
    except (httpx2.HTTPError, OSError) as error:
        raise HubError(f"The connection to {endpoint} failed ({type(error).__name__}: {error}). {whole}") from error
    except HFValidationError as error:
        raise ConfigError(f"{repo!r} is no name of a repository ({error}).") from error
    except RuntimeError as error:  # wraps what broke an upload
        if isinstance(error, GistbenchError):
            raise
        cause = error.__cause__ or error
        raise HubError(f"The upload to {endpoint} failed ({type(cause).__name__}: {cause}). {whole}") from error
    except ValueError as error:
        if isinstance(error, GistbenchError):
            raise
        raise HubError(f"{endpoint} could not take the push ({error}). {whole}") from error


_LOG_IN = "Log in with `hf auth login` or set HF_TOKEN to a token that may write to it."
