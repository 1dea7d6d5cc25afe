"""A query begins anew after what may pass, and stops at what does not."""

import itertools
import threading
import time
from typing import Any

import pytest

from pkray.errors import EvaluationError, QueryFencedError, ServiceUnavailableError
from pkray.relational.continuous.queries.definitions.options import Trigger
from pkray.relational.continuous.queries.workers import worker as module
from pkray.relational.continuous.queries.workers.worker import MOST_TRIES, QueryWorker
from tests.waiting import wait_until


class OneEpoch:
    """A run that has one epoch."""

    name = ""
    next_epoch = 0
    is_outgrown = is_overtaken = False
    running_node = None

    def __init__(self) -> None:
        self.positions: dict[str, int] = {}
        self.commit_seconds = 0.0
        self.is_ended = False

    class feeds:  # noqa: N801 - stands for an attribute
        are_far = False

        @staticmethod
        def lag(positions: dict[str, int]) -> dict[str, Any]:
            return {}

        @staticmethod
        def untold() -> dict[str, Any]:
            return {}

    def step(self) -> bool:
        first, self.is_ended = not self.is_ended, True
        return first

    def checkpoint(self) -> None: ...

    checkpoint_if_due = check_not_followed = checkpoint

    def close(self) -> None: ...

    def status(self) -> dict[str, Any]:
        return {"epoch": 0, "sources": {}, "nodes": []}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 0.0)


def state_after(errors: list[Exception]) -> tuple[str, list[str], list[Exception]]:
    failures: list[str] = []

    def opened() -> Any:
        if errors:
            raise errors.pop(0)
        return OneEpoch()

    worker = QueryWorker("q", opened, Trigger(), lambda failure: failures.append(failure.message))
    worker._thread.join(120)
    return worker.status()["state"], failures, errors


def test_it_begins_anew_while_a_service_is_away():
    errors: list[Exception] = [ServiceUnavailableError("away")] * 3
    assert state_after(list(errors)) == ("ended", [], [])


def test_it_gives_up_after_so_many_tries():
    errors: list[Exception] = [ServiceUnavailableError("away")] * 20
    state, failures, left = state_after(errors)
    assert (state, failures) == ("failed", ["away"])
    assert len(left) == 20 - MOST_TRIES - 1


def test_a_row_that_cannot_be_computed_stops_it_at_once():
    state, failures, left = state_after([EvaluationError("1 / 0"), EvaluationError("again")])
    assert (state, failures) == ("failed", ["1 / 0"])
    assert len(left) == 1


class Replaying(OneEpoch):
    """A run that does an epoch again, and then meets a service that is away."""

    def step(self) -> bool:
        if self.is_ended:
            raise ServiceUnavailableError("away")
        return super().step()


def test_an_epoch_that_is_done_again_does_not_make_it_try_for_ever():
    failures: list[str] = []
    runs: list[Replaying] = []

    def opened() -> Any:
        runs.append(Replaying())
        return runs[-1]

    worker = QueryWorker("q", opened, Trigger(), lambda failure: failures.append(failure.message))
    worker._thread.join(120)
    assert (worker.status()["state"], failures) == ("failed", ["away"])
    assert len(runs) == MOST_TRIES + 1


def test_a_service_that_is_away_as_it_stops_is_no_failure():
    failures: list[str] = []
    waiting, asked = threading.Event(), threading.Event()

    class Late(OneEpoch):
        def step(self) -> bool:
            waiting.set()
            asked.wait(120)
            raise ServiceUnavailableError("away")

    worker = QueryWorker("q", Late, Trigger(), lambda failure: failures.append(failure.message))
    waiting.wait(120)
    assert not worker.stop(0)
    asked.set()
    worker._thread.join(120)
    assert (worker.status()["state"], failures) == ("stopped", [])


class Behind(OneEpoch):
    """A run that reads all that it is behind by in one epoch, and waits then."""

    class feeds(OneEpoch.feeds):  # noqa: N801 - stands for an attribute
        @staticmethod
        def lag(positions: dict[str, int]) -> dict[str, Any]:
            return {"t": {"snapshots": 7 - positions["t"], "seconds": 3.0}}

    def __init__(self) -> None:
        super().__init__()
        self.positions = {"t": 5}

    def step(self) -> bool:
        moved, self.positions = self.positions != {"t": 7}, {"t": 7}
        return moved

    def status(self) -> dict[str, Any]:
        return {"epoch": 0, "sources": dict(self.positions), "nodes": []}


class Committing(Behind):
    def step(self) -> bool:
        moved, self.commit_seconds = super().step(), 0.25
        time.sleep(0.5)
        return moved


def test_time_from_a_change_to_its_result_is_split():
    worker = QueryWorker("q", Committing, Trigger(3600.0), lambda failure: failure)
    assert worker.wait(lambda status: status["sources"] == {"t": 7}, 120)
    delay = worker.status()["delay"]
    worker.stop(60)
    assert delay["committing"] == 0.25
    assert delay["computing"] >= 0.25
    assert delay["waiting"] == pytest.approx(max(3.0 - delay["computing"] - 0.25, 0), abs=0.01)


def test_what_was_read_is_no_lag_from_then_on():
    worker = QueryWorker("q", Behind, Trigger(3600.0), lambda failure: failure)
    assert worker.wait(lambda status: status["sources"] == {"t": 7}, 120)
    assert worker.status()["lag"] == {"t": {"snapshots": 0, "seconds": 0.0}}
    worker.stop()


def test_a_run_that_was_overtaken_says_nothing_over_what_the_next_one_says():
    said: list[str] = []

    def opened() -> Any:
        raise QueryFencedError("another run took over")

    def looked(status: dict[str, Any]) -> bool:
        said.append(status["state"])
        return True

    worker = QueryWorker("q", opened, Trigger(), lambda failure: failure, looked)
    worker._thread.join(120)
    assert (worker.status()["state"], said) == ("fenced", [])


class Far(OneEpoch):
    """A run that never has anything new, of which it hears once it has looked so often."""

    class feeds(OneEpoch.feeds):  # noqa: N801 - stands for an attribute
        are_far = True
        heard = False

        @classmethod
        def have_heard(cls) -> bool:
            return cls.heard

    def __init__(self) -> None:
        super().__init__()
        self.looks: list[float] = []

    def step(self) -> bool:
        self.looks.append(time.monotonic())
        return False


def test_looks_into_an_object_store_become_fewer(monkeypatch):
    monkeypatch.setattr(module, "MOST_POLL_SECONDS", 0.3)
    run = Far()
    worker = QueryWorker("q", lambda: run, Trigger(), lambda failure: None)
    wait_until(lambda: len(run.looks) >= 8)
    worker.stop(60)
    pauses = [after - before for before, after in itertools.pairwise(run.looks)]
    assert min(pauses[5:]) >= 0.3


def test_what_the_process_hears_of_is_read_without_a_pause(monkeypatch):
    monkeypatch.setattr(module, "MOST_POLL_SECONDS", 1000.0)
    run = Far()
    worker = QueryWorker("q", lambda: run, Trigger(), lambda failure: None)
    monkeypatch.setattr(Far.feeds, "heard", True)
    wait_until(lambda: len(run.looks) >= 20)
    worker.stop(60)
