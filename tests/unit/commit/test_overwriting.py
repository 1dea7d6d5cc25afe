"""Overwrites: all that was in a partition goes, in one snapshot."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from pkray.commit.committer import Committer
from pkray.errors import CommitUnknownError
from pkray.format.partition import PartitionSpec
from pkray.format.partition_filter import ExactPartitions, PartitionFilter
from pkray.format.snapshot import OVERWRITE
from pkray.metadata.live import live_files
from pkray.storage.object_store import ObjectStore
from pkray.storage.opening import open_store
from tests import commit_samples as samples

SCHEMA = samples.schema(partitioned=True)
A, B = samples.partition("a"), samples.partition("b")
EVERYTHING = PartitionFilter(PartitionSpec(SCHEMA), [{}])


def committer(store: ObjectStore, user: str = "u") -> Committer:
    return Committer(store, SCHEMA, user, clock=lambda: 1000, sleep=lambda _: None)


def names(store: ObjectStore) -> set[str]:
    snapshot = committer(store).snapshots.latest()
    return {entry.file.file_name for entry in live_files(store, snapshot)}


@pytest.fixture
def store(tmp_path) -> ObjectStore:
    made = open_store(tmp_path)
    first = [
        samples.message([samples.data_file(f"{part.hex()}-{bucket}")], bucket=bucket, part=part)
        for part in (A, B)
        for bucket in (0, 1)
    ]
    committer(made).commit(0, first)
    return made


def test_one_partition(store):
    new = samples.message([samples.data_file("new", level=5)], part=A)
    result = committer(store).overwrite(1, [new], ExactPartitions(frozenset([A])))
    assert result.append.commit_kind == OVERWRITE
    assert result.append.delta_record_count == 5 - 10
    assert result.append.total_record_count == 15
    assert names(store) == {"new", f"{B.hex()}-0", f"{B.hex()}-1"}


def test_everything(store):
    committer(store).overwrite(1, [], EVERYTHING)
    assert names(store) == set()


def test_an_identifier_overwrites_once(store):
    committer(store).overwrite(1, [], ExactPartitions(frozenset([A])))
    committer(store).commit(2, [samples.message([samples.data_file("later")], part=A)])
    again = committer(store).overwrite(1, [], ExactPartitions(frozenset([A])))
    assert (again.append.id, again.new) == (2, False)
    assert "later" in names(store)


def test_an_empty_partition_may_get_another_number_of_buckets(store):
    new = samples.message([samples.data_file("new")], bucket=7, part=A, total_buckets=8)
    committer(store).overwrite(1, [new], ExactPartitions(frozenset([A])))
    assert "new" in names(store)


def test_what_others_commit_first_is_overwritten_too(store):
    other = committer(store, "other")
    first = []

    def overtake(path: str, create) -> bool:
        if "snapshot/snapshot-" in path and not first:
            first.append(path)
            other.commit(0, [samples.message([samples.data_file("theirs")], part=A)])
        return create()

    wrapped = samples.WrappedStore(store, overtake)
    new = samples.message([samples.data_file("new")], part=A)
    result = committer(wrapped).overwrite(1, [new], ExactPartitions(frozenset([A])))
    assert result.append.id == 3
    assert names(store) == {"new", f"{B.hex()}-0", f"{B.hex()}-1"}
    manifests = {status.path for status in store.list("manifest")}
    assert len(manifests) == len(_named(store)), "manifests of the lost attempt are deleted"


def _named(store: ObjectStore) -> set[str]:
    from pkray.expiration.references import References, collect

    found = References()
    collect(store, store, found, deltas=False)
    return found.metadata


def test_a_lost_answer_is_found(store):
    lost = samples.WrappedStore(store, samples.lose_answers, local=False)
    result = committer(lost).overwrite(1, [], EVERYTHING)
    assert result.new
    assert names(store) == set()


def test_no_answer_at_all_is_said(store):
    def fail(path: str, create) -> bool:
        raise samples.StorageError("unreachable")

    with pytest.raises(CommitUnknownError):
        committer(samples.WrappedStore(store, fail, local=False)).overwrite(1, [], EVERYTHING)
    assert committer(store).snapshots.latest_id() == 1


def test_racing_overwrites_leave_one_winner(store):
    def overwrite(number: int) -> None:
        new = samples.message([samples.data_file(f"new{number}")], part=A)
        committer(store, f"user{number}").overwrite(0, [new], EVERYTHING)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(overwrite, range(6)))
    assert committer(store).snapshots.latest_id() == 7
    assert len(names(store)) == 1
