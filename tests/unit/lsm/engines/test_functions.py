"""Corners of single aggregate functions."""

import math
from decimal import Decimal
from typing import Any

import pytest

from pkray.errors import MergeError, SchemaError, UnsupportedError
from pkray.lsm.engines import merge_engine
from pkray.lsm.engines.functions import aggregate_function
from pkray.options.fields import FieldOptions
from pkray.schema.types import DataType
from tests.unit.lsm.engines.engine_samples import (
    ADD,
    BACK,
    DELETE,
    aggregated,
    aggregation,
    batch,
    merge,
    merged,
    visible,
)

D38 = Decimal(10**38 - 1)


@pytest.mark.parametrize(
    ("data_type", "largest"), [("TINYINT", 127), ("SMALLINT", 32767), ("BIGINT", 2**63 - 1)]
)
def test_integer_sums_wrap_around(data_type: str, largest: int) -> None:
    assert aggregated("sum", data_type, largest, 1) == -largest - 1


def test_floats_are_added_in_order() -> None:
    assert aggregated("sum", "DOUBLE", 0.1, 0.2, 0.3) == 0.1 + 0.2 + 0.3
    many = [0.1 * number for number in range(500)]
    assert aggregated("sum", "DOUBLE", *many) == sum(many[1:], many[0])
    assert math.isinf(aggregated("sum", "DOUBLE", 1e308, 1e308))


def test_float_sums_of_short_and_long_keys_together() -> None:
    schema = aggregation({"v": ("DOUBLE", "sum")})
    rows = [(ADD, (key, 0.1 * key + number)) for key in range(5) for number in range(40 * key + 2)]
    expected = {}
    for _, (key, value) in rows:
        expected[key] = expected[key] + value if key in expected else value
    assert merged(schema, rows) == {k: (v,) for k, v in expected.items()}


def test_wide_decimals_are_summed_exactly() -> None:
    value = Decimal("12345678901234567890123456.78")
    assert aggregated("sum", "DECIMAL(38, 2)", value, value, -value * 3) == -value
    assert aggregated("sum", "DECIMAL(38, 2)", value, value, kinds=[ADD, BACK]) == 0


def test_wide_decimal_sum_past_its_digits_is_null() -> None:
    assert aggregated("sum", "DECIMAL(38, 0)", D38, Decimal(1)) is None
    assert aggregated("sum", "DECIMAL(38, 0)", D38, D38, D38) is None
    assert aggregated("sum", "DECIMAL(38, 0)", D38, Decimal(1), Decimal(-1)) == D38


def test_decimal_products_are_rounded_half_up_at_each_step() -> None:
    def product(one: str, other: str, kind: int = ADD) -> Decimal:
        values = (Decimal(one), Decimal(other))
        return aggregated("product", "DECIMAL(10, 2)", *values, kinds=[ADD, kind])

    assert product("1.10", "2.25") == Decimal("2.48")
    assert product("-1.10", "2.25") == Decimal("-2.48")
    assert product("1.00", "3.00", BACK) == Decimal("0.33")


def test_a_decimal_product_past_its_digits_begins_anew() -> None:
    large, small = Decimal("999.99"), Decimal("7.00")
    assert aggregated("product", "DECIMAL(5, 2)", large, small) is None
    assert aggregated("product", "DECIMAL(5, 2)", large, small, small) == small
    kinds = [ADD, ADD, BACK, ADD]
    assert aggregated("product", "DECIMAL(5, 2)", large, small, Decimal(0), small, kinds=kinds) == 0


def test_integer_products_divide_towards_zero() -> None:
    assert aggregated("product", "INT", -7, 2, kinds=[ADD, BACK]) == -3
    assert aggregated("product", "INT", 5, kinds=[DELETE]) == 5


def test_product_cannot_take_back_zero() -> None:
    with pytest.raises(MergeError, match=r"'v'.*0 back"):
        aggregated("product", "INT", 7, 0, kinds=[ADD, BACK])


def test_nan_is_the_largest_number_and_minus_zero_less_than_zero() -> None:
    assert math.isnan(aggregated("max", "DOUBLE", 1.0, float("nan"), 2.0))
    assert aggregated("min", "DOUBLE", 1.0, float("nan")) == 1.0
    assert math.copysign(1, aggregated("min", "DOUBLE", 0.0, -0.0)) == -1
    assert math.copysign(1, aggregated("max", "DOUBLE", -0.0, 0.0)) == 1


def test_extremes_of_text_bytes_and_wide_decimals() -> None:
    assert aggregated("max", "STRING", "z", "é", "abcdefghij") == "é"
    assert aggregated("min", "BYTES", b"ab", b"a\x00", None) == b"a\x00"
    assert aggregated("max", "DECIMAL(30, 0)", Decimal(-(10**25)), Decimal(10**24)) == Decimal(
        10**24
    )


@pytest.mark.parametrize(
    ("function", "data_type", "value"),
    [
        ("sum", "STRING", "x"),
        ("max", "BOOLEAN", True),
        ("listagg", "INT", 1),
        ("bool_and", "STRING", "x"),
        ("bool_or", "DOUBLE", 0.5),
    ],
)
def test_types_that_cannot_be_merged_are_refused_when_they_must_be(
    function: str, data_type: str, value: Any
) -> None:
    assert aggregated(function, data_type, value, None) == value
    with pytest.raises(MergeError, match=f"'v' is {data_type}.*{function}"):
        aggregated(function, data_type, value, value)


@pytest.mark.parametrize("function", ["count", "collect", "merge_map", "nested_update"])
def test_types_that_a_function_is_not_for_are_refused_at_once(function: str) -> None:
    with pytest.raises(SchemaError, match=f"'v' is DATE.*{function}"):
        merge_engine(aggregation({"v": ("DATE", function)}))


def test_a_nested_key_that_is_not_there_is_refused_at_once() -> None:
    nested = {"v": ("ARRAY<ROW<id INT>>", "nested_update")}
    schema = aggregation(nested, **{"fields.v.nested-key": "x"})
    with pytest.raises(SchemaError, match="'x', its nested-key"):
        merge_engine(schema)


@pytest.mark.parametrize("function", ["max", "min", "first_value", "listagg"])
def test_retraction_is_refused_or_ignored(function: str) -> None:
    with pytest.raises(MergeError, match=f"'v'.*{function}"):
        aggregated(function, "STRING", "a", "b", kinds=[ADD, DELETE])
    ignored = {"fields.v.ignore-retract": "true"}
    assert aggregated(function, "STRING", "a", "b", kinds=[ADD, DELETE], **ignored) == "a"
    assert aggregated(function, "STRING", "b", kinds=[DELETE], **ignored) is None


@pytest.mark.parametrize("function", ["last_value", "last_non_null_value"])
def test_taking_back_the_last_value_leaves_null(function: str) -> None:
    assert aggregated(function, "STRING", "a", "b", kinds=[ADD, BACK]) is None
    assert aggregated(function, "STRING", "a", "b", "c", kinds=[ADD, BACK, ADD]) == "c"


def test_listagg_of_distinct_parts() -> None:
    options = {"fields.v.distinct": "true", "fields.v.list-agg-delimiter": ";"}
    assert aggregated("listagg", "STRING", "b;a", "a;c", "", "b", **options) == "b;a;c"


def test_collect_of_distinct_structures() -> None:
    element = "ARRAY<ARRAY<STRING>>"
    values = [[["a"], ["a", None]], [["a"], None, []], [None, ["a", None]]]
    found = aggregated("collect", element, *values, **{"fields.v.distinct": "true"})
    assert found == [["a"], ["a", None], None, []]


def test_collect_distinct_with_taking_back() -> None:
    distinct = {"kinds": [ADD, BACK, ADD], "fields.v.distinct": "true"}
    values = [[1, 2, 3, 2], [2, 9], [1, 4]]
    assert aggregated("collect", "ARRAY<INT>", *values, **distinct) == [1, 3, 4]
    assert aggregated("collect", "ARRAY<INT>", [1], [1], kinds=[ADD, BACK]) == []
    assert aggregated("collect", "ARRAY<INT>", [1], kinds=[BACK]) is None


def test_lists_that_are_slices_are_merged() -> None:
    schema = aggregation({"v": ("MAP<STRING, INT>", "merge_map")})
    rows = [
        (ADD, (key, [("x", key), (str(number), number)])) for number in range(3) for key in range(3)
    ]
    sliced = batch(schema, rows).slice(2, 6)
    assert visible(merge(schema, sliced)) == {
        0: ([("x", 0), ("1", 1), ("2", 2)],),
        1: ([("x", 1), ("1", 1), ("2", 2)],),
        2: ([("x", 2), ("0", 0), ("1", 1)],),
    }


def test_unsupported_functions_are_named_with_the_reason() -> None:
    with pytest.raises(UnsupportedError, match=r"'v'.*'rbm64'.*as .*; there are sum, "):
        aggregate_function("rbm64", "v", DataType.parse("BYTES"), FieldOptions())


def test_delete_removes_an_aggregated_row_where_told_to() -> None:
    schema = aggregation({"v": ("INT", "sum")}, **{"aggregation.remove-record-on-delete": "true"})
    rows = [
        *((ADD, (1, 5)), (DELETE, (1, 5))),
        *((ADD, (2, 5)), (DELETE, (2, 5)), (ADD, (2, 3)), (BACK, (2, 1))),
        *((DELETE, (3, 4)), (ADD, (3, 9))),
    ]
    assert merged(schema, rows) == {2: (2,), 3: (9,)}
