"""A store that is another one, for tests to change in what it does."""

from collections.abc import Hashable, Iterable, Iterator

import pyarrow as pa

from pkray.storage.object_store import FileStatus, ObjectStore, OutputFile, Paths


class DelegatingStore(ObjectStore):
    """Hands every call on; subclasses change some."""

    def __init__(self, inner: ObjectStore) -> None:
        self.inner = inner
        self.url = inner.url

    @property
    def parallel_requests(self) -> int:
        return self.inner.parallel_requests

    def child(self, prefix: str) -> ObjectStore:
        return self.inner.child(prefix)

    def read(self, path: str) -> bytes:
        return self.inner.read(path)

    def write(self, path: str, data: bytes) -> None:
        self.inner.write(path, data)

    def create(self, path: str, data: bytes) -> bool:
        return self.inner.create(path, data)

    def exists(self, path: str) -> bool:
        return self.inner.exists(path)

    def size(self, path: str) -> int:
        return self.inner.size(path)

    def fingerprint(self, path: str) -> Hashable:
        return self.inner.fingerprint(path)

    def list(
        self, prefix: str = "", *, recursive: bool = True, hidden: bool = False
    ) -> Iterator[FileStatus]:
        return self.inner.list(prefix, recursive=recursive, hidden=hidden)

    def list_dirs(self, prefix: str = "") -> Paths:
        return self.inner.list_dirs(prefix)

    def delete(self, paths: str | Iterable[str]) -> None:
        self.inner.delete(paths)

    def open_input(self, path: str) -> pa.NativeFile:
        return self.inner.open_input(path)

    def open_output(self, path: str) -> OutputFile:
        return self.inner.open_output(path)

    def local_path(self, path: str) -> str | None:
        return self.inner.local_path(path)
