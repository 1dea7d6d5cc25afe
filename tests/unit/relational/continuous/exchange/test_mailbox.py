"""Letters wait until they are taken, and nobody waits for ever."""

import threading

import pytest

from pkray.errors import EvaluationError, QueryFencedError, ServiceUnavailableError
from pkray.relational.continuous.exchange import mailbox as module
from pkray.relational.continuous.exchange.mailbox import Letter, Mailbox


def test_letters_come_in_the_order_of_the_senders() -> None:
    box = Mailbox(1)
    for sender in (2, 0):
        box.put(Letter(1, 5, sender, f"of {sender}"))
    assert box.take(5, [0, 2]) == ["of 0", "of 2"]


def test_letters_of_another_run_are_refused() -> None:
    with pytest.raises(QueryFencedError, match=r"run 1 .* run 2"):
        Mailbox(2).put(Letter(1, 0, 0, None))


def test_who_waits_is_told_of_an_error() -> None:
    box = Mailbox(1)
    threading.Timer(0.02, box.fail, [EvaluationError("1 / 0")]).start()
    with pytest.raises(EvaluationError, match="1 / 0"):
        box.take(1, [1])


def test_of_several_errors_the_first_counts() -> None:
    box = Mailbox(1)
    box.fail(EvaluationError("first"))
    box.fail(EvaluationError("second"))
    with pytest.raises(EvaluationError, match="first"):
        box.take(1, [1])


def test_a_wait_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.01)
    box = Mailbox(1)
    box.put(Letter(1, 1, 2, None))
    with pytest.raises(ServiceUnavailableError, match=r"workers \[1\]"):
        box.take(1, [1, 2])


def test_who_waits_looks_now_and_then_whether_others_are_there(monkeypatch) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.001)
    looks = iter([lambda: None, lambda: None, lambda: box.fail(EvaluationError("gone"))])
    box = Mailbox(1, lambda: next(looks)())
    with pytest.raises(EvaluationError, match="gone"):
        box.take(1, [1])
