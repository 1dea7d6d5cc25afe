"""List the methods of owners and coordinators, and their concurrency groups, in one place.

Stubs say the arguments and the result; `BucketOwner` and `Coordinator` have the bodies. Of a
client ``owner``, ``owner.abort(session)`` waits and is asked again while the owner restarts,
``owner.abort.once(session)`` is not, ``owner.abort.submit(session)`` is a `Pending` answer. An
actor runs each group on threads of its own; in this process, ordered groups share one queue.
"""
# mypy: disable-error-code="empty-body"
# Stubs are never run: whoever is called has the bodies, and a test compares their signatures.

from collections.abc import Sequence

import numpy as np

from pkray.format.commit_message import CommitMessage
from pkray.metadata.commit_name import CommitName
from pkray.service.client.key_ids import KeyIds, KeysToPlace
from pkray.service.handles.handle import Client, Group, method
from pkray.service.protocol import (
    Acknowledgement,
    Assigned,
    Attempts,
    BucketSelection,
    CommitOutcome,
    CommitRequest,
    HashedKeys,
    Holding,
    KeptBatch,
    KeysFound,
    Lookup,
    LookupAnswer,
    OverwriteRequest,
    PrepareRequest,
    Push,
    PushReport,
    RoutedBatch,
    RowsPlaced,
    SessionId,
)
from pkray.service.stats import CoordinatorStats, OwnerStats
from pkray.service.versions import Spoken

_WRITE = Group("write", threads=1, is_ordered=True)
_PREPARE = Group("prepare", threads=1)
_READ = Group("read", threads=4)
_ASSIGN = Group("assign", threads=2)
_COMPACT = Group("compact", threads=2, is_ordered=True)
_HEAR = Group("hear", threads=1)
"""Of owners: writes run one after another; lookups, heartbeats and a commit that is prepared run
concurrently with them."""

_COMMIT = Group("commit", threads=1)
_COMPACT_TABLE = Group("compact", threads=1)
_ASK = Group("ask", threads=4)
"""Of coordinators."""


class OwnerClient(Client):
    """The methods of an owner of buckets."""

    @method(_READ, is_short=True)
    def ping(self) -> None:
        """Answer."""

    @method(_WRITE)
    def push(self, push: Push, batch: RoutedBatch | KeptBatch) -> None:
        """Take a batch once: the driver's into memory, a task's aside until its report.

        Args:
            batch: one that is kept arrives as a batch.
        """

    @method(_WRITE)
    def take_over(self, push: Push, path: str, count: int) -> None:
        """Take ``count`` batches from a spool file of this machine, as `push` would."""

    @method(_PREPARE)
    def prepare(
        self, session_id: SessionId, wanted: PrepareRequest, tokens: Sequence[str] = ()
    ) -> list[CommitMessage]:
        """Prepare a session's commit: what is to be published."""

    @method(_WRITE)
    def acknowledge(self, session_id: SessionId, done: Acknowledgement) -> bool:
        """Note that a session is committed; whether compactions are pending."""

    @method(_WRITE)
    def abort_prepare(self, session_id: SessionId) -> None:
        """Note that what was prepared is not published, though the session goes on."""

    @method(_WRITE)
    def abort(self, session_id: SessionId) -> None:
        """Drop a session."""

    @method(_HEAR, is_short=True, is_lookup=True)  # a part of lookups of what is not committed
    def heartbeat(self, session_id: SessionId) -> Holding:
        """Hold a session that is here for another lease; what there is of it."""

    @method(_WRITE)
    def renew_files(self) -> None:
        """Write local files of open sessions anew that are to be kept safe from cleaning."""

    @method(_ASSIGN, is_short=True)
    def newest_generation(self, user: str) -> int:
        """Find the newest generation of the user's writers that pushed here; 0 without one."""

    @method(_COMPACT)
    def compact(self, selection: BucketSelection) -> int:
        """Compact committed files; the number of buckets with something to be committed."""

    @method(_COMPACT, is_short=True)
    def compactions(self, wait: bool = False) -> tuple[int, bool]:
        """Begin what is due; the number of finished ones, and whether any are pending."""

    @method(_ASSIGN)
    def assign(self, session_id: SessionId, keys: HashedKeys) -> Assigned:
        """Assign dynamic buckets to rows that are to be pushed, one key a row."""

    @method(_ASSIGN, is_lookup=True)
    def locate(
        self, keys: HashedKeys, snapshot_id: int | None = None, expected: Sequence[Holding] = ()
    ) -> tuple[np.ndarray, int]:
        """Find the dynamic buckets of keys, int32, and the snapshot that was looked into."""

    @method(_ASSIGN)
    def place(self, session_id: SessionId, asked: KeysToPlace) -> RowsPlaced:
        """Say where rows go whose keys cross partitions."""

    @method(_ASSIGN, is_lookup=True)
    def locate_keys(
        self, keys: KeyIds, snapshot_id: int | None, latest: bool, expected: Sequence[Holding] = ()
    ) -> KeysFound | None:
        """Find keys that cross partitions; None where nobody knows the snapshot's any more."""

    @method(_WRITE)
    def stage(self, push: Push, batch: RoutedBatch) -> None:
        """Keep a task's rows until they are placed."""

    @method(_ASSIGN)
    def place_staged(self, session_id: SessionId, attempts: Attempts) -> PushReport:
        """Place and push what tasks have left."""

    @method(_READ, is_short=True, is_lookup=True)
    def lookup(self, asked: Lookup) -> LookupAnswer:
        """Find rows by key."""

    @method(_READ, is_short=True)
    def stats(self) -> OwnerStats:
        """Count for people and metrics."""

    @method(_WRITE)
    def close(self) -> None:
        """Drop uncommitted work and the local files."""


class CoordinatorClient(Client):
    """The methods of a table's coordinator."""

    @method(_ASK, is_short=True)
    def greet(self, caller: Spoken) -> Spoken:
        """Say what the coordinator speaks to a caller that it understands."""

    @method(_ASK, is_short=True)
    def ping(self) -> None:
        """Answer."""

    @method(_ASK, is_short=True)
    def stats(self) -> CoordinatorStats:
        """Count for people and metrics."""

    @method(_ASK, is_short=True)
    def start_owners(self) -> None:
        """Start the owners' actors that are dead for good."""

    @method(_ASK, is_short=True)
    def owner_count(self) -> int:
        """Count the owners' actors."""

    @method(_ASK)
    def begin(self, user: str, alone: bool = False) -> SessionId:
        """Begin a new writer of the commit user; those before it are fenced, in any process.

        Args:
            alone: nobody else has this name, so that no other process needs to know.
        """

    @method(_ASK)
    def last_identifier(self, user: str) -> int | None:
        """Find the newest identifier that the user committed, or None."""

    @method(_ASK)
    def committed(self, user: str, name: CommitName) -> CommitOutcome | None:
        """Find the outcome of a commit made before, or None where it was not made."""

    @method(_COMMIT)
    def commit(self, request: CommitRequest) -> CommitOutcome:
        """Commit a session once; repeating the request changes no row."""

    @method(_COMMIT)
    def overwrite(self, request: OverwriteRequest) -> CommitOutcome:
        """Put files in the place of all that is in some partitions, once.

        Where it was not answered, see whether it is `committed` before asking again: `once`.
        """

    @method(_COMPACT_TABLE)
    def compact(self, selection: BucketSelection) -> CommitOutcome:
        """Compact buckets while writers go on; no snapshot where nothing was to be done."""

    @method(_COMMIT)
    def commit_finished(self, wait: bool = False) -> None:
        """Commit compactions that have finished.

        Args:
            wait: for those that run.
        """

    @method(_COMMIT)
    def abort(self, session: SessionId) -> None:
        """Drop a session that was not committed."""

    @method(_COMMIT)
    def close(self) -> None:
        """Commit nothing more by itself."""
