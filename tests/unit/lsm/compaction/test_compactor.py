"""What compaction rewrites, upgrades and drops, and the changelog it makes."""

import msgspec
import pytest

from pkray.lsm.compaction.compactor import Compactor
from pkray.lsm.compaction.pick import CompactionUnit, pick
from pkray.lsm.compaction.upper_lookup import ScanLookup
from pkray.lsm.engines import merge_engine
from pkray.lsm.levels import SortedRun
from pkray.lsm.merge import merge_read as merge_read_module
from tests.lsm_samples import Bucket, make_schema, run_of


def levels_of(bucket: Bucket) -> list[tuple[int, int]]:
    """(level, rows) of each run."""
    return [(run.level, run.row_count) for run in bucket.committed.runs()]


def grown(bucket: Bucket, keys: int = 400) -> Bucket:
    """With a top level that dwarfs what follows."""
    bucket.write(*[("+I", key, f"old {key}", 5) for key in range(keys)])
    bucket.commit(full=True)
    return bucket


def test_a_large_file_without_overlap_changes_its_level_only() -> None:
    bucket = Bucket(make_schema(target="1 kb"))
    bucket.write(*[("+I", key, "x", key) for key in range(100)])
    message = bucket.writer.prepare_commit(full_compact=True)
    upgraded = {file.file_name for file in message.compact_after}
    assert upgraded == {file.file_name for file in message.new_files}
    assert {file.level for file in message.compact_after} == {5}


def test_a_large_file_with_deletes_is_rewritten_at_the_top() -> None:
    bucket = Bucket(make_schema(target="1 kb"))
    bucket.write(*[("-D" if key % 2 else "+I", key, "x", key) for key in range(100)])
    bucket.commit(full=True)
    rows = bucket.rows_of(bucket.committed.files)
    assert [row[0] for row in rows] == ["+I"] * 50


def test_files_are_cut_at_a_target_below_what_is_merged_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(merge_read_module, "SLICE_ROWS", 1 << 20)
    monkeypatch.setattr(merge_read_module, "READ_ROWS", 1 << 20)
    bucket = Bucket(make_schema(target="10 kb"))
    for start in (0, 1):
        keys = range(start, 12_000, 2)
        bucket.write(*[("+I", key, f"{key * 7919 % 30_011:08}", key) for key in keys])
        bucket.commit(full=True)
    files = bucket.committed.runs()[-1].files
    assert len(files) > 5
    assert max(file.file_size for file in files) < 30 << 10


def test_small_files_are_joined() -> None:
    bucket = Bucket(make_schema(write_only="true"))
    for key in range(3):
        bucket.write(("+I", key, "x", key))
        bucket.commit()
    bucket.commit(full=True)
    (file,) = bucket.committed.files
    assert (file.level, file.row_count) == (5, 3)


def test_deletes_stay_as_long_as_something_older_is_left() -> None:
    bucket = grown(Bucket(make_schema(producer="lookup")))
    bucket.write(("-D", 7, None, None), ("+I", 1000, "new", 1))
    bucket.commit()
    assert [level for level, _ in levels_of(bucket)] == [4, 5]
    assert 7 not in [row[0] for row in bucket.content()]
    bucket.commit(full=True)
    assert levels_of(bucket) == [(5, 400)]
    assert 7 not in [row[0] for row in bucket.content()]


def test_lookup_finds_the_old_row_above_the_output_level() -> None:
    bucket = grown(Bucket(make_schema(producer="lookup")))
    bucket.write(("+I", 399, "new", 1), ("-D", 0, None, None), ("-D", 500, None, None))
    changes = bucket.commit()
    assert changes == [("-D", 0, "old 0", 5), ("-U", 399, "old 399", 5), ("+U", 399, "new", 1)]
    bucket.write(("+I", 399, "newer", 2), ("+I", 0, "back", 2), ("-D", 200, None, None))
    assert bucket.commit() == [
        ("+I", 0, "back", 2),
        ("-D", 200, "old 200", 5),
        ("-U", 399, "new", 1),
        ("+U", 399, "newer", 2),
    ]
    assert [level for level, _ in levels_of(bucket)] == [4, 5]


@pytest.mark.parametrize("target", ["1 kb", "128 mb"])
def test_lookup_with_a_sequence_field_keeps_the_image_that_readers_see(target: str) -> None:
    """An older row must not become the old image of the next change."""
    bucket = grown(Bucket(make_schema(producer="lookup", sequence="n", target=target)))
    bucket.write(("+I", 3, "late", 1))
    assert bucket.commit() == [("-U", 3, "old 3", 5), ("+U", 3, "old 3", 5)]
    bucket.write(("+I", 3, "next", 6))
    assert bucket.commit() == [("-U", 3, "old 3", 5), ("+U", 3, "next", 6)]
    assert (3, "next", 6) in bucket.content()


def test_a_delete_above_wins_over_rows_with_an_older_sequence() -> None:
    bucket = grown(Bucket(make_schema(producer="lookup", sequence="n")))
    bucket.write(("-D", 3, None, 7))
    assert bucket.commit() == [("-D", 3, "old 3", 5)]
    bucket.write(("+I", 3, "late", 6))
    assert bucket.commit() == []
    assert 3 not in [row[0] for row in bucket.content()]


def test_old_images_carry_their_own_sequence_number() -> None:
    bucket = grown(Bucket(make_schema(producer="lookup")), keys=10)
    bucket.write(("+I", 3, "new", 6))
    bucket.commit()
    (file,) = bucket.messages[-1].compact_changelog_files
    (rows,) = bucket.files.read(file, ["_SEQUENCE_NUMBER", "_VALUE_KIND", "k"])
    assert rows.column(0).to_pylist() == [3, 10]


def test_row_deduplicate_ignores_the_fields_named() -> None:
    bucket = Bucket(make_schema(producer="lookup", row_deduplicate="true", ignored_fields="n"))
    bucket.write(("+I", 1, "a", 1), ("+I", 2, None, 1))
    bucket.commit()
    bucket.write(("+I", 1, "a", 2), ("+I", 2, "b", 2))
    assert bucket.commit() == [("-U", 2, None, 1), ("+U", 2, "b", 2)]


def test_input_changelog_is_every_row_by_key_and_arrival() -> None:
    bucket = Bucket(make_schema(producer="input"))
    rows = [("+I", 2, "a", 1), ("-D", 1, "b", 2), ("-U", 2, "a", 1), ("+U", 2, "c", 3)]
    bucket.write(*rows)
    assert bucket.commit() == [rows[1], rows[0], rows[2], rows[3]]


def test_runs_of_overlapping_sequence_numbers_merge_by_number() -> None:
    """Two processes that did not know of each other wrote the same numbers."""
    bucket = Bucket(make_schema(write_only="true"))
    bucket.write(*[("+I", key, "one", key) for key in range(20)])
    one = bucket.writer.prepare_commit()
    bucket.reopen()
    bucket.write(*[("+I", 19 - key, "two", key) for key in range(20)])
    two = bucket.writer.prepare_commit()
    levels = bucket.committed.apply((), [*one.new_files, *two.new_files])
    content = bucket.content(levels)
    assert [row[1] for row in content] == ["two"] * 10 + ["one"] * 10
    bucket.committed = levels
    bucket.reopen()
    bucket.commit(full=True)
    assert bucket.content() == content


def test_reading_some_columns_needs_none_of_the_keys() -> None:
    bucket = Bucket(make_schema(write_only="true"))
    for number in range(3):
        bucket.write(*[("+I", key, "x", number) for key in range(number, 10)])
        bucket.commit()
    assert bucket.content(columns=["n"]) == [(min(key, 2),) for key in range(10)]


def test_sections_that_do_not_overlap_are_read_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bucket = Bucket(make_schema(write_only="true"))
    for first in (20, 0, 10):
        bucket.write(*[("+I", key, "x", key) for key in range(first, first + 10)])
        bucket.commit()
    monkeypatch.setattr(merge_read_module, "section_groups", None)
    assert [row[0] for row in bucket.content()] == list(range(30))


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
