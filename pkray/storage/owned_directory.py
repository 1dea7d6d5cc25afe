"""A directory of the running process on the local disk; what dead processes left is removed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import uuid
from pathlib import Path
from typing import IO

_LOCK = "lock"


def default_local_directory() -> str:
    """Of this user, below the system's temporary directory."""
    return f"{tempfile.gettempdir()}/pkray-{os.getuid()}"


class OwnedDirectory:
    """A fresh folder below ``root``, held by a file lock for as long as this process lives.

    Opening it removes the folders of owners that are gone.

    Raises:
        OSError: the disk refuses.
    """

    def __init__(self, root: str) -> None:
        base = Path(root)
        base.mkdir(parents=True, exist_ok=True)
        with (base / _LOCK).open("ab") as gate:
            # Else a folder could be taken for stale between its creation and its lock.
            fcntl.flock(gate, fcntl.LOCK_EX)
            _remove_stale(base)
            self.path = base / uuid.uuid4().hex
            self.path.mkdir()
            self._lock: IO[bytes] | None = (self.path / _LOCK).open("ab")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def close(self) -> None:
        """Remove the folder."""
        if self._lock is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            self._lock.close()
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
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
