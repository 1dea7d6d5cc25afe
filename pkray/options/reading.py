"""Options of reading: where a read starts and ends, its splits, and consumers."""

from dataclasses import dataclass

from pkray.options.option import option
from pkray.options.values import BOOLEAN, DURATION, MB, POSITIVE_SIZE, SIZE, STRING, choice, integer

_SCAN_MODE = choice(
    "default",
    "latest-full",
    "full",
    "latest",
    "compacted-full",
    "from-timestamp",
    "from-file-creation-time",
    "from-snapshot",
    "from-snapshot-full",
    "incremental",
)


@dataclass(frozen=True)
class ReadingOptions:
    """Options of where reads start, what streams see, and what a split holds."""

    scan_mode: str = option("scan.mode", _SCAN_MODE, "default", "Where a read starts.")
    scan_snapshot_id: int | None = option(
        "scan.snapshot-id", integer(1), None, "Snapshot a read starts at."
    )
    scan_tag_name: str | None = option("scan.tag-name", STRING, None, "Tag a read starts at.")
    scan_timestamp_millis: int | None = option(
        "scan.timestamp-millis", integer(0), None, "Time a read starts at, in epoch milliseconds."
    )
    scan_timestamp: str | None = option("scan.timestamp", STRING, None, "The same as text.")
    scan_watermark: int | None = option(
        "scan.watermark", integer(), None, "Watermark a read starts at."
    )
    scan_bounded_watermark: int | None = option(
        "scan.bounded.watermark", integer(), None, "Watermark at which a stream read ends."
    )
    watermark_idle_timeout: int | None = option(
        "scan.watermark.idle-timeout",
        DURATION,
        None,
        "Time without changes after which a source no longer holds a query's watermark back.",
    )
    watermark_alignment_group: str | None = option(
        "scan.watermark.alignment.group",
        STRING,
        None,
        "Name of the sources of a query that wait for each other.",
    )
    watermark_alignment_max_drift: int | None = option(
        "scan.watermark.alignment.max-drift",
        DURATION,
        None,
        "How far in event time a source may be ahead of the slowest of its group.",
    )
    watermark_alignment_update_interval: int = option(
        "scan.watermark.alignment.update-interval",
        DURATION,
        1_000,
        "Time between looks at the slowest of a group.",
    )
    incremental_between: str | None = option(
        "incremental-between", STRING, None, "Two snapshots or tags: changes between them."
    )
    incremental_between_timestamp: str | None = option(
        "incremental-between-timestamp", STRING, None, "Two times: changes between them."
    )
    incremental_between_scan_mode: str = option(
        "incremental-between-scan-mode",
        choice("auto", "delta", "changelog", "diff"),
        "auto",
        "Where changes between two snapshots are read from.",
    )
    consumer_id: str | None = option("consumer-id", STRING, None, "Name that keeps its place.")
    consumer_expiration_time: int | None = option(
        "consumer.expiration-time", DURATION, None, "Age at which an idle consumer goes."
    )
    consumer_mode: str = option(
        "consumer.mode", choice("exactly-once", "at-least-once"), "exactly-once", "Its progress."
    )
    consumer_ignore_progress: bool = option(
        "consumer.ignore-progress", BOOLEAN, False, "Start afresh."
    )
    continuous_discovery_interval: int = option(
        "continuous.discovery-interval", DURATION, 10_000, "Time between looks for snapshots."
    )
    streaming_read_overwrite: bool = option(
        "streaming-read-overwrite", BOOLEAN, False, "Stream reads see overwrites."
    )
    split_target_size: int = option(
        "source.split.target-size", POSITIVE_SIZE, 128 * MB, "Size of a read split."
    )
    split_open_file_cost: int = option(
        "source.split.open-file-cost", SIZE, 4 * MB, "What opening a file counts in a split."
    )
