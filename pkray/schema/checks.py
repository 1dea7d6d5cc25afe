"""Checks that options fit the columns, the keys and each other: Paimon's schema validation."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from pkray.errors import OptionError, SchemaError, UnsupportedError
from pkray.options import TableOptions
from pkray.options.fields import UNSUPPORTED_FUNCTIONS
from pkray.schema.column_checks import repeated
from pkray.schema.columns import no_column
from pkray.schema.default_values import default_value
from pkray.schema.types import DataField, DataType

_HIGHEST_ZSTD_LEVEL = 22
_STATS_MODE = re.compile(r"none|counts|full|truncate\(\d+\)")


class CheckedSchema(Protocol):
    """Names what the checks read of a `TableSchema`, whose ``create`` calls them."""

    @property
    def fields(self) -> tuple[DataField, ...]: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def primary_keys(self) -> tuple[str, ...]: ...
    @property
    def partition_keys(self) -> tuple[str, ...]: ...
    @property
    def trimmed_primary_keys(self) -> tuple[str, ...]: ...
    @property
    def crosses_partitions(self) -> bool: ...
    @property
    def core(self) -> TableOptions: ...
    def field(self, name: str) -> DataField: ...
    def types(self, names: Iterable[str]) -> list[DataType]: ...


def check_table(schema: CheckedSchema) -> None:
    """Check that options fit the columns, the keys and each other."""
    options = schema.core
    _check_buckets(schema, options)
    _check_option_columns(schema, options)
    _check_sequence(schema, options)
    _check_groups(schema, options)
    _check_engine(options)
    _check_changelog(options)
    _check_retention(schema, options)
    _check_record_expiry(schema, options)
    _check_compression(options)


def _check_buckets(schema: CheckedSchema, options: TableOptions) -> None:
    if options.bucket == 0:
        raise OptionError(
            "option 'bucket' cannot be 0: it takes a number of at least 1, or -1",
            key="bucket",
            value="0",
        )
    if schema.crosses_partitions and options.bucket != -1:
        raise SchemaError(
            f"the primary key {list(schema.primary_keys)} lacks partition columns of "
            f"{list(schema.partition_keys)}: add them to it, or set bucket = -1, so that keys may "
            "move from one partition to another",
            primary_keys=schema.primary_keys,
            partition_keys=schema.partition_keys,
        )
    check_crossing(schema)
    if not options.bucket_key:
        bucket_keys = schema.trimmed_primary_keys
    elif options.bucket == -1:
        raise _conflict("bucket-key", "bucket = -1 (dynamic buckets)")
    else:
        bucket_keys = options.bucket_key
        _once("bucket-key", bucket_keys)
        for name in bucket_keys:
            if name not in schema.trimmed_primary_keys:
                raise SchemaError(
                    f"bucket-key column {name!r} is not one of the primary key's "
                    f"{list(schema.trimmed_primary_keys)} outside the partition",
                    column=name,
                )
    if options.bucket_function_type == "mod":
        roots = [data_type.root for data_type in schema.types(bucket_keys)]
        if roots not in (["INT"], ["BIGINT"]):
            raise SchemaError(
                f"bucket-function.type = mod takes one INT or BIGINT bucket-key column, not "
                f"{', '.join(bucket_keys)} ({', '.join(roots)})",
                columns=bucket_keys,
            )


def check_crossing(schema: CheckedSchema) -> None:
    """Check that options allow for unique keys which move between partitions.

    Raises:
        UnsupportedError: they cannot.
    """
    options = schema.core
    if not schema.crosses_partitions:
        return
    reason = None
    if options.ignore_delete and options.merge_engine == "deduplicate":
        reason = "'ignore-delete': a key that moves to another partition is deleted in its old one"
    if options.record_level_expire_time is not None and options.merge_engine == "first-row":
        reason = (
            "'record-level.expire-time' with merge-engine = first-row: new rows of keys whose rows "
            "have expired would be ignored"
        )
    if reason is not None:
        raise UnsupportedError(
            f"the primary key {list(schema.primary_keys)} lacks partition columns of "
            f"{list(schema.partition_keys)}, which does not go with {reason}; unset it, or add the "
            "partition columns to the primary key",
            primary_keys=schema.primary_keys,
            partition_keys=schema.partition_keys,
        )


def _check_option_columns(schema: CheckedSchema, options: TableOptions) -> None:
    """Check that every column that an option names is in the table."""
    if options.rowkind_field is not None:
        _column(schema, "rowkind.field", options.rowkind_field)
        data_type = schema.field(options.rowkind_field).type
        if data_type.root not in ("CHAR", "VARCHAR", "STRING"):
            raise SchemaError(
                f"rowkind.field {options.rowkind_field!r} is {data_type}: it must be a STRING",
                column=options.rowkind_field,
            )
    for name in options.row_deduplicate_ignore_fields:
        _column(schema, "changelog-producer.row-deduplicate-ignore-fields", name)
    modes = {"metadata.stats-mode": options.metadata_stats_mode}
    if options.changelog_file_stats_mode is not None:
        modes["changelog-file.stats-mode"] = options.changelog_file_stats_mode
    for name, said in options.fields.items():
        _column(schema, f"fields.{name}.*", name)
        if said.stats_mode is not None:
            modes[f"fields.{name}.stats-mode"] = said.stats_mode
        if said.default_value is None:
            continue
        if name in schema.partition_keys + schema.primary_keys:
            raise SchemaError(
                f"key column {name!r} cannot have a default value: remove the option "
                f"fields.{name}.default-value",
                column=name,
            )
        default_value(said.default_value, schema.field(name).type, name)
    for key, mode in modes.items():
        if _STATS_MODE.fullmatch(mode.lower()) is None:
            allowed = "none, counts, truncate(n) or full"
            raise OptionError(
                f"option {key!r} cannot be {mode!r}: it takes {allowed}",
                key=key,
                value=mode,
                allowed=allowed,
            )


def _check_sequence(schema: CheckedSchema, options: TableOptions) -> None:
    if not options.sequence_field:
        return
    for name in options.sequence_field:
        _column(schema, "sequence.field", name)
        if schema.field(name).type.is_nested:
            raise UnsupportedError(
                f"sequence.field column {name!r} is {schema.field(name).type}: it must be scalar",
                column=name,
            )
        if options.of_field(name).aggregate_function is not None:
            raise _conflict(f"fields.{name}.aggregate-function", f"sequence.field = {name}")
    _once("sequence.field", options.sequence_field)
    if options.merge_engine == "first-row":
        raise _conflict("sequence.field", "merge-engine = first-row")
    if schema.crosses_partitions:
        raise SchemaError(
            f"sequence.field needs a primary key that holds the partition columns "
            f"{list(schema.partition_keys)}",
            partition_keys=schema.partition_keys,
        )


def _check_groups(schema: CheckedSchema, options: TableOptions) -> None:
    owners: dict[str, tuple[str, ...]] = {}
    for group in options.sequence_groups:
        key = f"fields.{','.join(group.sequence_fields)}.sequence-group"
        for name in (*group.sequence_fields, *group.fields):
            _column(schema, key, name)
        for name in group.sequence_fields:
            if options.of_field(name).aggregate_function is not None:
                raise _conflict(f"fields.{name}.aggregate-function", key)
        for name in group.fields:
            if name in owners:
                raise SchemaError(
                    f"column {name!r} is in two sequence groups, of {', '.join(owners[name])} and "
                    f"of {', '.join(group.sequence_fields)}; leave it in one",
                    column=name,
                )
            owners[name] = group.sequence_fields
    if options.merge_engine == "partial-update":
        _check_chains(options, owners)


def _check_chains(options: TableOptions, owners: Mapping[str, tuple[str, ...]]) -> None:
    """Check that no group's order hangs on another group's."""
    for group in options.sequence_groups:
        for name in group.sequence_fields:
            if owners.get(name, group.sequence_fields) != group.sequence_fields:
                raise SchemaError(
                    f"column {name!r} orders a sequence group and is in that of "
                    f"{', '.join(owners[name])}; take it out of that group",
                    column=name,
                )


def _check_compression(options: TableOptions) -> None:
    for key, level in (
        ("file.compression.zstd-level", options.file_compression_zstd_level),
        ("spill-compression.zstd-level", options.spill_compression_zstd_level),
    ):
        if level > _HIGHEST_ZSTD_LEVEL:
            raise OptionError(
                f"option {key!r} cannot be '{level}': zstd has levels 1 to {_HIGHEST_ZSTD_LEVEL}",
                key=key,
                value=str(level),
            )


def _check_engine(options: TableOptions) -> None:
    functions = {name: said.aggregate_function for name, said in options.fields.items()}
    functions["default-aggregate-function"] = options.default_aggregate_function
    for name, function in functions.items():
        if function in UNSUPPORTED_FUNCTIONS:
            raise UnsupportedError(
                f"aggregate function {function!r} (of {name!r}) is not supported, as "
                f"{UNSUPPORTED_FUNCTIONS[function]}: choose another function",
                field=name,
                function=function,
            )
    if options.merge_engine == "partial-update":
        _check_partial_update(options)
    if options.merge_engine == "first-row":
        if options.changelog_producer not in ("none", "lookup"):
            raise _conflict(
                f"changelog-producer = {options.changelog_producer}", "merge-engine = first-row"
            )
        if options.deletion_vectors_enabled:
            raise _conflict("deletion-vectors.enabled", "merge-engine = first-row")


def _check_partial_update(options: TableOptions) -> None:
    if options.partial_update_remove_record_on_delete:
        if options.ignore_delete:
            raise _conflict("ignore-delete", "partial-update.remove-record-on-delete")
        if options.sequence_groups:
            raise _conflict("fields.*.sequence-group", "partial-update.remove-record-on-delete")
    if not options.sequence_groups:
        aggregated = [name for name, said in options.fields.items() if said.aggregate_function]
        if options.default_aggregate_function is not None:
            aggregated.append("default-aggregate-function")
        if aggregated:
            raise SchemaError(
                f"partial-update aggregates ({', '.join(aggregated)}) in sequence groups alone: "
                "add fields.<sequence column>.sequence-group",
                columns=tuple(aggregated),
            )


def _check_changelog(options: TableOptions) -> None:
    producer = options.changelog_producer
    if options.deletion_vectors_enabled and producer == "full-compaction":
        raise _conflict("deletion-vectors.enabled", "changelog-producer = full-compaction")
    if options.streaming_read_overwrite and producer in ("lookup", "full-compaction"):
        raise _conflict("streaming-read-overwrite", f"changelog-producer = {producer}")


def _check_retention(schema: CheckedSchema, options: TableOptions) -> None:
    least, most = options.changelog_num_retained_min, options.changelog_num_retained_max
    ordered = [
        (
            "snapshot.num-retained.min",
            options.snapshot_num_retained_min,
            "snapshot.num-retained.max",
            options.snapshot_num_retained_max,
        ),
        (
            f"{'snapshot' if least is None else 'changelog'}.num-retained.min",
            options.snapshot_num_retained_min if least is None else least,
            f"{'snapshot' if most is None else 'changelog'}.num-retained.max",
            options.snapshot_num_retained_max if most is None else most,
        ),
    ]
    for small_key, small, large_key, large in ordered:
        if small > large:
            raise OptionError(
                f"option {large_key!r} = {large} cannot be less than {small_key!r} = {small}",
                key=large_key,
                value=large,
            )
    if options.partition_expiration_time is not None and not schema.partition_keys:
        raise OptionError(
            "option 'partition.expiration-time' needs a partitioned table",
            key="partition.expiration-time",
        )


_TIME_FIELD_ROOTS = {"seconds-int": "INT", "seconds-long": "BIGINT", "millis-long": "BIGINT"}


def _check_record_expiry(schema: CheckedSchema, options: TableOptions) -> None:
    name = options.record_level_time_field
    if name is None:
        if options.record_level_expire_time is not None:
            raise OptionError(
                "option 'record-level.expire-time' needs 'record-level.time-field'",
                key="record-level.time-field",
            )
        return
    _column(schema, "record-level.time-field", name)
    data_type = schema.field(name).type
    if data_type.root not in ("INT", "BIGINT", "TIMESTAMP", "TIMESTAMP_LTZ"):
        raise SchemaError(
            f"record-level.time-field {name!r} is {data_type}: it must be INT, BIGINT or TIMESTAMP",
            column=name,
        )
    said = options.record_level_time_field_type
    if said is not None and data_type.root != _TIME_FIELD_ROOTS[said]:
        raise OptionError(
            f"option 'record-level.time-field-type' = {said!r} needs {_TIME_FIELD_ROOTS[said]}, "
            f"but {name!r} is {data_type}: leave the option out, and the column's type says it",
            key="record-level.time-field-type",
            value=said,
        )


def _column(schema: CheckedSchema, option: str, name: str) -> None:
    if name not in schema.names:
        raise no_column(name, schema.names, f"option {option!r}: column")


def _once(option: str, names: Sequence[str]) -> None:
    again = repeated(names)
    if again is not None:
        raise OptionError(
            f"option {option!r} names column {again!r} twice", key=option, value=again
        )


def _conflict(one: str, other: str) -> OptionError:
    return OptionError(f"{one!r} does not go with {other!r}: remove one", options=(one, other))
