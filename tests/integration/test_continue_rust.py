"""pkray reads, and goes on with, tables that pypaimon-rust wrote."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pkray
from tests.effort import examples
from tests.integration.readers import RustCatalog, rows_of
from tests.integration.scalars import SCALARS, Scalar

SCHEMA = pa.schema(
    [
        pa.field("region", pa.string(), nullable=False),
        pa.field("id", pa.int64(), nullable=False),
        ("name", pa.string()),
        ("amount", pa.float64()),
    ]
)
DEFINITION = (
    "region STRING NOT NULL, id BIGINT NOT NULL, name STRING, amount DOUBLE, "
    "PRIMARY KEY (region, id)"
)
KEY = ["region", "id"]


@dataclass
class Shared:
    """One table, open in pkray and in pypaimon-rust, beside a dict of its content."""

    folder: Path
    buckets: int = 1
    partitioned: bool = False
    rows: dict[tuple[str, int], tuple[Any, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rust = RustCatalog(str(self.folder))
        self.rust.sql("CREATE SCHEMA paimon.shop")
        by = "PARTITIONED BY (region) " if self.partitioned else ""
        self.rust.sql(
            f"CREATE TABLE paimon.shop.t ({DEFINITION}) {by}WITH ('bucket' = '{self.buckets}', "
            "'num-sorted-run.compaction-trigger' = '3')"
        )
        self.catalog = pkray.connect(str(self.folder))
        self.table = self.catalog.load_table("shop.t")

    def insert(self, *rows: tuple[Any, ...]) -> None:
        """By pypaimon-rust."""
        self.rust.insert("shop.t", as_table(rows))
        self._keep(rows)

    def upsert(self, *rows: tuple[Any, ...], deletes: tuple[tuple[str, int], ...] = ()) -> None:
        """By pkray."""
        with self.table.open_writer("continues") as writer:
            writer.upsert(as_table(rows))
            if deletes:
                writer.delete([{"region": region, "id": number} for region, number in deletes])
            writer.commit()
        self._keep(rows)
        for key in deletes:
            self.rows.pop(key, None)

    def check(self) -> None:
        """Both read it, whole and by keys."""
        expected = sorted(self.rows.values())
        assert rows_of(self.table.to_arrow(), KEY) == expected
        assert rows_of(self.rust.read("shop.t").select(SCHEMA.names), KEY) == expected
        keys = [{"region": region, "id": number} for region, number in self.rows]
        absent = [{"region": "nowhere", "id": 1}, {"region": "a/b", "id": -99}]
        for visibility in ("latest", "committed"):
            found = self.table.lookup([*keys, *absent], visibility=visibility)
            assert rows_of(found, KEY) == expected

    def _keep(self, rows: tuple[tuple[Any, ...], ...]) -> None:
        self.rows.update(((row[0], row[1]), row) for row in rows)


def as_table(rows: Any) -> pa.Table:
    columns = list(zip(*rows, strict=True))
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def some(start: int, count: int, name: str | None) -> list[tuple[Any, ...]]:
    regions = ["a/b", "", "ż"]
    return [(regions[n % 3] or "c", n, name, n / 4) for n in range(start, start + count)]


@pytest.fixture
def share(tmp_path) -> Iterator[Any]:
    made: list[Shared] = []

    def create(buckets: int = 1, partitioned: bool = False) -> Shared:
        made.append(Shared(tmp_path, buckets, partitioned))
        return made[-1]

    yield create
    for shared in made:
        shared.catalog.close()


def test_the_definition_is_understood(share):
    table = share(3, partitioned=True).table
    assert table.arrow_schema == SCHEMA
    assert list(table.schema.primary_keys) == KEY
    assert list(table.schema.partition_keys) == ["region"]
    assert table.options["bucket"] == "3"
    assert table.latest_snapshot() is None


@pytest.mark.sampled(4)
@pytest.mark.parametrize("partitioned", [False, True], ids=["whole", "partitioned"])
@pytest.mark.parametrize("buckets", [1, 2, 3, 5, 7])
def test_both_write_in_turn(share, buckets, partitioned):
    shared = share(buckets, partitioned)
    shared.insert(*some(0, 40, "rust"))
    shared.check()
    shared.upsert(*some(20, 40, "pkray"), deletes=(("a/b", 3), ("c", 58)))
    shared.check()
    shared.insert(*some(3, 5, None), *some(50, 5, "again"))
    shared.check()
    shared.table.compact(full=True)
    shared.check()
    shared.insert(*some(0, 60, "last"))
    shared.check()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(examples(3)))
def test_random_turns(share, seed):
    random = np.random.default_rng(seed)
    shared = share(int(random.integers(1, 5)), bool(seed % 2))
    for turn in range(20):
        rows = [row for row in some(0, 30, f"{turn}") if random.random() < 0.3] or some(0, 1, "x")
        action = random.integers(0, 5)
        if action < 2:
            shared.insert(*rows)
        elif action < 4:
            gone = [key for key in shared.rows if random.random() < 0.2]
            kept = {(row[0], row[1]) for row in rows}
            shared.upsert(*rows, deletes=tuple(key for key in gone if key not in kept))
        else:
            shared.table.compact(full=bool(random.integers(0, 2)))
        if turn % 4 == 3:
            shared.check()


def test_filters_use_what_the_other_recorded(share):
    shared = share(2, partitioned=True)
    shared.insert(*some(0, 30, "low"))
    shared.insert(*some(30, 30, "n" * 40))
    for condition, holds in {
        "region = 'a/b'": lambda row: row[0] == "a/b",
        "id >= 25 AND id < 35": lambda row: 25 <= row[1] < 35,
        "id = 59": lambda row: row[1] == 59,
        "name > 'low'": lambda row: row[2] > "low",
        "amount IN (0.25, 14.5)": lambda row: row[3] in (0.25, 14.5),
        "name IS NULL": lambda row: False,
    }.items():
        expected = sorted(row for row in shared.rows.values() if holds(row))
        assert rows_of(shared.table.to_arrow(filter=condition), KEY) == expected, condition


def test_an_overwrite_by_the_other(share):
    shared = share(2)
    shared.upsert(*some(0, 20, "pkray"))
    shared.table.compact(full=True)
    shared.check()
    shared.rust.sql(
        "INSERT OVERWRITE paimon.shop.t SELECT region, id, 'over', amount FROM paimon.shop.t "
        "WHERE id < 5"
    )
    shared.rows = {
        key: (*row[:2], "over", row[3]) for key, row in shared.rows.items() if key[1] < 5
    }
    shared.check()
    shared.upsert(*some(4, 4, "after"))
    shared.table.compact(full=True)
    shared.check()
    kinds = shared.table.snapshots()["commit_kind"].to_pylist()
    assert kinds == ["APPEND", "COMPACT", "OVERWRITE", "APPEND", "COMPACT"]


def test_rows_written_here_survive_an_insert_there_before_the_commit(share):
    shared = share()
    shared.insert(*some(0, 10, "first"))
    mine = some(5, 10, "mine")
    with shared.table.open_writer("continues") as writer:
        writer.upsert(as_table(mine))
        shared.insert(*some(0, 12, "meanwhile"))
        writer.commit()
    shared._keep(tuple(mine))
    shared.check()


@pytest.mark.sampled(18)
@pytest.mark.parametrize("role", ["value", "key"])
@pytest.mark.parametrize("kind", SCALARS)
def test_a_type(tmp_path, kind, role):
    scalar: Scalar = SCALARS[kind]
    catalog = pkray.connect(str(tmp_path))
    rust = RustCatalog(str(tmp_path))
    # SQL has no words for some types: the definition is pkray's, the rows are not.
    columns = [("v", kind), ("id", "INT")]
    table = catalog.create_table("db.t", columns, ["v"] if role == "key" else ["id"])
    values = [*scalar.values, *([None] if role == "value" else [])]
    rust.insert("db.t", _as_rust(scalar, values, 0))
    assert _read(table, scalar) == dict(enumerate(values))
    changed = values[::2]
    table.upsert(_as_rust(scalar, changed, 0 if role == "value" else 100))
    expected = dict(enumerate(values))
    if role == "value":
        expected |= dict(enumerate(changed))
    else:
        expected = {n: v for n, v in expected.items() if v not in changed}
        expected |= {n + 100: v for n, v in enumerate(changed)}
    assert _read(table, scalar) == expected
    table.compact(full=True)
    assert _read(table, scalar) == expected
    found = rust.read("db.t")
    assert dict(zip(found["id"].to_pylist(), scalar.plain(found["v"]), strict=True)) == expected
    if role == "key":
        keys = pa.table({"v": scalar.array(values)})
        assert scalar.plain(table.lookup(keys)["v"]) == values
    catalog.close()


def _as_rust(scalar: Scalar, values: list[Any], start: int) -> pa.Table:
    column = scalar.array(values)
    if scalar.kind.startswith("TIMESTAMP") and scalar.kind.endswith("(0)"):
        column = column.cast(pa.timestamp("s", scalar.arrow.tz))
    numbers = pa.array(range(start, start + len(values)), pa.int32())
    return pa.table({"v": column, "id": numbers})


def _read(table: Any, scalar: Scalar) -> dict[int, Any]:
    found = table.to_arrow()
    return dict(zip(found["id"].to_pylist(), scalar.plain(found["v"]), strict=True))
