"""The changes of a continuous query as a streaming DataFrame."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pkray.errors import OptionError, QueryFailedError, SnapshotNotFoundError, UnsupportedError
from pkray.spark.bound_source import load
from pkray.spark.failure import typed
from pkray.spark.types import spark_schema, to_arrow_schema, to_exchange
from pkray.storage.spool import Spool, SpoolFile

FORMAT = "pkray-epochs"


@typed()
def read_epochs(spool: Spool, schema: pa.Schema, spark: SparkSession | None) -> DataFrame:
    """Read the batches of a spool as they come.

    Args:
        spark: None: the active session.

    Raises:
        UnsupportedError: none is active, or its tasks do not reach the spool.
    """
    spark = spark or SparkSession.getActiveSession()
    if spark is None:
        raise UnsupportedError("no Spark session is active: give one, as of pkray.spark.session()")
    if spool.store.url.startswith("memory:"):
        raise UnsupportedError(
            f"{spool.store.url} is in this process's memory, where tasks of Spark do not reach "
            "it: connect to a warehouse on a disk or in an object store"
        )
    return load(spark, spark.readStream, EpochSource, EpochRequest(spool, schema))


@dataclass(frozen=True)
class EpochRequest:
    """The spool to read, and its columns."""

    spool: Spool
    schema: pa.Schema


class EpochSource(DataSource):
    """The streaming source of `read_epochs`."""

    request: ClassVar[EpochRequest | None] = None

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        if self.request is None:
            raise OptionError(f"the source {FORMAT!r} is opened by stream.to_spark()")
        self._request = self.request

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return spark_schema(self._request.schema)

    def streamReader(self, schema: StructType) -> EpochReader:  # noqa: N802
        return EpochReader(self._request.spool, schema)


class FilePartition(InputPartition):
    """A file as a Spark partition."""

    def __init__(self, file: SpoolFile) -> None:
        super().__init__(None)
        self.file = file


class EpochReader(DataSourceStreamReader):
    """Lists the batches on the driver, reads them on executors. An offset is the next batch."""

    def __init__(self, spool: Spool, schema: StructType) -> None:
        self._spool = spool
        self._exchange = to_arrow_schema(schema)
        self._planned = 0

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"next": self._spool.first()}

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: object = None
    ) -> dict[str, Any]:
        """Return the offset up to which there are batches.

        Args:
            start, limit: Spark before 4.2 passes neither.

        Raises:
            QueryFailedError: none comes any more, for the query failed.
        """
        count = self._spool.count()
        feeder = self._spool.feeder()
        if self._planned >= count and feeder is not None and feeder.state == "failed":
            raise QueryFailedError(f"the query whose changes these are failed: {feeder.message}")
        return {"next": count}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """List the files between two offsets.

        Raises:
            SnapshotNotFoundError: a batch is gone.
        """
        files: list[InputPartition] = []
        self._planned = end["next"]
        for number in range(start["next"], end["next"]):
            batch = self._spool.batch(number)
            if batch is None:
                raise SnapshotNotFoundError(
                    f"epoch batch {number} of the stream is gone: its stream has no name, or "
                    "another query has read it; begin with a new checkpoint",
                    batch=number,
                )
            files += map(FilePartition, batch.files)
        return files

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, FilePartition)
        for rows in self._spool.read_file(partition.file):
            yield to_exchange(rows, self._exchange)

    def commit(self, end: dict[str, Any]) -> None:
        """Delete all before an offset: Spark has it."""
        self._spool.delete_below(end["next"])

    def stop(self) -> None:
        """Do nothing, as there is nothing to end."""
