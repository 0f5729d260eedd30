"""Which weights a name means: a folder's digest, or a Hub commit."""

import hashlib
from pathlib import Path

from ...hf_datasets._offline import is_offline
from ...hf_datasets.errors import EngineError
from ..profiles import find_profile
from ..requests import ModelRef

__all__ = ["digest_folder", "resolve_model"]

_HEAD_BYTES = 1 << 20


def resolve_model(name: str, revision: str | None, profile: str | None) -> tuple[ModelRef, str]:
    """Return a model with its resolved revision, and what an engine loads it from.

    Args:
        name: a folder with a model, or a name on the Hub.
        revision: a branch, tag or commit on the Hub; folders have none.
        profile: name of the model's profile; None finds it by the model's name.

    Raises:
        EngineError: a folder without a model, or a name that neither the Hub nor the local cache resolves.
    """
    folder = Path(name)
    if folder.is_dir():
        if not (folder / "config.json").exists():
            raise EngineError(f"{folder} holds no model: there is no config.json in it.")
        # The folder's own name, not its path: the same model elsewhere is the same model.
        short = folder.resolve().name
        return ModelRef(short, digest_folder(folder), str(find_profile(short, profile))), str(folder)
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise EngineError(f"There is no folder {name}.")
    import httpx2
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    reason = "HF_HUB_OFFLINE is set"
    try:
        if not is_offline():
            try:
                commit = HfApi().model_info(name, revision=revision, timeout=10).sha
                return ModelRef(name, str(commit), str(find_profile(name, profile))), name
            except (HfHubHTTPError, httpx2.HTTPError, OSError) as error:
                # The cache may still have it; what the Hub said is told if it does not.
                reason = f"{type(error).__name__}: {error}"
        cached = snapshot_download(name, revision=revision, local_files_only=True)
        return ModelRef(name, Path(cached).name, str(find_profile(name, profile))), name
    except (LocalEntryNotFoundError, HFValidationError) as error:
        raise EngineError(
            f"The model {name}{'@' + revision if revision else ''} was found neither on the Hub ({reason}) nor "
            "in the local cache. Check the name, log in with `hf auth login` if it is gated, or name a local folder."
        ) from error


def digest_folder(folder: Path) -> str:
    """Return a digest of a model folder that changes when its content does.

    Small files are read whole; of the weights, the size and the first and last MiB, which hold the tensors' names,
    shapes and some of their values. To digest hundreds of gigabytes would take longer than to load them.
    """
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        # Hidden files and folders (.git, .cache of a download) differ between copies of one model.
        if any(part.startswith(".") for part in path.relative_to(folder).parts):
            continue
        size = path.stat().st_size
        digest.update(f"{path.relative_to(folder).as_posix()}\0{size}\0".encode())
        with path.open("rb") as file:
            digest.update(file.read(_HEAD_BYTES))
            if size > _HEAD_BYTES:
                file.seek(max(size - _HEAD_BYTES, _HEAD_BYTES))
                digest.update(file.read())
    return digest.hexdigest()
