"""Follow the commit that an owner prepares of a session, state by state.

::

    IDLE ─ prepare ▶ PREPARED ─ hand_over ▶ IN_FLIGHT ─ release ▶ IN_DOUBT ─ commit ▶ COMMITTED
    IN_FLIGHT ─ commit ▶ COMMITTED
    IN_FLIGHT, IN_DOUBT, COMMITTED ─ hand_over ▶ IN_FLIGHT
    PREPARED, IN_FLIGHT, IN_DOUBT, COMMITTED ─ undo ▶ UNDONE ─ prepare ▶ PREPARED

`prepare` and `hand_over` raise in every other state. `release`, `commit` and `undo` are said to
whichever session it concerns, and change no other state.

What follows where an answer is lost:

- prepare: the coordinator asks again. The same request is handed the same messages over once more;
  for another one those before are undone first.
- acknowledge, and the order to abort a preparation: the next commit of the owner releases this one,
  or its time runs out. `search` then tells whether a snapshot has its files.
- the outcome of the publication: the commit stays in flight until one of these two.
- the order to abort the session: its writer's lease runs out, and it is dropped with its commit.

A rollback of the table drops a session with messages; one that takes the place of schemas undoes
them; a restart of the owner forgets the session. Writers then push their rows again.
"""

import threading
from collections.abc import Iterable, Sequence
from enum import Enum

from pkray.errors import ServiceError
from pkray.format.commit_message import CommitMessage
from pkray.service.assignment.snapshot_watch import PENDING_MILLIS
from pkray.service.protocol import PrepareRequest
from pkray.service.timing.elapsed import elapsed


class CommitState(Enum):
    """The state of a session's commit, for all that its owner knows."""

    IDLE = "idle"
    """Nothing was ever prepared."""
    PREPARED = "prepared"
    """Messages are made, and nobody was given them."""
    IN_FLIGHT = "in flight"
    """The coordinator was given them, and may publish them at any moment."""
    IN_DOUBT = "in doubt"
    """The coordinator is done with them, and did not say whether they were published."""
    COMMITTED = "committed"
    """A snapshot has their files."""
    UNDONE = "undone"
    """They are undone, and their rows are to be prepared again."""


_WITHOUT_MESSAGES = (CommitState.IDLE, CommitState.UNDONE)


class PreparedCommit:
    """Messages of one session, and the files of all that were handed over. Thread-safe.

    It does no work: whoever undoes messages gives their rows back to the bucket writers.

    Attributes:
        messages: of the newest preparation; none where it was undone.
        searched_until: the newest snapshot that was searched for the files handed over.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.state = CommitState.IDLE
        self._request: PrepareRequest | None = None
        self.messages: Sequence[CommitMessage] = ()
        self._in_flight_since = 0
        self._file_names: set[str] = set()
        self.searched_until = 0
        self._committed_in: int | None = None

    @property
    def is_prepared(self) -> bool:
        """Whether there are messages, which may have been published."""
        return self.state not in _WITHOUT_MESSAGES

    @property
    def attempt_id(self) -> str | None:
        """The coordinator's attempt that the messages are for; None without messages."""
        request = self._request
        return None if request is None else request.attempt_id

    def answers(self, request: PrepareRequest) -> bool:
        """Whether the messages are those that are asked for."""
        return self._request == request

    def base_in_flight(self, now: int) -> int | None:
        """Return the snapshot under messages that may be published at any moment; None without.

        Args:
            now: epoch milliseconds.
        """
        with self._lock:
            if self.state is not CommitState.IN_FLIGHT or self._request is None:
                return None
            is_over = elapsed(self._in_flight_since, now, PENDING_MILLIS)
            return None if is_over else self._request.base

    def is_in_doubt(self, now: int) -> bool:
        """Whether snapshots may have files that were handed over, those of messages undone since
        included, and are not about to get them.

        Args:
            now: epoch milliseconds.
        """
        is_unknown = bool(self._file_names) and self._committed_in is None
        return is_unknown and self.base_in_flight(now) is None

    def is_in(self, snapshot_id: int) -> bool:
        """Whether a snapshot is known to have files that were handed over."""
        return self._committed_in is not None and self._committed_in <= snapshot_id

    def prepare(self, request: PrepareRequest, messages: Sequence[CommitMessage]) -> None:
        """Keep messages that were made for a request.

        Raises:
            ServiceError: there are others, which must be undone before.
        """
        with self._lock:
            self._require("prepared", *_WITHOUT_MESSAGES)
            self._request, self.messages = request, messages
            self.state = CommitState.PREPARED

    def hand_over(self, now: int) -> None:
        """Note that the coordinator is given the messages, perhaps once more.

        Args:
            now: epoch milliseconds.

        Raises:
            ServiceError: nothing is prepared.
        """
        with self._lock:
            self._require("handed over", *(s for s in CommitState if s not in _WITHOUT_MESSAGES))
            assert self._request is not None
            base = self._request.base
            self.searched_until = min(self.searched_until, base) if self._file_names else base
            self._file_names.update(f.file_name for m in self.messages for f in m.new_files)
            self._in_flight_since = now
            self.state = CommitState.IN_FLIGHT

    def release(self) -> None:
        """Note that the coordinator publishes these messages no more, as it turned to another
        commit or said so; nothing changes where they are not in flight."""
        with self._lock:
            if self.state is CommitState.IN_FLIGHT:
                is_known = self._committed_in is not None
                self.state = CommitState.COMMITTED if is_known else CommitState.IN_DOUBT

    def commit(self, snapshot_id: int) -> None:
        """Note that a snapshot has what was handed over.

        Messages that were made since, and that nobody was given, stay prepared: the snapshot is
        of an earlier attempt, by a coordinator that was taken for dead.
        """
        with self._lock:
            if self._committed_in is None:
                self._committed_in = snapshot_id
            if self.state in (CommitState.IN_FLIGHT, CommitState.IN_DOUBT):
                self.state = CommitState.COMMITTED

    def search(self, appended: Iterable[tuple[int, set[str]]], until: int) -> None:
        """Find the snapshot that has files handed over.

        Args:
            appended: snapshots of the session's user after `searched_until`, with the names of
                the files that each added.
            until: the newest snapshot among those looked at.
        """
        found = next((number for number, names in appended if names & self._file_names), None)
        if found is not None:
            self.commit(found)
        with self._lock:
            self.searched_until = max(self.searched_until, until)

    def undo(self) -> None:
        """Undo the messages, if there are any: their rows will be prepared again, or are lost.

        Files that were handed over are in doubt for as long as the session is.
        """
        with self._lock:
            if self.state is not CommitState.IDLE:
                self.state = CommitState.UNDONE
            self._request, self.messages = None, ()

    def _require(self, event: str, *states: CommitState) -> None:
        if self.state not in states:
            raise ServiceError(
                f"a commit that is {self.state.value} cannot be {event}: the owner's state is "
                "damaged; abort the commit and write its rows again",
                state=self.state.value,
            )
