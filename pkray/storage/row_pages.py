"""Rows in small pages, each of which one request reads: written beside a data file, for lookups.

::

    page 0 | page 1 | … | index: first key, place, checksum of each page | trailer

A page is an Arrow message of some consecutive rows, compressed; the index is an Arrow stream.
Opening the file fetches its end, which holds the index as a rule. What it says of rows, the data
file says too: whoever cannot read it reads that one.
"""

import struct
from collections.abc import Sequence
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from pkray.closing import Abortable
from pkray.errors import CorruptFileError
from pkray.storage.object_store import ObjectStore

SUFFIX = ".pages"
"""After the name of the data file."""
PAGE_BYTES = 16 << 10
"""Bounds a page, of rows in memory: less is not read faster, and costs more to write."""
MAX_PAGE_ROWS = 1024
TAIL_BYTES = 64 << 10
"""Read to open a file: the index of half a million narrow rows, as a rule."""

_MAGIC = b"pkrpage1"
_TRAILER = struct.Struct("<QQI8s")
"""Bytes of the index in the file and in memory, checksum of these and of the index, magic."""
_SIZES = struct.Struct("<QQ")
_NUMBERS = {"place": np.int64, "bytes": np.uint32, "rows": np.uint32, "checksum": np.uint32}
"""Names what each page has, in the index after its first key."""
_SCHEMA = b"rows"

Ints = npt.NDArray[np.int64]


class RowPagesWriter(Abortable):
    """Writes the pages of one data file's rows; the file appears whole on `close`.

    Args:
        schema: of the rows.
        key_columns: in whose order the rows come.
    """

    def __init__(
        self, store: ObjectStore, path: str, schema: pa.Schema, key_columns: Sequence[str]
    ) -> None:
        self._schema = schema
        self._keys = list(key_columns)
        self._codec = pa.Codec("zstd", 1)
        self._output = store.open_output(path)
        self._pages: list[tuple[int, int, int, int]] = []
        self._first_keys: list[pa.RecordBatch] = []

    def write(self, rows: pa.RecordBatch) -> None:
        """Append rows that have the schema's columns."""
        arrays = [_plain(rows.column(name)) for name in self._schema.names]
        rows = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        width = max(1, rows.nbytes // max(1, rows.num_rows))
        step = max(1, min(MAX_PAGE_ROWS, PAGE_BYTES // width))
        starts = np.arange(0, rows.num_rows, step)
        self._first_keys.append(rows.select(self._keys).take(pa.array(starts)))
        for start in starts.tolist():
            self._write_page(rows.slice(start, step))

    def _write_page(self, rows: pa.RecordBatch) -> None:
        message = rows.serialize()
        data = self._codec.compress(message, asbytes=True)
        place, digest = self._output.tell(), xxhash.xxh3_64_intdigest(data) & 0xFFFFFFFF
        self._pages.append((place, message.size, rows.num_rows, digest))
        self._output.write(data)

    def close(self) -> None:
        """Publish the file."""
        try:
            data, size = self._index()
            self._output.write(data)
            digest = _end_digest(data, size)
            self._output.write(_TRAILER.pack(len(data), size, digest, _MAGIC))
        except BaseException:
            self.abort()
            raise
        self._output.close()

    def _index(self) -> tuple[bytes, int]:
        numbers = np.array(self._pages, np.int64).reshape(-1, 4).T
        table = pa.Table.from_batches(self._first_keys)
        for (name, kind), values in zip(_NUMBERS.items(), numbers, strict=True):
            table = table.append_column(name, pa.array(values.astype(kind)))
        table = table.combine_chunks().replace_schema_metadata(
            {_SCHEMA: self._schema.serialize().to_pybytes()}
        )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        whole = sink.getvalue()
        return self._codec.compress(whole, asbytes=True), whole.size

    def abort(self) -> None:
        """Give the file up: nothing of it stays."""
        self._output.abort()


class RowPages:
    """The pages of a data file's rows, as they can be read.

    Attributes:
        schema: of the rows.
        first_keys: the key columns of each page's first row.
        first_rows: each page's first row, counted in the data file.
        page_bytes: what each page takes in memory.
        row_count: of all pages.
        nbytes: memory in use.
    """

    def __init__(self, store: ObjectStore, path: str, index: pa.Table, end: int) -> None:
        self._store = store
        self._path = path
        keys = range(index.num_columns - len(_NUMBERS))  # whatever their names are
        (self.first_keys,) = index.select(list(keys)).combine_chunks().to_batches()
        places, sizes, counts, checksums = (c.to_numpy() for c in index.columns[len(keys) :])
        self.schema = pa.ipc.read_schema(pa.py_buffer(index.schema.metadata[_SCHEMA]))
        self._places: Ints = np.append(places, end)
        self.page_bytes = sizes
        self._checksums = checksums
        rows = np.cumsum(counts, dtype=np.int64)
        self.row_count = int(rows[-1])
        self.first_rows: Ints = np.append(np.zeros(1, np.int64), rows[:-1])
        arrays = (self._places, self.page_bytes, self._checksums, self.first_rows)
        self.nbytes = self.first_keys.get_total_buffer_size() + sum(each.nbytes for each in arrays)

    def __len__(self) -> int:
        return len(self.page_bytes)

    @classmethod
    def open(cls, store: ObjectStore, path: str) -> Self:
        """Read the index: one request, as a rule.

        Raises:
            MissingFileError: there is no such file.
            CorruptFileError: it is damaged, or of another kind.
        """
        with store.open_input(path) as file:
            size = file.size()
            tail = file.read_at(min(size, TAIL_BYTES), max(0, size - TAIL_BYTES))
            if len(tail) < _TRAILER.size:
                raise _corrupt(store, path, f"it has {size} bytes")
            length, raw, digest, magic = _TRAILER.unpack(tail[-_TRAILER.size :])
            if magic != _MAGIC or length + _TRAILER.size > size:
                raise _corrupt(store, path, "its end is not as written")
            if length + _TRAILER.size > len(tail):
                tail = file.read_at(length + _TRAILER.size, size - length - _TRAILER.size)
        data = tail[-_TRAILER.size - length : -_TRAILER.size]
        if _end_digest(data, raw) != digest:
            raise _corrupt(store, path, "the checksum of its index is wrong")
        try:
            index = pa.ipc.open_stream(pa.Codec("zstd").decompress(data, raw)).read_all()
            return cls(store, path, index, size - length - _TRAILER.size)
        except (OSError, pa.ArrowException, KeyError, ValueError) as error:
            raise _corrupt(store, path, f"its index cannot be read: {error}") from error

    def read(self, pages: Ints) -> pa.RecordBatch:
        """Read the rows of some pages, in the order given: their requests go together.

        Raises:
            MissingFileError: the file is gone.
            CorruptFileError: it is damaged.
        """
        numbers = pages.tolist()
        ranges = [(int(self._places[n]), int(self._places[n + 1])) for n in numbers]
        codec = pa.Codec("zstd")
        batches = []
        for number, data in zip(numbers, self._store.read_ranges(self._path, ranges), strict=True):
            if xxhash.xxh3_64_intdigest(data) & 0xFFFFFFFF != self._checksums[number]:
                raise _corrupt(self._store, self._path, f"page {number} is not as written")
            message = codec.decompress(data, int(self.page_bytes[number]))
            batches.append(pa.ipc.read_record_batch(message, self.schema))
        return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _end_digest(data: bytes, size: int) -> int:
    return xxhash.xxh3_64_intdigest(_SIZES.pack(len(data), size) + data) & 0xFFFFFFFF


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _corrupt(store: ObjectStore, path: str, reason: str) -> CorruptFileError:
    location = store.location(path)
    return CorruptFileError(
        f"cannot read the pages {location!r}: {reason}; lookups read the data file beside them; "
        "compact the table whole to have them written again",
        path=location,
        reason=reason,
    )
