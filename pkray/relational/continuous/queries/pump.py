"""Writes the epochs of a stream into a spool, from which another process reads them."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterator

import pyarrow as pa

from pkray.relational.continuous.outlets.outlets import EPOCH
from pkray.storage.spool import Feeder, FeederState, Spool

_AHEAD = 8
"""Epochs that wait to be read: enough that neither side waits for the other, few enough that what
lies in between stays small."""
_LOOK_SECONDS = 0.05
"""Between two looks whether epochs were read, or the sources have something new."""


class Pump:
    """Takes epochs and writes each into a batch of a spool, once: its writer is its number.

    Args:
        poll: gives the next epoch; None where there is none now.
        has_ended: whether none comes any more.
        runs_ahead: whether it does not wait until what it wrote is read.
    """

    def __init__(
        self,
        spool: Spool,
        poll: Callable[[], pa.RecordBatch | None],
        has_ended: Callable[[], bool],
        *,
        runs_ahead: bool = False,
    ) -> None:
        self._spool = spool
        self._poll = poll
        self._has_ended = has_ended
        self._runs_ahead = runs_ahead
        self._name = uuid.uuid4().hex
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        newest = spool.batch(spool.count() - 1)
        self._last = -1 if newest is None else int(newest.writer)
        self._say("running")

    def start(self) -> None:
        """Go on in a thread until it is stopped, fails, or none comes any more."""
        self._thread = threading.Thread(target=self._work, name="pkray-epochs", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        with contextlib.suppress(Exception):  # the reader is told
            self.run()

    def run(self) -> None:
        """Go on until it is stopped, fails, or none comes any more; the spool says which."""
        try:
            for epoch in self._epochs():
                self._write(epoch)
        except Exception as error:
            self._say("failed", str(error))
            raise
        self._say("stopped" if self._stopping.is_set() else "ended")

    def stop(self) -> None:
        """End it after the epoch that is computed."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _epochs(self) -> Iterator[pa.RecordBatch]:
        while not self._stopping.is_set():
            epoch = None if self._is_full() else self._poll()
            if epoch is not None:
                yield epoch
            elif self._has_ended():
                return
            else:
                self._stopping.wait(_LOOK_SECONDS)

    def _is_full(self) -> bool:
        return not self._runs_ahead and self._spool.count() - self._spool.first() > _AHEAD

    def _write(self, epoch: pa.RecordBatch) -> None:
        number = int(epoch.column(EPOCH)[0].as_py())
        if number <= self._last:
            return  # it comes again after a crash
        place = self._spool.count()
        file = self._spool.write_file(place, epoch.schema, [epoch])
        self._spool.add(place, [file] if file else [], str(number))
        self._last = number

    def _say(self, state: FeederState, message: str | None = None) -> None:
        self._spool.say(Feeder(self._name, state, message=message))
