"""Table options: Paimon's keys, their defaults and meaning, and a typed view of them."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any

from pkray.errors import OptionError, UnsupportedError
from pkray.field_options import FieldOptions, SequenceGroup, parse_field_options
from pkray.option_values import (
    BOOLEAN,
    BY_LEVEL,
    CODEC,
    DURATION,
    NAMES,
    SIZE,
    STRING,
    Kind,
    choice,
    integer,
)
from pkray.other_options import NOT_IMPLEMENTED, WITHOUT_EFFECT

MB = 1 << 20
MINUTE = 60_000
HOUR = 60 * MINUTE


@dataclass(frozen=True)
class Option:
    """One key of the catalogue.

    Args:
        attribute: its name on :class:`TableOptions`.
        default: None where the default depends on other options or there is none.
        aliases: older keys with the same meaning.
        only: the values pkray implements, of those that Paimon has; empty: all.
    """

    key: str
    attribute: str
    kind: Kind
    default: Any
    doc: str
    aliases: tuple[str, ...] = ()
    only: tuple[Any, ...] = ()

    def parse(self, key: str, text: str) -> Any:
        """The value of ``text``, given under ``key`` (this option's or an alias).

        Raises:
            OptionError: it is not a value of this option.
        """
        try:
            return self.kind.parse(text)
        except ValueError:
            raise OptionError(
                f"option {key!r} cannot be {text!r}: it takes {self.kind.allowed}",
                key=key,
                value=text,
                allowed=self.kind.allowed,
            ) from None


def _option(
    key: str,
    kind: Kind,
    default: Any,
    doc: str,
    aliases: tuple[str, ...] = (),
    only: tuple[Any, ...] = (),
) -> Any:
    described = {"option": (key, kind, doc, aliases, only)}
    return field(default=default, metadata=described)


_IGNORE_DELETE = tuple(
    f"{engine}.ignore-delete" for engine in ("first-row", "deduplicate", "partial-update")
)
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


DYNAMIC = -1
"""The value of ``bucket`` for dynamic buckets."""
POSTPONE = "-2"
"""The value of ``bucket`` for tables whose rows get their buckets by a later compaction."""


@dataclass(frozen=True)
class TableOptions:
    """The typed view of a table's options. Sizes are bytes, durations milliseconds.

    Defaults are Paimon 0.9's. ``num_levels`` and ``num_sorted_run_stop_trigger`` follow the
    compaction trigger where they are unset. An absent ``bucket`` means -1 (dynamic buckets), as in
    Paimon; creating a table without one writes ``bucket`` = 1 into its schema.
    """

    # Buckets
    bucket: int = _option("bucket", integer(-1), -1, "Buckets a partition; -1 is dynamic.")
    bucket_key: tuple[str, ...] = _option(
        "bucket-key", NAMES, (), "Columns whose hash picks the bucket; the primary key if unset."
    )
    bucket_function_type: str = _option(
        "bucket-function.type", choice("default", "mod"), "default", "How keys map to buckets."
    )
    dynamic_bucket_target_row_num: int = _option(
        "dynamic-bucket.target-row-num", integer(1), 2_000_000, "Rows of one dynamic bucket."
    )
    dynamic_bucket_initial_buckets: int | None = _option(
        "dynamic-bucket.initial-buckets", integer(1), None, "First buckets of a partition."
    )
    dynamic_bucket_assigner_parallelism: int | None = _option(
        "dynamic-bucket.assigner-parallelism", integer(1), None, "Assigners of dynamic buckets."
    )
    cross_partition_upsert_bootstrap_parallelism: int = _option(
        "cross-partition-upsert.bootstrap-parallelism",
        integer(1),
        10,
        "Buckets whose keys are read at a time, to know in which partition each is.",
    )

    # Merging
    merge_engine: str = _option(
        "merge-engine",
        choice("deduplicate", "partial-update", "aggregation", "first-row"),
        "deduplicate",
        "How rows of one key become one.",
    )
    sequence_field: tuple[str, ...] = _option(
        "sequence.field", NAMES, (), "Columns that order the rows of a key; arrival if unset."
    )
    sequence_field_sort_order: str = _option(
        "sequence.field.sort-order",
        choice("ascending", "descending"),
        "ascending",
        "Whether the largest or the smallest sequence wins.",
    )
    rowkind_field: str | None = _option(
        "rowkind.field", STRING, None, "Column that holds the row kind: +I, -U, +U or -D."
    )
    ignore_delete: bool = _option(
        "ignore-delete", BOOLEAN, False, "Drop -D (and -U) rows.", _IGNORE_DELETE
    )
    ignore_update_before: bool = _option("ignore-update-before", BOOLEAN, False, "Drop -U rows.")
    partial_update_remove_record_on_delete: bool = _option(
        "partial-update.remove-record-on-delete", BOOLEAN, False, "A -D removes the whole row."
    )
    aggregation_remove_record_on_delete: bool = _option(
        "aggregation.remove-record-on-delete", BOOLEAN, False, "A -D removes the whole row."
    )
    default_aggregate_function: str | None = _option(
        "fields.default-aggregate-function", STRING, None, "Function of columns without their own."
    )

    # Changelog
    changelog_producer: str = _option(
        "changelog-producer",
        choice("none", "input", "full-compaction", "lookup"),
        "none",
        "Where changelog files come from.",
    )
    row_deduplicate: bool = _option(
        "changelog-producer.row-deduplicate", BOOLEAN, False, "No -U, +U where nothing changed."
    )
    row_deduplicate_ignore_fields: tuple[str, ...] = _option(
        "changelog-producer.row-deduplicate-ignore-fields",
        NAMES,
        (),
        "Columns whose change alone is no change.",
    )
    changelog_compaction_interval: int | None = _option(
        "changelog-producer.compaction-interval", DURATION, None, "Time between full compactions."
    )
    lookup_wait: bool = _option(
        "lookup-wait",
        BOOLEAN,
        True,
        "Commit waits for the lookup changelog.",
        ("changelog-producer.lookup-wait",),
    )
    changelog_file_prefix: str = _option(
        "changelog-file.prefix", STRING, "changelog-", "Start of changelog file names."
    )
    changelog_file_format: str = _option(
        "changelog-file.format",
        choice("parquet", "orc", "avro"),
        "parquet",
        "Format of changelog files.",
        only=("parquet",),
    )
    changelog_file_compression: str | None = _option(
        "changelog-file.compression", CODEC, None, "Codec of changelog files."
    )
    changelog_file_stats_mode: str | None = _option(
        "changelog-file.stats-mode",
        STRING,
        None,
        "Statistics of changelog files; those of data files if unset.",
    )
    changelog_num_retained_min: int | None = _option(
        "changelog.num-retained.min", integer(1), None, "Changelogs kept at least."
    )
    changelog_num_retained_max: int | None = _option(
        "changelog.num-retained.max", integer(1), None, "Changelogs kept at most."
    )
    changelog_time_retained: int | None = _option(
        "changelog.time-retained", DURATION, None, "How long changelogs are kept."
    )

    # Memory and compaction
    write_buffer_size: int = _option(
        "write-buffer-size", SIZE, 256 * MB, "Rows held in memory before a flush."
    )
    write_only: bool = _option(
        "write-only",
        BOOLEAN,
        False,
        "No compaction and no expiry by writers.",
        ("write.compaction-skip",),
    )
    compaction_trigger: int = _option(
        "num-sorted-run.compaction-trigger", integer(1), 5, "Sorted runs that start a compaction."
    )
    num_sorted_run_stop_trigger: int = _option(
        "num-sorted-run.stop-trigger",
        integer(1),
        None,
        "Sorted runs at which writers wait; compaction trigger + 3 if unset.",
    )
    num_levels: int = _option(
        "num-levels", integer(2), None, "Levels; compaction trigger + 1 if unset."
    )
    max_size_amplification_percent: int = _option(
        "compaction.max-size-amplification-percent",
        integer(0),
        200,
        "Size above the last run, in percent of it, that starts a full compaction.",
    )
    size_ratio: int = _option(
        "compaction.size-ratio", integer(0), 1, "Percent a run may be larger and still be taken."
    )
    compaction_optimization_interval: int | None = _option(
        "compaction.optimization-interval", DURATION, None, "Time between full compactions."
    )
    full_compaction_delta_commits: int | None = _option(
        "full-compaction.delta-commits", integer(1), None, "Commits between full compactions."
    )
    commit_force_compact: bool = _option(
        "commit.force-compact", BOOLEAN, False, "A commit waits for the compaction that is due."
    )
    sort_spill_threshold: int | None = _option(
        "sort-spill-threshold",
        integer(2),
        None,
        "Sorted runs read at once by a merge; num-sorted-run.stop-trigger + 1 if unset.",
    )
    sort_spill_buffer_size: int = _option(
        "sort-spill-buffer-size",
        SIZE,
        64 * MB,
        "Rows a merge holds at a time, and rows set aside before they go to the local disk.",
    )
    spill_compression: str = _option(
        "spill-compression", choice("zstd", "lz4", "none"), "zstd", "Codec of spilled rows."
    )
    spill_compression_zstd_level: int = _option(
        "spill-compression.zstd-level", integer(1), 1, "zstd level of spilled rows."
    )
    record_level_expire_time: int | None = _option(
        "record-level.expire-time", DURATION, None, "Age at which compaction drops a row."
    )
    record_level_time_field: str | None = _option(
        "record-level.time-field", STRING, None, "Column that holds a row's time."
    )
    record_level_time_field_type: str | None = _option(
        "record-level.time-field-type",
        choice("seconds-int", "seconds-long", "millis-long"),
        None,
        "What the numbers of that column are.",
    )
    deletion_vectors_enabled: bool = _option(
        "deletion-vectors.enabled", BOOLEAN, False, "Mark deleted rows instead of merging."
    )
    deletion_vector_index_file_target_size: int = _option(
        "deletion-vector.index-file.target-size", SIZE, 2 * MB, "Size of a vector file."
    )

    # Files
    file_format: str = _option(
        "file.format",
        choice("parquet", "orc", "avro"),
        "parquet",
        "Format of data files.",
        only=("parquet",),
    )
    file_compression: str = _option(
        "file.compression",
        CODEC,
        "zstd",
        "Codec of data files.",
    )
    file_compression_zstd_level: int = _option(
        "file.compression.zstd-level", integer(1), 1, "zstd level of data files."
    )
    file_compression_per_level: tuple[tuple[int, str], ...] = _option(
        "file.compression.per.level", BY_LEVEL, (), "Codec by level, such as 0:lz4,5:zstd."
    )
    parquet_writer_version: str = _option(
        "parquet.writer.version",
        choice("v1", "v2", "parquet_1_0", "parquet_2_0"),
        "v1",
        "Encodings of data files; v2 is faster for integers, but Paimon 0.9 cannot read it.",
    )
    file_block_size: int | None = _option(
        "file.block-size", SIZE, None, "Size of a Parquet row group; 128 MB if unset."
    )
    target_file_size: int = _option(
        "target-file-size", SIZE, 128 * MB, "Size at which a data file is cut."
    )
    data_file_prefix: str = _option(
        "data-file.prefix", STRING, "data-", "Start of data file names."
    )
    metadata_stats_mode: str = _option(
        "metadata.stats-mode",
        STRING,
        "truncate(16)",
        "Statistics of data files: none, counts, truncate(n) or full.",
    )
    manifest_format: str = _option(
        "manifest.format", choice("avro"), "avro", "Format of manifests."
    )
    manifest_compression: str = _option(
        "manifest.compression",
        choice("zstd", "snappy", "none", "default"),
        "zstd",
        "Codec of manifests.",
    )
    manifest_target_file_size: int = _option(
        "manifest.target-file-size", SIZE, 8 * MB, "Size of a merged manifest."
    )
    manifest_merge_min_count: int = _option(
        "manifest.merge-min-count", integer(1), 30, "Manifests that start a merge."
    )
    manifest_full_compaction_threshold_size: int = _option(
        "manifest.full-compaction-threshold-size",
        SIZE,
        16 * MB,
        "Size of changed manifests that starts a full rewrite.",
    )
    split_target_size: int = _option(
        "source.split.target-size", SIZE, 128 * MB, "Size of a read split."
    )
    split_open_file_cost: int = _option(
        "source.split.open-file-cost", SIZE, 4 * MB, "What opening a file counts in a split."
    )

    # Lookups
    lookup_cache_file_retention: int = _option(
        "lookup.cache-file-retention", DURATION, HOUR, "Idle time before a local copy goes."
    )
    lookup_cache_max_disk_size: int | None = _option(
        "lookup.cache-max-disk-size", SIZE, None, "Local disk for lookups; unlimited if unset."
    )
    lookup_cache_max_memory_size: int = _option(
        "lookup.cache-max-memory-size", SIZE, 256 * MB, "Memory for lookups."
    )

    # Commits, snapshots, partitions
    commit_max_retries: int = _option(
        "commit.max-retries", integer(0), 10, "Retries of a commit that lost a race."
    )
    commit_timeout: int | None = _option(
        "commit.timeout", DURATION, None, "Time after which a commit gives up."
    )
    commit_user_prefix: str | None = _option(
        "commit.user-prefix", STRING, None, "Start of generated commit user names."
    )
    snapshot_num_retained_min: int = _option(
        "snapshot.num-retained.min", integer(1), 10, "Snapshots kept at least."
    )
    snapshot_num_retained_max: int = _option(
        "snapshot.num-retained.max", integer(1), 2**31 - 1, "Snapshots kept at most."
    )
    snapshot_time_retained: int = _option(
        "snapshot.time-retained", DURATION, HOUR, "How long snapshots are kept."
    )
    snapshot_expire_limit: int = _option(
        "snapshot.expire.limit", integer(1), 50, "Snapshots expired at once."
    )
    snapshot_expire_execution_mode: str = _option(
        "snapshot.expire.execution-mode", choice("sync", "async"), "sync", "When files go."
    )
    snapshot_clean_empty_directories: bool = _option(
        "snapshot.clean-empty-directories", BOOLEAN, False, "Expiry removes empty folders."
    )
    tag_default_time_retained: int | None = _option(
        "tag.default-time-retained", DURATION, None, "How long tags are kept."
    )
    partition_default_name: str = _option(
        "partition.default-name",
        STRING,
        "__DEFAULT_PARTITION__",
        "Folder of null and blank partition values.",
    )
    partition_legacy_name: bool = _option(
        "partition.legacy-name", BOOLEAN, True, "Partition folders as Paimon 0.9 spells them."
    )
    partition_expiration_time: int | None = _option(
        "partition.expiration-time", DURATION, None, "Age at which a partition goes."
    )
    partition_expiration_check_interval: int = _option(
        "partition.expiration-check-interval", DURATION, HOUR, "Time between those checks."
    )
    partition_expiration_strategy: str = _option(
        "partition.expiration-strategy",
        choice("values-time", "update-time"),
        "values-time",
        "What a partition's age is counted from.",
    )
    partition_expiration_max_num: int = _option(
        "partition.expiration-max-num", integer(1), 100, "Partitions expired at once."
    )
    partition_timestamp_formatter: str | None = _option(
        "partition.timestamp-formatter", STRING, None, "Format of times in partition values."
    )
    partition_timestamp_pattern: str | None = _option(
        "partition.timestamp-pattern", STRING, None, "How partition values make a time."
    )
    dynamic_partition_overwrite: bool = _option(
        "dynamic-partition-overwrite", BOOLEAN, True, "Overwrite only partitions with new rows."
    )

    # Reading
    scan_mode: str = _option("scan.mode", _SCAN_MODE, "default", "Where a read starts.")
    scan_snapshot_id: int | None = _option(
        "scan.snapshot-id", integer(1), None, "Snapshot a read starts at."
    )
    scan_tag_name: str | None = _option("scan.tag-name", STRING, None, "Tag a read starts at.")
    scan_timestamp_millis: int | None = _option(
        "scan.timestamp-millis", integer(0), None, "Time a read starts at, in epoch milliseconds."
    )
    scan_timestamp: str | None = _option("scan.timestamp", STRING, None, "The same as text.")
    scan_watermark: int | None = _option(
        "scan.watermark", integer(), None, "Watermark a read starts at."
    )
    scan_bounded_watermark: int | None = _option(
        "scan.bounded.watermark", integer(), None, "Watermark at which a stream read ends."
    )
    incremental_between: str | None = _option(
        "incremental-between", STRING, None, "Two snapshots or tags: changes between them."
    )
    incremental_between_timestamp: str | None = _option(
        "incremental-between-timestamp", STRING, None, "Two times: changes between them."
    )
    incremental_between_scan_mode: str = _option(
        "incremental-between-scan-mode",
        choice("auto", "delta", "changelog", "diff"),
        "auto",
        "Where changes between two snapshots are read from.",
    )
    consumer_id: str | None = _option("consumer-id", STRING, None, "Name that keeps its place.")
    consumer_expiration_time: int | None = _option(
        "consumer.expiration-time", DURATION, None, "Age at which an idle consumer goes."
    )
    consumer_mode: str = _option(
        "consumer.mode", choice("exactly-once", "at-least-once"), "exactly-once", "Its progress."
    )
    consumer_ignore_progress: bool = _option(
        "consumer.ignore-progress", BOOLEAN, False, "Start afresh."
    )
    continuous_discovery_interval: int = _option(
        "continuous.discovery-interval", DURATION, 10_000, "Time between looks for snapshots."
    )
    streaming_read_overwrite: bool = _option(
        "streaming-read-overwrite", BOOLEAN, False, "Stream reads see overwrites."
    )

    # By column
    fields: Mapping[str, FieldOptions] = field(default_factory=dict)
    sequence_groups: tuple[SequenceGroup, ...] = ()
    unsupported: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        stop = self.num_sorted_run_stop_trigger or self.compaction_trigger + 3
        object.__setattr__(self, "num_sorted_run_stop_trigger", max(stop, self.compaction_trigger))
        object.__setattr__(self, "num_levels", self.num_levels or self.compaction_trigger + 1)

    @property
    def sequence_field_descending(self) -> bool:
        return self.sequence_field_sort_order == "descending"

    @property
    def keeps_changelogs_longer(self) -> bool:
        """Whether changelogs have a retention of their own, beyond that of snapshots in one way."""
        kept = (
            (self.changelog_num_retained_min, self.snapshot_num_retained_min),
            (self.changelog_num_retained_max, self.snapshot_num_retained_max),
            (self.changelog_time_retained, self.snapshot_time_retained),
        )
        return any(own is not None and own > of_snapshots for own, of_snapshots in kept)

    def of_field(self, name: str) -> FieldOptions:
        """The options ``fields.<name>.*``, defaults where there are none."""
        return self.fields.get(name, FieldOptions())

    def require_supported(self) -> None:
        """Refuse to go on with options of another engine's table that pkray would not honour.

        Raises:
            UnsupportedError: naming each such option.
        """
        if self.unsupported:
            raise UnsupportedError("; ".join(self.unsupported), options=self.unsupported)

    @classmethod
    def parse(cls, options: Mapping[str, str], *, strict: bool = True) -> TableOptions:
        """The typed view of ``options``.

        Args:
            strict: refuse keys that nobody knows and values that pkray does not implement. False
                is for tables that are there already: unknown keys are let be, and what pkray does
                not implement is listed in ``unsupported``.

        Raises:
            OptionError: an unknown key (naming the nearest), or a bad value.
            UnsupportedError: a Paimon option or value that pkray does not implement.
        """
        values: dict[str, Any] = {}
        unsupported: list[str] = []
        by_field: dict[str, str] = {}
        for key, text in options.items():
            option = _by_key().get(key)
            if not isinstance(text, str):
                raise OptionError(
                    f"option {key!r} is {text!r}: option values are text, so write "
                    f"{(str(text).lower() if isinstance(text, bool) else str(text))!r}",
                    key=key,
                    value=text,
                )
            if key == "bucket" and text.strip() == POSTPONE:
                raise _postponed(text)
            if option is not None:
                value = option.parse(key, text)
                if option.only and value not in option.only:
                    unsupported.append(_refusal(option, key, text))
                if key == option.key or option.attribute not in values:
                    values[option.attribute] = value
            elif key.startswith("fields."):
                by_field[key] = text
            elif key in NOT_IMPLEMENTED:
                harmless, reason = NOT_IMPLEMENTED[key]
                if text.lower() != harmless:
                    unsupported.append(f"option {key!r} = {text!r} is not supported: {reason}")
            elif strict and key not in WITHOUT_EFFECT:
                raise _unknown(key)
        per_field, groups = parse_field_options(by_field, strict=strict)
        parsed = cls(
            **values, fields=per_field, sequence_groups=groups, unsupported=tuple(unsupported)
        )
        if strict:
            parsed.require_supported()
        return parsed


def catalogue() -> Iterator[Option]:
    """Every option that pkray knows and honours, in the order of :class:`TableOptions`."""
    for attribute in fields(TableOptions):
        if "option" in attribute.metadata:
            key, kind, doc, aliases, only = attribute.metadata["option"]
            yield Option(key, attribute.name, kind, attribute.default, doc, aliases, only)


@cache
def _by_key() -> dict[str, Option]:
    return {key: option for option in catalogue() for key in (option.key, *option.aliases)}


def _refusal(option: Option, key: str, text: str) -> str:
    taken = " or ".join(str(value).lower() for value in option.only)
    return f"option {key!r} = {text!r} is not supported: pkray takes {taken}"


def _postponed(text: str) -> UnsupportedError:
    return UnsupportedError(
        f"option 'bucket' = {text!r} (postponed buckets) is not supported: create the table with "
        "bucket = -1, whose buckets grow with the rows, or with a fixed number; copy the rows of a "
        "table that is there by the engine that wrote it",
        key="bucket",
        value=text,
    )


def _unknown(key: str) -> OptionError:
    known = [*_by_key(), *NOT_IMPLEMENTED, *WITHOUT_EFFECT]
    nearest = difflib.get_close_matches(key.lower().replace("_", "-"), known, n=1, cutoff=0.5)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else "; see the list of table options"
    return OptionError(
        f"there is no option {key!r}{hint}", key=key, nearest=nearest[0] if nearest else None
    )
