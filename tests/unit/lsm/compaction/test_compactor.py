"""What compaction rewrites, upgrades and drops, and the changelog it makes."""

from __future__ import annotations

import pytest

from pkray.lsm.merge import merge_read as merge_read_module
from tests.lsm_samples import Bucket, make_schema


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
