"""Turns of committers that share a machine."""

import pytest

from pkray.service.coordinator.commit_queue import CommitQueue


class Time:
    """A clock that goes on by sleeping alone, and looks on while somebody sleeps."""

    def __init__(self, look=lambda seconds: None):
        self.seconds = 0.0
        self.look = look

    def clock(self):
        return self.seconds

    def sleep(self, seconds):
        self.seconds += seconds
        self.look(self.seconds)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "lock")


def queue(path, time):
    return CommitQueue(path, time.clock, time.sleep)


def test_a_second_one_waits_until_the_first_has_ended(path):
    first = CommitQueue(path).turn()
    first.__enter__()
    time = Time(lambda seconds: seconds > 0.1 and first.__exit__(None, None, None))
    with queue(path, time).turn():
        assert 0.1 < time.seconds < 0.2


def test_nobody_waits_longer_than_five_seconds(path):
    time = Time()
    with CommitQueue(path).turn(), queue(path, time).turn():
        assert 5 <= time.seconds < 5.1


def test_a_turn_that_was_waited_for_in_vain_is_passed_from_then_on(path):
    time = Time()
    second = queue(path, time)
    with CommitQueue(path).turn():
        with second.turn():
            waited = time.seconds
        with second.turn():
            assert time.seconds == waited


def test_later_turns_are_waited_for_again(path):
    time = Time()
    second = queue(path, time)
    with CommitQueue(path).turn(), second.turn():
        waited = time.seconds
    with CommitQueue(path).turn(), second.turn():
        assert time.seconds > waited


def test_an_error_ends_the_turn(path):
    with pytest.raises(ZeroDivisionError), CommitQueue(path).turn():
        _ = 1 / 0
    time = Time()
    with queue(path, time).turn():
        assert time.seconds == 0


def test_where_no_file_can_be_made_nobody_waits(tmp_path):
    absent = str(tmp_path / "absent" / "lock")
    with CommitQueue(absent).turn(), CommitQueue(None).turn():
        pass
