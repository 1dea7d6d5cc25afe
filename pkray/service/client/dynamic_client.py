"""Ask the owners which buckets rows of a table with dynamic buckets go to.

Each owner assigns the keys of its classes of hashes; where keys cross partitions, the table's one
assigner places all of them.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pkray.format.bucket import hash_rows
from pkray.format.partition import PartitionSpec
from pkray.lsm.merge.merge_function import is_add
from pkray.lsm.writer.row_kinds import accepted_rows
from pkray.options import DYNAMIC
from pkray.schema import row_kind
from pkray.schema.checks import check_crossing
from pkray.schema.table_schema import KIND, TableSchema
from pkray.service.calls import OwnerClient
from pkray.service.client.assigners import assigner_count, assigning_owners
from pkray.service.client.key_ids import Bools, KeysToPlace, identify
from pkray.service.client.open_writers import OpenWriters
from pkray.service.client.routing import RowRouting
from pkray.service.client.tokens import note_token
from pkray.service.handles.handle import gather, persist
from pkray.service.protocol import ASSIGNER, HashedKeys, KeysFound, RowsPlaced, SessionId

Codes = npt.NDArray[np.int32]
Buckets = npt.NDArray[np.int32]


class AssignerClient:
    """A client of the assigners: each row is asked of the one owner that assigns its class of
    hashes.

    Args:
        owners: all of the table's.
        writers: those in this process, all of whose keys are found.
    """

    def __init__(
        self, schema: TableSchema, owners: Sequence[OwnerClient], writers: OpenWriters | None = None
    ) -> None:
        self._owners = owners
        self._writers = writers or OpenWriters()
        self._partitions = PartitionSpec(schema)
        self._keys = schema.trimmed_primary_keys
        self._types = schema.types(self._keys)
        self._assigners = assigner_count(schema.core, len(owners))

    def assign(
        self, session: SessionId, rows: pa.RecordBatch, tokens: dict[int, str]
    ) -> RowRouting:
        """Ask for buckets of rows to be written.

        Args:
            tokens: of the owners, by what they assigned before; new ones are added.

        Raises:
            LostBatchesError: an owner forgot what it assigned before.
            CommitConflictError: another process assigned keys of these partitions meanwhile.
        """
        keys = self._hashed(rows)
        buckets, is_new = np.empty(len(keys), np.int32), np.empty(len(keys), np.bool_)
        asked = list(self._by_owner(keys))
        answers = gather(
            [self._owners[owner].assign.submit(session, keys.at(at)) for owner, at in asked]
        )
        for (owner, at), answer in zip(asked, answers, strict=True):
            note_token(tokens, owner, answer.token, session)
            buckets[at], is_new[at] = answer.buckets, answer.is_new
        return RowRouting(keys.indices, keys.partitions, buckets, keys.hashes, is_new)

    def locate(
        self, keys: pa.Table, snapshot_id: int | None, *, latest: bool
    ) -> tuple[RowRouting, int]:
        """Find the buckets of keys, int32, -1 where there is none, and the snapshot they were found
        in.

        Args:
            snapshot_id: by default the newest, and what is not committed.
            latest: all that writers in this process have pushed is to be among that.
        """
        hashed = self._hashed(keys)
        asked = list(self._by_owner(hashed))

        def ask(snapshot_id: int | None) -> list[tuple[Buckets, int]]:
            expected = self._writers.expected if latest else lambda _: ()
            return gather(
                [
                    self._owners[owner].locate.submit(hashed.at(at), snapshot_id, expected(owner))
                    for owner, at in asked
                ]
            )

        patience = self._owners[0].limits.lookup_seconds
        answers = persist(lambda: ask(snapshot_id), patience)
        oldest = min(answered for _, answered in answers)
        if any(answered != oldest for _, answered in answers):
            answers = persist(lambda: ask(oldest), patience)
        buckets = np.empty(len(hashed), np.int32)
        for (_, at), (found, _) in zip(asked, answers, strict=True):
            buckets[at] = found
        return RowRouting(hashed.indices, hashed.partitions, buckets), oldest

    def _hashed(self, rows: pa.RecordBatch | pa.Table) -> HashedKeys:
        indices, partitions = self._partitions.encode(rows)
        hashes = hash_rows([rows.column(name) for name in self._keys], self._types)
        return HashedKeys(partitions, indices, hashes)

    def _by_owner(self, keys: HashedKeys) -> Iterator[tuple[int, npt.NDArray[np.int64] | slice]]:
        owners = assigning_owners(keys, self._assigners, len(self._owners))
        present = np.flatnonzero(np.bincount(owners)).tolist()
        for owner in present:
            yield owner, slice(None) if len(present) == 1 else np.flatnonzero(owners == owner)


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
