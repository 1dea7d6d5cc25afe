"""A model of Kafka's transactions, after its protocol's description: librdkafka's own broker keeps
no offsets of them, fences nobody and shows what was given up.

`ModelCluster.installed` has `confluent_kafka`'s clients be those of the model. A client may be
killed before or after any of its calls: it does nothing from then on. A call may fail, too, and a
transaction be open for longer than brokers allow.
"""

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException

PARTITIONS = 4


class Killed(BaseException):
    """Ends the process that a client is in."""


@dataclass
class Transaction:
    state: str = "open"
    offsets: dict[Any, tuple[int, str]] = field(default_factory=dict)


@dataclass
class Record:
    key: bytes
    value: bytes | None
    transaction: Transaction


@dataclass
class ModelCluster:
    """Topics, groups and writers.

    Attributes:
        kills_at: the call, of those to come, at which a client dies.
        failures: what calls of a name fail with, once each.
    """

    servers: ClassVar[str] = "none"
    topics: dict[str, list[list[Record]]] = field(default_factory=dict)
    offsets: dict[Any, tuple[int, str]] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)
    open: dict[str, Transaction] = field(default_factory=dict)
    kills_at: int = 0
    is_after: bool = False
    is_dead: bool = False
    calls: list[str] = field(default_factory=list)
    failures: dict[str, KafkaError] = field(default_factory=dict)

    def make(self, topic: str) -> None:
        """Make a topic, anew if it is there: what groups have of it is forgotten."""
        self.topics[topic] = [[] for _ in range(PARTITIONS)]
        self.offsets = {place: said for place, said in self.offsets.items() if place[1] != topic}

    def kill_at(self, number: int, is_after: bool = False) -> None:
        """Have a client die before or after one of the calls to come; 0: at none."""
        self.calls, self.kills_at, self.is_after, self.is_dead = [], number, is_after, False

    def committed(self, topic: str) -> list[list[tuple[bytes, bytes | None]]]:
        """What readers of committed messages get of each partition."""
        found = []
        for partition in self.topics[topic]:
            records = []
            for record in partition:
                if record.transaction.state == "open":
                    break
                if record.transaction.state == "committed":
                    records.append((record.key, record.value))
            found.append(records)
        return found

    @contextmanager
    def installed(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(confluent_kafka, "Producer", lambda c, **_: ModelProducer(self, c))
            patched.setattr(confluent_kafka, "Consumer", lambda c, **_: ModelGroup(self, c))
            yield

    def give_up(self) -> None:
        """End what is open, and fence its writers, as brokers do when its time is over."""
        for identity in list(self.open):
            self.end(identity, "aborted")
            self.epochs[identity] += 1

    def end(self, identity: str, state: str) -> None:
        transaction = self.open.pop(identity, None)
        if transaction is not None:
            transaction.state = state
            if state == "committed":
                self.offsets |= transaction.offsets


class _Client:
    def __init__(self, cluster: ModelCluster, config: dict[str, Any]) -> None:
        self.cluster = cluster
        self.config = config

    @contextmanager
    def called(self, name: str) -> Iterator[None]:
        cluster = self.cluster
        cluster.calls.append(name)
        if cluster.is_dead:
            raise Killed
        cluster.kills_at -= 1
        cluster.is_dead = cluster.kills_at == 0
        if not cluster.is_dead or cluster.is_after:
            yield
        if cluster.is_dead:
            raise Killed

    def list_topics(self, topic: str, timeout: float) -> Any:
        assert timeout > 0
        there = range(PARTITIONS) if topic in self.cluster.topics else ()
        error = None if there else KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        partitions = dict.fromkeys(there)
        return SimpleNamespace(topics={topic: SimpleNamespace(error=error, partitions=partitions)})


class ModelProducer(_Client):
    epoch = -1
    failed: KafkaError | None = None  # what has to be aborted

    @property
    def identity(self) -> str:
        return self.config["transactional.id"]

    @contextmanager
    def called(self, name: str) -> Iterator[None]:
        with super().called(name):
            error = self.cluster.failures.pop(name, None)
            if error is not None:
                self.failed = error if error.txn_requires_abort() else None
                raise KafkaException(error)
            yield

    def transaction(self) -> Transaction:
        if self.failed is not None:
            raise KafkaException(self.failed)
        if self.cluster.epochs[self.identity] != self.epoch:
            raise KafkaException(KafkaError(KafkaError._FENCED, fatal=True))
        return self.cluster.open.setdefault(self.identity, Transaction())

    def init_transactions(self, timeout: float) -> None:
        with self.called("init"):
            assert self.config["transaction.timeout.ms"] > 0
            self.cluster.end(self.identity, "aborted")
            self.epoch = self.cluster.epochs[self.identity] = (
                self.cluster.epochs.get(self.identity, -1) + 1
            )

    def begin_transaction(self) -> None:
        with self.called("begin"):
            self.transaction()

    def produce(self, topic: str, value: bytes | None, key: bytes) -> None:
        with self.called("produce"):
            if self.failed is not None:
                raise KafkaException(KafkaError(KafkaError._STATE))
            record = Record(key, value, self.transaction())
            self.cluster.topics[topic][zlib.crc32(key) % PARTITIONS].append(record)

    def poll(self, timeout: float) -> int:
        return 0

    def send_offsets_to_transaction(self, places: Any, group: str, timeout: float) -> None:
        with self.called("send_offsets"):
            for each in places:
                place = group, each.topic, each.partition
                self.transaction().offsets[place] = each.offset, each.metadata

    def commit_transaction(self, timeout: float) -> None:
        with self.called("commit"):
            self.transaction()
            self.cluster.end(self.identity, "committed")

    def abort_transaction(self, timeout: float) -> None:
        with self.called("abort"):
            self.failed = None
            self.transaction()
            self.cluster.end(self.identity, "aborted")


class ModelGroup(_Client):
    def consumer_group_metadata(self) -> str:
        return self.config["group.id"]

    def committed(self, places: Sequence[Any], timeout: float) -> list[Any]:
        with self.called("committed"):
            found = []
            for each in places:
                place = self.config["group.id"], each.topic, each.partition
                offset, metadata = self.cluster.offsets.get(place, (-1001, None))
                found.append(SimpleNamespace(error=None, offset=offset, metadata=metadata))
            return found
        raise AssertionError

    def get_watermark_offsets(self, place: Any, timeout: float) -> tuple[int, int]:
        return 0, len(self.cluster.topics[place.topic][place.partition])

    def close(self) -> None:
        pass
