"""One process at a time changes a store of backups."""

import threading
import uuid
from collections.abc import Callable

import msgspec

from pkray.checksums import seal_json
from pkray.clock import now_millis
from pkray.closing import Closeable
from pkray.errors import BackupInUseError, MissingFileError
from pkray.metadata.named_files import numbered_files
from pkray.storage.object_store import ObjectStore
from pkray.storage.sealed import read_sealed

_PREFIX = "turns/turn-"
_BEAT_SECONDS = 30.0
LOST_MILLIS = 600_000
"""After which a process that says nothing is taken for lost: twenty beats."""


class TurnFile(msgspec.Struct, frozen=True):
    """A turn as its file says it.

    Attributes:
        attempt: an id that no other turn has.
        doing: what it is for, for people.
        beat: epoch milliseconds when it last said that it goes on.
        is_over: whether it has ended.
    """

    attempt: str
    doing: str
    beat: int
    is_over: bool = False


class Turn(Closeable):
    """The right to change a store, until it is left; a thread says that it goes on.

    A process that slept for longer than `LOST_MILLIS` finds out by `check` that another one has its
    turn. Numbers of turns are taken once: none is taken twice, however long somebody slept.

    Args:
        store: of backups.
        doing: what it is for.

    Raises:
        BackupInUseError: another process has its turn.
    """

    def __init__(
        self, store: ObjectStore, doing: str, clock: Callable[[], int] = now_millis
    ) -> None:
        self._store = store
        self._clock = clock
        self._file = TurnFile(uuid.uuid4().hex[:16], doing, clock())
        self._ended = threading.Event()
        newest = max((number for number, _ in numbered_files(store, _PREFIX)), default=-1)
        if newest >= 0:
            self._check_ended(newest)
        self._number = newest + 1
        if not store.create(self._path(self._number), _encoded(self._file)):
            raise self._in_use(self._number)
        store.delete([self._path(number) for number in range(max(0, newest - 9), newest)])
        self._thread = threading.Thread(target=self._beat, daemon=True, name="pkray-backup-turn")
        self._thread.start()

    @property
    def attempt(self) -> str:
        """The id of this turn."""
        return self._file.attempt

    def check(self) -> None:
        """Check that no other process has its turn.

        Raises:
            BackupInUseError: one has, as this one slept.
        """
        if self._store.exists(self._path(self._number + 1)):
            raise self._in_use(self._number + 1)

    def close(self) -> None:
        """End the turn."""
        self._ended.set()
        self._thread.join(_BEAT_SECONDS)
        over = msgspec.structs.replace(self._file, is_over=True, beat=self._clock())
        self._store.write(self._path(self._number), _encoded(over))

    def _beat(self) -> None:
        while not self._ended.wait(_BEAT_SECONDS):
            beaten = msgspec.structs.replace(self._file, beat=self._clock())
            self._store.write(self._path(self._number), _encoded(beaten))

    def _check_ended(self, number: int) -> None:
        """Check that the turn before has ended, or was lost."""
        found = self._read(number)
        if found and not found.is_over and self._clock() - found.beat < LOST_MILLIS:
            raise self._in_use(number)

    def _read(self, number: int) -> TurnFile | None:
        try:
            return read_sealed(self._store, self._path(number), TurnFile)
        except MissingFileError:
            return None

    def _in_use(self, number: int) -> BackupInUseError:
        found = self._read(number)
        doing = "something is changed" if found is None else found.doing
        return BackupInUseError(
            f"{self._store.url} is in use: {doing}; wait until it has ended, or, if its process "
            f"was killed, for {LOST_MILLIS // 60_000} minutes",
            doing=doing,
        )

    @staticmethod
    def _path(number: int) -> str:
        return f"{_PREFIX}{number}"


def _encoded(turn: TurnFile) -> bytes:
    return seal_json(msgspec.json.encode(turn))
