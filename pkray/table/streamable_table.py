"""A table as readers of its changes hold it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from pkray.arguments.facade import ColumnNames, Label, Name, Seconds, SnapshotId, checked_class
from pkray.changelog.between import BetweenMode
from pkray.changelog.start import StartMode
from pkray.changelog.stream import ChangeStream
from pkray.scan.snapshot_selector import Timestamp
from pkray.table.readable_table import ReadableTable


@checked_class
class StreamableTable(ReadableTable):
    """Reads of what changed: snapshot by snapshot, in sum, or as it comes."""

    def changelog(
        self,
        from_snapshot: SnapshotId | None = None,
        to_snapshot: SnapshotId | None = None,
        *,
        from_tag: Name | None = None,
        to_tag: Name | None = None,
        from_timestamp: Timestamp | None = None,
        to_timestamp: Timestamp | None = None,
        normalize: bool = False,
    ) -> pa.Table:
        """What changed, snapshot by snapshot.

        The producers ``lookup`` and ``full-compaction`` tell of changes in the COMPACT snapshot
        that found them, after the APPEND snapshot that brought the rows. Without a producer changes
        are the rows that writers added, merged by key within a commit; ``normalize`` finds what
        became of each row. Overwrites are left out, unless the table sets
        ``streaming-read-overwrite`` or ``normalize`` is given. A key that moves to another
        partition is a '-D' in its old one and a '+I' in its new one, in any order: apply such
        changes by key and partition.

        Args:
            from_snapshot, from_tag: the first snapshot, included. Default the earliest whose
                changes are there.
            to_snapshot, to_tag: the last snapshot, included. Default the newest.
            from_timestamp, to_timestamp: the first snapshot of that time or later, the last one
                of that time or before; as of `view`.
            normalize: as of `stream`.

        Returns:
            ``_row_kind`` ('+I', '-U', '+U', '-D'), ``_snapshot_id``, then the table's columns.

        Raises:
            SnapshotNotFoundError: some of these changes have expired or are to come; says which
                are there.
            OptionError: one end is named twice, or the last is before the first.
        """
        reader = self._changes().reader(normalize)
        batches = reader.read(
            from_snapshot,
            to_snapshot,
            from_tag=from_tag,
            to_tag=to_tag,
            from_timestamp=from_timestamp,
            to_timestamp=to_timestamp,
        )
        return pa.Table.from_batches(batches, reader.schema)

    def changelog_batches(
        self,
        from_snapshot: SnapshotId | None = None,
        to_snapshot: SnapshotId | None = None,
        *,
        from_tag: Name | None = None,
        to_tag: Name | None = None,
        from_timestamp: Timestamp | None = None,
        to_timestamp: Timestamp | None = None,
        normalize: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """As `changelog`, batch by batch in bounded memory."""
        return (
            self._changes()
            .reader(normalize)
            .read(
                from_snapshot,
                to_snapshot,
                from_tag=from_tag,
                to_tag=to_tag,
                from_timestamp=from_timestamp,
                to_timestamp=to_timestamp,
            )
        )

    def changes(
        self,
        start: int | str | None = None,
        end: int | str | None = None,
        *,
        start_timestamp: Timestamp | None = None,
        end_timestamp: Timestamp | None = None,
        mode: BetweenMode | None = None,
        columns: ColumnNames | None = None,
        filter: object = None,
    ) -> pa.Table:
        """What changed between two snapshots, in sum: the last change of each key.

        Args:
            start, end: snapshot ids or tags; what changed after ``start``, up to ``end``. 0 is
                before the first snapshot. Default what the table's ``incremental-between`` or
                ``incremental-between-timestamp`` says.
            start_timestamp, end_timestamp: or times, as of `view`.
            mode: ``delta``, what writers added; ``changelog``, what changelog files say;
                ``diff``, what is another row at ``end``; ``auto``, ``diff`` between two tags,
                else ``changelog`` where the table has a changelog producer and ``delta`` where
                not. Default ``incremental-between-scan-mode``.
            columns, filter: as of `to_arrow`; a change whose row does not meet the filter is left
                out.

        Returns:
            ``_row_kind`` ('+I', '+U', '-D'), then the columns; a row a key.

        Raises:
            OptionError: the ends contradict each other, or one is missing.
            SnapshotNotFoundError: some of these changes have expired.
            TagNotFoundError: there is no such tag.
        """
        return (
            self._changes()
            .between(start, end, start_timestamp, end_timestamp, mode, columns, filter)
            .read_all()
        )

    def stream(
        self,
        consumer_id: Label | None = None,
        mode: StartMode | None = None,
        from_snapshot: SnapshotId | None = None,
        from_timestamp: Timestamp | None = None,
        poll_interval: Seconds | None = None,
        until_snapshot: SnapshotId | None = None,
        *,
        until_watermark: int | None = None,
        normalize: bool = False,
        columns: ColumnNames | None = None,
        filter: object = None,
        consumer_mode: str | None = None,
        ignore_progress: bool | None = None,
    ) -> ChangeStream:
        """The table's changes as they come: iterate over it, and close it.

        Columns added or renamed meanwhile do not show: the stream has the columns that the table
        has now.

        Args:
            consumer_id: keep the place under this name, and keep what is not read yet from
                expiring; a consumer that is there goes on where it was. Default ``consumer-id``.
            mode: ``latest-full`` (the table as it is, as +I, then its changes; the default),
                ``latest`` (changes that are to come), ``from-snapshot`` (that snapshot's changes
                on), ``from-snapshot-full`` (the table as of that snapshot, then its changes),
                ``from-timestamp``, or ``compacted-full`` (the table as the newest compaction left
                it). Default ``scan.mode``.
            from_snapshot, from_timestamp: what the mode needs; alone they say the mode.
            poll_interval: seconds between two looks for new snapshots. Default
                ``continuous.discovery-interval``.
            until_snapshot: end after it. Default: wait for ever.
            until_watermark: end before a snapshot with a greater watermark. Default
                ``scan.bounded.watermark``.
            normalize: complete changes (-U with the row that was there, +U) of a table whose
                changelog producer is ``none`` or ``input``, and of overwrites. It costs a lookup
                of each changed key in two snapshots, and local disk.
            columns, filter: as of `to_arrow`; a change whose row does not meet the filter is left
                out.
            consumer_mode: ``exactly-once`` records the place whenever a snapshot was taken,
                ``at-least-once`` every ``poll_interval`` at most. Default ``consumer.mode``.
            ignore_progress: begin anew, whatever the consumer read before. Default
                ``consumer.ignore-progress``.

        Returns:
            An iterator of batches: ``_row_kind``, ``_snapshot_id``, then the columns.

        Raises:
            OptionError: arguments that contradict each other.
            UnsupportedError: without a changelog producer, a merge engine other than deduplicate
                is read with ``normalize`` alone.
            SnapshotNotFoundError: while iterating: changes to be read have expired; says which
                are there.
        """
        return self._changes().stream(
            consumer_id,
            mode,
            from_snapshot,
            from_timestamp,
            poll_interval,
            until_snapshot,
            until_watermark,
            normalize,
            columns,
            filter,
            consumer_mode,
            ignore_progress,
        )
