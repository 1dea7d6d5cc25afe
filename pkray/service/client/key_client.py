"""Asks the table's assigner where rows go whose keys cross partitions."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pkray.format.partition import PartitionSpec
from pkray.lsm.merge.merge_function import is_add
from pkray.lsm.writer.row_kinds import accepted_rows
from pkray.options import DYNAMIC
from pkray.schema import row_kind
from pkray.schema.checks import check_crossing
from pkray.schema.table_schema import KIND, TableSchema
from pkray.service.calls import OwnerClient
from pkray.service.client.assigner_client import AssignerClient
from pkray.service.client.key_ids import Bools, KeysToPlace, identify
from pkray.service.client.open_writers import OpenWriters
from pkray.service.client.routing import RowRouting
from pkray.service.client.tokens import note_token
from pkray.service.handles.handle import persist
from pkray.service.protocol import ASSIGNER, KeysFound, RowsPlaced, SessionId


class KeyClient:
    """Rows with their partitions as they are to be written, and where keys are.

    Args:
        owners: all of the table's.
        writers: those in this process, all of whose keys are found.

    Raises:
        UnsupportedError: options under which the keys could not be kept unique.
    """

    def __init__(
        self, schema: TableSchema, owners: Sequence[OwnerClient], writers: OpenWriters | None = None
    ) -> None:
        check_crossing(schema)
        self._writers = writers or OpenWriters()
        self._schema = schema
        self._assigner = owners[ASSIGNER]
        self._partitions = PartitionSpec(schema)

    def place(
        self, session: SessionId, index: int, rows: pa.RecordBatch, tokens: dict[int, str]
    ) -> tuple[pa.RecordBatch, RowRouting]:
        """Ask where rows go; return the rows to be written for them, and their targets.

        Args:
            index: 0, 1, 2 … within the session.
            tokens: the assigner's, by what it told before; a new one is added.

        Raises:
            LostBatchesError: the assigner forgot what it told before.
            CommitConflictError: another writer changed where keys are.
        """
        rows = accepted_rows(rows, self._schema)
        indices, partitions = self._partitions.encode(rows)
        keys = identify([rows.column(name) for name in self._schema.primary_keys])
        removes = _removing(rows, self._schema)
        asked = KeysToPlace(index, partitions, indices, keys, removes)
        placed = self._assigner.place.submit(session, asked).result()
        note_token(tokens, ASSIGNER, placed.token, session)
        return self._rewritten(rows, placed)

    def locate(
        self, keys: pa.Table, snapshot_id: int | None, *, latest: bool
    ) -> tuple[RowRouting, int] | None:
        """Find where keys are, and the snapshot that says so; None where none says it any more.

        Args:
            snapshot_id: by default the newest.
            latest: what is not committed counts too.
        """
        ids = identify([keys.column(name) for name in self._schema.primary_keys])

        def ask() -> KeysFound | None:
            expected = self._writers.expected(ASSIGNER) if latest else ()
            return self._assigner.locate_keys.submit(ids, snapshot_id, latest, expected).result()

        found = persist(ask, self._assigner.limits.lookup_seconds)
        if found is None:
            return None
        return RowRouting(found.indices, found.partitions, found.buckets), found.snapshot_id

    def _rewritten(
        self, rows: pa.RecordBatch, placed: RowsPlaced
    ) -> tuple[pa.RecordBatch, RowRouting]:
        count, moves = rows.num_rows, len(placed.moved)
        sources = np.concatenate((np.arange(count), placed.moved))
        is_delete = np.arange(count + moves) >= count
        if moves or (placed.indices < 0).any():
            order = np.lexsort((~is_delete, sources))
            order = order[placed.indices[order] >= 0]
            sources, is_delete = sources[order], is_delete[order]
            indices, buckets = placed.indices[order], placed.buckets[order]
            rows = self._with_deletes(rows.take(pa.array(sources)), is_delete)
        else:
            indices, buckets = placed.indices, placed.buckets
        return self._in_partitions(rows, indices, placed.partitions), RowRouting(
            indices, placed.partitions, buckets
        )

    def _with_deletes(self, rows: pa.RecordBatch, is_delete: Bools) -> pa.RecordBatch:
        if not is_delete.any():
            return rows
        rows = _replaced(rows, KIND, is_delete, pa.scalar(row_kind.DELETE, pa.int8()))
        column = self._schema.core.rowkind_field
        return rows if column is None else _replaced(rows, column, is_delete, pa.scalar("-D"))

    def _in_partitions(
        self, rows: pa.RecordBatch, indices: npt.NDArray[np.int32], partitions: Sequence[bytes]
    ) -> pa.RecordBatch:
        """The rows with the partitions' values in the partition columns."""
        if not rows.num_rows:
            return rows
        at = pa.array(indices)
        for name, values in zip(
            self._partitions.names, self._partitions.values(partitions), strict=True
        ):
            position = rows.schema.get_field_index(name)
            field = rows.schema.field(position)
            rows = rows.set_column(position, field, values.take(at).cast(field.type))
        return rows


def _replaced(rows: pa.RecordBatch, name: str, where: Bools, value: pa.Scalar) -> pa.RecordBatch:
    position = rows.schema.get_field_index(name)
    field, column = rows.schema.field(position), rows.column(position)
    changed = pc.if_else(pa.array(where), value.cast(column.type), column)
    return rows.set_column(position, field, changed)


def _removing(rows: pa.RecordBatch, schema: TableSchema) -> Bools:
    """Flag the rows that leave no row of their key."""
    options = schema.core
    if options.merge_engine == "deduplicate":
        return ~is_add(rows.column(KIND))
    if not options.deletes_reset:
        return np.zeros(rows.num_rows, np.bool_)
    deleted: Bools = rows.column(KIND).to_numpy() == row_kind.DELETE
    return deleted


DynamicClient: TypeAlias = AssignerClient | KeyClient


def dynamic_client(
    schema: TableSchema, owners: Sequence[OwnerClient], writers: OpenWriters | None = None
) -> DynamicClient | None:
    """Make the client that a table's writers and lookups ask; None of a table with fixed buckets.

    Raises:
        UnsupportedError: options under which the keys could not be kept unique.
    """
    if schema.core.bucket != DYNAMIC:
        return None
    kind = KeyClient if schema.crosses_partitions else AssignerClient
    return kind(schema, owners, writers)
