"""Commits that a coordinator made, or not, before it was killed, as an owner finds them out."""

from __future__ import annotations

from pkray.service.committed_files import CommittedFiles
from pkray.service.owner.sessions import OwnerSessions


class InDoubtCommits:
    """Finds the snapshots of sessions whose end the owner was not told.

    Their rows would count twice, with those of the snapshot, as soon as it is compacted: until
    then the files themselves tell.
    """

    def __init__(self, sessions: OwnerSessions, committed: CommittedFiles) -> None:
        self._sessions = sessions
        self._committed = committed

    @property
    def is_found_out(self) -> bool:
        """Whether `find_out` has looked into the newest snapshot known."""
        newest = self._committed.snapshot_id
        waiting = self._sessions.in_doubt()
        return all(prepared.searched_until >= newest for _, prepared in waiting)

    def find_out(self) -> None:
        """Look into the snapshots that sessions' users made since their commits were prepared."""
        newest = self._committed.snapshot_id
        for session_id, prepared in self._sessions.in_doubt():
            after = prepared.searched_until
            prepared.search(self._committed.appended_by(session_id.user, after, newest), newest)
