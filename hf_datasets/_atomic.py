"""Writes a file whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["naming", "replacing"]


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Hand out a path beside ``path``; what was written there takes its place, whole, when all went well.

    Folders above are made where they are missing. What was written is forced to disk before it is moved.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with naming(path):
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let an error that the system raises name the file that is to be, not the temporary one beside it."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
