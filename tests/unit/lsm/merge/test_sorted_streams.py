"""Sorted streams come together the same, however many may be read at once."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pkray.errors import StorageError
from pkray.lsm.keys.key_groups import RowOrder, take
from pkray.lsm.levels import Levels
from pkray.lsm.merge import sorted_streams
from pkray.lsm.merge.sorted_streams import MergeLimits, group_sorted
from pkray.storage import spill as spill_module
from pkray.storage.spill import SpillSettings
from tests.effort import examples
from tests.lsm_samples import Bucket, make_schema

COLUMNS = (("k", "STRING NOT NULL"), ("n", "INT"))
Rows = list[tuple[str, int]]


@st.composite
def sorted_rows(draw: st.DrawFn) -> list[Rows]:
    """Streams, oldest first: distinct keys in order, each with a number of its own."""
    keys = st.text("ab", max_size=4)
    streams = draw(st.lists(st.lists(keys, unique=True, max_size=12), min_size=1, max_size=14))
    numbers = iter(range(10_000))
    return [[(key, next(numbers)) for key in sorted(stream)] for stream in streams]


class Streams:
    """Streams of rows in batches, which tell how many of them are open."""

    def __init__(self, streams: Sequence[Rows], batch_rows: int) -> None:
        self._streams = streams
        self._batch_rows = batch_rows
        self.opened = self.most_open = 0

    def all(self) -> list[Iterator[pa.RecordBatch]]:
        return [self._stream(rows) for rows in self._streams]

    def _stream(self, rows: Rows) -> Iterator[pa.RecordBatch]:
        self.opened += 1
        self.most_open = max(self.most_open, self.opened)
        schema = pa.schema([("k", pa.string()), ("n", pa.int32())])
        for start in range(0, len(rows), self._batch_rows):
            some = rows[start : start + self._batch_rows]
            columns = [pa.array([row[i] for row in some], f.type) for i, f in enumerate(schema)]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
        self.opened -= 1


def limits(streams: int, memory: int = 1 << 20, size: int = 1 << 20) -> MergeLimits:
    return MergeLimits(streams, size, SpillSettings(memory))


def grouped(streams: Streams, at_most: MergeLimits | None) -> list[tuple[str, list]]:
    """For each key its rows, from the oldest to the newest, with their streams."""
    order = RowOrder(make_schema(COLUMNS))
    found = []
    for groups, numbers in group_sorted(streams.all(), order, at_most):
        rows = take(groups.rows, groups.order).to_pylist()
        source = numbers[groups.order].tolist()
        ends = groups.ends.tolist()
        for start, end in zip(groups.starts.tolist(), ends, strict=True):
            assert len({row["k"] for row in rows[start:end]}) == 1
            versions = [(row["n"], at) for row, at in zip(rows, source, strict=True)][start:end]
            found.append((rows[start]["k"], versions))
    return found


def expected(streams: Sequence[Rows]) -> list[tuple[str, list]]:
    versions: dict[str, list] = {}
    for number, rows in enumerate(streams):
        for key, value in rows:
            versions.setdefault(key, []).append((value, number))
    return sorted(versions.items())


@settings(max_examples=examples(25))
@given(sorted_rows(), st.integers(1, 4), st.integers(2, 5), st.sampled_from([0, 300, 1 << 20]))
def test_every_key_has_all_its_rows_oldest_first(
    rows: list[Rows], batch_rows: int, at_once: int, memory: int
) -> None:
    streams = Streams(rows, batch_rows)
    assert grouped(streams, limits(at_once, memory, size=64)) == expected(rows)
    assert streams.most_open <= at_once


@settings(max_examples=examples(12))
@given(sorted_rows(), st.integers(1, 4))
def test_without_limits_all_are_read_at_once(rows: list[Rows], batch_rows: int) -> None:
    assert grouped(Streams(rows, batch_rows), None) == expected(rows)


def test_streams_set_aside_are_brought_together_again_where_there_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sorted_streams, "MAX_SPILLED_STREAMS", 3)
    rows = [[(f"{n % 7}", n), (f"{n % 7}{n % 5}", n)] for n in range(90)]
    streams = Streams(rows, 1)
    assert grouped(streams, limits(2, memory=0)) == expected(rows)
    assert streams.most_open == 2


def test_rows_beyond_the_limit_go_to_the_local_disk_and_leave_nothing(tmp_path: Path) -> None:
    rows = [[(f"{n:04}", stream) for n in range(500)] for stream in range(6)]
    held = MergeLimits(2, 4096, SpillSettings(4096, "lz4", directory=str(tmp_path / "local")))
    assert grouped(Streams(rows, 50), held) == expected(rows)
    assert list((tmp_path / "local").iterdir()) == []


def test_a_disk_that_refuses_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    rows = [[("a", stream)] for stream in range(6)]
    held = MergeLimits(2, 4096, SpillSettings(0, directory=str(tmp_path / "file" / "sub")))
    with pytest.raises(StorageError, match="TMPDIR"):
        grouped(Streams(rows, 50), held)


@pytest.mark.parametrize("codec", ["zstd", "lz4", "none"])
def test_what_is_set_aside_comes_back(codec: str, tmp_path: Path) -> None:
    rows = pa.record_batch({"k": pa.array(range(1000)), "s": pa.array(["x" * 50] * 1000)})
    spill = spill_module.Spill(SpillSettings(rows.nbytes * 3 // 2, codec, 1, str(tmp_path)))
    kept = spill.open()
    for _ in range(3):
        kept.append(rows)
    kept.finish()
    assert spill.memory_bytes == rows.nbytes
    assert kept.disk_bytes > 0
    assert [batch.equals(rows) for batch in kept.read()] == [True] * 3
    assert spill.memory_bytes == 0


ENGINES = {
    "deduplicate": {},
    "by sequence": {"sequence": "n"},
    "partial-update": {"engine": "partial-update"},
    "first-row": {"engine": "first-row"},
    "aggregation": {
        "engine": "aggregation",
        "fields.n.aggregate-function": "sum",
        "fields.v.aggregate-function": "listagg",
    },
}


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=examples(3), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    flushes=st.lists(
        st.lists(
            st.tuples(st.integers(0, 9), st.none() | st.text("xy", max_size=2), st.integers(0, 5)),
            min_size=1,
            max_size=6,
        ),
        min_size=3,
        max_size=12,
    )
)
def test_many_runs_merge_as_few_do(engine: str, flushes: list[list[tuple]]) -> None:
    """Reads and compactions of a bucket of many runs, with and without setting runs aside."""
    found = []
    for threshold in ("2", "100"):
        named = {
            **ENGINES[engine],
            "sort-spill-threshold": threshold,
            "sort-spill-buffer-size": "1 kb",
        }
        bucket = Bucket(make_schema(write_only="true", **named))
        for rows in flushes:
            bucket.write(*[("+I", *row) for row in rows])
            bucket.writer.flush()
        read = bucket.latest()
        bucket.writer.compact(full=True)
        found.append((read, bucket.latest()))
    assert found[0] == found[1]
    assert found[0][0] == found[0][1]


def test_a_merge_opens_no_more_files_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = make_schema(write_only="true", **{"sort-spill-threshold": "3"})
    bucket = Bucket(schema)
    for n in range(40):
        bucket.write(*[("+I", k, f"{n}", n) for k in range(n % 3, 30, 3)])
        bucket.writer.flush()
    opened, most = set(), []
    original = type(bucket.files).read

    def counted(self: object, file: object, *args: object, **kwargs: object) -> Iterator:
        opened.add(file.file_name)
        most.append(len(opened))
        yield from original(self, file, *args, **kwargs)
        opened.discard(file.file_name)

    monkeypatch.setattr(type(bucket.files), "read", counted)
    rows = bucket.content(Levels(bucket.writer.levels.files))
    assert max(most) == 3
    assert rows == [(k, str(39 - (39 - k) % 3), 39 - (39 - k) % 3) for k in range(30)]
