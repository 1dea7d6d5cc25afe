"""Calls that overtake each other begin in their caller's order."""

import itertools

import pytest

from pkray.service.pool.in_order import InOrder, Ticket


@pytest.fixture
def calls():
    """Calls that begin, and what has begun."""
    begun: list = []
    return InOrder(begun.append, most_callers=2), begun


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_calls_begin_in_their_order(calls, order):
    ordered, begun = calls
    waits = [ordered.arrive(Ticket("a", number), number) for number in order]
    assert begun == [0, 1, 2, 3]
    assert waits[-1] is False


def test_callers_do_not_wait_for_each_other(calls):
    ordered, begun = calls
    assert ordered.arrive(Ticket("a", 1), "a1")
    assert not ordered.arrive(Ticket("b", 0), "b0")
    assert begun == ["b0"]


def test_a_call_that_never_comes_is_not_waited_for_for_ever(calls):
    ordered, begun = calls
    ordered.arrive(Ticket("a", 1), "a1")
    ordered.arrive(Ticket("a", 3), "a3")
    ordered.skip("a")
    assert begun == ["a1"]
    ordered.skip("a")
    assert not ordered.arrive(Ticket("a", 0), "late")
    assert not ordered.arrive(Ticket("a", 4), "a4")
    assert begun == ["a1", "a3", "late", "a4"]


def test_of_too_many_callers_those_that_are_forgotten_lose_no_call(calls):
    ordered, begun = calls
    ordered.arrive(Ticket("a", 2), "a2")
    for caller in ("b", "c"):
        ordered.arrive(Ticket(caller, 0), caller)
    assert begun == ["b", "a2", "c"]
