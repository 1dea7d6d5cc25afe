"""Partitions: the rows of partition values that manifests carry, and the folders they stand for.

A partition is the BinaryRow (with arity) of the partition columns' values in declared order.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pkray.format import binary_row, paths
from pkray.format.data_file import DataFileMeta
from pkray.format.partition_text import check_type, escape, to_text
from pkray.schema.casts import plain_value
from pkray.schema.table_schema import TableSchema
from pkray.schema.types import DataType

Codes = npt.NDArray[np.int32]

# Up to this many combinations of column values a table of all of them is cheaper than a sort.
_DENSE_COMBINATIONS = 1 << 22


class PartitionSpec:
    """Encodes, names and reads a table's partitions. Picklable.

    Args:
        schema: the table's; its options ``partition.default-name`` and ``partition.legacy-name``
            (default true) name the folders.

    Raises:
        UnsupportedError: a partition column's type has no folder name all engines agree on.
    """

    def __init__(self, schema: TableSchema) -> None:
        self.names: tuple[str, ...] = tuple(schema.partition_keys)
        self.types: tuple[DataType, ...] = tuple(schema.types(self.names))
        self.default_name = schema.core.partition_default_name
        self.legacy = schema.core.partition_legacy_name
        for name, kind in zip(self.names, self.types, strict=True):
            check_type(name, kind, legacy=self.legacy)
        self._paths: dict[bytes, str] = {binary_row.EMPTY_ROW: ""}

    def encode(self, table: pa.Table | pa.RecordBatch) -> tuple[Codes, list[bytes]]:
        """Encode each row's partition as a position in the list of those there are."""
        if not self.names:
            return np.zeros(table.num_rows, np.int32), [binary_row.EMPTY_ROW]
        if table.num_rows == 0:
            return np.zeros(0, np.int32), []
        encoded = [_dictionary(table.column(name)) for name in self.names]
        sizes = [len(values) for _, values in encoded]
        combined = encoded[0][0].astype(np.int64)
        for (indices, _), size in zip(encoded[1:], sizes[1:], strict=True):
            combined = combined * size + indices
        indices, present = _number(combined, int(np.prod(sizes, dtype=np.float64)))
        columns = []
        for (_, values), size in zip(reversed(encoded), reversed(sizes), strict=True):
            present, position = np.divmod(present, size)
            columns.append(values.take(pa.array(position)))
        rows = binary_row.encode(columns[::-1], self.types)
        return indices, rows.to_pylist()

    def files(self, partition: bytes, bucket: int, file: DataFileMeta) -> list[str]:
        """Locate a data file, and then its extra files."""
        folder = self.path(partition)
        return [paths.data_file(folder, bucket, name) for name in file.names]

    def values(self, partitions: Sequence[bytes]) -> list[pa.Array]:
        """Decode the partition columns' values, one row a partition.

        Raises:
            CorruptFileError: a partition is not of this table.
        """
        return binary_row.decode(partitions, self.types)

    def to_dict(self, partition: bytes) -> dict[str, Any]:
        """Decode one partition into Python values by column name."""
        columns = self.values([partition])
        return {
            name: plain_value(column[0]) for name, column in zip(self.names, columns, strict=True)
        }

    def path(self, partition: bytes) -> str:
        """Make the partition's folder below the table's root: '' or ``dt=a/h=1/``."""
        known = self._paths.get(partition)
        if known is None:
            known = self._paths[partition] = self._path(partition)
        return known

    def text(self, partition: bytes) -> str:
        """Write the partition for people: '' or ``dt=a/h=1``, nothing escaped."""
        return "/".join(f"{name}={text}" for name, text in self._texts(partition))

    def _path(self, partition: bytes) -> str:
        texts = self._texts(partition)
        return "".join(f"{escape(name)}={escape(text)}/" for name, text in texts)

    def _texts(self, partition: bytes) -> Iterator[tuple[str, str]]:
        columns = self.values([partition]) if self.names else []
        for name, kind, column in zip(self.names, self.types, columns, strict=True):
            text = to_text(column[0], kind, legacy=self.legacy)
            yield name, self.default_name if text is None else text


def _dictionary(column: pa.Array | pa.ChunkedArray) -> tuple[npt.NDArray[np.int32], pa.Array]:
    """Positions in the distinct values, and these; null is a value like any other."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(), encoded.dictionary


def _number(
    combined: npt.NDArray[np.int64], combinations: int
) -> tuple[Codes, npt.NDArray[np.int64]]:
    """Dense indices of these numbers (below ``combinations``), and the distinct numbers."""
    if combinations > _DENSE_COMBINATIONS:
        present, indices = np.unique(combined, return_inverse=True)
        return indices.astype(np.int32), present
    is_there = np.zeros(combinations, np.bool_)
    is_there[combined] = True
    present = np.flatnonzero(is_there)
    code_of = np.zeros(combinations, np.int32)
    code_of[present] = np.arange(len(present), dtype=np.int32)
    return code_of[combined], present
