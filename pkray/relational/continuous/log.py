"""What a query writes down: each epoch before it runs, and checkpoints from which it goes on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

import msgspec

from pkray.checksums import check_json, seal_json
from pkray.errors import CorruptFileError, QueryFencedError
from pkray.format.data_file import DataFileMeta
from pkray.storage.object_store import ObjectStore

_KEPT = 2
"""Checkpoints kept beside the newest: one that cannot be read is no loss."""


class EpochRecord(msgspec.Struct, frozen=True):
    """Everything about an epoch that could differ if it is run again.

    Attributes:
        number: from 0.
        bounds: of each source, the positions after which and up to which it is read.
        time: processing time in epoch milliseconds.
        watermark: at the end of the epoch, in microseconds.
        is_last: whether no source changes any more.
        run: which run of the query wrote it down.
    """

    number: int
    bounds: dict[str, tuple[int, int]]
    time: int
    watermark: int | None = None
    is_last: bool = False
    run: str = ""


class Checkpoint(msgspec.Struct, frozen=True):
    """The end of an epoch, with the files that hold all states as they were then.

    Attributes:
        epoch: the last one whose changes are in the states.
        positions: of the sources.
        digest: of the plan.
        files: by state.
    """

    epoch: int
    positions: dict[str, int]
    watermark: int | None
    digest: str
    files: dict[str, tuple[DataFileMeta, ...]]
    is_last: bool = False
    run: str = ""


class QueryLog(ABC):
    """Where a query writes down its epochs and checkpoints."""

    @abstractmethod
    def begin(self, record: EpochRecord) -> None:
        """Write an epoch down before it runs.

        Raises:
            QueryFencedError: another run of the query did.
        """

    @abstractmethod
    def epochs_from(self, number: int) -> list[EpochRecord]:
        """List the epochs that were written down, from a number on."""

    @abstractmethod
    def newest_checkpoint(self) -> Checkpoint | None:
        """Read the newest checkpoint; None where there is none."""

    @abstractmethod
    def write_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint, and delete what no checkpoint kept needs."""


class NoLog(QueryLog):
    """Writes nothing down: what runs ends with its process."""

    def begin(self, record: EpochRecord) -> None:
        pass

    def epochs_from(self, number: int) -> list[EpochRecord]:
        return []

    def newest_checkpoint(self) -> Checkpoint | None:
        return None

    def write_checkpoint(self, checkpoint: Checkpoint) -> None:
        pass


Record = TypeVar("Record", EpochRecord, Checkpoint)


class StoredLog(QueryLog):
    """A folder: ``epochs/epoch-<n>``, ``checkpoints/checkpoint-<n>``.

    Each file is created once. A run that finds what it is about to create there is not the newest
    any more, and stops.

    Args:
        store: the query's folder.
        run: the name of this run.
    """

    def __init__(self, store: ObjectStore, run: str) -> None:
        self._store = store
        self._run = run

    def begin(self, record: EpochRecord) -> None:
        named = msgspec.structs.replace(record, run=self._run)
        if not self._create(_epoch_path(record.number), named):
            raise self._fenced()

    def epochs_from(self, number: int) -> list[EpochRecord]:
        found = []
        while self._store.exists(_epoch_path(number)):
            found.append(self._read(_epoch_path(number), EpochRecord))
            number += 1
        return found

    def newest_checkpoint(self) -> Checkpoint | None:
        numbers = self._checkpoints()
        return self._read(_checkpoint_path(numbers[-1]), Checkpoint) if numbers else None

    def write_checkpoint(self, checkpoint: Checkpoint) -> None:
        before = self._checkpoints()
        named = msgspec.structs.replace(checkpoint, run=self._run)
        if not self._create(_checkpoint_path(checkpoint.epoch), named):
            raise self._fenced()
        self._clean(before, checkpoint)

    def _clean(self, before: list[int], newest: Checkpoint) -> None:
        """Delete old checkpoints, the epochs before the oldest kept, and files of states that no
        checkpoint kept names.
        """
        dropped, kept = before[:-_KEPT], before[-_KEPT:]
        if not dropped:
            return
        checkpoints = [self._read(_checkpoint_path(each), Checkpoint) for each in kept]
        live = _paths([newest, *checkpoints, *self.savepoints()])
        old = [self._read(_checkpoint_path(each), Checkpoint) for each in dropped]
        self._store.delete(sorted(_paths(old) - live))
        first = max(0, min(each.epoch for each in old) - 1)
        epochs = range(first, kept[0] + 1)
        self._store.delete([_epoch_path(number) for number in epochs])
        self._store.delete([_checkpoint_path(number) for number in dropped])

    def savepoints(self) -> list[Checkpoint]:
        """List the checkpoints that have names."""
        return [self._read(path.path, Checkpoint) for path in self._store.list("savepoints/")]

    def _checkpoints(self) -> list[int]:
        names = [each.path.rpartition("-")[2] for each in self._store.list("checkpoints/")]
        return sorted(int(name) for name in names if name.isdigit())

    def _create(self, path: str, record: EpochRecord | Checkpoint) -> bool:
        return self._store.create(path, seal_json(msgspec.json.encode(record)))

    def _read(self, path: str, kind: type[Record]) -> Record:
        data = self._store.read(path)
        try:
            check_json(data)
            return msgspec.json.decode(data, type=kind)
        except (ValueError, msgspec.MsgspecError) as error:
            raise CorruptFileError(
                f"{self._store.url}/{path} of a query is damaged: {error}", path=path
            ) from error

    def _fenced(self) -> QueryFencedError:
        return QueryFencedError(
            f"another run of the query in {self._store.url!r} took over; this one stops",
            run=self._run,
        )


def _epoch_path(number: int) -> str:
    return f"epochs/epoch-{number}"


def _checkpoint_path(number: int) -> str:
    return f"checkpoints/checkpoint-{number}"


def _paths(checkpoints: list[Checkpoint]) -> set[str]:
    return {
        f"state/{name}/bucket-0/{file.file_name}"
        for each in checkpoints
        for name, files in each.files.items()
        for file in files
    }
