"""Writes changes of a table as messages of a topic."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray import constants
from pkray.changelog.request import ROW_KIND
from pkray.kafka.json_texts import NULL, joined, json_objects
from pkray.schema.row_kind import SHORT

WrittenFormat: TypeAlias = Literal["debezium-json", "upsert-json"]
"""Says what a message is: an event with the row before and after, or the row of its key."""

Messages: TypeAlias = tuple[list[bytes], list[bytes | None]]
"""Keys and values, one a message; a value that is None says that the key is gone."""

_MOST_BYTES = 8 << 20
"""Bounds the rows made text at a time: with all escapes far from the 2 GB of an Arrow text."""
_KINDS = constants.texts(SHORT)
_INSERT, _BEFORE, _AFTER, _DELETE = range(4)


@dataclass(frozen=True)
class EventSource:
    """Says where an event comes from, as it is in ``source``.

    Args:
        millis: when the snapshot was made, epoch milliseconds.
    """

    database: str
    table: str
    snapshot_id: int
    millis: int

    def text(self) -> str:
        """Write it as JSON, without its end: the sequence number is to come."""
        said = {
            "connector": "pkray",
            "db": self.database,
            "table": self.table,
            "ts_ms": self.millis,
            "snapshot_id": self.snapshot_id,
        }
        return json.dumps(said, ensure_ascii=False, separators=(",", ":"))[:-1]


class ChangeEvents:
    """Makes messages of the changes of one snapshot.

    Args:
        columns: of the rows.
        keys: the columns that are a message's key.
        is_content: whether the rows are what the snapshot holds, not what it changed.

    Attributes:
        count: messages that were made.
    """

    def __init__(
        self,
        format: WrittenFormat,
        columns: Sequence[str],
        keys: Sequence[str],
        source: EventSource,
        *,
        is_content: bool,
    ) -> None:
        self._format = format
        self._columns = list(columns)
        self._keys = list(keys)
        self._source = source.text()
        self._op_of_inserts = "r" if is_content else "c"
        self._held: pa.RecordBatch | None = None
        self.count = 0

    def messages(self, batch: pa.RecordBatch) -> Iterator[Messages]:
        """Make messages of the next changes, in their order.

        Args:
            batch: ``_row_kind`` and the columns.
        """
        step = max(1, int(_MOST_BYTES * batch.num_rows / max(batch.nbytes, 1)))
        for start in range(0, batch.num_rows, step):
            part = batch.slice(start, step)
            if self._held is not None:
                part, self._held = pa.concat_batches([self._held, part]), None
            last = part.num_rows - 1
            if part.column(ROW_KIND)[last].as_py() == SHORT[_BEFORE]:  # what it became is to come
                part, self._held = part.slice(0, last), part.slice(last)
            if part.num_rows:
                yield self._of(part)

    def rest(self) -> Messages:
        """Make a message of the row of which nothing followed that says what it became."""
        held, self._held = self._held, None
        return ([], []) if held is None else self._of(held)

    def _of(self, batch: pa.RecordBatch) -> Messages:
        kinds = pc.index_in(batch.column(ROW_KIND), value_set=_KINDS).to_numpy()
        keys = self._objects(batch, self._keys)
        rows = self._objects(batch, self._columns)
        is_next = np.zeros(len(kinds), bool)
        same_key = pc.equal(keys[:-1], keys[1:]).to_numpy(zero_copy_only=False)
        is_next[1:] = (kinds[:-1] == _BEFORE) & (kinds[1:] == _AFTER) & same_key
        places = np.flatnonzero(np.append(~is_next[1:], True))  # an update is where its new row is
        self.count += len(places)
        found = keys.take(pa.array(places)).cast(pa.binary()).to_pylist()
        return found, self._values(rows, kinds, is_next, places).cast(pa.binary()).to_pylist()

    def _values(self, rows: pa.Array, kinds: Any, is_next: Any, places: Any) -> pa.Array:
        """Make the values of events.

        Args:
            kinds: int, one a row.
            is_next: which rows are what the row before became; bool, one a row.
            places: int, the row of each event.
        """
        adds = np.isin(kinds[places], (_INSERT, _AFTER))
        after = rows.take(pa.array(places, mask=~adds))
        if self._format == "upsert-json":
            return after
        takes = ~adds | is_next[places]
        before = rows.take(pa.array(places - is_next[places], mask=~takes))
        ops = np.array([self._op_of_inserts, "d", "u", "d"])[kinds[places]]
        return joined(
            '{"before":',
            pc.fill_null(before, NULL),
            ',"after":',
            pc.fill_null(after, NULL),
            f',"source":{self._source},"sequence":',
            pa.array(np.arange(self.count - len(places), self.count)).cast(pa.string()),
            '},"op":"',
            pa.array(ops, pa.string()),
            '"}',
        )

    @staticmethod
    def _objects(batch: pa.RecordBatch, names: Sequence[str]) -> pa.Array:
        return json_objects(names, [batch.column(name) for name in names])
