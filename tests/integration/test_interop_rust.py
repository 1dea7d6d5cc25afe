"""pypaimon-rust, written by others, reads every kind of table that pkray writes.

Every read is done whole and with conditions on each column, which the reader answers with the
help of the statistics, key ranges, bucket hashes and partitions that pkray recorded.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pkray
from pkray.storage.parquet import writer as parquet_writer
from tests.effort import examples
from tests.integration.readers import RustCatalog
from tests.integration.scalars import SCALARS, Filter, Scalar, exact, filters


@pytest.fixture(autouse=True, scope="module")
def shared_columns() -> Iterator[None]:
    """Small files have keys that are encoded once, as large ones have."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_writer, "SHARED_ROWS", 1)
        yield


NO_PARTITION = {
    # pypaimon-rust: "Float(…) type is not supported as partition key".
    "FLOAT",
    "DOUBLE",
}
REFUSED_PARTITION = {
    # Java Paimon names such a folder after the array's address: nobody can find it again.
    "BINARY(3)",
    "VARBINARY(20)",
    "BYTES",
}

Row = tuple[Any, ...]


class Checked:
    """A table beside a dict of what it must hold, read by pkray and by pypaimon-rust."""

    def __init__(
        self,
        folder: str,
        columns: Mapping[str, str],
        keys: Sequence[str],
        partition: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.catalog = pkray.connect(folder)
        self.rust = RustCatalog(folder)
        self.columns = {name: SCALARS[kind] for name, kind in columns.items()}
        self.names = list(columns)
        self.keys = list(keys)
        self.table = self.catalog.create_table(
            "db.t", list(columns.items()), keys, partition, dict(options or {})
        )
        self.rows: dict[Row, Row] = {}

    def commit(self, upserts: Sequence[Row] = (), deletes: Sequence[Row] = ()) -> None:
        with self.table.open_writer("checked") as writer:
            if upserts:
                writer.upsert(self._arrow(self.names, upserts))
            if deletes:
                writer.delete(self._arrow(self.keys, deletes))
            writer.commit()
        for row in upserts:
            self.rows[self.key(row)] = row
        for key in deletes:
            self.rows.pop(key, None)

    def key(self, row: Row) -> Row:
        return tuple(row[self.names.index(name)] for name in self.keys)

    def check(self, conditions: Sequence[tuple[str, Filter]] = ()) -> None:
        """Both readers find the rows, and pypaimon-rust those of each condition."""
        self._compare(self.table.to_arrow(), self.rows.values(), "read by pkray")
        self._compare(self.rust.read("db.t"), self.rows.values(), "read whole")
        for name, condition in conditions:
            place = self.names.index(name)
            expected = [row for row in self.rows.values() if condition.holds(row[place])]
            self._compare(self.rust.read("db.t", condition.sql), expected, condition.sql)

    def conditions(
        self, names: Sequence[str] = (), values: Sequence[Any] = ()
    ) -> list[tuple[str, Filter]]:
        """On every column: with the values given, or the samples of its type."""
        return [
            (name, condition)
            for name in names or self.names
            for condition in filters(self.columns[name], name, values or self.columns[name].values)
        ]

    def statistics(self, table: str) -> dict[str, str]:
        """Of the table's only file, as pypaimon-rust says them."""
        database, name = table.split(".")
        (file,) = self.rust.sql(f'SELECT * FROM paimon.{database}."{name}$files"').to_pylist()
        return {name: file[name] for name in STATISTICS}

    def as_the_reader_has_it(self, rows: Sequence[Row]) -> pa.Table:
        """Timestamps of precision 0 are seconds to pypaimon-rust."""
        found = self._arrow(self.names, rows)
        for place, (name, scalar) in enumerate(self.columns.items()):
            if scalar.kind.endswith("(0)"):
                seconds = found[name].cast(pa.timestamp("s", scalar.arrow.tz))
                found = found.set_column(place, name, seconds)
        return found

    def close(self) -> None:
        self.catalog.close()

    def _arrow(self, names: Sequence[str], rows: Sequence[Row]) -> pa.Table:
        values = list(zip(*rows, strict=True))
        arrays = [self.columns[n].array(v) for n, v in zip(names, values, strict=True)]
        return pa.table(arrays, names=names)

    def _compare(self, found: pa.Table, expected: Any, what: str) -> None:
        rows: set[Row] = set()
        if found.num_rows:
            columns = [self.columns[n].plain(found.column(n)) for n in self.names]
            rows = {tuple(map(exact, row)) for row in zip(*columns, strict=True)}
        assert rows == {tuple(map(exact, row)) for row in expected}, what
        assert found.num_rows == len(rows), f"rows twice: {what}"


@pytest.fixture
def make(tmp_path) -> Iterator[Any]:
    made: list[Checked] = []

    def create(*arguments: Any, **named: Any) -> Checked:
        made.append(Checked(str(tmp_path / f"warehouse{len(made)}"), *arguments, **named))
        return made[-1]

    yield create
    for checked in made:
        checked.close()


def through_its_life(
    checked: Checked, column: str, rows: Sequence[Row], changed: Sequence[Row]
) -> None:
    """Check after an insert, after updates and deletes, compacted, and with a new run on top."""
    conditions = checked.conditions([column])
    checked.commit(rows)
    checked.check()
    gone = [checked.key(row) for row in rows[1::3]]
    checked.commit(changed, [key for key in gone if key not in map(checked.key, changed)])
    checked.check(conditions[::2])
    checked.table.compact(full=True)
    checked.check(conditions)
    checked.commit(rows[1::3], [checked.key(rows[0])])
    checked.check(conditions[1::4])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", SCALARS)
def test_a_type_as_value(make, kind):
    values = [*SCALARS[kind].values, None]
    checked = make({"id": "INT", "v": kind}, ["id"], options={"bucket": "2"})
    rows = [(n, value) for n, value in enumerate(values * 2)]
    changed = [(n, value) for n, value in enumerate(reversed(values)) if n % 2]
    through_its_life(checked, "v", rows, changed)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", SCALARS)
def test_a_type_as_key(make, kind):
    values = SCALARS[kind].values
    checked = make({"k": kind, "v": "STRING"}, ["k"], options={"bucket": "3"})
    rows = [(value, f"v{n}") for n, value in enumerate(values)]
    through_its_life(checked, "k", rows, [(value, None) for value in values[::2]])


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", [k for k in SCALARS if k not in REFUSED_PARTITION | NO_PARTITION])
def test_a_type_as_partition(make, kind):
    values = SCALARS[kind].values
    checked = make({"p": kind, "id": "INT", "v": "STRING"}, ["p", "id"], ["p"])
    rows = [(value, n, f"v{n}") for n, value in enumerate(values)]
    through_its_life(checked, "p", rows, [(value, 7, "new") for value in values[::2]])


@pytest.mark.parametrize("kind", sorted(NO_PARTITION))
def test_a_partition_type_that_the_reader_does_not_have(make, kind):
    checked = make({"p": kind, "id": "INT"}, ["p", "id"], ["p"])
    checked.commit([(1.5, 1)])
    with pytest.raises(ValueError, match="not supported as partition key"):
        checked.rust.read("db.t")
    assert checked.table.to_arrow().to_pylist() == [{"p": 1.5, "id": 1}]


@pytest.mark.parametrize("kind", sorted(REFUSED_PARTITION))
def test_a_partition_type_that_has_no_name(make, kind):
    with pytest.raises(pkray.UnsupportedError, match="'p'"):
        make({"p": kind, "id": "INT"}, ["p", "id"], ["p"])


def test_the_reader_leaves_files_out_by_what_was_recorded(make):
    """The conditions of the tests above do test the statistics."""
    columns = {"p": "STRING", "id": "INT", "v": "STRING"}
    checked = make(columns, ["p", "id"], ["p"], {"bucket": "4"})
    checked.commit([(p, n, f"{p}{n}") for p in "ab" for n in range(40)])
    checked.table.compact(full=True)
    plan = checked.rust.sql("EXPLAIN SELECT * FROM paimon.db.t WHERE p = 'a' AND id = 3")
    text = plan["plan"].to_pylist()[-1]
    assert "partition_pruned=0" not in text
    assert "bucket_pruned=0" not in text
    plan = checked.rust.sql("EXPLAIN SELECT * FROM paimon.db.t WHERE id < 0")
    assert ", files=0," in plan["plan"].to_pylist()[-1]


STATISTICS = ("min_key", "max_key", "null_value_counts", "min_value_stats", "max_value_stats")
NO_STATISTICS_THERE = {
    # The reader records none of timestamps of nanoseconds, nor a largest string that it would
    # have to raise beyond three bytes.
    "TIMESTAMP(9)",
    "TIMESTAMP_LTZ(9)",
    "VARCHAR(20)",
}


@pytest.mark.sampled(9)
@pytest.mark.parametrize("role", ["value", "key"])
@pytest.mark.parametrize("kind", [k for k in SCALARS if not k.startswith("TIME(") and k != "TIME"])
def test_statistics_are_those_that_the_reader_would_write(make, kind, role):
    """Of value columns of keyed tables it uses none in reading, so they are compared."""
    columns = {"v": kind, "id": "INT"}
    checked = make(columns, ["v"] if role == "key" else ["id"])
    values = [*SCALARS[kind].values, *([None] if role == "value" else [])]
    rows = [(value, n) for n, value in enumerate(values)]
    checked.commit(rows)
    ours = checked.statistics("db.t")
    other = checked.catalog.create_table("db.other", list(columns.items()), checked.keys)
    checked.rust.insert("db.other", checked.as_the_reader_has_it(rows))
    theirs = checked.statistics("db.other")
    checked._compare(other.to_arrow(), rows, "written by pypaimon-rust")
    if kind in NO_STATISTICS_THERE:
        ours = {name: ours[name] for name in ("null_value_counts",)}
    if kind == "BINARY(3)":  # as Java Paimon, pkray records no bounds of bytes
        ours = {name: ours[name] for name in ("min_key", "max_key", "null_value_counts")}
    assert ours == {name: theirs[name] for name in ours}


@pytest.mark.parametrize("role", ["value", "key"])
@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
def test_floats_beyond_numbers(make, kind, role):
    values = [float("nan"), float("-inf"), -0.0, 0.0, float("inf"), 1.0]
    if role == "value":
        checked = make({"id": "INT", "v": kind}, ["id"])
        rows = [(n, value) for n, value in enumerate(values)]
    else:
        checked = make({"v": kind, "id": "INT"}, ["v"])
        rows = [(value, n) for n, value in enumerate(values) if value == value]
        rows = [row for row in rows if str(row[0]) != "-0.0"]
    ends = checked.conditions(["v"], [float("-inf"), 1.0])
    ends = [each for each in ends if ">" not in each[1].sql]  # NaN is above all there
    checked.commit(rows)
    checked.check()
    checked.table.compact(full=True)
    checked.check([each for each in ends if role == "key" or "<> " not in each[1].sql])


def test_the_ends_of_bigint(make):
    """Without conditions: DataFusion's estimates overflow between these two."""
    checked = make({"k": "BIGINT", "v": "BIGINT"}, ["k"], options={"bucket": "7"})
    checked.commit([(n, -n - 1) for n in (-(2**63), -1, 0, 2**63 - 1)])
    checked.check()
    checked.table.compact(full=True)
    checked.check()


def test_every_type_in_one_table_with_nulls(make):
    names = {f"c{n}": kind for n, kind in enumerate(SCALARS)}
    checked = make({"id": "BIGINT", **names}, ["id"], options={"bucket": "2"})
    values = [itertools.cycle([*scalar.values, None]) for scalar in SCALARS.values()]
    rows = [(n, *(next(each) for each in values)) for n in range(12)]
    empty = (99, *[None] * len(names))
    checked.commit([*rows, empty])
    checked.commit([(n, *row[1:]) for n, row in enumerate(reversed(rows[:6]))], [(8,)])
    checked.check()
    checked.table.compact(full=True)
    conditions = [
        (name, condition)
        for name, scalar in checked.columns.items()
        for condition in filters(scalar, name, scalar.values[-1:])
    ]
    checked.check(conditions)


def test_every_type_in_one_key(make):
    names = {f"k{n}": kind for n, kind in enumerate(SCALARS)}
    checked = make({**names, "v": "INT"}, list(names), options={"bucket": "3"})
    values = [itertools.cycle(scalar.values) for scalar in SCALARS.values()]
    rows = [(*(next(each) for each in values), n) for n in range(30)]
    checked.commit(rows)
    checked.commit([(*row[:-1], -1) for row in rows[::2]], [row[:-1] for row in rows[5:9]])
    checked.check()
    checked.table.compact(full=True)
    checked.check(
        [
            (name, condition)
            for name in names
            for condition in filters(checked.columns[name], name, checked.columns[name].values[:1])
        ]
    )


@pytest.mark.sampled(5)
@pytest.mark.parametrize("partitioned", [False, True], ids=["whole", "partitioned"])
@pytest.mark.parametrize("buckets", range(1, 8))
def test_buckets(make, buckets, partitioned):
    checked = make(
        {"dt": "STRING", "id": "BIGINT", "v": "DOUBLE"},
        ["dt", "id"],
        ["dt"] if partitioned else [],
        {"bucket": str(buckets)},
    )
    days = ["2024-01-01", "a b/c", "ż%=:"]
    for turn in range(3):
        rows = [(day, n, n + turn / 4) for day in days for n in range(turn * 10, 40)]
        checked.commit(rows, [(day, n * 7) for day in days for n in range(turn + 1)])
    conditions = checked.conditions(["dt"], days) + checked.conditions(["id"], [0, 13, 39])
    checked.check(conditions)
    checked.table.compact(full=True)
    checked.check(conditions)


@pytest.mark.parametrize("kind", ["TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP_LTZ(3)"])
def test_partitions_of_years_beyond_four_digits(make, kind):
    checked = make({"p": kind, "id": "INT"}, ["p", "id"], ["p"])
    second = 10**6 if kind == "TIMESTAMP(6)" else 10**3
    years = [-62_135_596_801, -62_167_219_201, -99_999_999_999, 253_402_300_800, 99_999_999_999]
    checked.commit([(seconds * second + 1, n) for n, seconds in enumerate(years)])
    checked.check(checked.conditions(["p"], [years[0] * second + 1, years[4] * second + 1]))
    checked.table.compact(full=True)
    checked.check()


def test_composite_keys_in_another_order_than_the_columns(make):
    columns = {"v": "DOUBLE", "name": "STRING", "n": "INT"}
    checked = make(columns, ["n", "name"], options={"bucket": "5"})
    names = ["", "a", "abcdefg", "abcdefgh", "user-0000042"]
    rows = [(n / 2, name, n) for n in range(-3, 4) for name in names]
    conditions = checked.conditions(["name"], names) + checked.conditions(["n"], [-3, 0, 3])
    checked.commit(rows)
    checked.check(conditions)
    checked.commit([(9.5, name, n) for _, name, n in rows[::3]], [(0, "a"), (5, "none")])
    checked.table.compact(full=True)
    checked.check(conditions)
    both = Filter("name = 'abcdefgh' AND n = 2", lambda name: name == "abcdefgh")
    found = checked.rust.read("db.t", both.sql)
    assert found.num_rows == 1
    assert found["n"].to_pylist() == [2]


def test_a_bucket_key_of_some_key_columns(make):
    columns = {"a": "STRING", "b": "BIGINT", "v": "INT"}
    checked = make(columns, ["a", "b"], options={"bucket": "4", "bucket-key": "b"})
    checked.commit([(a, b, n) for n, (a, b) in enumerate(itertools.product("xyz", range(9)))])
    checked.check(checked.conditions(["a"], ["x", "z"]) + checked.conditions(["b"], [0, 8]))


@pytest.mark.parametrize("order", ["ascending", "descending"])
def test_sequence_fields(make, order):
    checked = make(
        {"id": "INT", "major": "BIGINT", "minor": "INT", "v": "STRING"},
        ["id"],
        options={
            "bucket": "2",
            "sequence.field": "major,minor",
            "sequence.field.sort-order": order,
        },
    )
    versions = [(2, 1), (1, 9), (2, 2), (None, 5), (2, 0)]
    history = [[(n, *version, f"{n}/{version}") for n in range(8)] for version in versions]
    for rows in history:
        checked.commit(rows)
    best = history[2] if order == "ascending" else history[1]  # null is the least in either
    checked.rows = {(row[0],): row for row in best}
    checked.check(checked.conditions(["id"], [0, 7]))
    checked.table.compact(full=True)
    checked.check(checked.conditions(["id"], [0, 7]))


@pytest.mark.parametrize("producer", ["none", "input", "lookup", "full-compaction"])
def test_changelog_producers_leave_the_table_the_same(make, producer):
    checked = make({"id": "INT", "v": "STRING"}, ["id"], options={"changelog-producer": producer})
    for turn in range(4):
        checked.commit([(n, f"{turn}") for n in range(turn, 12)], [(turn * 3,)])
        if producer != "full-compaction":
            checked.check(checked.conditions(["id"], [0, 5]))
    checked.table.compact(full=True)
    checked.check(checked.conditions(["id"], [0, 5]) + checked.conditions(["v"], ["1", "3"]))


@pytest.mark.parametrize("mode", ["none", "counts", "full", "truncate(4)"])
def test_modes_of_statistics(make, mode):
    columns = {"id": "INT", "s": "STRING", "d": "DECIMAL(38, 10)"}
    checked = make(columns, ["id"], options={"metadata.stats-mode": mode})
    texts = [*SCALARS["STRING"].values, None]
    numbers = [*SCALARS["DECIMAL(38, 10)"].values, None]
    checked.commit(
        [(n, text, number) for n, (text, number) in enumerate(zip(texts, numbers, strict=False))]
    )
    checked.table.compact(full=True)
    checked.check(checked.conditions(["s"]) + checked.conditions(["d"]))


def test_many_commits_older_snapshots_and_system_tables(make):
    options = {"manifest.merge-min-count": "4", "num-sorted-run.compaction-trigger": "3"}
    checked = make({"id": "INT", "v": "INT"}, ["id"], options={"bucket": "2", **options})
    history: dict[int, dict[Row, Row]] = {}
    for turn in range(25):
        checked.commit([(n, turn) for n in range(turn, turn + 20)], [(turn,)])
        history[checked.table.latest_snapshot().id] = dict(checked.rows)
    checked.check(checked.conditions(["id"], [24, 30]) + checked.conditions(["v"], [3, 24]))
    for snapshot, rows in history.items():
        found = checked.rust.sql(f"SELECT * FROM paimon.db.t VERSION AS OF {snapshot}")
        assert set(zip(*(c.to_pylist() for c in found.columns), strict=True)) == set(rows.values())
    listed = checked.rust.sql('SELECT * FROM paimon.db."t$snapshots"')
    ours = checked.table.snapshots()
    assert sorted(listed["snapshot_id"].to_pylist()) == ours["snapshot_id"].to_pylist()
    assert sorted(listed["snapshot_id"].to_pylist()) == [n + 1 for n in range(listed.num_rows)]
    files = checked.rust.sql('SELECT * FROM paimon.db."t$files"')
    assert files.num_rows == checked.table.files().num_rows


def test_columns_chosen(make):
    checked = make({"a": "INT", "b": "STRING", "c": "DOUBLE"}, ["a"])
    checked.commit([(n, f"b{n}", n / 2) for n in range(5)])
    found = checked.rust.read("db.t", "b > 'b2'", "c")
    assert sorted(found["c"].to_pylist()) == [1.5, 2.0]


KEY_KINDS = st.sampled_from(sorted(SCALARS))
PARTITION_KINDS = st.sampled_from(sorted(set(SCALARS) - REFUSED_PARTITION - NO_PARTITION))


@st.composite
def tables(draw: st.DrawFn) -> tuple[Any, ...]:
    """Columns, keys, partition keys, buckets, and batches of rows and deleted keys."""
    partition = {f"p{n}": k for n, k in enumerate(draw(st.lists(PARTITION_KINDS, max_size=2)))}
    keys = {f"k{n}": k for n, k in enumerate(draw(st.lists(KEY_KINDS, min_size=1, max_size=3)))}
    values = {f"v{n}": k for n, k in enumerate(draw(st.lists(KEY_KINDS, max_size=4)))}
    names = draw(st.permutations([*partition, *keys, *values]))
    kinds = {**partition, **keys, **values}
    columns = {name: kinds[name] for name in names}

    def cell(scalar: Scalar) -> st.SearchStrategy[Any]:
        return st.sampled_from(scalar.values) | scalar.generated

    whole_key = [*draw(st.permutations([*partition, *keys]))]
    key = st.tuples(*(cell(SCALARS[columns[name]]) for name in whole_key))
    pool = draw(st.lists(key, min_size=1, max_size=8, unique=True))
    rest = [name for name in names if name not in whole_key]
    content = st.tuples(*(st.none() | cell(SCALARS[columns[name]]) for name in rest))
    batches = []
    for _ in range(draw(st.integers(1, 3))):
        chosen = draw(st.lists(st.sampled_from(pool), min_size=1, unique=True))
        rows = []
        for one in chosen:
            row = dict(zip(whole_key, one, strict=True)) | dict(
                zip(rest, draw(content), strict=True)
            )
            rows.append(tuple(row[name] for name in names))
        batches.append((rows, draw(st.lists(st.sampled_from(pool), max_size=3, unique=True))))
    return columns, whole_key, list(partition), draw(st.integers(1, 7)), batches


@settings(max_examples=examples(10), suppress_health_check=list(HealthCheck))
@given(drawn=tables(), data=st.data())
def test_generated_tables(tmp_path_factory, drawn, data):
    columns, keys, partition, buckets, batches = drawn
    folder = str(tmp_path_factory.mktemp("generated"))
    checked = Checked(folder, columns, keys, partition, {"bucket": str(buckets)})
    try:
        for rows, deletes in batches:
            checked.commit(rows, deletes)
        conditions = []
        for place, (name, kind) in enumerate(columns.items()):
            there = [row[place] for rows, _ in batches for row in rows if row[place] is not None]
            value = data.draw(st.sampled_from(there or SCALARS[kind].values))
            found = filters(SCALARS[kind], name, [value])
            conditions += [(name, condition) for condition in found]
        checked.check(conditions)
        checked.table.compact(full=True)
        checked.check(conditions)
    finally:
        checked.close()
