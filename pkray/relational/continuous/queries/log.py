"""What a query writes down: each epoch before it runs, and checkpoints from which it goes on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from pkray.checksums import check_json, seal_json
from pkray.errors import (
    CorruptFileError,
    MissingFileError,
    QueryExistsError,
    QueryFencedError,
    QueryNotFoundError,
)
from pkray.format.data_file import DataFileMeta
from pkray.storage.object_store import ObjectStore

_RESTORING = "restoring.json"
_UPGRADES = "upgrade/"
BEFORE = f"{_UPGRADES}before"
"""The checkpoint with which an upgrade took over, until it is accepted."""
_KEPT = 2
"""Checkpoints kept beside the newest: one that cannot be read is no loss."""


class EpochRecord(msgspec.Struct, frozen=True):
    """Everything about an epoch that could differ if it is run again.

    Attributes:
        number: from 0.
        bounds: of each source, the positions after which and up to which it is read.
        time: processing time in epoch milliseconds.
        is_last: whether no source changes any more.
        run: which run of the query wrote it down.
        upgrade: the upgrade that ends with this epoch, in which another plan takes over; empty: the
            epoch is one of the plan.
        workers: that compute it.
        idle: sources that hold the watermark back no more: nothing has come of them for so long,
            or nothing ever will.
    """

    number: int
    bounds: dict[str, tuple[int, int]]
    time: int
    is_last: bool = False
    run: str = ""
    upgrade: str = ""
    workers: int = 1
    idle: tuple[str, ...] = ()


class Checkpoint(msgspec.Struct, frozen=True):
    """The end of an epoch, with the files that hold all states as they were then.

    Attributes:
        epoch: the last one whose changes are in the states.
        positions: of the sources.
        watermarks: event time in microseconds, by the number of the node.
        digest: of the plan.
        files: of the first worker, by state.
        folders: of states whose files lie in a folder that is not called as they are: upgrades give
            operators other numbers.
        others: of the other workers, each by state.
        apart: of states that another number of workers holds, how many.
        late: how many late rows were left out so far, by the state that keeps them.
    """

    epoch: int
    positions: dict[str, int]
    watermarks: dict[str, int]
    digest: str
    files: dict[str, tuple[DataFileMeta, ...]]
    is_last: bool = False
    run: str = ""
    folders: dict[str, str] = {}
    others: tuple[dict[str, tuple[DataFileMeta, ...]], ...] = ()
    apart: dict[str, int] = {}
    late: dict[str, int] = {}

    @property
    def shares(self) -> tuple[dict[str, tuple[DataFileMeta, ...]], ...]:
        """The files of each worker, by state."""
        return self.files, *self.others

    def workers_of(self, state: str) -> int:
        """Say how many workers hold a state."""
        return self.apart.get(state, len(self.shares))

    def folder(self, state: str) -> str:
        """Name the folder of a state's files."""
        return self.folders.get(state, state)


NOTHING_YET = Checkpoint(-1, {}, {}, "", {})
"""Before the first epoch."""


class QueryLog(ABC):
    """Where a query writes down its epochs and checkpoints.

    Attributes:
        number: of the run, greater than those of the runs before it.
    """

    number = 0

    @abstractmethod
    def take_over(self) -> Checkpoint | None:
        """Make this run the one that counts; give the newest checkpoint, None where there is none.

        Runs before it write no checkpoint any more.
        """

    @abstractmethod
    def begin(self, record: EpochRecord) -> EpochRecord:
        """Write an epoch down before it runs; where that is done already, give what was written."""

    @abstractmethod
    def epochs_from(self, number: int) -> list[EpochRecord]:
        """List the epochs that were written down, from a number on."""

    @abstractmethod
    def write_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint, and delete what no checkpoint kept needs.

        Raises:
            QueryFencedError: another run took over.
        """

    @abstractmethod
    def oldest(self, positions: Mapping[str, int]) -> dict[str, int]:
        """Find the positions of the sources after which a run may begin.

        Args:
            positions: of the run that asks.
        """


class NoLog(QueryLog):
    """Writes nothing down: what runs ends with its process."""

    def take_over(self) -> Checkpoint | None:
        return None

    def begin(self, record: EpochRecord) -> EpochRecord:
        return record

    def epochs_from(self, number: int) -> list[EpochRecord]:
        return []

    def write_checkpoint(self, checkpoint: Checkpoint) -> None:
        pass

    def oldest(self, positions: Mapping[str, int]) -> dict[str, int]:
        return dict(positions)


Record = TypeVar("Record", EpochRecord, Checkpoint)


class StoredLog(QueryLog):
    """A folder: ``epochs/epoch-<epoch>``, ``checkpoints/checkpoint-<number>``, ``state/``.

    Each file is created once. A run takes over by creating the next checkpoint, a copy of the
    newest: whoever would create that one finds it there, and is not the newest run any more. So
    files of states that no checkpoint names then are nobody's, and are deleted.

    Args:
        store: the query's folder.
        run: the name of this run.
        place: the folder of the epochs and checkpoints below it, which ends with ``/``: of an
            upgrade that is under way another than of the query.
    """

    def __init__(self, store: ObjectStore, run: str = "", place: str = "") -> None:
        self._store = store
        self._run = run
        self._place = place
        self._number = -1

    def newest_checkpoint(self) -> Checkpoint | None:
        """Read the newest checkpoint; None where no epoch has ended."""
        numbers = self._checkpoints()
        found = self._checkpoint(numbers[-1]) if numbers else None
        return found if found is not None and found.epoch >= 0 else None

    def take_over(self) -> Checkpoint | None:
        while True:
            numbers = self._checkpoints()
            newest = NOTHING_YET if not numbers else self._checkpoint(numbers[-1])
            self._number = (numbers[-1] if numbers else -1) + 1
            self.number = self._number
            if self._create(self._checkpoint_path(self._number), newest):
                break
        if not self._place:  # an upgrade leaves files to the query, which begins before it
            self._delete_unnamed()
        return newest if newest.epoch >= 0 else None

    def _delete_unnamed(self) -> None:
        checkpoints = [self._checkpoint(number) for number in self._checkpoints()]
        live = _paths([*checkpoints, *self._kept()])
        found = (each.path for each in self._store.list("state/", hidden=True))
        self._store.delete(sorted(path for path in found if _is_data(path) and path not in live))

    def _kept(self) -> list[Checkpoint]:
        """List what keeps files beside the checkpoints of this log: savepoints, and upgrades."""
        others = [each.path for each in self._store.list(_UPGRADES, hidden=True)]
        if self._place:
            others = [path for path in others if not path.startswith(self._place)]
            others += [each.path for each in self._store.list("checkpoints/")]
        named = [path for path in others if _is_checkpoint(path)]
        found = (self._find(path) for path in named)
        return [*self.savepoints(), *(each for each in found if each is not None)]

    def _find(self, path: str) -> Checkpoint | None:
        """Read a checkpoint of another log, which may delete it meanwhile."""
        try:
            return self._read(path, Checkpoint)
        except MissingFileError:
            return None

    def begin(self, record: EpochRecord) -> EpochRecord:
        path = self._epoch_path(record.number)
        return record if self._create(path, record) else self._read(path, EpochRecord)

    def epochs_from(self, number: int) -> list[EpochRecord]:
        found = []
        while self._store.exists(self._epoch_path(number)):
            found.append(self._read(self._epoch_path(number), EpochRecord))
            number += 1
        return found

    def newest_epoch(self) -> EpochRecord | None:
        """Read the epoch that was written down last; None where there is none."""
        paths = [each.path for each in self._store.list(f"{self._place}epochs/")]
        return self._read(max(paths, key=_number), EpochRecord) if paths else None

    def keep_before(self, checkpoint: Checkpoint) -> None:
        """Keep the checkpoint with which an upgrade takes over; one that is kept stays."""
        self._create(BEFORE, checkpoint)

    def before(self) -> Checkpoint:
        """Read the checkpoint with which an upgrade took over."""
        return self._read(BEFORE, Checkpoint)

    def write_checkpoint(self, checkpoint: Checkpoint) -> None:
        before = self._checkpoints()
        if not self._create(self._checkpoint_path(self._number + 1), checkpoint):
            raise QueryFencedError(
                f"another run of the query in {self._store.url!r} took over; this one stops",
                run=self._run,
            )
        self._number += 1
        self._clean(before, checkpoint)

    def oldest(self, positions: Mapping[str, int]) -> dict[str, int]:
        kept = [self._checkpoint(each) for each in self._checkpoints()]
        found = [each.positions for each in (*kept, *self._kept())]
        return {
            name: min([at, *(max(each.get(name, 0), 0) for each in found)])
            for name, at in positions.items()
        }

    def _clean(self, before: list[int], newest: Checkpoint) -> None:
        """Delete old checkpoints, the epochs before the oldest kept, and files of states that no
        checkpoint kept names.
        """
        dropped, kept = before[:-_KEPT], before[-_KEPT:]
        if not dropped:
            return
        checkpoints = [self._checkpoint(each) for each in kept]
        live = _paths([newest, *checkpoints, *self._kept()])
        old = [self._checkpoint(each) for each in dropped]
        self._store.delete(sorted(_paths(old) - live))
        first = max(0, min(each.epoch for each in old) - 1)
        epochs = range(first, min(each.epoch for each in checkpoints) + 1)
        self._store.delete([self._epoch_path(number) for number in epochs])
        self._store.delete([self._checkpoint_path(number) for number in dropped])

    def name_newest(self, name: str) -> Checkpoint:
        """Keep the newest checkpoint under a name.

        Raises:
            QueryExistsError: there is a savepoint of this name.
            QueryNotFoundError: there is no checkpoint yet.
        """
        newest = self.newest_checkpoint()
        if newest is None:
            raise QueryNotFoundError(
                f"the query in {self._store.url!r} has ended no epoch yet: there is nothing to keep"
            )
        if not self._create(_savepoint_path(name), newest):
            raise QueryExistsError(
                f"a savepoint {name!r} is there already: give another name", name=name
            )
        return newest

    def savepoint(self, name: str) -> Checkpoint:
        """Read a savepoint.

        Raises:
            QueryNotFoundError: there is none of this name.
        """
        if not self._store.exists(_savepoint_path(name)):
            found = self._store.list("savepoints/")
            known = ", ".join(each.path.rpartition("/")[2] for each in found) or "none"
            raise QueryNotFoundError(f"no savepoint is called {name!r}: there is {known}")
        return self._read(_savepoint_path(name), Checkpoint)

    def want_savepoint(self, name: str | None) -> None:
        """Note that the query is to go back to a savepoint before it goes on; None: it has."""
        if name is None:
            self._store.delete(_RESTORING)
        else:
            self._store.write(_RESTORING, msgspec.json.encode({"savepoint": name}))

    def wanted_savepoint(self) -> str | None:
        """Read which savepoint the query is to go back to."""
        if not self._store.exists(_RESTORING):
            return None
        return str(msgspec.json.decode(self._store.read(_RESTORING))["savepoint"])

    def go_back(self, name: str) -> None:
        """Make a savepoint the newest checkpoint; epochs after it have never been."""
        found = self.savepoint(name)
        self.take_over()
        self.write_checkpoint(found)
        later = [each.path for each in self._store.list("epochs/")]
        self._store.delete([path for path in later if _number(path) > found.epoch])

    def savepoints(self) -> list[Checkpoint]:
        """List the checkpoints that have names."""
        return [self._read(path.path, Checkpoint) for path in self._store.list("savepoints/")]

    def _checkpoints(self) -> list[int]:
        listed = self._store.list(f"{self._place}checkpoints/")
        names = [each.path.rpartition("-")[2] for each in listed]
        return sorted(int(name) for name in names if name.isdigit())

    def _checkpoint(self, number: int) -> Checkpoint:
        return self._read(self._checkpoint_path(number), Checkpoint)

    def _checkpoint_path(self, number: int) -> str:
        return f"{self._place}checkpoints/checkpoint-{number}"

    def _epoch_path(self, number: int) -> str:
        return f"{self._place}epochs/epoch-{number}"

    def _create(self, path: str, record: EpochRecord | Checkpoint) -> bool:
        named = msgspec.structs.replace(record, run=self._run)
        return self._store.create(path, seal_json(msgspec.json.encode(named)))

    def _read(self, path: str, kind: type[Record]) -> Record:
        data = self._store.read(path)
        try:
            check_json(data)
            return msgspec.json.decode(data, type=kind)
        except (ValueError, msgspec.MsgspecError) as error:
            raise CorruptFileError(
                f"{self._store.url}/{path} of a query is damaged: {error}", path=path
            ) from error


def _savepoint_path(name: str) -> str:
    return f"savepoints/{name}"


def _number(path: str) -> int:
    return int(path.rpartition("-")[2])


def _is_data(path: str) -> bool:
    return "/bucket-" in path


def _is_checkpoint(path: str) -> bool:
    return "/checkpoint-" in f"/{path}" or path == BEFORE


def _paths(checkpoints: list[Checkpoint]) -> set[str]:
    return {
        f"state/{each.folder(name)}/bucket-{worker}/{file.file_name}"
        for each in checkpoints
        for worker, share in enumerate(each.shares)
        for name, files in share.items()
        for file in files
    }
