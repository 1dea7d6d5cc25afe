"""Which buckets a user wants compacted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral

import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import InputError
from pkray.format.partition import PartitionSpec
from pkray.metadata.live import live_files
from pkray.metadata.snapshots import SnapshotStore
from pkray.scan.literals import fit, literal
from pkray.schema.table_schema import TableSchema
from pkray.service.protocol import BucketSelection
from pkray.storage.object_store import ObjectStore


def select_buckets(
    store: ObjectStore,
    schema: TableSchema,
    full: bool,
    partitions: Sequence[Mapping[str, object]] | None,
    buckets: Sequence[int] | None,
) -> BucketSelection:
    """Select the buckets of these partitions and numbers; all by default.

    Args:
        partitions: values by partition column; columns left out may have any.

    Raises:
        InputError: a column that is no partition column, or a value that does not fit it;
            buckets that are no list of numbers.
    """
    found = None if partitions is None else frozenset(_matching(store, schema, partitions))
    numbers = None if buckets is None else _numbers(buckets)
    return BucketSelection(full=full, partitions=found, buckets=numbers)


def _numbers(buckets: Iterable[object]) -> frozenset[int]:
    if not isinstance(buckets, str) and isinstance(buckets, Iterable):
        given = list(buckets)
        numbers = frozenset(int(each) for each in given if isinstance(each, Integral))
        if numbers.issuperset(given) and all(number >= 0 for number in numbers):
            return numbers
    raise InputError(f"buckets cannot be {buckets!r}: give a list such as [0, 3]", value=buckets)


def _matching(
    store: ObjectStore, schema: TableSchema, wanted: Sequence[Mapping[str, object]]
) -> list[bytes]:
    """The table's partitions that fit one of the mappings."""
    if isinstance(wanted, str | Mapping) or not all(isinstance(each, Mapping) for each in wanted):
        raise InputError(
            f"partitions cannot be {wanted!r}: give a list of values by partition column, such as "
            '[{"dt": "2026-01-31"}]',
            partitions=wanted,
        )
    scalars = [{name: _scalar(schema, name, v) for name, v in each.items()} for each in wanted]
    latest = SnapshotStore(store).latest()
    if latest is None or not wanted:
        return []
    there = sorted({entry.partition for entry in live_files(store, latest, schema)})
    spec = PartitionSpec(schema)
    columns = dict(zip(spec.names, spec.values(there), strict=True))
    chosen = pa.array([False] * len(there))
    for each in scalars:
        fits = pa.array([True] * len(there))
        for name, value in each.items():
            same = pc.equal(columns[name], value) if value.is_valid else columns[name].is_null()
            fits = pc.and_(fits, pc.fill_null(same, False))
        chosen = pc.or_(chosen, fits)
    return [partition for partition, hit in zip(there, chosen.to_pylist(), strict=True) if hit]


def _scalar(schema: TableSchema, name: str, value: object) -> pa.Scalar:
    if name not in schema.partition_keys:
        keys = ", ".join(schema.partition_keys) or "none"
        raise InputError(
            f"{name!r} is no partition column; the partition columns are: {keys}", column=name
        )
    field = schema.field(name)
    given = literal(value)
    return pa.scalar(None, field.type.arrow) if given is None else fit(given, field).value
