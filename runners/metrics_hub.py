"""The metrics' way to users: each folder of ``metrics`` as a Space on the Hub, or installed where `evaluate` looks.

``evaluate.load("gistbench/ig")`` asks the Hub for ``spaces/gistbench/ig`` at the tag of its own version (``v0.4.6``),
then at ``main``, and takes the newest copy in its modules cache where neither answers. So a push also sets that tag,
and an installation puts a copy into that cache, as `evaluate` itself would after a download, and keeps a record of what
it changed, so that it can be undone to the byte. Reads the folders as files and imports none of them.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from ..hf_datasets.errors import ConfigError, HubError
from ..hf_datasets.hub import check_repo_name, hub_errors
from .runfolder import read_json, write_text

__all__ = ["MetricPush", "install_metrics", "metric_folders", "push_metrics", "uninstall_metrics"]

NAMESPACE = "gistbench"
_DIGITS_OF_A_COPY = 64  # copies of a module are named by a hash
_KEPT_BY_THE_HUB = (".gitattributes",)


@dataclass(frozen=True)
class MetricPush:
    """What :func:`push_metrics` did for one metric."""

    name: str
    repo: str
    url: str
    commit: str
    """The revision that now holds the metric."""
    changed: bool
    """False where the Space held the same already, and no commit was made."""
    tag: str
    """The tag that `evaluate` asks for."""


def metric_folders(root: Path | None = None) -> dict[str, Path]:
    """Return the folders of metrics that hold ``NAME/NAME.py``, by name.

    Examples:
        >>> sorted(metric_folders())[:2]
        ['ig', 'is']
    """
    root = Path(str(files("gistbench.metrics"))) if root is None else root
    return {path.name: path for path in sorted(root.iterdir()) if (path / f"{path.name}.py").is_file()}


def push_metrics(
    names: Sequence[str] = (),
    *,
    namespace: str = NAMESPACE,
    private: bool = False,
    token: str | None = None,
    root: Path | None = None,
) -> list[MetricPush]:
    """Publish metrics as Spaces ``namespace/name``; a Space that holds the same already gets no commit.

    Args:
        names: of :func:`metric_folders`; none: all.
        namespace: the user or organisation on the Hub.
        private: make a Space private, if it is made.
        token: default ``$HF_TOKEN`` or the one that ``hf auth login`` stored.
        root: the folder of the metrics' folders.

    Raises:
        ConfigError: there is no such metric, or the namespace is none.
        HubError: the Hub refuses or cannot be reached.
    """
    tag = f"v{version('evaluate')}"
    return [
        _push(name, folder, f"{namespace}/{name}", tag, private, token) for name, folder in _chosen(names, root).items()
    ]


def install_metrics(
    names: Sequence[str] = (), *, namespace: str = NAMESPACE, cache: Path | None = None, root: Path | None = None
) -> dict[str, Path]:
    """Put metrics where ``evaluate.load("namespace/name")`` finds them without a network, from any directory.

    What was installed before is replaced.

    Args:
        names: of :func:`metric_folders`; none: all.
        namespace: what stands before the slash.
        cache: the modules cache; default: where `evaluate` has it (``HF_MODULES_CACHE``).
        root: the folder of the metrics' folders.

    Returns:
        The folder of each metric in the cache.

    Raises:
        ConfigError: there is no such metric, the namespace is none, or the cache cannot be written.
    """
    chosen = _chosen(names, root)
    cache = _modules_cache(cache)
    for name in chosen:
        check_repo_name(f"{namespace}/{name}")
    try:
        uninstall_metrics(list(chosen), namespace=namespace, cache=cache, root=root)
        record = _Record(cache)
        record.make_packages(_metrics_folder(cache))
        return {name: _install(name, folder, namespace, record) for name, folder in chosen.items()}
    except OSError as error:
        raise ConfigError(f"The modules cache {cache} cannot be written ({error}). Set HF_MODULES_CACHE.") from error


def uninstall_metrics(
    names: Sequence[str] = (), *, namespace: str = NAMESPACE, cache: Path | None = None, root: Path | None = None
) -> list[str]:
    """Undo :func:`install_metrics`: remove what it made, and nothing that `evaluate` or others put there.

    Returns:
        The metrics that were installed.

    Raises:
        ConfigError: there is no such metric, or the namespace is none.
    """
    record = _Record(_modules_cache(cache))
    for name in (chosen := _chosen(names, root)):
        check_repo_name(f"{namespace}/{name}")
    return [name for name in chosen if record.undo(f"{namespace}--{name}")]


def _chosen(names: Sequence[str], root: Path | None) -> dict[str, Path]:
    known = metric_folders(root)
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(f"There is no metric {unknown[0]!r}; there are {', '.join(known)}.")
    return {name: known[name] for name in dict.fromkeys(names)} if names else known


# --- to the Hub -----------------------------------------------------------------------------------------------------


def _push(name: str, folder: Path, repo: str, tag: str, private: bool, token: str | None) -> MetricPush:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import RepositoryNotFoundError

    check_repo_name(repo)
    api = HfApi(token=token)
    with hub_errors(api.endpoint, repo):
        try:
            api.space_info(repo)
        except RepositoryNotFoundError:
            api.create_repo(repo, repo_type="space", space_sdk="gradio", private=private)
        head = _head(api, repo)
        there = {
            entry.path: entry.blob_id
            for entry in api.list_repo_tree(repo, recursive=True, revision=head, repo_type="space")
            if hasattr(entry, "blob_id")
        }
        ours = {path: _git_id(folder / path) for path in _files(folder)}
        stale = [path for path in there if path not in ours and path not in _KEPT_BY_THE_HUB]
        changed = bool(stale) or any(there.get(path) != blob for path, blob in ours.items())
        if changed:
            made = api.upload_folder(
                repo_id=repo,
                repo_type="space",
                folder_path=folder,
                allow_patterns=list(ours),
                delete_patterns=stale or None,
                commit_message=f"{'Update' if 'README.md' in there and name + '.py' in there else 'Add'} {name}",
                parent_commit=head,
            )
            head = str(made.oid)
        tags = {ref.name: ref.target_commit for ref in api.list_repo_refs(repo, repo_type="space").tags}
        if tags.get(tag) != head:
            # Not a release of ours but `evaluate`'s word for "works with this version": it follows the metric.
            if tag in tags:
                api.delete_tag(repo, tag=tag, repo_type="space")
            api.create_tag(repo, tag=tag, revision=head, repo_type="space")
    return MetricPush(name, repo, f"{api.endpoint}/spaces/{repo}", head, changed, tag)


def _head(api: "HfApi", repo: str) -> str:  # type: ignore[name-defined]  # noqa: F821
    sha = api.space_info(repo).sha
    if sha is None:
        raise HubError(f"{api.endpoint} does not say which revision {repo} is at.")
    return str(sha)


def _files(folder: Path) -> list[str]:
    """Return the files that make a Space, relative to its folder."""
    paths = (path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file())
    hidden = ("__pycache__", ".")
    return [path.as_posix() for path in paths if not any(part.startswith(hidden) for part in path.parts)]


def _git_id(path: Path) -> str:
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


# --- into the modules cache -----------------------------------------------------------------------------------------


def _modules_cache(given: Path | None) -> Path:
    if given is not None:
        return given
    from evaluate.config import HF_MODULES_CACHE

    return Path(HF_MODULES_CACHE)


def _metrics_folder(cache: Path) -> Path:
    return cache / "evaluate_modules" / "metrics"  # config.MODULE_NAME_FOR_DYNAMIC_MODULES


def _install(name: str, folder: Path, namespace: str, record: "_Record") -> Path:
    """Make the files that `evaluate` makes when it downloads a module, under the name that it gives them."""
    from evaluate.loading import files_to_hash, get_imports

    main = folder / f"{name}.py"
    helpers = [folder / f"{module}.py" for kind, module, *_ in get_imports(str(main)) if kind == "internal"]
    module = f"{namespace}--{name}"
    target = _metrics_folder(record.cache) / module
    record.make_packages(target, module)
    copy = target / str(files_to_hash([str(path) for path in (main, *helpers)]))
    if copy.is_dir():  # downloaded before; `evaluate` takes the copy that was changed last
        record.touch(copy / main.name, module)
        return copy
    with tempfile.TemporaryDirectory(prefix="gistbench-", dir=target) as work:
        made = Path(work) / copy.name
        made.mkdir()
        for path in (main, *helpers):
            shutil.copyfile(path, made / path.name)
        (made / "__init__.py").touch()
        about = {"original file path": str(main), "local file path": str(copy / main.name)}
        (made / f"{name}.json").write_text(json.dumps(about), encoding="utf-8")
        record.add(copy, module)
        made.rename(copy)
    return copy


class _Record:
    """What an installation has changed in a modules cache, written down before each change."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self.path = cache / ".gistbench-installed.json"  # nothing that `evaluate` looks at
        self.made: dict[str, list[str]] = {}
        """By module, what was made, in that order, relative to the cache; "" for what all modules need."""
        self.touched: dict[str, tuple[str, int]] = {}
        """By module, a file and when it had been changed before."""
        if self.path.is_file():
            known = read_json(self.path)
            self.made = known["made"]
            self.touched = {module: (path, when) for module, (path, when) in known["touched"].items()}

    def _write(self) -> None:
        write_text(self.path, json.dumps({"made": self.made, "touched": self.touched}))

    def add(self, path: Path, module: str = "") -> None:
        """Note something that is about to be made."""
        self.made.setdefault(module, []).append(os.path.relpath(path, self.cache))
        self._write()

    def make_packages(self, folder: Path, module: str = "") -> None:
        """Make a package of a folder and of those above it up to the cache, as `evaluate` does."""
        above = [path for path in reversed(folder.parents) if not path.exists()]
        inside = [path for path in reversed(folder.parents) if self.cache in (path, *path.parents)]
        for path in dict.fromkeys((*above, *inside, folder)):
            if not path.exists():
                path.mkdir()
                self.made.setdefault(module, []).append(os.path.relpath(path, self.cache))
            if self.cache in (path, *path.parents) and not (path / "__init__.py").exists():
                self.add(path / "__init__.py", module)
                (path / "__init__.py").touch()

    def touch(self, path: Path, module: str) -> None:
        """Make a file the one that was changed last."""
        self.touched[module] = (os.path.relpath(path, self.cache), path.stat().st_mtime_ns)
        self.made.setdefault(module, [])
        self._write()
        os.utime(path)

    def undo(self, module: str) -> bool:
        """Undo what was done for a module, and with the last one what was done for all; False if it was nothing."""
        if module not in self.made:
            return False
        last = set(self.made) <= {"", module}
        if last:
            self.path.unlink()
        for one in (module, "") if last else (module,):
            if one in self.touched:
                path, when = self.touched.pop(one)
                if (self.cache / path).is_file():
                    os.utime(self.cache / path, ns=(when, when))
            made = [Path(os.path.normpath(self.cache / entry)) for entry in self.made.pop(one, [])]
            for made_path in reversed(made):
                _remove(made_path, made)
        if not last:
            self._write()
        return True


def _remove(path: Path, made: Sequence[Path]) -> None:
    """Remove a copy, or a package that nobody has put anything into meanwhile, with what Python compiled of it."""
    if len(path.name) == _DIGITS_OF_A_COPY:
        shutil.rmtree(path, ignore_errors=True)
    elif path.name == "__init__.py" and path.is_file():
        others = {other.name for other in path.parent.iterdir()} - {"__init__.py", "__pycache__"}
        if not (others and path.parent in made):
            path.unlink()
            for compiled in path.parent.glob("__pycache__/__init__.*.pyc"):
                compiled.unlink()
            _remove_if_empty(path.parent / "__pycache__")
    else:
        _remove_if_empty(path)


def _remove_if_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
