"""One process at a time changes a store of backups."""

import pytest

from pkray.backup.turns import LOST_MILLIS, Turn
from pkray.errors import BackupInUseError


def test_a_second_one_is_refused_and_told_why(store, clock):
    with Turn(store, "'one' is made", clock=clock):
        with pytest.raises(BackupInUseError, match="'one' is made; wait until it has ended"):
            Turn(store, "'two' is made", clock=clock)
    with Turn(store, "'two' is made", clock=clock):
        pass


def test_one_that_was_lost_is_passed_over(store, clock):
    lost = Turn(store, "'one' is made", clock=clock)
    clock.now += LOST_MILLIS
    with Turn(store, "'two' is made", clock=clock) as turn:
        with pytest.raises(BackupInUseError, match="'two' is made"):
            lost.check()
        turn.check()
    lost.__exit__(None, None, None)
    with Turn(store, "'three' is made", clock=clock) as turn:
        turn.check()


def test_old_turns_leave_few_files(store, clock):
    for number in range(30):
        with Turn(store, f"{number} is made", clock=clock):
            pass
    assert len(list(store.list("turns/"))) <= 3
