"""Files on a local or mounted disk.

This does not go through obstore: its local store stages ``snapshot-5`` as ``snapshot-5#1``,
which a killed process leaves behind and other engines that list ``snapshot-*`` fail on.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from pkray.errors import MissingFileError, StorageError, StorageFullError
from pkray.storage.block_checksums import BlockHasher
from pkray.storage.object_store import FileStatus, ObjectStore, OutputFile, Paths

Entries = list[os.DirEntry[str]]

READ_BACK_BYTES = 256 << 10
"""What pyarrow wrote is read back for its checksums, so much at a time."""
_FULL = (errno.ENOSPC, errno.EDQUOT)


class LocalStore(ObjectStore):
    """A directory of this machine. It comes into being with its first file.

    Nothing is forced to the disk (fsync), as in Paimon: files outlive the process, but what was
    written in the seconds before a power failure may be lost or torn, snapshots included.
    """

    def __init__(self, root: str) -> None:
        self._root = os.path.abspath(os.path.expanduser(root))
        self.url = self._root

    def __reduce__(self) -> tuple[Any, ...]:
        return LocalStore, (self._root,)

    def child(self, prefix: str) -> LocalStore:
        return LocalStore(self._path(prefix))

    def local_path(self, path: str) -> str:
        return self._path(path)

    def _path(self, path: str) -> str:
        return f"{self._root}/{path.rstrip('/')}" if path else self._root

    def read(self, path: str) -> bytes:
        try:
            with open(self._path(path), "rb") as file:
                return file.read()
        except OSError as error:
            raise explain(error, "read", self._path(path)) from error

    def write(self, path: str, data: bytes) -> None:
        target = self._path(path)
        temporary = self._write_temporary(target, data)
        try:
            os.replace(temporary, target)
        except OSError as error:
            _discard(temporary)
            raise explain(error, "write", target) from error

    def create(self, path: str, data: bytes) -> bool:
        target = self._path(path)
        if os.path.lexists(target):
            return False
        temporary = self._write_temporary(target, data)
        try:
            os.link(temporary, target)
        except FileExistsError:
            return False
        except OSError as error:
            raise explain(error, "create", target) from error
        finally:
            _discard(temporary)
        return True

    def _write_temporary(self, target: str, data: bytes) -> str:
        temporary = _temporary_name(target)
        try:
            try:
                file = open(temporary, "xb")  # noqa: SIM115
            except FileNotFoundError:
                os.makedirs(os.path.dirname(target), exist_ok=True)
                file = open(temporary, "xb")  # noqa: SIM115
            with file:
                file.write(data)
        except OSError as error:
            _discard(temporary)
            raise explain(error, "write", target) from error
        return temporary

    def exists(self, path: str) -> bool:
        try:
            return stat.S_ISREG(os.stat(self._path(path)).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise explain(error, "look for", self._path(path)) from error

    def size(self, path: str) -> int:
        try:
            return os.stat(self._path(path)).st_size
        except OSError as error:
            raise explain(error, "read", self._path(path)) from error

    def fingerprint(self, path: str) -> tuple[int, int, int]:
        try:
            status = os.stat(self._path(path))
        except OSError as error:
            raise explain(error, "read", self._path(path)) from error
        return _mark(status)

    def list(
        self, prefix: str = "", *, recursive: bool = True, hidden: bool = False
    ) -> Iterator[FileStatus]:
        pending = [prefix.strip("/")]
        while pending:
            directory = pending.pop()
            below = []
            for entry in self._scan(directory):
                path = f"{directory}/{entry.name}" if directory else entry.name
                if entry.is_dir():
                    below.append(path)
                elif hidden or not entry.name.startswith("."):
                    try:
                        status = entry.stat()
                    except FileNotFoundError:  # deleted since the directory was read
                        continue
                    millis = status.st_mtime_ns // 1_000_000
                    yield FileStatus(path, status.st_size, millis, _mark(status))
            if recursive:
                pending += reversed(below)

    def list_dirs(self, prefix: str = "") -> Paths:
        prefix = prefix.strip("/")
        return [
            f"{prefix}/{entry.name}" if prefix else entry.name
            for entry in self._scan(prefix)
            if entry.is_dir() and not entry.name.startswith(".")
        ]

    def _scan(self, directory: str) -> Entries:
        try:
            with os.scandir(self._path(directory)) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise explain(error, "list", self._path(directory)) from error

    def delete(self, paths: str | Iterable[str]) -> None:
        for path in [paths] if isinstance(paths, str) else paths:
            try:
                os.unlink(self._path(path))
            except (FileNotFoundError, NotADirectoryError):
                pass
            except OSError as error:
                raise explain(error, "delete", self._path(path)) from error

    def open_input(self, path: str) -> pa.NativeFile:
        try:
            return pa.OSFile(self._path(path), "rb")
        except OSError as error:
            raise explain(error, "read", self._path(path)) from error

    def open_output(self, path: str) -> OutputFile:
        return _LocalOutput(path, self._path(path))


class _LocalOutput(OutputFile):
    def __init__(self, path: str, target: str) -> None:
        self.path = path
        self._target = target
        self._temporary = _temporary_name(target)
        self._held_from = 0
        try:
            try:
                self._file = pa.OSFile(self._temporary, "wb")
            except FileNotFoundError:
                os.makedirs(os.path.dirname(target), exist_ok=True)
                self._file = pa.OSFile(self._temporary, "wb")
        except OSError as error:
            raise explain(error, "write", target) from error
        self._open = True

    @property
    def sink(self) -> pa.NativeFile:
        return self._file

    def write(self, data: Any) -> None:
        try:
            self._file.write(data)
        except OSError as error:
            raise explain(error, "write", self._target) from error

    def tell(self) -> int:
        return self._file.tell()

    def checksums(self) -> str:
        hasher = BlockHasher()
        piece = memoryview(bytearray(READ_BACK_BYTES))
        try:
            with open(self._temporary, "rb", buffering=0) as file:
                while count := file.readinto(piece):
                    hasher.update(piece[:count])
        except OSError as error:
            raise explain(error, "write", self._target) from error
        return hasher.text()

    def hold(self) -> None:
        self._held_from = self._file.tell()

    def held(self) -> bytes:
        try:
            self._file.close()
            with open(self._temporary, "r+b") as file:
                file.seek(self._held_from)
                data = file.read()
                file.truncate(self._held_from)
            self._file = pa.OSFile(self._temporary, "ab")
        except OSError as error:
            raise explain(error, "write", self._target) from error
        return data

    def close(self) -> None:
        if not self._open:
            return
        try:
            self._file.close()
            os.replace(self._temporary, self._target)
        except OSError as error:
            self.abort()
            raise explain(error, "write", self._target) from error
        self._open = False

    def abort(self) -> None:
        if not self._open:
            return
        self._open = False
        with contextlib.suppress(OSError):  # what was buffered goes nowhere, as wanted
            self._file.close()
        _discard(self._temporary)


def _mark(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ino


def _temporary_name(target: str) -> str:
    directory, name = os.path.split(target)
    return f"{directory}/.{name}.{uuid.uuid4().hex}.tmp"


def _discard(path: str) -> None:
    with contextlib.suppress(OSError):  # a leftover is hidden, and the orphan cleaner's
        os.unlink(path)


def explain(error: OSError, doing: str, path: str) -> StorageError:
    """The error of pkray for one of the operating system, with its remedy."""
    values = {"path": path, "errno": error.errno}
    reason = error.strerror or str(error)
    if error.errno == errno.ENOENT or (error.errno == errno.ENOTDIR and doing != "write"):
        return MissingFileError(
            f"no file {path!r}: it was deleted, or its snapshot has expired", **values
        )
    if error.errno in _FULL:
        return StorageFullError(
            f"cannot {doing} {path!r}: {reason}; free space on this disk and try again", **values
        )
    if error.errno in (errno.EACCES, errno.EROFS):
        remedy = "give this user the right to it"
    elif error.errno in (errno.EPERM, errno.ENOTSUP, errno.EMLINK) and doing == "create":
        remedy = "snapshots need a file system with hard links: move the table to one"
    elif error.errno == errno.EMFILE:
        remedy = "raise the limit of open files (ulimit -n)"
    else:
        remedy = "check the disk and the path, then try again"
    return StorageError(f"cannot {doing} {path!r}: {reason}; {remedy}", **values)
