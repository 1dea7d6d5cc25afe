"""Topics of Kafka: events in them become changes of a table.

`read` names a topic and a table, and gives a `TopicSource`, which brings what is in the topic. It
reads by offsets of its own, without a consumer group: each commit has them as a property, so that
rows and offsets move together, and what is killed goes on behind what it committed. Events are
decoded as `pkray.cdc` decodes those of files. A commit names the topic too, by its id and that of
its cluster: one that was made anew under the name is refused, while it is read as well. Partitions
that are added are read from their beginning.

What it does not do:

- Events of several tables in one topic are not told apart, and one topic is read by one process; a
  newer one takes over.
- Where brokers tell no ids of topics, as before Kafka 2.8, a topic made anew on the same cluster is
  told apart where it has fewer partitions, or has not reached the offset that is next.
- Order is that of a partition: events of one key are to be in one, as connectors write them.
- There is no client of a schema registry: Avro is read by the schemas given.
- Nothing writes a table's changes to a topic.
- Where another engine has committed since, and the newest commit with offsets has expired, the
  table has none, and ``begin`` says what to do; where the broker has deleted what is next, reading
  ends with an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pkray.lazily import opened_lazily

if TYPE_CHECKING:
    from pkray.kafka.topic_source import PLACE, TopicSource, read

__all__ = ["PLACE", "TopicSource", "read"]

__getattr__, __dir__ = opened_lazily(
    __name__, {"PLACE": "topic_source", "TopicSource": "topic_source", "read": "topic_source"}
)
