"""Files of changes into a table, in one commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pkray.cdc.changes import ROW_KIND, Changes, Target
from pkray.cdc.decoder import ChangeFormat, Decoder, NewColumnsPolicy
from pkray.cdc.readings import Handling
from pkray.cdc.sources import LineFile
from pkray.errors import InputError
from pkray.format.snapshot import Snapshot
from pkray.rows.input import Missing
from pkray.service.client.writer import TableWriter
from pkray.table.table import Table

Advance = Callable[[int], None]
"""Takes how many bytes of a file were read."""


class Upserted(NamedTuple):
    """What became of some files.

    Attributes:
        snapshot: None where nothing was committed, or its snapshot has expired.
        rows: changes that were written.
    """

    snapshot: Snapshot | None
    rows: int


@dataclass(frozen=True)
class Upsert:
    """Writes files of events to a table.

    Args:
        metadata: columns of the table that are members of the envelope, such as
            ``{"lsn": "source.lsn"}``.
        new_columns: ``add`` gives the table the columns that events have and it lacks.
        missing: ``null`` writes nulls where events lack columns.
    """

    table: Table
    format: ChangeFormat
    metadata: Mapping[str, str] | None = None
    handling: Handling = field(default_factory=Handling)
    new_columns: NewColumnsPolicy = "refuse"
    missing: Missing = "error"
    commit_user: str | None = None
    commit_identifier: int | None = None

    def run(
        self,
        files: Sequence[LineFile],
        advance: Advance = lambda done: None,
        commit: Callable[[TableWriter, int | None], Snapshot | None] = TableWriter.commit,
    ) -> Upserted:
        """Write the changes of files, one after the other, in one commit.

        Args:
            advance: is told the progress.
            commit: commits the writer.
        """
        while True:
            with self.table.open_writer(self.commit_user, missing=self.missing) as writer:
                target = self._target()
                decoder = Decoder(
                    self.format,
                    target,
                    self.handling,
                    self.new_columns,
                    "null" if self._is_partial else "refuse",
                )
                rows = 0
                for changes in self._changes(decoder, files, advance):
                    if decoder.target is not target:
                        break
                    writer.write(changes.rows, ROW_KIND)
                    rows += changes.rows.num_rows
                else:
                    return Upserted(commit(writer, self.commit_identifier), rows)
            self._grow(decoder.target, files)

    def _target(self) -> Target:
        lacks = self.missing == "null" or self.new_columns == "add"
        return Target.from_schema(self.table.schema, self.metadata, may_lack=lacks)

    @property
    def _is_partial(self) -> bool:
        return self.table.schema.core.merge_engine == "partial-update"

    def _changes(
        self, decoder: Decoder, files: Sequence[LineFile], advance: Advance
    ) -> Iterator[Changes]:
        for file in files:
            for records, done in file.records():
                changes = decoder.decode(records)
                yield self._without_images(changes) if self._is_partial else changes
                advance(done)

    def _without_images(self, changes: Changes) -> Changes:
        """Leave out before-images, which a partial-update table does not take."""
        is_kept = pc.not_equal(changes.rows.column(ROW_KIND), "-U")
        return Changes(changes.rows.filter(is_kept), {})

    def _grow(self, target: Target, files: Sequence[LineFile]) -> None:
        """Give the table the columns that were found; the files are then read again."""
        known = self.table.schema.names
        added = {name: kind for name, kind in target.columns.items() if name not in known}
        if any(file.is_stream for file in files):
            raise InputError(
                f"stdin has columns that the table has not ({', '.join(added)}), and is not read "
                "twice: add them by table.alter.add_column, or give a file",
                columns=list(added),
            )
        fields = [pa.field(name, kind.arrow) for name, kind in added.items()]
        self.table.alter.merge_schema(pa.schema(fields))


def upsert(
    table: Table,
    files: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    format: str,
    metadata: Mapping[str, str] | None = None,
    decimal_handling_mode: str | None = None,
    time_precision_mode: str | None = None,
    binary_handling_mode: str | None = None,
    new_columns: NewColumnsPolicy = "refuse",
    missing: Missing = "error",
    commit_user: str | None = None,
    commit_identifier: int | None = None,
) -> Upserted:
    """Write files of events, a record a line, to a table in one commit.

    Args:
        files: paths, read one after the other; ``-`` is the standard input.
        format: as `pkray.cdc.decode` takes it, as the words of ``…_mode`` are.
        metadata: columns of the table that are members of the envelope, such as
            ``{"lsn": "source.lsn"}``; one of them may be the table's ``sequence.field``.
        new_columns: ``add`` gives the table the columns that events have and it lacks; ``refuse``
            makes such an event bad.
        missing: ``null`` writes nulls where events lack columns of the table.
        commit_user, commit_identifier: as `Table.upsert` takes them.

    Raises:
        ChangeRecordError: a record cannot be read: nothing was written. It names the file, the
            line and the reason.
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
    )
    return load.run([LineFile(Path(path)) for path in paths])
