"""The Ray cluster that processes of one user on this machine share when they name none."""

from __future__ import annotations

import hashlib
import os
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from pkray.errors import StorageError
from pkray.storage.owned_directory import default_local_directory
from pkray.storage.private_files import private_directory, private_file, try_lock

_PATIENCE_SECONDS = 60.0
"""How long another process may take to start a cluster before this one starts its own."""
_LOOK_SECONDS = 0.1
"""Between two looks whether the other process has finished."""
_MOST_BYTES = 4096
"""The file holds an address and a process: what is longer is not ours."""


class _Started(msgspec.Struct, frozen=True):
    address: str
    pid: int


class KnownCluster:
    """A file that names the cluster which the first of some processes has started.

    Only processes of the same Python environment and pkray share one: actors run the code of the
    process that started the cluster.

    Args:
        path: of the file; None where the disk refuses, and nothing is known.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path

    @staticmethod
    def of_user() -> KnownCluster:
        """Name the file of this user and environment."""
        try:
            folder = private_directory(f"{default_local_directory()}/clusters")
        except (OSError, StorageError):
            return KnownCluster(None)
        code = f"{sys.prefix}\n{__file__}"
        return KnownCluster(f"{folder}/{hashlib.blake2b(code.encode(), digest_size=8).hexdigest()}")

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the file's lock: of processes that start at a time, one starts a cluster."""
        file = self._open()
        try:
            end = time.monotonic() + _PATIENCE_SECONDS
            while file is not None and not try_lock(file) and time.monotonic() < end:
                time.sleep(_LOOK_SECONDS)
            yield
        finally:
            if file is not None:
                os.close(file)

    def find(self) -> tuple[str, int] | None:
        """Find the address of the cluster, if it answers, and the process that it ends with."""
        file = self._open()
        if file is None:
            return None
        try:
            known = msgspec.json.decode(os.pread(file, _MOST_BYTES, 0), type=_Started)
        except (OSError, msgspec.DecodeError):
            return None
        finally:
            os.close(file)
        is_there = _lives(known.pid) and answers(known.address)
        return (known.address, known.pid) if is_there else None

    def note(self, address: str) -> None:
        """Note that this process has started the cluster at an address."""
        file = self._open()
        if file is None:
            return
        with suppress(OSError):
            data = msgspec.json.encode(_Started(address, os.getpid()))
            os.ftruncate(file, 0)
            os.pwrite(file, data, 0)
        os.close(file)

    def _open(self) -> int | None:
        with suppress(OSError):
            return None if self._path is None else private_file(self._path)
        return None


def lasting_cluster() -> str | None:
    """Find the address of the cluster that ``ray start`` has started on this machine, if it
    answers."""
    folder = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
    with suppress(OSError):
        address = (Path(folder) / "ray" / "ray_current_cluster").read_text().strip()
        return address if answers(address) else None
    return None


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's
        return True
    return True


_ANSWER_SECONDS = 10.0
"""A host that is there answers at once; one that is not would be waited for two minutes."""


def knock(address: str | None) -> None:
    """Connect to ``host:port``, of which there may be none in the address.

    Ray asks again for minutes, and then ends the process.

    Raises:
        OSError: nobody listens there.
    """
    host, colon, port = (address or "").rpartition(":")
    if colon and port.isdigit() and "/" not in host:
        socket.create_connection((host, int(port)), _ANSWER_SECONDS).close()


def answers(address: str) -> bool:
    """Whether somebody listens there."""
    try:
        knock(address)
    except OSError:
        return False
    return True
