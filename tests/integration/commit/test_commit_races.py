"""Commits that compete, and stores that lose answers."""

import random
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from pkray.commit.committer import Committer
from pkray.errors import CommitUnknownError, MissingFileError, StorageError
from pkray.metadata.live import live_files
from pkray.metadata.snapshots import SnapshotStore
from pkray.storage.object_store import ObjectStore
from pkray.storage.opening import open_store
from tests.commit_samples import WrappedStore, data_file, lose_answers, message, schema
from tests.effort import examples


def commit_many(url: str, user: str, count: int) -> None:
    committer = Committer(open_store(url), schema(**{"commit.max_retries": "1000"}), user)
    for number in range(1, count + 1):
        result = committer.commit(number, [message([data_file(f"{user}-{number}")])])
        assert result.new


def check_all_there(store: ObjectStore, users: list[str], count: int) -> None:
    snapshots = SnapshotStore(store)
    ids = snapshots.ids()
    assert ids == list(range(1, len(users) * count + 1))
    assert snapshots.latest_id() == ids[-1]
    by_user = {user: [] for user in users}
    for snapshot in snapshots.all():
        by_user[snapshot.commit_user].append(snapshot.commit_identifier)
        assert snapshot.total_record_count == 5 * snapshot.id
    assert by_user == {user: list(range(1, count + 1)) for user in users}
    files = [e.file.file_name for e in live_files(store, snapshots.latest())]
    assert sorted(files) == sorted(f"{user}-{n}" for user in users for n in range(1, count + 1))


def test_threads_race_in_memory():
    url = f"memory://{uuid.uuid4().hex}"
    users = [f"u{n}" for n in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda user: commit_many(url, user, 15), users))
    check_all_there(open_store(url), users, 15)


def test_one_commit_name_is_taken_once_by_racing_processes():
    url = f"memory://{uuid.uuid4().hex}"
    results = []

    def commit(writer: int) -> None:
        committer = Committer(open_store(url), schema(), "same")
        for number in range(1, 11):
            results.append(committer.commit(number, [message([data_file(f"{writer}-{number}")])]))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(commit, range(4)))
    store = open_store(url)
    identifiers = [s.commit_identifier for s in SnapshotStore(store).all()]
    assert identifiers == list(range(1, 11))
    assert sum(result.new for result in results) == 10
    files = [e.file.file_name for e in live_files(store, SnapshotStore(store).latest())]
    assert [name.split("-")[1] for name in files] == [str(n) for n in range(1, 11)]


@pytest.mark.parametrize("local", [True, False])
def test_a_lost_answer_is_found_again(tmp_path, local):
    store = open_store(tmp_path)
    committer = Committer(WrappedStore(store, lose_answers, local), schema(), "u")
    flushed = data_file("a")
    result = committer.commit(1, [message([flushed], [flushed], [data_file("b", 5)])])
    assert result.new
    assert [s.id for s in SnapshotStore(store).all()] == [1, 2]
    assert result.compact == SnapshotStore(store).latest()
    assert committer.commit(2, []).append.id == 3


def test_a_creation_that_was_repeated_unseen_is_ours(tmp_path):
    """The store's client sent the request twice: the second is told that the file exists."""
    store = open_store(tmp_path)

    def twice(path, create):
        create()
        return create()

    committer = Committer(WrappedStore(store, twice), schema(), "u")
    assert committer.commit(1, [message([data_file("a")])]).new
    assert [s.id for s in SnapshotStore(store).all()] == [1]


def test_an_answer_lost_before_another_commit_landed_is_found(tmp_path):
    """Our request arrives late: it is answered by an error, applied, and then built upon."""
    store = open_store(tmp_path)
    rival = Committer(store, schema(), "rival")
    pending = []

    def late(path, create):
        pending.append(create)
        raise StorageError("timeout")

    def wait(seconds):
        assert pending.pop()()
        rival.commit(1, [message([data_file("r")])])

    committer = Committer(WrappedStore(store, late, local=False), schema(), "u", sleep=wait)
    result = committer.commit(1, [message([data_file("a")])])
    assert result.new
    assert result.append.id == 1
    files = [e.file.file_name for e in live_files(store, SnapshotStore(store).latest())]
    assert files == ["a", "r"]


def test_a_request_that_arrives_late_finds_its_manifests(tmp_path):
    store = open_store(tmp_path)
    pending = []

    def vanish(path, create):
        pending.append(create)
        raise StorageError("timeout")

    committer = Committer(
        WrappedStore(store, vanish, local=False), schema(), "u", sleep=lambda seconds: None
    )
    with pytest.raises(CommitUnknownError, match="this identifier") as caught:
        committer.commit(1, [message([data_file("a")])])
    assert caught.value.identifier == 1
    assert pending[0]()
    snapshot = SnapshotStore(store).latest()
    assert [e.file.file_name for e in live_files(store, snapshot)] == ["a"]
    again = Committer(store, schema(), "u").commit(1, [message([data_file("b")])])
    assert (again.new, again.append) == (False, snapshot)


def test_an_unanswered_read_after_a_lost_answer_is_unknown(tmp_path):
    store = open_store(tmp_path)
    wrapped = WrappedStore(store, lose_answers, local=False)

    def fail(path):
        if path == "snapshot/snapshot-1":
            raise StorageError("timeout")

    wrapped.before_read = fail
    with pytest.raises(CommitUnknownError):
        Committer(wrapped, schema(), "u").commit(1, [message([data_file("a")])])
    again = Committer(store, schema(), "u").commit(1, [message([data_file("b")])])
    assert not again.new
    assert [e.file.file_name for e in live_files(store, again.append)] == ["a"]


def test_a_failing_disk_fails_the_commit_and_leaves_nothing(tmp_path):
    store = open_store(tmp_path)

    def fail(path, create):
        raise StorageError("read-only file system")

    with pytest.raises(StorageError, match="read-only"):
        Committer(WrappedStore(store, fail), schema(), "u").commit(1, [message([data_file("a")])])
    assert [s.path for s in store.list(hidden=True)] == []


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(examples(10)))
def test_random_failures_never_double_or_lose_a_commit(seed):
    rng = random.Random(seed)
    store = open_store(f"memory://{uuid.uuid4().hex}")
    rival = Committer(store, schema(), "rival")
    made = [0]

    def unreliable(path, create):
        event = rng.random()
        if event < 0.2:
            made[0] += 1
            rival.commit(made[0], [message([data_file(f"r{made[0]}")])])
        if event < 0.4:
            raise StorageError("timeout")
        answer = create()
        if event < 0.6:
            raise StorageError("connection reset")
        return answer and event < 0.8

    committer = None
    for number in range(1, 16):
        flushed, compacted = data_file(f"a{number}"), data_file(f"b{number}", 5, number, number)
        while True:
            if committer is None or rng.random() < 0.2:
                wrapped = WrappedStore(store, unreliable, local=False)
                committer = Committer(wrapped, schema(), "u", rng=rng, sleep=lambda seconds: None)
            try:
                committer.commit(number, [message([flushed], [flushed], [compacted])])
                break
            except (CommitUnknownError, MissingFileError):
                committer = None
    files = {e.file.file_name for e in live_files(store, SnapshotStore(store).latest())}
    ours = {name for name in files if name[0] != "r"}
    assert ours == {f"b{n}" for n in range(1, 16)}
    assert files - ours == {f"r{n}" for n in range(1, made[0] + 1)}
    kinds = [
        (s.commit_identifier, s.commit_kind)
        for s in SnapshotStore(store).all()
        if s.commit_user == "u"
    ]
    assert kinds == [(n, kind) for n in range(1, 16) for kind in ("APPEND", "COMPACT")]
