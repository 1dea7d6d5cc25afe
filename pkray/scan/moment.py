"""Selects the snapshot that is read: by id, tag, time or watermark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pkray.arguments.whole_number import check_snapshot
from pkray.errors import OptionError, SnapshotNotFoundError, UnsupportedError
from pkray.format.snapshot import COMPACT, Snapshot
from pkray.metadata.snapshots import SnapshotStore
from pkray.metadata.tags import TagStore
from pkray.options import TableOptions
from pkray.storage.object_store import ObjectStore

Timestamp = int | datetime | str
"""Epoch milliseconds, a date and time, or ISO text; those without a zone are local time."""


@dataclass(frozen=True)
class Moment:
    """Names a snapshot of a table in one way; the newest one if in none.

    Args:
        timestamp: the newest snapshot at or before it; epoch milliseconds.
        watermark: the oldest snapshot whose watermark is not below it; milliseconds.
        compacted: the newest snapshot that a compaction made.

    Raises:
        OptionError: it is named in two ways.
    """

    snapshot_id: int | None = None
    tag: str | None = None
    timestamp: int | None = None
    watermark: int | None = None
    compacted: bool = False

    def __post_init__(self) -> None:
        said = [f"{name}={value!r}" for name, value in self.named.items()]
        if len(said) > 1:
            raise OptionError(
                f"{' and '.join(said)} name a snapshot each: give one of them",
                given=said,
                arguments=said,
            )

    @property
    def is_latest(self) -> bool:
        """Whether nothing is asked for but the newest snapshot."""
        return self == LATEST

    @property
    def named(self) -> dict[str, Any]:
        """Name the snapshot as ``Table.at`` takes it and plans have it; empty: the newest."""
        given = vars(self).items()
        return {name: value for name, value in given if value is not None and value is not False}

    @classmethod
    def from_arguments(
        cls,
        snapshot_id: int | None = None,
        tag: str | None = None,
        timestamp: Timestamp | None = None,
        watermark: int | None = None,
    ) -> Moment:
        """Check what a call asks for.

        Raises:
            OptionError: arguments that contradict each other, no id or no time.
        """
        if snapshot_id is None and tag is None and timestamp is None and watermark is None:
            return LATEST
        check_snapshot("snapshot_id", snapshot_id)
        millis = None if timestamp is None else epoch_millis(timestamp)
        return cls(snapshot_id, tag, millis, watermark)

    def or_of(self, options: TableOptions) -> Moment:
        """Return it; if nothing is asked for, what the table's ``scan.*`` options say.

        Raises:
            OptionError: options that contradict each other.
            UnsupportedError: a ``scan.mode`` whose batch reads pkray does not do.
        """
        return _of_options(options) if self.is_latest else self


LATEST = Moment()


class SnapshotFinder:
    """Finds the snapshots that moments name, in a table or a branch."""

    def __init__(self, store: ObjectStore, snapshots: SnapshotStore) -> None:
        self._url = store.url
        self._snapshots = snapshots
        self._tags = TagStore(store, snapshots)

    def find(self, moment: Moment) -> Snapshot | None:
        """Find the snapshot that a moment names; None for the newest one of a table without any.

        Raises:
            SnapshotNotFoundError: there is none, or it has expired.
            TagNotFoundError: there is no such tag.
        """
        if moment.snapshot_id is not None:
            return self._snapshots.read(moment.snapshot_id, fresh=True)
        if moment.tag is not None:
            return self._tags.get(moment.tag).snapshot
        latest = self._snapshots.latest()  # notices a rollback: what was read before is void
        if moment.timestamp is not None:
            return self._at_or_before(moment.timestamp, latest)
        if moment.watermark is not None:
            return self._with_watermark(moment.watermark, latest)
        if moment.compacted:
            return self._compacted(latest)
        return latest

    def _at_or_before(self, millis: int, latest: Snapshot | None) -> Snapshot:
        after = self._first(latest, lambda snapshot: snapshot.time_millis > millis)
        newest = latest.id if latest else 0
        found = self._try_read(newest if after is None else after.id - 1)
        if found is None:
            first = f": the oldest is {after.id}, of {_said(after.time_millis)}" if after else ""
            raise SnapshotNotFoundError(
                f"{self._url!r} has no snapshot of {_said(millis)} or before{first}",
                timestamp=millis,
            )
        return found

    def _with_watermark(self, watermark: int, latest: Snapshot | None) -> Snapshot:
        def reached(snapshot: Snapshot) -> bool:
            return snapshot.watermark is not None and snapshot.watermark >= watermark

        found = self._first(latest, reached)
        if found is None:
            newest = latest.watermark if latest else None
            raise SnapshotNotFoundError(
                f"{self._url!r} has no snapshot with a watermark of {watermark} or later: the "
                f"newest watermark is {newest}",
                watermark=watermark,
            )
        return found

    def _compacted(self, latest: Snapshot | None) -> Snapshot:
        for snapshot in self._snapshots.backwards(latest.id if latest else 0):
            if snapshot.commit_kind == COMPACT:
                return snapshot
        raise SnapshotNotFoundError(
            f"{self._url!r} has no snapshot that a compaction made: compact the table, or read "
            "without scan.mode=compacted-full"
        )

    def _first(
        self, latest: Snapshot | None, is_past: Callable[[Snapshot], bool]
    ) -> Snapshot | None:
        """Find the oldest snapshot past a point that all later ones are past too, by bisection."""
        low = self._snapshots.earliest_id()
        if low is None or latest is None:
            return None
        high, found = latest.id, None
        while low <= high:
            middle = (low + high) // 2
            snapshot = self._try_read(middle)
            if snapshot is not None and is_past(snapshot):
                high, found = middle - 1, snapshot
            else:  # what expired meanwhile is older than all that are there
                low = middle + 1
        return found

    def _try_read(self, snapshot_id: int) -> Snapshot | None:
        try:
            return self._snapshots.read(snapshot_id) if snapshot_id > 0 else None
        except SnapshotNotFoundError:
            return None


def epoch_millis(timestamp: Timestamp) -> int:
    """Convert a time to epoch milliseconds; raise an `OptionError` for what is none."""
    if isinstance(timestamp, bool) or not isinstance(timestamp, int | datetime | str):
        raise OptionError(
            f"timestamp {timestamp!r} is no time: give epoch milliseconds, a datetime or ISO text",
            value=timestamp,
        )
    if isinstance(timestamp, int):
        return timestamp
    if isinstance(timestamp, str):
        try:
            timestamp = datetime.fromisoformat(timestamp.strip())
        except ValueError:
            raise OptionError(
                f"timestamp {timestamp!r} is no time: write it as 2026-01-31 12:00:00, or "
                "2026-01-31T12:00:00Z",
                value=timestamp,
            ) from None
    whole = timestamp.replace(microsecond=0)
    try:
        return round(whole.timestamp()) * 1000 + timestamp.microsecond // 1000
    except (ValueError, OverflowError, OSError):  # its UTC is in no year that there is
        raise OptionError(
            f"timestamp {timestamp} is beyond the years that a clock has: give a later one",
            value=timestamp,
        ) from None


def _said(millis: int) -> str:
    """Write epoch milliseconds as a date and time."""
    try:
        time = datetime.fromtimestamp(millis // 1000, UTC)
    except (ValueError, OverflowError, OSError):  # beyond the years that there are
        return f"{millis} milliseconds"
    return f"{millis} ({time:%Y-%m-%d %H:%M:%S}.{millis % 1000:03} UTC)"


def names_changes(options: TableOptions) -> bool:
    """Whether batch reads of the table are of what changed between two snapshots.

    Source: ``incremental-between`` and ``incremental-between-timestamp``.
    """
    between = (options.incremental_between, options.incremental_between_timestamp)
    return options.scan_mode == "incremental" or (
        options.scan_mode == "default" and any(each is not None for each in between)
    )


_NEEDS = {
    "from-timestamp": ("scan.timestamp-millis", "scan.timestamp"),
    "from-snapshot": ("scan.snapshot-id", "scan.tag-name", "scan.watermark"),
    "from-snapshot-full": ("scan.snapshot-id", "scan.tag-name", "scan.watermark"),
}


def _of_options(options: TableOptions) -> Moment:
    given = {
        "scan.snapshot-id": options.scan_snapshot_id,
        "scan.tag-name": options.scan_tag_name,
        "scan.timestamp-millis": options.scan_timestamp_millis,
        "scan.timestamp": options.scan_timestamp,
        "scan.watermark": options.scan_watermark,
    }
    named = [key for key, value in given.items() if value is not None]
    mode = options.scan_mode
    if mode == "from-file-creation-time" or names_changes(options):
        key = "incremental-between" if mode == "default" else "scan.mode"
        raise UnsupportedError(
            f"a table that sets {key!r} is not read as a whole here: read it with table.to_arrow, "
            "table.changes or table.changelog, or name a snapshot, tag or timestamp",
            key=key,
            value=options.incremental_between if mode == "default" else mode,
        )
    allowed = _NEEDS.get(mode, () if mode != "default" else tuple(given))
    if len(named) > 1 or any(key not in allowed for key in named):
        raise OptionError(
            f"options {', '.join(named)} contradict each other or scan.mode {mode!r}: it takes "
            f"{'one of ' + ', '.join(allowed) if allowed else 'none of them'}",
            keys=named,
            mode=mode,
        )
    if mode in _NEEDS and not named:
        raise OptionError(
            f"scan.mode {mode!r} needs {' or '.join(_NEEDS[mode])}: set one, or another mode",
            key="scan.mode",
            value=mode,
        )
    text = options.scan_timestamp
    return Moment(
        options.scan_snapshot_id,
        options.scan_tag_name,
        options.scan_timestamp_millis if text is None else epoch_millis(text),
        options.scan_watermark,
        compacted=mode == "compacted-full",
    )
