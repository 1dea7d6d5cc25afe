"""Keyed tables as sources."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import OptionError
from pkray.options import TableOptions
from pkray.options.option import options_of
from pkray.options.reading import ReadingOptions
from pkray.relational.plan.expressions import TRUE, Expression
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.plan.source import ColumnStatistics, Source, Watermark
from pkray.relational.sources.pushdown import pushed
from pkray.scan.conditions import Statistics
from pkray.scan.moment import LATEST, Moment, names_changes
from pkray.scan.view import SnapshotView
from pkray.schema.computed_columns import Column, all_columns
from pkray.table.table import Table

_STARTUP = "scan.startup.mode"
_STARTUPS = {
    "earliest-offset": "latest-full",
    "latest-offset": "latest",
    "timestamp": "from-timestamp",
}
_OTHER_NAMES = {"scan.startup.timestamp-millis": "scan.timestamp-millis"}
_LATE = ("latest", "from-snapshot", "from-timestamp")
"""The modes of ``scan.mode`` in which continuous reads begin with changes."""


class TableSource(Source):
    """The rows of a keyed table.

    Args:
        table: a table or a branch.
        at: the moment that the query names; by default the newest snapshot when it runs.
        options: the table's own options for this read, from a hint.
        watermark: what the table's options declare.
        view: the snapshot that a run has pinned.

    Attributes:
        changelog: which changes the table tells of; `mode` is what a query takes them for.

    Raises:
        OptionError: an option that is none of reads.
    """

    def __init__(
        self,
        table: Table,
        at: Moment = LATEST,
        options: Mapping[str, str] | None = None,
        watermark: Watermark | None = None,
        view: SnapshotView | None = None,
    ) -> None:
        self.original = table
        self.options = read_options(options or {})
        self.table = _with_options(table, self.options)
        self.name = table.name
        self.at = at
        self.watermark = watermark
        self.view = view
        self.schema = self.table.schema if at.is_latest else self.table.at(**at.named).schema
        time = watermark and watermark.column
        self.fields = Fields(
            tuple(Field(each.name, each.type, each.name == time) for each in self.schema.fields)
        )
        self.primary_key = self.schema.primary_keys
        self.changelog = _mode(self.schema.core, follows_overwrites=self.follows_overwrites)
        late = self.begins_late and self.changelog == "all"
        self.mode = "insert" if not at.is_latest else "upsert" if late else self.changelog

    def __repr__(self) -> str:
        return f"TableSource({self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableSource) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    @cached_property
    def columns(self) -> list[Column]:
        """List the columns as queries read them, with those that are computed of `fields`."""
        return all_columns(self.schema.fields, self.schema.options)

    @property
    def read_names(self) -> tuple[str, ...]:
        """Name the columns that queries read, with those that are computed of `fields`."""
        return tuple(each.name for each in self.columns)

    @property
    def time_column(self) -> str | None:
        """Name the column whose times the watermark of the table's options follows."""
        return self.schema.core.watermark_column

    @property
    def is_kept(self) -> bool:
        """Whether rows can be looked up as they are now: those of a table can."""
        return True

    @property
    def reads_changes(self) -> bool:
        """Whether options ask for what changed between two snapshots."""
        return self.at.is_latest and names_changes(self.table.schema.core)

    @property
    def begins_late(self) -> bool:
        """Whether continuous reads begin with changes, without the rows that are there.

        Such changes update and delete rows that were not read, so that they are taken by key, as
        of mode ``upsert``.
        """
        options = self.table.schema.core
        named = (
            options.scan_snapshot_id,
            options.scan_tag_name,
            options.scan_timestamp_millis,
            options.scan_timestamp,
        )
        is_named = options.scan_mode == "default" and any(each is not None for each in named)
        return self.at.is_latest and (options.scan_mode in _LATE or is_named)

    @property
    def follows_overwrites(self) -> bool:
        """Whether a hint says that rows may be taken away of which its merge engine adds alone."""
        named = TableOptions.parse(self.options).streaming_read_overwrite
        return named and self.schema.core.merge_engine == "first-row"

    @property
    def was_empty(self) -> bool:
        """Whether the table had no snapshot when a run pinned it."""
        return self.view is not None and self.view.snapshot is None

    def pinned(self, at: Moment = LATEST) -> TableSource:
        """Give the table at one snapshot: that of the query, or of `at`."""
        if self.view is not None or self.reads_changes:
            return self
        view = self.table.at(**(at if self.at.is_latest else self.at).named)
        if self.at.is_latest and view.schema.id < self.schema.id:
            view = view.under(self.schema)
        return TableSource(self.original, self.at, self.options, self.watermark, view)

    def finds_by(self, columns: Sequence[str]) -> bool:
        """Whether the columns are the primary key, or the first ones of it.

        Only where its changes are complete: nothing else says what an update has taken away.
        """
        if not self.at.is_latest or self.reads_changes or self.mode == "upsert" or self.begins_late:
            return False
        asked, partition = set(columns), set(self.schema.partition_keys)
        trimmed = self.schema.trimmed_primary_keys
        leading = asked - partition
        is_prefix = bool(leading) and leading == set(trimmed[: len(leading)])
        return is_prefix and (partition <= asked or not partition & asked)

    def row_count(self) -> int | None:
        """Count the rows of the files: later ones may replace some of them."""
        if self.reads_changes:
            return None
        snapshot = self._now.snapshot
        return 0 if snapshot is None else snapshot.total_record_count

    def statistics(self, column: str) -> ColumnStatistics:
        """Say what the statistics of the files say."""
        if self.reads_changes:
            return ColumnStatistics()
        return _column(self._statistics, column)

    def remaining(self, condition: Expression) -> Expression:
        """Give what of the condition the files' filter does not understand."""
        return pushed(condition, self.schema).remaining

    def batches(
        self, columns: Sequence[str], condition: Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Read rows, merged by key; files that hold no row of the condition are left out."""
        kept = pushed(condition or TRUE, self.schema).predicate
        if self.reads_changes:
            read = list(columns) or [self.schema.names[0]]  # without columns, rows would be lost
            for batch in self.table.to_batches(read, kept):
                yield batch.select(list(columns))
        else:
            yield from self._now.to_batches(list(columns), kept)

    @property
    def _now(self) -> SnapshotView:
        return self.view or self.table.at(**self.at.named)

    @cached_property
    def _statistics(self) -> Statistics:
        view = self._now
        return view._statistics([each.name for each in self.schema.fields])

    def _identity(self) -> tuple[object, ...]:
        pinned = self.view and self.view.snapshot and self.view.snapshot.id
        options, url = tuple(sorted(self.options.items())), self.table.location.url
        return url, self.name, self.schema.id, self.at, options, pinned


def read_options(given: Mapping[str, str]) -> dict[str, str]:
    """Check the options of a hint: those of reads and streams, and Flink's that mean one of them.

    Raises:
        OptionError: another option, or a value that it does not take.
    """
    known = {option.key for option in options_of(ReadingOptions)}
    result: dict[str, str] = {}
    for key, value in given.items():
        if key == _STARTUP:
            if value not in _STARTUPS:
                raise OptionError(
                    f"option {key!r} cannot be {value!r} here: it takes "
                    f"{' or '.join(_STARTUPS)}; for others set 'scan.mode'",
                    key=key,
                    value=value,
                )
            key, value = "scan.mode", _STARTUPS[value]
        key = _OTHER_NAMES.get(key, key)
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"they are {', '.join(sorted(known))}"
            raise OptionError(f"a read has no option {key!r}; {hint}", key=key)
        if key in result:
            raise OptionError(
                f"option {key!r} is set twice, to {result[key]!r} and to {value!r}: keep one",
                key=key,
            )
        result[key] = value
    TableOptions.parse(result)
    return result


def _with_options(table: Table, options: Mapping[str, str]) -> Table:
    if not options:
        return table
    merged = {**table.schema.options, **options}
    return Table(table.location, dataclasses.replace(table.schema, options=merged), table.runtime)


def _mode(options: TableOptions, *, follows_overwrites: bool) -> str:
    """Say which changes the table's own changelog gives."""
    if options.merge_engine == "first-row":
        return "all" if follows_overwrites else "insert"
    return "upsert" if options.changelog_producer == "none" else "all"


def _column(statistics: Statistics, column: str) -> ColumnStatistics:
    """Join what the statistics of files say of a column."""
    nulls = statistics.nulls.get(column)
    total = int(nulls.sum()) if nulls is not None and np.all(nulls >= 0) else None
    least, greatest = statistics.least.get(column), statistics.greatest.get(column)
    if least is None or greatest is None or not len(least):
        return ColumnStatistics(nulls=total)
    if least.null_count or greatest.null_count or pa.types.is_boolean(least.type):
        return ColumnStatistics(nulls=total)
    low, high = pc.min(least).as_py(), pc.max(greatest).as_py()
    return ColumnStatistics(low, high, total)
