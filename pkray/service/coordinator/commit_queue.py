"""Lets the processes of a machine that commit to one table go one after another."""

from __future__ import annotations

import os
import random
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from pkray.errors import StorageError
from pkray.storage.owned_directory import default_local_directory
from pkray.storage.private_files import private_directory, private_file, try_lock

_PATIENCE_SECONDS = 5.0
"""Longer than a commit takes as a rule; whoever holds the queue longer is passed."""
_LONGEST_LOOK_SECONDS = 0.004
"""Between two looks whether it is one's turn: little against a commit, which takes 20 ms."""
_TURN_BYTES = 16


class CommitQueue:
    """A file of this machine that is locked by whoever commits.

    Commits are right without it: of those that are made at a time one is published, and the
    others are prepared again. In the queue they are prepared once, and nobody loses for ever.
    A process that was stopped in its turn delays each of the others once.

    Args:
        path: of the lock file; None where there is no queue.
        clock: seconds, monotonic.
        sleep: takes seconds.
    """

    def __init__(
        self,
        path: str | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._path = path
        self._clock = clock
        self._sleep = sleep
        self._passed: bytes | None = None
        """The turn that was waited for in vain."""

    @staticmethod
    def of_table(fingerprint: str) -> CommitQueue:
        """Make the queue of a table's committers of this user; none where the disk refuses."""
        try:
            folder = private_directory(f"{default_local_directory()}/queues")
        except (OSError, StorageError):
            return CommitQueue(None)
        return CommitQueue(f"{folder}/{fingerprint}")

    @contextmanager
    def turn(self) -> Iterator[bool]:
        """Wait for this process's turn, five seconds at most, and hold it; whether it came at
        once."""
        file = self._open()
        try:
            at_once = file is None or try_lock(file)
            if file is not None and (at_once or self._wait(file)):
                os.pwrite(file, uuid.uuid4().bytes, 0)
            yield at_once
        finally:
            if file is not None:
                os.close(file)

    def _open(self) -> int | None:
        with suppress(OSError, StorageError):
            return None if self._path is None else private_file(self._path)
        return None

    def _wait(self, file: int) -> bool:
        """Whether the file could be locked."""
        end = self._clock() + _PATIENCE_SECONDS
        while not try_lock(file):
            turn = os.pread(file, _TURN_BYTES, 0)
            if turn == self._passed:
                return False
            if self._clock() > end:
                self._passed = turn
                return False
            self._sleep(random.uniform(0, _LONGEST_LOOK_SECONDS))
        return True
