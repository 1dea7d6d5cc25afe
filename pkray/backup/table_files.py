"""Name the files that a table's copy needs, and read a table whose small files are such a copy."""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, NoReturn

import pyarrow as pa

from pkray.backup.unit import read_small
from pkray.errors import MissingFileError, UnsupportedError
from pkray.expiration.references import References, branch_roots, collect
from pkray.format import paths
from pkray.metadata.schemas import SchemaStore
from pkray.storage.object_store import FileStatus, ObjectStore, OutputFile, Paths

_REWRITTEN = (
    paths.SCHEMA_DIR,
    paths.SNAPSHOT_DIR,
    paths.TAG_DIR,
    paths.CHANGELOG_DIR,
    paths.CONSUMER_DIR,
)
_NAMED = {
    paths.SCHEMA_DIR: "schema-",
    paths.SNAPSHOT_DIR: "snapshot-",
    paths.TAG_DIR: "tag-",
    paths.CHANGELOG_DIR: "changelog-",
    paths.CONSUMER_DIR: "consumer-",
}


def small_files(table: ObjectStore) -> dict[str, bytes]:
    """Read the content of a table's small files, by path."""
    folders = folders_of_small(table.list_dirs(paths.BRANCH_DIR))
    listed = [each.path for folder in folders for each in table.list(folder, recursive=False)]
    return read_small(table, [path for path in listed if is_small(path)])


def shared_files(small: Mapping[str, bytes], shared: ObjectStore, name: str) -> dict[str, int]:
    """Find the files that small ones lead to, with their sizes in bytes.

    Args:
        shared: where they are.
        name: of the table, for messages.

    Raises:
        MissingFileError: one is gone.
        CorruptFileError: one of those that lead to others is damaged.
    """
    copy = TableCopy(small, shared, f"copy-{id(small):x}")
    deltas = SchemaStore(copy, name).newest().core.changelog_producer == "none"
    needed = References()
    for root in (copy, *branch_roots(copy)):
        collect(copy, root, needed, deltas=deltas)
    found: dict[str, int] = {}
    data = 0
    for file in shared.list(""):
        folder, _, file_name = file.path.rpartition("/")
        if file.path in needed.metadata:
            found[file.path] = file.size
        elif paths.bucket_of(folder) is not None and file_name in needed.data:
            found[file.path] = file.size
            data += 1
    lost = sorted(needed.metadata - found.keys())
    if lost or data < len(needed.data):
        missing = len(lost) + len(needed.data) - data
        first = f", {lost[0]} among them" if lost else ""
        raise MissingFileError(f"{missing} files that {name} names are gone{first}", table=name)
    return found


def is_small(path: str) -> bool:
    """Whether a table's file may be replaced, or come again under its name with another content.

    Hints are no such files: they save listing, and are written anew.
    """
    parts = path.split("/")
    if parts[0] == paths.BRANCH_DIR and len(parts) > 2:
        parts = parts[2:]
    return len(parts) == 2 and parts[1].startswith(_NAMED.get(parts[0], "/"))


def folders_of_small(branches: Iterable[str]) -> list[str]:
    """List the folders in which a table, and its branches, have small files.

    Args:
        branches: their folders: ``branch/branch-b/``.
    """
    roots = ("", *(f"{each.rstrip('/')}/" for each in branches))
    return [f"{root}{folder}" for root in roots for folder in _REWRITTEN]


class TableCopy(ObjectStore):
    """The files of a table as they were at a moment; they are only read.

    Args:
        small: the content of small files by path.
        shared: where the others are.
        name: tells copies of a table apart in caches.
        root: of a folder of the table; it ends in a slash.
    """

    def __init__(
        self, small: Mapping[str, bytes], shared: ObjectStore, name: str, root: str = ""
    ) -> None:
        self._small = small
        self._shared = shared
        self._name = name
        self._root = root
        self.url = f"{shared.url.rstrip('/')}/{root}#{name}".rstrip("/")

    def __reduce__(self) -> tuple[Any, ...]:
        return TableCopy, (self._small, self._shared, self._name, self._root)

    @property
    def parallel_requests(self) -> int:
        return self._shared.parallel_requests

    def child(self, prefix: str) -> ObjectStore:
        root = f"{self._root}{prefix.rstrip('/')}/"
        return TableCopy(self._small, self._shared, self._name, root)

    def read(self, path: str) -> bytes:
        whole = self._root + path
        if is_small(whole):
            try:
                return self._small[whole]
            except KeyError:
                raise MissingFileError(
                    f"{self.location(path)} is not in the copy", path=path
                ) from None
        return self._shared.read(whole)

    def exists(self, path: str) -> bool:
        whole = self._root + path
        return whole in self._small if is_small(whole) else self._shared.exists(whole)

    def size(self, path: str) -> int:
        whole = self._root + path
        return len(self.read(path)) if is_small(whole) else self._shared.size(whole)

    def fingerprint(self, path: str) -> Hashable:
        return None

    def list(
        self, prefix: str = "", *, recursive: bool = True, hidden: bool = False
    ) -> Iterator[FileStatus]:
        start = f"{self._root}{prefix.rstrip('/')}/" if prefix else self._root
        for path, data in self._small.items():
            rest = path.removeprefix(start)
            if path.startswith(start) and (recursive or "/" not in rest):
                yield FileStatus(path.removeprefix(self._root), len(data), 0)
        for file in self._shared.list(start, recursive=recursive, hidden=hidden):
            if not is_small(file.path):
                yield file._replace(path=file.path.removeprefix(self._root))

    def list_dirs(self, prefix: str = "") -> Paths:
        start = f"{self._root}{prefix.rstrip('/')}/" if prefix else self._root
        inside = (path.removeprefix(start) for path in self._small if path.startswith(start))
        found = {start + rest.partition("/")[0] for rest in inside if "/" in rest}
        found |= {path.rstrip("/") for path in self._shared.list_dirs(start)}
        return sorted(path.removeprefix(self._root) for path in found)

    def open_input(self, path: str) -> pa.NativeFile:
        whole = self._root + path
        if is_small(whole):
            return pa.BufferReader(self.read(path))
        return self._shared.open_input(whole)

    def local_path(self, path: str) -> str | None:
        return None

    def write(self, path: str, data: bytes) -> None:
        self._refuse(path)

    def create(self, path: str, data: bytes) -> bool:
        self._refuse(path)

    def delete(self, paths: str | Iterable[str]) -> None:
        self._refuse(str(paths))

    def open_output(self, path: str) -> OutputFile:
        self._refuse(path)

    def _refuse(self, path: str) -> NoReturn:
        raise UnsupportedError(f"{self.location(path)} is a copy, which is only read")
