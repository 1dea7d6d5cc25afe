"""Finds the partitions that are old enough to expire."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from pkray.expiration.partition_time import PartitionTime
from pkray.format.data_file import ManifestEntry
from pkray.format.partition import PartitionSpec
from pkray.schema.table_schema import TableSchema


def expired_partitions(
    schema: TableSchema, entries: Iterable[ManifestEntry], now: int
) -> list[bytes]:
    """Return the partitions that the table's options expire, oldest first.

    ``partition.expiration-strategy`` ``values-time`` goes by the time that a partition's values
    stand for, ``update-time`` by its newest file; ``partition.expiration-time`` is the age, and
    ``partition.expiration-max-num`` bounds how many go at once. Partitions whose values make no
    time stay.

    Args:
        entries: the live files.
        now: epoch milliseconds.
    """
    options = schema.core
    age = options.partition_expiration_time
    if age is None or not schema.partition_keys:
        return []
    updated: dict[bytes, int] = {}
    for entry in entries:
        made = entry.file.creation_time or 0
        updated[entry.partition] = max(made, updated.get(entry.partition, made))
    if options.partition_expiration_strategy == "update-time":
        times = updated
    else:
        times = _times(schema, updated)
    old = [partition for partition, when in times.items() if when < now - age]
    old.sort(key=lambda partition: (times[partition], partition))
    return old[: options.partition_expiration_max_num]


def _times(schema: TableSchema, partitions: Iterable[bytes]) -> dict[bytes, int]:
    options, spec = schema.core, PartitionSpec(schema)
    reader = PartitionTime(
        options.partition_timestamp_formatter, options.partition_timestamp_pattern
    )
    times: dict[bytes, int] = {}
    for partition in partitions:
        when = reader.parse(spec.to_dict(partition))
        if when is not None:
            times[partition] = _millis(when)
    return times


def _millis(when: datetime) -> int:
    return round(when.timestamp() * 1000)
