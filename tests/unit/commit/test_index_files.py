import msgspec
import pytest

from pkray.commit.committer import Committer
from pkray.commit.index_files import index_files
from pkray.errors import CommitConflictError
from pkray.format.index_file import DELETION_VECTORS, HASH, DeletionVectorRange, IndexFileMeta
from tests.commit_samples import UNPARTITIONED, data_file, message, schema


def hashes(name):
    return IndexFileMeta(index_type=HASH, file_name=name, file_size=8, row_count=2)


def vectors(name, data="a"):
    ranges = (DeletionVectorRange(data, 1, 20, 3),)
    return IndexFileMeta(
        index_type=DELETION_VECTORS,
        file_name=name,
        file_size=29,
        row_count=1,
        deletion_vectors=ranges,
    )


def with_index(sent, *files, base=(), removed=()):
    return msgspec.structs.replace(
        sent, index_files=files, index_base=tuple(base), removed_index_types=tuple(removed)
    )


def test_hashes_go_with_the_append_snapshot_and_vectors_with_the_compact_one(store, committer):
    sent = with_index(message([data_file("a")]), hashes("h"), vectors("v"))
    result = committer.commit(1, [sent])
    bucket = (UNPARTITIONED, 0)
    assert index_files(store, result.append) == {bucket: [hashes("h")]}
    assert index_files(store, result.compact) == {bucket: [hashes("h"), vectors("v")]}
    assert index_files(store, result.compact, HASH) == {bucket: [hashes("h")]}


def test_an_index_file_replaces_the_buckets_earlier_one_of_its_type_alone(store, committer):
    both = [with_index(message(bucket=b), hashes(f"h{b}"), vectors(f"v{b}")) for b in (0, 1)]
    committer.commit(1, both)
    result = committer.commit(2, [with_index(message(bucket=1), hashes("new"), base=["h1"])])
    assert index_files(store, result.append) == {
        (UNPARTITIONED, 0): [hashes("h0"), vectors("v0")],
        (UNPARTITIONED, 1): [vectors("v1"), hashes("new")],
    }


def test_commits_without_index_files_keep_those_that_are_there(store, committer):
    first = committer.commit(1, [with_index(message(), hashes("h"))]).append
    second = committer.commit(2, [message([data_file("a")])]).append
    assert second.index_manifest == first.index_manifest


def test_a_removed_type_leaves_no_index_manifest_behind(store, committer):
    committer.commit(1, [with_index(message(), vectors("v"))])
    sent = with_index(message(), removed=[DELETION_VECTORS], base=["v"])
    result = committer.commit(2, [sent])
    assert result.compact.index_manifest is None
    assert index_files(store, result.compact) == {}


def test_hashes_from_another_base_are_a_conflict(store, committer):
    committer.commit(1, [with_index(message(), hashes("h1"))])
    Committer(store, schema(), "other").commit(
        1, [with_index(message(), hashes("h2"), base=["h1"])]
    )
    with pytest.raises(CommitConflictError, match="HASH index of bucket 0 is now h2"):
        committer.commit(2, [with_index(message([data_file("a")]), hashes("h3"), base=["h1"])])
    assert index_files(store, committer.snapshots.latest()) == {(UNPARTITIONED, 0): [hashes("h2")]}


def test_vectors_from_another_base_drop_the_compaction_but_not_the_rows(store, committer):
    committer.commit(1, [with_index(message(), vectors("v1"))])
    Committer(store, schema(), "other").commit(
        1, [with_index(message(), vectors("v2"), base=["v1"])]
    )
    sent = with_index(message([data_file("a")]), vectors("v3"), base=["v1"])
    result = committer.commit(2, [sent])
    assert result.append is not None
    assert result.compact_conflict
    assert index_files(store, committer.snapshots.latest()) == {(UNPARTITIONED, 0): [vectors("v2")]}
