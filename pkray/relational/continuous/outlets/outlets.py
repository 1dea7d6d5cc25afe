"""Outlets: where the changes of a query go."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.batches import batch_of
from pkray.columns.keys import codes
from pkray.errors import UnsupportedError
from pkray.relational.continuous.changes import Changes, taken_away
from pkray.relational.continuous.operator import Epoch
from pkray.relational.continuous.outlets.table_parts import TablePart
from pkray.relational.plan.changelog_modes import changelog_modes
from pkray.relational.plan.describe import description
from pkray.relational.plan.keys import best_key, upsert_keys
from pkray.relational.plan.nodes import Node, Scan
from pkray.schema.row_kind import DELETE, SHORT, UPDATE_AFTER, UPDATE_BEFORE
from pkray.service.protocol import PushReport

Encoding: TypeAlias = Literal["retract", "append", "upsert"]
KIND, EPOCH = "_row_kind", "_epoch"
Function: TypeAlias = Callable[[pa.RecordBatch, int], object]


def check_encoding(plan: Node, encoding: Encoding) -> None:
    """Check that the changes of a physical plan can be told so.

    Raises:
        UnsupportedError: ``append``, and a node, which is named, updates; or ``upsert``, and the
            result has no key.
    """
    if encoding == "append":
        modes = changelog_modes(plan, before=True)
        if not modes[id(plan)].is_append:
            node = _first_updating(plan, lambda each: modes[id(each)].is_append)
            raise UnsupportedError(
                f"{description(node)} changes rows that it gave before: encoding='append' has "
                "inserts alone; use 'retract' or 'upsert'",
                node=type(node).__name__,
            )
    if encoding == "upsert" and not upsert_keys(plan):
        raise UnsupportedError(
            "the result has no key by which rows could be replaced: use encoding='retract', or "
            "group or deduplicate by a key"
        )


def _first_updating(plan: Node, is_append: Callable[[Node], bool]) -> Node:
    """Find the lowest node that gives updates of inputs that do not."""
    for each in plan.inputs:
        if not is_append(each):
            return _first_updating(each, is_append)
    return plan


class Messages:
    """Writes changes of a plan as batches of ``_row_kind``, ``_epoch`` and the columns."""

    def __init__(self, root: Node, encoding: Encoding) -> None:
        fields = root.fields
        self._key = best_key(root, upsert_keys(root)) if encoding == "upsert" else None
        self._appends = encoding == "append"
        self._sources = [each.source.name for each in root.walk() if isinstance(each, Scan)]
        self.schema = pa.schema(
            [
                pa.field(KIND, pa.string(), nullable=False),
                pa.field(EPOCH, pa.int64(), nullable=False),
                *fields.arrow,
            ]
        )

    def batch(self, changes: Changes, epoch: int) -> pa.RecordBatch:
        """Write the net changes of an epoch.

        Raises:
            UnsupportedError: rows are taken away, and the encoding has inserts alone.
        """
        if self._appends and not changes.is_append:
            raise taken_away("encoding='append'", self._sources)
        if self._key is not None:
            changes = _upserts(changes, self._key)
        rows = len(changes)
        kinds = pc.take(pa.array(SHORT), pa.array(changes.kinds))
        numbers = pa.array(np.full(rows, epoch, np.int64))
        return batch_of([kinds, numbers, *changes.rows.columns], self.schema, rows)


def _upserts(changes: Changes, key: Sequence[str]) -> Changes:
    """Leave out rows before updates; one that no row of its key follows is a delete."""
    before = changes.kinds == UPDATE_BEFORE
    if not before.any():
        return changes
    groups = codes(changes.columns(key), len(changes)).of_row
    followed = np.r_[(changes.kinds[1:] == UPDATE_AFTER) & (groups[1:] == groups[:-1]), False]
    kinds = np.where(before & ~followed, DELETE, changes.kinds).astype(np.int8)
    return Changes(changes.rows, kinds).where(~(before & followed))


class Outlet(ABC):
    """Takes the changes of one root.

    Attributes:
        takes_parts: whether it takes an epoch in several parts, in which a key may change twice;
            otherwise it is given the net changes of the whole epoch.
    """

    takes_parts = False

    @abstractmethod
    def give(self, changes: Changes, epoch: Epoch) -> None:
        """Take changes of an epoch."""

    def part(self) -> TablePart | None:
        """Give what other workers need to push their part of the epoch that begins; None: all
        changes are given to this outlet.
        """
        return None

    def add(self, reports: Sequence[PushReport]) -> None:
        """Have the epoch's end take in what other workers pushed."""
        return

    def commit(
        self, epoch: Epoch, positions: Mapping[str, int], watermarks: Mapping[str, int]
    ) -> None:
        """End the epoch; done again for the same epoch it changes nothing.

        Args:
            epoch: with the result's watermark, ``next_watermark``.
            positions: up to which the sources are in the result.
            watermarks: by which operators judge lateness from now on, by their number:
                microseconds.
        """
        return

    def close(self) -> None:
        """Drop what no epoch's end has made visible."""
        return


class FunctionOutlet(Outlet):
    """Calls a function with the messages of each epoch.

    After a crash it is called again for epochs since the last checkpoint, with the same batches.
    """

    def __init__(self, messages: Messages, function: Function) -> None:
        self._messages = messages
        self._function = function

    def give(self, changes: Changes, epoch: Epoch) -> None:
        batch = self._messages.batch(changes, epoch.number)
        if batch.num_rows:
            self._function(batch, epoch.number)


class QueueOutlet(FunctionOutlet):
    """Keeps messages until they are taken."""

    def __init__(self, messages: Messages) -> None:
        self.schema = messages.schema
        self.waiting: deque[pa.RecordBatch] = deque()
        super().__init__(messages, lambda batch, epoch: self.waiting.append(batch))

    def close(self) -> None:
        self.waiting.clear()
