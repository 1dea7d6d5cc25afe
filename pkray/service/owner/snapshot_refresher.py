"""Moves an owner on from snapshot to snapshot."""

from collections.abc import Callable, Sequence

from pkray.format.snapshot import Snapshot
from pkray.service.committed_files import CommittedFiles
from pkray.service.compaction.compactions import Compactions
from pkray.service.owner.sessions import OwnerSessions
from pkray.service.schema_cache import SchemaCache
from pkray.service.timing.elapsed import elapsed


class SnapshotRefresher:
    """Moves the committed files on; what rests on them, where the table was rolled back.

    Args:
        schema: looked at with each snapshot of others, which may be of a branch that took the
            table's place.
        clock: epoch milliseconds.
        refresh_millis: see `OwnerSettings`.
        looked: epoch milliseconds of the look that the committed files are from.
    """

    def __init__(
        self,
        committed: CommittedFiles,
        schema: SchemaCache,
        sessions: OwnerSessions,
        compactions: Compactions,
        clock: Callable[[], int],
        refresh_millis: int,
        looked: int = 0,
    ) -> None:
        self._committed = committed
        self._schema = schema
        self._sessions = sessions
        self._compactions = compactions
        self._clock = clock
        self._refresh_millis = refresh_millis
        self._refreshed = looked
        self._rollbacks = 0
        self._looked_at = self._position

    def refresh(self, at_once: bool = False, staleness_millis: int = 0) -> None:
        """See what other processes have committed, if that was not done just now.

        Args:
            staleness_millis: the last look may be so old.
        """
        now = self._clock()
        millis = max(self._refresh_millis, staleness_millis)
        if at_once or elapsed(self._refreshed, now, millis):
            self.advance()
            self._refreshed = now

    def advance(self, snapshot_id: int | None = None, seen: Sequence[Snapshot] = ()) -> None:
        """Move on to the snapshot, by default the latest: see `CommittedFiles.advance`.

        Args:
            snapshot_id: of a commit, whose preparation has looked at the schemas itself.
        """
        self._committed.advance(snapshot_id, seen)
        position = self._position
        if position != self._looked_at:
            if snapshot_id is None:
                self._schema.refresh()
            self._looked_at = position
        if self._committed.rollbacks == self._rollbacks:
            return
        # Whoever comes first does so, so that no commit is prepared before.
        with self._sessions.lock:
            if self._committed.rollbacks == self._rollbacks:
                return
            self._rollbacks = self._committed.rollbacks
            self._compactions.release(self._committed.levels)
            for session_id, session in self._sessions.items():
                if session.prepared.is_prepared:
                    # The rollback may have taken its files: they are pushed again.
                    self._sessions.drop(session_id)
                else:
                    session.rebase_when_free(self._committed.levels)

    @property
    def _position(self) -> tuple[int, int]:
        return self._committed.snapshot_id, self._committed.rollbacks
