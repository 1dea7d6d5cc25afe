"""Writes a table's changes to a topic, a snapshot a transaction."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from pkray import errors
from pkray.arguments.facade import Label, Seconds, SnapshotId, checked
from pkray.cdc.decoder import check_word
from pkray.changelog.change_history import ChangeHistory
from pkray.changelog.changes import Changes
from pkray.changelog.planner import ChangePlanner
from pkray.changelog.progress import Progress
from pkray.changelog.splits import ChangeSplit
from pkray.changelog.start import Position, Start, StartMode
from pkray.extras import require_extra
from pkray.format.snapshot import Snapshot
from pkray.kafka.change_events import ChangeEvents, EventSource, WrittenFormat
from pkray.kafka.json_texts import json_texts
from pkray.kafka.topic_transactions import Place, TopicTransactions
from pkray.metadata.schemas import TableIdentity
from pkray.metadata.snapshot_marks import SnapshotMarks, mark_of
from pkray.scan.moment import Timestamp
from pkray.storage.branch_store import main_and_history
from pkray.storage.secrets import hide, reveal
from pkray.table.table import Table

_RENEW = 86_400.0
"""Seconds after which a place that did not move is written again: brokers forget it in 7 days."""


@checked
def write(
    table: Table,
    topic: str,
    *,
    servers: str,
    format: WrittenFormat,
    config: Mapping[str, str] | None = None,
    mode: StartMode | None = None,
    from_snapshot: SnapshotId | None = None,
    from_timestamp: Timestamp | None = None,
    normalize: bool = False,
    consumer_id: Label | None = None,
    name: Label = "pkray",
    poll_interval: Seconds = 1.0,
) -> TopicSink:
    """Name a topic that a table's changes are to be written to.

    Args:
        servers: brokers, as ``host:port,…``.
        format: ``debezium-json``: events with the row before and after, and where they come from;
            ``upsert-json``: the row of each key, and no value where it is gone, for topics that
            are compacted. Keys are the primary key as a JSON object.
        config: further ones of librdkafka, such as ``sasl.password``; their values are not shown.
        mode, from_snapshot, from_timestamp: where the topic does not say how far the table was
            written: as of `Table.stream`. Default: the whole table, then its changes, to a topic
            that had no records.
        normalize: as of `Table.stream`: rows before and after, whatever the changelog producer.
        consumer_id: a consumer of the table that keeps what is not written yet from expiring.
        name: tells writers of one table to one topic apart; a newer one of a name takes over.
        poll_interval: seconds between two looks for new snapshots.

    Raises:
        MissingExtraError: confluent-kafka is not installed.
        InputError, OptionError: an argument says nothing that can be.
        UnsupportedError: the table's changes make no stream, are of keys that move from partition
            to partition, or have values that are not written.
    """
    require_extra("kafka", "confluent_kafka", "pkray.kafka")
    check_word("format", format, WrittenFormat)
    if not poll_interval > 0:
        raise errors.InputError(f"poll_interval = {poll_interval!r}: give seconds, more than 0")
    if table.schema.crosses_partitions:
        raise errors.UnsupportedError(
            f"keys of table {table.name} move from partition to partition, and the changes of one "
            "come in any order: have its primary key take in the partition columns",
            table=table.name,
        )
    for column in table.arrow_schema:
        json_texts(pa.array([], column.type))  # raises for types that are not written
    start = Start.from_arguments(table.schema.core, mode, from_snapshot, from_timestamp)
    is_said = (mode, from_snapshot, from_timestamp) != (None, None, None)
    planner, _ = Changes(table.location, table.location.open(), table.schema).planner(
        normalize, None, None
    )
    progress = None
    if consumer_id is not None:
        _, history = main_and_history(table.location.open())
        progress = Progress(history, consumer_id, looks_back=planner.looks_back)
    hidden = hide({**(config or {}), "bootstrap.servers": servers})
    identity = f"pkray.{topic}.{table.name}.{name}"
    return TopicSink(
        table, topic, identity, format, hidden, start, is_said, planner, progress, poll_interval
    )


@dataclass(repr=False)
class TopicSink:
    """Writes what becomes of a table to a topic.

    Attributes:
        identity: the transactional id, and the consumer group that has the place.
        rows: messages that the last run committed.
    """

    table: Table
    topic: str
    identity: str
    format: WrittenFormat
    config: Mapping[str, Any]
    start: Start
    is_start_said: bool
    planner: ChangePlanner
    progress: Progress | None
    poll_interval: float
    rows: int = 0
    _stopped: threading.Event = field(default_factory=threading.Event)

    def __repr__(self) -> str:
        return f"TopicSink({self.table.name!r}, {self.topic!r})"

    def stop(self) -> None:
        """Have `run` end, from any thread; of a snapshot that is not done nothing is committed."""
        self._stopped.set()

    def run(self, *, once: bool = False) -> int:
        """Write changes until `stop`.

        Args:
            once: end when all is written that was there when this began.

        Returns:
            How many messages were committed.

        Raises:
            ChangeSinkError: no broker answers, there is no such topic, or it has records and
                nothing says how far the table was written.
            CommitFencedError: another writer of the name has taken over.
            SnapshotNotFoundError: what is next has expired, or the table was rolled back.
            TableReplacedError, TableNotFoundError: it was dropped.
        """
        self._stopped.clear()
        self.rows = 0
        with self._transactions() as transactions:
            transactions.take_over()
            _Writing(self, transactions, self._stopped).follow(once)
        return self.rows

    def next_snapshot(self) -> int | None:
        """Give the first snapshot whose changes are not in the topic; None: it says of none.

        Raises:
            ChangeSinkError: no broker answers.
        """
        with self._transactions() as transactions:
            place = transactions.place()
        return None if place is None or place.is_loading else place.next_snapshot

    def _transactions(self) -> TopicTransactions:
        return TopicTransactions(reveal(self.config), self.topic, self.identity)


class _Writing:
    """One run over a table's snapshots."""

    def __init__(
        self, sink: TopicSink, transactions: TopicTransactions, stopped: threading.Event
    ) -> None:
        table = sink.table
        self._sink = sink
        self._transactions = transactions
        self._stopped = stopped
        self._store = table.location.open()
        self._history = ChangeHistory(self._store)
        self._marks = SnapshotMarks(self._store)
        self._identity = TableIdentity.at(table.location)
        self._table_id = self._marks.at(0) or ""
        self._committed = time.monotonic()
        self._sent = 0

    def follow(self, once: bool) -> None:
        """Write what there is, then what comes."""
        self._identity.check_same_table()
        goal = self._marks.latest_id()
        place = self._begin(once)
        while place is not None:
            latest = goal if once else self._marks.latest_id()
            place = self._write_changes(place, latest)
            if once or place is None or self._stopped.wait(self._sink.poll_interval):
                return
            if time.monotonic() - self._committed >= _RENEW:
                self._commit(place)

    def _begin(self, once: bool) -> Place | None:
        """Find how far the topic was written; write what the table holds where nothing was.

        Returns:
            None: it was stopped before.
        """
        sink = self._sink
        place = self._transactions.place()
        if place is not None and not place.is_loading:
            self._note(place)
            return place
        if place is None and not sink.is_start_said and self._transactions.has_records():
            raise errors.ChangeSinkError(
                f"topic {sink.topic!r} has records, and group {sink.identity!r} does not say how "
                f"far {sink.table.name} was written: say mode, or from_snapshot",
                topic=sink.topic,
                table=sink.table.name,
            )
        while (position := self._position()) is None:
            if once or self._stopped.wait(sink.poll_interval):
                return None
        content = position.content
        if content is None:
            mark = self._marks.at(position.next_id - 1)
        else:
            self._commit(Place(position.next_id, self._table_id, is_loading=True))
            splits = sink.planner.content(content, sink.table.location)
            if not self._send(splits, content, is_content=True):
                return None
            mark = mark_of(content)
        place = Place(position.next_id, self._table_id, mark)
        self._commit(place)
        return place

    def _position(self) -> Position | None:
        """Find where to begin, and keep that; None: there is nothing, or it has just expired."""
        position = self._sink.start.find(self._history)
        progress = self._sink.progress
        is_kept = position is None or progress is None or progress.begin(position)
        return position if is_kept else None

    def _write_changes(self, place: Place, latest: int) -> Place | None:
        """Write the changes of snapshots, each in a transaction that has the place behind it.

        Returns:
            The last place; None: it was stopped before.
        """
        if latest < place.next_snapshot:
            self._check(place)
        for number in range(place.next_snapshot, latest + 1):
            snapshot = self._history.find(number)
            self._check(place)  # it was found before: else a rollback between goes unseen
            if not self._send(self._sink.planner.changes(snapshot), snapshot, is_content=False):
                return None
            place = Place(number + 1, self._table_id, mark_of(snapshot))
            if self._sent or number == latest:
                self._commit(place)
        return place

    def _send(self, splits: Sequence[ChangeSplit], snapshot: Snapshot, *, is_content: bool) -> bool:
        """Send the rows of a snapshot; False, and nothing is committed: it was stopped before."""
        table = self._sink.table
        database, _, name = table.name.partition(".")
        source = EventSource(database, name, snapshot.id, snapshot.time_millis)
        events = ChangeEvents(
            self._sink.format, table.schema.names, table.primary_keys, source, is_content=is_content
        )
        for split in splits:
            for batch in split.read(self._store):
                if self._stopped.is_set():
                    self._transactions.abort()
                    return False
                for messages in events.messages(batch):
                    self._transactions.send(messages)
        self._transactions.send(events.rest())
        self._sent = events.count
        return True

    def _commit(self, place: Place) -> None:
        self._transactions.commit(place)
        self._committed = time.monotonic()
        self._sink.rows, self._sent = self._sink.rows + self._sent, 0
        self._note(place)

    def _note(self, place: Place) -> None:
        """Let the table's consumer go on, behind what is committed."""
        progress = self._sink.progress
        if progress is not None and not place.is_loading:
            progress.reached(place.next_snapshot)

    def _check(self, place: Place) -> None:
        """Check that the table is the one that was written, with the snapshots that were.

        Raises:
            TableReplacedError, TableNotFoundError, SnapshotNotFoundError: it is not.
        """
        table, topic = self._sink.table.name, self._sink.topic
        self._identity.check_same_table()
        if place.table != self._table_id:
            raise errors.TableReplacedError(
                f"topic {topic!r} was written from another table {table}, which was dropped: write "
                "this one to another topic, or under another name",
                table=table,
                topic=topic,
            )
        last = place.next_snapshot - 1
        mark, latest = self._marks.at(last), self._marks.latest_id()
        is_other = None not in (mark, place.mark) and mark != place.mark
        if is_other or latest < last:
            raise errors.SnapshotNotFoundError(
                f"table {table} was rolled back after its changes up to snapshot {last} were "
                f"written to topic {topic!r}: what is there does not hold any more; write to "
                "another topic, or under another name",
                table=table,
                topic=topic,
                snapshot_id=last,
                latest=latest,
            )
