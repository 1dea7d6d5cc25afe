"""Members in other processes, which may be stopped."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

import pytest

from pkray.errors import ServiceUnavailableError
from pkray.relational.continuous.exchange import mailbox
from pkray.relational.continuous.exchange.mailbox import Letter
from pkray.relational.continuous.log.log import EpochRecord
from pkray.relational.continuous.parallel import team as team_module
from pkray.relational.continuous.parallel.hosted_team import HostedHandle, HostedTeams, Post
from pkray.relational.continuous.parallel.team import Team
from pkray.service.hosted import WorkLostError


class Cluster:
    """A process that answers, until it is stopped; and what became of it."""

    silent_seconds = 60.0

    def __init__(self) -> None:
        self.now = 0.0
        self.is_stopped = False
        self.replaced: list[str] = []

    def caller(self, name: str) -> Cluster:
        return self

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        answer: Future[Any] = Future()
        if not self.is_stopped and method in ("status", "join"):
            answer.set_result(None)
        return answer

    def replace(self, name: str) -> None:
        self.replaced.append(name)

    def handle(self) -> HostedHandle:
        return HostedHandle(self, "q/1", lambda: self.now)  # type: ignore[arg-type] # of its methods these


def test_a_member_that_works_for_long_and_answers_is_left_alone() -> None:
    cluster = Cluster()
    handle = cluster.handle()
    for cluster.now in range(1000):
        handle.check(is_starting=False)
    assert cluster.replaced == []


def test_a_member_that_is_silent_for_too_long_is_begun_anew() -> None:
    cluster = Cluster()
    handle = cluster.handle()
    handle.check(is_starting=False)
    cluster.is_stopped = True
    for cluster.now in range(1, 61):
        handle.check(is_starting=False)
    cluster.now = 61
    with pytest.raises(ServiceUnavailableError, match=r"q/1 has not answered for 60 s"):
        handle.check(is_starting=False)
    assert cluster.replaced == ["q/1"]


def test_a_member_that_may_be_starting_is_waited_for_longer() -> None:
    cluster = Cluster()
    cluster.is_stopped = True
    handle = cluster.handle()
    for cluster.now in range(107):
        handle.check(is_starting=True)
    cluster.now = 110
    with pytest.raises(ServiceUnavailableError):
        handle.check(is_starting=True)
    assert cluster.replaced == ["q/1"]


class Moving:
    """A pool whose member is not where it was: two calls go where it was."""

    def __init__(self) -> None:
        self.calls = 0
        self.delivered: list[Letter] = []
        self.has_come = threading.Event()

    def caller(self, name: str) -> Moving:
        return self

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        answer: Future[Any] = Future()
        self.calls += 1
        if self.calls <= 2:
            answer.set_exception(ServiceUnavailableError("it is elsewhere"))
        else:
            self.delivered += arguments
            answer.set_result(None)
            self.has_come.set()
        return answer


def test_a_letter_to_a_worker_that_was_moved_is_sent_again() -> None:
    pool = Moving()
    letter = Letter(1, 2, 0, "content")
    post = Post(pool, "q")  # type: ignore[arg-type] # of its methods this
    post.send(1, letter)
    assert pool.has_come.wait(60)
    assert pool.delivered == [letter]


@pytest.fixture
def stopped(monkeypatch) -> tuple[Cluster, Team]:
    """A team whose member was stopped after it had begun an epoch."""
    monkeypatch.setattr(mailbox, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(team_module, "_LOOK_SECONDS", 0.001)
    cluster = Cluster()
    team = Team([cluster.handle()], 1, lambda to, letter: None)
    team.join()
    cluster.is_stopped = True
    cluster.silent_seconds = 0.0
    team.run(EpochRecord(0, {}, 0), ())
    return cluster, team


def test_the_first_worker_that_waits_for_letters_of_a_stopped_one_goes_on(stopped) -> None:
    cluster, team = stopped
    with pytest.raises(ServiceUnavailableError, match="begun anew"):
        team.mailbox.take(1, [1])
    assert cluster.replaced == ["q/1"]


def test_the_first_worker_that_waits_for_the_end_of_a_stopped_one_goes_on(stopped) -> None:
    cluster, team = stopped
    with pytest.raises(ServiceUnavailableError, match="begun anew"):
        team.finish()
    assert cluster.replaced == ["q/1"]


def test_a_run_that_follows_the_death_of_a_member_is_checked_first() -> None:
    cluster, checked = Cluster(), list[str]()
    teams = HostedTeams(
        cluster,  # type: ignore[arg-type] # of its methods these
        "q",
        lambda number, count: f"q/{number}",
        lambda: checked.append("checked"),
    )
    for error in (ServiceUnavailableError("away"), WorkLostError("q/1 is not there")):
        teams.open(2, 1).fail(error)
        assert checked == []
    teams.open(2, 2)
    assert checked == ["checked"]
