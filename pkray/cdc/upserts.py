"""Files of changes into a table, in one commit."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pkray.cdc.avro.files import AvroFile
from pkray.cdc.avro.schemas import AvroSchemas, Given
from pkray.cdc.bad_records import BadRecords
from pkray.cdc.decoder import (
    BadRecord,
    ChangeFormat,
    Decoder,
    NewColumnsPolicy,
    Records,
    UnavailablePolicy,
    stop,
)
from pkray.cdc.readings import Handling
from pkray.cdc.row_changes import ROW_KIND, Changes, Target
from pkray.cdc.sources import EventFile, LineFile
from pkray.cdc.stored_values import with_stored_values
from pkray.errors import InputError
from pkray.format.snapshot import Snapshot
from pkray.rows.input import Missing
from pkray.schema.types import DataType
from pkray.service.client.writer import TableWriter
from pkray.table.table import Table

Advance = Callable[[int], None]
"""Takes how many bytes of a file were read."""


class Upserted(NamedTuple):
    """Tells what became of some files.

    Attributes:
        snapshot: None where nothing was committed, or its snapshot has expired.
        rows: changes that were written.
        bad: records that were left out, and are in the table of errors.
    """

    snapshot: Snapshot | None
    rows: int
    bad: int = 0


@dataclass(frozen=True)
class Upsert:
    """Writes files of events to a table.

    Args:
        metadata: columns of the table that are members of the envelope, such as
            ``{"lsn": "source.lsn"}``.
        new_columns: ``add`` gives the table the columns that events have and it lacks.
        missing: ``null`` writes nulls where events lack columns.
        errors: a table with the columns `ERRORS`, which takes bad records; default: they end it.
    """

    table: Table
    format: ChangeFormat
    metadata: Mapping[str, str] | None = None
    handling: Handling = field(default_factory=Handling)
    new_columns: NewColumnsPolicy = "refuse"
    missing: Missing = "error"
    commit_user: str | None = None
    commit_identifier: int | None = None
    errors: Table | None = None
    schemas: AvroSchemas = field(default_factory=AvroSchemas)

    def run(
        self,
        files: Sequence[EventFile],
        advance: Advance = lambda done: None,
        commit: Callable[[TableWriter, int | None], Snapshot | None] = TableWriter.commit,
    ) -> Upserted:
        """Write the changes of files, one after the other, in one commit.

        Args:
            advance: is told the progress.
            commit: commits the writer.
        """
        while True:
            bad = BadRecords(self.errors, self.commit_user, self.commit_identifier)
            with bad, self.writer() as writer:
                decoder = self.decoder(bad.add)
                target = decoder.target
                rows = 0
                for changes in self._changes(decoder, files, advance):
                    if decoder.target is not target:
                        break
                    writer.write(changes, ROW_KIND)
                    bad.write()
                    rows += changes.num_rows
                else:
                    bad.commit()
                    return Upserted(commit(writer, self.commit_identifier), rows, bad.count)
            self._check_read_again(decoder.target, files)
            self.grow(decoder.target)

    def target(self) -> Target:
        """Give the columns that changes are to have."""
        lacks = self.missing == "null" or self.new_columns == "add"
        return Target.from_schema(self.table.schema, self.metadata, may_lack=lacks)

    def decoder(self, keep: Callable[[BadRecord], None] = stop) -> Decoder:
        """Open what decodes records.

        Args:
            keep: takes bad ones where there is a table of them; else the first one ends it.
        """
        on_bad = stop if self.errors is None else keep
        return Decoder(
            self.format,
            self.target(),
            self.handling,
            self.new_columns,
            self.unavailable,
            on_bad,
            self.schemas,
        )

    def writer(self) -> TableWriter:
        """Open a writer of the table."""
        return self.table.open_writer(self.commit_user, missing=self.missing)

    @property
    def unavailable(self) -> UnavailablePolicy:
        """Choose what the table's merge engine makes of values that events do not bring."""
        engine = self.table.schema.core.merge_engine
        if engine == "partial-update":
            return "null"
        return "mark" if engine == "deduplicate" else "refuse"

    def _changes(
        self, decoder: Decoder, files: Sequence[EventFile], advance: Advance
    ) -> Iterator[pa.Table]:
        for file in files:
            for records, done in file.records():
                yield self.complete(decoder.decode(records), records)
                advance(done)

    def complete(self, changes: Changes, records: Records) -> pa.Table:
        """Give the rows of changes as a writer takes them, with values that did not change.

        Raises:
            InputError: no row has such a value.
        """
        if self.unavailable == "null":  # such a table takes no before-images
            return changes.rows.filter(pc.not_equal(changes.rows.column(ROW_KIND), "-U"))
        try:
            return with_stored_values(changes, self.table)
        except InputError as error:
            last = records.first + len(records.texts) - 1
            raise InputError(
                f"{records.source} {records.unit}s {records.first} to {last}: {error.message}",
                **error.values,
            ) from None

    def grow(self, target: Target) -> None:
        """Give the table the columns that were found."""
        fields = [pa.field(name, kind.arrow) for name, kind in self._added(target).items()]
        self.table.alter.merge_schema(pa.schema(fields))

    def _added(self, target: Target) -> dict[str, DataType]:
        known = self.table.schema.names
        return {name: kind for name, kind in target.columns.items() if name not in known}

    def _check_read_again(self, target: Target, files: Sequence[EventFile]) -> None:
        """Check that files can be read again, after columns were added.

        Raises:
            InputError: one cannot.
        """
        added = self._added(target)
        if any(file.is_stream for file in files):
            raise InputError(
                f"stdin has columns that the table has not ({', '.join(added)}), and is not read "
                "twice: add them by table.alter.add_column, or give a file",
                columns=list(added),
            )


def upsert(
    table: Table,
    files: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    format: str,
    metadata: Mapping[str, str] | None = None,
    decimal_handling_mode: str | None = None,
    time_precision_mode: str | None = None,
    binary_handling_mode: str | None = None,
    avro_schema: Given | None = None,
    new_columns: NewColumnsPolicy = "refuse",
    missing: Missing = "error",
    errors: Table | None = None,
    commit_user: str | None = None,
    commit_identifier: int | None = None,
) -> Upserted:
    """Write files of events to a table in one commit.

    Args:
        files: paths, read one after the other; ``-`` is the standard input. A file has a record a
            line; in Avro it is an object container, which brings its schema, or one message.
        format: as `pkray.cdc.decode` takes it, as the words of ``…_mode`` and ``avro_schema`` are.
        metadata: columns of the table that are members of the envelope, such as
            ``{"lsn": "source.lsn"}``; one of them may be the table's ``sequence.field``.
        new_columns: ``add`` gives the table the columns that events have and it lacks; ``refuse``
            makes such an event bad.
        missing: ``null`` writes nulls where events lack columns of the table.
        errors: a table that takes bad records, with their place and the reason, before the others
            are committed; made with `pkray.cdc.ERRORS`. Default: the first one ends the load.
        commit_user, commit_identifier: as `Table.upsert` takes them.

    Raises:
        ChangeRecordError: a record cannot be read: nothing was written. It names the file, the
            line and the reason.
        InputError: an event does not bring a value that did not change, and there is no row that
            has it; nothing was written.
    """
    paths = [files] if isinstance(files, str | PathLike) else list(files)
    load = Upsert(
        table,
        ChangeFormat.named(format),
        metadata,
        Handling(decimal_handling_mode, time_precision_mode, binary_handling_mode),
        new_columns,
        missing,
        commit_user,
        commit_identifier,
        errors,
        AvroSchemas.given(avro_schema),
    )
    return load.run([event_file(Path(path), load.format) for path in paths])


def event_file(path: Path, format: ChangeFormat) -> EventFile:
    """Name a file of a format.

    Raises:
        InputError: there is no such file.
    """
    return AvroFile(path) if format is ChangeFormat.debezium_avro else LineFile(path)
