"""What functions make is bounded before it is made."""

import itertools
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from pkray.errors import EvaluationError, PkrayError
from pkray.relational import from_arrow, query
from pkray.relational.dialect import Dialect
from pkray.relational.functions import function
from pkray.relational.functions.evaluation.compiled import compile_expression
from pkray.relational.functions.outputs import ESTIMATES, MOST_OF_BATCH, row_sizes
from pkray.relational.plan.expressions import Call, ColumnRef, Expression
from tests.unit.relational.expressions import fields

V = from_arrow(pa.table({"n": pa.array(np.arange(3000) % 7, pa.int32()), "t": ["abc"] * 3000}))
TOO_LARGE = (
    "repeat('x', 2000000000)", "repeat(t, 2000000000)", "space(2000000000)",
    "array_repeat(1, 2000000000)", "array_repeat(t, 2000000000)", "sequence(1, 2000000000)",
    "sequence(n, 2000000000, 1)", "lpad('a', 2000000000, 'b')", "rpad(t, 2000000000, 'bc')",
    "replace(repeat('a', 100000), 'a', repeat('b', 100000))",
    "regexp_replace(repeat('a', 100000), 'a', repeat('b', 100000))",
    "concat(repeat('a', 200000000), repeat('a', 200000000))",
    "concat_ws(repeat('x', 100000000), 'a', 'b', 'c', t)",
    "array_join(array_repeat('a', 1000000), repeat('b', 10000))",
    "flatten(array_repeat(array_repeat(1, 100000), 100000))",
    "transform(sequence(1, 1000000), x -> repeat('a', 1000000))",
    "transform(sequence(1, 100000), x -> repeat(t, 1000))",
    "array_insert(array(1), 2000000000, 1)",
    "split(repeat(t, 30000000), '')",
    *(
        pytest.param(call, marks=pytest.mark.slow)
        for call in (
            "split(repeat(t, 30000000), 'a|b')", "regexp_extract_all(repeat(t, 30000000), '(a)')",
            "str_to_map(repeat(t, 30000000), 'b', 'a')",
        )
    ),
)  # fmt: skip


@pytest.mark.parametrize("call", TOO_LARGE)
def test_a_value_that_is_too_large_is_refused_before_it_is_made(call: str) -> None:
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    try:
        with pytest.raises(EvaluationError, match=r"at most \d+ fit"):
            query(f"SELECT {call} x FROM v", v=V).to_arrow()
        assert tracemalloc.get_traced_memory()[1] < 1 << 30
    finally:
        tracemalloc.stop()
    assert pa.total_allocated_bytes() - before < 1 << 30


@pytest.mark.parametrize(
    ("call", "size"),
    [
        ("repeat(t, 100000)", 300_000),
        ("space(100000 + n * 0)", 100_000),
        ("lpad(t, 200000)", 200_000),
        ("array_join(array_repeat(repeat(t, 100), 500), '')", 150_000),
        ("CASE WHEN n >= 0 THEN repeat('x', 100000) ELSE t END", 100_000),
    ],
)
def test_a_batch_that_is_too_large_comes_out_in_parts(call: str, size: int) -> None:
    rows = 0
    for batch in query(f"SELECT {call} x, n FROM v", v=V).to_batches():
        assert batch.nbytes < 2 * MOST_OF_BATCH
        assert batch["n"].to_pylist() == [(rows + i) % 7 for i in range(batch.num_rows)]
        rows += batch.num_rows
        assert len(batch["x"][0].as_py()) == size
    assert rows == 3000


def test_a_lambda_that_makes_too_much_at_once_is_computed_for_fewer_elements() -> None:
    rows = from_arrow([{"n": 3000}])
    call = "size(filter(sequence(1, n), x -> cardinality(sequence(1, 8000 + 0 * x)) = x * 4))"
    assert query(f"SELECT {call} x FROM v", v=rows).to_arrow()["x"].to_pylist() == [1]


def test_the_characters_of_a_long_text_are_its_parts() -> None:
    rows = from_arrow([{"t": "aé漢😀" * 100_000}, {"t": ""}, {"t": None}])
    found = query("SELECT split(t, '') a, split(t, '', 2) b FROM v", v=rows).to_arrow().to_pylist()
    assert found[0]["a"] == list("aé漢😀" * 100_000)
    assert found[0]["b"] == ["a", ("aé漢😀" * 100_000)[1:]]
    assert [row["a"] for row in found[1:]] == [[""], None]


def test_what_is_large_on_the_way_alone_comes_out_as_one_batch() -> None:
    (batch,) = query("SELECT length(repeat(t, 100000)) x FROM v", v=V).to_batches()
    assert batch["x"].to_pylist() == [300_000] * 3000


def test_a_row_that_is_too_large_is_named_among_others() -> None:
    rows = from_arrow(pa.table({"n": pa.array([1, 2_000_000_000, 3], pa.int32())}))
    with pytest.raises(EvaluationError, match=r"the row has n=2000000000|n.*2000000000"):
        query("SELECT repeat('x', n) x FROM v", v=rows).to_arrow()


def test_estimates_are_of_functions() -> None:
    for name in ESTIMATES:
        assert function.is_known(name), name


GIVEN = fields(i="INT", s="STRING", a="ARRAY<INT>", t="ARRAY<STRING>")
SIZED = pa.RecordBatch.from_pylist(
    [{"i": 20_000, "s": "ab,c" * 25, "a": list(range(100)), "t": ["ab"] * 100}], GIVEN.arrow
)
TIMES_AS_MUCH, BESIDE = 16, 4096
"""What a function without an estimate may make of what it is given, and bytes beside that."""


def test_functions_that_make_far_more_than_they_are_given_have_an_estimate() -> None:
    refs = [ColumnRef(field.type, field.name) for field in GIVEN]
    number, text, *_ = refs
    calls = [*((each,) for each in refs), *itertools.product(refs, repeat=2)]
    calls += [(one, each, text) for one in refs for each in (number, text)]
    found = set()
    for each, arguments in itertools.product(function.written(Dialect.SPARK), calls):
        try:
            call = function.resolve(each.name, arguments, Dialect.SPARK)
            made = compile_expression(call, GIVEN).evaluate(SIZED)
        except (PkrayError, pa.ArrowException):
            continue
        given = sum(SIZED[argument.name].nbytes for argument in arguments)
        if made.nbytes > TIMES_AS_MUCH * given + BESIDE:
            names = {part.function for part in _calls(call)}
            assert not names.isdisjoint(ESTIMATES), (each.name, made.nbytes)
            found |= names
    assert {"repeat", "array_repeat", "space", "lpad", "rpad"} <= found


def _calls(expression: Expression) -> list[Call]:
    inside = [call for operand in expression.operands() for call in _calls(operand)]
    return [expression, *inside] if isinstance(expression, Call) else inside


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, None, 3]),
        pa.array(["a", None, "abcdefgh"]),
        pa.array([["a", None], None, ["abcdefgh"] * 20]),
        pa.array([{"x": "a"}, None, {"x": "abcdefgh"}]),
        pa.array([[("k", 1)], None, [("k", 1)] * 9], pa.map_(pa.string(), pa.int64())),
    ],
    ids=lambda column: str(column.type),
)
def test_sizes_of_rows_add_up_to_the_column_s_about(column: pa.Array) -> None:
    sizes = row_sizes([column], 3)
    assert column.nbytes / 2 <= sizes.sum() <= 2 * column.nbytes + 24
    assert row_sizes([column.slice(1)], 2).tolist()[1] in (sizes[2], sizes[0])
