"""Find where a stream of changes begins.

Source: ``scan.mode``, ``scan.snapshot-id``, ``scan.timestamp-millis`` and ``scan.timestamp`` in
    Apache Paimon, as its streaming reads take them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from pkray.changelog.change_history import ChangeHistory
from pkray.errors import OptionError, UnsupportedError
from pkray.format.snapshot import Snapshot
from pkray.options import TableOptions
from pkray.scan.moment import Timestamp, epoch_millis

StartMode = Literal[
    "latest-full",
    "latest",
    "from-snapshot",
    "from-snapshot-full",
    "from-timestamp",
    "compacted-full",
]

_TAKE_ID = ("from-snapshot", "from-snapshot-full")


@dataclass(frozen=True)
class Position:
    """A place in a table's history.

    Args:
        next_id: the snapshot whose changes are read next.
        content: what is read before: the table as this snapshot has it.
    """

    next_id: int
    content: Snapshot | None = None

    @classmethod
    def after(cls, content: Snapshot) -> Position:
        """Make the position that begins with the contents of a snapshot."""
        return cls(content.id + 1, content)


@dataclass(frozen=True)
class Start:
    """The place where a stream begins, as a user or the table says it.

    Raises:
        OptionError: what the mode needs is missing, or what it does not take is there.
    """

    mode: str
    snapshot_id: int | None = None
    millis: int | None = None

    def __post_init__(self) -> None:
        if self.mode not in get_args(StartMode):
            raise OptionError(
                f"mode {self.mode!r} is unknown: use one of {', '.join(get_args(StartMode))}",
                value=self.mode,
            )
        for takes, value, words in (
            (self.mode in _TAKE_ID, self.snapshot_id, "a snapshot id"),
            (self.mode == "from-timestamp", self.millis, "a time"),
        ):
            if takes != (value is not None):
                raise OptionError(
                    f"a stream in mode {self.mode!r} {'needs' if takes else 'does not take'} "
                    f"{words}: {'give one' if takes else 'leave it out'}, or use another mode",
                    mode=self.mode,
                )

    @classmethod
    def from_arguments(
        cls,
        options: TableOptions,
        mode: str | None = None,
        from_snapshot: int | None = None,
        from_timestamp: Timestamp | None = None,
    ) -> Start:
        """Check where a call begins; where it does not say, where the table's ``scan.*`` options
        do.

        Raises:
            OptionError: arguments, or options, that contradict each other.
            UnsupportedError: a ``scan.mode`` in which there is no streaming read.
        """
        millis = None if from_timestamp is None else epoch_millis(from_timestamp)
        if mode is None and from_snapshot is None and millis is None:
            return _of_options(options)
        if mode in _TAKE_ID and from_snapshot is None:
            from_snapshot = options.scan_snapshot_id
        if mode == "from-timestamp" and millis is None:
            millis = _millis_of(options)
        implied = "latest-full"
        if from_snapshot is not None:
            implied = "from-snapshot"
        elif millis is not None:
            implied = "from-timestamp"
        return cls(mode or implied, from_snapshot, millis)

    def find(self, history: ChangeHistory) -> Position | None:
        """Find the position in a table's history now; None where there is none yet.

        Raises:
            SnapshotNotFoundError: the snapshot to begin with has expired or was never made.
        """
        if self.snapshot_id is not None and self.mode == "from-snapshot-full":
            return Position.after(history.whole(self.snapshot_id))
        latest = history.latest()
        if self.snapshot_id is not None:
            if self.snapshot_id != (latest.id + 1 if latest else 1):
                history.find(self.snapshot_id)
            return Position(self.snapshot_id)
        if self.millis is not None:
            return Position(history.first_since(self.millis))
        if self.mode == "compacted-full":
            compacted = history.newest_compacted()
            return None if compacted is None else Position.after(compacted)
        if latest is None:
            return Position(1)
        return Position(latest.id + 1) if self.mode == "latest" else Position.after(latest)


def _of_options(options: TableOptions) -> Start:
    mode = options.scan_mode
    for key, value in (
        ("scan.tag-name", options.scan_tag_name),
        ("scan.watermark", options.scan_watermark),
    ):
        if value is not None:
            raise OptionError(
                f"a stream does not begin at what option {key!r} says: unset it, or say where the "
                "stream begins",
                key=key,
                value=value,
            )
    if mode in ("incremental", "from-file-creation-time"):
        raise UnsupportedError(
            f"a table whose option scan.mode is {mode!r} is not read as a stream: give another "
            "mode",
            key="scan.mode",
            value=mode,
        )
    millis = _millis_of(options)
    if mode == "default":
        mode = "from-timestamp" if millis is not None else "latest-full"
        mode = "from-snapshot" if options.scan_snapshot_id is not None else mode
    return Start("latest-full" if mode == "full" else mode, options.scan_snapshot_id, millis)


def _millis_of(options: TableOptions) -> int | None:
    text = options.scan_timestamp
    return options.scan_timestamp_millis if text is None else epoch_millis(text)
