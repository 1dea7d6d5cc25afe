"""The files that an owner has handed over for a session's commit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pkray.format.commit_message import CommitMessage


class InFlight(NamedTuple):
    """Messages that may be published at any moment.

    Args:
        base: the snapshot that they are put on top of.
        since: epoch milliseconds.
    """

    base: int
    since: int


class PreparedFiles:
    """New files that messages of a session named, until a snapshot is known to have them."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.looked_until = 0
        """No snapshot up to this one has them, but for `landed_in`."""
        self.landed_in: int | None = None
        """The snapshot that has them: the session's commit."""

    def add(self, base: int, messages: Iterable[CommitMessage]) -> None:
        """Note files that a commit on top of a snapshot may publish from now on."""
        self.looked_until = min(self.looked_until, base) if self.names else base
        self.names.update(file.file_name for each in messages for file in each.new_files)

    def is_in(self, snapshot_id: int) -> bool:
        """Whether a snapshot has them."""
        return self.landed_in is not None and self.landed_in <= snapshot_id
