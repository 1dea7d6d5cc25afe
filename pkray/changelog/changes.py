"""Offer all the ways to read what changed in one table."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from pkray.arguments.whole_number import check_snapshot
from pkray.changelog.between import (
    BetweenMode,
    ChangesBetween,
    Range,
    inserts,
    named_range,
    range_of_options,
    timed_range,
)
from pkray.changelog.change_history import ChangeHistory
from pkray.changelog.planner import ChangePlanner, is_complete
from pkray.changelog.progress import Progress
from pkray.changelog.reader import ChangelogReader
from pkray.changelog.request import ChangeRequest
from pkray.changelog.start import Start, StartMode
from pkray.changelog.stream import ChangeStream, StreamBounds, StreamSettings, Wait
from pkray.errors import OptionError, UnsupportedError
from pkray.options import TableOptions
from pkray.scan.moment import Timestamp
from pkray.scan.split import arrow_schema
from pkray.schema.table_schema import TableSchema
from pkray.storage.branch_store import main_and_history
from pkray.storage.location import TableLocation
from pkray.storage.object_store import ObjectStore

_log = logging.getLogger(__name__)
_warned: set[str] = set()

_T = TypeVar("_T")

_CONSUMER_MODES = ("exactly-once", "at-least-once")


@dataclass(frozen=True)
class StreamArguments:
    """The arguments of ``Table.stream``, which describes them; None stands for the table's
    option."""

    consumer_id: str | None = None
    mode: StartMode | None = None
    from_snapshot: int | None = None
    from_timestamp: Timestamp | None = None
    poll_interval: float | None = None
    until_snapshot: int | None = None
    until_watermark: int | None = None
    normalize: bool = False
    columns: Sequence[str] | None = None
    filter: object = None
    consumer_mode: str | None = None
    ignore_progress: bool | None = None

    def check_snapshots(self) -> None:
        """Check that what names snapshots may be an id of one."""
        check_snapshot("from_snapshot", self.from_snapshot)
        check_snapshot("until_snapshot", self.until_snapshot)


class Changes:
    """Reads of a table's changes, under one schema.

    Args:
        store: the table's root, or a branch.
    """

    def __init__(self, location: TableLocation, store: ObjectStore, schema: TableSchema) -> None:
        self._location = location
        self._store = store
        self._schema = schema
        self._options = schema.core

    def reader(self, normalize: bool = False) -> ChangelogReader:
        """Make a reader of the changes of each snapshot in a range."""
        if normalize:
            warn_of_cost(self._location.name, self._options)
        return ChangelogReader(
            self._store, self._schema, normalize=normalize, location=self._location
        )

    def between(
        self,
        start: int | str | None,
        end: int | str | None,
        start_timestamp: Timestamp | None,
        end_timestamp: Timestamp | None,
        mode: BetweenMode | None,
        columns: Sequence[str] | None,
        filter: object,
    ) -> pa.RecordBatchReader:
        """Read the changes between two snapshots, a row a key. Arguments are those of
        ``Table.changes``."""
        request = ChangeRequest.from_arguments(self._location, self._schema, columns, filter)
        changes = ChangesBetween(self._store, request)
        between = self._range(start, end, start_timestamp, end_timestamp)
        return pa.RecordBatchReader.from_batches(changes.schema, changes.read(between, mode))

    def rows_between(
        self, columns: Sequence[str] | None, filter: object
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows of a table with ``incremental-between``, without deletes and kinds."""
        schema = arrow_schema(self._schema, columns)
        for batch in inserts(self.between(None, None, None, None, None, columns, filter)):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)

    def stream(self, asked: StreamArguments, wait: Wait | None = None) -> ChangeStream:
        """Open a stream of changes.

        Args:
            wait: for tests; see `Wait`.
        """
        options = self._options
        asked.check_snapshots()
        start = Start.from_arguments(options, asked.mode, asked.from_snapshot, asked.from_timestamp)
        planner, request = self.planner(asked.normalize, asked.columns, asked.filter)
        seconds = asked.poll_interval
        if seconds is None:
            seconds = options.continuous_discovery_interval / 1000
        _check_interval(seconds)
        name = _given(asked.consumer_id, options.consumer_id)
        settings = StreamSettings(
            start,
            StreamBounds(
                asked.until_snapshot, _given(asked.until_watermark, options.scan_bounded_watermark)
            ),
            seconds,
            None if name is None else self._progress(name, planner, asked.consumer_mode, seconds),
            bool(_given(asked.ignore_progress, options.consumer_ignore_progress)),
            wait,
        )
        return ChangeStream(self._location, self._store, planner, request.arrow_schema, settings)

    def planner(
        self, normalize: bool, columns: Sequence[str] | None, filter: object
    ) -> tuple[ChangePlanner, ChangeRequest]:
        """Make a stream's planner, and its request.

        Raises:
            UnsupportedError: the table's changes make no stream, unless they are normalised.
        """
        if normalize:
            warn_of_cost(self._location.name, self._options)
        else:
            check_streamable(self._location.name, self._options)
        request = ChangeRequest.from_arguments(self._location, self._schema, columns, filter)
        history = ChangeHistory(self._store)
        return ChangePlanner(self._store, request, history.whole, normalize), request

    def _progress(
        self, name: str, planner: ChangePlanner, mode: str | None, poll_interval: float
    ) -> Progress:
        chosen = self._options.consumer_mode if mode is None else mode
        if chosen not in _CONSUMER_MODES:
            raise OptionError(
                f"consumer mode {chosen!r} is unknown: use one of {', '.join(_CONSUMER_MODES)}",
                value=chosen,
            )
        _, history = main_and_history(self._store)
        return Progress(
            history,
            name,
            looks_back=planner.looks_back,
            every=0 if chosen == "exactly-once" else poll_interval,
        )

    def _range(
        self,
        start: int | str | None,
        end: int | str | None,
        start_timestamp: Timestamp | None,
        end_timestamp: Timestamp | None,
    ) -> Range:
        history = ChangeHistory(self._store)
        named, timed = (start, end), (start_timestamp, end_timestamp)
        if named != (None, None) and timed != (None, None):
            raise OptionError("changes are between two snapshots or two times, not both")
        if start_timestamp is not None and end_timestamp is not None:
            return timed_range(history, start_timestamp, end_timestamp)
        for said, value in (("start", start), ("end", end)):
            if not isinstance(value, str):
                check_snapshot(said, value)
        if start is not None and end is not None:
            return named_range(history, start, end)
        if named == timed == (None, None):
            return range_of_options(history, self._options)
        raise OptionError("changes are between two ends: give the other one too")


def _given(value: _T | None, option: _T | None) -> _T | None:
    """Return what a call says, or else the table's option."""
    return option if value is None else value


def _check_interval(seconds: object) -> None:
    if not isinstance(seconds, int | float) or seconds <= 0:
        raise OptionError(f"poll_interval is {seconds!r}: give seconds, more than 0", value=seconds)


def check_streamable(table: str, options: TableOptions) -> None:
    """Check that a table's deltas are changes of rows. Raises `UnsupportedError` where they are
    not."""
    engine = options.merge_engine
    if engine != "deduplicate" and options.changelog_producer == "none":
        raise UnsupportedError(
            f"table {table} merges rows by {engine} and has no changelog producer, so what its "
            "snapshots add are not its changes: set changelog-producer to lookup or "
            "full-compaction, or read it with normalize",
            merge_engine=engine,
            table=table,
        )


def warn_of_cost(table: str, options: TableOptions) -> None:
    """Warn once in this process that a normalising read looks rows up in two snapshots."""
    if is_complete(options) or table in _warned:
        return
    _warned.add(table)
    _log.warning(
        "reading the changes of %s normalised: the rows of each changed key are looked up in two "
        "snapshots, and copies of its files are kept on the local disk; the changelog producer "
        "'lookup' does this once for all readers",
        table,
    )
