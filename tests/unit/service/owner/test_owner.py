"""An owner and a coordinator, called directly: messages late, lost and delivered twice."""

from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest

from pkray import errors
from pkray.clock import now_millis
from pkray.commit.committer import Committer
from pkray.expiration.rollback import Rollback
from pkray.metadata.schemas import SchemaStore
from pkray.schema.table_schema import KIND, TableSchema
from pkray.service import protocol
from pkray.service.calls import OwnerClient
from pkray.service.client.routing import Router
from pkray.service.coordinator.committers import Committers
from pkray.service.coordinator.coordinator import Coordinator
from pkray.service.handles.local_handle import LocalHandle
from pkray.service.owner.owner import BucketOwner
from pkray.service.owner_settings import OwnerSettings
from pkray.storage.location import TableLocation

COLUMNS = pa.schema([("id", pa.int64()), ("v", pa.string())])


class Service:
    """One owner that can be restarted, and its coordinator."""

    options: ClassVar[dict[str, str]] = {}

    def __init__(self, folder):
        self.folder = folder
        self.location = TableLocation(f"{folder}/db.db/t", "db.t")
        self.schema = TableSchema.create(
            COLUMNS, ["id"], [], {"bucket": "2", **self.options}, None, 0
        )
        self.store = self.location.open()
        SchemaStore(self.store, "db.t").create(self.schema)
        self.router = Router(self.schema)
        self.starts = 0
        self.owner = OwnerClient(LocalHandle(None, "owner"))
        self.restart_owner()
        self.restart_coordinator()

    @staticmethod
    def clock():
        return now_millis()

    def restart_owner(self):
        self.starts += 1
        settings = OwnerSettings(0, 1, f"{self.folder}/local-{self.starts}")
        self.owner.handle.target = BucketOwner(self.location, settings, self.clock)

    def restart_coordinator(self):
        committers = Committers(self.location, now_millis)
        self.coordinator = Coordinator([self.owner], committers, now_millis)

    def push(self, session, index, rows, source=protocol.DRIVER, attempt=0):
        kinds = pa.array(np.zeros(len(rows), np.int8))
        batch = pa.record_batch(
            [pa.array(list(rows), pa.int64()), pa.array(list(rows.values())), kinds],
            names=["id", "v", KIND],
        )
        (routed,) = self.router.routing(batch).route(batch, 1).values()
        self.owner.push(protocol.Push(session, source, attempt, index, 0), routed)

    def commit(self, session, identifier, counts):
        reports = tuple(
            protocol.PushReport(source, attempt, 0, {0: count})
            for (source, attempt), count in counts.items()
        )
        return self.coordinator.commit(
            protocol.CommitRequest(session=session, name=identifier, reports=reports)
        )

    def content(self, visibility="committed", expected=()):
        keys = pa.record_batch({"id": pa.array(range(10), pa.int64())})
        positions = self.router.routing(keys).positions(1)
        found = {}
        for piece, rows in positions[0]:
            part = keys.take(pa.array(rows))
            slices = [type(piece)(piece.partition, piece.bucket, 0, len(rows))]
            asked = protocol.Lookup(part, slices, visibility, ["id", "v"], expected=expected)
            _, table, _ = self.owner.lookup(asked)
            pairs = zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True)
            found.update(pairs)
        return dict(sorted(found.items()))

    def written(self, user="job", source=protocol.DRIVER):
        """Begin a session that has pushed a batch."""
        session = self.coordinator.begin(user)
        self.push(session, 0, {1: "a"}, source)
        return session


def fixture_of(kind):
    @pytest.fixture
    def service(tmp_path):
        service = kind(tmp_path)
        yield service
        service.owner.close()
        service.owner.handle.close()

    return service


service = fixture_of(Service)


class TimedService(Service):
    """Its owner looks every second which leases have run out; time passes as it is told to."""

    now = 1_000_000

    def clock(self):
        return self.now

    def restart_owner(self):
        super().restart_owner()
        self.owner.handle.target.drop_abandoned()

    def pass_time(self, seconds):
        for _ in range(seconds):
            self.now += 1000
            self.owner.handle.target.drop_abandoned()


timed = fixture_of(TimedService)


def test_a_batch_delivered_three_times_changes_nothing(service):
    session = service.coordinator.begin("job")
    service.push(session, 0, {1: "old"})
    service.push(session, 1, {1: "new"})
    for _ in range(2):
        service.push(session, 0, {1: "old"})
    outcome = service.commit(session, 1, {(protocol.DRIVER, 0): 2})
    assert service.content() == {1: "new"}
    assert outcome.snapshot.total_record_count == 1


def test_a_task_batch_delivered_three_times_changes_nothing(service):
    session = service.coordinator.begin("job")
    for _ in range(3):
        service.push(session, 0, {1: "a"}, source=0)
        service.push(session, 1, {1: "b"}, source=0)
    service.commit(session, 1, {(0, 0): 2})
    assert service.content() == {1: "b"}


def test_only_the_reported_attempt_of_a_task_counts(service):
    session = service.coordinator.begin("job")
    service.push(session, 0, {1: "failed", 2: "failed"}, source=0, attempt=0)
    service.push(session, 0, {1: "good"}, source=0, attempt=1)
    service.commit(session, 1, {(0, 1): 1})
    assert service.content() == {1: "good"}


def test_staged_batches_are_not_seen_before_their_report(service):
    session = service.coordinator.begin("job")
    service.push(session, 0, {1: "staged"}, source=0)
    service.push(session, 0, {2: "written"})
    assert service.content("latest") == {2: "written"}


def test_the_same_commit_again_makes_no_snapshot(service):
    session = service.written()
    first = service.commit(session, 1, {(protocol.DRIVER, 0): 1})
    again = service.commit(session, 1, {(protocol.DRIVER, 0): 1})
    assert (first.new, again.new) == (True, False)
    assert first.snapshot == again.snapshot


def test_a_commit_whose_answer_was_lost_is_known_to_the_next_coordinator(service):
    session = service.written()
    first = service.commit(session, 1, {(protocol.DRIVER, 0): 1})
    service.restart_coordinator()
    again = service.commit(session, 1, {(protocol.DRIVER, 0): 1})
    assert (again.new, again.snapshot) == (False, first.snapshot)
    assert service.content() == {1: "a"}


def test_a_batch_of_a_committed_session_that_comes_late_is_dropped(service):
    session = service.written()
    service.commit(session, 1, {(protocol.DRIVER, 0): 1})
    service.push(session, 0, {1: "late"})
    assert service.content("latest") == {1: "a"}


def test_what_was_prepared_is_not_published_where_an_owner_was_replaced_meanwhile(service):
    moved = True

    def check():
        if moved:
            raise errors.ServiceUnavailableError("owner 0 is at another worker")

    committers = Committers(service.location, now_millis)
    service.coordinator = Coordinator([service.owner], committers, now_millis, tenure=lambda: check)
    session = service.written()
    with pytest.raises(errors.ServiceUnavailableError, match="another worker"):
        service.commit(session, 1, {(protocol.DRIVER, 0): 1})
    assert service.content() == {}
    moved = False
    assert service.commit(session, 1, {(protocol.DRIVER, 0): 1}).new
    assert service.content() == {1: "a"}


def test_a_restarted_owner_names_what_it_lost(service):
    session = service.written()
    service.restart_owner()
    with pytest.raises(errors.LostBatchesError) as caught:
        service.commit(session, 1, {(protocol.DRIVER, 0): 1})
    assert caught.value.sources == [protocol.DRIVER]
    service.push(session, 0, {1: "a"})
    service.commit(session, 1, {(protocol.DRIVER, 0): 1})
    assert service.content() == {1: "a"}


def test_a_gap_in_the_batches_is_refused(service):
    session = service.coordinator.begin("job")
    with pytest.raises(errors.LostBatchesError, match="0 was to come next"):
        service.push(session, 1, {1: "a"})


def test_a_restarted_owner_continues_sequence_numbers(service):
    for identifier, word in enumerate(["first", "second"]):
        session = service.coordinator.begin("job")
        service.push(session, 0, {1: word})
        service.commit(session, identifier, {(protocol.DRIVER, 0): 1})
        service.restart_owner()
    assert service.content() == {1: "second"}


def test_an_aborted_session_leaves_nothing(service):
    session = service.written()
    service.coordinator.abort(session)
    assert service.content("latest") == {}
    service.push(session, 0, {1: "late"})
    assert service.content("latest") == {}


def test_a_newer_writer_of_the_user_fences_the_older(service):
    old = service.coordinator.begin("job")
    service.push(old, 0, {1: "old"})
    new = service.coordinator.begin("job")
    service.push(new, 0, {1: "new"})
    with pytest.raises(errors.CommitFencedError, match="'job'"):
        service.push(old, 1, {1: "zombie"})
    with pytest.raises(errors.CommitFencedError, match="'job'"):
        service.commit(old, 1, {(protocol.DRIVER, 0): 1})
    service.commit(new, 1, {(protocol.DRIVER, 0): 1})
    assert service.content() == {1: "new"}


def test_writers_of_different_users_commit_apart(service):
    first, second = service.coordinator.begin("a"), service.coordinator.begin("b")
    service.push(first, 0, {1: "a", 3: "a"})
    service.push(second, 0, {1: "b", 2: "b"})
    service.commit(second, 1, {(protocol.DRIVER, 0): 1})
    assert service.content() == {1: "b", 2: "b"}
    service.commit(first, 1, {(protocol.DRIVER, 0): 1})
    assert service.content() == {1: "a", 2: "b", 3: "a"}


def test_an_owner_sees_what_another_process_committed(service, tmp_path):
    other = Committer(service.store, service.schema, "other")
    assert service.content() == {}
    session = service.written()
    service.commit(session, 1, {(protocol.DRIVER, 0): 1})
    other.commit(1, [])
    nothing = pa.record_batch({"id": pa.array([], pa.int64())})
    _, _, answered = service.owner.lookup(protocol.Lookup(nothing, [], "committed", ["id"]))
    assert answered == other.snapshots.latest_id()


def test_rows_of_a_writer_that_is_silent_for_a_lease_leave_latest_and_it_pushes_again(timed):
    silent = timed.written("silent")
    timed.pass_time(29)
    assert timed.content("latest") == {1: "a"}
    timed.pass_time(1)
    assert timed.content("latest") == {}
    with pytest.raises(errors.LostBatchesError):
        timed.push(silent, 1, {1: "more"})
    timed.push(silent, 0, {1: "a"})
    assert timed.content("latest") == {1: "a"}


def test_a_heartbeat_holds_the_rows_of_a_long_computation(timed):
    session = timed.written()
    for _ in range(5):
        timed.pass_time(20)
        assert timed.owner.heartbeat(session) == protocol.Holding(session, 1)
    timed.commit(session, 1, {(protocol.DRIVER, 0): 1})
    assert timed.content() == {1: "a"}


def test_tasks_batches_are_held_by_heartbeats_until_they_are_reported(timed):
    session = timed.written(source=0)
    timed.pass_time(20)
    timed.owner.heartbeat(session)
    timed.pass_time(20)
    timed.commit(session, 1, {(0, 0): 1})
    assert timed.content() == {1: "a"}


def test_tasks_batches_that_nobody_asks_for_are_let_go(timed):
    session = timed.written(source=0)
    timed.pass_time(31)
    assert timed.owner.stats().sessions == 0
    with pytest.raises(errors.LostBatchesError):
        timed.commit(session, 1, {(0, 0): 1})


def test_a_heartbeat_does_not_begin_a_session(timed):
    session = timed.coordinator.begin("job")
    assert timed.owner.heartbeat(session) == protocol.Holding(session, 0)
    assert timed.owner.stats().sessions == 0


def test_a_fenced_writer_learns_it_from_its_heartbeat(timed):
    old, new = timed.coordinator.begin("job"), timed.coordinator.begin("job")
    timed.push(new, 0, {1: "new"})
    with pytest.raises(errors.CommitFencedError, match="'job'"):
        timed.owner.heartbeat(old)


def test_a_commit_under_way_outlasts_the_lease_of_its_writer(timed):
    session = timed.written()
    timed.owner.prepare(session, protocol.PrepareRequest(0, {protocol.DRIVER: (0, 1)}))
    timed.pass_time(40)
    assert timed.content("latest") == {1: "a"}
    timed.pass_time(30)
    assert timed.content("latest") == {}


def test_files_of_a_commit_that_may_still_happen_stay_when_its_lease_runs_out(timed):
    session = timed.written()
    messages = timed.owner.prepare(session, protocol.PrepareRequest(0, {protocol.DRIVER: (0, 1)}))
    timed.pass_time(100)
    Committer(timed.store, timed.schema, "job").commit(1, messages)
    assert timed.content() == {1: "a"}


def test_time_in_which_the_owner_was_stopped_does_not_count(timed):
    timed.written()
    timed.pass_time(20)
    timed.now += 3_600_000
    timed.pass_time(29)
    assert timed.content("latest") == {1: "a"}


def test_a_lookup_that_expects_lost_rows_says_so(service):
    session = service.written()
    expected = [protocol.Holding(session, 1)]
    assert service.content("latest", expected) == {1: "a"}
    service.restart_owner()
    with pytest.raises(errors.LostBatchesError, match="'job' wrote are not here"):
        service.content("latest", expected)


def test_a_lookup_may_expect_rows_of_a_session_that_has_ended(service):
    session = service.written()
    service.commit(session, 1, {(protocol.DRIVER, 0): 1})
    assert service.content("latest", [protocol.Holding(session, 1)]) == {1: "a"}


def test_session_ids_order_by_generation_then_epoch():
    assert (
        protocol.SessionId("u", 1, 5)
        < protocol.SessionId("u", 2, 0)
        < protocol.SessionId("u", 2, 1)
    )


def test_a_new_writer_is_the_newest_though_the_clock_was_set_back(service):
    old = service.coordinator.begin("job")
    service.push(old, 0, {1: "old"})
    committers = Committers(service.location, now_millis)
    service.coordinator = Coordinator([service.owner], committers, lambda: 1_000)
    new = service.coordinator.begin("job")
    service.push(new, 0, {1: "new"})
    service.commit(new, 1, {(protocol.DRIVER, 0): 1})
    assert service.content() == {1: "new"}
    with pytest.raises(errors.CommitFencedError):
        service.commit(old, 2, {(protocol.DRIVER, 0): 1})


class ListingService(TimedService):
    """Its rows tell how often each was counted; one call of the owner's may lose its answer."""

    options: ClassVar[dict[str, str]] = {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "listagg",
    }

    def prepare(self, session, base=0, attempt_id="first"):
        wanted = protocol.PrepareRequest(base, {protocol.DRIVER: (0, 1)}, attempt_id=attempt_id)
        return self.owner.prepare(session, wanted)

    def lose(self, *methods):
        """The owner is not reached by these calls from now on."""
        for method in methods:
            setattr(self.owner.handle.target, method, lambda *_: False)

    def find(self, *methods):
        for method in methods:
            delattr(self.owner.handle.target, method)

    def fail_to_publish(self, user, error):
        """Have the next publication end by an error."""
        committer = self.coordinator._committers.for_user(user)

        def fail(*_, **__):
            del committer.commit
            raise error

        committer.commit = fail

    def contents(self):
        return self.content("committed"), self.content("latest")


listing = fixture_of(ListingService)


def test_a_lost_answer_to_prepare_is_given_again_file_by_file(listing):
    session = listing.written()
    assert listing.prepare(session) == listing.prepare(session)
    listing.commit(session, 1, {(protocol.DRIVER, 0): 1})
    assert listing.contents() == ({1: "a"}, {1: "a"})


def test_rows_prepared_for_a_coordinator_that_died_are_written_anew_for_the_next(listing):
    session = listing.written()
    (lost,) = listing.prepare(session)
    (again,) = listing.prepare(session, attempt_id="second")
    assert {f.file_name for f in lost.new_files}.isdisjoint(f.file_name for f in again.new_files)
    listing.commit(session, 1, {(protocol.DRIVER, 0): 1})
    assert listing.contents() == ({1: "a"}, {1: "a"})


def test_rows_whose_acknowledgement_was_lost_count_once(listing):
    session = listing.written()
    listing.lose("acknowledge")
    listing.commit(session, 1, {(protocol.DRIVER, 0): 1})
    listing.find("acknowledge")
    assert listing.contents() == ({1: "a"}, {1: "a"})
    listing.commit(listing.written("other"), 1, {(protocol.DRIVER, 0): 1})
    assert listing.contents() == ({1: "a,a"}, {1: "a,a"})


def test_a_failed_commit_whose_owner_was_not_told_is_repeated_and_counts_once(listing):
    session = listing.written()
    listing.lose("abort_prepare")
    listing.fail_to_publish("job", errors.CommitConflictError("another commit removed a file"))
    with pytest.raises(errors.CommitConflictError):
        listing.commit(session, 1, {(protocol.DRIVER, 0): 1})
    listing.find("abort_prepare")
    assert listing.contents() == ({}, {1: "a"})
    listing.commit(session, 1, {(protocol.DRIVER, 0): 1})
    assert listing.contents() == ({1: "a"}, {1: "a"})


def test_rows_of_a_dropped_session_whose_owner_was_not_told_leave_latest_with_its_lease(listing):
    session = listing.written()
    listing.prepare(session)
    listing.lose("abort")
    listing.coordinator.abort(session)
    listing.find("abort")
    listing.pass_time(61)
    assert listing.contents() == ({}, {})


@pytest.mark.parametrize("happened", [True, False])
def test_rows_of_a_commit_of_which_nobody_knows_count_once(listing, happened):
    session = listing.written()
    if happened:
        Committer(listing.store, listing.schema, "job").commit(1, listing.prepare(session))
    else:
        listing.fail_to_publish("job", errors.CommitUnknownError("no answer"))
        with pytest.raises(errors.CommitUnknownError):
            listing.commit(session, 1, {(protocol.DRIVER, 0): 1})
    assert listing.content("latest") == {1: "a"}
    listing.now += 61_000
    assert listing.content("latest") == {1: "a"}
    listing.commit(session, 1, {(protocol.DRIVER, 0): 1})
    assert listing.content() == {1: "a"}


def test_rows_of_a_commit_that_was_rolled_back_unacknowledged_are_pushed_again(listing):
    listing.commit(listing.written("before"), 1, {(protocol.DRIVER, 0): 1})
    session = listing.written()
    listing.lose("acknowledge")
    listing.commit(session, 1, {(protocol.DRIVER, 0): 1})
    listing.find("acknowledge")
    assert listing.content("latest") == {1: "a,a"}
    Rollback(listing.store, listing.schema).to_snapshot(1)
    assert listing.contents() == ({1: "a"}, {1: "a"})
    with pytest.raises(errors.LostBatchesError):
        listing.push(session, 1, {1: "b"})


def test_a_restarted_owner_forgets_what_it_had_prepared_and_the_rows_come_again(listing):
    session = listing.written()
    listing.prepare(session)
    listing.restart_owner()
    with pytest.raises(errors.LostBatchesError):
        listing.commit(session, 1, {(protocol.DRIVER, 0): 1})
    listing.push(session, 0, {1: "a"})
    listing.commit(session, 1, {(protocol.DRIVER, 0): 1})
    assert listing.contents() == ({1: "a"}, {1: "a"})
