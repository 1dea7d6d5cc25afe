"""Data files in memory, and a store over them."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from pkray.format.data_file import DataFileMeta
from pkray.lookup.local_file_cache import CopyLimits
from pkray.lookup.source import SYSTEM_COLUMNS
from pkray.lookup.store import LookupStore
from pkray.storage.parquet.reader import numbered
from tests.clocks import Clock
from tests.lsm_samples import file_of


def find(store, files, file, keys, columns):
    """Positions in the keys, and for each the key-value row."""
    queries, _, rows = store.locate(files, file, keys, [*SYSTEM_COLUMNS, *columns])
    return queries, rows


class MemoryFiles:
    """A source that counts its reads."""

    def __init__(self) -> None:
        self.files: dict[str, pa.Table] = {}
        self.reads = 0

    def add(self, name: str, values: pa.Table, kinds: Sequence[int] | None = None) -> DataFileMeta:
        count = values.num_rows
        system = pa.table(
            {
                "_SEQUENCE_NUMBER": pa.array(range(count), pa.int64()),
                "_VALUE_KIND": pa.array(kinds or [0] * count, pa.int8()),
            }
        )
        for i, name_of in enumerate(values.column_names):
            system = system.append_column(values.schema.field(i), values[name_of])
        self.files[name] = system
        return file_of(name, level=0, row_count=count, max_sequence_number=count)

    def read(self, file: DataFileMeta, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        self.reads += 1
        yield from self.files[file.file_name].select(columns).to_batches(max_chunksize=1_000)

    def read_numbered(
        self, file: DataFileMeta, columns: Sequence[str], condition: object = None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        yield from numbered(MemoryFiles.read(self, file, columns))

    def is_at_hand(self, file: DataFileMeta) -> bool:
        return False

    def evolution(self, file: DataFileMeta) -> None:
        return None

    def as_written(self, file: DataFileMeta) -> MemoryFiles:
        return self


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


@pytest.fixture
def open_store(tmp_path: Path, clock: Clock) -> Iterator[Callable[..., LookupStore]]:
    opened: list[LookupStore] = []

    def make(max_disk_bytes: int | None = None, max_memory_bytes: int = 1 << 28) -> LookupStore:
        opened.append(
            LookupStore(
                str(tmp_path / "lookup"),
                CopyLimits(max_disk_bytes, max_memory_bytes, retention_millis=60_000),
                clock=clock,
            )
        )
        return opened[-1]

    yield make
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Callable[..., LookupStore]) -> LookupStore:
    return open_store()


@pytest.fixture
def every_type() -> pa.Table:
    """30 rows of a key ``k`` and a column of each type, every seventh value null."""
    count = 30
    scalars = {
        "boolean": (pa.bool_(), lambda i: i % 3 == 0),
        "tinyint": (pa.int8(), lambda i: i - 15),
        "smallint": (pa.int16(), lambda i: i * 1000 - 15000),
        "int": (pa.int32(), lambda i: i * 10**8 - 10**9),
        "bigint": (pa.int64(), lambda i: i * 10**17 - 10**18),
        "float": (pa.float32(), lambda i: i / 4),
        "double": (pa.float64(), lambda i: i / 3),
        "decimal": (pa.decimal128(10, 2), lambda i: decimal.Decimal(i - 15) / 4),
        "wide": (pa.decimal128(38, 0), lambda i: decimal.Decimal((i - 15) * 10**30)),
        "string": (pa.string(), lambda i: "é" * i),
        "bytes": (pa.binary(), lambda i: bytes(range(i))),
        "date": (pa.date32(), lambda i: i),
        "time": (pa.time32("ms"), lambda i: i),
        "millis": (pa.timestamp("ms"), lambda i: i),
        "micros": (pa.timestamp("us", "UTC"), lambda i: i),
        "nanos": (pa.timestamp("ns"), lambda i: i),
        "array": (pa.list_(pa.int32()), lambda i: list(range(i % 4))),
        "map": (pa.map_(pa.string(), pa.int64()), lambda i: [("a", i)] * (i % 2)),
        "row": (
            pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))]),
            lambda i: {"x": i, "y": ["z"] * (i % 3)},
        ),
    }
    columns = {"k": pa.array(range(0, 2 * count, 2), pa.int64())}
    for shift, (name, (kind, value)) in enumerate(scalars.items()):
        values = [None if (i + shift) % 7 == 0 else value(i) for i in range(count)]
        columns[name] = pa.array(values, kind)
    return pa.table(columns)
