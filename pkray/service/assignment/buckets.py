"""Manage an owner's dynamic buckets; nothing on tables with fixed ones."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import numpy as np

from pkray.errors import UnsupportedError
from pkray.format import paths
from pkray.format.commit_message import CommitMessage
from pkray.format.hash_index import Hashes, read_hashes, unique, write_hashes
from pkray.format.index_file import IndexFileMeta
from pkray.metadata.live import BucketId
from pkray.metadata.snapshots import SnapshotStore
from pkray.options import DYNAMIC
from pkray.schema.table_schema import TableSchema
from pkray.service.assignment.assigner import BucketAssigner
from pkray.service.assignment.key_assigner import KeyAssigner
from pkray.service.assignment.staged_pushes import StagedPushes
from pkray.service.calls import OwnerClient
from pkray.service.owner_settings import OwnerSettings
from pkray.service.protocol import ASSIGNER, Acknowledgement, SessionId
from pkray.service.schema_cache import SchemaCache
from pkray.service.stats import HashIndexStats, KeyIndexStats
from pkray.storage.object_store import ObjectStore

_KEPT_BYTES = 64 << 20
"""Hashes kept of the files written last, as each new file holds those of the one before."""


class HashFiles:
    """Files are written whole; what they held is kept for the next, within bounds."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._names = paths.FileNames()
        self._kept: OrderedDict[str, Hashes] = OrderedDict()

    def extend(self, base: IndexFileMeta | None, added: Sequence[bytes]) -> IndexFileMeta | None:
        """Write a new file of what ``base`` holds and these hashes; None if it holds them all.

        Args:
            added: int32 hashes, repeated ones among them.
        """
        new = unique(np.frombuffer(b"".join(added), np.int32))
        before = self._read(base) if base is not None else new[:0]
        if len(before):
            ordered = np.sort(before)
            at = np.searchsorted(ordered, new)
            new = new[ordered[np.minimum(at, len(ordered) - 1)] != new]
        if not len(new):
            return None
        hashes = np.concatenate((before, new))
        file = write_hashes(self._store, self._names, hashes)
        self._keep(file.file_name, hashes)
        return file

    def _read(self, file: IndexFileMeta) -> Hashes:
        if file.file_name not in self._kept:
            self._keep(file.file_name, read_hashes(self._store, file))
        self._kept.move_to_end(file.file_name)
        return self._kept[file.file_name]

    def _keep(self, name: str, hashes: Hashes) -> None:
        self._kept[name] = hashes
        held = sum(each.nbytes for each in self._kept.values())
        while held > _KEPT_BYTES and len(self._kept) > 1:
            _, let_go = self._kept.popitem(last=False)
            held -= let_go.nbytes


class DynamicBuckets:
    """An owner's `BucketAssigner`, and the index files of the buckets it owns.

    Where keys cross partitions there are no such files, and one owner's `KeyAssigner`.

    Args:
        settings: the owner's.
        clock: epoch milliseconds.
        peers: all owners, where rows of tasks are placed here; None where nobody stages them.
    """

    def __init__(
        self,
        store: ObjectStore,
        schema: SchemaCache,
        settings: OwnerSettings,
        clock: Callable[[], int],
        peers: Callable[[], Sequence[OwnerClient]] | None = None,
    ) -> None:
        self._files = HashFiles(store)
        self._assigner: BucketAssigner | None = None
        self._keys: KeyAssigner | None = None
        self._staged: StagedPushes | None = None
        first = schema.current
        refresh_millis = settings.refresh_millis
        if first.core.bucket != DYNAMIC:
            return
        if not first.crosses_partitions:
            snapshots = SnapshotStore(store)
            self._assigner = BucketAssigner(
                store, first, snapshots, settings.index, settings.owners, clock, refresh_millis
            )
        elif settings.index == ASSIGNER:
            directory = f"{settings.local_directory}/keys"

            def newest() -> TableSchema:
                schema.refresh()
                return schema.current

            self._keys = KeyAssigner(store, newest, directory, clock, refresh_millis)
            if peers is not None:
                directory = f"{settings.local_directory}/staged"
                self._staged = StagedPushes(
                    directory, settings.staging_memory, schema.resolve, peers
                )

    @property
    def assigner(self) -> BucketAssigner:
        """The assigner of a table whose keys stay in their partitions."""
        if self._assigner is None:
            raise UnsupportedError("the table's buckets are fixed: nobody assigns them")
        return self._assigner

    @property
    def keys(self) -> KeyAssigner:
        """The assigner of a table whose keys cross partitions."""
        assert self._keys is not None
        return self._keys

    @property
    def staged(self) -> StagedPushes:
        """The batches of tasks that are to be placed, where keys cross partitions."""
        assert self._staged is not None
        return self._staged

    def check(self, session_id: SessionId, tokens: Iterable[str], base: int) -> None:
        """Check that what a session was told holds on top of snapshot ``base``."""
        if known := self._either:
            known.check(session_id, tokens, base)

    def indexed(
        self, messages: Sequence[CommitMessage], new_hashes: Mapping[BucketId, Sequence[bytes]]
    ) -> list[CommitMessage]:
        """Add a new index file to the messages where a bucket has new keys."""
        if self._assigner is None:
            return list(messages)
        return [self._indexed(message, new_hashes) for message in messages]

    def committed(self, session_id: SessionId, done: Acknowledgement) -> None:
        """Note that the session is committed."""
        if self._assigner is not None:
            self._assigner.committed(session_id, done.hash_files)
        if self._keys is not None:
            self._keys.committed(session_id, done.snapshot_id, new=done.new)
        if self._staged is not None:
            self._staged.end(session_id)

    def abort_prepare(self, session_id: SessionId) -> None:
        """Forget what was checked for the session: it is not published, though the session goes
        on."""
        if known := self._either:
            known.abort_prepare(session_id)

    def drop(self, session_id: SessionId) -> None:
        """Forget the session."""
        if known := self._either:
            known.drop(session_id)
        if self._staged is not None:
            self._staged.end(session_id)

    def forget(self, session_id: SessionId) -> None:
        """Forget a session whose writer is gone, or pushes again."""
        if known := self._either:
            known.forget(session_id)
        if self._staged is not None:
            self._staged.forget(session_id)

    def token(self, session_id: SessionId) -> str | None:
        """Return what a session is told with each answer, None where it is not known."""
        return None if self._either is None else self._either.token(session_id)

    def stats(self) -> HashIndexStats | KeyIndexStats | None:
        """Count what is held."""
        return None if self._either is None else self._either.stats()

    def _indexed(
        self, message: CommitMessage, new_hashes: Mapping[BucketId, Sequence[bytes]]
    ) -> CommitMessage:
        added = new_hashes.get((message.partition, message.bucket))
        if not added:
            return message
        base = self.assigner.file(message.partition, message.bucket)
        file = self._files.extend(base, added)
        if file is None:
            return message
        names = (base.file_name,) if base is not None else ()
        return msgspec.structs.replace(
            message,
            index_files=(*message.index_files, file),
            index_base=(*message.index_base, *names),
        )

    @property
    def _either(self) -> BucketAssigner | KeyAssigner | None:
        return self._assigner or self._keys
