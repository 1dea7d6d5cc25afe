"""A relation's changes as an iterator, computed as they are asked for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Literal

import pyarrow as pa

from pkray.closing import Closeable
from pkray.relational.continuous.log import NoLog
from pkray.relational.continuous.outlets import Encoding, Messages, QueueOutlet, check_encoding
from pkray.relational.continuous.planning import physical, runnable
from pkray.relational.continuous.run import Run, RunSettings
from pkray.relational.continuous.states import States
from pkray.relational.plan.nodes import Node

POLL_SECONDS = 0.05
"""Between two looks at sources that had nothing new."""


class ResultStream(Closeable, Iterator[pa.RecordBatch]):
    """The changes of a query: batches of ``_row_kind``, ``_epoch`` and the columns.

    What the sources hold comes first, as +I. An epoch is computed when the batches of those before
    have been taken. It ends when no source changes any more; with ``available_now`` at what there
    is now.
    """

    def __init__(
        self,
        plan: Node,
        encoding: Encoding,
        trigger: Literal["changes", "available_now"],
        ttl: str,
        settings: RunSettings,
    ) -> None:
        made = physical(plan, before=encoding != "upsert")
        check_encoding(made, encoding)
        messages = Messages(made.fields, encoding)
        self.schema = messages.schema
        self._outlet = QueueOutlet(messages)
        self._ends = trigger == "available_now"
        states = States()
        before = (encoding != "upsert",)
        self._run = Run(runnable((made,), before, ttl), [self._outlet], NoLog(), states, settings)
        self._is_closed = False

    def __repr__(self) -> str:
        return f"ResultStream(epoch {self._run.next_epoch - 1})"

    def __next__(self) -> pa.RecordBatch:
        while True:
            batch = self.poll()
            if batch is not None:
                return batch
            if self._is_closed or self._run.is_ended or (self._ends and not self._is_behind()):
                raise StopIteration
            time.sleep(POLL_SECONDS)

    def poll(self) -> pa.RecordBatch | None:
        """Give the next batch, if there is one now; None where the sources have nothing new."""
        while not self._outlet.waiting:
            if self._is_closed or not self._run.step():
                return None
        return self._outlet.waiting.popleft()

    def _is_behind(self) -> bool:
        return self._run.feeds.next(self._run.positions) is not None

    def close(self) -> None:
        """End it and forget its state."""
        if not self._is_closed:
            self._is_closed = True
            self._run.close()
