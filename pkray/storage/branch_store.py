"""A branch of a table: metadata of its own above the table's files."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from pkray.storage.object_store import FileStatus, ObjectStore, OutputFile, Paths

OWN = ("schema", "snapshot", "tag", "changelog", "consumer", "writer")
"""The folders that each branch has of its own; all others are the table's."""


class BranchStore(ObjectStore):
    """The files of a table as one branch of it sees them.

    Args:
        main: the table's root.
        branch: the branch's name.
    """

    def __init__(self, main: ObjectStore, branch: str) -> None:
        self.main = main
        self.branch = branch
        self.url = main.url
        self._root = f"branch/branch-{branch}"

    @property
    def parallel_requests(self) -> int:
        return self.main.parallel_requests

    @property
    def history(self) -> ObjectStore:
        """The folders of its own alone."""
        return self.main.child(self._root)

    def __reduce__(self) -> tuple[Any, ...]:
        return BranchStore, (self.main, self.branch)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BranchStore)
            and other.branch == self.branch
            and other.main == self.main
        )

    def __hash__(self) -> int:
        return hash((self.main, self.branch))

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}" if path.split("/", 1)[0] in OWN else path

    def child(self, prefix: str) -> ObjectStore:
        return self.main.child(self._path(prefix))

    def read(self, path: str) -> bytes:
        return self.main.read(self._path(path))

    def read_marked(self, path: str) -> tuple[bytes, Hashable]:
        return self.main.read_marked(self._path(path))

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return self.main.read_ranges(self._path(path), ranges)

    def write(self, path: str, data: bytes) -> None:
        self.main.write(self._path(path), data)

    def create(self, path: str, data: bytes) -> bool:
        return self.main.create(self._path(path), data)

    def check_creates(self) -> None:
        self.main.check_creates()

    def exists(self, path: str) -> bool:
        return self.main.exists(self._path(path))

    def size(self, path: str) -> int:
        return self.main.size(self._path(path))

    def fingerprint(self, path: str) -> Hashable:
        return self.main.fingerprint(self._path(path))

    def list(
        self, prefix: str = "", *, recursive: bool = True, hidden: bool = False
    ) -> Iterator[FileStatus]:
        inner = self._path(prefix)
        for file in self.main.list(inner, recursive=recursive, hidden=hidden):
            if inner == prefix:
                yield file
            else:
                yield file._replace(path=file.path.removeprefix(f"{self._root}/"))

    def list_dirs(self, prefix: str = "") -> Paths:
        return [
            path.removeprefix(f"{self._root}/") for path in self.main.list_dirs(self._path(prefix))
        ]

    def delete(self, paths: str | Iterable[str]) -> None:
        named = [paths] if isinstance(paths, str) else paths
        self.main.delete([self._path(path) for path in named])

    def open_input(self, path: str) -> pa.NativeFile:
        return self.main.open_input(self._path(path))

    def open_output(self, path: str) -> OutputFile:
        return self.main.open_output(self._path(path))

    def local_path(self, path: str) -> str | None:
        return self.main.local_path(self._path(path))

    def location(self, path: str) -> str:
        return self.main.location(self._path(path))


def main_and_history(store: ObjectStore) -> tuple[ObjectStore, ObjectStore]:
    """Open a table's root, and the root of its snapshots: the same, but for a branch."""
    if isinstance(store, BranchStore):
        return store.main, store.history
    return store, store
