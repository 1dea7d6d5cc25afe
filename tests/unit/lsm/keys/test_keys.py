"""Normalised keys sort, group, search and cut as Python's own comparison does."""

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pkray.errors import UnsupportedError
from pkray.lsm.keys.key_groups import concat
from pkray.lsm.keys.keys import NormalizedKeys, sort_within_groups
from tests.effort import examples

_EPOCH = datetime.datetime(1970, 1, 1)

COLUMNS = {
    "bool": (pa.bool_(), st.booleans()),
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int32": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "few": (pa.int32(), st.integers(-2, 2)),
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "float": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "date": (pa.date32(), st.dates()),
    "time": (pa.time32("ms"), st.integers(0, 86_399_999)),
    "timestamp": (pa.timestamp("us"), st.datetimes()),
    "small decimal": (pa.decimal128(10, 2), st.decimals("-99999999.99", "99999999.99", places=2)),
    "wide decimal": (
        pa.decimal128(38, 3),
        st.decimals(-(10**34), 10**34, places=3, allow_nan=False),
    ),
    "string": (pa.string(), st.text(max_size=20)),
    "zeros": (pa.string(), st.text("\0a", max_size=10)),
    "prefixed": (
        pa.string(),
        st.text("ab", max_size=3).map(lambda text: "prefix-16-bytes-" + text),
    ),
    "binary": (pa.binary(), st.binary(max_size=20)),
}


def comparable(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return value


@st.composite
def key_columns(draw: st.DrawFn) -> tuple[list[pa.DataType], list[tuple]]:
    kinds = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=3))
    values = st.tuples(*[COLUMNS[kind][1] for kind in kinds])
    rows = draw(st.lists(values, min_size=1, max_size=30))
    rows += draw(st.lists(st.sampled_from(rows), max_size=20))
    return [COLUMNS[kind][0] for kind in kinds], draw(st.permutations(rows))


def normalized(types: list[pa.DataType], rows: list[tuple]) -> NormalizedKeys:
    columns = []
    for number, kind in enumerate(types):
        values = [row[number] for row in rows]
        if pa.types.is_time(kind):
            columns.append(pa.array(values, pa.int32()).cast(kind))
        else:
            columns.append(pa.array(values, kind))
    return NormalizedKeys(columns)


def as_comparable(rows: list[tuple]) -> list[tuple]:
    return [tuple(comparable(value) for value in row) for row in rows]


@settings(max_examples=examples(60))
@given(key_columns(), st.booleans())
def test_sort_is_the_order_of_the_values(keys: tuple, stable: bool) -> None:
    types, rows = keys
    order, starts = normalized(types, rows).sort(stable=stable)
    plain = as_comparable(rows)
    wanted = sorted(range(len(rows)), key=plain.__getitem__)
    if stable:
        assert order.tolist() == wanted
    assert [plain[row] for row in order] == [plain[row] for row in wanted]
    firsts = [n for n in range(len(rows)) if n == 0 or plain[order[n]] != plain[order[n - 1]]]
    assert starts.tolist() == firsts


@pytest.mark.parametrize("span", [4, 1 << 40, (1 << 63) - 1])
@pytest.mark.parametrize("low", [-(1 << 62), 0])
def test_rows_of_one_key_keep_their_order(span: int, low: int) -> None:
    random = np.random.default_rng(3)
    values = random.choice(low + random.integers(0, span, 500) // 4 * 4, 5000)
    order, starts = NormalizedKeys([pa.array(values)]).sort()
    assert order.tolist() == np.argsort(values, kind="stable").tolist()
    assert values[order[starts]].tolist() == np.unique(values).tolist()


@settings(max_examples=examples(30))
@given(key_columns())
def test_group_starts_of_sorted_rows(keys: tuple) -> None:
    types, rows = keys
    pairs = sorted(zip(as_comparable(rows), rows, strict=True), key=lambda pair: pair[0])
    rows = [row for _, row in pairs]
    plain = as_comparable(rows)
    starts = normalized(types, rows).group_starts()
    assert starts.tolist() == [n for n in range(len(rows)) if n == 0 or plain[n] != plain[n - 1]]


@settings(max_examples=examples(30))
@given(key_columns(), st.data())
def test_bounds_cut_sorted_keys_of_another_array(keys: tuple, data: st.DataObject) -> None:
    types, rows = keys
    cut = data.draw(st.integers(0, len(rows) - 1))
    bound = normalized(types, [rows[cut]]).bound(0)
    others = data.draw(st.lists(st.sampled_from(rows), min_size=1))
    pairs = sorted(zip(as_comparable(others), others, strict=True), key=lambda pair: pair[0])
    found = normalized(types, [row for _, row in pairs])
    limit = as_comparable([rows[cut]])[0]
    assert found.count_le(bound) == sum(key <= limit for key, _ in pairs)


@settings(max_examples=examples(30))
@given(key_columns())
def test_bounds_order_as_their_keys(keys: tuple) -> None:
    types, rows = keys
    bounds = [normalized(types, [row]).bound(0) for row in rows]
    plain = as_comparable(rows)
    for one, bound in zip(plain, bounds, strict=True):
        for other, other_bound in zip(plain, bounds, strict=True):
            assert (one < other) == (bound < other_bound)
            assert (one == other) == (bound == other_bound)


@settings(max_examples=examples(30))
@given(key_columns(), st.data())
def test_search_finds_what_is_there(keys: tuple, data: st.DataObject) -> None:
    types, rows = keys
    plain = dict(zip(as_comparable(rows), rows, strict=True))
    stored = sorted(data.draw(st.sets(st.sampled_from(sorted(plain)), min_size=1)))
    wanted = data.draw(st.lists(st.sampled_from(sorted(plain)), min_size=1))
    here = normalized(types, [plain[key] for key in stored])
    for is_packed in (False, True):
        if is_packed:
            here.prefix()
        positions, found = here.search(normalized(types, [plain[key] for key in wanted]))
        assert found.tolist() == [key in set(stored) for key in wanted]
        assert positions.tolist() == [sum(other < key for other in stored) for key in wanted]


@settings(max_examples=examples(60))
@given(
    st.lists(st.tuples(st.binary(max_size=9), st.integers(-9, 9)), min_size=1, max_size=30),
    st.lists(st.tuples(st.binary(max_size=11), st.integers(-20, 20)), min_size=1, max_size=30),
    st.integers(0, 9),
)
def test_keys_beyond_the_packed_ones_are_placed_around_them(
    rows: list, wanted: list, shared: int
) -> None:
    def begun(rows: list) -> list:
        return [(b"prefix-16-bytes-"[shared:] + text, number) for text, number in rows]

    types = [pa.binary(), pa.int64()]
    keys = normalized(types, begun(rows))
    order, starts = keys.sort()
    firsts = order[starts]
    stored = [begun(rows)[row] for row in firsts]
    columns = [
        pa.array(column, kind)
        for column, kind in zip(zip(*stored, strict=True), types, strict=True)
    ]
    positions, found = keys.taken(firsts, columns).search(normalized(types, begun(wanted)))
    assert found.tolist() == [key in set(stored) for key in begun(wanted)]
    assert positions.tolist() == [sum(one < key for one in stored) for key in begun(wanted)]


def test_nan_is_largest_and_one_key_and_so_are_both_zeros() -> None:
    odd_nan = np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
    values = np.concatenate([odd_nan, [np.inf, 0.0, -0.0, -np.inf]])
    order, starts = NormalizedKeys([pa.array(values, from_pandas=False)]).sort()
    assert order.tolist() == [5, 3, 4, 2, 0, 1]
    assert starts.tolist() == [0, 1, 3, 4]


def test_nulls_are_smallest_either_way() -> None:
    column = pa.array([3, None, 1])
    assert NormalizedKeys([column]).argsort().tolist() == [1, 2, 0]
    assert NormalizedKeys([column], [True]).argsort().tolist() == [1, 0, 2]


@pytest.mark.parametrize("values", [["b", "", "ab", "a\0", "a"], [b"b", b"", b"ab", b"a\0", b"a"]])
def test_descending_strings(values: list) -> None:
    order = NormalizedKeys([pa.array(values)], [True]).argsort()
    assert [values[n] for n in order] == sorted(values, reverse=True)


def test_slices_of_arrays_have_their_own_keys() -> None:
    texts = pa.array(["zz", "b", "a", "b", "yy"]).slice(1, 3)
    numbers = pa.array([9, 2, 1, 2, 8]).slice(1, 3)
    assert NormalizedKeys([texts]).argsort().tolist() == [1, 0, 2]
    assert NormalizedKeys([numbers]).argsort().tolist() == [1, 0, 2]


def test_no_rows() -> None:
    order, starts = NormalizedKeys([pa.array([], pa.string())]).sort()
    assert len(order) == 0
    assert len(starts) == 0


def test_groups_sorted_by_other_columns() -> None:
    keys = NormalizedKeys([pa.array([1, 2, 1, 1])])
    order, starts = keys.sort()
    later = NormalizedKeys([pa.array([5, 0, None, 5])])
    assert sort_within_groups(order, starts, later).tolist() == [2, 0, 3, 1]


def test_types_without_order_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="list"):
        NormalizedKeys([pa.array([[1]])])


def test_decimals_compare_as_numbers() -> None:
    values = [decimal.Decimal(text) for text in ("-1.1", "-1.2", "0", "1e20", "-1e20")]
    column = pa.array(values, pa.decimal128(38, 1))
    order = NormalizedKeys([column]).argsort()
    assert [values[n] for n in order] == sorted(values)


@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.bool_(), pa.list_(pa.int64())])
def test_slices_side_by_side_become_one_as_others_do(kind: pa.DataType) -> None:
    values = {pa.bool_(): [True, None, False], pa.string(): ["a", None, "bcd"]}
    some = values.get(kind, [[1, 2], None, []] if pa.types.is_nested(kind) else [1, None, 3])
    rows = pa.record_batch([pa.array(some * 4, kind)], ["v"])
    cuts = [rows.slice(1, 3), rows.slice(4, 0), rows.slice(4, 5)]
    assert concat(cuts).equals(rows.slice(1, 8))
    assert concat(cuts[::-1]).column(0).to_pylist() == (some * 4)[4:9] + (some * 4)[1:4]


def test_slices_side_by_side_are_not_copied() -> None:
    rows = pa.record_batch([pa.array(range(100))], ["v"])
    joined = concat([rows.slice(10, 20), rows.slice(30, 40)])
    assert joined.column(0).buffers()[1].address == rows.column(0).buffers()[1].address
