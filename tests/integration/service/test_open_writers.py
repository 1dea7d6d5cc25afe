"""What `latest` lookups see of writers that are open, though owners restart."""

import gc
import threading
import time

import pyarrow as pa
import pytest

from pkray import errors
from pkray.clock import now_millis
from pkray.metadata.schemas import SchemaStore
from pkray.schema.table_schema import TableSchema
from pkray.service.calls import CoordinatorClient, OwnerClient
from pkray.service.client.lookup_client import Asked, LookupClient
from pkray.service.client.open_writers import OpenWriters
from pkray.service.client.push_session import PushSession, SpoolTarget
from pkray.service.client.table_service import TableService
from pkray.service.client.writer import TableWriter
from pkray.service.coordinator.committers import Committers
from pkray.service.coordinator.coordinator import Coordinator
from pkray.service.handles.local_handle import LocalHandle
from pkray.service.owner.owner import BucketOwner
from pkray.service.owner_settings import OwnerSettings
from pkray.storage.location import TableLocation
from tests.waiting import wait_until

COLUMNS = pa.schema([("id", pa.int64()), ("dt", pa.string()), ("v", pa.string())])
KEYS = {
    "fixed": (["id"], [], {"bucket": "4"}),
    "dynamic": (["id", "dt"], ["dt"], {"bucket": "-1", "dynamic-bucket.target-row-num": "2"}),
    "crossing": (["id"], ["dt"], {"bucket": "-1", "dynamic-bucket.target-row-num": "2"}),
}
NEVER, SOON = 3600.0, 0.02
LEASE_MILLIS = 30_000


class Service:
    """Two owners that can be restarted, and their coordinator.

    Args:
        kind: of `KEYS`.
        beat_seconds: of writers' heartbeats.
        clock: of the owners, in milliseconds.
    """

    def __init__(self, folder, kind="fixed", beat_seconds=NEVER, clock=now_millis, owners=2):
        self.folder, self.clock = folder, clock
        self.location = TableLocation(f"{folder}/db.db/t", "db.t")
        keys, partitions, options = KEYS[kind]
        self.schema = TableSchema.create(COLUMNS, keys, partitions, options)
        self.store = self.location.open()
        SchemaStore(self.store, "db.t").create(self.schema)
        self.starts = 0
        self.owners = [OwnerClient(self.new_handle()) for _ in range(owners)]
        self.restart()
        coordinator = Coordinator(self.owners, Committers(self.location, now_millis), now_millis)
        self.coordinator = CoordinatorClient(LocalHandle(coordinator, "coordinator"))
        self.writers = OpenWriters(beat_seconds)

    @staticmethod
    def new_handle():
        return LocalHandle(None, "owner")

    def restart(self, *which):
        for index in which or range(len(self.owners)):
            self.starts += 1
            folder = f"{self.folder}/local-{self.starts}"
            count = len(self.owners)
            settings = OwnerSettings(index, count, folder, lease_millis=LEASE_MILLIS)
            self.owners[index].handle.target = BucketOwner(
                self.location, settings, self.clock, peers=lambda: self.owners
            )

    def writer(self, user="job", keeps=True):
        return TableWriter(
            self.schema,
            TableService(
                self.coordinator,
                self.owners,
                None,
                retain_batch=(lambda batch: batch) if keeps else None,
                load_batch=lambda batch: batch,
                writers=self.writers,
            ),
            user,
        )

    def latest(self, here=True):
        """The rows by id, as the writers' process sees them or another one."""
        client = LookupClient(self.schema, self.owners, self.writers if here else None)
        keys = pa.table({"id": pa.array(range(9), pa.int64())})
        if "dt" in self.schema.primary_keys:
            keys = keys.append_column("dt", pa.array(["a"] * 9))
        rows = client.find(keys, Asked(COLUMNS, "latest")).to_pylist()
        prefixes = client.find_prefixes(keys, Asked(COLUMNS, "latest")).to_pylist()
        assert not here or sorted(map(str, rows)) == sorted(map(str, prefixes))
        return {row["id"]: row["v"] for row in rows}

    def elsewhere(self):
        return self.latest(here=False)

    def close(self):
        for owner in self.owners:
            owner.close()
            owner.handle.close()
        self.coordinator.handle.close()


@pytest.fixture
def service(tmp_path, request):
    kind, seconds = getattr(request, "param", ("fixed", NEVER))
    service = Service(tmp_path, kind, seconds)
    yield service
    service.close()


def rows(entries):
    return [{"id": key, "dt": "a", "v": v} for key, v in entries.items()]


class Clock:
    """Goes on when it is told to, by less than owners take for a sleep of their machine."""

    def __init__(self, monkeypatch):
        self.now = now_millis()
        self.heard = []
        plain = BucketOwner.heartbeat

        def heartbeat(owner, *given):
            self.heard.append(owner)
            return plain(owner, *given)

        monkeypatch.setattr(BucketOwner, "heartbeat", heartbeat)

    def __call__(self):
        return self.now

    def advance(self, service):
        """Go on by a third of a lease, and have owners look for those that have run out."""
        self.now += LEASE_MILLIS // 3
        for owner in service.owners:
            owner.handle.target.drop_abandoned()

    def await_heartbeats(self):
        """Wait for two of each owner: the second one began after this was called."""
        self.heard.clear()
        wait_until(lambda: len(self.heard) >= 4)


def heartbeats():
    return [each for each in threading.enumerate() if each.name == "pkray-heartbeat"]


every_kind = pytest.mark.parametrize("service", [(kind, NEVER) for kind in KEYS], indirect=True)
beating = pytest.mark.parametrize("service", [(kind, SOON) for kind in KEYS], indirect=True)


@every_kind
def test_lookups_beside_a_writer_see_its_rows_at_every_step_though_owners_restart(service):
    with service.writer() as writer:
        expected = {}
        for step in range(2):
            for entries in ({step: f"{step}a", 7: f"{step}"}, {step + 1: f"{step}b"}):
                writer.upsert(rows(entries))
                expected |= entries
                service.restart(step % 2)
                assert service.latest() == expected
            service.restart()
            assert service.latest() == expected
            writer.commit()
            assert service.latest() == expected
    assert service.elsewhere() == expected


@beating
def test_other_processes_see_the_rows_again_without_anybody_pushing(service):
    with service.writer() as writer:
        writer.upsert(rows({1: "a", 2: "b", 3: "c"}))
        for _ in range(3):
            service.restart()
            wait_until(lambda: service.elsewhere() == {1: "a", 2: "b", 3: "c"})
        writer.commit()
    assert service.elsewhere() == {1: "a", 2: "b", 3: "c"}


@every_kind
def test_a_writer_that_keeps_nothing_has_lookups_say_what_is_lost(service):
    with service.writer(keeps=False) as writer:
        writer.upsert(rows({1: "a"}))
        service.restart()
        with pytest.raises(errors.LostBatchesError, match=r"'job' wrote .* lost: call abort\(\)"):
            service.latest()
        writer.abort()
        assert service.latest() == {}


def test_rows_whose_commit_may_have_happened_are_not_pushed_again(service, monkeypatch):
    with service.writer() as writer:
        writer.upsert(rows({1: "a"}))
        plain = service.coordinator.handle.call

        def lost(method, *args):
            answer = plain(method, *args)
            if method is CoordinatorClient.commit:
                raise errors.ServiceUnavailableError("its answer is lost")
            return answer

        with monkeypatch.context() as patched:
            patched.setattr(service.coordinator.handle, "call", lost)
            patched.setattr("time.sleep", lambda _: None)
            with pytest.raises(errors.ServiceUnavailableError):
                writer.commit()
        service.restart()
        with pytest.raises(errors.CommitUnknownError, match="commit again as before"):
            service.latest()
        writer.commit()
        assert service.latest() == {1: "a"}


def test_the_older_of_two_writers_does_not_keep_lookups_from_answering(service):
    old = service.writer()
    old.upsert(rows({1: "old", 2: "old"}))
    with service.writer() as new:
        new.upsert(rows(dict.fromkeys(range(4), "new")))
        assert service.latest() == dict.fromkeys(range(4), "new")
        with pytest.raises(errors.CommitFencedError):
            old.upsert(rows({1: "older"}))
    old.close()


def test_an_aborted_writer_expects_nothing(service):
    with service.writer() as writer:
        writer.upsert(rows({1: "a"}))
        writer.abort()
        service.restart()
        assert service.latest() == {}


def test_rows_of_a_writer_that_was_let_go_leave_latest(tmp_path, monkeypatch):
    clock = Clock(monkeypatch)
    service = Service(tmp_path, beat_seconds=SOON, clock=clock)
    writer = service.writer()
    writer.upsert(rows({1: "a"}))
    for _ in range(6):
        clock.await_heartbeats()
        clock.advance(service)
    assert service.elsewhere() == {1: "a"}, "the heartbeat holds them"
    del writer

    def is_gone():
        clock.advance(service)
        return service.elsewhere() == {}

    wait_until(is_gone)
    service.close()


@pytest.mark.parametrize("service", [("fixed", SOON)], indirect=True)
def test_heartbeats_end_with_their_writer(service):
    others = set(heartbeats())  # of tests before, which end as they find out
    closed, dropped = service.writer("closed"), service.writer("dropped")
    for writer in (closed, dropped):
        writer.upsert(rows({1: "a"}))
    own = set(heartbeats()) - others
    assert len(own) == 2
    assert all(each.daemon for each in own)
    closed.close()
    del dropped, writer
    gc.collect()
    wait_until(lambda: not own & set(heartbeats()))


@pytest.mark.parametrize("service", [("fixed", SOON)], indirect=True)
def test_heartbeats_go_on_when_owners_come_back(service, monkeypatch):
    with service.writer() as writer:
        writer.upsert(rows({1: "a"}))
        for owner in service.owners:
            monkeypatch.setattr(owner.handle, "submit", unavailable)
        time.sleep(5 * SOON)
        monkeypatch.undo()
        service.restart()
        wait_until(lambda: service.elsewhere() == {1: "a"})


@pytest.mark.parametrize("service", [("fixed", SOON)], indirect=True)
def test_heartbeats_hold_rows_whose_push_took_longer_than_a_beat(service, monkeypatch):
    others = set(heartbeats())
    with service.writer() as writer:
        pusher = writer._session._pusher
        push = pusher.push_checked

        def push_late(batch):
            wait_until(lambda: set(heartbeats()) <= others)  # one that found nothing has ended
            return push(batch)

        monkeypatch.setattr(pusher, "push_checked", push_late)
        writer.upsert(rows({1: "a"}))
        service.restart()
        wait_until(lambda: service.elsewhere() == {1: "a"})


def test_an_owner_that_came_back_while_its_heartbeat_failed_is_asked_again_at_once(tmp_path):
    service = Service(tmp_path, beat_seconds=SOON)
    with service.writer() as writer:
        plain, failed = LocalHandle.submit, set()
        came_back = threading.Event()

        def submit(handle, method, *args):
            if method is OwnerClient.heartbeat and came_back.is_set() and handle not in failed:
                failed.add(handle)
                writer._session.stop()  # no other heartbeat comes
                unavailable(method)
            return plain(handle, method, *args)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(LocalHandle, "submit", submit)
            writer.upsert(rows({1: "a", 2: "b", 3: "c"}))
            service.restart()
            came_back.set()
            wait_until(lambda: service.elsewhere() == {1: "a", 2: "b", 3: "c"})
    service.close()


def test_a_writer_that_nobody_holds_goes_within_a_lock_of_the_open_ones(tmp_path):
    service = Service(tmp_path, beat_seconds=SOON)
    writer = service.writer()
    writer.upsert(rows({1: "a"}))
    writers, held = writer._session._writers, [writer]
    del writer

    def collect() -> None:
        with writers._lock:
            held.clear()
            gc.collect()

    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    thread.join(120)
    assert not thread.is_alive()
    assert writers.expected(0) == writers.expected(1) == ()
    service.close()


def unavailable(method, *_):
    raise errors.ServiceUnavailableError(f"{method.name} is not answered")


def test_the_driver_of_a_distributed_push_holds_what_tasks_have_left(tmp_path, monkeypatch):
    clock = Clock(monkeypatch)
    service = Service(tmp_path, clock=clock)
    others = set(heartbeats())
    session = service.coordinator.begin("tasks")
    target = SpoolTarget(f"{tmp_path}/spool", service.schema, 2, session)
    beating = TableService(service.coordinator, service.owners, None, writers=OpenWriters(SOON))
    push = PushSession(beating, session, 1, target, None)
    pusher = target.open(0, 0)
    pusher.push(rows({1: "a", 2: "b"}))
    report = pusher.finish()
    for owner, count in report.batches.items():  # as tasks do that reach the owners
        path = target.path(0, 0, owner)
        service.owners[owner].take_over(target.first(report.source, report.attempt), path, count)
    for _ in range(6):
        clock.await_heartbeats()
        clock.advance(service)
    push.commit([report])
    assert service.elsewhere() == {1: "a", 2: "b"}
    wait_until(lambda: set(heartbeats()) <= others)
    service.close()
