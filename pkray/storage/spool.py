"""A spool: numbered batches of rows in Arrow files, written by one side and read by another.

::

    rows/<batch>-<unique>.arrow   rows; those that no batch names are of attempts that failed
    batches/batch-<number>        names the files of a batch; created once, so that a batch that is
                                  written again changes nothing
    feeder.json                   what whoever fills it does
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec
import pyarrow as pa

from pkray.arguments.file_names import checked
from pkray.checksums import seal_json
from pkray.clock import now_millis
from pkray.errors import CorruptFileError, MissingFileError
from pkray.storage.object_store import ObjectStore
from pkray.storage.sealed import read_sealed

FeederState: TypeAlias = Literal["running", "ended", "stopped", "failed"]

_FEEDER = "feeder.json"
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class SpoolFile(msgspec.Struct, frozen=True):
    """A file of rows, by its name in the spool."""

    name: str
    rows: int


class SpooledBatch(msgspec.Struct, frozen=True):
    """Describes a batch of a spool.

    Attributes:
        number: from 0.
        files: in the order of their rows.
        writer: tells whose numbers these are.
        time: when it was written, in epoch milliseconds.
    """

    number: int
    files: tuple[SpoolFile, ...]
    writer: str
    time: int

    @property
    def rows(self) -> int:
        """Count its rows."""
        return sum(file.rows for file in self.files)


class Feeder(msgspec.Struct, frozen=True):
    """Tells what fills a spool, as it last said.

    Attributes:
        name: of this one among those that filled the spool one after another.
        state: ``running``, ``ended`` (nothing more comes), ``stopped`` or ``failed``.
        ends: whether it ends at what its source held when it began.
        message: why it failed.
        time: when it said so, in epoch milliseconds.
        done, total: pieces of its work, where it knows them.
    """

    name: str
    state: FeederState
    ends: bool = False
    message: str | None = None
    time: int = 0
    done: int = 0
    total: int = 0


class Spool:
    """Numbered batches in a folder. For one thread at a time; pickles as its folder.

    Args:
        store: the folder.
        owner: whose batches these are; those of others in the folder are not seen.
    """

    def __init__(self, store: ObjectStore, owner: str = "") -> None:
        self.store = store
        self.owner = owner
        self._batches = f"batches/batch-{owner}-" if owner else "batches/batch-"
        self._count: int | None = None

    def __repr__(self) -> str:
        return f"Spool({self.store.url!r})"

    def __reduce__(self) -> tuple[type[Spool], tuple[ObjectStore, str]]:
        return Spool, (self.store, self.owner)

    def count(self) -> int:
        """Count the batches that were ever written: the number that the next one gets."""
        count = self._count
        if count is None:
            count = max(self._numbers(), default=-1) + 1
        while self.store.exists(self._batch_path(count)):
            count += 1
        self._count = count
        return count

    def first(self) -> int:
        """Find the first batch whose rows are there; without any, the number of the next one."""
        number = min(self._numbers(), default=0)
        batch = self.batch(number)
        if batch is None or all(self.store.exists(_rows_path(each.name)) for each in batch.files):
            return number
        return number + 1

    def batch(self, number: int) -> SpooledBatch | None:
        """Read what is known of a batch; None where there is none of this number any more."""
        path = self._batch_path(number)
        try:
            return read_sealed(self.store, path, SpooledBatch)
        except MissingFileError:
            return None

    def write_file(
        self, number: int, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
    ) -> SpoolFile | None:
        """Write rows of a batch into a file of its own; None where there are none."""
        rows = iter(batches)
        first = next(rows, None)
        if first is None:
            return None
        name = f"{number}-{uuid.uuid4().hex}.arrow"
        count = 0
        output = self.store.open_output(_rows_path(name))
        try:
            with pa.ipc.new_file(output.sink, schema, options=_OPTIONS) as writer:
                for each in (first, *rows):
                    writer.write_batch(each)
                    count += each.num_rows
            output.close()
        except BaseException:
            output.abort()
            raise
        return SpoolFile(name, count)

    def add(self, number: int, files: Sequence[SpoolFile], writer: str = "") -> bool:
        """Make a batch of files; false where there is one of this number, which stays."""
        batch = SpooledBatch(number, tuple(files), writer, now_millis())
        return self.store.create(self._batch_path(number), seal_json(msgspec.json.encode(batch)))

    def read(self, batch: SpooledBatch) -> Iterator[pa.RecordBatch]:
        """Read the rows of a batch.

        Raises:
            CorruptFileError: a file is damaged.
            MissingFileError: it was deleted.
        """
        for file in batch.files:
            yield from self.read_file(file)

    def read_file(self, file: SpoolFile) -> Iterator[pa.RecordBatch]:
        """Read the rows of a file; as of `read`."""
        path = _rows_path(file.name)
        try:
            with self.store.open_input(path) as opened, pa.ipc.open_file(opened) as reader:
                for number in range(reader.num_record_batches):
                    rows = reader.get_batch(number)
                    rows.validate(full=True)
                    yield rows
        except pa.ArrowInvalid as error:
            raise CorruptFileError(
                f"{self.store.location(path)} is damaged: {error}", path=path
            ) from error

    def delete_below(self, number: int) -> None:
        """Delete the rows of the batches below a number.

        What is known of the newest batch stays: it tells which number comes next, and whose.
        """
        old = [each for each in self._numbers() if each in range(number)]
        if not old:
            return
        rows = [
            each.path for each in self.store.list("rows/") if _number(each.path) in range(number)
        ]
        self.store.delete(rows)
        self.store.delete([self._batch_path(each) for each in old if each < self.count() - 1])

    def say(self, feeder: Feeder) -> None:
        """Note what fills it."""
        said = msgspec.structs.replace(feeder, time=now_millis())
        self.store.write(_FEEDER, seal_json(msgspec.json.encode(said)))

    def feeder(self) -> Feeder | None:
        """Read what fills it; None where nobody has begun to."""
        try:
            return read_sealed(self.store, _FEEDER, Feeder)
        except MissingFileError:
            return None

    def _numbers(self) -> list[int]:
        listed = (each.path for each in self.store.list("batches/"))
        numbers = (path.removeprefix(self._batches) for path in listed)
        return sorted(int(each) for each in numbers if each.isascii() and each.isdigit())

    def _batch_path(self, number: int) -> str:
        return f"{self._batches}{number}"


def _rows_path(name: str) -> str:
    try:
        return f"rows/{checked(name)}"
    except ValueError as error:
        raise CorruptFileError(f"a batch of a spool is damaged: {error}", path=name) from None


def _number(path: str) -> int:
    """Read the number of a batch from the path of one of its files; -1 where it has none."""
    name = path.rpartition("/")[2].partition("-")[0]
    return int(name) if name.isascii() and name.isdigit() else -1
