"""Writes to a topic by Kafka's transactions, each of which also moves the writer's place."""

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Self

from pkray.closing import Closeable
from pkray.errors import ChangeSinkError, CommitFencedError, InputError
from pkray.kafka.change_events import Messages

_PARTITION = 0
"""That under which the group's offset is kept: each topic has it."""
_ANSWER = 30.0
"""Seconds for a broker's answer."""
_TIMEOUT_MILLIS = 900_000
"""Limits a transaction to the most that brokers allow by default: a snapshot may be large."""
_QUEUED_KILOBYTES = 64 << 10
"""Bounds the messages that no broker has yet: enough to keep several of them busy."""
_QUEUE_WAIT = 0.1
"""Seconds for which it is waited where librdkafka's queue is full."""
_ALLOW = "say another one in config, up to the brokers' transaction.max.timeout.ms"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Place:
    """Says how far a table was written to a topic.

    Attributes:
        next_snapshot: the first one whose changes are not in the topic.
        table: the table's identity.
        mark: of the snapshot before; None: it had expired.
        is_loading: what the table held is still to be written, and none of it was.
    """

    next_snapshot: int
    table: str
    mark: str | None = None
    is_loading: bool = False

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read what `text` wrote.

        Raises:
            ValueError: it did not write it.
        """
        try:
            return cls(**json.loads(text))
        except TypeError as error:
            raise ValueError(str(error)) from None

    @property
    def text(self) -> str:
        """Write it as JSON."""
        return json.dumps(asdict(self))


class TopicTransactions(Closeable):
    """The transactions of an identity, of which one writer at a time has any.

    The place is the offset of a consumer group of that name, and its metadata.

    Args:
        config: of librdkafka, with its servers.
        identity: the transactional id, and the group.
    """

    def __init__(self, config: Mapping[str, Any], topic: str, identity: str) -> None:
        from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

        self._codes = KafkaError
        self._fences = (
            KafkaError._FENCED,
            KafkaError.PRODUCER_FENCED,
            KafkaError.INVALID_PRODUCER_EPOCH,
        )
        self._is_fenced = False
        self._topic = topic
        self._identity = identity
        self._servers = config["bootstrap.servers"]
        self._partition = TopicPartition
        self._failure: str | None = None
        self._is_open = False
        self._begun: float | None = None
        self._timeout_millis = _timeout_millis(config)
        self._producer = Producer(
            {
                "queue.buffering.max.kbytes": _QUEUED_KILOBYTES,
                **config,
                "transaction.timeout.ms": self._timeout_millis,
                "transactional.id": identity,
                "partitioner": "murmur2",  # as Java's clients do
                "error_cb": self._note,
            },
            logger=_log,
        )
        self._group = Consumer(
            {
                **config,
                "group.id": identity,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "error_cb": self._note,
            },
            logger=_log,
        )

    def take_over(self) -> None:
        """End who wrote before, and what they have not committed.

        Raises:
            ChangeSinkError: no broker answers, or there is no such topic.
        """
        with self._answered():
            self._check_topic()
            self._producer.init_transactions(_ANSWER)

    def close(self) -> None:
        """Give up what is not committed."""
        self.abort()
        self._group.close()

    def place(self) -> Place | None:
        """Read how far the topic was written; None: nothing says so.

        Raises:
            ChangeSinkError: no broker answers, or something else keeps its place there.
        """
        with self._answered():
            asked = [self._partition(self._topic, _PARTITION)]
            [found] = self._group.committed(asked, timeout=_ANSWER)
            if found.error is not None:
                raise self._failed(found.error)
        if found.offset < 0:
            return None
        try:
            return Place.from_text(found.metadata or "")
        except ValueError:
            raise ChangeSinkError(
                f"group {self._identity!r} has an offset of topic {self._topic!r} that is no place "
                f"of a table: {found.metadata!r}. Delete the group, or write under another name",
                topic=self._topic,
            ) from None

    def has_records(self) -> bool:
        """Whether there is, or was, a record in the topic."""
        with self._answered():
            partitions = self._producer.list_topics(self._topic, timeout=_ANSWER)
            ends = [
                self._group.get_watermark_offsets(
                    self._partition(self._topic, number), timeout=_ANSWER
                )[1]
                for number in partitions.topics[self._topic].partitions
            ]
        return any(ends)

    def send(self, messages: Messages) -> None:
        """Write messages, in a transaction that begins with the first."""
        if not messages[0]:
            return
        with self._answered():
            self._begin()
            for key, value in zip(*messages, strict=True):
                while True:
                    try:
                        self._producer.produce(self._topic, value, key)
                        break
                    except BufferError:  # librdkafka gives messages up that no broker takes
                        self._producer.poll(_QUEUE_WAIT)
            self._producer.poll(0)

    def commit(self, place: Place) -> None:
        """Commit what was sent, and the place.

        Raises:
            CommitFencedError: another writer has taken over.
            ChangeSinkError: it is not committed, or not known to be: whoever opens next finds out.
        """
        from confluent_kafka import KafkaException

        with self._answered():
            self._begin()
            offset = self._partition(self._topic, _PARTITION, place.next_snapshot, place.text)
            group = self._group.consumer_group_metadata()
            self._within_limit(
                lambda: self._producer.send_offsets_to_transaction([offset], group, _ANSWER)
            )
            self._is_open = False  # whether it is, the broker alone knows from here on
            try:
                self._producer.commit_transaction(self._timeout_millis / 1000)
            except KafkaException as error:
                self._is_open = error.args[0].txn_requires_abort()
                raise
            self._begun = None

    def abort(self) -> None:
        """Have what was sent and not committed be read by nobody."""
        from confluent_kafka import KafkaException

        if self._is_open:
            self._is_open = False
            with suppress(KafkaException):  # whoever opens next aborts it, or the broker in time
                self._producer.abort_transaction(_ANSWER)

    def _within_limit(self, call: Callable[[], object]) -> None:
        """Make a call to which librdkafka sets no end where brokers listen and answer nothing."""
        from confluent_kafka import KafkaError, KafkaException

        ended: SimpleQueue[BaseException | None] = SimpleQueue()

        def work() -> None:
            try:
                call()
            except BaseException as error:
                ended.put(error)
            else:
                ended.put(None)

        Thread(target=work, name="pkray-topic-call", daemon=True).start()
        try:
            error = ended.get(timeout=2 * _ANSWER)
        except Empty:
            said = f"no answer within {2 * _ANSWER:g} s"
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, said)) from None
        if error is not None:
            raise error

    def _begin(self) -> None:
        if not self._is_open:
            self._producer.begin_transaction()
            self._begun, self._is_open = time.monotonic(), True

    def _check_topic(self) -> None:
        found = self._producer.list_topics(self._topic, timeout=_ANSWER).topics[self._topic]
        if found.error is not None or not found.partitions:
            said = "it has no partitions" if found.error is None else found.error.str()
            raise ChangeSinkError(
                f"topic {self._topic!r}: {said}. Make it first", topic=self._topic
            )

    def _note(self, error: Any) -> None:
        """Take what librdkafka says: of brokers, which it tries again by itself, or its end."""
        self._failure = error.str()
        self._is_fenced |= error.code() in self._fences

    @contextmanager
    def _answered(self) -> Iterator[None]:
        from confluent_kafka import KafkaException

        try:
            yield
        except KafkaException as error:
            raise self._failed(error.args[0]) from None

    def _failed(self, error: Any) -> ChangeSinkError | CommitFencedError:
        codes = self._codes
        if error.code() == codes._STATE:
            error = self._cause(error)
        if error.code() == codes._FATAL:
            self._producer.poll(0)  # calls `_note` with the cause
        is_overdue = self._is_overdue()
        if not is_overdue and (self._is_fenced or error.code() in self._fences):
            return CommitFencedError(
                f"another writer of {self._identity!r} has taken over topic {self._topic!r}: end "
                "one of them, or give it another name",
                topic=self._topic,
            )
        said = error.str()
        if error.code() in (codes._TIMED_OUT, codes._TRANSPORT, codes._ALL_BROKERS_DOWN):
            said = self._failure or said
        limit = f"transaction.timeout.ms = {self._timeout_millis}"
        if is_overdue:
            said = f"{said}. The snapshot's transaction was open for longer than {limit}: {_ALLOW}"
        elif error.code() == codes.INVALID_TRANSACTION_TIMEOUT:
            said = f"{said}. They allow less than {limit}: {_ALLOW}"
        return ChangeSinkError(
            f"brokers at {self._servers} do not take what is written to topic {self._topic!r}: "
            f"{said}. What is not committed is written again by the next run",
            topic=self._topic,
        )

    def _is_overdue(self) -> bool:
        """Whether brokers have given the transaction up: they fence its writer as by another."""
        seconds = self._timeout_millis / 1000
        return self._begun is not None and time.monotonic() - self._begun >= seconds

    def _cause(self, error: Any) -> Any:
        """Find why nothing more is taken, which `produce` does not say."""
        from confluent_kafka import KafkaException

        try:
            self._producer.begin_transaction()
        except KafkaException as cause:
            return cause.args[0]
        return error


def _timeout_millis(config: Mapping[str, Any]) -> int:
    said = str(config.get("transaction.timeout.ms", _TIMEOUT_MILLIS))
    if not said.isdecimal():
        raise InputError(f"config transaction.timeout.ms = {said!r}: give milliseconds")
    return int(said)
