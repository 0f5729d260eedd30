"""Takes in a submission: from a zip file, from single files or from a data set on the Hub, into a folder of our own.

Nothing in it decides where a byte goes: members are looked for by the few names that a run folder has, and written
under those names. Sizes are counted while bytes arrive, whatever a header declares.
"""

import lzma
import stat
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

__all__ = ["FILES", "MAX_UPLOAD_BYTES", "SubmissionError", "take_files", "take_from_hub"]

TABLES = ("users", "extractions", "evidence", "groundings", "retrievals", "mappings")
FILES = ("manifest.json", *(f"{name}.parquet" for name in TABLES))
OPTIONAL = ("mappings.parquet",)
MAX_UPLOAD_BYTES = 200_000_000
MAX_UNPACKED_BYTES = 600_000_000
MAX_MANIFEST_BYTES = 5_000_000
MAX_MEMBERS = 60
MAX_RATIO = 200
CHUNK = 1 << 20
_BROKEN_ZIP = (zipfile.BadZipFile, zlib.error, lzma.LZMAError)


class SubmissionError(Exception):
    """A submission cannot be accepted; ``problems`` says why, in plain words."""

    def __init__(self, *problems: str) -> None:
        """Keep the problems."""
        super().__init__(" ".join(problems))
        self.problems = list(problems)


def take_files(uploads: Sequence[Path], folder: Path) -> None:
    """Put an uploaded zip file, or the single files of a run folder, into a folder.

    Raises:
        SubmissionError: they are too large, not what they should be, or incomplete.
    """
    if not uploads:
        raise SubmissionError("Nothing was uploaded. Choose a zip file of a run folder, or its files.")
    if sum(path.stat().st_size for path in uploads) > MAX_UPLOAD_BYTES:
        raise SubmissionError(f"The upload is larger than {MAX_UPLOAD_BYTES // 1_000_000} MB.")
    archives = [path for path in uploads if path.suffix.lower() == ".zip"]
    if archives and len(uploads) > 1:
        raise SubmissionError("Upload one zip file, or single files, not both.")
    if archives:
        _unpack(archives[0], folder)
    else:
        _copy(uploads, folder)
    _check_complete(folder)


def _unpack(archive: Path, folder: Path) -> None:
    try:
        with zipfile.ZipFile(archive) as opened:
            members = opened.infolist()
            if len(members) > MAX_MEMBERS:
                raise SubmissionError(
                    f"The zip file has {len(members)} members; a run folder has fewer than {MAX_MEMBERS}."
                )
            chosen = _wanted(members)
            left = MAX_UNPACKED_BYTES
            for name, member in chosen.items():
                with opened.open(member) as source:
                    left -= _write(source, folder / name, left)
    except (*_BROKEN_ZIP, NotImplementedError, RuntimeError, EOFError, OSError, ValueError) as error:
        raise SubmissionError(f"The zip file cannot be read ({type(error).__name__}).") from error


def _wanted(members: Iterable[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    """Return the members that are a run folder's files, all from one folder; refuse what looks like an attack."""
    found: dict[str, zipfile.ZipInfo] = {}
    folders = set()
    for member in members:
        path = PurePosixPath(member.filename)
        if path.is_absolute() or ".." in path.parts or "\\" in member.filename or "\0" in member.filename:
            raise SubmissionError("The zip file holds a name that leaves its folder. Zip the run folder itself.")
        if stat.S_ISLNK(member.external_attr >> 16):
            raise SubmissionError("The zip file holds a link. Zip the files themselves.")
        if member.flag_bits & 1:
            raise SubmissionError("The zip file is encrypted.")
        if path.name in FILES and not member.is_dir():
            if member.file_size > MAX_UNPACKED_BYTES or member.file_size > MAX_RATIO * max(member.compress_size, 5_000):
                raise SubmissionError(f"{path.name} would unpack to {member.file_size:,} bytes, which is too much.")
            if path.name in found:
                raise SubmissionError(f"The zip file holds {path.name} twice. Submit one run folder at a time.")
            found[path.name] = member
            folders.add(path.parent)
    if len(folders) > 1:
        raise SubmissionError("The files lie in several folders of the zip file. Submit one run folder at a time.")
    return found


def _copy(uploads: Sequence[Path], folder: Path) -> None:
    left = MAX_UNPACKED_BYTES
    for path in uploads:
        if path.name not in FILES:
            raise SubmissionError(f"One of the files has a name that no run folder has. There are: {', '.join(FILES)}.")
        if (folder / path.name).exists():
            raise SubmissionError(f"{path.name} was uploaded twice.")
        with path.open("rb") as source:
            left -= _write(source, folder / path.name, left)


def _write(source: IO[bytes], target: Path, left: int) -> int:
    """Copy bytes up to what is left and to what the file may have; return how many.

    The manifest is read in the page's own process, so it may have less than the tables.
    """
    limit = min(left, MAX_MANIFEST_BYTES) if target.name == "manifest.json" else left
    written = 0
    with target.open("xb") as out:
        while chunk := source.read(CHUNK):
            written += len(chunk)
            if written > limit:
                raise SubmissionError(f"{target.name} is larger than {limit:,} bytes.")
            out.write(chunk)
    return written


def _check_complete(folder: Path) -> None:
    missing = [name for name in FILES if name not in OPTIONAL and not (folder / name).exists()]
    if missing:
        raise SubmissionError(
            f"These files are missing: {', '.join(missing)}. A run folder of `gistbench run` holds all of them."
        )


def take_from_hub(repo: str, folder: Path, token: str | None = None) -> str:
    """Put a run folder that lies in a public data set on the Hub into a folder; return the commit.

    Args:
        repo: ``namespace/name``, or ``namespace/name/path/of/the/folder``.
        folder: where it goes.
        token: of the Space; only public data sets are read.

    Raises:
        SubmissionError: the data set is not there, too large or incomplete.
    """
    import httpx2
    from huggingface_hub import HfApi, hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    parts = repo.strip().split("/")
    if len(repo) > 300 or len(parts) < 2 or any(part in ("", ".", "..") for part in parts):
        raise SubmissionError("Name a data set as namespace/name, or namespace/name/folder.")
    name, inside = "/".join(parts[:2]), "/".join(parts[2:])
    try:
        api = HfApi(token=False)
        commit = str(api.dataset_info(name, timeout=20).sha)
        listed = {
            entry.path: int(entry.size)
            for entry in api.list_repo_tree(name, inside or None, repo_type="dataset", revision=commit)
            if hasattr(entry, "size")
        }
        places = {file: f"{inside}/{file}" if inside else file for file in FILES}
        if sum(listed.get(place, 0) for place in places.values()) > MAX_UPLOAD_BYTES:
            raise SubmissionError(f"The data set's files are larger than {MAX_UPLOAD_BYTES // 1_000_000} MB.")
        left = MAX_UNPACKED_BYTES
        for file, place in places.items():
            if place in listed:
                path = hf_hub_download(
                    name, place, repo_type="dataset", revision=commit, token=False, local_dir=folder / ".hub"
                )
                with Path(path).open("rb") as source:
                    left -= _write(source, folder / file, left)
    except (HfHubHTTPError, HFValidationError, httpx2.HTTPError, OSError) as error:
        raise SubmissionError(f"The Hub does not give {name} ({type(error).__name__}). Is it public?") from error
    _check_complete(folder)
    return commit
