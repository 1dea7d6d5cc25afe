"""A job that halts half-way, so that a test can kill something and let it go on."""

import contextlib
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import psutil
from pyspark import cloudpickle

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # executors cannot import tests

PATIENCE_SECONDS = 120
ROWS = 200_000


class Halt:
    """Tasks note who they are when half of their rows are through, and wait for `release`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = str(folder)

    def rows(self, spark):
        """`ROWS` rows in two partitions; the first run of each halts half-way."""
        folder = self._folder

        def halting(batches):
            from pyspark import TaskContext

            context = TaskContext.get()
            mark = Path(folder) / f"half-{context.partitionId()}"
            for number, batch in enumerate(batches):
                if number == 5 and not mark.exists():
                    mark.with_suffix(".tmp").write_text(str(_executor_pid()))
                    mark.with_suffix(".tmp").rename(mark)
                    _wait_for(lambda: (Path(folder) / "released").exists())
                yield batch

        plain = expected(spark)
        batches = {"spark.sql.execution.arrow.maxRecordsPerBatch": "10000"}
        for key, value in batches.items():
            spark.conf.set(key, value)
        return plain.mapInArrow(halting, plain.schema)

    def wait(self) -> int:
        """Until a task is half-way; the process id of its executor."""
        marks = Path(self._folder)
        _wait_for(lambda: any(marks.glob("half-?")))
        return int(next(marks.glob("half-?")).read_text())

    def release(self) -> None:
        (Path(self._folder) / "released").touch()

    def during(self, action: Callable[[int], None]) -> Future[None]:
        """Beside the job: when it is half-way, do this, then let it go on."""

        def act() -> None:
            try:
                action(self.wait())
            finally:
                self.release()

        return ThreadPoolExecutor(1).submit(act)


def expected(spark):
    return spark.range(ROWS, numPartitions=2).selectExpr(
        "id", "concat('name-', id) AS name", "double(id) AS amount"
    )


def kill_owners(table) -> None:
    """kill -9 every process that owns buckets of the table."""
    for pid in {int(str(owner["pid"])) for owner in table.service_stats()["owners"]}:
        kill(pid)


def kill_coordinator(table) -> None:
    (coordinator,) = table.service_stats()["coordinator"]
    kill(int(str(coordinator["pid"])))


def kill(pid: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        process.kill()
        _wait_for(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)


def _executor_pid() -> int:
    """The JVM above the daemon above this Python worker."""
    return psutil.Process().parent().parent().pid


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("nothing happened")
        time.sleep(0.05)
