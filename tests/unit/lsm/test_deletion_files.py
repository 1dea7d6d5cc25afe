"""Commits mark the rows they replace instead of rewriting files."""

from pkray.format.commit_message import files_digest
from pkray.format.index_file import DELETION_VECTORS
from tests.lsm_samples import Bucket, make_schema

MANY = 500


def large_bucket(**options: str) -> Bucket:
    bucket = Bucket(make_schema(vectors="true", **options))
    bucket.write(*[("+I", key, f"value-{key}", key % 7) for key in range(MANY)])
    bucket.commit()
    return bucket


def marked(bucket: Bucket) -> dict[str, list[int]]:
    return {name: v.positions.tolist() for name, v in bucket.committed.vectors.items()}


def test_a_commit_of_few_keys_rewrites_no_file_of_a_large_bucket() -> None:
    bucket = large_bucket()
    (large,) = bucket.committed.files
    bucket.write(("+U", 7, "new", 1), ("-D", 499, None, None), ("+I", MANY, "new", 1))
    bucket.commit()
    message = bucket.messages[-1]
    assert large in bucket.committed.files
    assert {file.file_name for file in message.compact_before} == {
        file.file_name for file in message.new_files
    }
    assert sum(file.row_count for file in message.compact_after) == 2
    assert sum(file.file_size for file in message.index_files) < 100
    assert marked(bucket) == {large.file_name: [7, 499]}


def test_an_upgraded_file_marks_what_its_rows_replace() -> None:
    bucket = large_bucket()
    bucket.write(("+U", 5, "new", 1), ("+U", 6, "new", 1))
    bucket.commit()
    (new,) = bucket.messages[-1].new_files
    (moved,) = bucket.messages[-1].compact_after
    assert moved.file_name == new.file_name
    assert list(marked(bucket).values()) == [[5, 6]]


def test_vectors_of_files_that_disappear_go_from_the_index() -> None:
    bucket = large_bucket()
    bucket.write(("+U", 5, "new", 1))
    bucket.commit()
    bucket.commit(full=True)
    message = bucket.messages[-1]
    assert message.removed_index_types == (DELETION_VECTORS,)
    assert message.index_files == ()
    (file,) = bucket.committed.files
    assert file.row_count == MANY
    assert not bucket.committed.vectors


def test_a_full_compaction_rewrites_a_file_for_its_marked_rows_alone() -> None:
    bucket = large_bucket()
    bucket.write(("-D", 5, None, None))
    bucket.commit()
    (file,) = bucket.committed.files
    assert file.row_count == MANY
    assert marked(bucket) == {file.file_name: [5]}
    bucket.commit(full=True)
    (file,) = bucket.committed.files
    assert file.row_count == MANY - 1


def test_a_commit_without_rows_changes_no_index() -> None:
    bucket = large_bucket()
    bucket.write(("+U", 5, "new", 1))
    bucket.commit()
    bucket.commit()
    assert bucket.messages[-1].index_types == set()


def test_an_index_starts_from_the_one_handed_over_before() -> None:
    bucket = large_bucket()
    bucket.write(("+U", 5, "new", 1))
    first = bucket.writer.prepare_commit()
    bucket.write(("+U", 6, "new", 1))
    second = bucket.writer.prepare_commit()
    assert first.index_base == ()
    assert second.index_base == tuple(file.file_name for file in first.index_files)


def test_a_message_tells_the_files_it_reckons_with() -> None:
    bucket = large_bucket()
    bucket.write(("+U", 5, "new", 1))
    bucket.commit()
    empty, message = bucket.messages
    assert empty.upper_files == files_digest([])
    large = empty.compact_after[0]
    assert message.upper_files == files_digest([(large.level, large.file_name)])


def test_marks_go_with_the_compaction_that_is_undone() -> None:
    bucket = large_bucket()
    mine = bucket.writer
    bucket.write(("+U", 5, "mine", 1))
    mine.flush()
    mine.compact()
    bucket.reopen()
    bucket.write(("+U", 6, "theirs", 1))
    bucket.commit()
    bucket.writer = mine
    mine.rebase(bucket.committed)
    bucket.commit()
    changed = [row for row in bucket.content() if row[1] in ("mine", "theirs")]
    assert changed == [(5, "mine", 1), (6, "theirs", 1)]
    assert len(bucket.content()) == MANY


def test_vectors_go_to_several_files_beyond_the_target_size() -> None:
    bucket = Bucket(
        make_schema(
            vectors="true", target="4 kb", **{"deletion-vector.index-file.target-size": "1 b"}
        )
    )
    bucket.write(*[("+I", key, f"value-{key}", key % 7) for key in range(0, MANY, 2)])
    bucket.commit()
    bucket.write(*[("+I", key, f"value-{key}", key % 7) for key in range(1, MANY, 2)])
    bucket.commit(full=True)
    bucket.write(*[("-D", key, None, None) for key in range(0, MANY, 100)])
    bucket.commit()
    files = bucket.messages[-1].index_files
    assert len(files) == len(bucket.committed.vectors) > 2
    assert len(bucket.content()) == MANY - MANY // 100
