"""When assigners look for the snapshots of others."""

import pytest

from pkray.service.assignment.snapshot_watch import PENDING_MILLIS, SnapshotWatch
from pkray.service.protocol import SessionId

MINE, OTHER = SessionId("mine", 1, 1), SessionId("other", 1, 1)


@pytest.fixture
def watch(clock):
    watch = SnapshotWatch(clock, 100)
    assert watch.is_due()
    with watch.looking():
        clock.now += 50
    return watch


def test_it_is_due_some_time_after_it_began_to_look(watch, clock):
    clock.now += 49
    assert not watch.is_due()
    clock.now += 1
    assert watch.is_due()


def test_a_look_that_fails_does_not_count(watch):
    watch.expire()
    with pytest.raises(OSError), watch.looking():
        raise OSError
    assert watch.is_due()


def test_it_is_due_at_once_where_that_is_asked(watch):
    watch.expire()
    assert watch.is_due()


def test_a_clock_that_was_set_back_does_not_end_it(watch, clock):
    clock.now -= 3_600_000
    assert watch.is_due()


def test_it_is_not_due_while_a_commit_is_under_way(watch, clock):
    watch.await_commit(MINE)
    clock.now += PENDING_MILLIS - 1
    watch.ended(OTHER)
    assert not watch.is_due()
    assert watch.is_awaited(MINE)
    watch.ended(MINE)
    assert watch.is_due()


@pytest.mark.parametrize("later", [PENDING_MILLIS, -1])
def test_a_commit_is_not_awaited_for_ever(watch, clock, later):
    watch.await_commit(MINE)
    watch.expire()
    clock.now += later
    assert watch.is_due()
    assert not watch.is_awaited(MINE)
