"""Tables as what Spark writes to: ``df.write.format("pkray")`` and ``writeStream``.

Spark gives a sink no process of its own: each call, on the driver too, is in one that ends after
it. So tasks leave their rows in Arrow files beside the warehouse's tables (``.staged``), and the
commit takes those of the attempts that Spark names.
"""

import itertools
import logging
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pkray import spans
from pkray.api.catalog import Catalog, connect
from pkray.clock import now_millis
from pkray.errors import CommitBaseMovedError, OptionError, PkrayError, TableReplacedError
from pkray.format.snapshot import BATCH_COMMIT_IDENTIFIER
from pkray.schema.table_schema import TableSchema
from pkray.service.client.push_batches import gathered
from pkray.service.client.pusher import incoming
from pkray.spark.source_options import SinkOptions
from pkray.spark.types import added_schema, incoming_schema
from pkray.storage.spool import Spool, SpoolFile
from pkray.table.table import Table

STREAMS = hasattr(datasource, "DataSourceStreamArrowWriter")
"""Whether this Spark has sinks of streams that take Arrow: 4.0 has none."""
_Streaming: Any = datasource.DataSourceStreamArrowWriter if STREAMS else object

_log = logging.getLogger(__name__)

_STAGED = ".staged/"
_LEFT_MILLIS = 7 * 24 * 3600 * 1000
"""After which what a job staged is taken for left behind: none runs for so long."""
_TRIES = 10
"""Bounds how often an overwrite is tried, while others commit in between."""
_QUERY_ID = "sql.streaming.queryId"


@dataclass
class Staged(WriterCommitMessage):
    """Names what one attempt of a task has staged.

    Args:
        folder: where; Spark makes another writer for the commit of a micro-batch.
        query: the id of the streaming query; None of a batch.
        envelope: of the write that it is part of.
        table: the identity of the table that the rows are for; None where it is not known.
    """

    folder: str
    file: SpoolFile | None
    query: str | None = None
    envelope: str | None = None
    table: str | None = None


class Staging:
    """Stages the rows of one write, and commits them to its table. Pickles.

    Args:
        overwrite: the rows replace all that the table has.
    """

    def __init__(self, options: SinkOptions, columns: StructType, overwrite: bool) -> None:
        self._options = options
        self._overwrite = overwrite
        rows = incoming_schema(columns).empty_table()
        self._added = added_schema(columns)
        with self._connected() as catalog:
            table = catalog.load_table(options.table)
            if not options.merge_schema:
                _drain(self._conformed(rows, table.schema))
            _delete_left(catalog)
            self._store = catalog.store
            self._table = table.location.identity
        self._folder = f"{_STAGED}{now_millis()}-{uuid.uuid4().hex}"
        with spans.span("write", table=options.table):
            self._envelope = spans.envelope()

    def stage(self, batches: Iterable[pa.RecordBatch]) -> Staged:
        """Write the rows of a task into a file of its own."""
        with spans.resumed(self._envelope), spans.span("stage"):
            file = self._spooled(gathered(batches))
        return Staged(self._folder, file, _query_id(), self._envelope, self._table)

    def _spooled(self, rows: Iterator[pa.RecordBatch]) -> SpoolFile | None:
        first = next(rows, None)
        if first is None:
            return None
        spool = Spool(self._store.child(self._folder))
        return spool.write_file(0, first.schema, itertools.chain([first], rows))

    def commit(self, messages: Sequence[Staged], user: str, identifier: int) -> None:
        """Commit what the attempts staged, once; and delete it.

        Raises:
            TableReplacedError: another table has the name now; nothing was committed.
        """
        staged = [each for each in messages if each.file is not None]
        envelope = next((each.envelope for each in messages), self._envelope)
        with spans.resumed(envelope), self._connected() as catalog:
            table = catalog.load_table(self._options.table)
            self._check_same_table(table, messages)
            if self._options.merge_schema:
                table.alter.merge_schema(self._added, self._options.row_kinds)
            if self._overwrite:
                self._replace(table, staged, user, identifier)
            elif staged:
                self._upsert(table, staged, user, identifier)
        self.clear(messages)

    def clear(self, messages: Iterable[Staged]) -> None:
        """Delete all that is staged; what cannot be deleted is left to a later write."""
        for folder in {self._folder, *(each.folder for each in messages)}:
            try:
                store = self._store.child(folder)
                store.delete([each.path for each in store.list("")])
            except (PkrayError, OSError) as error:
                _log.warning("staged rows are left in %s: %s", folder, error)

    def _check_same_table(self, table: Table, messages: Sequence[Staged]) -> None:
        expected = next((each.table for each in messages if each.table), self._table)
        if table.location.identity != expected:
            raise TableReplacedError(
                f"table {table.name} was dropped, and another one created in its place, while "
                "Spark wrote to it: nothing was committed; write the rows again, if they belong "
                "to the new table",
                table=table.name,
            )

    def _connected(self) -> Catalog:
        return connect(self._options.path, **self._options.storage)

    def _rows(self, staged: Sequence[Staged]) -> Iterator[pa.Table]:
        for each in staged:
            assert each.file is not None, "those without rows are left out"
            for batch in Spool(self._store.child(each.folder)).read_file(each.file):
                yield pa.Table.from_batches([batch])

    def _conformed(self, rows: pa.Table, schema: TableSchema) -> Iterator[pa.RecordBatch]:
        kinds = self._options.row_kinds
        return iter(incoming(rows, schema, kinds, missing=self._options.missing))

    def _upsert(self, table: Table, staged: Sequence[Staged], user: str, identifier: int) -> None:
        with table.open_writer(user, missing=self._options.missing) as writer:
            for rows in self._rows(staged):
                writer.write(rows, self._options.row_kinds)
            writer.commit(identifier)

    def _replace(self, table: Table, staged: Sequence[Staged], user: str, identifier: int) -> None:
        def rows() -> Iterator[pa.RecordBatch]:
            for each in self._rows(staged):
                yield from self._conformed(each, table.schema)

        for left in range(_TRIES - 1, -1, -1):
            newest = table.latest_snapshot()
            try:
                table._replace_all(rows, (user, identifier), newest.id if newest else 0, {})
                return
            except CommitBaseMovedError:
                if not left:
                    raise


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame in one commit."""

    def __init__(self, options: SinkOptions, columns: StructType, overwrite: bool) -> None:
        self._staging = Staging(options, columns, overwrite)
        self._user = options.commit_user or f"spark-{uuid.uuid4()}"
        given = options.commit_identifier
        self._identifier = BATCH_COMMIT_IDENTIFIER if given is None else given

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return self._staging.stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._staging.commit(_staged(messages), self._user, self._identifier)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._staging.clear(_staged(messages))


class StreamWriter(_Streaming):  # type: ignore[misc] # it depends on Spark
    """Commits each micro-batch under its number."""

    def __init__(self, options: SinkOptions, columns: StructType, overwrite: bool) -> None:
        self._staging = Staging(options, columns, overwrite)
        self._user = options.commit_user

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return self._staging.stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        staged = _staged(messages)
        queries = {each.query for each in staged}
        user = self._user or next((f"spark-{each}" for each in queries if each), None)
        if user is None and staged:
            raise OptionError(
                "the stream has no id by which a micro-batch that is replayed could be known: give "
                "the option commit-user, a name that no other stream has",
                key="commit-user",
            )
        if user is not None:
            self._staging.commit(staged, user, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._staging.clear(_staged(messages))


def _staged(messages: Iterable[WriterCommitMessage | None]) -> list[Staged]:
    return [each for each in messages if isinstance(each, Staged)]


def _query_id() -> str | None:
    context = TaskContext.get()
    found = None if context is None else context.getLocalProperty(_QUERY_ID)
    return found or None


def _drain(rows: Iterator[object]) -> None:
    for _ in rows:
        pass


def _delete_left(catalog: Catalog) -> None:
    """Delete what jobs staged that were killed long ago."""
    for folder in catalog.store.list_dirs(_STAGED.rstrip("/")):
        since = folder.rsplit("/", 1)[-1].partition("-")[0]
        if since.isascii() and since.isdigit() and now_millis() - int(since) > _LEFT_MILLIS:
            left = catalog.store.child(f"{_STAGED}{folder.rsplit('/', 1)[-1]}")
            left.delete([each.path for each in left.list("")])
