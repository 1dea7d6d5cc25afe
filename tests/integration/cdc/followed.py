"""Follows a table of a PostgreSQL, and is killed where it is told to be.

python followed.py WAREHOUSE PORT POINT NUMBER
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import pkray
import pkray.cdc
from pkray.cdc.postgresql.engine import Batch
from pkray.service.client.writer import TableWriter
from tests.integration.cdc.postgres_server import PASSWORD, USER

POINTS: dict[str, tuple[type, str, bool]] = {
    "write": (TableWriter, "write", False),
    "written": (TableWriter, "write", True),
    "commit": (TableWriter, "commit", False),
    "committed": (TableWriter, "commit", True),
    "released": (Batch, "release", True),
}
"""What is called, and whether it has been."""


def kill_at(point: str, number: int) -> None:
    """Have the process killed the so manieth time that it comes to a point."""
    owner, name, is_after = POINTS[point]
    plain: Callable[..., Any] = getattr(owner, name)
    left = number

    def counted(*arguments: Any, **named: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0 and not is_after:
            os.kill(os.getpid(), signal.SIGKILL)
        found = plain(*arguments, **named)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(owner, name, counted)


if __name__ == "__main__":
    warehouse, port, point, number = sys.argv[1:]
    kill_at(point, int(number))
    with pkray.connect(warehouse) as catalog:
        source = pkray.cdc.postgres(
            catalog.load_table("db.people"),
            "public.people",
            database="postgres",
            host="127.0.0.1",
            port=int(port),
            user=USER,
            password=PASSWORD,
            properties={"max.batch.size": "7", "max.queue.size": "20"},
        )
        source.run(once=True)
