"""Make rows of events: the changes of a table's columns, with their kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray import constants
from pkray.cdc.images import Image, ImageColumns
from pkray.cdc.readings import UNAVAILABLE
from pkray.errors import InputError, SchemaError
from pkray.rows.input import absent
from pkray.schema import row_kind
from pkray.schema.casts import cast_column
from pkray.schema.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from pkray.schema.table_schema import TableSchema
from pkray.schema.types import DataField, DataType

Bools = Any
Ints = Any

ROW_KIND = "_row_kind"
_UNAVAILABLE_BYTES = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
"""The marker as connectors write it where a column is of bytes, in base 64."""
_MARKERS = constants.texts([UNAVAILABLE, _UNAVAILABLE_BYTES])
_RAW_MARKERS = constants.texts([UNAVAILABLE]).cast(pa.binary())


@dataclass(frozen=True)
class Target:
    """The columns that changes are to have.

    Args:
        columns: types, by name.
        keys: the primary key; empty where it is not known.
        metadata: columns that are no values of rows, and the members of the envelope that they
            are, such as ``source.lsn``.
        may_lack: whether an event may lack columns, which are null then.
        sequence: the columns that say which row of a key is newer.
        passes_nulls: whether events may have further columns as long as these show no value.
    """

    columns: Mapping[str, DataType]
    keys: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    may_lack: bool = False
    sequence: tuple[str, ...] = ()
    passes_nulls: bool = False

    @classmethod
    def from_schema(
        cls,
        schema: TableSchema | pa.Schema,
        metadata: Mapping[str, str] | None = None,
        *,
        may_lack: bool = False,
    ) -> Target:
        """Take a table's schema, or an Arrow one, whose columns may be any."""
        if isinstance(schema, TableSchema):
            columns = {each.name: each.type for each in schema.fields}
            keys, sequence = schema.primary_keys, tuple(schema.core.sequence_field)
            may_lack = may_lack or schema.core.merge_engine == "partial-update"
        else:
            columns = {each.name: DataType.from_field(each) for each in schema}
            keys, sequence = (), ()
        for name in metadata or {}:
            if name not in columns:
                raise SchemaError(
                    f"metadata names column {name!r}, which the table has not: add it, or leave it "
                    f"out; there are {', '.join(columns)}",
                    column=name,
                )
        return cls(columns, keys, dict(metadata or {}), may_lack, sequence)

    @property
    def values(self) -> dict[str, DataType]:
        """The columns that are values of rows."""
        return {name: kind for name, kind in self.columns.items() if name not in self.metadata}

    def extended(self, added: Sequence[DataField]) -> Target:
        """Return a target with further columns."""
        return replace(self, columns={**self.columns, **{each.name: each.type for each in added}})


@dataclass(frozen=True)
class Changes:
    """Changes in the order of their events.

    Args:
        rows: the target's columns, and the kinds as ``_row_kind``.
        unavailable: which rows have no value of a column, as the event did not bring it: bool, one
            a row; by column, and only where there are any.
    """

    rows: pa.Table
    unavailable: Mapping[str, Bools]

    @staticmethod
    def joined(parts: Sequence[Changes], target: Target) -> Changes:
        """Put changes one after the other."""
        names = dict.fromkeys(name for part in parts for name in part.unavailable)
        masks = {
            name: np.concatenate(
                [part.unavailable.get(name, np.zeros(part.rows.num_rows, bool)) for part in parts]
            )
            for name in names
        }
        return Changes(pa.concat_tables([no_rows(target), *(part.rows for part in parts)]), masks)


def no_rows(target: Target) -> pa.Table:
    """Return changes of no events."""
    fields = [pa.field(name, kind.arrow) for name, kind in target.columns.items()]
    return pa.schema([*fields, pa.field(ROW_KIND, pa.string())]).empty_table()


@dataclass(frozen=True)
class RowOrder:
    """Orders the images that become rows, and names the kind of each.

    Args:
        places: int64, one a row: of images before (from 0), then of images after.
        kinds: int8, one a row.
        events: int64, one a row: the image's number, as both kinds of image are counted.
    """

    places: Ints
    kinds: Ints
    events: Ints


def order_of(images: int, takes: Bools, adds: Bools, kinds_of_adds: Ints) -> RowOrder:
    """Order rows: of each image first what was, then what is.

    Args:
        images: how many there are.
        takes: which images before become rows, -U or -D; bool, one an image.
        adds: which images after become rows.
        kinds_of_adds: INSERT or UPDATE_AFTER, one an image.
    """
    numbers = np.arange(images)
    chosen = np.stack([takes, adds], axis=1)
    places = np.stack([numbers, images + numbers], axis=1)[chosen]
    kinds_of_takes = np.where(adds, UPDATE_BEFORE, DELETE)
    kinds = np.stack([kinds_of_takes, kinds_of_adds], axis=1)[chosen].astype(np.int8)
    return RowOrder(places, kinds, np.stack([numbers, numbers], axis=1)[chosen])


def rows_of(
    target: Target,
    columns: ImageColumns,
    before: Image,
    after: Image,
    order: RowOrder,
    metadata: Mapping[str, pa.Array],
    *,
    markers: bool = True,
) -> Changes:
    """Make rows of images.

    Args:
        before, after: as many images of each.
        metadata: values of the metadata columns, one an image.
        markers: whether a text may say that a value is not available.

    Raises:
        InputError, pa.ArrowInvalid: a value that does not fit.
    """
    names = list(target.values)
    is_add = np.isin(order.kinds, (INSERT, UPDATE_AFTER))
    _check_present(target, names, before, after, order, is_add)
    unavailable: dict[str, Bools] = {}
    arrays: dict[str, pa.Array] = {}
    for name in names:
        old, new = before.column(name), after.column(name)
        marked = _marked(new) if markers else None
        if marked is not None:
            new = pc.if_else(pc.and_(marked, old.is_valid()), old, new)
        values = pa.concat_arrays([old, new]).take(pa.array(order.places))
        marked = _marked(values) if markers else None
        if marked is not None:
            unavailable[name] = marked.to_numpy(zero_copy_only=False)
            values = pc.if_else(marked, constants.null(values.type), values)
        arrays[name] = _named(name, columns, values)
    for name, per_image in metadata.items():
        arrays[name] = per_image.take(pa.array(order.events))
    kinds = _moves_as_deletes(target, arrays, order)
    _check_deletes(target, arrays, kinds == DELETE)
    free = {name: ~is_add | unavailable.get(name, False) for name in names}
    cast = [
        _cast(arrays[name], kind, name, target, free.get(name))
        for name, kind in target.columns.items()
    ]
    rows = pa.table([*cast, row_kind.names(pa.array(kinds))], [*target.columns, ROW_KIND])
    masks = {name: mask & is_add for name, mask in unavailable.items()}
    return Changes(rows, {name: mask for name, mask in masks.items() if mask.any()})


def _named(name: str, columns: ImageColumns, values: pa.Array) -> pa.Array:
    try:
        return columns.reading(name).decode(values)
    except (InputError, pa.ArrowInvalid) as error:
        raise InputError(f"column {name!r}: {error}", column=name) from None


def _check_present(
    target: Target, names: list[str], before: Image, after: Image, order: RowOrder, is_add: Bools
) -> None:
    """Check that rows to be written have all columns, and rows to be removed those of the key."""
    images = len(after.rows)
    there = np.concatenate([before.has(names), after.has(names)])[order.places]
    if not target.may_lack and not there[is_add].all():
        lacking = names[int(np.flatnonzero(~there[is_add].all(axis=0))[0])]
        raise InputError(
            f"the event lacks column {lacking!r}: say missing='null' if it is to be null",
            column=lacking,
        )
    keys = [names.index(key) for key in target.keys if key in names]
    if not there[:, keys].all():
        lacking = names[keys[int(np.flatnonzero(~there[:, keys].all(axis=0))[0])]]
        image = "before" if (~there[:, keys].all(axis=1) & (order.places < images)).any() else ""
        raise InputError(
            f"the image {image or 'after'} lacks column {lacking!r} of the primary key",
            column=lacking,
        )


def _marked(values: pa.Array) -> pa.Array | None:
    """Say which values are not there, as they did not change; None where all are."""
    kind = values.type
    if pa.types.is_list(kind) and pa.types.is_string(kind.value_type):
        values = pc.if_else(pc.equal(pc.list_value_length(values), 1), values, constants.null(kind))
        values = _only_elements(values)
    elif not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
        return None
    markers = _RAW_MARKERS if pa.types.is_binary(kind) else _MARKERS
    marked = pc.is_in(values, markers)
    return marked if pc.any(marked).as_py() else None


def _only_elements(lists: pa.Array) -> pa.Array:
    """Give the elements of lists of one; null for null."""
    found = pa.nulls(len(lists), lists.type.value_type)
    return pc.replace_with_mask(found, lists.is_valid(), lists.flatten())


def _moves_as_deletes(target: Target, arrays: Mapping[str, pa.Array], order: RowOrder) -> Ints:
    """Write an update that changes the key as a delete and an insert."""
    kinds = order.kinds
    pairs = np.flatnonzero(kinds == UPDATE_BEFORE)
    if not target.keys or not len(pairs):
        return kinds
    moved = np.zeros(len(pairs), bool)
    for key in target.keys:
        if key in target.metadata:
            continue
        old, new = arrays[key].take(pa.array(pairs)), arrays[key].take(pa.array(pairs + 1))
        same = pc.fill_null(pc.equal(old, new), False).to_numpy(zero_copy_only=False)
        moved |= ~same
    kinds = kinds.copy()
    kinds[pairs[moved]] = DELETE
    kinds[pairs[moved] + 1] = INSERT
    return kinds


def _check_deletes(target: Target, arrays: Mapping[str, pa.Array], deletes: Bools) -> None:
    """Check that deletes say when they were: without, they are older than every row.

    Raises:
        InputError: one does not.
    """
    for name in target.sequence:
        missing = arrays[name].is_null().to_numpy(zero_copy_only=False)
        if (missing & deletes).any():
            raise InputError(
                f"a delete does not bring {name!r}, the table's sequence.field: give the source's "
                "table the replica identity FULL, or have a member of the envelope be the column "
                "(metadata)",
                column=name,
            )


def _cast(
    values: pa.Array, kind: DataType, name: str, target: Target, free: Bools | None
) -> pa.ChunkedArray:
    """Cast values to the column's type.

    Args:
        free: rows that may be null in a NOT NULL column but the key's: they are rows to be removed,
            or get their value from what is stored. They are zero, or empty.
    """
    cast = cast_column(pa.chunked_array([values]), kind.with_nullable(True), name, rounding=True)
    if kind.nullable:
        return cast
    filled = pa.concat_arrays([*cast.chunks, absent(kind, 1)])
    holes = filled.is_null().to_numpy(zero_copy_only=False)[:-1]
    if free is not None and name not in target.keys:
        holes &= free
    if holes.any():
        last = len(filled) - 1
        cast = pa.chunked_array([filled.take(pa.array(np.where(holes, last, np.arange(last))))])
    elif not cast.null_count:
        return cast
    return cast_column(cast, kind, name)
