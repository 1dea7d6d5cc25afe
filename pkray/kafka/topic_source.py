"""Reads a topic into a table, with offsets in the table's commits."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from pkray.cdc.avro.schemas import AvroSchemas, Given
from pkray.cdc.bad_records import BadRecords
from pkray.cdc.decoder import (
    BadRecord,
    ChangeFormat,
    Decoder,
    NewColumnsPolicy,
    Records,
    check_word,
)
from pkray.cdc.places import as_properties, newest_place
from pkray.cdc.readings import Handling
from pkray.cdc.row_changes import ROW_KIND
from pkray.cdc.upserts import Upsert
from pkray.closing import Closeable
from pkray.errors import ChangeSourceError, InputError
from pkray.extras import require_extra
from pkray.kafka.topic_identity import TopicAdmin, TopicIdentity
from pkray.rows.input import Missing
from pkray.service.client.writer import TableWriter
from pkray.storage.secrets import hide, reveal
from pkray.table.table import Table

Begin: TypeAlias = Literal["earliest", "latest"]
"""Says where reading begins where the table has no offsets."""

PLACE = "pkray.kafka.offsets"
"""The property of a snapshot that says which offsets of a topic are next, as JSON."""
_TOPIC = "pkray.kafka.topic"
"""The property that says which topic it is, as JSON."""
_MESSAGES = 10_000
"""Messages taken at a time."""
_WAIT = 0.25
"""Seconds for which messages are awaited before it is looked whether to stop."""
_ANSWER = 30.0
"""Seconds for a broker's answer, and those without one after which reading ends."""
_log = logging.getLogger(__name__)


def read(
    table: Table,
    topic: str,
    *,
    servers: str,
    format: str,
    config: Mapping[str, str] | None = None,
    begin: Begin | None = None,
    metadata: Mapping[str, str] | None = None,
    decimal_handling_mode: str | None = None,
    time_precision_mode: str | None = None,
    binary_handling_mode: str | None = None,
    avro_schema: Given | None = None,
    new_columns: NewColumnsPolicy = "refuse",
    missing: Missing = "error",
    errors: Table | None = None,
    commit_interval: float = 5.0,
) -> TopicSource:
    """Name a topic whose events are to be a table's changes.

    Args:
        servers: brokers, as ``host:port,…``.
        format: of the messages' values, as `pkray.cdc.decode` takes it; so are the arguments that
            say how events are written.
        config: further ones of librdkafka, such as ``sasl.password``; their values are not shown.
        begin: where the table has no offsets of the topic: ``earliest`` or ``latest``. Default:
            the earliest, into a table that has no rows.
        errors: a table that takes bad records, as of `pkray.cdc.upsert`. Their place is the offset.
        commit_interval: seconds between commits.

    Raises:
        MissingExtraError: confluent-kafka is not installed.
        InputError, OptionError: an argument says nothing that can be.
    """
    require_extra("kafka", "confluent_kafka", "pkray.kafka")
    if begin is not None:
        check_word("begin", begin, Begin)
    if not commit_interval > 0:
        raise InputError(f"commit_interval = {commit_interval!r}: give seconds, more than 0")
    load = Upsert(
        table,
        ChangeFormat.named(format),
        metadata,
        Handling(decimal_handling_mode, time_precision_mode, binary_handling_mode),
        new_columns,
        missing,
        f"pkray.kafka.{topic}",
        None,
        errors,
        AvroSchemas.given(avro_schema),
    )
    load.target()  # metadata that names no column is refused here
    hidden = hide(dict(config or {}))
    return TopicSource(load, topic, servers, hidden, begin, commit_interval)


@dataclass(repr=False)
class TopicSource:
    """Brings what is in a topic.

    Attributes:
        rows: changes that the last run wrote.
        bad: records that it left out.
    """

    load: Upsert
    topic: str
    servers: str
    config: Mapping[str, Any]
    begin: Begin | None
    commit_interval: float
    rows: int = 0
    bad: int = 0
    _stopped: threading.Event = field(default_factory=threading.Event)

    def __repr__(self) -> str:
        return f"TopicSource({self.load.table.name!r}, {self.topic!r})"

    def stop(self) -> None:
        """Have `run` end, from any thread; what it has read is committed."""
        self._stopped.set()

    def run(self, *, once: bool = False) -> int:
        """Bring events until `stop`.

        Args:
            once: end when all has come that was there when this began.

        Returns:
            How many changes were written.

        Raises:
            ChangeSourceError: no broker answers, there is no such topic, it is another one than it
                was, or has not any more what is next.
            ChangeRecordError, InputError: an event that does not fit the table.
        """
        self._stopped.clear()
        self.rows = self.bad = 0
        with _Topic(self) as topic:
            topic.follow(self._stopped, once)
        return self.rows

    def offsets(self) -> dict[int, int]:
        """Give the offsets that are next, by partition, as the table has them.

        Raises:
            ChangeSourceError: the table has rows and no offsets, and ``begin`` does not say more.
        """
        return self.place()[0]

    def place(self) -> tuple[dict[int, int], TopicIdentity]:
        """Give the offsets as `offsets` does, and the topic that they are of."""
        table = self.load.table
        found = newest_place(table, str(self.load.commit_user), PLACE)
        if found is not None:
            offsets = {int(number): offset for number, offset in json.loads(found[PLACE]).items()}
            return offsets, TopicIdentity.from_text(found.get(_TOPIC))
        if self.begin is None and table.latest_snapshot() is not None:
            raise ChangeSourceError(
                f"{table.name} has rows, and no offsets of topic {self.topic!r}: say begin = "
                "'earliest' or 'latest'",
                table=table.name,
                topic=self.topic,
            )
        return {}, TopicIdentity()


class _Topic(Closeable):
    """One run over a topic's partitions.

    Attributes:
        next: the offset that is next, by partition.
    """

    def __init__(self, source: TopicSource) -> None:
        from confluent_kafka import Consumer, KafkaError

        self._codes = KafkaError
        self._source = source
        self._load = source.load
        known, self._identity = source.place()
        self._failure: str | None = None
        self._config = {
            **reveal(source.config),
            "bootstrap.servers": source.servers,
            "error_cb": self._note,
        }
        self._admin: TopicAdmin | None = None
        self._consumer = Consumer(
            {
                **self._config,
                "group.id": "pkray",  # librdkafka asks for one; none is joined
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
            },
            logger=_log,
        )
        try:
            self.next: dict[int, int] = dict(known)
            self._ends: dict[int, int] = {}
            for number in self._partitions():
                low, high = self._bounds(number)
                begin = high if source.begin == "latest" and not known else low
                self.next[number] = known.get(number, begin)
                self._ends[number] = high
                if not low <= self.next[number] <= high:
                    raise ChangeSourceError(
                        f"topic {source.topic!r} partition {number} has offsets {low} to {high}, "
                        f"and {self.next[number]} is next: it was deleted, or the topic made anew. "
                        "Make the table anew",
                        topic=source.topic,
                    )
            self._assign()
        except BaseException:
            self._consumer.close()
            raise

    def close(self) -> None:
        self._consumer.close()

    def follow(self, stopped: threading.Event, once: bool) -> None:
        """Read, and commit now and then; at the end, too."""
        source, load = self._source, self._load
        with ExitStack() as opened:
            writer = opened.enter_context(load.writer())
            bad = opened.enter_context(BadRecords(load.errors, load.commit_user, None))
            decoder = load.decoder(bad.add)
            on_bad = decoder.on_bad
            committed = self._place()
            looked = heard = time.monotonic()
            while True:
                found = self._consumer.consume(_MESSAGES, _WAIT)
                heard = self._check_heard(found, heard)
                before = self._place()
                messages = self._taken(found)
                rows = self._decoded(decoder, messages, on_bad)
                if decoder.target.columns.keys() - load.table.schema.names:
                    self._partitions()
                    self._commit(writer, bad, before)
                    writer.close()
                    load.grow(decoder.target)
                    writer = opened.enter_context(load.writer())
                for part in rows:
                    writer.write(part, ROW_KIND)
                    source.rows += part.num_rows
                bad.write()
                source.bad = bad.count
                is_over = stopped.is_set() or (once and self._is_level())
                if is_over or time.monotonic() - looked >= source.commit_interval:
                    self._look()
                    if self._place() != committed:
                        self._commit(writer, bad, self._place())
                    committed, looked = self._place(), time.monotonic()
                if is_over:
                    return

    def _look(self) -> None:
        """Look whether it is the same topic, and take in partitions that were added: from their
        beginning, as they came after all that was read.

        What is committed next was read before: a topic made anew since then has none of it.

        Raises:
            ChangeSourceError: it is another topic.
        """
        added = [number for number in self._partitions() if number not in self.next]
        for number in added:
            self.next[number], _ = self._bounds(number)
            self._ends[number] = self.next[number]
        if added:
            self._assign()

    def _assign(self) -> None:
        from confluent_kafka import TopicPartition

        topic = self._source.topic
        self._consumer.assign([TopicPartition(topic, n, offset) for n, offset in self.next.items()])

    def _commit(self, writer: TableWriter, bad: BadRecords, place: str) -> None:
        bad.commit()
        user = str(self._load.commit_user)
        said = {PLACE: place, _TOPIC: self._identity.text}
        writer.commit(properties=as_properties(said, user))

    def _place(self) -> str:
        return json.dumps({str(number): offset for number, offset in self.next.items()})

    def _is_level(self) -> bool:
        return all(self.next[number] >= end for number, end in self._ends.items())

    def _taken(self, found: Sequence[Any]) -> dict[int, list[Any]]:
        """Sort messages by partition, and note the offsets that are next.

        Raises:
            ChangeSourceError: the broker says that something is wrong.
        """
        messages: dict[int, list[Any]] = {}
        for each in found:
            number, error = each.partition(), each.error()
            if error is None:
                messages.setdefault(number, []).append(each)
                self.next[number] = each.offset() + 1
            elif error.code() == self._codes._PARTITION_EOF:
                self.next[number] = max(self.next[number], each.offset())
            else:
                raise ChangeSourceError(
                    f"topic {self._source.topic!r} partition {number}: {error.str()}",
                    topic=self._source.topic,
                )
        return messages

    def _decoded(
        self,
        decoder: Decoder,
        messages: Mapping[int, list[Any]],
        on_bad: Callable[[BadRecord], None],
    ) -> list[pa.Table]:
        found = []
        for number, some in messages.items():
            texts = pa.array([each.value() for each in some], pa.large_binary())
            offsets = np.array([each.offset() for each in some], np.int64)
            name = f"topic {self._source.topic!r} partition {number}"
            decoder.on_bad = _Placed(offsets, on_bad)
            records = Records(texts, name, 0, unit="message")
            found.append(self._load.complete(decoder.decode(records), records))
        return [_widened(rows, decoder) for rows in found if rows.num_rows]

    def _check_heard(self, found: Sequence[Any], heard: float) -> float:
        """Say when the broker was heard of last.

        Raises:
            ChangeSourceError: it was long ago.
        """
        if found:
            self._failure = None
            return time.monotonic()
        if self._failure is not None and time.monotonic() - heard > _ANSWER:
            raise ChangeSourceError(f"no broker at {self._source.servers} answers: {self._failure}")
        return heard if self._failure is not None else time.monotonic()

    def _note(self, error: Any) -> None:
        """Take what librdkafka says of brokers, which it tries again by itself."""
        self._failure = error.str()

    def _partitions(self) -> list[int]:
        """List the topic's partitions, and see that it is the same topic.

        Raises:
            ChangeSourceError: it is another one, or there is none.
        """
        topic, table = self._source.topic, self._load.table.name
        with self._asked():
            cluster = self._consumer.list_topics(topic, timeout=_ANSWER)
            topic_id = self._topic_id(cluster)
        found = cluster.topics[topic]
        if found.error is not None or not found.partitions:
            said = "it has no partitions" if found.error is None else found.error.str()
            raise ChangeSourceError(f"topic {topic!r}: {said}", topic=topic)
        identity = TopicIdentity(cluster.cluster_id or None, topic_id)
        self._identity = identity.known_with(self._identity, topic, table)
        gone = sorted(self.next.keys() - found.partitions.keys())
        if gone:
            raise ChangeSourceError(
                f"topic {topic!r} has no partition {gone[0]} any more, which {table} was read "
                "from: it was made anew. Make the table anew",
                topic=topic,
            )
        return sorted(found.partitions)

    def _topic_id(self, cluster: Any) -> str | None:
        """Ask for the topic's id; None: there is no such topic, or nobody who tells ids."""
        topic = self._source.topic
        is_there = cluster.topics[topic].error is None
        if not is_there or cluster.controller_id not in cluster.brokers:
            return None
        if self._admin is None:
            self._admin = TopicAdmin(self._config, _ANSWER)
        return self._admin.topic_id(topic)

    def _bounds(self, number: int) -> tuple[int, int]:
        from confluent_kafka import TopicPartition

        with self._asked():
            place = TopicPartition(self._source.topic, number)
            low, high = self._consumer.get_watermark_offsets(place, timeout=_ANSWER)
            return low, high

    @contextmanager
    def _asked(self) -> Iterator[None]:
        from confluent_kafka import KafkaException

        try:
            yield
        except KafkaException as error:
            said = error.args[0].str()
            raise ChangeSourceError(
                f"no broker at {self._source.servers} tells of topic {self._source.topic!r}: "
                f"{self._failure or said}",
                topic=self._source.topic,
            ) from None


@dataclass(frozen=True)
class _Placed:
    """Names a bad record by its offset."""

    offsets: Any
    on_bad: Any

    def __call__(self, bad: BadRecord) -> None:
        self.on_bad(replace(bad, number=int(self.offsets[bad.number]), unit="offset"))


def _widened(rows: pa.Table, decoder: Decoder) -> pa.Table:
    """Give rows that were decoded before a column was found the column."""
    for name, kind in decoder.target.columns.items():
        if name not in rows.column_names:
            rows = rows.append_column(name, pa.nulls(rows.num_rows, kind.arrow))
    return rows
