"""Reads a topic, and is killed before or after a commit.

python read_topic.py WAREHOUSE SERVERS before|after NUMBER
"""

import os
import signal
import sys
from typing import Any

import pkray
import pkray.kafka
from pkray.service.client.writer import TableWriter


def kill_at(when: str, number: int) -> None:
    plain, left = TableWriter.commit, number

    def commit(*arguments: Any, **named: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0 and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        found = plain(*arguments, **named)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    TableWriter.commit = commit  # type: ignore[method-assign]


if __name__ == "__main__":
    warehouse, servers, when, number = sys.argv[1:]
    kill_at(when, int(number))
    with pkray.connect(warehouse) as catalog:
        table = catalog.load_table("db.t")
        pkray.kafka.read(table, "t", servers=servers, format="debezium-json").run(once=True)
