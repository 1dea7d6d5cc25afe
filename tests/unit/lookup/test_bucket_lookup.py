import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pkray.format import binary_row
from pkray.lookup.bucket_lookup import BucketLookup
from pkray.lookup.store_lookup import StoreLookup
from pkray.lsm.compaction.upper_lookup import ScanLookup
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.engines import merge_engine
from pkray.lsm.levels import Levels
from pkray.lsm.merge.merge_function import without_deletes
from pkray.lsm.writer.memtable import Memtable
from pkray.lsm.writer.uncommitted import Uncommitted
from pkray.schema.table_schema import TableSchema
from pkray.storage.opening import open_store
from tests.effort import examples

PLAIN, VERSIONED = {}, {"sequence.field": "ts"}


class Bucket:
    """A bucket's files, and a dict that says what they mean."""

    def __init__(self, tmp_path, options):
        self.schema = TableSchema.create(
            [("a", "STRING NOT NULL"), ("b", "INT NOT NULL"), ("ts", "BIGINT"), ("v", "STRING")],
            ["a", "b"],
            options=options,
        )
        self.files = DataFileStore(open_store(str(tmp_path)), self.schema, binary_row.EMPTY_ROW, 0)
        self.engine = merge_engine(self.schema)
        self.by_ts = bool(options)
        self.levels = Levels()
        self.model = {}
        self._number = 0

    def write(self, rows, level, files=1):
        """A run of (a, b, ts, kind) rows; call with the oldest first."""
        rows = sorted({row[:2]: row for row in rows}.values())
        written = []
        for part in np.array_split(np.arange(len(rows)), files):
            some = [rows[i] for i in part]
            if some:
                written += self.files.write_run([self._batch(some)], level, 0)
        self.levels = self.levels.apply((), written)

    def _batch(self, rows):
        numbered = []
        for a, b, ts, kind in rows:
            self._number += 1
            value = f"{a}{b}@{self._number}"
            numbered.append((self._number, kind, a, b, ts, value))
            old = self.model.get((a, b))
            if old is None or not self.by_ts or ts >= old[0]:
                self.model[a, b] = (ts, kind, value)
        columns = list(zip(*numbered, strict=True))
        schema = self.schema.row_schema
        arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def keys(self, pairs):
        columns = [[a for a, _ in pairs], [b for _, b in pairs]]
        return pa.RecordBatch.from_arrays(
            [pa.array(columns[0], pa.string()), pa.array(columns[1], pa.int32())], names=["a", "b"]
        )

    def held(self, rows):
        """Rows (a, b, ts, kind) that a writer holds in memory."""
        memory, first = Memtable(self.schema), self._number + 1
        memory.add(self._batch(rows))
        return [Uncommitted(0, self.engine, (), memory, first)]

    def look_up(self, store, pairs, held=()):
        lookup = BucketLookup(store, self.files, self.schema, self.engine)
        positions, rows = lookup.find(self.levels, self.keys(pairs), ["v"], held)
        assert rows.column_names == ["v"]
        return self._by_pair(pairs, positions, rows)

    def look_up_with_deletes(self, store, pairs):
        lookup, runs = BucketLookup(store, self.files, self.schema, self.engine), self.levels.runs()
        positions, rows = lookup.find_in_runs(runs, {}, self.keys(pairs), ["v"])
        assert rows.column_names == ["_SEQUENCE_NUMBER", "_VALUE_KIND", "v"]
        return self._by_pair(pairs, positions, rows)

    def _by_pair(self, pairs, positions, rows):
        assert len(set(positions.tolist())) == len(positions)
        return {pairs[i]: v for i, v in zip(positions, rows["v"].to_pylist(), strict=True)}

    def expected(self, pairs):
        held = {pair: self.model[pair] for pair in pairs if pair in self.model}
        return {pair: value for pair, (_, kind, value) in held.items() if kind in (0, 2)}


def test_the_newest_run_wins(tmp_path, store):
    bucket = Bucket(tmp_path, PLAIN)
    pairs = [(a, b) for a in "pqrs" for b in range(50)]
    bucket.write([(a, b, 0, 0) for a, b in pairs], level=5, files=4)
    bucket.write([("q", b, 0, 2) for b in range(0, 50, 2)], level=4)
    bucket.write([("q", b, 0, 3) for b in range(0, 50, 4)], level=0)
    bucket.write([("q", 8, 0, 0), ("new", 1, 0, 0)], level=0)
    asked = [*pairs, ("new", 1), ("none", 1), ("q", 99)]
    assert bucket.look_up(store, asked) == bucket.expected(asked)
    assert ("q", 4) not in bucket.look_up(store, asked)
    assert ("q", 4) in bucket.look_up_with_deletes(store, asked)


def test_the_largest_sequence_field_wins_in_whatever_run_it_is(tmp_path, store):
    bucket = Bucket(tmp_path, VERSIONED)
    bucket.write([("x", 1, 9, 0), ("x", 2, 1, 0), ("x", 3, 5, 3)], level=5)
    bucket.write([("x", 1, 3, 3), ("x", 2, 1, 2), ("x", 3, 4, 0)], level=0)
    asked = [("x", 1), ("x", 2), ("x", 3), ("x", 4)]
    found = bucket.look_up(store, asked)
    assert found == bucket.expected(asked)
    assert set(found) == {("x", 1), ("x", 2)}


@pytest.mark.parametrize("options", [PLAIN, VERSIONED])
def test_keys_may_come_in_any_order(tmp_path, store, options):
    bucket = Bucket(tmp_path, options)
    bucket.write([("x", b, 0, 0) for b in range(10)], level=5, files=2)
    bucket.write([("x", 3, 1, 0)], level=0)
    asked = [("x", 8), ("x", 3), ("x", 99), ("x", 1), ("w", 1)]
    assert bucket.look_up(store, asked) == bucket.expected(asked)


@pytest.mark.parametrize("options", [PLAIN, VERSIONED])
def test_a_key_asked_twice_is_answered_twice(tmp_path, store, options):
    bucket = Bucket(tmp_path, options)
    bucket.write([("x", 1, 0, 0)], level=5)
    bucket.write([("x", 1, 1, 0), ("x", 2, 1, 0)], level=0)
    lookup = BucketLookup(store, bucket.files, bucket.schema, bucket.engine)
    asked = bucket.keys([("x", 1), ("x", 2), ("x", 1), ("y", 1)])
    positions, rows = lookup.find(bucket.levels, asked, ["b", "a"])
    order = np.argsort(positions)
    assert positions[order].tolist() == [0, 1, 2]
    assert rows.take(pa.array(order))["b"].to_pylist() == [1, 2, 1]


def test_files_out_of_the_keys_range_are_not_read(tmp_path, store):
    bucket = Bucket(tmp_path, PLAIN)
    bucket.write([("m", b, 0, 0) for b in range(100)], level=5, files=10)
    bucket.write([("z", b, 0, 0) for b in range(100)], level=0)
    bucket.look_up(store, [("m", 55), ("m", 58)])
    assert store.stats().files == 1


def test_keys_held_in_memory_are_not_looked_for_in_files(tmp_path, store):
    bucket = Bucket(tmp_path, PLAIN)
    bucket.write([("m", b, 0, 0) for b in range(9)], level=5)
    held = bucket.held([("m", 1, 0, 0), ("m", 2, 0, 3), ("n", 1, 0, 0)])
    asked = [("m", 2), ("n", 1), ("m", 1)]
    assert bucket.look_up(store, asked, held) == bucket.expected(asked)
    assert store.stats().files == 0


@pytest.mark.parametrize("options", [PLAIN, VERSIONED])
def test_rows_in_memory_are_on_top_of_files(tmp_path, store, options):
    bucket = Bucket(tmp_path, options)
    bucket.write([("m", b, 5, 0) for b in range(9)], level=5)
    held = bucket.held([("m", 1, 4, 0), ("m", 2, 6, 3), ("n", 1, 0, 0), ("m", 3, 5, 2)])
    asked = [("m", b) for b in (4, 3, 2, 1, 99)] + [("n", 1), ("n", 2)]
    assert bucket.look_up(store, asked, held) == bucket.expected(asked)


@pytest.mark.parametrize("options", [PLAIN, VERSIONED])
@pytest.mark.parametrize("pairs", [[], [("x", None), (None, 1)], [("x", 77)]])
def test_nothing_found_has_the_types(tmp_path, store, options, pairs):
    bucket = Bucket(tmp_path, options)
    bucket.write([("x", 1, 0, 0)], level=5)
    assert bucket.look_up(store, pairs) == {}
    bucket.levels = Levels()
    assert bucket.look_up(store, pairs) == {}


PAIR = st.tuples(st.sampled_from(["", "a", "ab", "a\0"]), st.integers(-3, 3))
ROW = st.tuples(PAIR, st.integers(0, 3), st.sampled_from([0, 0, 2, 3]))
RUNS = st.lists(st.lists(ROW, min_size=1, max_size=20), min_size=1, max_size=5)


@settings(max_examples=examples(10), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(runs=RUNS, options=st.sampled_from([PLAIN, VERSIONED]), asked=st.lists(PAIR, unique=True))
def test_agrees_with_a_model(tmp_path_factory, store, runs, options, asked):
    bucket = Bucket(tmp_path_factory.mktemp("bucket"), options)
    for i, run in enumerate(runs):
        level = max(0, 3 - i)
        bucket.write([(*pair, ts, kind) for pair, ts, kind in run], level, files=1 + (level > 1))
    assert bucket.look_up(store, asked) == bucket.expected(asked)


@pytest.mark.parametrize("options", [PLAIN, VERSIONED])
@pytest.mark.parametrize("count", [3, 600])
def test_old_rows_for_a_changelog_are_those_of_a_scan(tmp_path, store, options, count):
    bucket = Bucket(tmp_path, options)
    pairs = [(a, b) for a in ("p", "q") for b in range(0, 600, 2)]
    bucket.write([(a, b, b % 7, 0) for a, b in pairs], level=5, files=3)
    bucket.write([("q", b, 3, 3 * (b % 4 == 0)) for b in range(0, 600, 6)], level=4)
    runs = bucket.levels.runs()
    asked = sorted({("q", int(b)) for b in np.linspace(0, 599, count)})
    keys = bucket.keys(asked)
    arguments = (bucket.schema, bucket.files, bucket.engine)
    found = StoreLookup(store, *arguments).find(keys, runs)
    assert found.equals(ScanLookup(*arguments).find(keys, runs))
    live = bucket.expected(asked)
    added = without_deletes(found)
    assert added.column("v").to_pylist() == [live[pair] for pair in asked if pair in live]
    assert added.num_rows < found.num_rows
    assert (store.stats().files > 0) == (count == 3)
