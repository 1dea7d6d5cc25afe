"""Writes a table to a topic, and is killed before or after a commit.

python write_topic.py WAREHOUSE SERVERS before|after NUMBER
"""

import os
import signal
import sys
from typing import Any

import pkray
import pkray.kafka
from pkray.kafka.topic_transactions import TopicTransactions


def kill_at(when: str, number: int) -> None:
    plain, left = TopicTransactions.commit, number

    def commit(*arguments: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0 and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        plain(*arguments)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    TopicTransactions.commit = commit  # type: ignore[method-assign]


if __name__ == "__main__":
    warehouse, servers, when, number = sys.argv[1:]
    kill_at(when, int(number))
    with pkray.connect(warehouse) as catalog:
        table = catalog.load_table("db.t")
        pkray.kafka.write(table, "t", servers=servers, format="debezium-json").run(once=True)
