"""Changes on their way leave less memory to states."""

import pytest

from pkray.relational.continuous.state.states import States
from pkray.service.hosted import Room

MB = 1 << 20


@pytest.fixture
def room() -> Room:
    return Room()


@pytest.fixture
def states(room):
    states = States(memory=100 * MB, room=room)
    yield states
    states.close()


def test_states_may_hold_what_changes_on_their_way_leave(states, room):
    with states.in_flight(10 * MB), states.in_flight(20 * MB):
        assert room.in_flight == 30 * MB
        assert states._memory == 70 * MB
    assert room.in_flight == 0
    assert states._memory == 100 * MB


def test_states_may_hold_half_in_any_case(states):
    with states.in_flight(90 * MB):
        assert states._memory == 50 * MB


def test_an_epoch_that_fails_leaves_nothing_in_flight(states, room):
    with pytest.raises(ZeroDivisionError), states.in_flight(MB):
        raise ZeroDivisionError
    assert room.in_flight == 0
