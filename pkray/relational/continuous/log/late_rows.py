"""Rows that came after the watermark had passed them and were left out: ``shop.totals$late``."""

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.format.data_file import DataFileMeta
from pkray.relational.continuous.changes import Changes, netted
from pkray.relational.continuous.log.log import Checkpoint
from pkray.relational.continuous.operator import Epoch
from pkray.relational.continuous.state.encoding import encoded
from pkray.relational.continuous.state.state import State, StateSpec, stored_rows
from pkray.relational.plan.fields import Fields
from pkray.relational.plan.json.writer import in_order, shared_nodes
from pkray.relational.plan.nodes import Node
from pkray.storage.object_store import ObjectStore

LATE = "late"
"""The system table of all late rows of a query."""
LATE_COLUMNS = pa.schema(
    [
        ("epoch", pa.int64()),
        ("node", pa.int64()),
        ("watermark", pa.timestamp("us")),
        ("window_start", pa.timestamp("us")),
        ("window_end", pa.timestamp("us")),
        ("row", pa.string()),
        ("kind", pa.string()),
    ]
)
PREFIX = "late_"
EPOCH, WATERMARK, ADDED = "_epoch", "_watermark", "_added"
"""The columns before those of the rows: the epoch in which a row came, the watermark of its
beginning in microseconds, and whether it was added, not taken back."""


def late_name(number: int, index: int) -> str:
    """Name the state of the late rows of one input of an operator: ``late_3``, ``late_3_1``."""
    return f"{PREFIX}{number}" + (f"_{index}" if index else "")


def late_spec(fields: Fields) -> StateSpec:
    """Describe the state of the late rows of one input of an operator."""
    own = [(EPOCH, pa.int64()), (WATERMARK, pa.int64()), (ADDED, pa.bool_())]
    return StateSpec(pa.schema([*(pa.field(*each) for each in own), *fields.arrow]))


class LateRows:
    """Collects the late rows of one input of an operator; they are kept with the query's states.

    Attributes:
        count: added rows so far.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._epoch = -1
        self._first = self._number = state.worker << 40  # other than those of other workers
        self.count = 0

    def add(self, changes: Changes, epoch: Epoch) -> None:
        """Keep changes; what is added and taken back at once was never there.

        Args:
            changes: of the columns of the input, in windows each with the one that it missed.
        """
        changes = netted(changes, None)
        count = len(changes)
        if epoch.number != self._epoch:
            self._epoch, self._number = epoch.number, self._first
        numbers = pa.array(np.arange(self._number, self._number + count))
        epochs = pa.repeat(pa.scalar(epoch.number, pa.int64()), count)
        watermarks = pa.repeat(pa.scalar(epoch.watermark, pa.int64()), count)
        added = pa.array(changes.adds)
        self._state.now = epoch.time
        values = [epochs, watermarks, added, *changes.rows.columns]
        self._state.put(encoded([epochs, numbers]), values)
        self._number += count
        self.count += int(changes.adds.sum())


def missed_windows(roots: Sequence[Node]) -> dict[str, tuple[str, str]]:
    """List the columns of the window that a late row missed, by the state that keeps such rows.

    Args:
        roots: the physical plans of a query.
    """
    found = {}
    for number, node in enumerate(in_order(shared_nodes(roots)), 1):
        for index, each in enumerate(node.inputs):
            bounds = each.window_bounds() if node.is_windowed() else None
            if bounds is not None:
                found[late_name(number, index)] = (min(bounds.start), min(bounds.end))
    return found


def shown_late(name: str, rows: pa.Table, window: tuple[str, str] | None) -> pa.Table:
    """Give late rows with the columns `LATE_COLUMNS`: the rows themselves as JSON.

    Args:
        name: of their state.
        rows: as `kept_late` gives them.
        window: the columns of the bounds of the window that each missed.
    """
    values = rows.drop_columns([EPOCH, WATERMARK, ADDED]).to_pylist()
    said = [json.dumps(value, default=str, ensure_ascii=False) for value in values]
    node = int(name.removeprefix(PREFIX).partition("_")[0])
    none = pa.nulls(rows.num_rows, pa.timestamp("us"))
    bounds = [rows.column(each) for each in window] if window else [none, none]
    columns = [
        rows.column(EPOCH),
        pa.array(np.full(rows.num_rows, node)),
        rows.column(WATERMARK),
        *bounds,
        pa.array(said, pa.string()),
        pc.if_else(rows.column(ADDED), "+I", "-D"),
    ]
    return pa.table(columns, names=LATE_COLUMNS.names).cast(LATE_COLUMNS)


def kept_late(folder: ObjectStore, checkpoint: Checkpoint) -> dict[str, pa.Table]:
    """Read all late rows that a checkpoint names, in the order in which they came.

    Args:
        folder: of the states of the query.

    Returns:
        by the name of the state, the columns of its `late_spec`.
    """
    found = {
        name: stored_rows(folder.child(checkpoint.folder(name)), shares).read_all()
        for name in checkpoint.files
        if name.startswith(PREFIX) and any((shares := _shares(checkpoint, name)).values())
    }
    return {
        name: rows.drop_columns(rows.column_names[: rows.column_names.index(EPOCH)])
        for name, rows in found.items()
    }


def _shares(checkpoint: Checkpoint, name: str) -> dict[int, tuple[DataFileMeta, ...]]:
    return {worker: files.get(name, ()) for worker, files in enumerate(checkpoint.shares)}


def late_until(rows: pa.Table, epoch: int | None) -> pa.Table:
    """Give the late rows of the epochs up to one: `ADDED`, and the columns of the input."""
    if epoch is not None:
        rows = rows.filter(pc.less_equal(rows.column(EPOCH), epoch))
    return rows.drop_columns([EPOCH, WATERMARK])
