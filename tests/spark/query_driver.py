"""A driver of its own process, for tests that kill it: a query over a stream of a folder's files.

Run as a module with a JSON object of `Driver`'s arguments.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.spark.jvm import CONFIGS

TOTALS = "SELECT name, COUNT(*) AS n, SUM(amount) AS total FROM rows GROUP BY name"


class Driver:
    """Starts the driver; `kill_after` ends it with -9 when it has given some more epochs."""

    def __init__(self, warehouse: Path, folder: str, trigger: str) -> None:
        self._lives = warehouse / ".queries" / "db.totals" / "lives"
        arguments = {"warehouse": str(warehouse), "folder": folder, "trigger": trigger}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.query_driver", json.dumps(arguments)],
            start_new_session=True,
        )

    def kill_after(self, epochs: int) -> None:
        """Kill it with its JVM as soon as it has begun so many more epochs."""
        wanted = self._count() + epochs
        try:
            while self._count() < wanted:
                if self._process.poll() is not None:
                    raise RuntimeError(f"the driver ended by itself: {self._process.returncode}")
                time.sleep(0.01)
        finally:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def wait(self) -> None:
        """Wait until it ends by itself."""
        try:
            if self._process.wait(240):
                raise RuntimeError(f"the driver failed: {self._process.returncode}")
        finally:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)

    def _count(self) -> int:
        return len(list(self._lives.glob("*/epochs/epoch-*")))


def main(warehouse: str, folder: str, trigger: str) -> None:
    import pkray
    import pkray.spark

    catalog = pkray.connect(warehouse)
    spark = pkray.spark.session("driver", configs=CONFIGS)
    stream = (
        spark.readStream.schema("id BIGINT, name STRING, amount DOUBLE")
        .option("maxFilesPerTrigger", 1)
        .parquet(folder)
    )
    catalog.create_view("rows", pkray.spark.relation(stream), temporary=True)
    query = catalog.sql(TOTALS).materialize("db.totals", trigger=trigger)
    while query.status()["state"] in ("starting", "running"):
        time.sleep(0.05)
    query.wait_ended()
    pkray.spark.stop()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
