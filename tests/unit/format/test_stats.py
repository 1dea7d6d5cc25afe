"""Statistics of columns, and the order of keys."""

from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkray.errors import OptionError
from pkray.format.binary_row import EMPTY_ROW, decode, encode
from pkray.format.data_file import SimpleStats
from pkray.format.key_range import rank_keys, rank_ranges
from pkray.format.stats import StatsCollector, column_modes
from pkray.schema.table_schema import TableSchema
from pkray.schema.types import DataType


def collect(
    kind: DataType, *batches: list[Any], mode: str = "truncate(16)"
) -> tuple[Any, Any, Any]:
    """Minimum, maximum and null count over batches of one column."""
    collector = StatsCollector(["c"], [kind], mode)
    for values in batches:
        collector.update(pa.table({"c": pa.array(values, kind.arrow)}))
    stats = collector.finish()
    stored = DataType("INT") if kind.is_nested else kind
    (column,) = decode([stats.min_values, stats.max_values], [stored])
    return column[0].as_py(), column[1].as_py(), stats.null_counts[0]


CASES = [
    ("BOOLEAN", [True, False], [True], (False, True)),
    ("TINYINT", [3, -4], [5], (-4, 5)),
    ("BIGINT", [2**63 - 1], [-(2**63)], (-(2**63), 2**63 - 1)),
    ("FLOAT", [1.5], [-2.5], (-2.5, 1.5)),
    ("DOUBLE", [float("inf")], [0.5], (0.5, float("inf"))),
    ("DECIMAL(5, 2)", [Decimal("-1.50")], [Decimal("2.25")], (Decimal("-1.50"), Decimal("2.25"))),
    (
        "DECIMAL(38, 2)",
        [Decimal("-123456789012345678901234.50")],
        [Decimal("0.01")],
        (Decimal("-123456789012345678901234.50"), Decimal("0.01")),
    ),
    ("STRING", ["b", "é"], ["a"], ("a", "é")),
    ("DATE", [date(2024, 1, 1)], [date(1969, 1, 1)], (date(1969, 1, 1), date(2024, 1, 1))),
    ("TIME(3)", [time(1)], [time(0, 0, 1)], (time(0, 0, 1), time(1))),
    (
        "TIMESTAMP(6)",
        [datetime(2024, 1, 1, microsecond=7)],
        [datetime(1969, 12, 31, 23, 59, 59, 999999)],
        (datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2024, 1, 1, microsecond=7)),
    ),
]


@pytest.mark.parametrize(("kind", "first", "second", "bounds"), CASES)
def test_bounds_over_batches_without_nulls(
    kind: str, first: list[Any], second: list[Any], bounds: tuple[Any, Any]
) -> None:
    found = collect(DataType.parse(kind), [*first, None], second, [None], [])
    assert found == (*bounds, 2)


@pytest.mark.parametrize("odd", ["", "y"])
def test_bounds_of_many_strings_over_batches(odd: str) -> None:
    middle = [f"{number:08}" for number in range(3000, 6000)]
    batches = [
        middle,
        middle[1:-1],  # between those before
        [*middle[1:], "00006000a", odd + "00002000b"],
        [*middle[1:], "00002000a", "00006000"],
        [*middle[:-1], "00001"],
    ]
    low, high = min(map(min, batches)), max(map(max, batches))
    columns = [pa.array(values) for values in batches]
    collector = StatsCollector(["c"], [DataType("STRING")])
    for column in columns:
        collector.update(pa.RecordBatch.from_arrays([column], ["c"]))
    stats = collector.finish()
    (column,) = decode([stats.min_values, stats.max_values], [DataType("STRING")])
    assert column.to_pylist() == [low, high]


def test_nanoseconds_are_kept() -> None:
    kind = DataType.parse("TIMESTAMP(9)")
    values = pa.array([-1, 1_700_000_000_123_456_789], pa.int64()).view(kind.arrow)
    collector = StatsCollector(["c"], [kind])
    collector.update(pa.table({"c": values}))
    stats = collector.finish()
    (column,) = decode([stats.min_values, stats.max_values], [kind])
    assert column.view(pa.int64()).to_pylist() == [-1, 1_700_000_000_123_456_789]


def test_nothing_but_nulls_has_no_bounds() -> None:
    assert collect(DataType("INT"), [None, None]) == (None, None, 2)


def test_no_rows_have_no_bounds() -> None:
    assert collect(DataType("STRING")) == (None, None, 0)


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
def test_nan_in_any_batch_leaves_no_bounds(kind: str) -> None:
    found = collect(DataType(kind), [1.0], [float("nan"), None], [2.0])
    assert found == (None, None, 1)


def test_zeros_bound_each_other() -> None:
    low, high, _ = collect(DataType("DOUBLE"), [0.0])
    assert (str(low), str(high)) == ("-0.0", "0.0")
    low, high, _ = collect(DataType("DOUBLE"), [-0.0])
    assert (str(low), str(high)) == ("-0.0", "0.0")


def test_bytes_have_only_null_counts() -> None:
    assert collect(DataType("BYTES"), [b"a", None]) == (None, None, 1)


def test_nested_columns_have_nothing() -> None:
    kind = DataType("ARRAY", element=DataType("INT"))
    assert collect(kind, [[1], None]) == (None, None, None)


LAST = chr(0x10FFFF)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("short", "short", "short"),
        ("x" * 16, "x" * 16, "x" * 16),
        ("x" * 17, "x" * 16, "x" * 15 + "y"),
        ("é" * 40, "é" * 16, "é" * 15 + "ê"),
        ("😀" * 20, "😀" * 16, "😀" * 15 + "😁"),
        ("a" + LAST * 20, "a" + LAST * 15, "b"),
        ("x" * 15 + "\ud7ff" + "x", "x" * 15 + "\ud7ff", "x" * 15 + "\ue000"),
        (LAST * 17, None, None),
    ],
)
def test_strings_are_cut_to_16_characters(text: str, low: str, high: str) -> None:
    assert collect(DataType("STRING"), [text]) == (low, high, 0)


@given(st.lists(st.text(max_size=6), min_size=1), st.integers(1, 4))
def test_cut_strings_still_bound_all_values(values: list[str], length: int) -> None:
    low, high, _ = collect(DataType("STRING"), values, mode=f"truncate({length})")
    if low is not None:
        assert all(low.encode() <= value.encode() <= high.encode() for value in values)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("none", (None, None, None)),
        ("counts", (None, None, 1)),
        ("full", ("x" * 20, "x" * 20, 1)),
        ("TRUNCATE(3)", ("xxx", "xxy", 1)),
    ],
)
def test_modes(mode: str, expected: tuple[Any, ...]) -> None:
    assert collect(DataType("STRING"), ["x" * 20, None], mode=mode) == expected


@pytest.mark.parametrize("mode", ["some", "truncate(0)", "truncate()"])
def test_unknown_modes_are_refused(mode: str) -> None:
    with pytest.raises(OptionError, match="stats-mode"):
        StatsCollector(["c"], [DataType("INT")], mode)


def test_modes_of_columns_come_from_the_options() -> None:
    options = {"metadata.stats-mode": "counts", "fields.v.stats-mode": "full"}
    schema = TableSchema.create([("k", "INT NOT NULL"), ("v", "STRING")], ["k"], (), options)
    assert column_modes(schema.core, ["v", "k"]) == ["full", "counts"]


def test_some_columns_in_another_order() -> None:
    types = [DataType("INT"), DataType("STRING"), DataType("BIGINT")]
    collector = StatsCollector(["a", "b", "c"], types)
    collector.update(pa.table({"a": pa.array([1], pa.int32()), "b": ["x"], "c": [None, 5][1:]}))
    alone = StatsCollector(["c", "a"], [types[2], types[0]])
    alone.update(pa.table({"a": pa.array([1], pa.int32()), "c": [5]}))
    assert collector.finish(["c", "a"]) == alone.finish()


def test_no_columns_have_the_empty_row() -> None:
    assert StatsCollector([], []).finish() == SimpleStats(EMPTY_ROW, EMPTY_ROW, ())


ORDERED = [
    ("BOOLEAN", [None, False, True]),
    ("INT", [None, -(2**31), -1, 0, 7]),
    ("DOUBLE", [-1.5, 0.0, 2.0, float("inf"), float("nan")]),
    ("DECIMAL(30, 2)", [Decimal("-100.00"), Decimal("-0.01"), Decimal("0.00"), Decimal("9.00")]),
    ("STRING", ["", "a", "a\0", "aa", "b", "long enough to be out of line", "é", "\uffff", "😀"]),
    ("BYTES", [b"", b"\0", b"\x7f", b"\x80", b"\xff", b"\xff" * 9]),
    ("DATE", [date(1960, 1, 1), date(1970, 1, 1), date(2024, 1, 1)]),
    ("TIMESTAMP(6)", [datetime(1969, 1, 1), datetime(1970, 1, 1), datetime(1970, 1, 1, 0, 0, 1)]),
]


@pytest.mark.parametrize(("name", "values"), ORDERED)
def test_keys_rank_in_their_order(name: str, values: list[Any]) -> None:
    kind = DataType.parse(name)
    order = np.random.default_rng(1).permutation(np.repeat(np.arange(len(values)), 2))
    column = pa.array([values[i] for i in order], kind.arrow)
    assert rank_keys(encode([column], [kind]).to_pylist(), [kind]).tolist() == order.tolist()


def test_keys_of_several_columns_rank_by_the_first_first() -> None:
    kinds = [DataType("STRING"), DataType("BIGINT")]
    rows = [("b", 1), ("a", 9), ("b", -1), ("a", 9), ("é", 0)]
    columns = [pa.array(values) for values in zip(*rows, strict=True)]
    ranks = rank_keys(encode(columns, kinds), kinds)
    expected = [sorted(set(rows)).index(row) for row in rows]
    assert ranks.tolist() == expected


def test_ranges_can_be_compared() -> None:
    kind = DataType("INT")
    lows, highs = (
        encode([pa.array(keys, pa.int32())], [kind]).to_pylist()
        for keys in ([-5, 3, 10], [2, 10, 12])
    )
    low, high = rank_ranges(lows, highs, [kind])
    assert high[0] < low[1]
    assert high[1] == low[2]


def test_no_keys() -> None:
    assert rank_keys([], [DataType("INT"), DataType("STRING")]).tolist() == []
