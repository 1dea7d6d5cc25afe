"""Columns of a Parquet file that hold the same as others: encoded once, written twice.

A key is in a data file as a key and as a value. Encoding and compressing it takes ten times as
long as writing the bytes again.

Source: RowGroup, ColumnChunk and ColumnMetaData in the Parquet format.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pkray.storage.object_store import OutputFile
from pkray.storage.parquet.footer import COLUMN_ORDERS, FILE_SCHEMA, MAGIC, ROW_GROUPS, footer_of
from pkray.storage.parquet.thrift import BINARY, I64, STRUCT, Struct

_COLUMNS, _GROUP_BYTES, _GROUP_OFFSET, _GROUP_COMPRESSED_BYTES = 1, 2, 5, 6
_CHUNK_OFFSET, _CHUNK_METADATA = 2, 3
_PATH, _BYTES, _COMPRESSED_BYTES = 3, 6, 7
_PAGE_OFFSETS = (9, 10, 11)
"""Of data, index and dictionary pages."""


class SharedColumns:
    """The writer of some columns of one file: pyarrow writes all others.

    Args:
        schema: of the whole file.
        copies: by the name of a column, the one that holds the same, both of one type without
            nested ones and of one nullability.
        arguments: of pyarrow's writer.
    """

    def __init__(
        self, schema: pa.Schema, copies: Mapping[str, str], arguments: Mapping[str, Any]
    ) -> None:
        self._schema = schema
        self._copies = copies
        self._arguments = arguments
        self._names = list(copies.values())
        self._groups: list[dict[str, Struct]] = []

    @property
    def schema_of_others(self) -> pa.Schema:
        """The file's columns that are not shared."""
        shared = {*self._copies, *self._names}
        return pa.schema([field for field in self._schema if field.name not in shared])

    def write(self, rows: pa.Table, output: OutputFile) -> pa.Table:
        """Write a row group's shared columns; its other columns are to follow.

        Args:
            rows: all columns but the copies.

        Returns:
            the other columns.
        """
        file = self._encoded(rows.select(self._names))
        chunks = footer_of(file)[ROW_GROUPS][1][1][0][_COLUMNS][1][1]
        length = sum(chunk[_CHUNK_METADATA][1][_COMPRESSED_BYTES][1] for chunk in chunks)
        pages = memoryview(file)[len(MAGIC) : len(MAGIC) + length]
        columns: dict[str, Struct] = {}
        for names in (self._copies, self._names):
            moved = output.tell() - len(MAGIC)
            columns |= {
                name: _moved(chunk, name, moved) for name, chunk in zip(names, chunks, strict=True)
            }
            output.sink.write(pages)  # pyarrow counts what goes through it
        self._groups.append(columns)
        return rows.select(self.schema_of_others.names)

    def complete(self, metadata: Struct) -> None:
        """Add the shared columns to the metadata of the file without them."""
        whole = footer_of(self._encoded(self._schema.empty_table()))
        metadata[FILE_SCHEMA] = whole[FILE_SCHEMA]
        metadata[COLUMN_ORDERS] = whole[COLUMN_ORDERS]
        for group, shared in zip(metadata[ROW_GROUPS][1][1], self._groups, strict=True):
            self._complete_group(group, shared)

    def _complete_group(self, group: Struct, shared: Mapping[str, Struct]) -> None:
        by_column: dict[str, list[Struct]] = defaultdict(list)
        for name, chunk in shared.items():
            by_column[name].append(chunk)
        for chunk in group[_COLUMNS][1][1]:
            path = chunk[_CHUNK_METADATA][1][_PATH][1][1]
            by_column[path[0].decode()].append(chunk)
        ordered = [chunk for field in self._schema for chunk in by_column[field.name]]
        group[_COLUMNS] = group[_COLUMNS][0], (STRUCT, ordered)
        described = [chunk[_CHUNK_METADATA][1] for chunk in shared.values()]
        for total, part in ((_GROUP_BYTES, _BYTES), (_GROUP_COMPRESSED_BYTES, _COMPRESSED_BYTES)):
            more = sum(chunk[part][1] for chunk in described)
            group[total] = I64, group[total][1] + more
        starts = (chunk[at][1] for chunk in described for at in _PAGE_OFFSETS if at in chunk)
        group[_GROUP_OFFSET] = I64, min(starts)

    def _encoded(self, rows: pa.Table) -> bytes:
        """A file of these rows in one row group."""
        out = pa.BufferOutputStream()
        with pq.ParquetWriter(out, rows.schema, **self._arguments) as writer:
            if rows.num_rows:
                writer.write_table(rows, row_group_size=rows.num_rows)
        data: bytes = out.getvalue().to_pybytes()
        return data


def _moved(chunk: Struct, name: str, by: int) -> Struct:
    """The chunk as that of another column, so many bytes farther into the file."""
    described = dict(chunk[_CHUNK_METADATA][1])
    described[_PATH] = described[_PATH][0], (BINARY, [name.encode()])
    for at in _PAGE_OFFSETS:
        if at in described:
            described[at] = I64, described[at][1] + by
    moved = {**chunk, _CHUNK_METADATA: (STRUCT, described)}
    if chunk[_CHUNK_OFFSET][1]:
        moved[_CHUNK_OFFSET] = I64, chunk[_CHUNK_OFFSET][1] + by
    return moved
