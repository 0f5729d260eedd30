"""Run folders on the Hub: downloaded into the Hub's cache, then read as any others. Pushes nothing."""

import re
from pathlib import Path

from ...hf_datasets.errors import HubError

__all__ = ["local_folder"]

# A pathlib.Path has one slash where the address has two.
_ADDRESS = re.compile(
    r"hf:/{1,2}datasets/(?P<repo>[^/@]+/[^/@]+)(?:@(?P<revision>[^/]+))?(?:/(?P<folder>.+?))?/?", re.ASCII
)
_OF_SUITE = ("config.json", "oracle.json", "suite.json")


def local_folder(path: Path | str) -> Path:
    """Return where a folder lies on this machine; one on the Hub is downloaded first, unless it is in the cache.

    Args:
        path: of a suite or run folder, or ``hf://datasets/OWNER/NAME[@REVISION][/FOLDER]``.

    Raises:
        HubError: the Hub does not have it, or cannot be reached.
    """
    found = _ADDRESS.fullmatch(str(path))
    if found is None:
        return Path(path)
    from huggingface_hub import snapshot_download  # slow to import
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    repo, revision, folder = found["repo"], found["revision"], found["folder"] or ""
    wanted = [f"{folder}/*"] if folder else ["*"]
    # Scores are against the oracle of the suite folder; that of a record among results lies beside the records.
    wanted += [*((Path(folder).parent / name).as_posix() for name in _OF_SUITE), "oracles/*"] if folder else []
    try:
        snapshot = snapshot_download(repo, repo_type="dataset", revision=revision, allow_patterns=wanted)
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        raise HubError(
            f"{path} could not be downloaded: {str(error).splitlines()[0]} Check its name and your login "
            f"(hf auth login), or download it where there is a network (hf download {repo} --repo-type dataset "
            "--local-dir DIR) and name DIR."
        ) from error
    local = Path(snapshot) / folder
    if not local.is_dir():
        raise HubError(f"{path}: {repo} has no folder {folder!r}.")
    return local
