"""Parts of nested values that are NOT NULL, where the values that they are of are NULL."""

import pyarrow as pa
import pyarrow.compute as pc


def has_required_parts(kind: pa.DataType) -> bool:
    """Whether a part of a row, at any depth of a type, is NOT NULL."""
    if pa.types.is_map(kind):  # its entries are no row of NULL parts: a key is there with its map
        return has_required_parts(kind.key_type) or has_required_parts(kind.item_type)
    parts = [kind.field(place) for place in range(kind.num_fields)]
    required = pa.types.is_struct(kind) and not all(each.nullable for each in parts)
    return required or any(has_required_parts(each.type) for each in parts)


def with_required_parts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Give parts that are NOT NULL some value below NULL: PyArrow writes no NULLs of such parts.

    Parts that are NULL where the value that they are of is not stay so, and are refused.
    """
    return pa.chunked_array([_filled(each) for each in column.chunks], column.type)


def _filled(array: pa.Array) -> pa.Array:
    kind = array.type
    if not has_required_parts(kind):
        return array
    if not pa.types.is_struct(kind):
        return _of_items(array, _filled(array.values), array.buffers()[0])
    return _row(array, array.is_null())


def _row(array: pa.StructArray, hidden: pa.BooleanArray) -> pa.StructArray:
    fields = [array.type.field(place) for place in range(array.type.num_fields)]
    parts = [
        _filled(part if field.nullable else _without_nulls(part, hidden))
        for field, part in zip(fields, map(array.field, range(len(fields))), strict=True)
    ]
    return pa.StructArray.from_arrays(parts, fields=fields, mask=hidden)


def _without_nulls(part: pa.Array, hidden: pa.BooleanArray) -> pa.Array:
    """Fill the NULLs, if all of them are of rows that are hidden."""
    if not part.null_count or pc.any(pc.and_not(part.is_null(), hidden)).as_py():
        return part
    if pa.types.is_struct(part.type):
        filled = _row(part, part.is_null())
        places = range(part.type.num_fields)
        parts = [filled.field(place) for place in places]
        return pa.StructArray.from_arrays(parts, fields=[part.type.field(each) for each in places])
    if part.type.num_fields:
        return _of_items(part, part.values, None)
    return pa.Array.from_buffers(part.type, len(part), [None, *part.buffers()[1:]], 0, part.offset)


def _of_items(array: pa.Array, items: pa.Array, validity: pa.Buffer | None) -> pa.Array:
    """Make a list, or a map, of other items."""
    buffers = [validity, array.buffers()[1]]
    return pa.Array.from_buffers(
        array.type, len(array), buffers, -1 if validity else 0, array.offset, [items]
    )
