"""What an expiry has begun, so that the next one can finish it."""

from __future__ import annotations

import contextlib

import msgspec

from pkray.checksums import seal_json
from pkray.errors import MissingFileError, StorageError
from pkray.format import paths
from pkray.format.snapshot import Snapshot
from pkray.json_files import decode
from pkray.storage.object_store import ObjectStore

PATH = f"{paths.SNAPSHOT_DIR}/EXPIRING"
"""Other engines pass it over, as they look for ``snapshot-*``."""


class Expiring(msgspec.Struct, frozen=True, kw_only=True):
    """Snapshots, or changelogs that outlived theirs, on their way out.

    Args:
        token: of this expiry alone.
        dead: oldest first; nobody finds their files any more once this is being carried out.
        kept: the snapshot after the last dead one, or the oldest one where changelogs expire.
        changelogs: the dead are changelogs.
        keep_changelogs: the changelogs of dead snapshots live on.
    """

    token: str
    dead: tuple[Snapshot, ...]
    kept: Snapshot
    changelogs: bool = False
    keep_changelogs: bool = False


_decoder = msgspec.json.Decoder(Expiring)


class ExpiryJournal:
    """The file of the one expiry that is under way."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def begin(self, expiring: Expiring) -> bool:
        """Write down what is to be done; False if another expiry is under way."""
        return self._store.create(PATH, seal_json(msgspec.json.encode(expiring)))

    def read(self) -> Expiring | None:
        """What was begun and not ended; a damaged file is passed over, and removed."""
        try:
            data = self._store.read(PATH)
        except MissingFileError:
            return None
        try:
            return decode(data, _decoder)
        except ValueError:  # what it named is the orphan cleaner's
            self._store.delete(PATH)
            return None

    def end(self, expiring: Expiring) -> None:
        """It is done; what another expiry has begun since is left alone."""
        with contextlib.suppress(StorageError):  # it is done again, to no effect
            there = self.read()
            if there is not None and there.token == expiring.token:
                self._store.delete(PATH)
