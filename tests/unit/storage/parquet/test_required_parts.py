"""NULL rows whose parts are NOT NULL are written."""

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pkray.storage.parquet.required_parts import has_required_parts, with_required_parts

PAIR = pa.struct([pa.field("a", pa.int32(), False), pa.field("b", pa.string(), False)])
OUTER = pa.struct(
    [
        pa.field("pair", PAIR, False),
        pa.field("numbers", pa.list_(pa.int32()), False),
        pa.field("flag", pa.bool_(), False),
        pa.field("some", PAIR),
    ]
)
ONE = {"a": 1, "b": "x"}
FULL = {"pair": ONE, "numbers": [1, None], "flag": True, "some": None}


def loose(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, loose(each.type)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, loose(kind.item_type))
    return pa.list_(loose(kind.value_type)) if pa.types.is_list(kind) else kind


def strict(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Make an array whose parts are NULL where their rows are, as kernels give it."""
    made = pa.array(values, loose(kind))
    return pa.Array._import_from_c_capsule(kind.__arrow_c_schema__(), made.__arrow_c_array__()[1])


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (PAIR, [ONE, None, ONE]),
        (PAIR, [None, None]),
        (OUTER, [None, FULL, None]),
        (pa.list_(PAIR), [[ONE, None], None, [], [None]]),
        (pa.map_(pa.string(), PAIR), [[("k", ONE), ("l", None)], None, []]),
    ],
    ids=["row", "all-null", "row-of-rows", "list", "map"],
)
@pytest.mark.parametrize("start", [0, 1])
def test_null_rows_of_required_parts_are_written(
    kind: pa.DataType, values: list[Any], start: int
) -> None:
    column = pa.chunked_array([strict(values, kind).slice(start)])
    made = with_required_parts(column)
    made.validate(full=True)
    assert made.type == kind
    out = io.BytesIO()
    pq.write_table(pa.table({"x": made}), out)
    assert pq.read_table(out)["x"].to_pylist() == values[start:]


def test_a_part_that_is_null_by_itself_stays_so_and_is_refused() -> None:
    made = with_required_parts(pa.chunked_array([strict([{"a": None, "b": "x"}], PAIR)]))
    assert made.chunk(0).field(0).null_count == 1
    with pytest.raises(pa.ArrowInvalid, match="non-nullable"):
        pq.write_table(pa.table({"x": made}), io.BytesIO())


def test_types_without_required_parts_are_left_alone() -> None:
    assert not has_required_parts(loose(OUTER))
    assert not has_required_parts(pa.map_(pa.string(), pa.int32()))
