"""Input: what becomes rows of a table, and what is refused before anything is written."""

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkray.errors import InputError
from pkray.rows.input import conform, conform_deletes, conform_prefixes
from pkray.schema.table_schema import TableSchema


def table_of(*columns: tuple[str, str], keys: list[str] | None = None, **options: str) -> Any:
    return TableSchema.create(
        [("k", "BIGINT"), *columns], keys or ["k"], [], options, None, now_millis=0
    )


def one(data_type: str, value: Any) -> Any:
    """The value that a column of this type holds after being given ``value`` in Python."""
    rows = conform([{"k": 1, "v": value}], table_of(("v", data_type)))
    return rows.column("v")[0]


def cast(data_type: str, array: pa.Array) -> pa.ChunkedArray:
    given = pa.table({"k": pa.array(range(len(array)), pa.int64()), "v": array})
    return conform(given, table_of(("v", data_type))).column("v")


def refused(data_type: str, array: pa.Array) -> InputError:
    with pytest.raises(InputError, match="'v'") as caught:
        cast(data_type, array)
    assert caught.value.column == "v"
    return caught.value


def test_columns_come_in_the_tables_order_and_types() -> None:
    schema = table_of(("a", "INT"), ("b", "STRING"))
    given = pa.table({"b": pa.array(["x"], pa.large_string()), "k": [1], "a": [2]})
    assert conform(given, schema).equals(pa.table([[1], [2], ["x"]], schema=schema.arrow_schema))


def test_columns_that_fit_are_not_copied() -> None:
    schema = table_of(("a", "DOUBLE"))
    given = pa.table([np.arange(10), np.arange(10.0)], schema=schema.arrow_schema)
    rows = conform(given, schema)
    for name in ("k", "a"):
        assert (
            rows.column(name).chunk(0).buffers()[1].address
            == given.column(name).chunk(0).buffers()[1].address
        )


@pytest.mark.parametrize("make", [
    lambda rows: pa.Table.from_pylist(rows),
    lambda rows: pa.RecordBatch.from_pylist(rows),
    lambda rows: pd.DataFrame(rows),
    lambda rows: rows,
    lambda rows: pa.Table.from_pylist(rows).to_reader(),
])  # fmt: skip
def test_every_source_gives_the_same_rows(make: Any) -> None:
    schema = table_of(("a", "INT"), ("b", "STRING"), ("c", "DOUBLE"))
    rows = [{"k": 1, "a": 5, "b": "x", "c": 0.5}, {"k": 2, "a": None, "b": None, "c": None}]
    assert conform(make(rows), schema).to_pylist() == rows


@pytest.mark.parametrize("data", [pa.table({"k": pa.array([], pa.int64())}), [], ()])
def test_no_rows_are_fine(data: Any) -> None:
    schema = table_of()
    assert conform(data, schema) == schema.arrow_schema.empty_table()
    assert conform_deletes(data, schema).num_rows == 0
    assert conform_prefixes(data, schema).schema == schema.arrow_schema


@pytest.mark.parametrize("data", [{"k": 1}, "k", 3, None, [1, 2], [[1, 2]]])
def test_what_is_no_rows_is_refused(data: Any) -> None:
    with pytest.raises(InputError, match="rows cannot be a"):
        conform(data, table_of())


def test_a_missing_column_is_named() -> None:
    with pytest.raises(InputError, match=r"column 'a' \(INT\) is missing"):
        conform(pa.table({"k": [1]}), table_of(("a", "INT")))


def test_a_missing_key_column_is_named_as_such() -> None:
    with pytest.raises(InputError, match="primary key column 'k'"):
        conform(pa.table({"a": [1]}), table_of(("a", "INT")))


def test_a_row_that_lacks_a_column_is_named() -> None:
    with pytest.raises(InputError, match="row 1 lacks column 'a'") as caught:
        conform([{"k": 1, "a": 1}, {"k": 2}], table_of(("a", "INT")))
    assert (caught.value.column, caught.value.row) == ("a", 1)


def test_what_is_no_row_in_a_list_is_named() -> None:
    with pytest.raises(InputError, match="a list with a int in it"):
        conform([{"k": 1}, 2], table_of())


def test_an_extra_column_is_named_with_the_nearest() -> None:
    with pytest.raises(InputError, match="'amout' is not in the table: did you mean 'amount'"):
        conform(pa.table({"k": [1], "amout": [1]}), table_of(("amount", "INT")))


def test_row_kinds_are_not_taken_for_a_column() -> None:
    with pytest.raises(InputError, match=r"'_row_kind' is not .*row_kinds='_row_kind'"):
        conform([{"k": 1, "_row_kind": "-D"}], table_of())


def test_a_repeated_column_is_named() -> None:
    given = pa.table([[1], [2]], names=["k", "k"])
    with pytest.raises(InputError, match="'k' is there twice"):
        conform(given, table_of())


def test_a_null_key_is_refused_by_row() -> None:
    given = pa.table({"k": pa.chunked_array([[1, 2], [3, None]], pa.int64())})
    with pytest.raises(InputError, match="'k' is null in row 3") as caught:
        conform(given, table_of())
    assert caught.value.row == 3


def test_a_null_in_a_not_null_column_is_refused() -> None:
    error = refused("INT NOT NULL", pa.array([1, None], pa.int32()))
    assert error.row == 1


def test_an_integer_that_overflows_is_named_by_row_and_value() -> None:
    values = list(range(1000))
    values[700] = 3_000_000_000
    error = refused("INT", pa.array(values, pa.int64()))
    assert (error.row, error.value) == (700, 3_000_000_000)


@given(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=50), st.integers(1, 7))
def test_the_first_value_that_does_not_fit_is_the_one_named(values: list[int], cut: int) -> None:
    chunks = [values[i : i + cut] for i in range(0, len(values), cut)]
    given = pa.chunked_array(chunks, pa.int64())
    bad = [i for i, value in enumerate(values) if not -(2**31) <= value < 2**31]
    if not bad:
        assert cast("INT", given).to_pylist() == values
    else:
        assert refused("INT", given).row == bad[0]


@pytest.mark.parametrize(
    ("data_type", "array", "expected"),
    [
        ("INT", pa.array([1, None], pa.uint64()), [1, None]),
        ("BIGINT", pa.array([1], pa.int8()), [1]),
        ("INT", pa.array([1.0, None]), [1, None]),
        ("INT", pa.nulls(2), [None, None]),
        ("FLOAT", pa.array([0.5, float("inf")]), [0.5, float("inf")]),
        ("DOUBLE", pa.array([7], pa.int64()), [7.0]),
        ("DECIMAL(10, 2)", pa.array([12, -3]), [Decimal("12.00"), Decimal("-3.00")]),
        ("DECIMAL(10, 2)", pa.array([Decimal("1.5000")]), [Decimal("1.50")]),
        ("DECIMAL(38, 37)", pa.array([1]), [Decimal(1)]),
        ("STRING", pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
        ("STRING", pa.array(["é"], pa.string_view()), ["é"]),
        ("VARCHAR(2)", pa.array(["éé"]), ["éé"]),
        ("BINARY(3)", pa.array([b"abc"], pa.binary(3)), [b"abc"]),
        ("DATE", pa.array([date(2024, 2, 29)], pa.date64()), [date(2024, 2, 29)]),
        ("TIME(3)", pa.array([time(1, 2, 3, 4000)], pa.time64("us")), [time(1, 2, 3, 4000)]),
        ("TIMESTAMP(3)", pa.array([1_000], pa.timestamp("us")),
         [datetime(1970, 1, 1, 0, 0, 0, 1000)]),
        ("TIMESTAMP(6)", pa.array([1], pa.timestamp("s")), [datetime(1970, 1, 1, 0, 0, 1)]),
        ("TIMESTAMP_LTZ(6)", pa.array([0], pa.timestamp("us", "Asia/Tokyo")),
         [datetime(1970, 1, 1, tzinfo=UTC)]),
        ("ARRAY<INT>", pa.array([[1, None], None]), [[1, None], None]),
        ("MAP<STRING, INT>", pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
         [[("a", 1)]]),
        ("ROW<a INT, b STRING>", pa.array([{"a": 1, "b": "x"}, None]), [{"a": 1, "b": "x"}, None]),
    ],
)  # fmt: skip
def test_casts_that_lose_nothing(data_type: str, array: pa.Array, expected: list[Any]) -> None:
    assert cast(data_type, array).to_pylist() == expected


@pytest.mark.parametrize(
    ("data_type", "array"),
    [
        ("TINYINT", pa.array([128])),
        ("INT", pa.array([1.5])),
        ("INT", pa.array([float("nan")])),
        ("BIGINT", pa.array([2**63], pa.uint64())),
        ("FLOAT", pa.array([0.1])),
        ("FLOAT", pa.array([1e300])),
        ("DOUBLE", pa.array([2**53 + 1])),
        ("DECIMAL(4, 2)", pa.array([100])),
        ("DECIMAL(4, 2)", pa.array([Decimal("1.234")])),
        ("CHAR(2)", pa.array(["abc"])),
        ("VARCHAR(2)", pa.array(["ééé"])),
        ("VARBINARY(2)", pa.array([b"abc"])),
        ("TIMESTAMP(3)", pa.array([1], pa.timestamp("us"))),
        ("TIMESTAMP(9)", pa.array([10**12], pa.timestamp("s"))),
        ("TIMESTAMP(0)", pa.array([1_500], pa.timestamp("ms"))),
        ("TIMESTAMP(4)", pa.array([1_001], pa.timestamp("us"))),
        ("TIME(0)", pa.array([1_500], pa.time32("ms"))),
        ("TIME(3)", pa.array([1], pa.time64("ns"))),
        ("DATE", pa.array([1], pa.date64())),
        ("ARRAY<TINYINT>", pa.array([[1], [300]])),
    ],
)
def test_values_that_do_not_fit_are_refused(data_type: str, array: pa.Array) -> None:
    error = refused(data_type, array)
    assert error.row == len(array) - 1


@pytest.mark.parametrize(
    ("data_type", "array"),
    [
        ("INT", pa.array(["1"])),
        ("INT", pa.array([True])),
        ("BOOLEAN", pa.array([1])),
        ("STRING", pa.array([1])),
        ("STRING", pa.array([b"a"])),
        ("BYTES", pa.array(["a"])),
        ("DOUBLE", pa.array([Decimal("1.5")])),
        ("DECIMAL(10, 2)", pa.array([1.5])),
        ("DATE", pa.array([0], pa.timestamp("us"))),
        ("TIMESTAMP(6)", pa.array([date(2024, 1, 1)])),
        ("TIMESTAMP(6)", pa.array([0], pa.timestamp("us", "UTC"))),
        ("TIMESTAMP_LTZ(6)", pa.array([0], pa.timestamp("us"))),
        ("BIGINT", pa.array([0], pa.timestamp("us"))),
        ("BIGINT", pa.array([0], pa.duration("us"))),
        ("ARRAY<INT>", pa.array([["a"]])),
        ("ARRAY<INT>", pa.array([1])),
        ("ROW<a INT, b INT>", pa.array([{"a": 1}])),
        ("ROW<a INT>", pa.array([{"a": 1, "b": 2}])),
    ],
)
def test_types_that_do_not_convert_are_refused(data_type: str, array: pa.Array) -> None:
    with pytest.raises(InputError, match=r"'v(\[\])?'"):
        cast(data_type, array)


@pytest.mark.parametrize(
    ("data_type", "kind", "good", "bad"),
    [
        ("ARRAY<FLOAT>", pa.list_(pa.float64()), [0.5, None], [0.1]),
        ("MAP<STRING, FLOAT>", pa.map_(pa.string(), pa.float64()), [("a", 0.5)], [("a", 1e300)]),
        ("ROW<a FLOAT>", pa.struct({"a": pa.float64()}), {"a": float("inf")}, {"a": 0.1}),
        ("ARRAY<ROW<a ARRAY<FLOAT>>>", pa.list_(pa.struct({"a": pa.list_(pa.float64())})),
         [{"a": [0.5, None]}, None], [None, {"a": [0.5, 0.1]}]),
    ],
)  # fmt: skip
def test_doubles_in_nested_floats_lose_nothing(
    data_type: str, kind: pa.DataType, good: Any, bad: Any
) -> None:
    array = pa.chunked_array([pa.array([bad, good, None], kind)[1:], pa.array([good], kind)])
    assert cast(data_type, array).to_pylist() == [good, None, good]
    with pytest.raises(InputError, match=r"'v.*does not fit FLOAT without loss"):
        cast(data_type, pa.array([None, good, bad], kind))


def test_nan_and_negative_zero_are_untouched() -> None:
    rows = cast("DOUBLE", pa.array([float("nan"), -0.0, None]))
    values = rows.to_pylist()
    assert np.isnan(values[0])
    assert np.signbit(values[1])
    assert values[2] is None


@pytest.mark.parametrize(
    ("data_type", "array"),
    [
        ("ARRAY<INT NOT NULL>", pa.array([[1], [1, None]])),
        ("MAP<STRING, INT NOT NULL>",
         pa.array([[("a", 1)], [("b", None)]], pa.map_(pa.string(), pa.int32()))),
        ("ROW<a INT NOT NULL>", pa.array([{"a": 1}, {"a": None}])),
    ],
)  # fmt: skip
def test_nulls_in_nested_not_null_parts_are_refused(data_type: str, array: pa.Array) -> None:
    with pytest.raises(InputError, match="NOT NULL"):
        cast(data_type, array)


def test_a_null_row_has_no_parts_to_check() -> None:
    assert cast("ROW<a INT NOT NULL>", pa.array([{"a": 1}, None])).to_pylist()[1] is None


def test_a_slice_is_cast_alone() -> None:
    array = pa.array([[300], [1], [2]]).slice(1)
    assert cast("ARRAY<TINYINT>", array).to_pylist() == [[1], [2]]


def test_a_slice_is_checked_alone() -> None:
    array = pa.array([[None], [1]], pa.list_(pa.int32())).slice(1)
    assert cast("ARRAY<INT NOT NULL>", array).to_pylist() == [[1]]
    pairs = pa.array([[("a", None)], [("b", 1)]], pa.map_(pa.string(), pa.int32())).slice(1)
    assert cast("MAP<STRING, INT NOT NULL>", pairs).to_pylist() == [[("b", 1)]]


@pytest.mark.parametrize(
    ("data_type", "value", "expected"),
    [
        ("FLOAT", 0.1, float(np.float32(0.1))),
        ("DOUBLE", 1, 1.0),
        ("DECIMAL(38, 0)", 10**37, Decimal(10**37)),
        ("DECIMAL(10, 2)", Decimal("1.5"), Decimal("1.50")),
        ("TIMESTAMP(6)", datetime(2024, 1, 1, 1, 2, 3, 4), datetime(2024, 1, 1, 1, 2, 3, 4)),
        ("TIMESTAMP_LTZ(6)", datetime(2024, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
         datetime(2024, 1, 1, tzinfo=UTC)),
        ("TIME(3)", time(12, 34, 56, 1000), time(12, 34, 56, 1000)),
        ("ARRAY<STRING>", [], []),
        ("MAP<STRING, INT>", {"a": 1}.items(), [("a", 1)]),
        ("ROW<a INT, b STRING>", {"a": 1, "b": None}, {"a": 1, "b": None}),
        ("ROW<a INT, b STRING>", {"b": "x", "a": 1}, {"a": 1, "b": "x"}),
        ("ARRAY<DECIMAL(5, 2)>", [1, None], [Decimal("1.00"), None]),
        ("ARRAY<DATE>", np.array([date(2024, 1, 1)]), [date(2024, 1, 1)]),
        ("ARRAY<ROW<a INT>>", [None, {"a": 1}], [None, {"a": 1}]),
        ("MAP<STRING, DECIMAL(5, 2)>", {"a": 1, "b": None}, [("a", Decimal("1.00")), ("b", None)]),
        ("MAP<INT, MAP<STRING, FLOAT>>", {1: {"a": 0.5}, 2: {}}, [(1, [("a", 0.5)]), (2, [])]),
        ("MAP<STRING, ARRAY<ROW<a INT>>>", {"x": [{"a": 1}, None]}, [("x", [{"a": 1}, None])]),
        ("TIMESTAMP(9)", pd.Timestamp("2024-01-01 00:00:00.000000001"),
         pd.Timestamp("2024-01-01 00:00:00.000000001")),
        ("TIMESTAMP_LTZ(9)", pd.Timestamp("2024-01-01 00:00:00.000000001", tz="Asia/Tokyo"),
         pd.Timestamp("2023-12-31 15:00:00.000000001", tz="UTC")),
    ],
)  # fmt: skip
def test_python_values(data_type: str, value: Any, expected: Any) -> None:
    assert one(data_type, value).as_py() == expected


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        ("INT", 1.5),
        ("INT", "1"),
        ("INT", True),
        ("TINYINT", 300),
        ("BIGINT", 2**63),
        ("FLOAT", 1e300),
        ("STRING", 1),
        ("DECIMAL(10, 2)", 1.5),
        ("DECIMAL(3, 0)", 10**60),
        ("DATE", datetime(2024, 1, 1, 5)),
        ("DATE", "2024-01-01"),
        ("TIMESTAMP(3)", datetime(2024, 1, 1, 0, 0, 0, 1)),
        ("TIMESTAMP(6)", datetime(2024, 1, 1, tzinfo=UTC)),
        ("TIMESTAMP_LTZ(6)", datetime(2024, 1, 1)),
        ("ARRAY<INT>", "ab"),
        ("ROW<a INT>", {"a": 1, "b": 2}),
        ("MAP<STRING, INT>", [("a", "b")]),
        ("STRING", object()),
        ("TIME(3)", time(1, 2, tzinfo=UTC)),
        ("TIMESTAMP(6)", pd.NaT),
        ("TIMESTAMP(6)", pd.Timestamp("2024-01-01 00:00:00.000000001")),
        ("ARRAY<DATE>", [date(2024, 1, 1), datetime(2024, 1, 1, 5)]),
        ("ARRAY<TIMESTAMP_LTZ(6)>", [datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1)]),
        ("ARRAY<FLOAT>", [1e300]),
        ("ARRAY<MAP<STRING, INT>>", [{"a": 1}, {"b": 1.5}]),
        ("MAP<STRING, INT>", {"a": 1.5}),
        ("MAP<STRING, INT>", {"a": 1, None: 2}),
        ("MAP<STRING, INT>", ["ab", 1]),
        ("MAP<STRING, STRING>", ["ab"]),
        ("MAP<STRING, STRING>", [{"key": "a", "value": "b"}]),
        ("MAP<STRING, STRING>", [("a", "b", "c")]),
        ("MAP<STRING, FLOAT>", {"a": 1e300}),
        ("MAP<STRING, DATE>", {"a": datetime(2024, 1, 1, 5)}),
        ("MAP<STRING, TIME(0)>", {"a": time(1, 2, 3, 4)}),
        ("MAP<STRING, TIMESTAMP(3)>", {"a": datetime(2024, 1, 1, 0, 0, 0, 1)}),
        ("MAP<STRING, TIMESTAMP(6)>", {"a": datetime(2024, 1, 1, tzinfo=UTC)}),
        ("MAP<STRING, ROW<a INT>>", {"a": {"a": 1, "b": 2}}),
        ("ROW<a INT, m MAP<STRING, INT>>", {"a": 1.5, "m": {}}),
        ("ROW<a INT, m MAP<STRING, INT>>", {"a": 1}),
        ("ROW<a INT, b INT>", (1, 2)),
    ],
)
def test_python_values_that_do_not_fit(data_type: str, value: Any) -> None:
    with pytest.raises(InputError, match="'v"):
        one(data_type, value)


@pytest.mark.parametrize("data_type", ["INT", "TIMESTAMP(6)", "DECIMAL(5, 2)"])
def test_the_python_value_of_a_wrong_kind_is_named(data_type: str) -> None:
    good = {"INT": 1, "TIMESTAMP(6)": datetime(2024, 1, 1), "DECIMAL(5, 2)": Decimal("1.25")}
    rows = [{"k": 1, "v": good[data_type]}, {"k": 2, "v": None}, {"k": 3, "v": "x"}]
    with pytest.raises(InputError) as caught:
        conform(rows, table_of(("v", data_type)))
    assert (caught.value.column, caught.value.row, caught.value.value) == ("v", 2, "x")


def test_a_date_and_a_time_are_no_dates() -> None:
    rows = [{"k": 1, "v": date(2024, 1, 1)}, {"k": 2, "v": datetime(2024, 1, 1, 5)}]
    with pytest.raises(InputError, match=r"'v' row 1.*date\(\)"):
        conform(rows, table_of(("v", "DATE")))


def test_null_rows_of_nested_values_stay_null() -> None:
    schema = table_of(
        ("m", "MAP<STRING, INT>"), ("r", "ROW<m MAP<STRING, INT>>"), ("a", "ARRAY<DATE>")
    )
    rows = [
        {"k": 1, "m": None, "r": None, "a": None},
        {"k": 2, "m": [("x", 1)], "r": {"m": []}, "a": []},
        {"k": 3, "m": None, "r": {"m": None}, "a": [None]},
        {"k": 4, "m": [], "r": None, "a": None},
    ]
    assert conform(rows, schema).to_pylist() == rows


def test_mixed_zones_in_python_values_are_refused_by_row() -> None:
    rows = [{"k": 1, "v": datetime(2024, 1, 1, tzinfo=UTC)}, {"k": 2, "v": datetime(2024, 1, 1)}]
    with pytest.raises(InputError, match=r"row 1.*time zone") as caught:
        conform(rows, table_of(("v", "TIMESTAMP_LTZ(6)")))
    assert caught.value.row == 1


def test_pandas_columns() -> None:
    schema = table_of(
        ("i", "INT"),
        ("s", "STRING"),
        ("d", "DECIMAL(5, 2)"),
        ("t", "TIMESTAMP(6)"),
        ("c", "STRING"),
    )
    frame = pd.DataFrame(
        {
            "k": [1, 2],
            "i": [1.0, np.nan],
            "s": ["a", np.nan],
            "d": [Decimal("1.5"), None],
            "t": [pd.Timestamp("2024-01-01 00:00:00.000001"), pd.NaT],
            "c": pd.Categorical(["x", None]),
        },
        index=[7, 9],
    )
    assert conform(frame, schema).to_pylist() == [
        {"k": 1, "i": 1, "s": "a", "d": Decimal("1.50"),
         "t": datetime(2024, 1, 1, 0, 0, 0, 1), "c": "x"},
        {"k": 2, "i": None, "s": None, "d": None, "t": None, "c": None},
    ]  # fmt: skip


def test_a_key_in_the_index_of_a_dataframe_is_found_there() -> None:
    frame = pd.DataFrame({"k": [1], "v": ["a"]}).set_index("k")
    with pytest.raises(InputError, match=r"'k'.*is missing.*reset_index"):
        conform(frame, table_of(("v", "STRING")))


def test_pandas_objects_of_mixed_kinds_are_refused_by_row() -> None:
    frame = pd.DataFrame({"k": [1, 2], "v": ["a", 2]})
    with pytest.raises(InputError) as caught:
        conform(frame, table_of(("v", "STRING")))
    assert (caught.value.row, caught.value.value) == (1, 2)


@pytest.mark.parametrize(("values", "words"), [
    (np.array([1j, 2]), "complex128 in pandas.*DOUBLE.*real and imaginary parts"),
    (pd.arrays.SparseArray([0, 1]), r"Sparse\[int64, 0\] in pandas.*to_dense"),
    (pd.arrays.SparseArray(["a", np.nan]), "Sparse.*to_dense"),
])  # fmt: skip
def test_pandas_types_that_arrow_does_not_have_are_refused(values: Any, words: str) -> None:
    frame = pd.DataFrame({"k": [1, 2], "v": values})
    with pytest.raises(InputError, match=f"'v' is .*{words}") as caught:
        conform(frame, table_of(("v", "DOUBLE")))
    assert caught.value.column == "v"
    assert caught.value.type == str(frame["v"].dtype)


ALL_NOT_NULL = [
    (f"c{i}", f"{text} NOT NULL")
    for i, text in enumerate(
        ["BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(38, 4)",
         "CHAR(3)", "STRING", "BINARY(3)", "BYTES", "DATE", "TIME(3)", "TIMESTAMP(3)",
         "TIMESTAMP(9)", "TIMESTAMP_LTZ(6)", "ARRAY<INT NOT NULL>", "MAP<STRING, INT>",
         "ROW<a INT NOT NULL>"]
    )
]  # fmt: skip


def test_keys_alone_are_filled_with_nulls() -> None:
    schema = table_of(("a", "INT"), ("b", "ARRAY<INT>"))
    rows = conform(pa.table({"k": [1, 2]}), schema, keys_only=True)
    assert rows.schema == schema.arrow_schema
    assert rows.to_pylist() == [{"k": k, "a": None, "b": None} for k in (1, 2)]


def test_keys_alone_are_filled_with_zeros_where_there_are_no_nulls() -> None:
    schema = table_of(*ALL_NOT_NULL)
    rows = conform([{"k": 1}, {"k": 2}], schema, keys_only=True)
    rows.validate(full=True)
    assert rows.schema == schema.arrow_schema
    assert all(column.null_count == 0 for column in rows.columns)
    assert rows.column("c9").to_pylist() == ["", ""]


def test_keys_may_bring_other_columns() -> None:
    schema = table_of(("a", "INT"), ("b", "STRING"))
    rows = conform(pa.table({"k": [1], "b": ["x"]}), schema, keys_only=True)
    assert rows.to_pylist() == [{"k": 1, "a": None, "b": "x"}]


@pytest.mark.parametrize("data", [{"a": [1]}, {"k": [None]}, {"k": [1], "z": [1]}])
def test_keys_that_are_missing_null_or_accompanied_by_strangers(data: Any) -> None:
    with pytest.raises(InputError):
        conform(pa.table(data), table_of(("a", "INT")), keys_only=True)


def test_a_delete_needs_what_orders_it() -> None:
    schema = table_of(("n", "INT"), **{"sequence.field": "n"})
    with pytest.raises(InputError, match=r"sequence\.field column 'n'"):
        conform_deletes([{"k": 1}], schema)
    assert conform_deletes([{"k": 1, "n": 5}], schema).to_pylist() == [{"k": 1, "n": 5}]
    assert conform([{"k": 1}], schema, keys_only=True).num_rows == 1
