"""Open files of an object store."""

import io
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import obstore
import pyarrow as pa
from obstore import exceptions

from pkray.storage import uploads
from pkray.storage.block_checksums import BlockHasher
from pkray.storage.object_store import OutputFile
from pkray.storage.remote_errors import is_transient
from pkray.storage.requests import Requests

T = TypeVar("T")

PART_BYTES = 8 << 20
"""Size of an upload's parts; S3 takes 10,000 of at least 5 MB."""
TAIL_BYTES = 64 << 10
"""The end of a file that opening it fetches: it holds a Parquet file's footer."""


class RangeReader(io.RawIOBase):
    """Random access by ranged reads; opening it fetches the size and the file's end at once."""

    def __init__(self, store: Any, key: str, location: str, requests: Requests) -> None:
        self._store = store
        self._key = key
        self._location = location
        self._requests = requests
        self._position = 0
        self._size, self._tail = self._call(self._open)

    def _call(self, call: Callable[[], T]) -> T:
        return self._requests.send("read", self._location, call)

    def _open(self) -> tuple[int, bytes]:
        store, key = self._store, self._key
        try:
            result = obstore.get(store, key, options={"range": {"suffix": TAIL_BYTES}})
            return int(result.meta["size"]), result.bytes().to_bytes()
        except exceptions.BaseError as error:
            if is_transient(error):
                raise
            # Azure takes no suffix ranges; an empty file has none.
            size = int(obstore.head(store, key)["size"])
            start = max(0, size - TAIL_BYTES)
            if size == 0:
                return 0, b""
            return size, obstore.get_range(store, key, start=start, end=size).to_bytes()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def size(self) -> int:
        return self._size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = (0, self._position, self._size)[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, count: int | None = -1) -> Any:
        start = min(self._position, self._size)
        end = self._size if count is None or count < 0 else min(start + count, self._size)
        self._position = end
        if start == end:
            return b""
        tail_start = self._size - len(self._tail)
        if start >= tail_start:
            return self._tail[start - tail_start : end - tail_start]
        return self._call(
            lambda: obstore.get_range(self._store, self._key, start=start, end=end)
        ).to_bytes()

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class RemoteOutput(OutputFile):
    """A file that is sent whole if it is small, and else a multipart upload; one that is not
    completed never becomes a file."""

    def __init__(self, store: Any, key: str, path: str, location: str, requests: Requests) -> None:
        self.path = path
        self._store = store
        self._key = key
        self._location = location
        self._requests = requests
        self._small: list[bytes] = []
        self._writer: Any = None
        self._sink = pa.PythonFile(self, mode="w")
        self._written = 0
        self._hasher = BlockHasher()
        self._held: list[bytes] | None = None
        self.closed = False

    @property
    def sink(self) -> pa.NativeFile:
        return self._sink

    def checksums(self) -> str:
        return self._hasher.text()

    def hold(self) -> None:
        self._held = []

    def held(self) -> bytes:
        data = b"".join(self._held or ())
        self._held = None
        self._written -= len(data)
        return data

    def write(self, data: Any) -> None:
        if self._held is not None:
            self._held.append(bytes(data))
            self._written += len(self._held[-1])
            return
        self._hasher.update(data)
        self._written += memoryview(data).nbytes
        if self._writer is None and self._written < PART_BYTES:
            self._small.append(bytes(data))
        else:
            self._write_part(data)

    def _write_part(self, data: Any) -> None:
        if self._writer is None:
            self._writer = obstore.open_writer(
                self._store, self._key, buffer_size=PART_BYTES, max_concurrency=4
            )
            before, self._small = b"".join(self._small), []
            self._once(lambda: self._writer.write(before))
        self._once(lambda: self._writer.write(memoryview(data).cast("B")))

    def flush(self) -> None:
        """Do nothing: parts go out when they are full."""

    def tell(self) -> int:
        return self._written

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        if self._writer is not None:
            self._once(self._writer.close)
            return
        data, self._small = b"".join(self._small), []
        upload = uploads.Upload(
            self._location, len(data), partial(self._put, data), self._requests.at_once
        )
        beside = uploads.current()
        if beside is None:
            upload.send()
        else:
            beside.begin(upload)

    def _put(self, data: bytes) -> None:
        """Write the whole file; done again it is the same."""

        def put() -> None:
            obstore.put(self._store, self._key, data, use_multipart=False)

        self._requests.send("write", self._location, put)

    def _once(self, call: Callable[[], object]) -> None:
        """obstore repeats each part by itself; this would send it twice."""
        self._requests.send("write", self._location, call, attempts=1)

    def abort(self) -> None:
        self.closed = True
        self._writer = None  # dropped before completion
        self._small = []
