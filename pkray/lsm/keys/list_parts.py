"""Split lists and maps into lengths and elements, and put them together again."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def list_parts(values: pa.Array) -> tuple[Ints, pa.Array]:
    """Split lists or maps: how many elements each has, null ones none, and all elements.

    The elements of maps are structs of ``key`` and ``value``.
    """
    offsets = np.asarray(values.offsets)
    lengths = np.diff(offsets).astype(np.int64)
    if values.null_count:
        empty = pc.is_null(values).to_numpy(zero_copy_only=False)
        if lengths[empty].any():
            values = pc.take(values, pa.array(np.arange(len(values))))
            return list_parts(values)
        lengths[empty] = 0
    first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    elements = _entries(values) if pa.types.is_map(values.type) else values.values
    return lengths, elements.slice(first, last - first)


def _entries(values: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([values.keys, values.items], names=["key", "value"])


def list_array(
    kind: pa.DataType, offsets: np.ndarray, elements: pa.Array, valid: Bools | None = None
) -> pa.Array:
    """Make a list or map array of exactly this type.

    Args:
        offsets: where each list begins, and where the last one ends.
        elements: for a map structs of key and value.
    """
    mask = None if valid is None or valid.all() else pa.array(valid).buffers()[1]
    starts = pa.py_buffer(np.ascontiguousarray(offsets, np.int32))
    count = len(offsets) - 1
    if pa.types.is_map(kind):
        pairs = [elements.field("key"), elements.field("value")]
        fields = [kind.key_field, kind.item_field]
        elements = pa.StructArray.from_arrays(pairs, fields=fields)
    return pa.Array.from_buffers(kind, count, [mask, starts], children=[elements])


def first_of_each(segment: Ints, code: Ints) -> Bools:
    """Whether each element is the first with its code in its segment: bool, one an element;
    ``segment`` and ``code``: int64 likewise."""
    order, starts = runs_of_equal(segment, code)
    first = np.zeros(len(order), bool)
    first[order[starts]] = True
    return first


def runs_of_equal(segment: Ints, code: Ints) -> tuple[Ints, Ints]:
    """Sort elements by segment, code and place, and find where each new pair starts: int64 both."""
    if not len(code):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    pair = segment * (int(code.max()) + 1) + code
    order = np.argsort(pair, kind="stable")
    ordered = pair[order]
    return order, np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
