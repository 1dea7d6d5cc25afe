"""What clients list is what owners and coordinators have."""

import inspect
import pickle
import threading
from types import SimpleNamespace

import pytest

from pkray.errors import ServiceUnavailableError
from pkray.service.call_limits import CallLimits
from pkray.service.calls import CoordinatorClient, OwnerClient
from pkray.service.coordinator.coordinator import Coordinator
from pkray.service.handles import local_handle
from pkray.service.handles.handle import methods_of
from pkray.service.handles.local_handle import Job, Lane, LocalHandle
from pkray.service.owner.owner import BucketOwner
from pkray.service.pool.assignments import Assignments
from pkray.service.pool.calls import KeeperClient
from pkray.service.protocol import KeptBatch, RoutedBatch
from tests.waiting import wait_until

OF_ACTORS = {
    CoordinatorClient.greet,
    CoordinatorClient.start_owners,
    CoordinatorClient.owner_count,
    KeeperClient.drain_node,
    KeeperClient.hold,
}
LISTED = [
    pytest.param(method, kind, id=f"{client.__name__}.{method.name}")
    for client, kind in (
        (OwnerClient, BucketOwner),
        (CoordinatorClient, Coordinator),
        (KeeperClient, Assignments),
    )
    for method in methods_of(client)
    if method not in OF_ACTORS
]


def signature(function):
    found = inspect.signature(function, eval_str=True)
    kinds = {RoutedBatch | KeptBatch: RoutedBatch}  # what is kept arrives as a batch
    taken = [
        each.replace(annotation=kinds.get(each.annotation, each.annotation))
        for each in found.parameters.values()
    ]
    return found.replace(parameters=taken)


@pytest.mark.parametrize(("method", "kind"), LISTED)
def test_a_method_is_listed_with_the_arguments_and_the_result_that_it_has(method, kind):
    assert signature(method.stub) == signature(method.of(kind))


class Owner:
    """Writes that wait until they are let go, and other methods."""

    def __init__(self):
        self.gate, self.written = threading.Event(), []

    def push(self, push, batch):
        assert self.gate.wait(120)
        self.written.append(push)

    def heartbeat(self, session_id):
        return f"held {session_id}"

    def newest_generation(self, user):
        return 7

    def place(self, *, index):
        return index

    def lookup(self, asked):
        assert self.gate.wait(120)

    def compactions(self, wait=False):
        return len(self.written), wait


@pytest.fixture
def owner():
    client = OwnerClient(LocalHandle(Owner(), "owner"))
    yield client
    client.handle.target.gate.set()
    client.handle.close()


def test_what_is_not_ordered_waits_for_no_write(owner):
    pending = owner.push.submit("first", None)
    assert owner.heartbeat.submit("s").result() == owner.heartbeat("s") == "held s"
    owner.handle.target.gate.set()
    pending.result()


def test_lookups_that_hang_side_by_side_are_given_up_together(owner, monkeypatch):
    now = [0.0]

    def wait(job, seconds):
        now[0] += seconds
        return False

    monkeypatch.setattr(Job, "wait", wait)
    monkeypatch.setattr(local_handle, "time", SimpleNamespace(monotonic=lambda: now[0]))
    owner.handle.limits = CallLimits(call_seconds=600, lookup_seconds=100)
    for each in [owner.lookup.submit(None) for _ in range(30)]:
        with pytest.raises(ServiceUnavailableError, match="lookup_timeout"):
            each.result()
    assert 100 <= now[0] < 2000


def test_what_is_ordered_runs_after_what_was_submitted_before(owner):
    pending = [owner.push.submit(number, None) for number in range(20)]
    counted = owner.compactions.submit(wait=True)
    owner.handle.target.gate.set()
    assert counted.result() == (20, True)
    assert [each.result() for each in pending] == [None] * 20
    assert owner.handle.target.written == list(range(20))


def test_a_call_takes_arguments_by_name(owner):
    assert owner.place(index=3) == owner.place.once(index=3) == 3


def test_a_closed_callee_takes_no_more_calls():
    client = OwnerClient(LocalHandle(Owner(), "owner"))
    client.handle.close()
    with pytest.raises(ServiceUnavailableError, match="owner has ended"):
        client.heartbeat.submit("s")


def test_a_method_stays_itself_in_another_process():
    assert pickle.loads(pickle.dumps(OwnerClient.lookup)) is OwnerClient.lookup


def test_a_lane_runs_as_many_jobs_at_a_time_as_it_is_wide():
    lane, gate, running = Lane(2), threading.Event(), []

    def work(number):
        running.append(number)
        assert gate.wait(120)

    jobs = [Job(work, (number,)) for number in range(5)]
    for job in jobs:
        lane.add(job)
    wait_until(lambda: len(running) == 2)
    assert not jobs[0].wait(0.05)
    assert sorted(running) == [0, 1]
    gate.set()
    assert all(job.wait(120) for job in jobs)
    assert sorted(running) == [0, 1, 2, 3, 4]
