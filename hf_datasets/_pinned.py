"""A file of somebody else's at a pinned address: found or fetched once, its bytes checked each time.

Knows nothing about what the file holds.
"""

import hashlib
import os
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from ._atomic import replacing
from ._offline import is_offline
from .errors import DataError

__all__ = ["PinnedFile"]

_DOWNLOAD_SECONDS = 30.0


@dataclass(frozen=True)
class PinnedFile:
    """Where a file is, and what it must be."""

    what: str
    """How messages call it."""
    url: str
    sha256: str
    variable: str
    """Environment variable that names a local copy."""
    file_name: str
    option: str
    """How the command line is given a local copy."""
    otherwise: str = ""
    """What to do with a file of one's own, a sentence after a space."""

    def content(
        self,
        source: str | os.PathLike[str] | None = None,
        *,
        cache_dir: str | os.PathLike[str] | None = None,
        url: str | None = None,
    ) -> bytes:
        """Return the file's bytes: from ``source``, else the environment's copy, else the cache, else the address.

        Args:
            source: a local copy.
            cache_dir: where the downloaded file is kept; default ``$GISTBENCH_CACHE`` or ``~/.cache/gistbench``.
            url: where to download it from, instead of the pinned address.

        Raises:
            DataError: it cannot be had, or has other bytes than the pinned ones.
        """
        url = url or self.url
        given = source if source is not None else os.environ.get(self.variable) or None
        cached = self._cache_path(cache_dir)
        if given is not None:
            path = Path(given).expanduser()
            if not path.is_file():
                raise DataError(f"{path}: no such file. {self._how_to_get(url, cached)}")
            return self._checked(path.read_bytes(), str(path), url, cached)
        if cached.is_file():
            return self._checked(cached.read_bytes(), str(cached), url, cached)
        content = self._checked(self._download(url, cached), url, url, cached)
        with replacing(cached) as temporary:
            temporary.write_bytes(content)
        return content

    def _checked(self, content: bytes, place: str, url: str, cached: Path) -> bytes:
        found = hashlib.sha256(content).hexdigest()
        if found != self.sha256:
            raise DataError(
                f"{place} is not the {self.what}: its sha256 is {found}, expected {self.sha256}. "
                f"{self._how_to_get(url, cached)}{self.otherwise}"
            )
        return content

    def _download(self, url: str, cached: Path) -> bytes:
        if is_offline():
            raise DataError(f"The {self.what} is not here and HF_HUB_OFFLINE is set. {self._how_to_get(url, cached)}")
        try:
            with urllib.request.urlopen(url, timeout=_DOWNLOAD_SECONDS) as response:
                return bytes(response.read())
        except OSError as error:  # URLError and time-outs are OSErrors
            raise DataError(
                f"The {self.what} could not be downloaded ({error}). {self._how_to_get(url, cached)}"
            ) from error

    def _how_to_get(self, url: str, cached: Path) -> str:
        return (
            f"Get {url} (sha256 {self.sha256}) and save it as {cached}, or set {self.variable} to its path, or pass it "
            f"as source (command line: {self.option})."
        )

    def _cache_path(self, cache_dir: str | os.PathLike[str] | None) -> Path:
        folder = cache_dir or os.environ.get("GISTBENCH_CACHE") or Path.home() / ".cache" / "gistbench"
        stem, dot, extension = self.file_name.partition(".")
        return Path(folder).expanduser() / f"{stem}-{self.sha256[:12]}{dot}{extension}"
