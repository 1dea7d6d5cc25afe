"""Shares of time that operators work."""

import pytest

from pkray.relational.continuous.queries.workers.worker import BusyShares


def nodes(**seconds):
    """Name operators with the seconds that each worker has worked."""
    return [{"id": name, "worker_seconds": list(worked)} for name, worked in seconds.items()]


@pytest.fixture
def busy(clock):
    shares = BusyShares(clock)
    shares.note(nodes(a=[1.0], b=[0.0]))
    return shares


def test_nothing_is_said_before_enough_time_has_passed(busy, clock):
    clock.now += 4.9
    busy.note(nodes(a=[2.0], b=[0.0]))
    assert busy.shares == {}


def test_a_share_is_what_was_worked_since_the_last_look(busy, clock):
    clock.now += 10
    busy.note(nodes(a=[3.5], b=[0.0]))
    assert busy.shares == {"a": 0.25, "b": 0.0}


def test_several_workers_share_the_time(busy, clock):
    clock.now += 10
    busy.note(nodes(a=[6.0, 5.0], b=[10.0, 0.0]))
    assert busy.shares == {"a": 0.5, "b": 0.5}


def test_the_worker_that_works_most_is_told_apart(busy, clock):
    clock.now += 10
    busy.note(nodes(a=[6.0, 5.0], b=[9.0, 1.0]))
    assert busy.most == {"a": 0.5, "b": 0.9}


def test_an_operator_that_began_anew_is_not_negative(busy, clock):
    clock.now += 10
    busy.note(nodes(a=[0.5]))
    assert busy.shares == {"a": 0.0}


def test_an_operator_is_never_more_than_wholly_busy(busy, clock):
    clock.now += 10
    busy.note(nodes(a=[50.0]))
    assert busy.shares == {"a": 1.0}
