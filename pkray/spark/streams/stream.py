"""A streaming DataFrame into a table: one micro-batch, one commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from pkray import spans
from pkray.arguments.facade import Label, checked
from pkray.errors import InputError, PkrayError
from pkray.rows.input import Missing
from pkray.spark import decoding
from pkray.spark.arguments import Frame, check_dataframe, check_table
from pkray.spark.batch import check_columns, push_and_commit
from pkray.spark.decoding import Decoding
from pkray.spark.failure import typed
from pkray.spark.types import added_schema

if TYPE_CHECKING:
    from pkray.table.table import Table

_QUERY_ID = "sql.streaming.queryId"


@checked
@typed()
def start_ingest(
    stream_df: Frame,
    table: Table,
    *,
    checkpoint_location: str,
    row_kinds: str | None = None,
    trigger: Mapping[str, Any] | None = None,
    query_name: Label | None = None,
    missing: Missing = "error",
    merge_schema: bool = False,
) -> IngestQuery:
    """Upsert a stream, exactly once: a micro-batch that is replayed after a crash is skipped.

    The commit user is the query's id, which the checkpoint keeps, and the commit identifier is
    the micro-batch's number. A deleted checkpoint starts a new query that reads its source from
    the start; upserts of rows that are there already leave the table as it is.

    Args:
        checkpoint_location: a directory of this query alone, on a disk all drivers reach.
        row_kinds: a column of '+I', '-U', '+U', '-D'; default all rows are upserts.
        trigger: as of ``DataStreamWriter.trigger``, such as ``{"processingTime": "5 seconds"}``
            or ``{"availableNow": True}``. Default: the next micro-batch at once.
        query_name: shown in Spark's progress and UI.
        missing: as `Table.open_writer` takes it.
        merge_schema: add the stream's new columns to the table, before the query starts.

    Returns:
        The running query; where a pkray error ends it, ``awaitTermination`` raises that error.

    Raises:
        InputError: the stream's columns do not fit the table; nothing was started.
    """
    check_dataframe("start_ingest", stream_df)
    check_table("start_ingest", table)
    if not stream_df.isStreaming:
        raise InputError(
            "start_ingest takes a streaming DataFrame, and this one is batch: use "
            "pkray.spark.ingest"
        )
    if merge_schema:
        table.alter.merge_schema(added_schema(stream_df.schema), row_kinds)
    check_columns(stream_df, table.schema, row_kinds, missing)
    found = decoding.of(stream_df, table, row_kinds)
    batches = _Batches(table, row_kinds, missing, found)
    incoming = stream_df if found is None else found.records
    writer = incoming.writeStream.foreachBatch(batches.commit)
    writer = writer.option("checkpointLocation", checkpoint_location)
    if trigger:
        writer = writer.trigger(**trigger)
    if query_name:
        writer = writer.queryName(query_name)
    return IngestQuery(writer.start()._jsq, batches)


class IngestQuery(StreamingQuery):
    """A StreamingQuery that raises the pkray error which ended it, not Spark's text of it."""

    def __init__(self, jsq: Any, batches: _Batches) -> None:
        super().__init__(jsq)
        self._batches = batches

    def awaitTermination(self, timeout: int | None = None) -> bool | None:  # noqa: N802
        return self._unwrapped(lambda: super(IngestQuery, self).awaitTermination(timeout))

    def processAllAvailable(self) -> None:  # noqa: N802
        self._unwrapped(super().processAllAvailable)

    @property
    def error(self) -> PkrayError | None:
        """Return the pkray error that ended the query, or None."""
        with typed():
            return self._batches.error if self.exception() is not None else None

    def _unwrapped(self, wait: Callable[[], Any]) -> Any:
        with typed():
            try:
                return wait()
            except StreamingQueryException:
                if self._batches.error is None:
                    raise
                raise self._batches.error from None


class _Batches:
    """Commits micro-batches in the driver, and keeps the error that ends their query: what Spark
    tells of it is text, of which data may be a part."""

    def __init__(
        self, table: Table, row_kinds: str | None, missing: Missing, decoded: Decoding | None
    ) -> None:
        self.error: PkrayError | None = None
        self._table = table
        self._row_kinds = row_kinds
        self._missing = missing
        self._decoded = decoded

    def commit(self, df: DataFrame, batch_id: int) -> None:
        query_id = df.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
        assert query_id is not None, "Spark sets it for every micro-batch"
        try:
            with spans.within(epoch=batch_id):
                push_and_commit(
                    df,
                    self._table,
                    query_id,
                    batch_id,
                    self._row_kinds,
                    self._missing,
                    decoded=self._decoded,
                )
        except PkrayError as error:
            self.error = error
            raise
