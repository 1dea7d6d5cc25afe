"""Functions whose values are lists and maps: collect, merge_map, nested_update."""

from abc import abstractmethod
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.keys import value_codes
from pkray.errors import SchemaError
from pkray.lsm.engines.functions.function import SkippingNulls
from pkray.lsm.engines.segments import Bools, Ints, Segments
from pkray.lsm.keys.key_groups import taken
from pkray.lsm.keys.list_parts import first_of_each, list_array, list_parts, runs_of_equal
from pkray.options.fields import FieldOptions
from pkray.schema.types import DataType


class _OfElements(SkippingNulls):
    """Merges lists: each element of a key's lists is an event; what stays of them is the result."""

    takes_back: ClassVar[bool] = True

    def merge_values(self, column: pa.Array, rows: Segments) -> pa.Array:
        values = taken(column, pa.array(rows.order))
        lengths, elements = list_parts(values)
        segment = np.repeat(rows.of_place(), lengths)
        back = None if rows.retract is None else np.repeat(rows.retract, lengths)
        rank = None
        if rows.late is not None:
            place = np.arange(len(rows.order))
            rank = np.repeat(np.where(rows.late, -place, place), lengths)
        kept = self.kept(elements, segment, back, rank)
        if kept is not None:
            elements, segment = pc.take(elements, pa.array(kept)), segment[kept]
        counts = np.bincount(segment, minlength=len(rows))
        offsets = np.concatenate([[0], np.cumsum(counts)])
        filled = None
        if rows.retract is not None:
            filled = np.logical_or.reduceat(~rows.retract, rows.starts)
        return rows.spread(list_array(column.type, offsets, elements, filled))

    @abstractmethod
    def kept(
        self, elements: pa.Array, segment: Ints, back: Bools | None, rank: Ints | None
    ) -> Ints | None:
        """Return the numbers of the elements that stay, by segment; None if all do.

        Args:
            back: whether each element takes back; None: none does.
            rank: where each element goes among those that are there; None: as they come.
        """


class Collect(_OfElements):
    """Collects all elements in order; taking back removes the first equal one.

    With ``fields.<field>.distinct`` each value once.
    """

    name: ClassVar[str] = "collect"
    roots: ClassVar[tuple[str, ...] | None] = ("ARRAY",)

    def __init__(self, field: str, data_type: DataType, options: FieldOptions) -> None:
        super().__init__(field, data_type, options)
        self.by_arrival = not self.ignores_retract
        self.distinct = options.distinct
        self.keeps_single = not self.distinct

    def kept(
        self, elements: pa.Array, segment: Ints, back: Bools | None, rank: Ints | None
    ) -> Ints | None:
        if self.distinct:
            code = value_codes(elements)
            left = _since_last_back(segment, code, back)
            if left is None:
                return np.flatnonzero(first_of_each(segment, code))
            return left[first_of_each(segment[left], code[left])]
        if back is None or not back.any():
            return None
        order, starts = runs_of_equal(segment, value_codes(elements))
        sizes = np.diff(starts, append=len(order))
        is_back = back[order]
        level = np.cumsum(np.where(is_back, -1, 1))
        before = np.repeat(np.append(0, level[starts[1:] - 1]), sizes)
        level -= before
        # What takes back from nothing does nothing.
        stay = level[starts + sizes - 1] - np.minimum(np.minimum.reduceat(level, starts), 0)
        added = np.cumsum(~is_back)
        added_of_run = added[starts + sizes - 1]
        from_end: Ints = np.repeat(added_of_run, sizes) - added
        return np.sort(order[~is_back & (from_end < np.repeat(stay, sizes))])


class MergeMap(_OfElements):
    """Entries by key, the last one of each; taking back removes keys whatever their values."""

    name: ClassVar[str] = "merge_map"
    knows_late: ClassVar[bool] = True
    roots: ClassVar[tuple[str, ...] | None] = ("MAP",)

    def kept(
        self, elements: pa.Array, segment: Ints, back: Bools | None, rank: Ints | None
    ) -> Ints | None:
        return _last_of_each(segment, value_codes(elements.field("key")), back, rank)


class NestedUpdate(_OfElements):
    """Rows of a nested table.

    With ``fields.<field>.nested-key`` the last one of each key, and taking back removes a key.
    Without, all of them, and taking back removes all equal ones. Null rows are left out. A list
    that no other is merged with stays as it is, null rows and rows of one key included.
    """

    name: ClassVar[str] = "nested_update"
    knows_late: ClassVar[bool] = True
    roots: ClassVar[tuple[str, ...] | None] = ("ARRAY",)

    def __init__(self, field: str, data_type: DataType, options: FieldOptions) -> None:
        super().__init__(field, data_type, options)
        self.keys = options.nested_key
        nested = data_type.element
        columns = [column.name for column in (nested.fields or ())] if nested else []
        missing = [name for name in self.keys if name not in columns]
        if not columns or missing:
            raise SchemaError(
                f"column {field!r} is {data_type}; the aggregate function {self.name!r} takes an "
                f"ARRAY of ROW{f' with {missing[0]!r}, its nested-key' if missing else ''}",
                field=field,
                function=self.name,
                type=str(data_type),
            )

    def merge_values(self, column: pa.Array, rows: Segments) -> pa.Array:
        merged = super().merge_values(column, rows)
        first = rows.starts if rows.retract is None else rows.first_place(~rows.retract)
        alone = first == rows.ends - 1
        if not alone.any():
            return merged
        numbers = rows.numbers(np.where(alone, first, -1))
        keys = np.flatnonzero(numbers >= 0)
        places = np.arange(len(merged))
        places[keys] = len(merged) + np.arange(len(keys))
        single = taken(column, pa.array(numbers[keys]))
        return taken(pa.concat_arrays([merged, single]), pa.array(places))

    def kept(
        self, elements: pa.Array, segment: Ints, back: Bools | None, rank: Ints | None
    ) -> Ints | None:
        valid = None
        if elements.null_count:
            valid = np.flatnonzero(pc.is_valid(elements).to_numpy(zero_copy_only=False))
            elements, segment = pc.take(elements, pa.array(valid)), segment[valid]
            back = None if back is None else back[valid]
            rank = None if rank is None else rank[valid]
        if self.keys:
            names = elements.type.names
            children = elements.flatten()
            chosen = [children[names.index(name)] for name in self.keys]
            key = pa.StructArray.from_arrays(chosen, names=list(self.keys))
            kept: Ints | None = _last_of_each(segment, value_codes(key), back, rank)
        else:
            kept = _since_last_back(segment, value_codes(elements), back)
            if rank is not None:
                kept = np.arange(len(elements)) if kept is None else kept
                kept = _ranked(kept, kept, segment, rank)
        if valid is None:
            return kept
        return valid if kept is None else valid[kept]


def _last_of_each(segment: Ints, code: Ints, back: Bools | None, rank: Ints | None) -> Ints:
    """Return the last element of each code since it was taken back, in the order the codes came
    first.

    Args:
        rank: the order in which they count, below 0 of late ones, which move no other; None: as
            they come.
    """
    left = _since_last_back(segment, code, back)
    numbers = np.arange(len(code)) if left is None else left
    if rank is not None:
        numbers = numbers[np.argsort(rank[numbers], kind="stable")]
    order, starts = runs_of_equal(segment[numbers], code[numbers])
    if not len(order):
        return order
    last = np.append(starts[1:], len(order)) - 1
    chosen = numbers[order[last]]
    if rank is None:
        return chosen[np.argsort(numbers[order[starts]], kind="stable")]
    places = np.arange(len(order))
    first = np.minimum.reduceat(np.where(rank[numbers[order]] < 0, len(order), places), starts)
    return _ranked(chosen, numbers[order[np.minimum(first, last)]], segment, rank)


def _ranked(numbers: Ints, beside: Ints, segment: Ints, rank: Ints) -> Ints:
    """Sort numbers of elements by the ``beside`` of each: by segment, then by rank."""
    return numbers[np.lexsort((beside, rank[beside], segment[beside]))]


def _since_last_back(segment: Ints, code: Ints, back: Bools | None) -> Ints | None:
    """Return elements after the last one that took an equal one back; None: none did."""
    if back is None or not back.any():
        return None
    order, starts = runs_of_equal(segment, code)
    sizes = np.diff(starts, append=len(order))
    places = np.arange(len(order))
    last = np.maximum.reduceat(np.where(back[order], places, -1), starts)
    return np.sort(order[places > np.repeat(last, sizes)])
