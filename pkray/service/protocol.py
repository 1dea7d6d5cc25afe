"""Define the messages between writers, owners and the coordinator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NewType

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pkray.commit.overwriting import Partitions
from pkray.errors import CommitFencedError
from pkray.format.commit_message import CommitMessage
from pkray.format.index_file import IndexFileMeta
from pkray.format.snapshot import Snapshot
from pkray.metadata.commit_name import CommitName
from pkray.metadata.live import BucketId
from pkray.schema.table_schema import TableSchema

Visibility = Literal["latest", "committed"]
DRIVER = -1
"""The source of a writer that pushes in its own process; Spark tasks count from 0."""

ASSIGNER = 0
"""The owner that places the rows of the whole table, where keys cross partitions."""

Attempts = dict[int, tuple[int, int]]
"""By source: the attempt that counts, and its number of batches."""


ANY_PARTITION = b""
ANY_BUCKET = -1
"""In the slices of a prefix lookup: each that there is."""


class SessionId(msgspec.Struct, frozen=True, order=True):
    """One unit of uncommitted work.

    Args:
        user: the commit user.
        generation: grows with each writer that opens for the user; a lower one is fenced.
        epoch: grows with each commit of a writer.
    """

    user: str
    generation: int
    epoch: int = 0

    def next(self) -> SessionId:
        return SessionId(self.user, self.generation, self.epoch + 1)

    def check_not_fenced(self, newest: int) -> None:
        """Check that no newer writer of the user has begun.

        Args:
            newest: the highest generation that the user has had.

        Raises:
            CommitFencedError: the session's is a lower one.
        """
        if self.generation < newest:
            raise CommitFencedError(
                f"a newer writer of commit user {self.user!r} took over; stop this one, or open "
                "writers with different commit users",
                user=self.user,
                generation=self.generation,
                newest=newest,
            )


class Holding(msgspec.Struct, frozen=True):
    """The batches and the token that an owner holds of a session, or is to hold.

    Args:
        batches: of the driver's, those taken into memory.
        token: of the owner as an assigner, as of `Assigned` and `RowsPlaced`.
    """

    session: SessionId
    batches: int = 0
    token: str | None = None


class Slice(msgspec.Struct, frozen=True):
    """Rows ``offset .. offset+length`` of a routed batch, all of one bucket.

    Args:
        new_hashes: of a dynamic bucket, the key hashes (int32) its committed index may lack.
        total_buckets: how many buckets the partition was taken to have; 0 for as many as the
            table's schema says.
    """

    partition: bytes
    bucket: int
    offset: int
    length: int
    new_hashes: bytes = b""
    total_buckets: int = 0


@dataclass(frozen=True)
class RoutedBatch:
    """Incoming rows of one owner, sorted by bucket; within a bucket in arrival order."""

    rows: pa.RecordBatch
    slices: tuple[Slice, ...]


KeptBatch = NewType("KeptBatch", object)
"""Stands for a `RoutedBatch` that is held on to, as a reference into an object store."""


class Push(msgspec.Struct, frozen=True):
    """Names one pushed batch, so that it counts once however often it is delivered.

    Args:
        session: the work it belongs to.
        source: `DRIVER`, or the Spark partition.
        attempt: the Spark task attempt; only one attempt a source is taken.
        index: 0, 1, 2 … within the attempt and owner.
        schema_id: the schema whose columns the rows have.
        schema_digest: tells whether the owner means the same schema.
    """

    session: SessionId
    source: int
    attempt: int
    index: int
    schema_id: int
    schema_digest: str | None = None


def first_push(
    schema: TableSchema, session: SessionId, source: int = DRIVER, attempt: int = 0
) -> Push:
    """Name an attempt's first batch."""
    return Push(session, source, attempt, 0, schema.id, schema.digest)


@dataclass(frozen=True)
class HashedKeys:
    """Keys by their partitions and hashes.

    Args:
        partitions: those there are.
        indices: int32, each key's partition, as a position in ``partitions``.
        hashes: int32, of each key less the partition columns.
    """

    partitions: Sequence[bytes]
    indices: npt.NDArray[np.int32]
    hashes: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.hashes)

    def at(self, rows: Any) -> HashedKeys:
        """Select keys by their positions, as numpy does."""
        return HashedKeys(self.partitions, self.indices[rows], self.hashes[rows])

    def by_partition(self) -> Iterator[tuple[bytes, Any]]:
        """List the positions of each partition's keys, as numpy takes them."""
        if len(self.partitions) == 1:
            yield self.partitions[0], slice(None)
            return
        order = np.argsort(self.indices, kind="stable")
        ends = np.cumsum(np.bincount(self.indices, minlength=len(self.partitions)))
        for partition, rows in zip(self.partitions, np.split(order, ends[:-1]), strict=True):
            if len(rows):
                yield partition, rows


@dataclass(frozen=True)
class Assigned:
    """Buckets of rows, in their order.

    Args:
        is_new: the row's key is not in a committed index.
        token: the same as long as the assigner remembers what it assigned for the session.
    """

    buckets: npt.NDArray[np.int32]
    is_new: npt.NDArray[np.bool_]
    token: str


@dataclass(frozen=True)
class RowsPlaced:
    """The targets of rows whose keys cross partitions: first all rows in their order, then deletes.

    Args:
        partitions: those there are.
        indices: each one's partition, as a position in ``partitions``; -1 where a row is dropped.
        buckets: each one's bucket; -1 likewise.
        moved: of each delete, the row before which the row's key is to be deleted there.
        token: the same as long as the assigner remembers what it told the session.
    """

    partitions: Sequence[bytes]
    indices: npt.NDArray[np.int32]
    buckets: npt.NDArray[np.int32]
    moved: npt.NDArray[np.int64]
    token: str


@dataclass(frozen=True)
class KeysFound:
    """The partition and bucket of keys, in their order.

    Args:
        partitions: those there are.
        indices: each key's partition, as a position in ``partitions``; -1 where there is no key.
        buckets: each key's bucket; -1 likewise.
        snapshot_id: the snapshot that was looked into.
    """

    partitions: Sequence[bytes]
    indices: npt.NDArray[np.int32]
    buckets: npt.NDArray[np.int32]
    snapshot_id: int


class HashFile(msgspec.Struct, frozen=True):
    """A bucket's hash index from a commit on."""

    partition: bytes
    bucket: int
    file: IndexFileMeta


class Acknowledgement(msgspec.Struct, frozen=True):
    """The end of a session's commit.

    Args:
        snapshot_id: the snapshot that its work is in.
        hash_files: the index files of the commit, those of other owners' buckets included.
        new: the snapshot was made by this commit, not by an earlier attempt of its name.
        made: the snapshots of the commit, after the one that they were put on top of.
    """

    snapshot_id: int
    hash_files: tuple[HashFile, ...] = ()
    new: bool = False
    made: tuple[Snapshot, ...] = ()


class PushReport(msgspec.Struct, frozen=True):
    """A report of what one attempt pushed: the number of batches by owner.

    Args:
        tokens: of the owners that assigned dynamic buckets.
    """

    source: int
    attempt: int
    rows: int
    batches: dict[int, int]
    tokens: dict[int, str] = {}

    def to_bytes(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> PushReport:
        return msgspec.msgpack.decode(data, type=cls)


class BucketSelection(msgspec.Struct, frozen=True, kw_only=True):
    """Buckets to compact.

    Args:
        full: into one run each, else as far as it is due.
        partitions: these only.
        buckets: these only, of each partition.
    """

    full: bool = True
    partitions: frozenset[bytes] | None = None
    buckets: frozenset[int] | None = None

    def has(self, bucket: BucketId) -> bool:
        """Whether a bucket is one of them."""
        partition, number = bucket
        return (self.partitions is None or partition in self.partitions) and (
            self.buckets is None or number in self.buckets
        )


class CommitRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Ask the coordinator to commit a session.

    Args:
        name: the commit's, with the user's.
        reports: the attempts that count; nothing else that was pushed is taken.
        compaction: nothing was written: only commit what was compacted, and compact these
            buckets where commits have to do that themselves.
        full_compact: compact every bucket of the table into one run.
        watermark: event time in milliseconds, kept in the snapshot.
        properties: kept in the snapshot.
    """

    session: SessionId
    name: CommitName
    reports: tuple[PushReport, ...] = ()
    compaction: BucketSelection | None = None
    full_compact: bool = False
    watermark: int | None = None
    properties: dict[str, str] | None = None


@dataclass(frozen=True)
class OverwriteRequest:
    """Ask the coordinator to put files in the place of all that is in some partitions.

    Args:
        user, name: the commit's.
        messages: of the new files.
        replaced: the partitions that are emptied.
        read_at: the snapshot that the new files were made from, if they were.
        properties: kept in the snapshot.
    """

    user: str
    name: CommitName
    messages: Sequence[CommitMessage]
    replaced: Partitions
    read_at: int | None = None
    properties: dict[str, str] | None = None


@dataclass(frozen=True)
class PrepareRequest:
    """A request to an owner to prepare a commit.

    Args:
        base: the snapshot that it is put on top of.
        attempts: of tasks, those that count.
        compaction, full_compact: see `CommitRequest`.
        attempt_id: the same as before where what was handed over before is certainly not
            published.
        seen: the base, as it was seen there just now.
        schemas: what schemas there are, as of `SchemaStore.listing`; None: that is not known.
    """

    base: int
    attempts: Attempts
    compaction: BucketSelection | None = None
    full_compact: bool = False
    attempt_id: str = ""
    seen: Snapshot | None = field(default=None, compare=False)
    schemas: str | None = field(default=None, compare=False)

    def compacts(self, bucket: BucketId) -> bool:
        return self.compaction is not None and self.compaction.has(bucket)


class CommitOutcome(msgspec.Struct, frozen=True):
    """The newest snapshot of the identifier; ``new`` is false where it was committed before."""

    snapshot: Snapshot | None
    new: bool


class Lookup(msgspec.Struct, frozen=True, array_like=True):
    """Rows by key.

    Args:
        keys: key columns, sorted by bucket as the slices say.
        slices: of some of the keys each; by prefix their partition may be `ANY_PARTITION` and
            their bucket `ANY_BUCKET`.
        columns: of the rows.
        snapshot_id: answer from this snapshot; by default from the newest known.
        schema_id: the schema that keys and columns are of; by default the newest known.
        schema_digest: as of `Push`.
        by_prefix: the keys are leading columns of the trimmed primary key, and perhaps others;
            all rows of keys that begin so are wanted.
        expected: what the owner is to hold of sessions, those apart that have ended.
        staleness_millis: the owner's last look for other processes' snapshots may be so old.
    """

    keys: pa.RecordBatch
    slices: Sequence[Slice]
    visibility: Visibility
    columns: Sequence[str]
    snapshot_id: int | None = None
    schema_id: int | None = None
    schema_digest: str | None = None
    by_prefix: bool = False
    expected: tuple[Holding, ...] = ()
    staleness_millis: int = 0

    @property
    def sees_uncommitted(self) -> bool:
        return self.visibility == "latest"


LookupAnswer = tuple[np.ndarray, pa.Table, int]
"""Positions of the keys found, their rows, and the snapshot answered from."""
