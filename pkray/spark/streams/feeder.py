"""Spark streams that feed continuous queries: each micro-batch is a batch of the query's spool."""

import logging
import threading
import time
import uuid
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from pkray.errors import OptionError, PkrayError, UnsupportedError
from pkray.relational.sources.changelog import ROW_KIND
from pkray.relational.sources.streamed import Feeding, RunningFeeder, StreamedSource, StreamFeeder
from pkray.spark.failure import typed
from pkray.spark.streams.spooling import SpooledRows, spool_rows
from pkray.storage.spool import Feeder, FeederState, Spool

_log = logging.getLogger(__name__)
_QUERY_ID = "sql.streaming.queryId"
_LOOK_SECONDS = 2
"""Between two looks whether the query still wants rows, and signs of life."""
_PAUSE_SECONDS = 0.02
"""Between two looks whether the query has caught up."""
_AHEAD = 8
"""Micro-batches that Spark may be ahead of the query: enough that neither waits for the other, few
enough that what lies in between stays small."""
_SHOWN_CHARACTERS = 400
"""Of Spark's message; its log has all of it."""


class SparkFeeder(StreamFeeder):
    """Feeds queries with a streaming DataFrame.

    Args:
        frame: streaming.
        row_kinds: the column that says what each row does; None: all are added.
        checkpoint_location: of the Spark query; default in the folder of the query that it feeds.
    """

    def __init__(
        self, frame: DataFrame, row_kinds: str | None, checkpoint_location: str | None
    ) -> None:
        self._frame = frame
        self._row_kinds = row_kinds
        self._checkpoint = checkpoint_location

    def start(self, source: StreamedSource, spool: Spool, feeding: Feeding) -> RunningFeeder:
        """Start the Spark query.

        Raises:
            OptionError: Spark has no place for its checkpoint.
            UnsupportedError: the tasks of Spark do not reach the place of the batches.
            PySparkException: Spark cannot run it; it says why.
        """
        if spool.store.url.startswith("memory:"):
            raise UnsupportedError(
                f"{spool.store.url} is in this process's memory, where tasks of Spark do not "
                "reach it: connect to a warehouse on a disk or in an object store"
            )
        fields = source.fields
        rows = SpooledRows(
            tuple((each.name, each.type) for each in fields),
            source.spooled_schema,
            self._row_kinds,
            ROW_KIND if self._row_kinds else None,
            source.mode == "upsert",
        )
        location = self._checkpoint or _checkpoint_in(spool, feeding)
        return _Running(self._frame, spool, rows, feeding, location)


def _checkpoint_in(spool: Spool, feeding: Feeding) -> str | None:
    if feeding.query is None:
        return None
    path = spool.store.local_path("checkpoint")
    if path is None:
        raise OptionError(
            f"the warehouse of query {feeding.query} is on no disk, and Spark opens object stores "
            "by settings of its own: give pkray.spark.relation(stream, checkpoint_location=…)"
        )
    return path


class _Running(RunningFeeder):
    """One Spark query, and a thread that watches it."""

    def __init__(
        self,
        frame: DataFrame,
        spool: Spool,
        rows: SpooledRows,
        feeding: Feeding,
        checkpoint: str | None,
    ) -> None:
        self._spool = spool
        self._rows = rows
        self._feeding = feeding
        self._name = uuid.uuid4().hex
        self._error: Exception | None = None
        self._stopping = threading.Event()
        writer = frame.writeStream.foreachBatch(self._take)
        if checkpoint is not None:
            writer = writer.option("checkpointLocation", checkpoint)
        if feeding.ends:
            writer = writer.trigger(availableNow=True)
        elif feeding.interval:
            writer = writer.trigger(processingTime=f"{round(feeding.interval * 1000)} milliseconds")
        self._say("running")
        try:
            with typed():
                self._query = writer.start()
        except Exception as error:
            self._say("failed", shown(error))
            raise
        self._watcher = threading.Thread(target=self._watch, name="pkray-stream", daemon=True)
        self._watcher.start()

    @property
    def is_running(self) -> bool:
        return self._watcher.is_alive()

    def stop(self) -> None:
        self._stopping.set()
        try:
            with typed():
                self._query.stop()
        except (PkrayError, PySparkException) as error:  # its process may be gone already
            _log.warning("a Spark stream is not stopped: %s", error)
        self._watcher.join(2 * _LOOK_SECONDS)

    def _take(self, frame: DataFrame, number: int) -> None:
        """Write a micro-batch to the spool, once."""
        try:
            self._write(frame, number)
        except Exception as error:
            self._error = error  # what Spark tells of it is a trace of calls
            raise
        while not self._stopping.is_set() and self._is_ahead(number):
            time.sleep(_PAUSE_SECONDS)

    def _write(self, frame: DataFrame, number: int) -> None:
        writer = frame.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
        assert writer is not None, "Spark sets it for every micro-batch"
        count = self._spool.count()
        self._check_follows(number, count, writer)
        if number < count:
            # it is there; Spark's own operators still have to come past it
            frame.write.format("noop").mode("overwrite").save()
            return
        files = spool_rows(frame, self._spool, number, self._rows)
        self._spool.add(number, files, writer)

    def _check_follows(self, number: int, count: int, writer: str) -> None:
        """Check that a micro-batch goes on where the spool ends, or is the last one again."""
        newest = self._spool.batch(count - 1) if count else None
        if number > count or (newest is not None and newest.writer != writer):
            raise OptionError(
                f"the Spark stream goes on at micro-batch {number} of its query {writer}, and the "
                f"query has {count} of "
                f"{newest.writer if newest else 'none'}: its checkpoint is another than that with "
                "which the query was begun; restore that one, or drop the query and begin anew",
                batch=number,
            )

    def _is_ahead(self, number: int) -> bool:
        return number - self._feeding.position() >= _AHEAD and self._feeding.is_wanted()

    def _watch(self) -> None:
        """Tell what the Spark query does, until it ends."""
        state, message = "stopped", None
        try:
            while not self._query.awaitTermination(_LOOK_SECONDS):
                if not self._stopping.is_set() and not self._feeding.is_wanted():
                    self._query.stop()
                    break
                self._say("running")
            else:
                state = "ended" if self._feeding.ends else "stopped"
        except Exception as error:
            state, message = "failed", shown(self._error or error)
        if self._stopping.is_set():
            state, message = "stopped", None
        self._say_last(state, message)

    def _say_last(self, state: Any, message: str | None) -> None:
        try:
            newest = self._spool.feeder()
            if newest is None or newest.name == self._name:
                self._say(state, message)
        except PkrayError as error:
            _log.warning("a Spark stream has %s, which is not written down: %s", state, error)

    def _say(self, state: FeederState, message: str | None = None) -> None:
        self._spool.say(Feeder(self._name, state, self._feeding.ends, message))


def shown(error: BaseException) -> str:
    """Give what went wrong in a line: Spark appends traces of calls."""
    text = str(error).strip()
    return text if isinstance(error, PkrayError) else text.partition("\n")[0][:_SHOWN_CHARACTERS]
