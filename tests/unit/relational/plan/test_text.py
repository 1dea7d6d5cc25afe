"""Expressions as text and back."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pkray.errors import QueryError
from pkray.relational.functions.function import is_known
from pkray.relational.plan import expressions as ir
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.plan.text import MOST_LEVELS, from_text, to_text
from pkray.schema.types import DataType
from tests.effort import examples

INT, TEXT = DataType("INT"), DataType("STRING")
FIELDS = Fields(
    (
        Field("a", INT),
        Field("b", DataType("BIGINT", nullable=False)),
        Field("odd name", TEXT),
        Field("a`b", DataType("DOUBLE")),
        Field("case", DataType("ARRAY", element=INT)),
    )
)

CONSTANTS = [
    ir.Literal(INT, None),
    ir.Literal(DataType("INT", nullable=False), -5),
    ir.Literal(DataType("BIGINT", nullable=False), 2**63 - 1),
    ir.Literal(DataType("STRING", nullable=False), "it's `so`\n"),
    ir.Literal(DataType("VARCHAR", nullable=False, length=3), "abc"),
    ir.Literal(DataType("BOOLEAN", nullable=False), True),
    ir.Literal(DataType("DOUBLE", nullable=False), float("inf")),
    ir.Literal(DataType("DOUBLE", nullable=False), -0.1),
    ir.Literal(DataType("DECIMAL", False, precision=5, scale=2), Decimal("-1.50")),
    ir.Literal(DataType("DATE", nullable=False), date(1969, 12, 31)),
    ir.Literal(DataType("TIMESTAMP", precision=3), datetime(2020, 1, 1, 8, 0, 0, 123000)),
    ir.Literal(DataType("TIMESTAMP", precision=9), 1_600_000_000_123_456_789),
    ir.Literal(DataType("TIMESTAMP_LTZ"), datetime(2020, 1, 1, tzinfo=UTC)),
    ir.Literal(DataType("BYTES"), b"\x00\xff"),
    ir.Literal(DataType("ARRAY", element=DataType("DATE")), [date(2020, 1, 1), None]),
    ir.Literal(DataType("MAP", key=TEXT, value=INT), [("k", 1), ("l", None)]),
]


def columns() -> st.SearchStrategy[ir.Expression]:
    return st.sampled_from([ir.ColumnRef(each.type, each.name) for each in FIELDS])


def computed(parts: st.SearchStrategy[ir.Expression]) -> st.SearchStrategy[ir.Expression]:
    kinds = st.sampled_from([INT, DataType("BOOLEAN"), DataType("DECIMAL", precision=9, scale=1)])
    names = st.sampled_from(["add", "equal", "and", "or", "less", "mod", "divide"])
    pairs = st.tuples(parts, parts)
    return st.one_of(
        st.builds(ir.Call, kinds, names, pairs),
        st.builds(lambda kind, each: ir.Call(kind, "not", (each,)), kinds, parts),
        st.builds(lambda each: ir.Call(DataType("BOOLEAN", False), "is_null", (each,)), parts),
        st.builds(ir.Cast, kinds, parts, st.sampled_from(["raise", "null", "wrap"])),
        st.builds(ir.Case, kinds, st.lists(pairs, min_size=1, max_size=2).map(tuple), parts),
    )


@given(st.recursive(st.one_of(columns(), st.sampled_from(CONSTANTS)), computed, max_leaves=12))
@settings(max_examples=examples(300))
def test_what_is_written_is_read_again_as_it_was(expression: ir.Expression) -> None:
    assert from_text(to_text(expression), FIELDS, is_known) == expression


def test_a_function_written_in_place_is_read_again() -> None:
    body = ir.Call(INT, "add", (ir.ColumnRef(INT, "x"), ir.ColumnRef(INT, "a")))
    array = ir.ColumnRef(DataType("ARRAY", element=INT), "case")
    call = ir.Call(array.type, "and", (array, ir.Lambda(INT, ("x",), body)))
    assert from_text(to_text(call), FIELDS, is_known) == call


def test_people_read_it_without_types() -> None:
    sum_ = ir.Call(INT, "add", (ir.ColumnRef(INT, "a"), ir.Literal(INT, 1)))
    compared = ir.Call(DataType("BOOLEAN"), "greater", (sum_, ir.ColumnRef(INT, "a")))
    assert to_text(compared, types=False) == "(a + 1) > a"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nothing", "no column is called 'nothing'"),
        ("(a + )", "a value is expected"),
        ("(a ? a)", "no expression"),
        ("(a b)", "an operator is expected"),
        ("a a", "more than an expression"),
        ("unknown(a)", "no function is called 'unknown'"),
        ("'x'::INT", "is no INT"),
        ("'x'::NOTHING", "is not a type"),
        ("'x'::DECIMAL(5", r"'\)' is missing"),
        ("99999999999", "needs its type"),
        ("UDF f(a)", "no function 'f' is registered"),
        ("(NOT " * 1000 + "a" + ")" * 1000, f"more than {MOST_LEVELS} levels"),
        ("CASE WHEN a THEN a END", "'ELSE' is expected"),
    ],
)
def test_another_text_is_refused_with_its_place(text: str, reason: str) -> None:
    with pytest.raises(QueryError, match=reason) as raised:
        from_text(text, FIELDS, is_known)
    assert raised.value.column >= 1
