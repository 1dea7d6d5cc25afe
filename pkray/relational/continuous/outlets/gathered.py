"""The whole result of a plan, kept aside until it takes the place of another."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa

from pkray.columns.batches import batch_of
from pkray.relational.continuous.changes import Changes
from pkray.relational.continuous.operator import Epoch
from pkray.relational.continuous.outlets.outlets import Outlet
from pkray.relational.continuous.outlets.table_parts import last_of_keys
from pkray.relational.continuous.state.encoding import encoded
from pkray.relational.continuous.state.state import State, StateSpec
from pkray.relational.plan.nodes import Node
from pkray.relational.plan.plan_diff import result_types

PREFIX = "result_"
"""Of the names of states that hold results, before the place of their root."""


class Gathered(Outlet):
    """Keeps the rows of a result by the key of its table.

    Args:
        open_state: opens the state that holds them; called when the first epoch ends.
        root: of the plan, down to the table.
        key: columns of the table.
    """

    takes_parts = True

    def __init__(
        self,
        open_state: Callable[[str, StateSpec, int], State],
        place: int,
        root: Node,
        key: Sequence[str],
    ) -> None:
        types = result_types(root)
        self.schema = pa.schema([pa.field(name, kind.arrow) for name, kind in types.items()])
        self._open_state = open_state
        self._name = f"{PREFIX}{place}"
        self._opened: State | None = None
        self._key = tuple(key)

    @property
    def state(self) -> State:
        """Open the state, once the run has said which files it begins with."""
        if self._opened is None:
            self._opened = self._open_state(self._name, StateSpec(self.schema), 0)
        return self._opened

    def keys(self, rows: pa.RecordBatch) -> pa.Array:
        """Encode the keys of rows."""
        return encoded([rows.column(name) for name in self._key], rows.num_rows)

    def give(self, changes: Changes, epoch: Epoch) -> None:
        last = last_of_keys(changes, self.schema.names, self._key)
        for adds in (False, True):
            part = last.where(last.adds == adds)
            rows = batch_of(part.rows.columns, self.schema, len(part))
            if adds:
                self.state.put(self.keys(rows), rows.columns)
            else:
                self.state.remove(self.keys(rows))

    def fill(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Begin with the rows that a result has, in the columns of the table."""
        for batch in batches:
            rows = self.fitted(batch)
            self.state.put(self.keys(rows), rows.columns)

    def fitted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Give rows of the table the types that they have in the plan."""
        columns = [batch.column(field.name) for field in self.schema]
        return batch_of(columns, self.schema, batch.num_rows)

    def commit(
        self, epoch: Epoch, positions: Mapping[str, int], watermarks: Mapping[str, int]
    ) -> None:
        _ = self.state  # a checkpoint has to name it, whether this run changed it or not
