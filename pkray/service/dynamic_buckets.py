"""What an owner does about dynamic buckets; nothing on tables with fixed ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import numpy as np

from pkray.commit.snapshots import SnapshotStore
from pkray.errors import UnsupportedError
from pkray.format.commit_message import CommitMessage
from pkray.options import DYNAMIC
from pkray.schema import TableSchema
from pkray.service.assigner import BucketAssigner
from pkray.service.committed import BucketId
from pkray.service.hash_files import HashFiles
from pkray.service.protocol import Assigned, HashFile, SessionId
from pkray.storage.object_store import ObjectStore


class DynamicBuckets:
    """An owner's `BucketAssigner`, and the index files of the buckets it owns.

    Args:
        index: the owner's.
        owners: how many share the table.
        clock: epoch milliseconds.
        refresh_millis: as the owner's.
    """

    def __init__(
        self,
        store: ObjectStore,
        schema: TableSchema,
        index: int,
        owners: int,
        clock: Callable[[], int],
        refresh_millis: int,
    ) -> None:
        self._files = HashFiles(store)
        self._assigner: BucketAssigner | None = None
        if schema.core.bucket == DYNAMIC:
            snapshots = SnapshotStore(store)
            self._assigner = BucketAssigner(
                store, schema, snapshots, index, owners, clock, refresh_millis
            )

    def assign(
        self,
        session_id: SessionId,
        partitions: Sequence[bytes],
        codes: np.ndarray,
        hashes: np.ndarray,
    ) -> Assigned:
        return self._known().assign(session_id, partitions, codes, hashes)

    def locate(
        self,
        partitions: Sequence[bytes],
        codes: np.ndarray,
        hashes: np.ndarray,
        snapshot_id: int | None,
    ) -> tuple[np.ndarray, int]:
        return self._known().locate(partitions, codes, hashes, snapshot_id)

    def check(self, session_id: SessionId, tokens: Iterable[str], base: int) -> None:
        if self._assigner is not None:
            self._assigner.check(session_id, tokens, base)

    def indexed(
        self, messages: Sequence[CommitMessage], new_hashes: Mapping[BucketId, Sequence[bytes]]
    ) -> list[CommitMessage]:
        """The messages, with a new index file where a bucket has new keys."""
        if self._assigner is None:
            return list(messages)
        return [self._indexed(message, new_hashes) for message in messages]

    def committed(self, session_id: SessionId, hash_files: Sequence[HashFile]) -> None:
        if self._assigner is not None:
            self._assigner.committed(session_id, hash_files)

    def drop(self, session_id: SessionId) -> None:
        if self._assigner is not None:
            self._assigner.drop(session_id)

    def stats(self) -> dict[str, int]:
        return {} if self._assigner is None else self._assigner.stats()

    def _indexed(
        self, message: CommitMessage, new_hashes: Mapping[BucketId, Sequence[bytes]]
    ) -> CommitMessage:
        added = new_hashes.get((message.partition, message.bucket))
        if not added:
            return message
        base = self._known().file(message.partition, message.bucket)
        file = self._files.extend(base, added)
        if file is None:
            return message
        names = (base.file_name,) if base is not None else ()
        return msgspec.structs.replace(
            message,
            index_files=(*message.index_files, file),
            index_base=(*message.index_base, *names),
        )

    def _known(self) -> BucketAssigner:
        if self._assigner is None:
            raise UnsupportedError("the table's buckets are fixed: nobody assigns them")
        return self._assigner
