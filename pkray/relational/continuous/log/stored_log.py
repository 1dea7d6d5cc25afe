"""Keep the epochs and checkpoints of a query in its folder."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec

from pkray import errors
from pkray.relational.continuous.log.log import (
    NOTHING_YET,
    WAYS_ON,
    Checkpoint,
    EpochRecord,
    QueryLog,
)
from pkray.storage.object_store import ObjectStore, each, together
from pkray.storage.sealed import find_sealed, read_sealed, sealed

_EPOCHS, _CHECKPOINTS, _SAVEPOINTS = "epochs/epoch-", "checkpoints/checkpoint-", "savepoints/"
_UPGRADES = "upgrade/"
BEFORE = f"{_UPGRADES}before"
"""The checkpoint with which an upgrade took over, until it is accepted."""
_KEPT = 2
"""Checkpoints kept beside the newest: one that cannot be read is no loss."""

Record = TypeVar("Record", EpochRecord, Checkpoint)


class StoredLog(QueryLog):
    """A folder: ``epochs/epoch-<incarnation>-<epoch>``, ``checkpoints/checkpoint-<incarnation>-
    <number>``, ``state/``, ``savepoints/<name>``.

    Each file is created once. Files of another incarnation of the query are never read. A run takes
    over by creating the next checkpoint, a copy of the newest: whoever would create that one finds
    it there, and is not the newest run any more. So files of states that were there before, and
    that no checkpoint names then, are nobody's, and are deleted.

    A run that slept while another took over and came far finds names free again: checkpoints are
    deleted when there are newer ones, and epochs after them. So whoever creates a file looks
    whether the checkpoint that it follows is there still, which only newer ones displace.

    Args:
        store: the query's folder.
        run: the name of this run.
        place: the folder of the epochs and checkpoints below it, which ends with ``/``: of an
            upgrade that is under way another than of the query.
        incarnation: of the query; empty: it is not told from others.
        prefix: of the numbers in the names of files; empty for those that a version wrote which
            knew no incarnations.
        check: raises a `QueryFencedError` where the query is not of this incarnation any more.
    """

    def __init__(
        self,
        store: ObjectStore,
        run: str = "",
        place: str = "",
        *,
        incarnation: str = "",
        prefix: str = "",
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.store = self._store = store
        self.run = run
        self._place = place
        self._incarnation = incarnation
        self._prefix = prefix
        self._check = check
        self._number = -1
        self._seen: int | None = None
        self._looked: list[int] | None = None

    def check_current(self) -> None:
        self._check()

    def newest_checkpoint(self) -> Checkpoint | None:
        """Read the newest checkpoint; None where no epoch has ended."""
        looked, self._looked = self._looked, None
        if looked:
            with suppress(errors.MissingFileError):  # another run has gone on, as is noticed later
                return _begun(self._checkpoint(looked[-1]))
        numbers = self._checkpoints() if looked is None or looked else looked
        return _begun(self._checkpoint(numbers[-1])) if numbers else None

    def named_checkpoint(self) -> tuple[str, Checkpoint | None]:
        """Read the newest checkpoint, with the name that no other of the query ever has; None where
        no epoch has ended."""
        numbers = self._checkpoints()
        if not numbers:
            return "", None
        found = self._checkpoint(numbers[-1])
        return f"{self._prefix}{numbers[-1]}", found if found.epoch >= 0 else None

    def has_checkpoint(self, name: str) -> bool:
        """Whether a checkpoint is there, of this incarnation or of another one.

        No savepoint is made any more of one that is not.
        """
        return self._store.exists(f"{self._place}{_CHECKPOINTS}{name}")

    def look(self) -> None:
        """Take note of which run is the newest, before anything is read of what it wrote.

        Runs that take over from then on are newer than this one, which does not take over from
        them: it may have slept meanwhile.
        """
        self._looked = self._checkpoints()
        self._seen = max(self._looked, default=-1)

    def check_not_passed(self) -> None:
        """Check that no other run took over since `look`.

        Raises:
            QueryFencedError: one has.
        """
        self._check_newest(max(self._checkpoints(), default=-1))

    def _check_newest(self, newest: int) -> None:
        if self._seen is not None and newest > self._seen:
            try:
                run = self._checkpoint(newest).run
            except errors.MissingFileError:  # it has gone on already
                run = ""
            if run != self.run:
                raise self._overtaken()

    @property
    def has_begun(self) -> bool:
        """Whether a run of this incarnation has ever taken over."""
        return bool(self._checkpoints())

    @property
    def is_overtaken(self) -> bool:
        """Whether another run took over from this one."""
        return self._number >= 0 and max(self._checkpoints(), default=-1) > self._number

    def check_not_followed(self) -> None:
        if self._store.exists(self._checkpoint_path(self._number + 1)):
            raise self._overtaken()
        self._check_follows(self._number)

    def _check_follows(self, number: int) -> None:
        """Check that a checkpoint of this run is there: another run deletes it with its own.

        Raises:
            QueryFencedError: another run has come so far.
            QueryDivergedError: somebody else deleted it.
        """
        if number < 0 or self._store.exists(self._checkpoint_path(number)):
            return
        if self.is_overtaken:
            raise self._overtaken()
        raise errors.QueryDivergedError(
            f"checkpoint {number} of the query in {self._store.url!r} is gone, and none has come "
            f"after it: files of the query were deleted; {WAYS_ON}",
            expected=number,
        )

    def _overtaken(self) -> errors.QueryFencedError:
        return errors.QueryFencedError(
            f"another run of the query in {self._store.url!r} took over; this one stops",
            run=self.run,
        )

    def take_over(self) -> Checkpoint | None:
        while True:
            # Runs that come after this one make files of their own: those that are there are of
            # runs before it, which name no more of them once it has taken over.
            before, numbers = self._all_files()
            self._check_newest(max(numbers, default=-1))
            newest = NOTHING_YET if not numbers else self._checkpoint(numbers[-1])
            self._number = (numbers[-1] if numbers else -1) + 1
            self.number = self._number
            if self._create(self._checkpoint_path(self._number), newest):
                break
        _, there = together(self._store, self._check, self._checkpoints)
        if self._seen is not None and max(there, default=-1) > self._number:
            raise self._overtaken()  # by one that has deleted the checkpoint of this number since
        if not self._place:  # an upgrade leaves files to the query, which begins before it
            self._delete_unnamed(before, there)
        return _begun(newest)

    def _all_files(self) -> tuple[list[str], list[int]]:
        """List the files of states, and the epochs and checkpoints of all incarnations; and the
        numbers of this log's checkpoints.
        """
        if self._place:
            return [], self._checkpoints()
        folders = ("state/", "epochs/", "checkpoints/")
        data, epochs, checkpoints = each(self._store, self._files, folders)
        return [*data, *epochs, *checkpoints], self._numbers(checkpoints)

    def _files(self, folder: str) -> list[str]:
        return [each.path for each in self._store.list(folder, hidden=True)]

    def _delete_unnamed(self, found: Sequence[str], numbers: Sequence[int]) -> None:
        """Delete what other incarnations wrote down, and then, as `_clean` does, files that no
        checkpoint names.

        Args:
            numbers: of this log's checkpoints.
        """
        data = [path for path in found if "/bucket-" in path]
        others = [path for path in found if _is_record(path) and not self._is_own(path)]
        if not data and not others:
            return
        self._store.delete(sorted(others))
        checkpoints, kept = together(
            self._store, lambda: each(self._store, self._checkpoint, numbers), self._kept
        )
        live = _paths([*checkpoints, *kept])
        self._store.delete(sorted(path for path in data if path not in live))

    def _is_own(self, path: str) -> bool:
        """Whether an epoch or a checkpoint is of this incarnation, by its name."""
        own = [f"{self._place}{each}{self._prefix}" for each in (_EPOCHS, _CHECKPOINTS)]
        return any(path.removeprefix(each).isdigit() for each in own)

    def _kept(self) -> list[Checkpoint]:
        """List what keeps files beside the checkpoints of this log: savepoints, and upgrades."""
        others, savepoints = together(self._store, lambda: self._files(_UPGRADES), self.savepoints)
        if self._place:
            others = [path for path in others if not path.startswith(self._place)]
            others += [each.path for each in self._store.list("checkpoints/")]
        found = each(self._store, self._find, filter(_is_checkpoint, others))
        return [*savepoints.values(), *(each for each in found if each is not None)]

    def _find(self, path: str) -> Checkpoint | None:
        """Read a checkpoint of another log, which may delete it meanwhile."""
        return find_sealed(self._store, path, Checkpoint)

    def begin(self, record: EpochRecord) -> EpochRecord:
        path = self._epoch_path(record.number)
        record = msgspec.structs.replace(record, follows=self._number)
        if self._create(path, record):
            together(self._store, lambda: self._check_follows(self._number), self.check_current)
            self.checked = record
            return record
        there = self._epoch(record.number)
        if there.run != self.run:
            self.check_not_followed()
        if _begin(there.bounds) != _begin(record.bounds) and not there.upgrade:
            kind = errors.QueryFencedError if self.is_overtaken else errors.QueryDivergedError
            raise kind(
                f"epoch {record.number} of the query in {self._store.url!r} was begun by another "
                f"run, at {_begin(there.bounds)} and not at {_begin(record.bounds)}: this one "
                f"stops; {WAYS_ON}",
                found=_begin(there.bounds),
                expected=_begin(record.bounds),
            )
        return there

    def epochs_from(self, number: int) -> list[EpochRecord]:
        found: list[EpochRecord] = []
        with suppress(errors.MissingFileError):
            while True:
                found.append(self._epoch(number + len(found)))
        return found

    def _epoch(self, number: int) -> EpochRecord:
        return self._own(self._read(self._epoch_path(number), EpochRecord))

    def newest_epoch(self) -> EpochRecord | None:
        """Read the epoch that was written down last; None where there is none."""
        listed = [each.path for each in self._store.list(f"{self._place}epochs/")]
        numbers = [_number(path) for path in listed if self._is_own(path)]
        return self._epoch(max(numbers)) if numbers else None

    def _own(self, record: Record) -> Record:
        """Give what was written down, if this incarnation did it.

        Raises:
            QueryDivergedError: another one did.
        """
        by = record.incarnation
        known = ("", self._incarnation) if not self._prefix else (self._incarnation,)
        if not self._incarnation or by in known:
            return record
        raise errors.QueryDivergedError(
            f"the folder {self._store.url!r} of a query has what another incarnation of it wrote "
            f"down: {by or 'one without a name'} instead of {self._incarnation}; {WAYS_ON}",
            found=by,
            expected=self._incarnation,
        )

    def keep_before(self, checkpoint: Checkpoint) -> None:
        """Keep the checkpoint with which an upgrade takes over; one that is kept stays."""
        self._create(BEFORE, checkpoint)

    def before(self) -> Checkpoint:
        """Read the checkpoint with which an upgrade took over."""
        return self._read(BEFORE, Checkpoint)

    def write_checkpoint(self, checkpoint: Checkpoint) -> None:
        before, path = self._checkpoints(), self._checkpoint_path(self._number + 1)
        if not self._create(path, checkpoint):
            raise self._overtaken()
        try:
            self._check_follows(self._number)
        except errors.QueryFencedError:
            self._store.delete(path)
            raise
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

        Checkpoints go first: a savepoint that is made of one meanwhile looks whether it is still
        there.
        """
        dropped, kept = before[:-_KEPT], before[-_KEPT:]
        if not dropped:
            return
        checkpoints = [self._checkpoint(each) for each in kept]
        old = [self._checkpoint(each) for each in dropped]
        self._store.delete([self._checkpoint_path(number) for number in dropped])
        live = _paths([newest, *checkpoints, *self._kept()])
        self._store.delete(sorted(_paths(old) - live))
        first = max(0, min(each.epoch for each in old) - 1)
        epochs = range(first, min(each.epoch for each in checkpoints) + 1)
        self._store.delete([self._epoch_path(number) for number in epochs])

    def name_newest(self, newest: Checkpoint, name: str, held: str) -> None:
        """Keep the newest checkpoint under a name.

        Args:
            newest: it, as it was read.
            held: names the tags and consumers that keep what it needs.

        Raises:
            QueryExistsError: there is a savepoint of this name.
            QueryFencedError: another one is the newest by now.
        """
        number = max(self._checkpoints(), default=-1)
        try:
            is_newest = number >= 0 and self._checkpoint(number) == newest
        except errors.MissingFileError:
            is_newest = False
        if not is_newest:
            raise self._gone_on(name)
        named = msgspec.structs.replace(newest, held=held)
        if not self._create(_savepoint_path(name), named, by=newest.incarnation):
            raise errors.QueryExistsError(
                f"a savepoint {name!r} is there already: give another name", name=name
            )
        if not self._store.exists(self._checkpoint_path(number)):
            self._store.delete(_savepoint_path(name))  # its files may be gone with it
            raise self._gone_on(name)

    def _gone_on(self, name: str) -> errors.QueryFencedError:
        return errors.QueryFencedError(
            f"the query in {self._store.url!r} went on, or was dropped, in another process while "
            f"savepoint {name!r} was made: make it again if the query is there",
            name=name,
        )

    def savepoint(self, name: str) -> Checkpoint:
        """Read a savepoint.

        Raises:
            QueryNotFoundError: there is none of this name.
        """
        if not self._store.exists(_savepoint_path(name)):
            known = ", ".join(self.savepoints()) or "none"
            raise errors.QueryNotFoundError(f"no savepoint is called {name!r}: there is {known}")
        return self._read(_savepoint_path(name), Checkpoint)

    def delete_savepoint(self, name: str) -> None:
        """Forget a savepoint; its files go with the next checkpoint that is deleted."""
        self._store.delete(_savepoint_path(name))

    def begin_at(self, found: Checkpoint) -> None:
        """Begin this incarnation with a checkpoint, unless it has begun."""
        if self.newest_checkpoint() is None:
            self.take_over()
            self.write_checkpoint(found)

    def missing_files(self, found: Checkpoint) -> list[str]:
        """List the files of states that a checkpoint names and that are not there."""
        there = {each.path for each in self._store.list("state/", hidden=True)}
        return sorted(self.files_of(found) - there)

    @staticmethod
    def files_of(found: Checkpoint) -> set[str]:
        """List the files of states that a checkpoint names."""
        return _paths([found])

    def savepoints(self) -> dict[str, Checkpoint]:
        """List the checkpoints that have names."""
        listed = [each.path for each in self._store.list(_SAVEPOINTS)]
        found = each(self._store, lambda path: self._read(path, Checkpoint), listed)
        return dict(zip((path.removeprefix(_SAVEPOINTS) for path in listed), found, strict=True))

    def _checkpoints(self) -> list[int]:
        listed = self._store.list(f"{self._place}checkpoints/")
        return self._numbers(each.path for each in listed)

    def _numbers(self, checkpoints: Iterable[str]) -> list[int]:
        """Give the numbers of the checkpoints that are this incarnation's, ascending."""
        return sorted(_number(path) for path in checkpoints if self._is_own(path))

    def _checkpoint(self, number: int) -> Checkpoint:
        return self._own(self._read(self._checkpoint_path(number), Checkpoint))

    def _checkpoint_path(self, number: int) -> str:
        return f"{self._place}{_CHECKPOINTS}{self._prefix}{number}"

    def _epoch_path(self, number: int) -> str:
        return f"{self._place}{_EPOCHS}{self._prefix}{number}"

    def _create(self, path: str, record: EpochRecord | Checkpoint, by: str | None = None) -> bool:
        by = self._incarnation if by is None else by
        named = msgspec.structs.replace(record, run=self.run, incarnation=by)
        return self._store.create(path, sealed(named))

    def _read(self, path: str, kind: type[Record]) -> Record:
        return read_sealed(self._store, path, kind)


def _begun(checkpoint: Checkpoint) -> Checkpoint | None:
    """Give a checkpoint; None where no epoch had ended by then."""
    return checkpoint if checkpoint.epoch >= 0 else None


def _begin(bounds: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    """Give the positions after which an epoch reads; sources that do not change are not told."""
    return {name: after for name, (after, _) in bounds.items()}


def _savepoint_path(name: str) -> str:
    return f"{_SAVEPOINTS}{name}"


def _number(path: str) -> int:
    return int(path.rpartition("-")[2])


def _is_record(path: str) -> bool:
    return path.startswith((_EPOCHS, _CHECKPOINTS))


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
