"""A topic of change events into a table: its offsets are in the table's commits.

python examples/topics.py

The broker is librdkafka's own, which keeps topics in memory: name yours in its place.
"""

from __future__ import annotations

import json
import tempfile

from confluent_kafka import Producer

import pkray
import pkray.kafka


def main() -> None:
    producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none", "log_level": 2})
    (broker,) = producer.list_topics(timeout=30).brokers.values()
    servers = f"{broker.host}:{broker.port}"

    def send(op: str, key: int, amount: float) -> None:
        row = {"id": key, "amount": amount}
        images = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
        producer.produce("orders", key=str(key), value=json.dumps({"op": op, **images}))

    with tempfile.TemporaryDirectory() as folder, pkray.connect(f"{folder}/warehouse") as catalog:
        columns = [("id", "BIGINT"), ("amount", "DOUBLE")]
        orders = catalog.create_table("shop.orders", columns, primary_keys=["id"])
        topic = pkray.kafka.read(orders, "orders", servers=servers, format="debezium-json")

        for key in range(1000):
            send("c", key, key / 4)
        producer.flush(30)
        print(f"{topic.run(once=True)} changes")  # without once it goes on until topic.stop()

        for key in range(900):
            send("d", key, key / 4)
        producer.flush(30)
        print(f"{topic.run(once=True)} changes")  # it goes on behind the offsets of the commit
        print(f"{orders.to_arrow().num_rows} rows, offsets {topic.offsets()}")


if __name__ == "__main__":
    main()
