"""Epochs take turns; one that hangs holds up no others."""

import threading

from pkray.relational.continuous.queries.workers.turns import Turns


def begun(turns: Turns) -> threading.Event:
    """Take a turn in a thread, and tell when it is there."""
    there = threading.Event()

    def take() -> None:
        with turns.taken():
            there.set()

    threading.Thread(target=take, daemon=True).start()
    return there


def test_an_epoch_waits_for_its_turn():
    turns = Turns(most=1, clock=lambda: 0.0)
    with turns.taken():
        there = begun(turns)
        assert not there.wait(0.1)
    assert there.wait(60)


def test_an_epoch_that_takes_long_holds_up_no_other():
    now = [0.0]
    turns = Turns(most=1, clock=lambda: now[0])
    with turns.taken():
        now[0] = 60.0
        assert begun(turns).wait(60)


def test_the_more_queries_there_are_the_rarer_each_looks():
    turns = Turns()
    with turns.joined():
        alone = turns.poll_seconds
        with turns.joined():
            assert turns.poll_seconds == 2 * alone
    assert turns.poll_seconds == 0
