"""The places that consumers have reached in a table's changes."""

from collections.abc import Iterator

import msgspec

from pkray.arguments.file_names import check_chosen
from pkray.checksums import seal_json
from pkray.errors import CorruptFileError, MissingFileError, OptionError
from pkray.format import paths
from pkray.json_files import SnapshotId
from pkray.json_files import decode as decode_json
from pkray.metadata.named_files import named_files
from pkray.storage.object_store import ObjectStore

_PREFIX = f"{paths.CONSUMER_DIR}/consumer-"


class Consumer(msgspec.Struct, frozen=True):
    """A consumer's place.

    Args:
        name: its ``consumer-id``.
        next_snapshot: the first snapshot it has not read; that one and all later ones are kept.
        modified_millis: when it last said so, epoch milliseconds.
        keeps_from: the oldest snapshot it needs, where that is not the next it reads.
        is_loading: it reads the whole of ``next_snapshot``, before any changes.
    """

    name: str
    next_snapshot: int
    modified_millis: int
    keeps_from: int | None = None
    is_loading: bool = False

    @property
    def oldest_needed(self) -> int:
        return self.next_snapshot if self.keeps_from is None else self.keeps_from


class _FirstLast(msgspec.Struct, rename="camel", omit_defaults=True):
    next_snapshot: SnapshotId
    keeps_from: SnapshotId | None = None
    is_loading: bool = False


_decoder = msgspec.json.Decoder(_FirstLast)


class ConsumerStore:
    """Reads and writes ``consumer/consumer-<id>``: ``{"nextSnapshot": N}``.

    ``keepsFrom`` and ``isLoading`` are pkray's own; Paimon's readers pass over them.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def find(self, name: str) -> Consumer | None:
        """Return the consumer of that name, or None.

        Raises:
            CorruptFileError: its file is damaged.
        """
        return self._find(name, _path(name))

    def _find(self, name: str, path: str, modified_millis: int = 0) -> Consumer | None:
        try:
            data = self._store.read(path)
        except MissingFileError:
            return None
        try:
            place = decode_json(data, _decoder)
        except ValueError as error:
            raise CorruptFileError(
                f"consumer file {self._store.location(path)} is damaged: {error}; reset the "
                "consumer to a snapshot, or delete it",
                path=path,
                consumer=name,
            ) from error
        return Consumer(
            name, place.next_snapshot, modified_millis, place.keeps_from, place.is_loading
        )

    def record(
        self,
        name: str,
        next_snapshot: int,
        *,
        keeps_from: int | None = None,
        is_loading: bool = False,
    ) -> None:
        """Keep a consumer's place; it comes into being with the first.

        Args:
            keeps_from, is_loading: as of `Consumer`.

        Raises:
            OptionError: a name that no consumer can have, or a snapshot id below 1.
        """
        if type(next_snapshot) is not int or next_snapshot < 1:
            raise OptionError(
                f"consumer {name!r} cannot be at snapshot {next_snapshot!r}: ids are whole numbers "
                "from 1 on",
                consumer=name,
                snapshot_id=next_snapshot,
            )
        place = _FirstLast(next_snapshot, keeps_from, is_loading)
        self._store.write(_path(name), seal_json(msgspec.json.encode(place)))

    def delete(self, name: str) -> None:
        """Forget a consumer; nothing happens where there is none."""
        self._store.delete(_path(name))

    def names(self) -> list[str]:
        """List the names of the consumers, in order."""
        return [name for name, _ in self._files()]

    def list(self) -> list[Consumer]:
        """List every consumer, by name."""
        found = []
        for name, modified in self._files():
            consumer = self._find(name, paths.consumer(name), modified)
            if consumer is not None:
                found.append(consumer)
        return found

    def min_next(self) -> int | None:
        """Return the oldest snapshot that a consumer still needs; None without consumers."""
        return min((consumer.oldest_needed for consumer in self.list()), default=None)

    def idle(self, before_millis: int) -> tuple[str, ...]:
        """Name the consumers that last moved before a time."""
        return tuple(name for name, modified in self._files() if modified < before_millis)

    def expire(self, before_millis: int) -> tuple[str, ...]:
        """Delete the consumers that last moved before a time; their names."""
        idle = self.idle(before_millis)
        self._store.delete([paths.consumer(name) for name in idle])
        return idle

    def _files(self) -> Iterator[tuple[str, int]]:
        for name, file in sorted(named_files(self._store, _PREFIX)):
            yield name, file.modified_millis


def _path(name: object) -> str:
    check_chosen(name, "consumer", OptionError)
    return paths.consumer(str(name))
