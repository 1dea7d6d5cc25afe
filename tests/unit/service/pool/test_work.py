"""Work goes to workers without being called, and to others at once when one seems dead."""

import pytest

from pkray.errors import EvaluationError, ServiceUnavailableError
from pkray.service.call_limits import DEFAULT_LIMITS
from pkray.service.hosted import Room
from pkray.service.pool.assignments import LEASE_SECONDS, Assignments
from pkray.service.pool.calls import KeeperClient, WorkClient
from pkray.service.pool.host import PartHost
from pkray.service.pool.parts import HostedWork, WorkerProcess
from pkray.service.pool.work import FENCED, Work
from tests.unit.service.pool import test_assignments
from tests.unit.service.pool.test_assignments import FIRST
from tests.unit.service.pool.test_host import Keeper


def named(name: str) -> HostedWork:
    return HostedWork(name, b"", DEFAULT_LIMITS)


class Workers(test_assignments.Workers):
    """Processes that open what is due, too."""

    def beat(self, seconds=0.0, stopped=()):
        self.stopped = set(stopped)
        super().beat(seconds)

    def renew(self, number, process):
        answer = super().renew(number, process)
        self.held[number].update(answer.due)
        return answer

    def at(self, name):
        return [number for number, held in self.held.items() if named(name).part() in held]

    def opened(self, *names):
        """Open work, and give who has the first of it."""
        for name in names:
            self.keeper.open(named(name))
        self.beat()
        self.beat()
        return self.at(names[0])[0]

    def hand_over(self, name):
        """Have who has work give it away, and not close it yet; give its part and number."""
        part = named(name).part()
        number = self.held[self.opened(name)].pop(part)
        self.keeper.ask_for({part: number})
        self.keeper.move(part, number)
        return part, number


@pytest.fixture
def workers():
    return Workers(2)


def test_work_is_spread_and_opened_without_a_call(workers):
    workers.opened("a", "b", "c", "d")
    assert [len(held) for held in workers.held.values()] == [2, 2]


def test_helpers_of_work_are_apart_from_it(workers):
    workers.opened("a", "b", "c", "a/1", "b/1", "c/1")
    assert all(workers.at(name) != workers.at(f"{name}/1") for name in ("a", "b", "c"))


def test_others_do_the_work_of_a_worker_that_seems_dead_at_once(workers):
    before = workers.opened("a")
    number = workers.held[before][named("a").part()]
    workers.keeper.suspect(before, workers.processes[before])
    workers.beat(stopped={before})
    (after,) = set(workers.at("a")) - {before}
    assert workers.held[after][named("a").part()] > number
    workers.beat()  # it lives, and learns that it has it no more
    assert workers.at("a") == [after]


def test_an_alarm_about_a_process_before_is_none(workers):
    at = workers.opened("a")
    workers.keeper.suspect(at, WorkerProcess("an older one", "node"))
    workers.beat()
    assert workers.at("a") == [at]


def test_others_do_the_work_of_a_stopped_worker_when_its_lease_has_run_out(workers):
    before = workers.opened("a")
    for _ in range(3):
        workers.beat(LEASE_SECONDS / 2, stopped={before})
    assert set(workers.at("a")) == {0, 1}
    workers.beat()
    assert workers.at("a") == [1 - before]


def test_work_that_was_ended_is_nowhere_and_is_not_begun_by_a_call(workers):
    workers.opened("a", "a/1", "ab")
    workers.keeper.release("a")
    workers.beat()
    assert [workers.at(name) == [] for name in ("a", "a/1", "ab")] == [True, True, False]
    with pytest.raises(ServiceUnavailableError, match="was ended"):
        workers.keeper.locate(named("a"), 0)


def test_a_silent_worker_is_told_of_once(workers):
    workers.beat(LEASE_SECONDS, stopped={1})
    assert workers.keeper.silent(60) == []
    workers.beat(80.0, stopped={1})
    workers.beat(80.0, stopped={1})
    assert [workers.keeper.silent(60), workers.keeper.silent(60)] == [[1], []]


class Made:
    """Work that says what it is told to say."""

    def __init__(self, state="running"):
        self.room = Room()
        self.state = state

    @property
    def is_running(self):
        return self.state == "running"

    def status(self):
        return {"state": self.state}

    def close(self):
        self.state = "stopped"


class Host:
    """One worker and its keeper."""

    def __init__(self, make):
        self.now = 0.0
        self.keeper = Keeper(Assignments(1, lambda: self.now, FIRST))
        process = WorkerProcess("process", "node")
        client = KeeperClient(self.keeper)
        self.host = PartHost(0, process, client, make, lambda: None, lambda: self.now)
        self.host.beat()
        self.keeper.assignments.open(named("a"))

    def call(self):
        given = self.keeper.assignments.locate(named("a"), 0)
        return self.host.call(named("a").part(), given.number, WorkClient.status)


def test_work_that_cannot_be_begun_is_given_up():
    def make(held):
        raise EvaluationError("no")

    pool = Host(make)
    with pytest.raises(ServiceUnavailableError, match="has ended"):
        pool.call()
    assert not pool.keeper.assignments.has("a")


def test_work_that_another_process_took_is_begun_anew():
    made = []

    def make(held):
        made.append(Made())
        return Work(lambda: made[-1])

    pool = Host(make)
    assert pool.call() == (True, {"state": "running"})
    made[0].state = FENCED
    pool.host.beat()
    pool.host.beat()
    assert pool.call() == (True, {"state": "running"})
    assert len(made) == 2


def test_a_keeper_that_knows_nothing_is_told_of_the_work():
    pool = Host(lambda held: Work(Made))
    pool.call()
    pool.host.beat()
    pool.keeper.assignments = Assignments(1, lambda: pool.now, 2 * FIRST)
    pool.host.beat()
    assert pool.keeper.assignments.has("a")


def test_work_that_has_ended_and_that_nobody_asks_for_is_hosted_no_more():
    made = Made()
    pool = Host(lambda held: Work(lambda: made))
    pool.call()
    made.state = "ended"
    pool.host.beat()
    assert pool.keeper.assignments.has("a")
    pool.now += 100.0
    pool.host.beat()
    assert not pool.keeper.assignments.has("a")


def test_work_that_is_handed_over_begins_elsewhere_when_it_is_closed(workers):
    part, number = workers.hand_over("a")
    workers.beat(LEASE_SECONDS / 2)
    assert workers.at("a") == []
    workers.keeper.dropped(part, number)
    workers.beat()
    assert len(workers.at("a")) == 1


def test_work_that_is_handed_over_and_never_closed_begins_elsewhere_after_the_lease(workers):
    workers.hand_over("a")
    for _ in range(4):
        workers.beat(LEASE_SECONDS / 2)
    assert len(workers.at("a")) == 1


def test_work_moves_to_a_worker_that_came_later_until_all_have_as_much(workers):
    names = [f"q{each}" for each in range(8)]
    workers.beat(stopped={1})
    workers.now += 3 * LEASE_SECONDS
    workers.beat(stopped={1})
    for name in names:
        workers.keeper.open(named(name))
    workers.beat(stopped={1})
    workers.beat(stopped={1})
    assert len(workers.held[0]) == 8
    workers.beat()
    for part, given in workers.keeper.misplaced(8).items():
        del workers.held[given.worker][part]
        workers.keeper.move(part, given.number)
        workers.keeper.dropped(part, given.number)
    workers.beat()
    assert [len(held) for held in workers.held.values()] == [4, 4]
    assert workers.keeper.misplaced(8) == {}


def test_what_is_in_flight_in_work_counts_as_what_it_holds():
    made = Made()
    made.room.used, made.room.in_flight = 5, 7
    assert Work(lambda: made).memory_bytes == 12
