"""Equality of nested values, against Python."""

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pkray.lsm.keys.equality import equal_values
from tests.effort import examples
from tests.lsm_samples import Bucket, make_schema

NAN = float("nan")
SCALARS = [
    (pa.int64(), st.integers(0, 1)),
    (pa.float64(), st.sampled_from([0.0, 1.5, NAN])),
    (pa.string(), st.sampled_from(["", "a"])),
]


@st.composite
def nested_types(draw: st.DrawFn, depth: int = 3) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    """A type, and values of it as pyarrow takes them."""
    kind = draw(st.sampled_from(["scalar", "list", "map", "struct"])) if depth else "scalar"
    if kind == "scalar":
        return draw(st.sampled_from(SCALARS))
    inner, values = draw(nested_types(depth - 1))
    some = st.none() | values
    if kind == "list":
        return pa.list_(inner), st.lists(some, max_size=2)
    if kind == "map":
        keys = st.sampled_from(["p", "q", "r"])
        pairs = st.lists(st.tuples(keys, some), max_size=3, unique_by=lambda pair: pair[0])
        return pa.map_(pa.string(), inner), pairs
    second, others = draw(nested_types(depth - 1))
    struct = pa.struct([("x", inner), ("y", second)])
    return struct, st.fixed_dictionaries({"x": some, "y": st.none() | others})


def comparable(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_map(kind):
        return frozenset((key, comparable(item, kind.item_type)) for key, item in value)
    if pa.types.is_list(kind):
        return ("list", *(comparable(item, kind.value_type) for item in value))
    if pa.types.is_struct(kind):
        return ("row", *(comparable(value[f.name], f.type) for f in kind))
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


@settings(max_examples=examples(50))
@given(st.data())
def test_values_are_equal_as_pythons(data: st.DataObject) -> None:
    kind, values = data.draw(nested_types())
    pairs = data.draw(st.lists(st.tuples(st.none() | values, st.none() | values), max_size=6))
    pairs += [(one, one) for one, _ in pairs]
    offset = data.draw(st.integers(0, len(pairs)))
    one = pa.array([one for one, _ in pairs], kind).slice(offset)
    other = pa.array([other for _, other in pairs], kind).slice(offset)
    expected = [comparable(one, kind) == comparable(other, kind) for one, other in pairs]
    assert equal_values(one, other).tolist() == expected[offset:]


def test_the_order_of_a_maps_entries_does_not_matter() -> None:
    kind = pa.map_(pa.string(), pa.map_(pa.int32(), pa.list_(pa.float64())))
    one = pa.array([[("a", [(1, [NAN]), (2, None)]), ("b", None)], [("a", [])]], kind)
    other = pa.array([[("b", None), ("a", [(2, None), (1, [NAN])])], [("a", None)]], kind)
    assert equal_values(one, other).tolist() == [True, False]


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_row_deduplicate_compares_nested_values(producer: str) -> None:
    columns = (
        ("k", "BIGINT NOT NULL"),
        ("m", "MAP<STRING, ARRAY<ROW<x DOUBLE, y DECIMAL(20, 2)>>>"),
    )
    bucket = Bucket(make_schema(columns, producer=producer, row_deduplicate="true"))
    deep = [{"x": NAN, "y": None}, None, {"x": None, "y": 1}]
    first = [("+I", 1, [("a", deep), ("b", [])]), ("+I", 2, None), ("+I", 3, []), ("+I", 4, [])]
    bucket.write(*first)
    bucket.commit(full=True)
    again = [("b", []), ("a", deep)]
    bucket.write(("+I", 1, again), ("+I", 2, None), ("+I", 3, None), ("+I", 4, [("a", None)]))
    changes = bucket.commit(full=True)
    assert [(kind, key) for kind, key, _ in changes] == [
        ("-U", 3), ("+U", 3), ("-U", 4), ("+U", 4),
    ]  # fmt: skip
