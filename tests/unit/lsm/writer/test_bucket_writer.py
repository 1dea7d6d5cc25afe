"""What a bucket writer hands over, keeps and cleans up."""

import itertools

import pyarrow.parquet as pq
import pytest

from pkray.errors import InputError, StorageFullError
from pkray.lsm import run_writer
from pkray.lsm.levels import Levels
from tests.lsm_samples import Bucket, make_schema


def names(files: object) -> set[str]:
    return {file.file_name for file in files}  # type: ignore[attr-defined]


def test_sequence_numbers_follow_arrival_and_go_on_after_reopening() -> None:
    bucket = Bucket(make_schema())
    bucket.write(("+I", 2, "a", 0), ("+I", 1, "b", 0), ("+I", 2, "c", 0))
    bucket.commit()
    (first,) = bucket.committed.files
    assert (first.min_sequence_number, first.max_sequence_number) == (1, 2)
    bucket.reopen()
    bucket.write(("+I", 1, "d", 0))
    assert bucket.writer.max_sequence == 3
    bucket.commit()
    assert bucket.committed.max_sequence == 3
    assert bucket.content() == [(1, "d", 0), (2, "c", 0)]


def test_metadata_says_what_is_in_the_file() -> None:
    bucket = Bucket(make_schema())
    bucket.write(("+I", 3, "b", None), ("-D", 1, "a", 5), ("-U", 2, None, 6))
    message = bucket.writer.prepare_commit()
    (file,) = message.new_files
    assert (file.row_count, file.delete_row_count, file.level) == (3, 2, 0)
    assert (file.schema_id, file.file_source, file.creation_time) == (0, 0, 7)
    assert file.file_size == bucket.store.size(bucket.files.path(file.file_name))
    assert file.value_stats.null_counts == (0, 1, 1)
    assert file.min_key[-8:] == (1).to_bytes(8, "little")
    assert file.max_key[-8:] == (3).to_bytes(8, "little")


def test_changelog_files_have_a_codec_and_statistics_of_their_own() -> None:
    options = {"changelog-file.compression": "gzip", "changelog-file.stats-mode": "counts"}
    bucket = Bucket(make_schema(producer="input", **options))
    bucket.write(("+I", 1, "a" * 10_000, None))
    message = bucket.writer.prepare_commit()
    (data,), (changelog,) = message.new_files, message.changelog_files
    codecs = [
        pq.read_metadata(bucket.store.open_input(bucket.files.path(file.file_name)))
        .row_group(0)
        .column(4)
        .compression
        for file in (data, changelog)
    ]
    assert codecs == ["UNCOMPRESSED", "GZIP"]
    assert data.value_stats.min_values != changelog.value_stats.min_values
    assert changelog.value_stats.null_counts == (0, 0, 1)


def test_a_full_memtable_is_flushed() -> None:
    bucket = Bucket(make_schema(buffer="1 kb", trigger="100"))
    for number in range(100):
        bucket.write(("+I", number % 10, "x" * 20, number))
    assert bucket.writer.memory_bytes < 1024
    assert len(bucket.writer.levels.runs()) > 1
    bucket.commit()
    assert bucket.content() == [(key, "x" * 20, 90 + key) for key in range(10)]


def test_files_are_cut_at_the_target_size_without_overlap() -> None:
    bucket = Bucket(make_schema(target="1 kb"))
    for _ in range(2):
        bucket.write(*[("+I", key, "x" * 50, key) for key in range(200)])
        bucket.commit()
    assert [len(run.files) for run in bucket.committed.runs()] == [1, 1]
    bucket.commit(full=True)
    files = sorted(bucket.committed.files, key=lambda file: file.min_key[-8:][::-1])
    assert len(files) > 3
    for file, following in itertools.pairwise(files):
        assert file.max_key[-8:][::-1] < following.min_key[-8:][::-1]
    assert [row[0] for row in bucket.content()] == list(range(200))


def test_compaction_of_new_files_names_them_as_new_and_as_replaced() -> None:
    bucket = Bucket(make_schema())
    bucket.write(("+I", 1, "a", 1))
    bucket.writer.flush()
    bucket.write(("+I", 1, "b", 2))
    message = bucket.writer.prepare_commit(full_compact=True)
    assert len(message.new_files) == 2
    assert names(message.compact_before) == names(message.new_files)
    assert [file.level for file in message.compact_after] == [5]
    assert bucket.stored() == names([*message.new_files, *message.compact_after])


def test_what_is_compacted_away_before_the_commit_is_deleted() -> None:
    bucket = Bucket(make_schema())
    for number in range(3):
        bucket.write(("+I", number, "a", 1))
        bucket.writer.compact(full=True)
    message = bucket.writer.prepare_commit()
    assert len(message.compact_after) == 1
    assert bucket.stored() == names([*message.new_files, *message.compact_after])


def test_abort_deletes_only_what_was_not_handed_over() -> None:
    bucket = Bucket(make_schema(producer="input"))
    bucket.write(("+I", 1, "a", 1))
    bucket.commit()
    kept = bucket.stored()
    bucket.write(("+I", 2, "b", 1))
    bucket.writer.compact(full=True)
    assert bucket.stored() > kept
    bucket.write(("+I", 3, "c", 1))
    bucket.writer.abort()
    assert bucket.stored() == kept
    assert bucket.writer.levels == bucket.committed
    assert bucket.writer.memory_rows == 0


def test_abort_keeps_a_committed_file_that_was_upgraded() -> None:
    bucket = Bucket(make_schema(target="1 kb", write_only="true"))
    bucket.write(*[("+I", key, "x" * 20, key) for key in range(100)])
    bucket.commit()
    bucket.writer.compact(full=True)
    assert {file.level for file in bucket.writer.levels.files} == {5}
    bucket.writer.abort()
    assert len(bucket.content()) == 100


def test_an_empty_commit_names_nothing() -> None:
    message = Bucket(make_schema()).writer.prepare_commit()
    assert not any((message.new_files, message.changelog_files, message.index_types))
    assert not message.has_compact


def test_a_write_only_table_never_compacts_by_itself() -> None:
    bucket = Bucket(make_schema(write_only="true", producer="lookup", trigger="2"))
    for number in range(4):
        bucket.write(("+I", 1, "a", number))
        assert bucket.commit() == []
    assert [run.level for run in bucket.committed.runs()] == [0, 0, 0, 0]
    bucket.commit(full=True)
    assert [run.level for run in bucket.committed.runs()] == [2]


def test_messages_can_be_prepared_before_the_one_before_is_committed() -> None:
    bucket = Bucket(make_schema())
    bucket.write(("+I", 1, "a", 1))
    first = bucket.writer.prepare_commit()
    bucket.write(("+I", 1, "b", 2), ("+I", 2, "c", 3))
    second = bucket.writer.prepare_commit(full_compact=True)
    assert names(first.new_files) < names(second.compact_before)
    levels = Levels().apply((), first.new_files).apply((), second.new_files)
    levels = levels.apply(second.compact_before, second.compact_after)
    bucket.writer.committed(levels)
    assert bucket.content(levels) == [(1, "b", 2), (2, "c", 3)]
    assert bucket.writer.levels == levels


def test_rebasing_on_another_writers_commit_redoes_compactions() -> None:
    bucket = Bucket(make_schema(producer="lookup"))
    bucket.write(("+I", 1, "a", 1))
    bucket.commit()
    mine = bucket.writer
    bucket.write(("+I", 2, "mine", 2))
    mine.compact(full=True)
    bucket.reopen()
    bucket.write(("+I", 2, "theirs", 1), ("+I", 3, "theirs", 1))
    bucket.commit()
    bucket.writer = mine
    mine.rebase(bucket.committed)
    changes = bucket.commit()
    assert changes == [("-U", 2, "theirs", 1), ("+U", 2, "mine", 2)]
    assert bucket.content() == [(1, "a", 1), (2, "mine", 2), (3, "theirs", 1)]
    assert names(bucket.messages[-1].compact_before) <= bucket.stored()


def test_rows_flushed_before_others_committed_get_later_numbers() -> None:
    bucket = Bucket(make_schema(write_only="true"))
    mine = bucket.writer
    bucket.write(("+I", 1, "mine", 1), ("+I", 2, "mine", 1))
    mine.flush()
    bucket.write(("+I", 3, "mine", 1))
    bucket.reopen()
    bucket.write(*[("+I", key, "theirs", 1) for key in range(5)])
    bucket.commit()
    bucket.writer = mine
    mine.rebase(bucket.committed)
    bucket.commit()
    (message,) = bucket.messages[1:]
    assert [file.min_sequence_number for file in message.new_files] == [5, 7]
    words = ["theirs", "mine", "mine", "mine", "theirs"]
    assert bucket.content() == [(key, word, 1) for key, word in enumerate(words)]
    assert bucket.stored() == names(bucket.committed.files)


def test_rows_of_a_message_taken_back_are_numbered_anew() -> None:
    bucket = Bucket(make_schema(write_only="true", producer="input"))
    mine = bucket.writer
    bucket.write(("+I", 1, "mine", 1))
    lost = mine.prepare_commit()
    bucket.reopen()
    bucket.write(("+I", 1, "theirs", 1))
    bucket.commit()
    bucket.writer = mine
    mine.requeue()
    mine.rebase(bucket.committed)
    assert bucket.commit() == [("+I", 1, "mine", 1)]
    (file,) = bucket.messages[-1].new_files
    assert file.min_sequence_number == 1
    assert names(lost.new_files) <= bucket.stored(), "somebody may hold the message"
    assert bucket.content() == [(1, "mine", 1)]


def test_a_failed_flush_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = Bucket(make_schema())
    bucket.write(("+I", 1, "a", 1))

    def full(*_: object) -> None:
        raise StorageFullError("no space left", path="x")

    with monkeypatch.context() as patch:
        patch.setattr(run_writer.ParquetWriter, "write", full)
        with pytest.raises(StorageFullError):
            bucket.writer.prepare_commit()
    assert bucket.stored() == set()
    bucket.commit()
    assert bucket.content() == [(1, "a", 1)]


def test_a_failed_compaction_leaves_what_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = Bucket(make_schema(target="1 kb", write_only="true"))
    for _ in range(2):
        bucket.write(*[("+I", key, "x" * 50, key) for key in range(100)])
        bucket.commit()
    kept = bucket.stored()
    writes = iter(range(20))
    plain = run_writer.ParquetWriter.write

    def full(writer: run_writer.ParquetWriter, rows: object) -> None:
        if next(writes, None) is None:
            raise StorageFullError("no space left", path="x")
        plain(writer, rows)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(run_writer.ParquetWriter, "write", full)
        with pytest.raises(StorageFullError):
            bucket.writer.compact(full=True)
    assert bucket.stored() == kept
    assert bucket.writer.levels == bucket.committed


def test_rowkind_field_overrides_the_kind() -> None:
    schema = make_schema([("k", "INT NOT NULL"), ("op", "STRING")], rowkind="op")
    bucket = Bucket(schema)
    bucket.write(("+I", 1, "-d"), ("-D", 2, "+I"))
    bucket.commit()
    assert bucket.content() == [(2, "+I")]


@pytest.mark.parametrize("word", ["INSERT", None])
def test_a_word_that_is_no_row_kind_is_refused(word: str | None) -> None:
    bucket = Bucket(make_schema([("k", "INT NOT NULL"), ("op", "STRING")], rowkind="op"))
    with pytest.raises(InputError, match="op"):
        bucket.write(("+I", 1, "+I"), ("+I", 2, word))
    assert bucket.writer.memory_rows == 0


def test_ignored_kinds_get_no_sequence_number() -> None:
    deletes = Bucket(make_schema(ignore_delete="true"))
    deletes.write(("+I", 1, "a", 1), ("-D", 1, "a", 1), ("-U", 1, "a", 1), ("+U", 2, "b", 2))
    assert deletes.writer.max_sequence == 1
    befores = Bucket(make_schema(ignore_update_before="true"))
    befores.write(("+I", 1, "a", 1), ("-U", 1, "a", 1), ("-D", 2, "a", 1))
    befores.commit()
    assert befores.content() == [(1, "a", 1)]
