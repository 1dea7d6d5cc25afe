"""A worker that is stopped and wakes, or is called under old numbers, answers nothing."""

import threading

import pytest

from pkray.errors import ServiceUnavailableError
from pkray.service.call_limits import DEFAULT_LIMITS
from pkray.service.calls import OwnerClient
from pkray.service.pool.assignments import LEASE_SECONDS, Assignments
from pkray.service.pool.calls import KeeperClient
from pkray.service.pool.host import PartHost
from pkray.service.pool.parts import COORDINATOR, HostedTable, MovedError, WorkerProcess
from pkray.service.pool.shared_executor import SharedExecutor
from pkray.storage.location import TableLocation

TABLE = HostedTable(TableLocation("/wh/db.db/t", "db.t"), 1, 30_000, DEFAULT_LIMITS)
PART = TABLE.part(0)
GENERATION = OwnerClient.newest_generation


class Keeper:
    """Carries calls to assignments, if it is there."""

    limits = DEFAULT_LIMITS

    def __init__(self, assignments):
        self.assignments = assignments
        self.is_there = True

    def call_once(self, method, *args):
        if not self.is_there:
            raise ServiceUnavailableError("no answer")
        return method.of(self.assignments)(*args)

    call = call_once


class Owner:
    """Answers its number, after what may happen meanwhile."""

    def __init__(self, number):
        self.number = number
        self.meanwhile = lambda: None
        self.closed = threading.Event()

    def newest_generation(self, user):
        self.meanwhile()
        return self.number

    def close(self):
        self.closed.set()


class Pool:
    """Workers of one pool, and their clock."""

    def __init__(self, count=2):
        self.now = 0.0
        self.assignments = Assignments(count, lambda: self.now, 0)
        self.keeper = Keeper(self.assignments)
        self.owners: dict = {}
        self.ended: list = []
        self.hosts = [self.host(number, f"process {number}") for number in range(count)]
        self.beat()

    def host(self, number, token):
        def make(held):
            return self.owners.setdefault(held.number, Owner(held.number))

        process, keeper = WorkerProcess(token, "node"), KeeperClient(self.keeper)
        ended = lambda: self.ended.append(token)  # noqa: E731
        return PartHost(number, process, keeper, make, ended, lambda: self.now)

    def beat(self, but=None):
        for host in self.hosts:
            if host is not but:
                host.beat()

    def locate(self):
        return self.assignments.locate(TABLE, 0)

    def take_over(self, stopped):
        """Give the part to the other worker, while the one that had it is stopped."""
        self.now += 2 * LEASE_SECONDS
        self.beat(but=stopped)
        return self.locate()


@pytest.fixture
def pool():
    return Pool()


@pytest.fixture
def first(pool):
    """The worker that has the part, under which number, and its owner."""
    given = pool.locate()
    host = pool.hosts[given.worker]
    assert host.call(PART, given.number, GENERATION, ("user",)) == given.number
    return host, given.number, pool.owners[given.number]


def test_a_part_is_made_once(pool, first):
    host, number, _ = first
    assert host.call(PART, number, GENERATION, ("user",)) == number
    assert list(pool.owners) == [number]


def test_a_worker_that_wakes_answers_no_caller_that_knows_its_old_number(pool, first):
    host, number, owner = first
    after = pool.take_over(host)
    with pytest.raises(MovedError):
        host.call(PART, number, GENERATION, ("user",))
    assert owner.closed.wait(120)
    assert pool.hosts[after.worker].call(PART, after.number, GENERATION, ("user",)) == after.number


def test_a_worker_that_is_stopped_within_a_call_does_not_answer_it(pool, first):
    host, number, owner = first
    owner.meanwhile = lambda: pool.take_over(host)
    with pytest.raises(MovedError):
        host.call(PART, number, GENERATION, ("user",))


def test_callers_of_an_old_place_are_told_the_new_one(pool, first):
    host, number, _ = first
    after = pool.take_over(host)
    with pytest.raises(MovedError):
        host.call(PART, number, GENERATION, ("user",))
    with pytest.raises(MovedError) as caught:
        host.call(PART, number, GENERATION, ("user",))
    assert caught.value.assignment == after


def test_a_worker_answers_only_under_the_newest_number(pool, first):
    host, number, owner = first
    pool.hosts[1 - host.worker].beat()
    pool.assignments.move(PART, number)
    pool.hosts.remove(host)  # so that the same one gets it again
    pool.now += 2 * LEASE_SECONDS
    host.beat()
    after = pool.locate()
    assert after.worker == host.worker
    assert host.call(PART, after.number, GENERATION, ("user",)) == after.number
    assert owner.closed.wait(120)
    with pytest.raises(MovedError) as caught:
        host.call(PART, number, GENERATION, ("user",))
    assert caught.value.assignment == after


def test_a_worker_without_a_keeper_answers_for_as_long_as_its_lease_lasts(pool, first):
    host, number, _ = first
    pool.keeper.is_there = False
    pool.now += LEASE_SECONDS / 2
    assert host.call(PART, number, GENERATION, ("user",)) == number
    pool.now += LEASE_SECONDS
    with pytest.raises(ServiceUnavailableError):
        host.call(PART, number, GENERATION, ("user",))
    pool.keeper.is_there = True
    assert host.call(PART, number, GENERATION, ("user",)) == number


def test_a_process_whose_place_another_one_has_ends(pool, first):
    host, number, _ = first
    pool.host(host.worker, "the next").beat()
    pool.now += 2 * LEASE_SECONDS
    with pytest.raises(ServiceUnavailableError):
        host.call(PART, number, GENERATION, ("user",))
    assert pool.ended == [host.process.token]


def test_a_part_that_is_dropped_is_closed_by_then(pool, first):
    host, number, owner = first
    pool.assignments.release(TABLE.location.fingerprint)
    host.drop(PART, number)
    assert owner.closed.is_set()
    with pytest.raises(MovedError):
        host.call(PART, number, GENERATION, ("user",))


def test_a_part_that_is_not_called_for_long_is_closed_and_opened_again(pool, first):
    host, number, owner = first
    for _ in range(1000):
        pool.now += 1
        pool.beat()
    assert owner.closed.wait(120)
    del pool.owners[number]
    assert host.call(PART, number, GENERATION, ("user",)) == number
    assert pool.locate().number == number


def test_a_commit_is_not_published_when_an_owner_has_moved_since_it_began(pool):
    given = pool.assignments.locate(TABLE, COORDINATOR)
    host, part = pool.hosts[given.worker], TABLE.part(COORDINATOR)
    host.call(part, given.number, GENERATION, ("user",))
    number = pool.locate().number
    begin = host.tenure(host._parts[part], lambda: {PART: number})
    check = begin()
    check()
    pool.assignments.move(PART, number)
    with pytest.raises(ServiceUnavailableError, match=r"owner 0 of table db\.t.*publishes nothing"):
        check()


def test_a_coordinator_that_wakes_publishes_nothing(pool):
    given = pool.assignments.locate(TABLE, COORDINATOR)
    host, part = pool.hosts[given.worker], TABLE.part(COORDINATOR)
    host.call(part, given.number, GENERATION, ("user",))
    check = host.tenure(host._parts[part], dict)()
    pool.now += 2 * LEASE_SECONDS
    pool.beat(but=host)
    assert pool.assignments.locate(TABLE, COORDINATOR).number > given.number
    with pytest.raises(MovedError):
        check()


def test_threads_that_are_shared_go_on_when_one_owner_leaves_them():
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as threads:
        one, other = SharedExecutor(threads), SharedExecutor(threads)
        ran = one.submit(lambda: 1)
        one.shutdown()
        assert ran.done()
        assert other.submit(lambda: 2).result() == 2
