"""Find where a query begins to read a table, by the options of the read."""

from dataclasses import replace
from typing import TypeAlias

from pkray.changelog.change_history import ChangeHistory
from pkray.changelog.start import Start
from pkray.errors import UnsupportedError
from pkray.options import TableOptions
from pkray.relational.continuous.feeds.told_snapshots import ToldSnapshots
from pkray.relational.sources.table import TableSource

Beginning: TypeAlias = tuple[int, int | None]
"""The position after which the first epoch reads, and the one up to which at most; None: the
newest."""
EVERYTHING: Beginning = (-1, None)
"""All rows that are there, then what changes."""
_OVERWRITES = "streaming-read-overwrite"
_UNUSED = (
    "consumer-id",
    "consumer.expiration-time",
    "consumer.mode",
    "consumer.ignore-progress",
    "continuous.discovery-interval",
    "scan.bounded.watermark",
    _OVERWRITES,
)
"""Options of streams that a query has no use for: it keeps its place itself, and has a trigger."""


def beginning(source: TableSource, told: ToldSnapshots) -> Beginning:
    """Find where the first epoch begins, by the table's history as it is now.

    Raises:
        OptionError: options that contradict each other.
        SnapshotNotFoundError, TagNotFoundError: what they name is not there.
        UnsupportedError: an option that means nothing to a continuous query.
    """
    for key in _UNUSED:
        if key in source.options and not (key == _OVERWRITES and source.follows_overwrites):
            raise UnsupportedError(
                f"option {key!r} of {source.name} means nothing to a continuous query: it keeps "
                "its place under its own name, and reads when its trigger says; leave it out",
                key=key,
                table=source.name,
            )
    history = ChangeHistory(source.original.location.open())
    start = Start.from_arguments(_with_id_of_tag(source.table.schema.core, history))
    if start.mode == "latest":
        latest = history.latest()
        return (told.newest(latest) if latest else 0), None
    position = start.find(history)
    if source.begins_late and position is not None:
        return position.next_id - 1, None
    if start.mode == "latest-full" or position is None or position.content is None:
        return EVERYTHING
    return -1, told.newest(position.content)


def _with_id_of_tag(options: TableOptions, history: ChangeHistory) -> TableOptions:
    tag = options.scan_tag_name
    if tag is None or options.scan_snapshot_id is not None:
        return options
    return replace(options, scan_tag_name=None, scan_snapshot_id=history.tagged(tag).id)
