"""Values that events do not bring, as they did not change: those that the rows have already."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray import constants
from pkray.cdc.row_changes import ROW_KIND, Changes
from pkray.errors import InputError
from pkray.table.table import Table

Ints = Any
_REMOVALS = constants.texts(["-D", "-U"])
_NOWHERE = -1


def with_stored_values(changes: Changes, table: Table) -> pa.Table:
    """Return the rows of changes with the values that they do not bring.

    A value is that of the newest row of the same key before it: among the changes, or else in the
    table, with what is written and not committed.

    Raises:
        InputError: there is no such row.
    """
    rows = changes.rows
    if not changes.unavailable:
        return rows
    keys = rows.select(list(table.primary_keys)).combine_chunks()
    groups = _groups(keys)
    kinds = pc.index_in(rows.column(ROW_KIND), _REMOVALS).combine_chunks()
    is_add = kinds.is_null().to_numpy(zero_copy_only=False)
    is_delete = pc.equal(kinds, 0).fill_null(False).to_numpy(zero_copy_only=False)
    for name, missing in changes.unavailable.items():
        sources = _newest_before(groups, is_delete | (is_add & ~missing))[missing]
        sources[(sources >= 0) & is_delete[np.maximum(sources, 0)]] = len(rows)
        wanted = np.flatnonzero(missing)
        column = rows.column(name).combine_chunks()
        stored, places = _stored(table, keys.take(pa.array(wanted)), name, sources == _NOWHERE)
        gone = (places < 0) & (sources < 0) | (sources == len(rows))
        if gone.any():
            key = keys.slice(int(wanted[gone][0]), 1).to_pylist()[0]
            raise InputError(
                f"column {name!r} of the row {key} did not change, says its event, and there is no "
                "such row: load the table from a snapshot of the source first",
                column=name,
                key=key,
            )
        own = np.arange(len(rows))
        own[wanted] = np.where(sources >= 0, sources, len(rows) + places)
        joined = pa.chunked_array([column, *stored.cast(column.type).chunks])
        filled = joined.take(pa.array(own))
        rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), filled)
    return rows


def _groups(keys: pa.Table) -> Ints:
    """Number the keys: equal rows have equal numbers."""
    codes = np.zeros(keys.num_rows, np.int64)
    for column in keys.columns:
        encoded = pa.concat_arrays(column.chunks).dictionary_encode()
        codes = codes * (len(encoded.dictionary) + 1) + encoded.indices.to_numpy()
        codes = np.unique(codes, return_inverse=True)[1]
    return codes


def _newest_before(groups: Ints, counts: Any) -> Ints:
    """Find for each row the newest row of its group that counts, at or before it; -1: none."""
    order = np.argsort(groups, kind="stable")
    sorted_groups = groups[order]
    starts = np.flatnonzero(np.concatenate(([True], sorted_groups[1:] != sorted_groups[:-1])))
    first = np.repeat(starts, np.diff(np.append(starts, len(groups))))
    place = np.where(counts[order], np.arange(len(groups)), -1)
    newest = np.maximum.accumulate(place)
    found = np.full(len(groups), _NOWHERE)
    found[order] = np.where(newest >= first, order[np.maximum(newest, 0)], _NOWHERE)
    return found


def _stored(table: Table, keys: pa.Table, name: str, wanted: Any) -> tuple[pa.ChunkedArray, Ints]:
    """Look up the stored values of a column.

    Args:
        wanted: for which of the keys.

    Returns:
        Values, and where each key has its: int64, -1 where it has none.
    """
    places = np.full(keys.num_rows, _NOWHERE)
    numbers = np.flatnonzero(wanted)
    if not len(numbers):
        return pa.chunked_array([], table.arrow_schema.field(name).type), places
    asked = keys.take(pa.array(numbers))
    names = asked.column_names
    found = table.lookup(asked.group_by(names).aggregate([]), columns=[*names, name])
    known = found.select(names)
    groups = _groups(pa.concat_tables([known, asked.cast(known.schema)]).combine_chunks())
    of_group = np.full(int(groups.max()) + 1, _NOWHERE)
    of_group[groups[: len(found)]] = np.arange(len(found))
    places[numbers] = of_group[groups[len(found) :]]
    return found.column(name), places
