"""Compiled expressions: sharing, folding, and parts that are computed for some rows alone."""

from dataclasses import replace
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from pkray.errors import EvaluationError
from pkray.relational.functions import function
from pkray.relational.functions.evaluation.compiled import (
    compile_expression,
    compile_expressions,
    fold,
)
from pkray.relational.plan.expressions import Call, ColumnRef, Literal
from pkray.schema.types import DataType
from tests.unit.relational.expressions import FLINK, bound, fields, values

COLUMNS = {"a": ("INT", [1, 0, None, 4]), "b": ("INT NOT NULL", [2, 0, 5, 8]),
           "s": ("STRING", ["1", "x", None, "4"])}  # fmt: skip


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """List the (function, rows) of each kernel's calls."""
    made: list[tuple[str, int]] = []

    def watched(name: str) -> function.Function:
        known = function.function(name)

        def kernel(call: Any, some: Any, rows: int) -> Any:
            made.append((name, rows))
            return known.kernel(call, some, rows)

        return replace(known, kernel=kernel)

    for name in ("add", "div", "multiply", "length"):
        monkeypatch.setitem(function._BY_NAME, name, watched(name))
    return made


def test_equal_parts_are_computed_once(calls: list[tuple[str, int]]) -> None:
    known = fields(a="INT", b="INT")
    texts = ("(a + b) * (a + b)", "a + b", "CASE WHEN a + b > 1 THEN 1 END")
    expressions = [bound(text, known) for text in texts]
    batch = pa.record_batch({"a": pa.array([1, 2], pa.int32()), "b": pa.array([3, 4], pa.int32())})
    results = compile_expressions(expressions, known).evaluate(batch)
    assert [each.to_pylist() for each in results] == [[16, 36], [4, 6], [1, 1]]
    assert [name for name, _ in calls] == ["add", "multiply"]


def test_an_error_says_the_first_row_that_cannot_be_computed() -> None:
    known = fields(a="INT", s="STRING", b="DATE")
    compiled = compile_expression(
        bound("CASE WHEN a > 1 THEN CAST(s AS INT) / (a - 3) END", known), known
    )
    rows = [(1, "x", None), (2, "7", None), (3, "8", date(2020, 1, 2)), (4, "y", None)]
    batch = pa.RecordBatch.from_pylist(
        [dict(zip("asb", row, strict=True)) for row in rows], known.arrow
    )
    with pytest.raises(EvaluationError, match=r"8.0 / 0.0 divides by zero") as raised:
        compiled.evaluate(batch)
    assert str(raised.value).endswith("; the row has a = 3, s = '8', b = 2020-01-02")
    assert raised.value.values["row"] == 2
    compiled = compile_expression(bound("date_add(b, 2147483647)", known), known)
    with pytest.raises(EvaluationError, match="s = '8', b = 2020-01-02"):
        compiled.evaluate(batch)


def test_constants_are_computed_when_an_expression_is_compiled(
    calls: list[tuple[str, int]],
) -> None:
    known = fields(a="INT")
    compiled = compile_expression(bound("a > 2 + 3 * 4", known), known)
    calls.clear()
    batch = pa.record_batch({"a": pa.array([14, 15], pa.int32())})
    assert compiled.evaluate(batch).to_pylist() == [False, True]
    assert calls == []


def test_branches_that_can_fail_are_computed_for_their_rows_alone(
    calls: list[tuple[str, int]],
) -> None:
    text = "CASE WHEN a = 0 THEN -1 WHEN a > 2 THEN 8 div a ELSE 10 div b END"
    assert values(text, COLUMNS) == [5, -1, 2, 2]
    assert [rows for name, rows in calls if name == "div"] == [1, 2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("b <> 0 AND 10 div b > 1", [True, False, True, False]),
        ("10 div b > 1 AND b <> 0", [True, False, True, False]),
        ("b = 0 OR 10 div b = 2", [False, True, True, False]),
        ("NOT (b = 0 OR 10 div b = 2)", [True, False, False, True]),
        ("a <> 0 AND 8 div a > 2", [True, False, None, False]),
        ("coalesce(CASE WHEN b > 0 THEN b END, 1 div (b + 1))", [2, 1, 5, 8]),
        ("if(b = 0, NULL, a div b)", [0, None, None, 0]),
        ("if(s = 'x', NULL, CAST(s AS INT))", [1, None, None, 4]),
        ("CASE WHEN s = 'x' THEN 0 WHEN CAST(s AS INT) = 1 THEN 1 ELSE 2 END", [1, 0, 2, 2]),
        ("CASE WHEN b > 0 THEN if(b > 4, 10 div b, 100 div b) ELSE 0 END", [50, 0, 2, 1]),
        ("nullif(10 div (b + 1), 3)", [None, 10, 1, 1]),
    ],
)
def test_what_can_fail_is_not_computed_where_nobody_asks(text: str, expected: list[Any]) -> None:
    assert values(text, COLUMNS) == expected


def test_what_can_fail_fails_where_it_is_asked_for() -> None:
    with pytest.raises(EvaluationError, match="divides by zero"):
        values("CASE WHEN a = 0 THEN 10 div b ELSE 0 END", COLUMNS)
    with pytest.raises(EvaluationError, match="divides by zero"):
        values("b = 0 AND 10 div b = 1", COLUMNS)


def test_a_constant_that_cannot_be_computed_fails_only_if_there_are_rows() -> None:
    known = fields(a="INT")
    compiled = compile_expression(bound("1 div 0 + a", known), known)
    empty = pa.record_batch({"a": pa.array([], pa.int32())})
    assert compiled.evaluate(empty).to_pylist() == []
    with pytest.raises(EvaluationError, match="divides by zero"):
        compiled.evaluate(pa.record_batch({"a": pa.array([1], pa.int32())}))
    assert values("CASE WHEN b >= 0 THEN 1 ELSE 1 div 0 END", COLUMNS) == [1] * 4


def test_results_have_the_expressions_type_and_length() -> None:
    known = fields(a="INT")
    batch = pa.record_batch({"a": pa.array([1, None], pa.int32())})
    for text, kind in (("NULL", pa.string()), ("5S", pa.int16()), ("DATE '2020-01-01'",
                       pa.date32()), ("array(a)", pa.list_(pa.int32()))):  # fmt: skip
        result = compile_expression(bound(text, known), known).evaluate(batch)
        assert len(result) == 2
        assert result.type == kind or pa.types.is_list(kind)


def test_nested_values_are_chosen_by_case_and_coalesce() -> None:
    columns = {"x": ("ARRAY<INT>", [[1], None, []]), "n": ("INT", [1, 0, 2])}
    assert values("coalesce(x, array(9))", columns) == [[1], [9], []]
    assert values("CASE WHEN n > 0 THEN x ELSE array(4 div 2) END", columns) == [[1], [2], []]
    assert values("if(n > 0, x, array(4 div (n + 1)))", columns) == [[1], [4], []]


def test_lambdas_read_their_parameters_and_columns_of_their_row() -> None:
    columns = {"x": ("ARRAY<INT>", [[1, 2], None, [], [3]]), "n": ("INT", [10, 20, 30, None])}
    assert values("transform(x, e -> e + n)", columns) == [[11, 12], None, [], [None]]
    assert values("filter(x, e -> e > 1 AND 4 div e > 0)", columns) == [[2], None, [], [3]]
    text = "transform(x, e -> CASE WHEN e = 1 THEN 0 ELSE 6 div (e - 1) END)"
    assert values(text, columns) == [[0, 6], None, [], [3]]
    text = "transform(x, e -> aggregate(x, 0, (total, each) -> total + each * e))"
    assert values(text, columns) == [[3, 6], None, [], [9]]


def test_a_lambda_in_a_branch_reads_the_rows_of_the_branch() -> None:
    columns = {"x": ("ARRAY<INT>", [[9], [1], [5]]), "n": ("INT", [9, 0, 4])}
    text = "if(exists(x, e -> e > n), if(forall(x, e -> e > n), 8 div (n + 1), -1), 0)"
    assert values(text, columns) == [0, 8, 1]


def test_deeply_nested_branches_compile_at_once() -> None:
    text = "0"
    for number in range(20):
        text = f"CASE WHEN a div b = {number} THEN (a + {number}) div b ELSE {text} END"
    assert values(text, {"a": ("INT", [40]), "b": ("INT", [2])}) == [0]
    assert values(text, {"a": ("INT", [7]), "b": ("INT", [2])}) == [5]


def test_zeros_of_either_sign_are_different_constants() -> None:
    known = fields(a="INT")
    zeros = [Literal(DataType("DOUBLE", nullable=False), zero) for zero in (0.0, -0.0)]
    batch = pa.record_batch({"a": pa.array([1], pa.int32())})
    results = compile_expressions(zeros, known).evaluate(batch)
    assert [str(each[0].as_py()) for each in results] == ["0.0", "-0.0"]


def test_zeros_are_normalized_and_nan_stays() -> None:
    known = fields(x="DOUBLE")
    call = Call(DataType("DOUBLE"), "normalize_zero", (ColumnRef(DataType("DOUBLE"), "x"),))
    batch = pa.record_batch({"x": pa.array([-0.0, float("nan"), None])})
    assert str(compile_expression(call, known).evaluate(batch).to_pylist()) == "[0.0, nan, None]"


def test_folding_computes_constants_and_leaves_what_fails() -> None:
    known = fields(a="INT")
    folded = fold(bound("a > 1 + 2", known))
    assert isinstance(folded, Call)
    assert folded.arguments[1] == Literal(DataType("INT", nullable=False), 3)
    failing = bound("a > 1 div 0", known)
    assert fold(failing) == failing


def test_batches_that_are_slices_are_read_from_where_they_begin() -> None:
    known = fields(a="INT", s="STRING")
    batch = pa.record_batch({"a": pa.array(range(10), pa.int32()),
                             "s": pa.array([str(n) * 2 for n in range(10)])})  # fmt: skip
    text = "CASE WHEN a % 2 = 0 THEN CAST(substring(s, a - a + 2) AS INT) div 1 ELSE -1 END"
    compiled = compile_expression(bound(text, known), known)
    assert compiled.evaluate(batch.slice(5, 4)).to_pylist() == [-1, 6, -1, 8]


def test_the_flink_dialect_computes_conditions_lazily_too() -> None:
    assert values("b <> 0 AND 10 / b > 1", COLUMNS, FLINK) == [True, False, True, False]


def test_long_conditions_are_not_computed_by_rows_when_nothing_can_fail(
    calls: list[tuple[str, int]],
) -> None:
    assert values("length(s) = 1 AND a > 0", COLUMNS) == [True, False, None, True]
    assert ("length", 4) in calls
