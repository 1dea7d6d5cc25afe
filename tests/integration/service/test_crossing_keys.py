"""Keys that cross partitions: messages late, lost and delivered twice, writers side by side."""

import pyarrow as pa
import pytest

from pkray.clock import now_millis
from pkray.errors import CommitConflictError, LostBatchesError, ServiceUnavailableError
from pkray.service.assignment.staged_pushes import StagingPusher
from pkray.service.calls import CoordinatorClient, OwnerClient
from pkray.service.client.lookup_client import Asked, LookupClient
from pkray.service.client.push_session import PushSession
from pkray.service.client.table_service import TableService
from pkray.service.coordinator.committers import Committers
from pkray.service.coordinator.coordinator import Coordinator
from pkray.service.handles.handle import Method
from pkray.service.handles.local_handle import LocalHandle
from pkray.service.protocol import first_push
from tests.integration.service import test_open_writers
from tests.integration.service.test_open_writers import COLUMNS

KEYS = pa.table({"id": pa.array(range(10), pa.int64())})


class LossyHandle(LocalHandle):
    """Loses the answers of methods, as often as it is told."""

    def __init__(self) -> None:
        super().__init__(None, "owner")
        self.lost: dict[Method, int] = {}

    def submit(self, method, *args):
        pending = super().submit(method, *args)
        if self.lost.get(method, 0):
            self.lost[method] -= 1
            pending.result()
            raise ServiceUnavailableError(f"the answer of {method.name} is lost")
        return pending


class Target:
    """Tasks stage their rows with the assigner, as on Ray."""

    stages_rows = True

    def __init__(self, service, session):
        self.service, self.session = service, session

    def open(self, source, attempt):
        schema = self.service.schema
        first = first_push(schema, self.session, source, attempt)
        return StagingPusher(schema, self.service.owners, first)


class Service(test_open_writers.Service):
    """Owners that can be restarted, and whose answers may be lost, and their coordinator."""

    new_handle = LossyHandle

    def __init__(self, folder, owners=2):
        super().__init__(folder, "crossing", owners=owners)

    def push(self, identifier):
        session = self.coordinator.begin("tasks")
        target = Target(self, session)
        return PushSession(
            TableService(self.coordinator, self.owners, None), session, identifier, target, None
        )

    def content(self, visibility="committed"):
        client = LookupClient(self.schema, self.owners)
        rows = client.find(KEYS, Asked(COLUMNS, visibility)).to_pylist()
        every = client.find_prefixes(KEYS, Asked(COLUMNS, visibility)).to_pylist()
        assert sorted(map(str, rows)) == sorted(map(str, every)), "a key is where nobody looks"
        return {row["id"]: (row["dt"], row["v"]) for row in rows}


@pytest.fixture
def service(tmp_path):
    service = Service(tmp_path)
    yield service
    service.close()


def rows(entries):
    return [{"id": key, "dt": dt, "v": v} for key, (dt, v) in entries.items()]


def commit(service, identifier, entries):
    with service.writer() as writer:
        writer.upsert(rows(entries))
        writer.commit(identifier)


def test_a_placement_whose_answer_is_lost_is_made_again(service):
    commit(service, 1, {1: ("a", "old"), 2: ("a", "old")})
    with service.writer() as writer:
        service.owners[0].handle.lost[OwnerClient.place] = 1
        writer.upsert(rows({1: ("b", "new")}))
        writer.commit(2)
    assert service.content() == {1: ("b", "new"), 2: ("a", "old")}


def test_a_placement_asked_for_twice_gets_the_same_answer(service):
    commit(service, 1, {1: ("a", "old")})
    writer = service.writer()
    call, asked = service.owners[0].handle.submit, []

    def twice(method, *args):
        if method is OwnerClient.place:
            asked.append(call(method, *args).result())
        return call(method, *args)

    service.owners[0].handle.submit = twice
    writer.upsert(rows({1: ("b", "new")}))
    service.owners[0].handle.submit = call
    writer.commit(2)
    assert len(asked) == 1
    assert service.content() == {1: ("b", "new")}


@pytest.mark.parametrize("index", [0, 1])
def test_an_owner_restarts_before_the_commit(service, index):
    commit(service, 1, dict.fromkeys(range(6), ("a", "old")))
    with service.writer() as writer:
        writer.upsert(rows(dict.fromkeys(range(3), ("b", "new"))))
        service.restart(index)
        writer.upsert(rows(dict.fromkeys(range(1, 4), ("c", "newer"))))
        service.restart(index)
        writer.commit(2)
    expected = {0: ("b", "new"), 4: ("a", "old"), 5: ("a", "old")}
    expected |= dict.fromkeys(range(1, 4), ("c", "newer"))
    assert service.content() == expected


def test_an_acknowledgement_that_is_lost_after_the_commit(service):
    commit(service, 1, {1: ("a", "old")})
    with service.writer() as writer:
        writer.upsert(rows({1: ("b", "new"), 2: ("b", "new")}))
        acknowledge = service.owners[0].handle.target.acknowledge

        def dead(*_):
            service.owners[0].handle.target.acknowledge = acknowledge
            raise ServiceUnavailableError("killed")

        service.owners[0].handle.target.acknowledge = dead
        writer.commit(2)
    commit(service, 3, {1: ("c", "newest"), 2: ("a", "newest")})
    assert service.content() == {1: ("c", "newest"), 2: ("a", "newest")}


def test_of_two_writers_of_a_key_the_second_to_commit_fails(service):
    commit(service, 1, {1: ("a", "old"), 2: ("a", "old")})
    with service.writer("one") as one, service.writer("two") as two:
        one.upsert(rows({1: ("b", "one")}))
        two.upsert(rows({1: ("a", "two")}))
        one.commit(1)
        with pytest.raises(CommitConflictError, match="where keys are"):
            two.commit(1)
        two.abort()
        two.upsert(rows({1: ("a", "two")}))
        two.commit(1)
    assert service.content() == {1: ("a", "two"), 2: ("a", "old")}


def test_two_writers_of_other_keys_go_side_by_side(service):
    with service.writer("one") as one, service.writer("two") as two:
        one.upsert(rows({1: ("a", "one"), 2: ("b", "one")}))
        two.upsert(rows({3: ("a", "two")}))
        assert sorted(service.content("latest")) == [1, 2, 3]
        one.commit(1)
        two.commit(1)
    assert service.content() == {1: ("a", "one"), 2: ("b", "one"), 3: ("a", "two")}


def test_another_process_that_adds_rows_is_noticed(service, tmp_path):
    commit(service, 1, {1: ("a", "old")})
    rival = Service.__new__(Service)
    rival.__dict__.update(service.__dict__)
    rival.owners = [OwnerClient(LossyHandle()) for _ in service.owners]
    for index in range(len(rival.owners)):
        rival.starts = 100 + index
        rival.restart(index)
    committers = Committers(service.location, now_millis)
    coordinator = Coordinator(rival.owners, committers, now_millis)
    rival.coordinator = CoordinatorClient(LocalHandle(coordinator, "rival"))
    with service.writer("ours", keeps=False) as ours:
        ours.upsert(rows({1: ("b", "ours"), 2: ("b", "ours")}))
        commit(rival, 2, {1: ("c", "theirs"), 3: ("a", "theirs")})
        with pytest.raises(CommitConflictError):
            ours.commit(1)
        ours.abort()
        ours.upsert(rows({1: ("b", "ours"), 2: ("b", "ours")}))
        ours.commit(1)
    expected = {1: ("b", "ours"), 2: ("b", "ours"), 3: ("a", "theirs")}
    assert service.content() == rival.content() == expected
    rival.close()


def stage(session, tasks):
    """What each task's attempt (source, attempt) pushes; the reports of those that count."""
    reports = {}
    for (source, attempt), entries in tasks.items():
        pusher = session.target().open(source, attempt)
        pusher.push(rows(entries))
        reports[source] = pusher.finish()
    return list(reports.values())


def test_tasks_rows_are_taken_in_their_order_and_failed_attempts_are_not(service):
    commit(service, 1, dict.fromkeys(range(4), ("a", "old")))
    session = service.push(2)
    reports = stage(
        session,
        {
            (1, 0): {0: ("c", "second"), 1: ("c", "second")},
            (0, 0): {1: ("d", "failed"), 5: ("d", "failed")},
            (0, 1): {1: ("b", "first"), 2: ("b", "first")},
        },
    )
    session.commit(reports[::-1])
    expected = {0: ("c", "second"), 1: ("c", "second"), 2: ("b", "first"), 3: ("a", "old")}
    assert service.content() == expected


def test_staged_rows_are_placed_once_however_often_that_is_asked(service):
    commit(service, 1, {1: ("a", "old")})
    session = service.push(2)
    reports = stage(session, {(0, 0): {1: ("b", "new")}})
    session._place_staged(reports)
    session.commit(reports)
    assert service.content() == {1: ("b", "new")}


def test_an_assigner_that_restarts_has_lost_what_was_staged(service):
    session = service.push(1)
    reports = stage(session, {(0, 0): {1: ("b", "new")}})
    service.restart(0)
    with pytest.raises(LostBatchesError):
        session.commit(reports)
    session.abort()
    again = service.push(1)
    again.commit(stage(again, {(0, 0): {1: ("b", "new")}}))
    assert service.content() == {1: ("b", "new")}
