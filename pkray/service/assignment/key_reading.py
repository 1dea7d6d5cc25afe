"""Keys of buckets, read from their data files."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from pkray.format.data_file import DataFileMeta
from pkray.format.index_file import IndexFileMeta
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.deletion_files import read_vectors
from pkray.lsm.engines import merge_engine
from pkray.lsm.levels import Levels
from pkray.lsm.merge.live_rows import LiveRows
from pkray.lsm.merge.merge_read import merge_read
from pkray.metadata.live import BucketId
from pkray.schema.table_schema import TableSchema
from pkray.service.assignment.key_locations import KeyLocations
from pkray.service.assignment.location_runs import CHUNK_ROWS
from pkray.service.client.key_ids import KeyIds, Words, identify, join
from pkray.storage.object_store import ObjectStore


class KeyReading:
    """Gathers keys of buckets that are read side by side, and sorts them together.

    Args:
        store: the table's root.
        into: what the keys' locations are put into.
    """

    def __init__(self, store: ObjectStore, schema: TableSchema, into: KeyLocations) -> None:
        self._store = store
        self._schema = schema
        self._into = into
        self._keys: list[KeyIds] = []
        self._locations: list[Words] = []
        self._held = 0
        self._lock = threading.Lock()

    def read(
        self,
        bucket: BucketId,
        files: Sequence[DataFileMeta],
        vectors: Iterable[IndexFileMeta],
        location: np.uint64,
    ) -> int:
        """Read a bucket's keys, which are all at one location; how many. Thread-safe."""
        found = self._found(bucket, files, vectors)
        return sum(self._take(keys, location) for keys in found)

    def finish(self) -> None:
        """Put what is held."""
        if not self._held:
            return
        keys = join(self._keys)
        order = keys.order()
        ordered = keys.at(order)
        # A key that is there twice: writers that know nothing of each other had it.
        firsts = ordered.firsts()
        self._into.put(ordered.at(firsts), np.concatenate(self._locations)[order][firsts])
        self._keys, self._locations, self._held = [], [], 0

    def _found(
        self, bucket: BucketId, files: Sequence[DataFileMeta], vectors: Iterable[IndexFileMeta]
    ) -> Iterator[KeyIds]:
        """The ids of a bucket's keys; those on level 0 too, whatever reads show."""
        schema = self._schema
        marked = read_vectors(self._store, vectors)
        reader = LiveRows(DataFileStore(self._store, schema, *bucket), marked)
        runs = Levels(tuple(files)).runs()
        names = list(schema.primary_keys)
        for rows in merge_read(runs, reader, merge_engine(schema), schema, columns=names):
            yield identify([rows.column(name) for name in names])

    def _take(self, keys: KeyIds, location: np.uint64) -> int:
        with self._lock:
            self._keys.append(keys)
            self._locations.append(np.full(keys.count, location))
            self._held += keys.count
            if self._held >= CHUNK_ROWS:
                self.finish()
        return keys.count
