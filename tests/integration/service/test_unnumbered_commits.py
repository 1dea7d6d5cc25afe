"""Writers that leave commit identifiers to pkray: beside each other, and after lost answers."""

from dataclasses import replace

import pytest
from compaction_samples import Process

import pkray
from pkray.errors import CommitFencedError, CommitUnknownError, ServiceUnavailableError
from pkray.expiration.expiry import SnapshotExpirer
from pkray.expiration.retention import Retention
from pkray.metadata.commit_name import CommitToken
from pkray.service.calls import CoordinatorClient
from pkray.service.client.writer import TableWriter

COLUMNS = [("id", "BIGINT"), ("n", "BIGINT")]
SUM = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}


def ones(*ids):
    return [{"id": each, "n": 1} for each in ids]


@pytest.fixture
def tables(tmp_path):
    """One table, as two processes hold it."""
    with pkray.connect(tmp_path) as first, pkray.connect(tmp_path) as second:
        created = first.create_table("db.t", COLUMNS, ["id"], options=SUM)
        yield created, second.load_table("db.t")


def lose_answers(writer, times=1):
    """Commits happen, and the writer is not told."""
    handle, left = writer._coordinator.handle, [times]
    plain = handle.call

    def call(method, *args):
        answer = plain(method, *args)
        if method is CoordinatorClient.commit and left[0]:
            left[0] -= 1
            raise CommitUnknownError("no answer")
        return answer

    handle.call = call


def test_two_processes_with_one_commit_user_one_after_another_lose_nothing(tables):
    for turn in range(4):
        with tables[turn % 2].open_writer("job") as writer:
            writer.upsert(ones(turn))
            assert writer.commit().commit_identifier == turn
    assert tables[0].to_arrow().to_pylist() == ones(0, 1, 2, 3)


def test_a_commit_that_was_not_answered_is_repeated_without_an_identifier(tables):
    with tables[0].open_writer("job") as writer:
        writer.upsert(ones(1))
        lose_answers(writer)
        with pytest.raises(CommitUnknownError):
            writer.commit()
        tables[1].upsert(ones(1), commit_user="job")
        assert writer.commit().id == 1
        writer.upsert(ones(1))
        with pytest.raises(CommitFencedError):
            writer.commit()
    assert tables[0].to_arrow().to_pylist() == [{"id": 1, "n": 2}]


@pytest.mark.parametrize("identifier", [None, 7])
def test_rows_that_a_repeated_commit_would_drop_are_not_taken(tables, identifier):
    with tables[0].open_writer("job") as writer:
        writer.upsert(ones(1))
        lose_answers(writer)
        with pytest.raises(CommitUnknownError):
            writer.commit(identifier)
        with pytest.raises(CommitUnknownError, match=r"commit\(7?\) again before anything else"):
            writer.upsert(ones(2))
        with pytest.raises(CommitUnknownError, match="again before anything else"):
            writer.commit(8)
        writer.commit(identifier)
        writer.upsert(ones(2))
        writer.commit()
    assert tables[0].to_arrow().to_pylist() == ones(1, 2)


@pytest.mark.parametrize("identifier", [None, 7])
def test_a_commit_that_was_rolled_back_unanswered_is_pushed_again(tables, monkeypatch, identifier):
    """Its session has ended at the owners, as they know it to be committed."""
    table, other = tables
    other.upsert(ones(1), commit_user="job")
    service = table._service()
    handle, left = service.coordinator.handle, [1]
    plain = handle.call

    def call(method, *args):
        answer = plain(method, *args)
        if method is CoordinatorClient.commit and left[0]:
            left[0] -= 1
            other.rollback_to(1)
            raise ServiceUnavailableError("it was killed")
        return answer

    monkeypatch.setattr(handle, "call", call)
    monkeypatch.setattr("time.sleep", lambda _: None)

    def itself(batch):
        return batch

    retaining = replace(service, retain_batch=itself, load_batch=itself)
    with TableWriter(table.schema, retaining, "job") as writer:
        writer.upsert(ones(2, 3))
        writer.commit(identifier)
        writer.upsert(ones(2))
        writer.commit()
    assert table.to_arrow().to_pylist() == [*ones(1), {"id": 2, "n": 2}, *ones(3)]


def test_an_abort_leaves_open_what_was_not_answered(tables):
    with tables[0].open_writer("job") as writer:
        writer.upsert(ones(1))
        lose_answers(writer)
        with pytest.raises(CommitUnknownError):
            writer.commit()
        writer.abort()
        writer.upsert(ones(2))
        writer.commit()
    assert tables[0].to_arrow().to_pylist() == ones(1, 2)


def test_a_restarted_coordinator_does_not_guess_what_expired_snapshots_held(tmp_path):
    now = [1000]
    process = Process(tmp_path, "a", lambda: now[0])
    process.commit({1: "old"})
    session = process.begin()
    process.write(session, {2: "new"})
    now[0] = 2000
    token = CommitToken("mine", 2000)
    process.finish(session, name=token)
    now[0] = 3000
    for number in range(3):
        process.commit({3: str(number)})
    process.restart()
    assert not process.finish(session, name=token).new
    SnapshotExpirer(process.store, lambda: process.schema).expire(Retention(1, 1, 0, 100))
    process.restart()
    with pytest.raises(CommitUnknownError, match="look for its rows"):
        process.finish(session, name=token)
    assert process.content() == {1: "old", 2: "new", 3: "2"}
    process.close()


def test_commit_users_without_number_leave_nothing_behind(tables):
    table = tables[0]
    table.upsert(ones(0), commit_user="first", commit_identifier=1)
    for number in range(1, 70):
        table.upsert(ones(number))
    (coordinator,) = table.service_stats()["coordinator"]
    assert coordinator["users"] <= 64
    with table.open_writer("first") as writer:
        writer.upsert(ones(0))
        assert writer.commit(commit_identifier=1).id == 1
    assert table.to_arrow(columns=["n"])["n"].to_pylist() == [1] * 70
