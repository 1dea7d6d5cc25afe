"""A directory of the running process on the local disk; what dead processes left is removed."""

import fcntl
import os
import shutil
import tempfile
import uuid
from pathlib import Path

from pkray.storage.private_files import private_directory, private_file, try_lock

_LOCK = "lock"


def default_local_directory() -> str:
    """Make or check this user's folder in the system's temporary directory (``TMPDIR``).

    ``XDG_RUNTIME_DIR`` is not used: it is memory, too small for rows, and ends with the log-in.

    Raises:
        StorageError: the folder is not this user's alone: see `private_directory`.
        OSError: the disk refuses.
    """
    return private_directory(f"{tempfile.gettempdir()}/pkray-{os.geteuid()}")


class OwnedDirectory:
    """A fresh folder below ``root``, held by a file lock for as long as this process lives.

    Both are this user's alone. Opening it removes the folders of owners that are gone.

    Raises:
        StorageError: ``root`` is not this user's alone: see `private_directory`.
        OSError: the disk refuses.
    """

    def __init__(self, root: str) -> None:
        base = Path(private_directory(root))
        gate = private_file(base / _LOCK)
        try:
            # Else a folder could be taken for stale between its creation and its lock.
            fcntl.flock(gate, fcntl.LOCK_EX)
            _remove_stale(base)
            self.path = Path(private_directory(base / uuid.uuid4().hex))
            self._lock: int | None = private_file(self.path / _LOCK)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(gate)

    def close(self) -> None:
        """Remove the folder."""
        if self._lock is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = None


def _remove_stale(base: Path) -> None:
    for folder in base.iterdir():
        if folder.is_dir() and not _is_held(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_held(folder: Path) -> bool:
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDWR)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        return not try_lock(descriptor)
    finally:
        os.close(descriptor)
