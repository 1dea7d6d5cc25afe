"""Functions of JSON text: paths, what is no JSON, columns as JSON and back."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from pkray.errors import QueryError
from pkray.relational import from_arrow
from pkray.relational.dialect import Dialect
from pkray.relational.plan.expressions import Expression
from tests.unit.relational.functions.evaluate import column, resolved, text, values

X = column("STRING")
DOCUMENT = '{"a": {"b c": [1, 2.50, "x", null, {"d": true}]}, "e": "é", "f": 123456789012345678901}'


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$.e", "é"),
        ("$.a['b c'][0]", "1"),
        ('$.a["b c"][1]', "2.5"),
        ("$.a['b c'][2]", "x"),
        ("$.a['b c'][3]", None),
        ("$.a['b c'][4]", '{"d":true}'),
        ("$.a['b c'][4].d", "true"),
        ("$.a['b c'][5]", None),
        ("$.a['b c'][*]", '[1,2.5,"x",null,{"d":true}]'),
        ("$.a['b c'][*].d", "true"),
        ("$.f", "123456789012345678901"),
        ("$.e.x", None),
        ("$.nothing", None),
        ("$.*.*", '[1,2.5,"x",null,{"d":true}]'),
    ],
)
def test_a_path_leads_into_json(path: str, expected: str | None) -> None:
    assert values(resolved("get_json_object", X, text(path)), x=[DOCUMENT, None]) == [
        expected,
        None,
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("json_value", ["1", None, None, None, None]),
        ("json_query", [None, "[1]", None, None, None]),
        ("json_exists", [True, True, False, False, None]),
        ("get_json_object", ["1", "[1]", None, None, None]),
    ],
)
def test_scalars_and_objects_are_told_apart(name: str, expected: list[Any]) -> None:
    call = resolved(name, X, text("lax $.a"), dialect=Dialect.FLINK)
    assert values(call, x=['{"a":1}', '{"a":[1]}', '{"b":1}', "{a", None]) == expected


@pytest.mark.parametrize("path", ["a", "$.a[", "$..a", "$.a['b]"])
def test_a_path_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(QueryError, match="is no path into JSON"):
        resolved("get_json_object", X, text(path))


def test_what_is_json() -> None:
    given = ["{}", "1", '"a"', "null", "", "{'a': 1}", "[1,]", "NaN", None, "[" * 5000]
    expected = [True, True, True, True, False, False, False, False, None, False]
    assert values(resolved("is_json", X), x=given) == expected


def test_is_json_is_written_as_flink_has_it() -> None:
    rows = from_arrow({"j": ["{}", "{", None]}, dialect=Dialect.FLINK)
    found = rows.select("j IS JSON AS a", "j IS NOT JSON AS b").to_arrow().to_pydict()
    assert found == {"a": [True, False, False], "b": [False, True, True]}


def test_lengths_and_names() -> None:
    given = ["[1, 2]", "[]", '{"a": 1, "b": 2}', "x", None]
    assert values(resolved("json_array_length", X), x=given) == [2, 0, None, None, None]
    names = [None, None, ["a", "b"], None, None]
    assert values(resolved("json_object_keys", X), x=given) == names


ROW = (
    "ROW<`i` INT, `d` DOUBLE, `m` DECIMAL(5, 2), `s` STRING, `b` BOOLEAN, `day` DATE, "
    "`ts` TIMESTAMP_LTZ(6), `list` ARRAY<INT>, `map` MAP<STRING, INT>>"
)
VALUE = {
    "i": 1, "d": math.inf, "m": Decimal("1.50"), "s": 'é"', "b": True, "day": date(1969, 12, 31),
    "ts": datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC), "list": [1, None],
    "map": [("a", 1), ("b", None)],
}  # fmt: skip
WRITTEN = (
    '{"i":1,"d":"Infinity","m":1.50,"s":"é\\"","b":true,"day":"1969-12-31",'
    '"ts":"1969-12-31T23:59:59.999Z","list":[1,null],"map":{"a":1,"b":null}}'
)


def test_rows_are_written_as_json_and_read_again() -> None:
    call = resolved("to_json", column(ROW))
    empty = dict.fromkeys(VALUE)
    assert values(call, x=[VALUE, None, empty]) == [WRITTEN, None, "{}"]
    schema = ROW.removeprefix("ROW<").removesuffix(">").replace("TIMESTAMP_LTZ(6)", "TIMESTAMP")
    read = resolved("from_json", X, text(schema))
    assert values(read, x=[WRITTEN, None, "{}", "no", " "]) == [VALUE, None, empty, empty, None]


@pytest.mark.parametrize(
    ("schema", "written", "expected"),
    [
        ("a INT", '{"a": "1"}', {"a": None}),
        ("a INT", '{"a": 1.5}', {"a": None}),
        ("a TINYINT", '{"a": 128}', {"a": None}),
        ("a DECIMAL(3, 1)", '{"a": 99.95}', {"a": None}),
        ("a DECIMAL(3, 1)", '{"a": 9.85}', {"a": Decimal("9.9")}),
        ("a STRING", '{"a": {"b": 1.0}}', {"a": '{"b":1.0}'}),
        ("a DATE", '{"a": "x"}', {"a": None}),
        ("ARRAY<INT>", "[1, null]", [1, None]),
        ("ARRAY<INT>", "{}", None),
        ("STRUCT<a: INT, b: STRUCT<c: STRING>>", '{"b": {"c": "x"}}',
         {"a": None, "b": {"c": "x"}}),
        ("MAP<STRING, DOUBLE>", '{"a": 1, "b": "NaN?"}', [("a", 1.0), ("b", None)]),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_schema_is_null(schema: str, written: str, expected: Any) -> None:
    assert values(resolved("from_json", X, text(schema)), x=[written]) == [expected]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("get_json_object", (X, X), "the path of get_json_object must be a constant"),
        ("from_json", (X, text("a NOTHING")), "is no schema"),
        ("from_json", (X, text("INT")), "is no schema"),
        ("to_json", (X,), "it takes a ROW, an ARRAY or a MAP"),
    ],
)
def test_wrong_calls_are_refused(
    name: str, arguments: tuple[Expression, ...], message: str
) -> None:
    with pytest.raises(QueryError, match=message):
        resolved(name, *arguments)


def test_floats_are_written_with_their_fewest_digits() -> None:
    said = resolved("to_json", column("ROW<a DOUBLE, b FLOAT>", "x"))
    rows = [{"a": 1e7, "b": 3.4e38}, {"a": 1e-300, "b": 0.1}, {"a": 2.5, "b": -0.0}]
    assert values(said, x=rows) == [
        '{"a":1.0E7,"b":3.4E38}', '{"a":1.0E-300,"b":0.1}', '{"a":2.5,"b":-0.0}',
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("JSON_QUOTE(x)", ['"a\\"b\\/\\u00e9"', None, '""']),
        ("JSON_UNQUOTE(JSON_QUOTE(x))", ['a"b/é', None, ""]),
        ("JSON_UNQUOTE(x)", ['a"b/é', None, ""]),
        ("JSON_STRING(x)", ['"a\\"b/é"', None, '""']),
        ("JSON_STRING(n)", ["1", "2", None]),
        ("JSON_ARRAY()", ["[]"] * 3),
        ("JSON_ARRAY(n, 'é', JSON_ARRAY(n))", ['[1,"é",[1]]', '[2,"é",[2]]', '["é",[]]']),
        ("JSON_OBJECT()", ["{}"] * 3),
        ("JSON_OBJECT(KEY 'n' VALUE n)", ['{"n":1}', '{"n":2}', '{"n":null}']),
        ("JSON_OBJECT('n' VALUE n ABSENT ON NULL)", ['{"n":1}', '{"n":2}', "{}"]),
        (
            "JSON_OBJECT(KEY 'a' VALUE JSON_OBJECT(KEY 'b' VALUE TRUE), KEY 'n' VALUE n)",
            [f'{{"a":{{"b":true}},"n":{n}}}' for n in ("1", "2", "null")],
        ),
    ],
)
def test_flink_writes_json(call: str, expected: list[str | None]) -> None:
    given = {"x": ['a"b/é', None, ""], "n": pa.array([1, 2, None], pa.int32())}
    rows = from_arrow(pa.table(given), dialect=Dialect.FLINK)
    assert rows.select(f"{call} AS v").to_arrow()["v"].to_pylist() == expected


def test_json_that_is_quoted_badly_stays_as_it_is() -> None:
    rows = from_arrow({"j": ['"a', '"\\x"', '"\\ud83d"', '"', "[1]"]}, dialect=Dialect.FLINK)
    found = rows.select("JSON_UNQUOTE(j) AS v").to_arrow()["v"].to_pylist()
    assert found == ['"a', '"\\x"', '"\\ud83d"', '"', "[1]"]
