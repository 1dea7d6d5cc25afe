"""A driver of its own process, for tests that kill it: streams a folder into ``db.t``.

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


class Driver:
    """Starts the driver; `kill_after` ends it with -9 when it has made some snapshots."""

    def __init__(self, warehouse: Path, folder: str, checkpoint: Path, **runtime: object) -> None:
        self._snapshots = warehouse / "db.db" / "t" / "snapshot"
        arguments = {
            "warehouse": str(warehouse),
            "folder": folder,
            "checkpoint": str(checkpoint),
            **runtime,
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.streaming_driver", json.dumps(arguments)],
            start_new_session=True,
        )

    def kill_after(self, snapshots: int, seconds: float = 0.0) -> None:
        """Kill it with its JVM, this long after it has made so many more snapshots."""
        wanted = self._count() + snapshots
        try:
            while self._count() < wanted:
                if self._process.poll() is not None:
                    raise RuntimeError(f"the driver ended by itself: {self._process.returncode}")
                time.sleep(0.01)
            time.sleep(seconds)
        finally:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _count(self) -> int:
        return len(list(self._snapshots.glob("snapshot-*")))


def main(
    warehouse: str, folder: str, checkpoint: str, runtime: str = "local", address: str | None = None
) -> None:
    import pkray
    import pkray.spark

    options = {"address": address} if address else None
    catalog = pkray.connect(warehouse, runtime=runtime, runtime_options=options)
    spark = pkray.spark.session("driver", configs=CONFIGS)
    stream = (
        spark.readStream.schema("id BIGINT, name STRING, amount DOUBLE")
        .option("maxFilesPerTrigger", 1)
        .parquet(folder)
    )
    pkray.spark.start_ingest(
        stream, catalog.load_table("db.t"), checkpoint_location=checkpoint
    ).awaitTermination()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
