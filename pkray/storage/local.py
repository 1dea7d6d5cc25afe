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

from pkray.errors import CorruptFileError, MissingFileError, StorageError, StorageFullError
from pkray.storage.block_checksums import BlockHasher
from pkray.storage.object_store import FileStatus, ObjectStore, OutputFile, Paths, below
from pkray.storage.private_files import DISK_FULL

Entries = list[os.DirEntry[str]]

READ_BACK_BYTES = 256 << 10
"""What pyarrow wrote is read back for its checksums, so much at a time."""


class LocalStore(ObjectStore):
    """A directory of this machine. It comes into being with its first file.

    Links to files and directories are read and written through. Nothing is deleted through one
    that leads out of the directory, nor out of the one that a `child` was asked of.

    Nothing is forced to the disk (fsync), as in Paimon: files outlive the process, but what was
    written in the seconds before a power failure may be lost or torn, snapshots included.
    """

    def __init__(self, root: str, within: str | None = None) -> None:
        self._root = os.path.abspath(os.path.expanduser(root))
        self._within = within or self._root
        self.url = self._root

    def __reduce__(self) -> tuple[Any, ...]:
        return LocalStore, (self._root, self._within)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalStore) and other._root == self._root

    def __hash__(self) -> int:
        return hash(self._root)

    def child(self, prefix: str) -> LocalStore:
        return LocalStore(self._path(prefix), self._within)

    def local_path(self, path: str) -> str:
        return self._path(path)

    def _path(self, path: str) -> str:
        return f"{self._root}/{below(path).rstrip('/')}" if path else self._root

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
            if os.path.isdir(target):
                raise _misplaced(target)
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
        target = self._path(path)
        try:
            mode = os.stat(target).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise explain(error, "look for", target) from error
        if stat.S_ISDIR(mode):
            raise _misplaced(target)
        return stat.S_ISREG(mode)

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
            deeper = []
            for entry in self._scan(directory):
                path = f"{directory}/{entry.name}" if directory else entry.name
                if entry.is_dir(follow_symlinks=False):
                    deeper.append(path)
                elif entry.is_dir():  # a link: what it leads to is no part of the store
                    continue
                elif hidden or not entry.name.startswith("."):
                    try:
                        status = entry.stat()
                    except FileNotFoundError:  # deleted since the directory was read
                        continue
                    millis = status.st_mtime_ns // 1_000_000
                    yield FileStatus(path, status.st_size, millis, _mark(status))
            if recursive:
                pending += reversed(deeper)

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
        except FileNotFoundError:
            return []
        except NotADirectoryError as error:
            if os.path.lexists(self._path(directory)):
                raise _misplaced(self._path(directory)) from error
            return []
        except OSError as error:
            raise explain(error, "list", self._path(directory)) from error

    def delete(self, paths: str | Iterable[str]) -> None:
        inside: set[str] = set()
        for path in [paths] if isinstance(paths, str) else paths:
            target = self._path(path)
            folder = os.path.dirname(target)
            if folder not in inside:
                self._check_inside(folder)
                inside.add(folder)
            try:
                os.unlink(target)
            except (FileNotFoundError, NotADirectoryError):
                pass
            except OSError as error:
                raise explain(error, "delete", target) from error

    def _check_inside(self, folder: str) -> None:
        """Raises `StorageError`: a link on the way to the folder leads elsewhere."""
        root, real = os.path.realpath(self._within), os.path.realpath(folder)
        if real != root and not real.startswith(f"{root.rstrip('/')}/"):
            raise StorageError(
                f"nothing is deleted in {folder!r}: a link leads from there to {real!r}, out of "
                f"{self._within!r}; delete it by hand, or move what is there to where the link is",
                path=folder,
            )

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
    with contextlib.suppress(OSError):  # what is left is hidden, and the orphan cleaner's
        os.unlink(path)


def explain(error: OSError, doing: str, path: str) -> StorageError:
    """Make the error of pkray for one of the operating system, with its remedy."""
    values = {"path": path, "errno": error.errno}
    if error.errno == errno.EISDIR or (error.errno is None and os.path.isdir(path)):
        return _misplaced(path)
    reason = error.strerror or str(error)
    if error.errno == errno.ENOENT or (error.errno == errno.ENOTDIR and doing != "write"):
        return MissingFileError(
            f"no file {path!r}: it was deleted, or its snapshot has expired", **values
        )
    if error.errno in DISK_FULL:
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


def _misplaced(path: str) -> CorruptFileError:
    """Make the error of a directory where a file belongs, or of a file where a directory does."""
    found, wanted = "directory", "file"
    if not os.path.isdir(path):
        found, wanted = wanted, found
    return CorruptFileError(
        f"{path!r} is a {found} where a {wanted} belongs: move it away, and restore what was there",
        path=path,
    )
