"""Rows of level 0 that stay in memory until they are compacted."""

import pyarrow as pa

from pkray.format.data_file import APPEND_SOURCE, DataFileMeta
from pkray.lsm.compaction.flushed_rows_cache import FlushedRowsCache
from pkray.lsm.data_files import DataFileStore
from pkray.schema.table_schema import SEQUENCE
from pkray.storage.opening import open_store
from tests.lsm_samples import UNPARTITIONED, incoming, make_schema, rows_of

SCHEMA = make_schema()


class Files:
    """A bucket's files, with an in-memory budget."""

    def __init__(self, limit: int = 1 << 20) -> None:
        self.in_use = 0
        self.store = open_store("memory://fresh")
        self.fresh = FlushedRowsCache(limit, lambda: self.in_use)
        self.files = DataFileStore(self.store, SCHEMA, UNPARTITIONED, 0, flushed_rows=self.fresh)

    def write(self, keys: range, some: slice = slice(None)) -> DataFileMeta:
        """A file of these keys, or of some of them."""
        rows = incoming(SCHEMA, [("+I", key, f"v{key}", key % 7) for key in keys])
        numbers = pa.array(range(len(keys)), pa.int64())
        columns = [numbers, *rows.select(SCHEMA.row_schema.names[1:]).columns]
        whole = pa.RecordBatch.from_arrays(columns, schema=SCHEMA.row_schema)
        whole = whole[some]
        half = whole.num_rows // 2
        halves = [whole.slice(0, half), whole.slice(half)]
        (file,) = self.files.write_run(halves, 0, APPEND_SOURCE)
        return file

    def is_kept(self, file: DataFileMeta) -> bool:
        return self.fresh.read(file.file_name, 1, 1) is not None


def test_fresh_rows_are_what_the_file_holds() -> None:
    bucket = Files()
    file = bucket.write(range(100))
    names = ["n", SEQUENCE, "k"]
    fresh = list(bucket.files.read(file, names, batch_rows=7))
    stored = DataFileStore(bucket.store, SCHEMA, UNPARTITIONED, 0).read(file, names)
    assert rows_of(fresh) == rows_of(stored)
    assert max(rows.num_rows for rows in fresh) == 7


def test_fresh_rows_need_no_reading() -> None:
    bucket = Files()
    file = bucket.write(range(10))
    bucket.store.delete([bucket.files.path(file.file_name)])
    assert [row[2] for row in rows_of(bucket.files.read(file))] == list(range(10))


def test_the_oldest_file_goes_when_another_needs_its_room() -> None:
    bucket = Files(limit=8 << 10)
    older, newer = bucket.write(range(150)), bucket.write(range(150))
    assert (bucket.is_kept(older), bucket.is_kept(newer)) == (False, True)


def test_memtables_go_before_fresh_rows() -> None:
    bucket = Files(limit=8 << 10)
    file = bucket.write(range(150))
    bucket.in_use = 7 << 10
    bucket.fresh.trim()
    assert not bucket.is_kept(file)


def test_a_file_larger_than_what_is_free_is_not_kept() -> None:
    bucket = Files(limit=8 << 10)
    small = bucket.write(range(10))
    large = bucket.write(range(1000))
    assert (bucket.is_kept(small), bucket.is_kept(large)) == (True, False)
    assert sum(rows.num_rows for rows in bucket.files.read(large)) == 1000


def test_deleted_files_are_not_kept() -> None:
    bucket = Files()
    file = bucket.write(range(10))
    bucket.files.delete([file])
    assert not bucket.is_kept(file)


def test_a_slice_of_many_rows_is_not_kept() -> None:
    """It would hold all of them."""
    bucket = Files(limit=8 << 10)
    file = bucket.write(range(1000), slice(10))
    assert not bucket.is_kept(file)
