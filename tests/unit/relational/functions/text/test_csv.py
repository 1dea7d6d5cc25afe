"""Comma-separated values and schemas of examples: what Spark 4.2 gives, and what is refused."""

from typing import Any

import pytest

from pkray.errors import QueryError
from pkray.relational.functions.text.csv import fields_of
from tests.unit.relational.expressions import value, values

GIVEN: list[tuple[str, Any]] = [
    ("from_csv('1, 0.8','a INT, b DOUBLE')", {"a": 1, "b": 0.8}),
    ("from_csv('a,b,c','a STRING, b STRING')", {"a": "a", "b": "b"}),
    ("from_csv('a','a STRING, b STRING')", {"a": "a", "b": None}),
    ("from_csv('','a STRING, b INT')", {"a": None, "b": None}),
    ("from_csv(NULL,'a STRING')", None),
    ("from_csv('x','a INT')", {"a": None}),
    ("from_csv('\"a,b\",2','a STRING, b INT')", {"a": "a,b", "b": 2}),
    ("from_csv(' a , b ','a STRING, b STRING')", {"a": " a ", "b": " b "}),
    ("from_csv('1,,3','a INT, b INT, c INT')", {"a": 1, "b": None, "c": 3}),
    ("from_csv('a|b','a STRING,b STRING',map('sep','|'))", {"a": "a", "b": "b"}),
    ('from_csv(\'a"b,"c""d"\',\'a STRING,b STRING\')', {"a": 'a"b', "b": '"c""d"'}),
    ('from_csv(\'"","a\\\\"b"\',\'a STRING,b STRING\')', {"a": None, "b": 'a"b'}),
    ("from_csv('NULL,','a STRING,b STRING',map('nullValue','NULL'))", {"a": None, "b": None}),
    ("from_csv('1,2,3','a INT')", {"a": 1}),
    ("from_csv('1.5','a INT')", {"a": None}),
    ("from_csv('x,1','a INT,b INT')", {"a": None, "b": 1}),
    ("from_csv('128','a TINYINT')", {"a": None}),
    ("from_csv('#a','a STRING')", {"a": "#a"}),
    ("from_csv('1,','a INT,b STRING')", {"a": 1, "b": None}),
    ("to_csv(named_struct('a',1,'b','x'))", "1,x"),
    ("to_csv(named_struct('a',NULL,'b',''))", ',""'),
    (
        "to_csv(named_struct('a',1.5D,'b',true,'c',date'2020-01-02','d',timestamp'2020-01-02 03:04:05','e',1.50))",  # noqa: E501
        "1.5,true,2020-01-02,2020-01-02T03:04:05.000Z,1.50",
    ),
    ("to_csv(named_struct('a',1,'b',2),map('sep','|'))", "1|2"),
    ("to_csv(CAST(NULL AS STRUCT<a:INT>))", None),
    ("to_csv(named_struct('a',1e10D,'b',double('NaN'),'c',float('1.1')))", "1.0E10,NaN,1.1"),
    ("to_csv(named_struct('a',array(1,2)))", '"[1, 2]"'),
    ("to_csv(named_struct('a','#x','b','a\\\\b','c','\"'))", '"#x",a\\b,"\\""'),
    ("to_csv(named_struct('a',timestamp'2020-01-02 03:04:05.123456'))", "2020-01-02T03:04:05.123Z"),
    ("to_csv(named_struct('a',timestamp_ntz'2020-01-02 03:04:05.5'))", "2020-01-02T03:04:05.500"),
    ("to_csv(named_struct('time',date'2015-08-26'),map('dateFormat','dd/MM/yyyy'))", "26/08/2015"),
    ("to_csv(named_struct('a',named_struct('b',1)))", "{1}"),
    ("schema_of_csv('1,abc')", "STRUCT<_c0: INT, _c1: STRING>"),
    (
        "schema_of_csv('1.5,true,2020-01-01,2020-01-01 01:02:03,,9999999999,99999999999999999999,x')",  # noqa: E501
        "STRUCT<_c0: DOUBLE, _c1: BOOLEAN, _c2: DATE, _c3: TIMESTAMP, _c4: STRING, _c5: BIGINT, _c6: DECIMAL(20,0), _c7: STRING>",  # noqa: E501
    ),
    ("schema_of_csv('1|a',map('delimiter','|'))", "STRUCT<_c0: INT, _c1: STRING>"),
    (
        "schema_of_csv('NaN,1e5,Infinity,-1, 2,1.50')",
        "STRUCT<_c0: DOUBLE, _c1: DOUBLE, _c2: DOUBLE, _c3: INT, _c4: DOUBLE, _c5: DOUBLE>",
    ),
    ('schema_of_csv(\'a"b,"1,2"\')', "STRUCT<_c0: STRING, _c1: STRING>"),
    ('schema_of_json(\'{"c":0, "b":1}\')', "STRUCT<b: BIGINT, c: BIGINT>"),
    ("schema_of_json('[{\"col\":0}]')", "ARRAY<STRUCT<col: BIGINT>>"),
    (
        'schema_of_json(\'{"a":null,"b":[],"c":[1,"x"],"d":1.5,"e":true,"f":{"g":[1,2.5]},"h":99999999999,"i":99999999999999999999,"j":"2020-01-01"}\')',
        "STRUCT<a: STRING, b: ARRAY<STRING>, c: ARRAY<STRING>, d: DOUBLE, e: BOOLEAN, f: STRUCT<g: ARRAY<DOUBLE>>, h: BIGINT, i: DECIMAL(20,0), j: STRING>",  # noqa: E501
    ),
    ("schema_of_json('1')", "BIGINT"),
    ("schema_of_json('\"x\"')", "STRING"),
    ("schema_of_json('null')", "STRING"),
    ("schema_of_json('[1,null]')", "ARRAY<BIGINT>"),
    ("schema_of_json('')", "STRING"),
    ("schema_of_json('{}')", "STRUCT<>"),
    ("schema_of_json('[]')", "ARRAY<STRING>"),
    ('schema_of_json(\'[{"a":1},{"b":"x"},{"a":2.5}]\')', "ARRAY<STRUCT<a: DOUBLE, b: STRING>>"),
    (
        'schema_of_json(\'{"a b":1,"B":2,"a":[[1],[]]}\')',
        "STRUCT<B: BIGINT, a: ARRAY<ARRAY<BIGINT>>, `a b`: BIGINT>",
    ),
    ("schema_of_json('1.5')", "DOUBLE"),
    ("schema_of_json('true')", "BOOLEAN"),
    ("schema_of_json('{\"a\":12345678901234567890123456789012345678901}')", "STRUCT<a: DOUBLE>"),
    ("schema_of_json('{\"a\":1e5}')", "STRUCT<a: DOUBLE>"),
    ('schema_of_json(\'{"a":[1,2.5,"x",{"b":1}]}\')', "STRUCT<a: ARRAY<STRING>>"),
    ("schema_of_json('[{\"a\":1},3]')", "ARRAY<STRING>"),
]
REFUSED = [
    "from_csv('1,x','a INT,b INT',map('mode','FAILFAST'))",
    "from_csv('x,1','a INT,b INT,_corrupt_record STRING',map('columnNameOfCorruptRecord','_corrupt_record'))",  # noqa: E501
    "to_csv(1)",
    "schema_of_csv('')",
    "schema_of_csv(NULL)",
    "schema_of_json('{')",
    "schema_of_json(NULL)",
]


@pytest.mark.parametrize(("call", "expected"), GIVEN)
def test_a_line_and_a_schema_are_sparks(call: str, expected: Any) -> None:
    assert value(call) == expected


@pytest.mark.parametrize("call", REFUSED)
def test_options_and_examples_that_are_not_known_are_refused(call: str) -> None:
    with pytest.raises(QueryError):
        value(call)


def test_lines_of_rows_are_read_row_by_row() -> None:
    columns = {"x": ("STRING", ["1,a", None, "", 'x,"b,c"', "1,a"])}
    assert values("from_csv(x, 'a INT, b STRING')", columns) == [
        {"a": 1, "b": "a"}, None, {"a": None, "b": None}, {"a": None, "b": "b,c"},
        {"a": 1, "b": "a"},
    ]  # fmt: skip
    assert values("to_csv(from_csv(x, 'a INT, b STRING'))", columns) == [
        "1,a", None, ",", ',"b,c"', "1,a",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("", [""]),
        (",", ["", ""]),
        ('"a",', ["a", ""]),
        ('"a,",b', ["a,", "b"]),
        ('"a', ['"a']),
        ('"a"b,c', ['"a"b', "c"]),
        ("a\nb,c", ["a\nb", "c"]),
        ('"a\n\\"b"', ['a\n"b']),
    ],
)
def test_a_quote_ends_before_a_separator(line: str, fields: list[str]) -> None:
    assert fields_of(line, ",") == fields
