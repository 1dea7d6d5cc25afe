"""Assigners as the owners of a service would have them, with commits of index files alone."""

import numpy as np
import pytest

from pkray import errors
from pkray.commit.committer import Committer
from pkray.commit.index_files import index_files
from pkray.format import paths
from pkray.format.commit_message import CommitMessage
from pkray.format.hash_index import read_hashes
from pkray.format.index_file import HASH
from pkray.metadata.schemas import SchemaStore
from pkray.metadata.snapshots import SnapshotStore
from pkray.schema.table_schema import TableSchema
from pkray.service.assignment import bucket_filling
from pkray.service.assignment.assigner import BucketAssigner
from pkray.service.assignment.buckets import HashFiles
from pkray.service.assignment.key_index import ABSENT
from pkray.service.client.assigners import assigner_count, assigning_owners
from pkray.service.protocol import HashedKeys, HashFile, SessionId
from pkray.storage.location import TableLocation

EMPTY = b"\0" * 12
"""The partition of a table without partitions."""
OTHER = b"other partition"


def ints(values) -> np.ndarray:
    return np.array(list(values), np.int32)


class Service:
    """The assigners of a few owners, asked as `AssignerClient` asks them."""

    def __init__(self, folder, owners=1, memory_limit=1 << 30, **options):
        location = TableLocation(f"{folder}/db.db/t", "db.t")
        self.store = location.open()
        schemas = SchemaStore(self.store, "db.t")
        if not schemas.exists():
            named = {key.replace("_", "-"): str(value) for key, value in options.items()}
            prefixed = {f"dynamic-bucket.{key}": value for key, value in named.items()}
            columns = [("id", "BIGINT"), ("v", "STRING")]
            schemas.create(TableSchema.create(columns, ["id"], [], {"bucket": "-1", **prefixed}))
        self.schema = schemas.latest()
        self.snapshots = SnapshotStore(self.store)
        self.now = 0
        self.assigners = [
            BucketAssigner(
                self.store,
                self.schema,
                self.snapshots,
                index,
                owners,
                lambda: self.now,
                memory_limit=memory_limit,
            )
            for index in range(owners)
        ]
        self.files = HashFiles(self.store)
        self.new = {}
        self.tokens = {}
        self.base = {}

    def assign(self, session, hashes, partition=EMPTY):
        """The buckets of some hashes, in their order."""
        hashes = ints(hashes)
        indices = np.zeros(len(hashes), np.int32)
        count = assigner_count(self.schema.core, len(self.assigners))
        keys = HashedKeys([partition], indices, hashes)
        homes = assigning_owners(keys, count, len(self.assigners))
        buckets = np.full(len(hashes), -2, np.int32)
        for owner in np.unique(homes):
            at = np.flatnonzero(homes == owner)
            answer = self.assigners[owner].assign(session, keys.at(at))
            buckets[at] = answer.buckets
            self.tokens.setdefault(session, {})[int(owner)] = answer.token
            new = self.new.setdefault(session, {})
            for hash_, bucket, is_new in zip(
                hashes[at], answer.buckets.tolist(), answer.is_new, strict=True
            ):
                if is_new:
                    new.setdefault((partition, bucket), []).append(hash_.tobytes())
        return buckets.tolist()

    def prepare(self, session):
        base = self.snapshots.latest_id() or 0
        for owner, one in enumerate(self.assigners):
            token = self.tokens.get(session, {}).get(owner)
            one.check(session, [token] if token else [], base)
        messages = []
        for (partition, bucket), added in self.new.get(session, {}).items():
            known = self.assigners[0].file(partition, bucket)
            file = self.files.extend(known, added)
            if file is not None:
                messages.append(
                    CommitMessage(
                        partition=partition,
                        bucket=bucket,
                        total_buckets=-1,
                        index_files=(file,),
                        index_base=(known.file_name,) if known else (),
                    )
                )
        return base, messages

    def publish(self, session, identifier, base, messages):
        committer = Committer(self.store, self.schema, session.user, lambda: 0)
        committer.commit(identifier, messages, assigned_at=base)
        changes = [HashFile(m.partition, m.bucket, m.index_files[0]) for m in messages]
        for one in self.assigners:
            one.committed(session, changes)

    def commit(self, session, identifier=0):
        self.publish(session, identifier, *self.prepare(session))

    def abort(self, session):
        for one in self.assigners:
            one.drop(session)

    def committed(self, partition=EMPTY):
        """Hashes by bucket, as the index files have them."""
        found = index_files(self.store, self.snapshots.latest(), HASH)
        return {
            bucket: sorted(h for file in files for h in read_hashes(self.store, file).tolist())
            for (held, bucket), files in sorted(found.items())
            if held == partition
        }


@pytest.fixture
def first():
    return SessionId("job", 1)


def test_buckets_fill_one_after_the_other(tmp_path, first):
    service = Service(tmp_path, target_row_num=4)
    buckets = service.assign(first, range(10))
    assert np.bincount(buckets).tolist() == [4, 4, 2]


def test_asking_again_gives_the_same_buckets(tmp_path, first):
    service = Service(tmp_path, owners=3, target_row_num=4)
    rows = [5, -7, 5, 123456, -7, 2**31 - 1, -(2**31)]
    assert service.assign(first, rows) == service.assign(first, rows)


def test_a_bucket_with_room_is_filled_by_the_next_commit(tmp_path, first):
    service = Service(tmp_path, target_row_num=4)
    service.assign(first, [1, 2, 3])
    service.commit(first)
    service.assign(first.next(), [3, 4, 5])
    service.commit(first.next(), 1)
    assert service.committed() == {0: [1, 2, 3, 4], 1: [5]}


def test_keys_are_found_again_by_any_number_of_owners(tmp_path, first):
    known = {}
    session = first
    for turn, owners in enumerate([1, 3, 2, 5, 1]):
        service = Service(tmp_path, owners=owners, target_row_num=7)
        hashes = list(range(-20 * turn, 30 * turn + 10))
        assigned = dict(zip(hashes, service.assign(session, hashes), strict=True))
        assert all(assigned[h] == bucket for h, bucket in known.items() if h in assigned)
        known.update(assigned)
        service.commit(session, turn)
        session = session.next()
        held = [h for hashes in service.committed().values() for h in hashes]
        assert sorted(held) == sorted(known)


def test_partitions_have_buckets_of_their_own(tmp_path, first):
    service = Service(tmp_path, target_row_num=2)
    assert service.assign(first, [1, 2, 3]) == [0, 0, 1]
    assert service.assign(first, [1, 2, 3], OTHER) == [0, 0, 1]
    service.commit(first)
    assert service.committed(OTHER) == {0: [1, 2], 1: [3]}


def test_initial_buckets_bound_the_assigners_of_a_partition(tmp_path, first):
    service = Service(tmp_path, owners=4, initial_buckets=2, target_row_num=100)
    assert set(service.assign(first, range(50))) == {0, 1}


def test_what_an_aborted_session_was_assigned_is_free_again(tmp_path, first):
    service = Service(tmp_path, target_row_num=2)
    service.assign(first, [1, 2])
    service.abort(first)
    assert service.assign(first.next(), [3, 4]) == [0, 0]


def test_a_key_that_two_sessions_write_has_one_bucket(tmp_path, first):
    service = Service(tmp_path, target_row_num=2)
    second = SessionId("other", 1)
    assert service.assign(first, [1, 2, 3]) == [0, 0, 1]
    assert service.assign(second, [3, 4, 1]) == [1, 1, 0]
    service.abort(first)
    service.commit(second)
    assert service.committed() == {0: [1], 1: [3, 4]}


def test_both_of_two_sessions_commit(tmp_path, first):
    service = Service(tmp_path, owners=2, target_row_num=3)
    second = SessionId("other", 1)
    before = service.assign(first, range(8))
    assert service.assign(second, range(8)) == before
    service.assign(second, range(8, 12))
    service.commit(first)
    service.commit(second)
    held = sorted(h for hashes in service.committed().values() for h in hashes)
    assert held == list(range(12))


def test_commits_of_another_service_before_ours_are_seen(tmp_path, first):
    service = Service(tmp_path, target_row_num=2)
    other = Service(tmp_path)
    service.assign(first, [1])
    service.commit(first)
    assert other.assign(SessionId("other", 1), [1, 2, 3]) == [0, 0, 1]


def test_another_service_that_assigned_meanwhile_is_a_conflict(tmp_path, first):
    service, other = Service(tmp_path), Service(tmp_path)
    rival = SessionId("rival", 1)
    service.assign(first, [1, 2])
    other.assign(rival, [2, 3])
    other.commit(rival)
    with pytest.raises(errors.CommitConflictError):
        service.commit(first)
    service.abort(first)
    service.assign(first.next(), [1, 2])
    service.commit(first.next())
    assert service.committed() == {0: [1, 2, 3]}


def test_another_service_that_commits_between_check_and_publish_is_a_conflict(tmp_path, first):
    service, other = Service(tmp_path, target_row_num=2), Service(tmp_path)
    rival = SessionId("rival", 1)
    service.assign(first, [1, 2])
    service.commit(first)
    session = first.next()
    service.assign(session, [5])
    prepared = service.prepare(session)
    other.assign(rival, [7, 8, 9])
    other.commit(rival)
    with pytest.raises(errors.CommitConflictError):
        service.publish(session, 1, *prepared)


def test_a_restarted_assigner_asks_for_the_rows_again(tmp_path, first):
    service = Service(tmp_path)
    service.assign(first, [1])
    service.assigners = Service(tmp_path).assigners
    with pytest.raises(errors.LostBatchesError):
        service.prepare(first)


def test_an_ended_session_is_assigned_nothing(tmp_path, first):
    service = Service(tmp_path)
    service.assign(first, [1])
    service.commit(first)
    with pytest.raises(errors.CommitFencedError):
        service.assign(first, [2])


def test_a_newer_session_of_the_user_ends_the_older(tmp_path, first):
    service = Service(tmp_path, target_row_num=2)
    service.assign(first, [1, 2])
    assert service.assign(SessionId("job", 2), [3]) == [0]
    with pytest.raises(errors.CommitFencedError):
        service.assign(first, [4])


def test_memory_lets_go_of_partitions_and_reads_them_again(tmp_path, first):
    service = Service(tmp_path, target_row_num=2, memory_limit=1)
    session = first
    for turn in range(6):
        partition = (EMPTY, OTHER)[turn % 2]
        buckets = service.assign(session, range(turn + 2), partition)
        assert buckets == [h // 2 for h in range(turn + 2)]
        service.commit(session, turn)
        session = session.next()
    assert service.assigners[0].stats().partitions == 1


def test_failed_attempts_leave_no_trace_in_the_index(tmp_path, first):
    """Hashes that were assigned, but whose rows were never committed."""
    service = Service(tmp_path, target_row_num=3)
    service.assign(first, [1, 2])
    service.new[first] = {(EMPTY, 0): [ints([1]).tobytes()]}
    service.commit(first)
    assert service.committed() == {0: [1]}
    keys = HashedKeys([EMPTY], np.zeros(2, np.int32), ints([1, 2]))
    buckets, _ = service.assigners[0].locate(keys)
    assert buckets.tolist() == [0, ABSENT]


def test_locate_sees_a_snapshot_as_it_was(tmp_path, first):
    service = Service(tmp_path)
    service.assign(first, [1])
    service.commit(first)
    service.assign(first.next(), [2])
    service.commit(first.next(), 1)
    keys = HashedKeys([EMPTY], np.zeros(2, np.int32), ints([1, 2]))
    one = service.assigners[0]
    assert one.locate(keys, 1)[0].tolist() == [0, ABSENT]
    assert one.locate(keys)[0].tolist() == [0, 0]


def test_no_more_buckets_than_there_are_numbers(tmp_path, first, monkeypatch):
    monkeypatch.setattr(bucket_filling, "MAX_BUCKETS", 3)
    service = Service(tmp_path, target_row_num=1)
    with pytest.raises(errors.OptionError) as error:
        service.assign(first, range(4))
    assert error.value.key == "dynamic-bucket.target-row-num"


def test_a_torn_index_file_is_named(tmp_path, first):
    service = Service(tmp_path)
    service.assign(first, [1, 2])
    service.commit(first)
    ((file,),) = index_files(service.store, service.snapshots.latest(), HASH).values()
    path = paths.index(file.file_name)
    service.store.write(path, service.store.read(path)[:5])
    with pytest.raises(errors.CorruptFileError) as error:
        Service(tmp_path).assign(SessionId("other", 1), [1])
    assert file.file_name in error.value.path
