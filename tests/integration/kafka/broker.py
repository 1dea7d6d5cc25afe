"""A broker of librdkafka's own, for as long as a test: other processes reach it, too."""

from collections.abc import Iterable

from confluent_kafka import Producer


class MockBroker:
    """Keeps topics of four partitions in memory."""

    def __init__(self) -> None:
        self._producer = Producer(
            {"test.mock.num.brokers": 1, "bootstrap.servers": "none", "log_level": 2}
        )
        (broker,) = self._producer.list_topics(timeout=60).brokers.values()
        self.servers = f"{broker.host}:{broker.port}"

    def make(self, topic: str) -> None:
        """Make a topic without messages."""
        self._producer.list_topics(topic, timeout=60)

    def send(self, topic: str, messages: Iterable[tuple[str, str | bytes | None]]) -> None:
        """Write messages: keys, which choose the partitions, and values."""
        for key, value in messages:
            self._producer.produce(topic, key=key, value=value)
        assert self._producer.flush(60) == 0

    def send_to(self, topic: str, partition: int, *values: str | bytes) -> None:
        for value in values:
            self._producer.produce(topic, value=value, partition=partition)
        assert self._producer.flush(60) == 0
