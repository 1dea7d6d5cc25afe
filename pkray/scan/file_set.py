"""The live files of some manifests, held by columns: what planning a read looks at, all at once."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Sequence
from functools import cached_property

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pkray.format.data_file import DataFileMeta, ManifestEntry, SimpleStats
from pkray.metadata.live import FileId, file_id, merge_entries

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]

_MAX_CHUNKS = 32
"""Put together beyond: each set made of the one before has a chunk more."""
_META = msgspec.msgpack.Decoder(DataFileMeta)
_COLUMNS = pa.schema(
    [
        ("partition", pa.binary()),
        ("bucket", pa.int32()),
        ("total_buckets", pa.int32()),
        ("level", pa.int32()),
        ("name", pa.string()),
        ("schema_id", pa.int64()),
        ("stats_columns", pa.binary()),
        ("rows", pa.int64()),
        ("size", pa.int64()),
        ("min_sequence", pa.int64()),
        ("max_sequence", pa.int64()),
        ("min_key", pa.binary()),
        ("max_key", pa.binary()),
        *(
            (f"{of}_{what}", kind)
            for of in ("key", "value")
            for what, kind in (
                ("min", pa.binary()),
                ("max", pa.binary()),
                ("nulls", pa.list_(pa.int64())),
            )
        ),
        ("meta", pa.binary()),
    ]
)


class FileSet:
    """Files in the order in which they were added. Immutable.

    Args:
        table: a row a file, columns as of `FileSet.of`.
    """

    def __init__(self, table: pa.Table) -> None:
        many = table.column(0).num_chunks > _MAX_CHUNKS
        self.table = table.combine_chunks() if many else table
        self._whole: dict[str, pa.Array] = {}

    @classmethod
    def from_entries(cls, entries: Iterable[ManifestEntry]) -> FileSet:
        """Make a set of the files that these entries add."""
        return cls(_table(list(entries)))

    def __len__(self) -> int:
        return self.table.num_rows

    @cached_property
    def nbytes(self) -> int:
        return self.table.nbytes

    def apply(self, entries: Iterable[ManifestEntry]) -> tuple[FileSet, list[ManifestEntry]]:
        """Apply entries; return the files after them, and the deletions of files that are not
        here."""
        added, deletions = merge_entries(entries)
        deleted, unmatched = self._find({file_id(entry): entry for entry in deletions})
        kept = self.table
        if deleted:
            alive = np.ones(len(self), bool)
            alive[deleted] = False
            kept = kept.filter(pa.array(alive))
        if added:
            kept = pa.concat_tables([kept, _table(added)])
        return FileSet(kept), unmatched

    def numbers(self, column: str) -> Ints:
        """Return a column of whole numbers."""
        return self.column(column).to_numpy()

    def column(self, name: str) -> pa.Array:
        """Return a column of the table of files, in one chunk."""
        if name not in self._whole:
            self._whole[name] = _one_chunk(self.table.column(name))
        return self._whole[name]

    @cached_property
    def partitions(self) -> tuple[Codes, list[bytes]]:
        """Return each file's partition, as a position in the list of those there are."""
        encoded = self.column("partition").dictionary_encode()
        return encoded.indices.to_numpy(), encoded.dictionary.to_pylist()

    @cached_property
    def layouts(self) -> list[tuple[int, tuple[str, ...] | None, npt.NDArray[np.intp]]]:
        """Group the files whose statistics are laid out alike.

        Each: the schema's id, the names of the columns that value statistics have (None: all), and
        which files.
        """
        schema_ids = self.numbers("schema_id")
        columns = self.column("stats_columns").dictionary_encode(null_encoding="encode")
        codes = columns.indices.to_numpy()
        if not len(self):
            return []
        if (schema_ids == schema_ids[0]).all() and (codes == codes[0]).all():
            pairs = np.array([(schema_ids[0], codes[0])])
            group = np.zeros(len(self), np.intp)
        else:
            pairs, group = np.unique(
                np.stack([schema_ids, codes], axis=1), axis=0, return_inverse=True
            )
            group = group.reshape(-1)
        named = columns.dictionary.to_pylist()
        return [
            (int(schema_id), _names(named[code]), np.flatnonzero(group == number))
            for number, (schema_id, code) in enumerate(pairs)
        ]

    def files(self, places: Sequence[int] | npt.NDArray[np.intp]) -> list[DataFileMeta]:
        """Return what manifests say of the files at these places."""
        found = self.table.column("meta").take(pa.array(places, pa.int64()))
        return [_META.decode(each) for each in found.to_pylist()]

    def _find(self, wanted: dict[FileId, ManifestEntry]) -> tuple[list[int], list[ManifestEntry]]:
        """Find the places of files; return with them the entries of those that are not here."""
        if not wanted:
            return [], []
        names = pa.array([name for _, _, _, name in wanted], pa.string())
        like = np.flatnonzero(pc.is_in(self.column("name"), names).to_numpy(False))
        left = dict(wanted)
        found = []
        columns = self.table.select(["partition", "bucket", "level", "name"]).take(pa.array(like))
        for place, row in zip(like.tolist(), columns.to_pylist(), strict=True):
            key = (row["partition"], row["bucket"], row["level"], row["name"])
            if left.pop(key, None) is not None:
                found.append(place)
        return found, list(left.values())


def _table(entries: Sequence[ManifestEntry]) -> pa.Table:
    columns: dict[str, list[object]] = collections.defaultdict(list)
    for entry in entries:
        file = entry.file
        columns["partition"].append(entry.partition)
        columns["bucket"].append(entry.bucket)
        columns["total_buckets"].append(entry.total_buckets)
        columns["level"].append(file.level)
        columns["name"].append(file.file_name)
        columns["schema_id"].append(file.schema_id)
        columns["stats_columns"].append(_joined(file.value_stats_cols))
        columns["rows"].append(file.row_count)
        columns["size"].append(file.file_size)
        columns["min_sequence"].append(file.min_sequence_number)
        columns["max_sequence"].append(file.max_sequence_number)
        columns["min_key"].append(file.min_key)
        columns["max_key"].append(file.max_key)
        for of, stats in (("key", file.key_stats), ("value", file.value_stats)):
            _append(columns, of, stats)
        columns["meta"].append(msgspec.msgpack.encode(file))
    return pa.table(
        [pa.array(columns[field.name], field.type) for field in _COLUMNS], schema=_COLUMNS
    )


def _append(columns: dict[str, list[object]], of: str, stats: SimpleStats) -> None:
    columns[f"{of}_min"].append(stats.min_values)
    columns[f"{of}_max"].append(stats.max_values)
    columns[f"{of}_nulls"].append(stats.null_counts)


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _joined(names: Sequence[str] | None) -> bytes | None:
    return None if names is None else msgspec.msgpack.encode(names)


def _names(joined: bytes | None) -> tuple[str, ...] | None:
    return None if joined is None else msgspec.msgpack.decode(joined, type=tuple[str, ...])
