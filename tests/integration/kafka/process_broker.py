"""A broker of another make than librdkafka's, in a process of its own, which keeps transactions."""

import importlib.util
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import confluent_kafka
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.kafka.model_cluster import PARTITIONS, Killed
from tests.waiting import wait_until

_SECONDS = 60
QUIET = {"log_level": 0}


class ProcessBroker:
    """Runs on a port of its own, with its data in a folder that is gone with it.

    `installed` has writers that die at a call, as those of `ModelCluster`: their threads live on
    and send what librdkafka has of them, as those of a process do that was stopped for a while.

    Attributes:
        calls: those of writers since `kill_at`.
        zombies: the writers that died since then.
    """

    def __init__(self) -> None:
        spec = importlib.util.find_spec("noida_db")
        assert spec is not None
        assert spec.origin is not None
        program = Path(spec.origin).with_name("noida-db")
        program.chmod(0o755)
        self._folder = tempfile.TemporaryDirectory(prefix="pkray-broker-")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.servers = f"127.0.0.1:{free.getsockname()[1]}"
        words = [program, "start", "--only", "kafka", "--data-dir", self._folder.name]
        self._process = subprocess.Popen(
            [*words, "--kafka-port", self.servers.rpartition(":")[2]],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.admin = AdminClient({"bootstrap.servers": self.servers, **QUIET})
        wait_until(self._answers)
        self.kill_at(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(_SECONDS)
        self._folder.cleanup()

    def _answers(self) -> bool:
        with suppress(KafkaException):
            return bool(self.admin.list_topics(timeout=1).brokers)
        return False

    def stop(self) -> None:
        """Have it answer nobody."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Have it answer again."""
        os.kill(self._process.pid, signal.SIGCONT)

    def make(self, topic: str) -> None:
        """Make a topic."""
        self.admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(_SECONDS)

    def committed(
        self, topic: str, isolation: str = "read_committed"
    ) -> list[list[tuple[bytes, bytes | None]]]:
        """What readers of committed messages get of each partition."""
        reader = Consumer(
            {"bootstrap.servers": self.servers, "group.id": "test", "enable.partition.eof": True,
             "enable.auto.commit": False, "isolation.level": isolation, **QUIET}
        )  # fmt: skip
        reader.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        found: list[list[tuple[bytes, bytes | None]]] = [[] for _ in range(PARTITIONS)]
        ended: set[int] = set()

        def read() -> bool:
            for each in reader.consume(1000, 0.5):
                if each.error() is None:
                    found[each.partition()].append((each.key(), each.value()))
                elif each.error().code() == KafkaError._PARTITION_EOF:
                    ended.add(each.partition())
            return len(ended) == PARTITIONS

        wait_until(read)
        reader.close()
        return found

    def kill_at(self, number: int, is_after: bool = False) -> None:
        """Have a writer die before or after one of the calls to come; 0: at none."""
        self.calls: list[str] = []
        self._kills_at, self._is_after, self._is_dead = number, is_after, False
        self.zombies: list[Producer] = []

    def call(self, producer: Producer, name: str, work: Callable[[], Any]) -> Any:
        self.calls.append(name)
        if self._is_dead:
            raise Killed
        self._kills_at -= 1
        self._is_dead = self._kills_at == 0
        found = work() if not self._is_dead or self._is_after else None
        if self._is_dead:
            self.zombies.append(producer)
            raise Killed
        return found

    @contextmanager
    def installed(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(confluent_kafka, "Producer", _dying(self))
            yield


def _dying(broker: ProcessBroker) -> type[Producer]:
    """Make producers of which calls are counted, and one is the last."""

    def counted(name: str) -> Any:
        plain = getattr(Producer, name)

        def call(self: Producer, *arguments: Any, **named: Any) -> Any:
            return broker.call(self, name, lambda: plain(self, *arguments, **named))

        return call

    names = ("init_transactions", "begin_transaction", "produce", "send_offsets_to_transaction",
             "commit_transaction", "abort_transaction")  # fmt: skip
    return type("DyingProducer", (Producer,), {name: counted(name) for name in names})
