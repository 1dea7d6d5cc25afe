"""Deletes that make what was before them as if it had never been, and rows that follow them."""

from __future__ import annotations

import msgspec
import pytest

from pkray.lsm.compaction.compactor import Compactor
from pkray.lsm.compaction.pick import CompactionUnit, pick
from pkray.lsm.compaction.upper_lookup import ScanLookup
from pkray.lsm.engines import merge_engine
from pkray.lsm.levels import SortedRun
from tests.lsm_samples import Bucket, make_schema, run_of

SUMS = {
    "engine": "aggregation",
    "fields.n.aggregate-function": "sum",
    "aggregation.remove-record-on-delete": "true",
}
UPDATES = {"engine": "partial-update", "partial-update.remove-record-on-delete": "true"}


def compact(bucket: Bucket, count: int, level: int) -> None:
    """Merge the newest runs into one of a level."""
    unit = CompactionUnit(level, bucket.committed.runs()[:count])
    engine = merge_engine(bucket.schema)
    lookup = ScanLookup(bucket.schema, bucket.files, engine)
    result = Compactor(bucket.schema, bucket.files, engine, lookup).run(unit, bucket.committed)
    bucket.committed = bucket.committed.apply(result.before, result.after)
    bucket.reopen()


def on_100(**options: str) -> Bucket:
    """A bucket with a row below all that comes after it."""
    bucket = Bucket(make_schema(**{**SUMS, **options}))
    bucket.write(("+I", 1, "a", 100))
    bucket.commit(full=True)
    return bucket


@pytest.mark.parametrize("producer", ["none", "input", "lookup", "full-compaction"])
@pytest.mark.parametrize("commits_between", [False, True])
def test_a_row_after_a_delete_begins_anew(producer: str, commits_between: bool) -> None:
    bucket = on_100(producer=producer)
    bucket.write(("-D", 1, None, None))
    if commits_between:
        bucket.commit()
    bucket.write(("+I", 1, None, 5))
    changes = bucket.commit()
    assert bucket.content() == [(1, None, 5)]
    if producer == "lookup":
        before = [] if commits_between else [("-U", 1, "a", 100)]
        assert changes == [*before, ("+U" if before else "+I", 1, None, 5)]


def test_columns_of_a_deleted_row_do_not_come_back() -> None:
    bucket = Bucket(make_schema(**UPDATES))
    bucket.write(("+I", 1, "old", 1))
    bucket.commit()
    bucket.write(("-D", 1, None, None), ("+I", 1, None, 2))
    bucket.commit()
    assert bucket.content() == [(1, None, 2)]


def test_a_row_that_takes_back_does_not_undo_the_delete_before_it() -> None:
    bucket = Bucket(make_schema(**UPDATES))
    bucket.write(("+I", 1, "old", 1))
    bucket.commit()
    bucket.write(("-D", 1, None, None), ("-U", 1, None, None))
    bucket.commit()
    assert bucket.content() == []


def test_the_last_delete_of_a_memtable_counts() -> None:
    bucket = on_100()
    bucket.write(("-D", 1, None, None), ("+I", 1, None, 5), ("-D", 1, None, None))
    bucket.write(("+I", 2, None, 1), ("+I", 1, None, 7))
    bucket.commit()
    assert bucket.content() == [(1, None, 7), (2, None, 1)]


def test_rows_after_a_delete_are_a_run_of_their_own_with_larger_sequence_numbers() -> None:
    bucket = on_100(write_only="true")
    bucket.write(("-D", 1, None, None), ("+I", 1, None, 5), ("+I", 2, None, 1))
    bucket.commit()
    newest, older, _ = bucket.committed.runs()
    assert bucket.rows_of(newest.files) == [("+I", 1, None, 5)]
    assert bucket.rows_of(older.files) == [("-D", 1, None, None), ("+I", 2, None, 1)]
    assert newest.min_sequence > older.max_sequence
    assert bucket.writer.max_sequence == newest.max_sequence + 1


def test_a_memtable_without_deletes_is_one_run() -> None:
    bucket = on_100(write_only="true")
    bucket.write(("+I", 1, None, 5), ("+I", 1, None, 1), ("-D", 2, None, None))
    bucket.commit()
    assert len(bucket.committed.runs()) == 2


@pytest.mark.parametrize("level", [3, 4])
def test_a_compaction_above_older_rows_keeps_what_follows_a_delete_apart(level: int) -> None:
    bucket = on_100(write_only="true")
    for row in (("+I", 1, None, 3), ("-D", 1, None, None), ("+I", 1, None, 5), ("+I", 2, "b", 1)):
        bucket.write(row)
        bucket.commit()
    compact(bucket, 4, level)
    fresh, merged, _ = bucket.committed.runs()
    assert (fresh.level, merged.level) == (0, level)
    assert bucket.rows_of(fresh.files) == [("+I", 1, None, 5)]
    assert bucket.rows_of(merged.files) == [("-D", 1, None, None), ("+I", 2, "b", 1)]
    assert bucket.content() == [(1, None, 5), (2, "b", 1)]
    bucket.write(("+I", 1, None, 1))
    bucket.commit(full=True)
    assert bucket.content() == [(1, None, 6), (2, "b", 1)]


def test_a_compaction_of_all_runs_leaves_one() -> None:
    bucket = on_100(write_only="true")
    bucket.write(("-D", 1, None, None), ("+I", 1, None, 5))
    bucket.commit()
    compact(bucket, 3, 5)
    assert [(run.level, run.row_count) for run in bucket.committed.runs()] == [(5, 1)]
    assert bucket.content() == [(1, None, 5)]


@pytest.mark.parametrize("deletes", [0, 1])
def test_two_runs_that_may_become_two_again_are_merged_with_all(deletes: int) -> None:
    def sized(level: int, size: int, deletes: int = 0) -> SortedRun:
        (file,) = run_of(level, size << 20).files
        file = msgspec.structs.replace(file, row_count=size << 20, delete_row_count=deletes)
        return SortedRun(level, (file,))

    runs = [sized(0, 10), sized(2, 10, deletes), sized(3, 50), sized(4, 90), sized(5, 999)]
    unit = pick(runs, make_schema(**SUMS).core)
    assert unit is not None
    assert (len(unit.runs), unit.output_level) == ((5, 5) if deletes else (2, 2))
