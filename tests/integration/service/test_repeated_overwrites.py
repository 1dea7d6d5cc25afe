"""Overwrites, drops and rescales whose answer is lost: they happen once, and name no lost file."""

import pytest

import pkray
from pkray.clock import now_millis
from pkray.errors import CommitConflictError, CommitUnknownError, ServiceUnavailableError
from pkray.expiration.expiry import SnapshotExpirer
from pkray.expiration.retention import Retention
from pkray.format.partition_filter import ExactPartitions
from pkray.metadata.commit_name import CommitToken
from pkray.metadata.live import live_files
from pkray.metadata.snapshots import SnapshotStore
from pkray.service.calls import CoordinatorClient
from pkray.service.client.overwrite import OverwriteWriter
from pkray.service.client.pusher import incoming
from pkray.service.protocol import OverwriteRequest

COLUMNS = [("p", "STRING"), ("id", "BIGINT"), ("v", "INT")]


def rows(part, *numbers, v=0):
    return [{"p": part, "id": number, "v": v} for number in numbers]


@pytest.fixture
def table(tmp_path):
    with pkray.connect(tmp_path) as catalog:
        made = catalog.create_table("db.t", COLUMNS, ["p", "id"], ["p"], {"bucket": "2"})
        made.upsert(rows("a", 1, 2) + rows("b", 1), commit_user="first")
        yield made


def content(table):
    return sorted((row["p"], row["id"], row["v"]) for row in table.to_arrow().to_pylist())


def missing_files(table):
    latest = table.latest_snapshot()
    named = {entry.file.file_name for entry in live_files(table._store, latest)}
    return named - {status.path.rsplit("/", 1)[1] for status in table._store.list("")}


def commits(table):
    return [(s["commit_kind"], s["snapshot_id"]) for s in table.snapshots().to_pylist()]


def lose_answer(table, before_it=lambda: None, error=ServiceUnavailableError):
    """The next overwrite happens, then something else, and nobody is told."""
    coordinator, left = table._service().coordinator, [1]

    def call_once(method, *args, **kwargs):
        answer = coordinator.handle.call(method, *args, **kwargs)
        if method is CoordinatorClient.overwrite and left[0]:
            left[0] -= 1
            before_it()
            raise error("no answer")
        return answer

    coordinator.handle.call_once = call_once


@pytest.mark.parametrize("error", [ServiceUnavailableError, CommitUnknownError])
def test_an_overwrite_that_was_not_answered_happens_once(table, error):
    def upsert():
        table.upsert(rows("a", 9), commit_user="other")

    lose_answer(table, upsert, error)
    assert table.overwrite(rows("a", 3, v=1)).commit_kind == "OVERWRITE"
    assert content(table) == [("a", 3, 1), ("a", 9, 0), ("b", 1, 0)]
    assert commits(table) == [("APPEND", 1), ("OVERWRITE", 2), ("APPEND", 3)]


def test_an_overwrite_that_was_rolled_back_unanswered_is_written_anew(table):
    lose_answer(table, lambda: table.rollback_to(1))
    table.overwrite(rows("a", 3, v=1))
    assert content(table) == [("a", 3, 1), ("b", 1, 0)]
    assert missing_files(table) == set()
    assert commits(table) == [("APPEND", 1), ("OVERWRITE", 2)]


@pytest.mark.parametrize("action", ["nothing", "rollback"])
def test_a_rescale_that_was_not_answered_happens_once(table, action):
    lose_answer(table, lambda: action == "nothing" or table.rollback_to(1))
    before = content(table)
    table.rescale(3)
    assert content(table) == before
    assert missing_files(table) == set()
    overwrites = [kind for kind, _ in commits(table)].count("OVERWRITE")
    assert overwrites == 2, "one a partition"


def written(table, data):
    writer = OverwriteWriter(table._store, table.schema, now_millis)
    return writer.write(list(incoming(data, table.schema)))


@pytest.mark.parametrize("name", [0, CommitToken("mine", now_millis())])
def test_a_message_that_comes_again_after_a_rollback_names_no_lost_file(table, name):
    coordinator = table._service().coordinator
    messages = written(table, rows("a", 3))
    replaced = ExactPartitions(frozenset(message.partition for message in messages))
    coordinator.overwrite(OverwriteRequest("mine", name, messages, replaced))
    table.rollback_to(1)
    with pytest.raises(CommitConflictError, match=r"do not exist, .* the table was rolled back"):
        coordinator.overwrite(OverwriteRequest("mine", name, messages, replaced))
    assert commits(table) == [("APPEND", 1)]
    assert content(table) == [("a", 1, 0), ("a", 2, 0), ("b", 1, 0)]


def test_a_drop_that_a_killed_coordinator_may_have_done_is_not_guessed(table, tmp_path):
    """Its snapshot has expired: done again, it would take newer rows along."""
    begun = now_millis() - 1000
    everything = ExactPartitions(frozenset(e.partition for e in entries(table)))
    request = OverwriteRequest("mine", CommitToken("uuid", begun), (), everything)
    assert table._service().coordinator.overwrite(request).new
    table.upsert(rows("a", 9), commit_user="other")
    assert not begun_anew(tmp_path, request).new
    SnapshotExpirer(table._store, lambda: table.schema).expire(Retention(1, 1, 0, 100))
    with pytest.raises(CommitUnknownError, match="have expired"):
        begun_anew(tmp_path, request)
    assert content(table) == [("a", 9, 0)]


def begun_anew(warehouse, request):
    """What a coordinator that has just begun answers."""
    with pkray.connect(warehouse) as catalog:
        service = catalog.load_table("db.t")._service()
        return service.coordinator.overwrite(request)


def entries(table):
    return live_files(table._store, SnapshotStore(table._store).latest())
