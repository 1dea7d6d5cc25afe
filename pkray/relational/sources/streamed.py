"""Streams from outside as sources: numbered batches of changes that a feeder writes to a spool."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Protocol

import msgspec
import pyarrow as pa

from pkray.arguments.file_names import check_chosen
from pkray.errors import CorruptFileError, OptionError, UnsupportedError
from pkray.relational.plan.expressions import Expression
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.plan.source import Source, Watermark
from pkray.relational.sources.changelog import ROW_KIND, ChangelogSource, Mode
from pkray.relational.sources.watermarks import marked
from pkray.schema.row_kind import names
from pkray.schema.types import DataType
from pkray.storage.object_store import ObjectStore
from pkray.storage.sealed import read_sealed, sealed
from pkray.storage.spool import Spool

_DESCRIPTION = "source.json"


@dataclass(frozen=True)
class Feeding:
    """Say how a stream feeds a query.

    Attributes:
        query: its name; None: of a query that ends with its process.
        ends: whether the stream ends at what its source holds now.
        interval: seconds between two batches; 0: as soon as there are rows.
        is_wanted: whether the query runs, and is to go on.
        position: gives the number of batches that the query has taken.
    """

    query: str | None
    ends: bool
    interval: float
    is_wanted: Callable[[], bool]
    position: Callable[[], int]


class RunningFeeder(Protocol):
    """Writes batches to a spool until it is stopped, ends or fails, and says so there."""

    @property
    def is_running(self) -> bool:
        """Whether it may still write something."""

    def stop(self) -> None:
        """End it; a batch that is being written comes again, under its number."""


class StreamFeeder(Protocol):
    """Begins to feed queries with what a stream holds."""

    def start(self, source: StreamedSource, spool: Spool, feeding: Feeding) -> RunningFeeder:
        """Begin where the batches in the spool end."""


class _Description(msgspec.Struct, frozen=True):
    """Describes the source of a query to another process."""

    name: str
    columns: tuple[tuple[str, str], ...]
    primary_key: tuple[str, ...]
    mode: Mode
    keeps: bool
    watermark: tuple[str, str] | None


@dataclass(eq=False, repr=False)
class StreamedSource(Source):
    """The changes of a stream from outside.

    Args:
        name: of the stream; no two streams of one query have the same.
        fields: the columns.
        primary_key: of mode ``upsert``.
        mode: as of `ChangelogSource`.
        keeps: whether batches stay when no checkpoint needs them any more.
        feeder: of the process that has the stream; None in others.
        spool: of the query that reads it; None before it is one's.
        repeats: as of `ChangelogSource`.

    Raises:
        OptionError: the name is none of a folder.
    """

    name: str
    fields: Fields
    primary_key: tuple[str, ...] = ()
    mode: Mode = "insert"
    watermark: Watermark | None = None
    _: KW_ONLY
    keeps: bool = False
    feeder: StreamFeeder | None = None
    spool: Spool | None = None
    repeats: bool = False

    def __post_init__(self) -> None:
        check_chosen(self.name, "stream", OptionError)

    def __repr__(self) -> str:
        return f"StreamedSource({self.name!r}, {self.mode!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StreamedSource) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[object, ...]:
        place = self.spool and self.spool.store
        return self.name, self.fields, self.mode, id(self.feeder), place, self.repeats

    @property
    def spooled_schema(self) -> pa.Schema:
        """Give the columns of the files of its spool: kinds are int8, as `row_kind` has them."""
        schema = self.fields.arrow
        return schema if self.mode == "insert" else schema.append(pa.field(ROW_KIND, pa.int8()))

    def in_query(self, folder: ObjectStore, begun: str = "") -> StreamedSource:
        """Give the stream as a query reads it.

        Args:
            folder: of the query.
            begun: whose batches they are, should others feed a stream of this name there.
        """
        spool = Spool(folder.child(f"streams/{self.name}"), begun)
        mark = (self.watermark.column, self.watermark.text) if self.watermark else None
        columns = tuple((each.name, str(each.type)) for each in self.fields)
        said = _Description(self.name, columns, self.primary_key, self.mode, self.keeps, mark)
        spool.store.write(_DESCRIPTION, sealed(said))
        return replace(self, spool=spool)

    def completed(self) -> StreamedSource:
        """Give the stream as one whose changes may come twice."""
        return replace(self, repeats=True) if self.primary_key else self

    def batches(
        self, columns: Sequence[str], condition: Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Give the content that all batches so far leave; a condition leaves nothing out.

        Raises:
            UnsupportedError: it is no query's, or batches are gone.
        """
        spool = self.spool
        if spool is None:
            raise UnsupportedError(
                f"{self.name} is a stream: materialize the query, start it, or follow it with "
                "stream(); a bounded run takes a DataFrame that is not streaming",
                stream=self.name,
            )
        yield from self.up_to(spool.count()).batches(columns, condition)

    def up_to(self, batches: int) -> ChangelogSource:
        """Give the source as it was after so many batches.

        Raises:
            UnsupportedError: some of them are gone.
        """
        said = (self.name, self.fields, self.primary_key, self.mode, self.watermark)
        content = ChangelogSource(*said, repeats=self.repeats)
        for number in range(batches):
            batch = self.spool.batch(number) if self.spool and self.keeps else None
            if self.spool is None or batch is None:
                raise UnsupportedError(
                    f"the batches of the stream {self.name} that the result has are deleted: make "
                    "the relation with keep=True, then they stay and a bounded run can read them",
                    stream=self.name,
                    batch=number,
                )
            for rows in self.spool.read(batch):
                content.push(self._named(rows))
        return content

    def _named(self, rows: pa.RecordBatch) -> pa.Table:
        """Write kinds by their names."""
        table = pa.Table.from_batches([rows])
        if ROW_KIND not in table.column_names:
            return table
        place = table.column_names.index(ROW_KIND)
        return table.set_column(place, ROW_KIND, names(table.column(ROW_KIND)))


def stored_streams(folder: ObjectStore, begun: str = "") -> dict[str, StreamedSource]:
    """Find the streams of a query, by their names.

    Args:
        folder, begun: as of `StreamedSource.in_query`.
    """
    found = {}
    for path in folder.list_dirs("streams"):
        store = folder.child(path.rstrip("/"))
        if store.exists(_DESCRIPTION):
            source = _read(store, begun)
            found[source.name] = source
    return found


def _read(store: ObjectStore, begun: str) -> StreamedSource:
    said = read_sealed(store, _DESCRIPTION, _Description)
    try:
        columns: list[Any] = [(name, DataType.parse(kind)) for name, kind in said.columns]
    except ValueError as error:
        raise CorruptFileError(f"{store.url}/{_DESCRIPTION} is damaged: {error}") from error
    fields, mark = marked(Fields(tuple(Field(*each) for each in columns)), said.watermark)
    return StreamedSource(
        said.name,
        fields,
        said.primary_key,
        said.mode,
        mark,
        keeps=said.keeps,
        spool=Spool(store, begun),
    )
