"""The live files of some manifests, held by columns: what planning a read looks at, all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from operator import attrgetter

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pkray.format.data_file import DataFileMeta, ManifestEntry
from pkray.metadata.live import FileId, file_id, merge_entries

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]

_MAX_CHUNKS = 32
"""Put together beyond: each set made of the one before has a chunk more."""
_META = msgspec.msgpack.Decoder(DataFileMeta)
_INT, _LONG, _BYTES, _COUNTS = pa.int32(), pa.int64(), pa.binary(), pa.list_(pa.int64())
_COLUMNS: tuple[tuple[str, pa.DataType, Callable[[ManifestEntry], object]], ...] = (
    ("partition", _BYTES, attrgetter("partition")),
    ("bucket", _INT, attrgetter("bucket")),
    ("total_buckets", _INT, attrgetter("total_buckets")),
    ("level", _INT, attrgetter("file.level")),
    ("name", pa.string(), attrgetter("file.file_name")),
    ("schema_id", _LONG, attrgetter("file.schema_id")),
    ("stats_columns", _BYTES, lambda entry: _joined(entry.file.value_stats_cols)),
    ("rows", _LONG, attrgetter("file.row_count")),
    ("size", _LONG, attrgetter("file.file_size")),
    ("min_sequence", _LONG, attrgetter("file.min_sequence_number")),
    ("max_sequence", _LONG, attrgetter("file.max_sequence_number")),
    ("min_key", _BYTES, attrgetter("file.min_key")),
    ("max_key", _BYTES, attrgetter("file.max_key")),
    ("key_min", _BYTES, attrgetter("file.key_stats.min_values")),
    ("key_max", _BYTES, attrgetter("file.key_stats.max_values")),
    ("key_nulls", _COUNTS, attrgetter("file.key_stats.null_counts")),
    ("value_min", _BYTES, attrgetter("file.value_stats.min_values")),
    ("value_max", _BYTES, attrgetter("file.value_stats.max_values")),
    ("value_nulls", _COUNTS, attrgetter("file.value_stats.null_counts")),
    ("meta", _BYTES, lambda entry: msgspec.msgpack.encode(entry.file)),
)
_NAMES = [name for name, _, _ in _COLUMNS]


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
    def empty(cls) -> FileSet:
        """Make a set without files."""
        return cls(pa.table([pa.nulls(0, kind) for _, kind, _ in _COLUMNS], names=_NAMES))

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
    arrays = [pa.array(map(value, entries), kind) for _, kind, value in _COLUMNS]
    return pa.table(arrays, names=_NAMES)


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _joined(names: Sequence[str] | None) -> bytes | None:
    return None if names is None else msgspec.msgpack.encode(names)


def _names(joined: bytes | None) -> tuple[str, ...] | None:
    return None if joined is None else msgspec.msgpack.decode(joined, type=tuple[str, ...])
