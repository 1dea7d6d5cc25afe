"""Runs one query in a thread of its own."""

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from statistics import fmean
from typing import Any, Protocol

from pkray import errors, spans
from pkray.clock import now_millis
from pkray.metrics.names import QUERY_EPOCH_SECONDS
from pkray.metrics.registry import REGISTRY, Meter
from pkray.relational.continuous.queries.definitions.options import Trigger
from pkray.relational.continuous.queries.definitions.query_store import Failure, failure_status
from pkray.relational.continuous.queries.workers.turns import Turns
from pkray.relational.continuous.run import Run

_log = logging.getLogger(__name__)

_LEAST_SECONDS = 5.0
"""Over which a share is taken: an epoch that takes longer than a second is no jump from 0 to 1."""
POLL_SECONDS = 0.02
"""Between two looks at sources that had nothing new."""
MOST_POLL_SECONDS = 1.0
"""Between two looks into an object store, which cost money: the pause doubles up to it. What this
process hears of meanwhile is read at once."""
LOOK_SECONDS = 1.0
"""Between two looks whether people, perhaps in other processes, want the query to stop."""
MOST_TRIES = 5
"""Runs in a row that fail before an epoch has ended: then somebody has to look."""
FIRST_PAUSE_SECONDS = 0.5
"""Before a run begins anew; doubled each time."""
STOP_SECONDS = 60.0
"""For how long stopping waits for the epoch that runs."""
_DELAYS = ("waiting", "computing", "committing")


class BusyShares:
    """Compares what operators have worked with the time that has passed.

    Attributes:
        shares: from 0 to 1, as the mean of the workers, by the operator's number; empty until
            enough time has passed.
        most: the same of the worker that works most.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.shares: dict[str, float] = {}
        self.most: dict[str, float] = {}
        self._clock = clock
        self._before: tuple[float, dict[str, list[float]]] | None = None

    def note(self, nodes: Sequence[Mapping[str, Any]]) -> None:
        """Look how long operators have worked by now.

        Args:
            nodes: as the status of a query has them: ``worker_seconds`` of each worker.
        """
        now, worked = self._clock(), {str(each["id"]): each["worker_seconds"] for each in nodes}
        if self._before is None:
            self._before = now, worked
            return
        since, before = self._before
        passed = now - since
        if passed < _LEAST_SECONDS:
            return
        self._before = now, worked
        shares = {
            each: [
                min(max(seconds - earlier, 0.0) / passed, 1.0)
                for seconds, earlier in zip_longest(of_workers, before.get(each, ()), fillvalue=0.0)
            ]
            for each, of_workers in worked.items()
        }
        self.shares = {each: round(fmean(found), 4) for each, found in shares.items()}
        self.most = {each: round(max(found), 4) for each, found in shares.items()}


class Upgrades(Protocol):
    """Lets another plan take over between two epochs."""

    def look(self) -> None:
        """See whether another plan is to take over; called every second."""

    def turn(self, run: Run) -> bool:
        """Whether it takes over now: then the run is over, and another begins."""

    def close(self) -> None:
        """Let go of what is under way."""


class QueryWorker:
    """Runs a query until it is stopped, fails or has nothing more to come.

    Args:
        name: of the query.
        open_run: opens a run on the newest checkpoint.
        on_failure: told why it stopped; gives it as it is remembered.
        on_look: told the status every second, and says whether people want the query to go on.
        upgrades: let other plans take over; None: there are none.
        check_current: raises a `QueryFencedError` where the query was dropped or begun anew.
        turns: of the epochs of all queries of this process; None: its epochs wait for none.
        meter: counts for the warehouse of the query.
    """

    def __init__(
        self,
        name: str,
        open_run: Callable[[], Run],
        trigger: Trigger,
        on_failure: Callable[[Failure], Failure],
        on_look: Callable[[dict[str, Any]], bool] = lambda _: True,
        upgrades: Upgrades | None = None,
        check_current: Callable[[], None] = lambda: None,
        turns: Turns | None = None,
        meter: Meter = REGISTRY,
    ) -> None:
        self.name = name
        self._open_run = open_run
        self._trigger = trigger
        self._on_failure = on_failure
        self._on_look = on_look
        self._upgrades = upgrades
        self._check_current = check_current
        self._turns = turns or Turns()
        self._meter = meter
        self._ended_by: errors.PkrayError | None = None
        self._looked = 0.0
        self._run: Run | None = None
        self._tries = 0
        self._reached = -1
        self._lag: tuple[dict[str, Any], dict[str, int]] = ({}, {})  # and the positions it was of
        self._untold: dict[str, dict[str, Any]] = {}
        self._busy = BusyShares()
        self._delay: dict[str, float] = {}
        self._split_at = -LOOK_SECONDS
        self._stopping = threading.Event()
        self._keeping = threading.Event()
        self._moved = threading.Condition()
        self._status: dict[str, Any] = {"epoch": -1, "sources": {}, "nodes": []}
        self._state = "starting"
        self._failure: Failure | None = None
        self._thread = threading.Thread(target=self._work, name=f"pkray-query-{name}", daemon=True)
        self._thread.start()

    def status(self) -> dict[str, Any]:
        """Say what it does: ``state``, ``failure``, ``epoch``, ``sources``, ``nodes``."""
        state = {"state": self._state, "process": os.getpid()}
        behind = {"lag": self._lag_now(), "untold": self._untold_now(), "delay": self._delay}
        busy = {"busy": self._busy.shares, "busiest": self._busy.most}
        return {**state, **behind, **busy, **failure_status(self._failure), **self._status}

    def _lag_now(self) -> dict[str, Any]:
        """Take what was read since off the lag that was last seen."""
        lag, seen = self._lag
        positions, left = self._status["sources"], {}
        for name, found in lag.items():
            before = max(seen.get(name, 0), 0)
            behind = max(found["snapshots"] - positions.get(name, before) + before, 0)
            left[name] = {"snapshots": behind, "seconds": found["seconds"] if behind else 0.0}
        return left

    def _untold_now(self) -> dict[str, dict[str, Any]]:
        """Leave out what was read since it was seen."""
        positions, seen = self._status["sources"], self._untold
        return {n: each for n, each in seen.items() if positions.get(n, 0) < each["snapshot"]}

    def _measure(self, run: Run) -> None:
        """See how far it is behind its sources."""
        seen = dict(run.positions)
        self._lag = run.feeds.lag(seen), seen
        self._untold = run.feeds.untold()
        self._busy.note(self._status["nodes"])

    def _split(self, run: Run, before: dict[str, int], seconds: float) -> None:
        """See on what the time went from a change of a source to its result; once a second, as it
        may cost a request.

        Args:
            before: positions before the epoch.
            seconds: that the epoch took.
        """
        if time.monotonic() - self._split_at < LOOK_SECONDS:
            return
        self._split_at = time.monotonic()
        with suppress(errors.PkrayError):  # such as snapshots that expire meanwhile
            lags = run.feeds.lag(before).values()
            waiting = max((each["seconds"] for each in lags), default=0.0) - seconds
            parts = (max(waiting, 0.0), seconds - run.commit_seconds, run.commit_seconds)
            self._delay = dict(zip(_DELAYS, (round(each, 3) for each in parts), strict=True))

    def wait(self, reached: Callable[[dict[str, Any]], bool], seconds: float) -> bool:
        """Wait until the status is as wanted; false where it takes longer, or has ended."""
        deadline = time.monotonic() + seconds
        with self._moved:
            while not reached(self._status):
                left = deadline - time.monotonic()
                if left <= 0 or not self.is_running:
                    return reached(self._status)
                self._moved.wait(min(left, 0.5))
        return True

    def look_soon(self) -> None:
        """See at once what people want, instead of within the next second."""
        self._looked = 0.0

    @property
    def is_running(self) -> bool:
        """Whether it may still do something."""
        return self._thread.is_alive()

    def keep(self, seconds: float = STOP_SECONDS) -> bool:
        """Write a checkpoint after the epoch that runs; false where it takes longer."""
        self._keeping.set()
        deadline = time.monotonic() + seconds
        while self._keeping.is_set() and self.is_running and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS / 2)
        return not self._keeping.is_set() or not self.is_running

    def stop(self, seconds: float = STOP_SECONDS) -> bool:
        """End after the epoch that runs, with a checkpoint; false where it takes longer."""
        self._stopping.set()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def close(self) -> None:
        """Stop, as its process or runtime ends."""
        self.stop()

    def _work(self) -> None:
        try:
            with spans.within(query=self.name), self._turns.joined():
                while (pause := self._runs_again()) is not None:
                    self._stopping.wait(pause)
        finally:
            upgrades, self._upgrades = self._upgrades, None
            if upgrades is not None:
                upgrades.close()
            if self._state != "fenced":  # then another run says what the query does
                self._looked = 0.0
                self._look()
            with self._moved:
                self._moved.notify_all()

    def _runs_again(self) -> float | None:
        """Run until it ends; give after how many seconds it begins anew on its newest checkpoint,
        None where it does not.
        """
        run: Run | None = None
        try:
            with self._turns.taken():
                run = self._run = self._open_run()
            self._show(run, "running")
            if self._loop(run):
                return 0.0
            run.checkpoint()
            with suppress(errors.PkrayError):
                self._measure(run)
            self._show(run, "ended" if run.is_ended or self._trigger.ends else "stopped")
        except Exception as error:
            if self._is_fenced(run, error):
                _log.warning("query %s: this run stops: %s", self.name, error)
                self._show(run, "fenced")
            elif passes(error) and self._stopping.is_set():
                _log.warning("query %s stops in an epoch that it does again: %s", self.name, error)
                self._show(run, "stopped")
            elif passes(error) and self._tries < MOST_TRIES:
                _log.warning("query %s begins anew on its newest checkpoint: %s", self.name, error)
                self._tries += 1
                return FIRST_PAUSE_SECONDS * 2 ** (self._tries - 1)
            else:
                self._fail(run, error)
        finally:
            self._run = None
            if run is not None:
                self._close(run)
        return None

    def _is_fenced(self, run: Run | None, error: Exception) -> bool:
        """Whether the query goes on elsewhere, or not at all: whatever this run met then, it is no
        failure of the query.

        A run that slept as it began fences the writers of a newer one when it wakes, and ends:
        the newer one, which nobody overtook, has to begin again.
        """
        is_cut_off = isinstance(error, errors.CommitFencedError)
        if isinstance(error, errors.QueryFencedError) or (run is None and is_cut_off):
            return True
        try:
            self._check_current()
            return run is not None and run.is_overtaken
        except errors.QueryFencedError:
            return True
        except errors.PkrayError:
            return is_cut_off

    def _close(self, run: Run) -> None:
        try:
            run.close()
        except errors.PkrayError as error:
            _log.warning("query %s: what it held is let go of late: %s", self.name, error)

    def _loop(self, run: Run) -> bool:
        """Run until it is to stop or nothing more comes; true: until another run takes over."""
        quiet = 0.0
        while not self._stopping.is_set():
            self._look()
            if self._ended_by is not None:
                raise self._ended_by
            self._keep(run)
            if run.is_outgrown:
                run.checkpoint()
                return True
            if self._upgrades is not None and self._upgrades.turn(run):
                return True
            begun = time.monotonic()
            is_filling = self._trigger.ends and run.is_filling
            before = dict(run.positions)
            with self._turns.taken():
                started = time.perf_counter()
                with spans.within(epoch=run.next_epoch):
                    has_moved = run.step()
            if has_moved:
                seconds = time.perf_counter() - started
                self._meter.observe(QUERY_EPOCH_SECONDS, seconds, self.name)
                self._split(run, before, seconds)
                self._note_reached(run.next_epoch)
                quiet = 0.0
                run.checkpoint_if_due()
                self._show(run, "running")
                self._wait(run, self._trigger.interval, begun)
            elif run.is_ended or (self._trigger.ends and not is_filling):
                break
            else:
                pause = max(POLL_SECONDS, self._turns.poll_seconds, self._trigger.interval)
                self._wait(run, pause, begun)
                if run.feeds.are_far:
                    self._listen(run, begun + quiet)
                    quiet = min(max(pause, 2 * quiet), MOST_POLL_SECONDS)
        return False

    def _note_reached(self, epoch: int) -> None:
        """Forget failed runs where this one has come further than they did."""
        if epoch > self._reached:
            self._reached, self._tries = epoch, 0

    def _keep(self, run: Run) -> None:
        """Write a checkpoint, if somebody waits for one."""
        if self._keeping.is_set():
            run.checkpoint()
            self._keeping.clear()

    def _wait(self, run: Run, interval: float, begun: float) -> None:
        """Wait for the next epoch, but look now and then."""
        until = begun + interval
        while not self._stopping.is_set() and (left := until - time.monotonic()) > 0:
            self._stopping.wait(min(left, LOOK_SECONDS))
            self._look()
            self._keep(run)

    def _listen(self, run: Run, until: float) -> None:
        """Wait for what this process hears of without a look into the stores."""
        while not self._stopping.is_set() and time.monotonic() < until:
            if run.feeds.have_heard():
                return
            self._stopping.wait(POLL_SECONDS)
            self._look()
            self._keep(run)

    def _look(self) -> None:
        """Say what it does, and hear whether it is to go on."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        try:
            if self._run is not None:
                self._run.check_not_followed()
                self._measure(self._run)
            if not self._on_look(self.status()):
                self._stopping.set()
            if self._upgrades is not None:
                self._upgrades.look()
        except (
            errors.QueryFencedError,
            errors.QueryDivergedError,
            errors.MissingFileError,
            errors.CorruptFileError,
        ) as error:
            self._ended_by = error
        except errors.PkrayError as error:
            _log.warning("query %s: its status is not written down: %s", self.name, error)

    def _show(self, run: Run | None, state: str) -> None:
        with self._moved:
            if run is not None:
                self._status = run.status()
            self._state = state
            self._moved.notify_all()

    def _fail(self, run: Run | None, error: Exception) -> None:
        if not isinstance(error, errors.PkrayError):
            _log.exception("query %s failed", self.name)
        epoch = run.next_epoch if run is not None else -1
        node = run.running_node if run is not None else None
        run_name = run.name if run is not None else ""
        failure = Failure(str(error), type(error).__name__, epoch, now_millis(), node, run=run_name)
        try:
            self._failure = self._on_failure(failure)
        except errors.QueryFencedError as fenced:
            _log.warning("query %s: this run stops: %s", self.name, fenced)
            self._show(run, "fenced")
            return
        except errors.PkrayError as second:
            self._failure = failure
            _log.warning("query %s: its failure is not written down: %s", self.name, second)
        with self._moved:
            self._state = "failed"
            self._moved.notify_all()


def passes(error: Exception) -> bool:
    """Whether an error may be gone when the query begins anew: storage and services come back."""
    if isinstance(
        error, errors.CorruptFileError | errors.MissingFileError | errors.SnapshotNotFoundError
    ):
        return False
    return isinstance(error, errors.StorageError | errors.ServiceError | errors.CommitError)
