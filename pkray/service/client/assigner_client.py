"""Asks the owners which buckets rows of a table with dynamic buckets go to."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pkray.format.bucket import hash_rows
from pkray.format.partition import PartitionSpec
from pkray.schema.table_schema import TableSchema
from pkray.service.calls import OwnerClient
from pkray.service.client.assigners import assigner_count, assigning_owners
from pkray.service.client.open_writers import OpenWriters
from pkray.service.client.routing import RowRouting
from pkray.service.client.tokens import note_token
from pkray.service.handles.handle import gather, persist
from pkray.service.protocol import HashedKeys, SessionId

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
