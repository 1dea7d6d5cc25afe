"""Options of partitions: their folders, and when they go."""

from dataclasses import dataclass

from pkray.options.option import option
from pkray.options.values import BOOLEAN, DURATION, FOLDER_NAME, HOUR, STRING, choice, integer


@dataclass(frozen=True)
class PartitionOptions:
    """Options of how partitions are named and expire."""

    partition_default_name: str = option(
        "partition.default-name",
        FOLDER_NAME,
        "__DEFAULT_PARTITION__",
        "Folder of null and blank partition values.",
    )
    partition_legacy_name: bool = option(
        "partition.legacy-name", BOOLEAN, True, "Partition folders as Paimon 0.9 spells them."
    )
    partition_expiration_time: int | None = option(
        "partition.expiration-time", DURATION, None, "Age at which a partition goes."
    )
    partition_expiration_check_interval: int = option(
        "partition.expiration-check-interval", DURATION, HOUR, "Time between those checks."
    )
    partition_expiration_strategy: str = option(
        "partition.expiration-strategy",
        choice("values-time", "update-time"),
        "values-time",
        "What a partition's age is counted from.",
    )
    partition_expiration_max_num: int = option(
        "partition.expiration-max-num", integer(1), 100, "Partitions expired at once."
    )
    partition_timestamp_formatter: str | None = option(
        "partition.timestamp-formatter", STRING, None, "Format of times in partition values."
    )
    partition_timestamp_pattern: str | None = option(
        "partition.timestamp-pattern", STRING, None, "How partition values make a time."
    )
    dynamic_partition_overwrite: bool = option(
        "dynamic-partition-overwrite", BOOLEAN, True, "Overwrite only partitions with new rows."
    )
