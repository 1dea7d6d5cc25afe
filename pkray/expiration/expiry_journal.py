"""Records what an expiry has begun, so that the next one can finish it."""

import contextlib

import msgspec

from pkray.checksums import seal_json
from pkray.errors import MissingFileError, StorageError
from pkray.format import paths
from pkray.format.snapshot import Snapshot
from pkray.json_files import decode
from pkray.storage.object_store import ObjectStore

PATH = paths.EXPIRING


class Expiring(msgspec.Struct, frozen=True, kw_only=True):
    """The snapshots, or the changelogs that outlived theirs, that an expiry removes.

    Args:
        token: of this expiry alone.
        expired: oldest first; nobody finds their files any more once they are being removed.
        kept: the snapshot after the last expired one, or the oldest one where changelogs expire.
        changelogs: the expired are changelogs.
        keep_changelogs: the changelogs of expired snapshots are kept.
    """

    token: str
    expired: tuple[Snapshot, ...] = msgspec.field(name="dead")
    kept: Snapshot
    changelogs: bool = False
    keep_changelogs: bool = False


_decoder = msgspec.json.Decoder(Expiring)


class ExpiryJournal:
    """Reads and writes the file of the one expiry that is under way."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def begin(self, expiring: Expiring) -> bool:
        """Write down what is to be done; False if another expiry is under way."""
        return self._store.create(PATH, seal_json(msgspec.json.encode(expiring)))

    def read(self) -> Expiring | None:
        """Return what was begun and not ended; a damaged file is passed over, and removed."""
        try:
            data = self._store.read(PATH)
        except MissingFileError:
            return None
        try:
            return decode(data, _decoder)
        except ValueError:  # what it named is the orphan cleaner's
            self._store.delete(PATH)
            return None

    def stays_from(self) -> int:
        """Find the oldest snapshot that the expiry under way leaves; 0 where there is none.

        For whoever has just said in a consumer what it needs: an expiry that is written down later
        looks at the consumers again before it deletes anything.
        """
        begun = self.read()
        return 0 if begun is None else begun.expired[-1].id + 1

    def end(self, expiring: Expiring) -> None:
        """Remove the record of a finished expiry; one that another expiry has begun since stays."""
        with contextlib.suppress(StorageError):  # it is done again, to no effect
            there = self.read()
            if there is not None and there.token == expiring.token:
                self._store.delete(PATH)
