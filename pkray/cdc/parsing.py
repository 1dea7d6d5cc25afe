"""Texts of JSON objects as columns, row for row."""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from pkray import constants
from pkray.errors import InputError

_NOTHING, _LINE_FEED = constants.texts(["", "\n"]).cast(pa.large_string())


def checked_texts(texts: pa.Array) -> pa.Array:
    """Check that texts without nulls begin and end as objects do, and are UTF-8.

    Returns:
        large_string, each ended by a line feed: no string of JSON goes over it, so that what is
        read of them together is what each of them says.

    Raises:
        InputError: one is no object.
        pa.ArrowInvalid: one is not UTF-8.
    """
    texts = pc.ascii_trim_whitespace(texts.cast(pa.large_string()))
    is_object = pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))
    if not pc.all(is_object, min_count=0).as_py():
        raise InputError("it is no JSON object, from { to }: write one a record")
    return lines(texts)


def lines(texts: pa.Array) -> pa.Array:
    """End each text, of large_string, by a line feed."""
    return pc.binary_join_element_wise(texts, _NOTHING, _LINE_FEED)


def parsed(texts: pa.Array, schema: pa.Schema, unexpected: str = "ignore") -> pa.Table:
    """Read texts, as `checked_texts` gives them, into columns.

    Args:
        schema: types of members; others are as ``unexpected`` says: ``ignore`` or ``infer``.

    Raises:
        pa.ArrowInvalid: one is no JSON, or a value is of another type.
        InputError: a text has several objects.
    """
    texts = pa.concat_arrays([texts])
    _, offsets, data = texts.buffers()
    bounds = pa.Array.from_buffers(pa.int64(), len(texts) + 1, [None, offsets], offset=texts.offset)
    start, stop = bounds[0].as_py(), bounds[len(texts)].as_py()
    table = pa_json.read_json(
        pa.BufferReader(data.slice(start, stop - start)),
        read_options=pa_json.ReadOptions(block_size=min(stop - start + 1, 2**31 - 1)),
        parse_options=pa_json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior=unexpected
        ),
    )
    if table.num_rows != len(texts):
        raise InputError("it is several JSON objects: write one a record")
    return table.combine_chunks()
