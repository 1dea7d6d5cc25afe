"""The first epoch of a continuous query on Spark: tables read in parallel, computed row by row."""

import logging
import threading
import uuid

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pkray.errors import PkrayError, UnsupportedError
from pkray.relational.continuous.feeds.backfill import Backfill, Parts
from pkray.relational.plan.nodes import Node
from pkray.relational.running import prepare
from pkray.relational.sources.streamed import RunningFeeder
from pkray.spark.failure import typed
from pkray.spark.relations import to_spark
from pkray.spark.streams.feeder import shown
from pkray.spark.streams.spooling import SpooledRows, spool_rows
from pkray.storage.spool import Feeder, FeederState, Spool

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 1.0
"""Between two signs of life."""


def start(query: str, backfill: Backfill, parts: Parts) -> RunningFeeder:
    """Begin to compute the first epoch of a query on the active session.

    Raises:
        UnsupportedError: there is no session, or its tasks do not reach the query's folder.
    """
    spark = SparkSession.getActiveSession()
    if spark is None:
        raise UnsupportedError(
            f"the backfill of {query} runs on Spark, and no session is active: start one by "
            "pkray.spark.session(), or give backfill='local'"
        )
    attempt, spool = backfill.begin()
    if spool.store.url.startswith("memory:"):
        raise UnsupportedError(
            f"{spool.store.url} is in this process's memory, where tasks of Spark do not reach "
            "it: give backfill='local'"
        )
    frames = [(plan, to_spark(prepare(plan), spark)) for plan in parts.plans.values()]
    return _Running(spark, query, backfill, parts, attempt, spool, frames)


class _Running(RunningFeeder):
    """Jobs of Spark, one a part, in a thread; another one tells how far they are."""

    def __init__(
        self,
        spark: SparkSession,
        query: str,
        backfill: Backfill,
        parts: Parts,
        attempt: str,
        spool: Spool,
        frames: list[tuple[Node, DataFrame]],
    ) -> None:
        self._spark = spark
        self._backfill = backfill
        self._parts = parts
        self._attempt = attempt
        self._spool = spool
        self._frames = frames
        self._group = f"pkray-backfill-{query}-{uuid.uuid4().hex[:8]}"
        self._done = threading.Event()
        self._stopping = threading.Event()
        self._say("running")
        self._worker = threading.Thread(target=self._work, name=self._group, daemon=True)
        self._watcher = threading.Thread(target=self._watch, name=self._group, daemon=True)
        self._watcher.start()
        self._worker.start()

    @property
    def is_running(self) -> bool:
        return self._worker.is_alive()

    def stop(self) -> None:
        self._stopping.set()
        try:
            with typed():
                self._spark.sparkContext.cancelJobGroup(self._group)
        except (PkrayError, PySparkException) as error:
            _log.warning("a backfill on Spark is not stopped: %s", error)
        self._worker.join()

    def _work(self) -> None:
        state: FeederState = "ended"
        message = None
        try:
            with typed():
                self._spark.sparkContext.setJobGroup(self._group, self._group, True)
                for number, (plan, frame) in enumerate(self._frames):
                    self._write(number, plan, frame)
            self._backfill.end(self._attempt, self._parts)
        except Exception as error:
            state, message = "failed", shown(error)
        if self._stopping.is_set():
            state, message = "stopped", None
        self._done.set()
        self._watcher.join()  # it must not have the last word
        self._say(state, message)

    def _write(self, number: int, plan: Node, frame: DataFrame) -> None:
        columns = tuple((each.name, each.type) for each in plan.fields)
        files = spool_rows(frame, self._spool, number, SpooledRows(columns, plan.fields.arrow))
        self._spool.add(number, files)

    def _watch(self) -> None:
        while not self._done.wait(_LOOK_SECONDS):
            try:
                self._say("running")
            except (PkrayError, PySparkException) as error:
                _log.warning("a backfill on Spark does not tell how far it is: %s", error)

    def _say(self, state: FeederState, message: str | None = None) -> None:
        done, total = self._tasks()
        self._spool.say(Feeder(self._attempt, state, True, message, done=done, total=total))

    def _tasks(self) -> tuple[int, int]:
        """Count the tasks that are done, and all that are known."""
        tracker = self._spark.sparkContext.statusTracker()
        jobs = [tracker.getJobInfo(each) for each in tracker.getJobIdsForGroup(self._group)]
        numbers = {stage for job in jobs if job is not None for stage in job.stageIds}
        stages = [stage for stage in map(tracker.getStageInfo, numbers) if stage is not None]
        return sum(s.numCompletedTasks for s in stages), sum(s.numTasks for s in stages)
