"""Topics of Kafka: events in them become changes of a table, and changes of a table events.

`read` names a topic and a table, and gives a `TopicSource`, which brings what is in the topic. It
reads by offsets of its own, without a consumer group: each commit has them as a property, so that
rows and offsets move together, and what is killed goes on behind what it committed. Events are
decoded as `pkray.cdc` decodes those of files. A commit names the topic too, by its id and that of
its cluster: one that was made anew under the name is refused, while it is read as well. Partitions
that are added are read from their beginning.

`write` gives a `TopicSink`, which writes a table's changes to a topic. ``json_texts`` writes
values, ``change_events`` makes messages of changes, and ``topic_transactions`` sends them: a
snapshot of the table is a transaction of Kafka's, and the *place*, which snapshot is next, is in it
as the offset of a consumer group. Places and messages are committed together, or none of them, so
that what is killed goes on behind what it committed, and who reads committed messages alone gets
each change once. A group keeps an offset for a week by default (``offsets.retention.minutes``): a
writer that runs writes it again each day. A place names the table by its identity and the snapshot
before by its mark: a table made anew under its name, or rolled back, is refused.

What reading does not do:

- Events of several tables in one topic are not told apart, and one topic is read by one process; a
  newer one takes over.
- Where brokers tell no ids of topics, as before Kafka 2.8, a topic made anew on the same cluster is
  told apart where it has fewer partitions, or has not reached the offset that is next.
- Order is that of a partition: events of one key are to be in one, as connectors write them.
- There is no client of a schema registry: Avro is read by the schemas given.
- Where another engine has committed since, and the newest commit with offsets has expired, the
  table has none, and ``begin`` says what to do; where the broker has deleted what is next, reading
  ends with an error.

What writing does not do:

- A snapshot is one transaction, which brokers allow 15 minutes by default
  (``transaction.max.timeout.ms``): more rows than can be sent meanwhile are not written. Of a
  writer that was killed the transaction stays open until another one takes over, or the time is
  over; readers of committed messages wait as long for what comes after it.
- Who reads uncommitted messages too gets the changes of a transaction that was given up once more:
  ``source.snapshot_id`` and ``source.sequence`` are the same then.
- Partitions that are added to the topic take keys from others: the order of a key's changes is that
  of its partition, and is not kept across the two.
- Overwrites are left out as `Table.stream` leaves them out. Columns that are added while a writer
  runs are written from its next run on.
- Nothing is deleted from a topic where the table is written anew.
"""

from typing import TYPE_CHECKING

from pkray.lazily import opened_lazily

if TYPE_CHECKING:
    from pkray.kafka.topic_sink import TopicSink, write
    from pkray.kafka.topic_source import PLACE, TopicSource, read

__all__ = ["PLACE", "TopicSink", "TopicSource", "read", "write"]

__getattr__, __dir__ = opened_lazily(
    __name__,
    {
        "PLACE": "topic_source",
        "TopicSink": "topic_sink",
        "TopicSource": "topic_source",
        "read": "topic_source",
        "write": "topic_sink",
    },
)
