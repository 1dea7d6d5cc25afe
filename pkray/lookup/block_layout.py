"""Lay some consecutive rows of a data file out as a block, to be gathered by numpy.

::

    16-bit hash of each row's key | fixed-width records | bytes of text column 1 | of 2 | …

A record is one row's null bits and its columns; a text column is an offset from the block's start
and a length. Nested columns lie next to the blocks as Arrow IPC batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pkray.format.words import fixed_values, flag_values, null_mask, raw_type, text_bytes
from pkray.lookup.key_hash import is_text, one_chunk

Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint16]

MAX_BLOCK_ROWS = 8
MAX_BLOCK_BYTES = 2048
"""Rows larger than a share of this have blocks of fewer rows."""
NESTED_ROWS = 64
"""Rows of an Arrow IPC batch of nested columns; a multiple of the rows of a block."""
_TEXT = np.dtype([("offset", "<u4"), ("length", "<u4")])


def gather_bytes(data: bytes, starts: Ints, lengths: Ints) -> pa.Buffer:
    """Join byte ranges of ``data``."""
    count, total = len(starts), int(lengths.sum())
    if total == 0:
        return pa.py_buffer(b"")
    width = int(lengths[0])
    if width * count == total and bool((lengths == width).all()):
        return pa.py_buffer(records_at(data, starts, np.dtype(f"V{width}")))
    ends = np.cumsum(lengths)
    index = np.repeat(starts - (ends - lengths), lengths)
    index += np.arange(total)
    return pa.py_buffer(np.frombuffer(data, np.uint8)[index])


def records_at(data: bytes, starts: Ints, record: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the records that begin at these bytes, aligned or not."""
    places = max(len(data) - record.itemsize + 1, 0)
    anywhere = np.ndarray((places,), f"V{record.itemsize}", data, strides=(1,))
    return anywhere[starts].view(record)


@dataclass(frozen=True)
class BlockLayout:
    """The layout of rows of one schema in blocks.

    Args:
        schema: the key-value rows.
        block_rows: rows in each block but a file's last.
    """

    schema: pa.Schema
    block_rows: int

    @classmethod
    def fitting(cls, batch: pa.RecordBatch) -> Self:
        """Choose the layout whose blocks are small enough to be fetched for one row, judged by a
        batch."""
        bytes_per_row = batch.get_total_buffer_size() // max(batch.num_rows, 1) + 1
        rows = MAX_BLOCK_ROWS
        while rows > 1 and rows * bytes_per_row > MAX_BLOCK_BYTES:
            rows //= 2
        return cls(batch.schema, rows)

    def schema_of(self, columns: Sequence[str]) -> pa.Schema:
        """Return the schema of some columns, kept: making it takes long for one row."""
        names = tuple(columns)
        if names not in self._schemas:
            self._schemas[names] = pa.schema([self.schema.field(name) for name in names])
        return self._schemas[names]

    @cached_property
    def _schemas(self) -> dict[tuple[str, ...], pa.Schema]:
        return {}

    @cached_property
    def flat(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.schema if not pa.types.is_nested(f.type))

    @cached_property
    def nested(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.schema if pa.types.is_nested(f.type))

    @cached_property
    def nested_schema(self) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in self.nested])

    @cached_property
    def record(self) -> np.dtype[Any]:
        fields: list[Any] = [("nulls", "u1", (-(-len(self.flat) // 8),))]
        for i, name in enumerate(self.flat):
            fields.append((f"c{i}", _record_field(self.schema.field(name).type)))
        return np.dtype(fields)

    @cached_property
    def _columns(self) -> dict[str, tuple[int, str, pa.DataType]]:
        """Of each flat column its number, its field of the record, its type."""
        kinds = {name: self.schema.field(name).type for name in self.flat}
        return {name: (i, f"c{i}", kinds[name]) for i, name in enumerate(self.flat)}

    @property
    def head_bytes(self) -> int:
        return 2 * self.block_rows

    @property
    def fixed_bytes(self) -> int:
        return self.head_bytes + self.block_rows * self.record.itemsize

    def encode(self, rows: pa.RecordBatch, hashes: Hashes) -> list[bytes]:
        """Encode rows as blocks; all are full but the last.

        Args:
            hashes: of each row's key.
        """
        count, per_block = rows.num_rows, self.block_rows
        blocks = -(-count // per_block)
        records = np.zeros(blocks * per_block, self.record)
        first_rows = np.arange(blocks + 1) * per_block
        first_rows[-1] = count
        text_start = np.full(blocks, self.fixed_bytes, np.int64)
        heaps: list[tuple[memoryview, list[int]]] = []
        for i, name in enumerate(self.flat):
            array = one_chunk(rows.column(name))
            nulls = null_mask(array)
            if nulls is not None:
                records["nulls"][:count, i // 8] |= nulls.astype(np.uint8) << (i % 8)
            into = records[f"c{i}"][:count]
            if not is_text(array.type):
                into[:] = _fixed(array)
                continue
            text = text_bytes(array, nulls)
            ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(text.lengths)])
            bounds = ends[first_rows]
            shift = text_start - bounds[:-1]
            into["offset"] = ends[:-1] + np.repeat(shift, np.diff(first_rows))
            into["length"] = text.lengths
            heaps.append((_text_data(array, nulls, int(ends[-1])), bounds.tolist()))
            text_start += np.diff(bounds)
        fixed = self._fixed_parts(records, hashes, blocks)
        return _join_parts(fixed.reshape(-1).data, self.fixed_bytes, blocks, heaps)

    def _fixed_parts(
        self, records: npt.NDArray[Any], hashes: Hashes, blocks: int
    ) -> npt.NDArray[np.uint8]:
        heads = np.zeros(blocks * self.block_rows, "<u2")
        heads[: len(hashes)] = hashes
        fixed = np.empty((blocks, self.fixed_bytes), np.uint8)
        fixed[:, : self.head_bytes] = heads.view(np.uint8).reshape(blocks, -1)
        fixed[:, self.head_bytes :] = records.view(np.uint8).reshape(blocks, -1)
        return fixed

    def decode(
        self, data: bytes, blocks: Ints, slots: Ints, columns: Sequence[str]
    ) -> dict[str, pa.Array]:
        """Decode flat columns of some rows.

        Args:
            data: blocks, one after the other.
            blocks: where the block of each row begins in ``data``.
            slots: which row of its block each one is.
        """
        starts = blocks + self.head_bytes + slots * self.record.itemsize
        records = records_at(data, starts, self.record)
        has_nulls = bool(records["nulls"].any())
        return {name: self._column(data, blocks, records, name, has_nulls) for name in columns}

    def _column(
        self, data: bytes, blocks: Ints, records: npt.NDArray[Any], name: str, has_nulls: bool
    ) -> pa.Array:
        i, field, kind = self._columns[name]
        values, validity = records[field], None
        if has_nulls:
            valid = (records["nulls"][:, i // 8] >> (i % 8)) & 1 == 0
            validity = pa.py_buffer(np.packbits(valid, bitorder="little"))
        if is_text(kind):
            lengths = values["length"].astype(np.int64)
            offsets = np.zeros(len(lengths) + 1, np.int32)
            np.cumsum(lengths, out=offsets[1:])
            text = gather_bytes(data, blocks + values["offset"], lengths)
            buffers = [validity, pa.py_buffer(offsets), text]
        elif pa.types.is_boolean(kind):
            buffers = [validity, pa.py_buffer(np.packbits(values, bitorder="little"))]
        else:
            buffers = [validity, pa.py_buffer(np.ascontiguousarray(values))]
        return pa.Array.from_buffers(kind, len(records), buffers)


def _record_field(kind: pa.DataType) -> Any:
    if is_text(kind):
        return _TEXT
    return raw_type(1 if pa.types.is_boolean(kind) else kind.bit_width // 8)


def _fixed(array: pa.Array) -> npt.NDArray[Any]:
    if pa.types.is_boolean(array.type):
        return flag_values(array)
    return fixed_values(array, _record_field(array.type))


def _text_data(array: pa.Array, nulls: npt.NDArray[np.bool_] | None, total: int) -> memoryview:
    """Return the bytes of all values that are not null, without gaps."""
    if array.buffers()[2] is None or total == 0:
        return memoryview(b"")
    offsets = np.frombuffer(array.buffers()[1], np.int32)
    first, last = int(offsets[array.offset]), int(offsets[array.offset + len(array)])
    if last - first != total:
        array = array.drop_null() if nulls is not None else array
        return _text_data(pa.concat_arrays([array]), None, total)
    return memoryview(array.buffers()[2])[first:last]


def _join_parts(
    fixed: memoryview, width: int, blocks: int, heaps: list[tuple[memoryview, list[int]]]
) -> list[bytes]:
    heads = [fixed[i * width : (i + 1) * width] for i in range(blocks)]
    if not heaps:
        return [bytes(head) for head in heads]
    parts = [[data[a:b] for a, b in pairwise(bounds)] for data, bounds in heaps]
    return [b"".join(block) for block in zip(heads, *parts, strict=True)]
