"""Joins, top-n and deduplication within windows: each is computed once, when it is over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from pkray.relational.continuous.changes import Changes, concatenated
from pkray.relational.continuous.operator import Context, Epoch, Operator, operates
from pkray.relational.continuous.operators.windows.held_windows import DueRows, HeldWindows
from pkray.relational.continuous.operators.windows.waiting import DuePages
from pkray.relational.continuous.state.encoding import encoded
from pkray.relational.local.engine import run
from pkray.relational.local.memory import machine_memory
from pkray.relational.plan.nodes import Deduplicate, Exchange, Join, Node, Scan, TopN

OF_MACHINE = 8
"""A bounded run holds this part of the machine's memory; what is beyond goes to the disk."""


@operates(Join, TopN, Deduplicate, when=lambda node: node.is_windowed())
class BoundedWindows(Operator):
    """Keeps the rows of open windows; runs the node bounded over those of windows that are over."""

    def __init__(self, node: Any, context: Context) -> None:
        super().__init__(node, context)
        self._held = [
            HeldWindows(context, each.fields, end, self._together(each), index)
            for index, (each, end) in enumerate(zip(node.inputs, _ends(node), strict=True))
        ]
        self._due = [DueRows(each.fields) for each in node.inputs]
        self._plan = node.with_inputs(*map(Scan, self._due))

    def _together(self, node: Node) -> tuple[str, ...]:
        """Name the columns by which rows of an input are brought together."""
        is_null_aware = isinstance(self.node, Join) and self.node.null_aware
        return node.keys if isinstance(node, Exchange) and not is_null_aware else ()

    def key_bytes(self, place: int, changes: Changes, keys: Sequence[str]) -> pa.Array:
        together = self._together(self.node.inputs[place])
        return encoded(changes.columns(together), len(changes))

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        for held, changes in zip(self._held, inputs, strict=True):
            held.put(changes, epoch)
        if not epoch.ends:
            return Changes.none(self.node.fields)
        made = [Changes.of_kind(rows) for rows in self._computed(epoch.next_watermark)]
        return concatenated(self.node.fields, made)

    def _computed(self, watermark: int | None) -> Iterator[pa.RecordBatch]:
        """Run the node over the windows that are over, as many at once as pages of them hold."""
        sides = [DuePages(held.due(watermark)) for held in self._held]
        while ends := [end for end in (each.last_whole() for each in sides) if end is not None]:
            for due, side in zip(self._due, sides, strict=True):
                due.rows = (page.rows for page in side.up_to(min(ends)))
            yield from run(self._plan, memory=machine_memory() // OF_MACHINE)
            for due in self._due:
                list(due.rows)  # what the run did not need


def _ends(node: Join | TopN | Deduplicate) -> Iterator[str]:
    """Name the column of each input that holds the window's end."""
    match node:
        case Join():
            left, right = node.left.window_bounds(), node.right.window_bounds()
            assert left is not None
            assert right is not None
            pairs = zip(node.left_keys, node.right_keys, strict=True)
            yield from next((a, b) for a, b in pairs if a in left.end and b in right.end)
        case TopN() | Deduplicate():
            keys = node.partition_by if isinstance(node, TopN) else node.keys
            bounds = node.input.window_bounds()
            assert bounds is not None
            yield next(key for key in keys if key in bounds.end)
