"""Functions of arrays, maps and rows: types, values, NULLs inside and outside, empty arrays."""

import math
from typing import Any

import pyarrow as pa
import pytest

from pkray.errors import EvaluationError, QueryError, UnsupportedError
from pkray.relational import query
from pkray.relational.dialect import Dialect
from pkray.relational.functions import function
from pkray.relational.functions.nested.lists import Lists
from pkray.relational.plan.expressions import Call, ColumnRef, Expression, Lambda, Literal
from pkray.schema.types import DataType
from tests.unit.relational.expressions import value
from tests.unit.relational.expressions import values as expression_values
from tests.unit.relational.functions.evaluate import column, number, resolved, text, values

FLINK = Dialect.FLINK
INTS = column("ARRAY<INT>")
WORDS = column("ARRAY<STRING>")
MAP = column("MAP<STRING, INT>")
N = column("INT", "n")
N7 = number(7)
NULL = Literal(DataType("STRING"), None)
NAN = math.nan


def boolean(value: bool) -> Literal:
    return Literal(DataType("BOOLEAN", nullable=False), value)


def over(body: Expression, *parameters: str) -> Lambda:
    return Lambda(body.type, parameters, body)


@pytest.mark.parametrize(
    ("call", "result", "given", "expected"),
    [
        (resolved("size", INTS), "INT", [[1, None], [], None], [2, 0, None]),
        (resolved("cardinality", MAP), "INT", [[("a", 1)], [], None], [1, 0, None]),
        (resolved("array_contains", INTS, number(1)), "BOOLEAN",
         [[1, None], [None, 2], [2], [], None], [True, None, False, False, None]),
        (resolved("array_position", INTS, number(1)), "BIGINT",
         [[None, 1, 1], [2], [], None], [2, 0, 0, None]),
        (resolved("array_distinct", INTS), "ARRAY<INT>",
         [[2, None, 2, None, 1], [], None], [[2, None, 1], [], None]),
        (resolved("array_compact", INTS), "ARRAY<INT NOT NULL>", [[2, None], [None], None],
         [[2], [], None]),
        (resolved("array_remove", INTS, number(2)), "ARRAY<INT>",
         [[2, None, 1, 2], [], None], [[None, 1], [], None]),
        (resolved("sort_array", INTS), "ARRAY<INT>", [[2, None, 1], [], None],
         [[None, 1, 2], [], None]),
        (resolved("sort_array", INTS, boolean(False)), "ARRAY<INT>", [[2, None, 3], None],
         [[3, 2, None], None]),
        (resolved("array_sort", column("ARRAY<DOUBLE>")), "ARRAY<DOUBLE>",
         [[2.0, None, NAN, -1.0], None], [[-1.0, 2.0, NAN, None], None]),
        (resolved("array_min", INTS), "INT", [[2, None, 1], [None], [], None],
         [1, None, None, None]),
        (resolved("array_max", column("ARRAY<STRING NOT NULL>")), "STRING",
         [["a", "é", "b"], [], None], ["é", None, None]),
        (resolved("array_join", WORDS, text("-")), "STRING",
         [["a", None, "b"], [None], [], None], ["a-b", "", "", None]),
        (resolved("array_join", WORDS, text("-"), text("?")), "STRING",
         [["a", None], None], ["a-?", None]),
        (resolved("slice", INTS, number(2), number(2)), "ARRAY<INT>",
         [[1, 2, 3, 4], [1], [], None], [[2, 3], [], [], None]),
        (resolved("slice", INTS, number(-2), number(5)), "ARRAY<INT>",
         [[1, 2, 3], [1], None], [[2, 3], [], None]),
        (resolved("flatten", column("ARRAY<ARRAY<INT>>")), "ARRAY<INT>",
         [[[1], [], [2, None]], [[1], None], [], None], [[1, 2, None], None, [], None]),
        (resolved("element_at", INTS, number(-1)), "INT", [[1, 2], [None], None], [2, None, None]),
        (resolved("try_element_at", INTS, number(2)), "INT", [[1, 2], [1], None], [2, None, None]),
        (resolved("get", INTS, number(0)), "INT", [[1, 2], [], None], [1, None, None]),
        (resolved("element_of", INTS, number(0)), "INT", [[1, 2], [3], None], [1, 3, None]),
        (resolved("element_of", INTS, number(1), dialect=FLINK), "INT", [[1, 2], None],
         [1, None]),
        (resolved("element_of", MAP, text("b")), "INT", [[("a", 1), ("b", 2)], [], None],
         [2, None, None]),
        (resolved("element_at", MAP, text("a")), "INT", [[("a", None)], None], [None, None]),
        (resolved("map_keys", MAP), "ARRAY<STRING NOT NULL>", [[("a", 1)], [], None],
         [["a"], [], None]),
        (resolved("map_values", MAP), "ARRAY<INT>", [[("a", None)], [], None],
         [[None], [], None]),
        (resolved("map_contains_key", MAP, text("a")), "BOOLEAN", [[("a", None)], [], None],
         [True, False, None]),
        (resolved("map_entries", MAP),
         "ARRAY<ROW<`key` STRING NOT NULL, `value` INT> NOT NULL>", [[("a", 1)], [], None],
         [[{"key": "a", "value": 1}], [], None]),
        (resolved("map_from_entries", resolved("map_entries", MAP)), "MAP<STRING NOT NULL, INT>",
         [[("a", 1)], [], None], [[("a", 1)], [], None]),
        (resolved("array_reverse", INTS), "ARRAY<INT>", [[1, None, 3], [], None],
         [[3, None, 1], [], None]),
        (resolved("array_sort", INTS, dialect=FLINK), "ARRAY<INT>", [[2, None, 1], None],
         [[None, 1, 2], None]),
        (resolved("array_sort", INTS, boolean(False), dialect=FLINK), "ARRAY<INT>",
         [[2, None, 3], None], [[3, 2, None], None]),
        (resolved("array_append", INTS, N7), "ARRAY<INT>", [[1], [None], None],
         [[1, 7], [None, 7], None]),
        (resolved("array_prepend", INTS, N7), "ARRAY<INT>", [[1], [], None],
         [[7, 1], [7], None]),
        (resolved("str_to_map", column("STRING")), "MAP<STRING NOT NULL, STRING>",
         ["a:1,b:2:3,c", "", None], [[("a", "1"), ("b", "2:3"), ("c", None)], [("", None)], None]),
        (resolved("map_concat", MAP, resolved("map", text("z"), N7)), "MAP<STRING NOT NULL, INT>",
         [[("a", 1)], [], None], [[("a", 1), ("z", 7)], [("z", 7)], None]),
        (resolved("arrays_zip", INTS, resolved("array", N7, N7)),
         "ARRAY<ROW<`x` INT, `1` INT> NOT NULL>", [[1], [], None],
         [[{"x": 1, "1": 7}, {"x": None, "1": 7}], [{"x": None, "1": 7}] * 2, None]),
        (resolved("array_repeat", column("STRING"), number(2)), "ARRAY<STRING> NOT NULL",
         ["a", None], [["a", "a"], [None, None]]),
    ],
)  # fmt: skip
def test_functions_of_one_column(
    call: Expression, result: str, given: list[Any], expected: list[Any]
) -> None:
    assert str(call.type) == result
    got = values(call, x=given)
    assert repr(got) == repr(expected)
    assert values(call, x=[]) == []


def test_slices_and_hidden_elements_are_taken_apart_rightly() -> None:
    offsets, inside = pa.array([0, 2, 4, 5], pa.int32()), pa.array([1, 2, 3, 4, 5])
    array = pa.ListArray.from_arrays(offsets, inside, mask=pa.array([False, True, False]))
    lists = Lists.of(array.slice(1), 2)
    assert (lists.lengths.tolist(), lists.values.to_pylist()) == ([0, 1], [5])
    assert lists.array(DataType.parse("ARRAY<BIGINT>")).to_pylist() == [None, [5]]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("array_union", [[1, None, 2, 3], None]),
        ("array_intersect", [[2], None]),
        ("array_except", [[1, None], None]),
        ("array_concat", [[1, None, 2, 1, 3, 2], None]),
    ],
)
def test_two_arrays_are_combined(name: str, expected: list[Any]) -> None:
    call = resolved(name, INTS, column("ARRAY<INT>", "y"))
    assert values(call, x=[[1, None, 2, 1], [1]], y=[[3, 2], None]) == expected


def test_arrays_overlap_is_null_where_only_nulls_could_be_shared() -> None:
    call = resolved("arrays_overlap", INTS, column("ARRAY<INT>", "y"))
    given = [[1, 2], [1, None], [1], [None], None]
    assert values(call, x=given, y=[[2], [2], [2], [], [1]]) == [True, None, False, False, None]


def test_arrays_and_maps_are_made() -> None:
    array = resolved("array", N, number(7))
    assert (str(array.type), values(array, n=[1, None])) == (
        "ARRAY<INT> NOT NULL",
        [[1, 7], [None, 7]],
    )
    made = resolved("map", text("a"), N, text("b"), number(2))
    assert str(made.type) == "MAP<STRING NOT NULL, INT> NOT NULL"
    assert values(made, n=[1, None]) == [[("a", 1), ("b", 2)], [("a", None), ("b", 2)]]
    assert values(resolved("array"), n=[1, 2]) == [[], []]
    assert values(resolved("map"), n=[1]) == [[]]


def test_maps_are_made_of_two_arrays() -> None:
    call = resolved("map_from_arrays", WORDS, column("ARRAY<INT>", "y"))
    assert values(call, x=[["a", "b"], None, [], ["c"]], y=[[1, None], [1], [], [3]]) == [
        [("a", 1), ("b", None)], None, [], [("c", 3)],
    ]  # fmt: skip
    with pytest.raises(EvaluationError, match="different number"):
        values(call, x=[["a"]], y=[[1, 2]])
    with pytest.raises(EvaluationError, match="the key 'a' is there twice"):
        values(call, x=[["b"], ["a", "a"]], y=[[1], [1, 2]])
    with pytest.raises(EvaluationError, match="a key is NULL"):
        values(call, x=[[None]], y=[[1]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (resolved("element_of", INTS, number(2)), "has no such element"),
        (resolved("element_of", INTS, number(-1)), "has no such element"),
        (resolved("element_at", INTS, number(3)), "has no such element"),
        (resolved("element_at", INTS, number(0)), "counts from 1, not from 0"),
    ],
)
def test_a_place_outside_of_an_array_fails_with_the_row(call: Expression, message: str) -> None:
    with pytest.raises(EvaluationError, match=message) as caught:
        values(call, x=[None, [1, 2]])
    assert caught.value.row == 1


def test_rows_are_made_and_their_fields_taken() -> None:
    named = Call(N.type, "named", (text("a"), N))
    for call, names in (
        (resolved("struct", named, text("x")), ["a", "col2"]),
        (resolved("row", N, text("x"), dialect=FLINK), ["EXPR$0", "EXPR$1"]),
        (resolved("named_struct", text("b"), N, text("c"), text("x")), ["b", "c"]),
    ):
        assert [field.name for field in call.type.fields or ()] == names
        assert not call.type.nullable
        assert values(call, n=[1, None]) == [
            {names[0]: 1, names[1]: "x"},
            {names[0]: None, names[1]: "x"},
        ]


def test_a_field_is_null_where_its_row_is() -> None:
    row = column("ROW<`a` INT NOT NULL, `B` ROW<`c` STRING>>")
    call = resolved("element_of", row, text("a"))
    given = [{"a": 1, "B": {"c": "x"}}, None]
    assert (str(call.type), values(call, x=given)) == ("INT", [1, None])
    inner = resolved("element_of", resolved("element_of", row, text("b")), text("C"))
    assert values(inner, x=given) == ["x", None]
    with pytest.raises(QueryError, match="no field 'b'; it has a, B"):
        resolved("element_of", row, text("b"), dialect=FLINK)
    assert function.function("field").spark is not None


@pytest.mark.parametrize(
    ("start", "stop", "step", "expected"),
    [(1, 3, None, [1, 2, 3]), (3, 1, None, [3, 2, 1]), (1, 6, 2, [1, 3, 5]), (5, 5, 0, [5]),
     (None, 3, 1, None)],
)  # fmt: skip
def test_sequences_count_up_and_down(
    start: int | None, stop: int, step: int | None, expected: list[int] | None
) -> None:
    ends = [column("INT"), column("INT", "y")]
    if step is None:
        assert values(resolved("sequence", *ends), x=[start], y=[stop]) == [expected]
    else:
        assert values(resolved("sequence", *ends, N), x=[start], y=[stop], n=[step]) == [expected]


@pytest.mark.parametrize(("start", "stop", "step"), [(1, 3, -1), (1, 3, 0)])
def test_a_sequence_that_never_ends_is_refused(start: int, stop: int, step: int) -> None:
    call = resolved("sequence", number(start), number(stop), N)
    with pytest.raises(EvaluationError, match="never reaches its end"):
        values(call, n=[step])


def test_a_sequence_without_measure_is_refused() -> None:
    call = resolved("sequence", N, number(2**31 - 1))
    with pytest.raises(EvaluationError, match="elements at once"):
        values(call, n=[1, 1])


X, PLACE = ColumnRef(DataType("INT"), "e"), ColumnRef(DataType("INT", False), "i")
PLUS = resolved("add", X, PLACE)
BIG = resolved("greater", X, number(1))


def test_lambdas_compute_elements_and_see_their_places() -> None:
    call = resolved("transform", INTS, over(PLUS, "e", "i"))
    assert str(call.type) == "ARRAY<INT>"
    assert values(call, x=[[10, None, 30], [], None]) == [[10, None, 32], [], None]


def test_lambdas_see_columns_of_their_row() -> None:
    outer = ColumnRef(DataType("BIGINT"), "o")
    sums = resolved("add", resolved("add", X, number(0)), outer)
    call = resolved("transform", INTS, over(sums, "e"))
    assert values(call, x=[[1, 2], [], [3]], o=[10, 20, 30]) == [[11, 12], [], [33]]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("filter", [[2, 3], [], [], None]),
        ("exists", [True, None, False, None]),
        ("forall", [False, None, True, None]),
    ],
)
def test_conditions_on_elements(name: str, expected: list[Any]) -> None:
    call = resolved(name, INTS, over(BIG, "e"))
    given = [[1, 2, 3], [None], [], None] if name != "forall" else [[1, 2], [None, 2], [], None]
    assert values(call, x=given) == expected


def test_arrays_are_folded() -> None:
    state = ColumnRef(DataType("INT"), "a")
    merge = over(resolved("add", state, X), "a", "e")
    twice = over(resolved("multiply", state, number(2)), "a")
    given = [[1, 2, 3], [], [1, None], None]
    assert values(resolved("aggregate", INTS, number(0), merge), x=given) == [6, 0, None, None]
    done = resolved("reduce", INTS, number(1), merge, twice)
    assert values(done, x=given) == [14, 2, None, None]


def test_two_arrays_are_computed_together() -> None:
    body = over(resolved("add", X, ColumnRef(DataType("INT"), "f")), "e", "f")
    call = resolved("zip_with", INTS, column("ARRAY<INT>", "y"), body)
    assert values(call, x=[[1, 2], [1], None], y=[[10], [], [1]]) == [[11, None], [None], None]


def test_maps_are_computed_pair_by_pair() -> None:
    key, value = ColumnRef(DataType("STRING", False), "k"), ColumnRef(DataType("INT"), "v")
    given = [[("a", 1), ("b", 2)], [], None]
    big = over(resolved("greater", value, number(1)), "k", "v")
    assert values(resolved("map_filter", MAP, big), x=given) == [[("b", 2)], [], None]
    more = over(resolved("add", value, number(1)), "k", "v")
    assert values(resolved("transform_values", MAP, more), x=given)[0] == [("a", 2), ("b", 3)]
    same = over(key, "k", "v")
    assert values(resolved("transform_keys", MAP, same), x=given)[0] == given[0]
    with pytest.raises(EvaluationError, match="'z' is there twice"):
        values(resolved("transform_keys", MAP, over(text("z"), "k", "v")), x=given)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("array", (number(1), INTS), "elements of an array have no type in common"),
        ("size", (N,), "argument 1 of size is INT; it takes an ARRAY or a MAP"),
        ("element_of", (N, number(0)), "INT has no elements and no fields"),
        ("array_contains", (INTS, INTS), "compares elements of INT with ARRAY<INT>"),
        ("transform", (INTS, number(1)), "it takes a lambda"),
        ("filter", (INTS, over(X, "e")), "it must be BOOLEAN"),
        ("map", (number(1),), "keys and values in pairs"),
        ("flatten", (INTS,), "an ARRAY of ARRAYs"),
        ("element_at", (INTS, text("a")), "it takes an integer"),
    ],
)
def test_wrong_calls_are_refused(
    name: str, arguments: tuple[Expression, ...], message: str
) -> None:
    with pytest.raises(QueryError, match=message):
        resolved(name, *arguments)


def test_what_is_not_offered_says_what_to_write() -> None:
    with pytest.raises(UnsupportedError, match=r"write transform\(array"):
        resolved("element_of", column("ARRAY<ROW<`a` INT>>"), text("a"))


def test_null_is_compared_with_elements_of_any_type() -> None:
    assert values(resolved("array_contains", INTS, NULL), x=[[1], None]) == [None, None]


@pytest.mark.parametrize(
    ("name", "expected"), [("array_distinct", [0.0]), ("array_union", [0.0]), ("array_except", [])]
)
def test_zeros_of_either_sign_are_one_element(name: str, expected: list[float]) -> None:
    zeros = column("ARRAY<DOUBLE>", "x")
    arguments = [zeros] if name == "array_distinct" else [zeros, zeros]
    assert repr(values(resolved(name, *arguments), x=[[-0.0, 0.0]])) == repr([expected])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("map(1, 'a', 2, 'b'), map(1, 'x', 3, 'y'), (k, l, r) -> concat(l, r)",
         [(1, "ax"), (2, None), (3, None)]),
        ("map(1, 'a'), map(2L, 'x'), (k, l, r) -> coalesce(l, r)", [(1, "a"), (2, "x")]),
        ("map(1, 'a'), map(1, 'b'), k -> k", [(1, 1)]),
        ("map(1, 'a'), cast(null as map<int, string>), (k, l, r) -> 1", None),
    ],
)  # fmt: skip
def test_values_of_two_maps_are_computed_by_their_keys(arguments: str, expected: Any) -> None:
    assert value(f"map_zip_with({arguments})") == expected


def test_the_last_value_of_a_key_counts_where_maps_are_united() -> None:
    columns = {
        "x": ("MAP<STRING, INT>", [[("a", 1), ("b", 2)], [("a", 1)], None]),
        "y": ("MAP<STRING, INT>", [[("b", 3)], None, []]),
    }
    wanted = [[("a", 1), ("b", 3)], None, None]
    assert expression_values("map_union(x, y)", columns, FLINK) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "array_insert(array(1, 2), 1, 'x')",
        "array_append(array(1), 'x')",
        "array_prepend(array('1'), 1)",
        "array_contains(array(1), 'x')",
        "array_position(array('1'), 1)",
        "array_remove(array(1), 'x')",
        "array_union(array(1), array('x'))",
        "array_except(array(1), array('x'))",
        "array_intersect(array('x'), array(1))",
        "arrays_overlap(array(array(1)), array(array('x')))",
        "map_concat(map('k', 1), map(1, 2))",
        "element_at(map('k', 1), 1)",
        "map_contains_key(map(1, 2), 'k')",
    ],
)
def test_text_beside_what_is_none_is_refused_before_there_are_rows(text: str) -> None:
    with pytest.raises(QueryError, match="text and what is none: cast one of them"):
        query(f"SELECT {text} AS v")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("array_append(array(), 1)", [1]),
        ("array_union(array(NULL), array(1))", [None, 1]),
        ("array_append(array(1), NULL)", [1, None]),
        ("array_append(array(1), 2L)", [1, 2]),
        ("array_contains(array(1), 1.5)", False),
        ("concat(array(1), array('2'))", [1, 2]),
    ],
)
def test_arrays_without_a_type_and_numbers_of_another_are_taken(text: str, expected: Any) -> None:
    assert query(f"SELECT {text} AS v").to_arrow()["v"].to_pylist() == [expected]


def test_keys_that_a_cast_does_not_take_fail_it_or_make_the_map_null() -> None:
    rows = "(VALUES (map('k', '1')), (map('7', '2')), (map('8', 'x')), (NULL)) AS t(m)"
    found = query(f"SELECT TRY_CAST(m AS MAP<INT, INT>) AS v FROM {rows}").to_arrow()
    assert found["v"].to_pylist() == [None, [(7, 2)], None, None]
    with pytest.raises(EvaluationError, match="cannot be cast to MAP"):
        query(f"SELECT CAST(m AS MAP<INT, INT>) AS v FROM {rows}").to_arrow()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("coalesce(array(), array(1))", "ARRAY<INT NOT NULL> NOT NULL"),
        ("if(true, array(), array(1.5))", "ARRAY<DECIMAL(2, 1) NOT NULL> NOT NULL"),
        ("array(array(), array(1))", "ARRAY<ARRAY<INT NOT NULL> NOT NULL> NOT NULL"),
        ("concat(array(date '2024-01-01'), array())", "ARRAY<DATE NOT NULL> NOT NULL"),
        ("nvl(map(), map('a', 1))", "MAP<STRING NOT NULL, INT NOT NULL> NOT NULL"),
    ],
)
def test_what_has_no_elements_takes_the_type_of_what_is_beside_it(text: str, kind: str) -> None:
    assert str(query(f"SELECT {text} AS v").fields["v"].type) == kind


@pytest.mark.parametrize(("dialect", "between"), [("spark", ":"), ("flink", "=")])
def test_pairs_of_a_text_are_parted_as_the_dialect_has_it(dialect: str, between: str) -> None:
    found = query(f"SELECT str_to_map('a{between}1,b') AS v", dialect).to_arrow()
    assert found["v"].to_pylist() == [[("a", "1"), ("b", None)]]
