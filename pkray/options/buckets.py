"""Options of buckets: how many a partition has, and which rows are in which."""

from dataclasses import dataclass

from pkray.errors import UnsupportedError
from pkray.options.option import option
from pkray.options.values import NAMES, choice, integer

DYNAMIC = -1
"""The value of ``bucket`` for dynamic buckets."""
POSTPONE = "-2"
"""The value of ``bucket`` for tables whose rows get their buckets by a later compaction."""


@dataclass(frozen=True)
class BucketOptions:
    """Options of the bucket that a row is in."""

    bucket: int = option(
        "bucket",
        integer(-1, 2**31 - 1),
        -1,
        "Buckets a partition; -1 is dynamic. Tables that pkray creates without it get 1.",
    )
    bucket_key: tuple[str, ...] = option(
        "bucket-key", NAMES, (), "Columns whose hash picks the bucket; the primary key if unset."
    )
    bucket_function_type: str = option(
        "bucket-function.type", choice("default", "mod"), "default", "How keys map to buckets."
    )
    dynamic_bucket_target_row_num: int = option(
        "dynamic-bucket.target-row-num", integer(1), 2_000_000, "Rows of one dynamic bucket."
    )
    dynamic_bucket_initial_buckets: int | None = option(
        "dynamic-bucket.initial-buckets", integer(1), None, "First buckets of a partition."
    )
    dynamic_bucket_assigner_parallelism: int | None = option(
        "dynamic-bucket.assigner-parallelism", integer(1), None, "Assigners of dynamic buckets."
    )
    cross_partition_upsert_bootstrap_parallelism: int = option(
        "cross-partition-upsert.bootstrap-parallelism",
        integer(1),
        10,
        "Buckets whose keys are read at a time, to know in which partition each is.",
    )


def postponed(text: str) -> UnsupportedError:
    """Make the error for a table with postponed buckets."""
    return UnsupportedError(
        f"option 'bucket' = {text!r} (postponed buckets) is not supported: create the table with "
        "bucket = -1, whose buckets grow with the rows, or with a fixed number; copy the rows of a "
        "table that is there by the engine that wrote it",
        key="bucket",
        value=text,
    )
