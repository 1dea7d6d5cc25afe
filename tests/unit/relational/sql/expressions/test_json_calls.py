"""SQL/JSON calls: RETURNING, wrappers, ON EMPTY and ON ERROR, as Flink has them."""

from typing import Any

import pyarrow as pa
import pytest
import sqlglot

from pkray.errors import EvaluationError, QueryError
from pkray.relational import from_arrow
from pkray.relational.dialect import Dialect
from pkray.relational.sql.dialects import PkrayFlink

ROWS = from_arrow(
    pa.table({"j": ['{"a":"1"}', '{"a":{"b":1}}', "{}", "x", None]}), dialect=Dialect.FLINK
)


def given(call: str) -> list[Any]:
    return ROWS.select(f"{call} AS v").to_arrow()["v"].to_pylist()


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("JSON_VALUE(j, 'lax $.a' RETURNING INT)", [1, None, None, None, None]),
        (
            "JSON_VALUE(j, 'lax $.a' RETURNING INT DEFAULT 7 ON EMPTY DEFAULT 8 ON ERROR)",
            [1, 7, 7, 8, None],
        ),
        (
            "JSON_VALUE(j, '$.a' DEFAULT 'e' ON EMPTY DEFAULT 'r' ON ERROR)",
            ["1", "r", "r", "r", None],
        ),
        ("JSON_VALUE(j, 'lax $.a' NULL ON EMPTY DEFAULT 'r' ON ERROR)",
         ["1", None, None, "r", None]),
        ("JSON_QUERY(j, 'lax $.a' WITH WRAPPER)", ['["1"]', '[{"b":1}]', None, None, None]),
        (
            "JSON_QUERY(j, 'lax $.a' WITH CONDITIONAL ARRAY WRAPPER EMPTY ARRAY ON EMPTY "
            "EMPTY OBJECT ON ERROR)",
            ['["1"]', '[{"b":1}]', "[]", "{}", None],
        ),
        ("JSON_QUERY(j, 'strict $.a' EMPTY ARRAY ON ERROR)",
         ["[]", '{"b":1}', "[]", "[]", None]),
        ("JSON_EXISTS(j, 'strict $.a')", [True, True, False, False, None]),
        ("JSON_EXISTS(j, 'strict $.a' TRUE ON ERROR)", [True, True, True, True, None]),
        ("JSON_EXISTS(j, 'lax $.a' UNKNOWN ON ERROR)", [True, True, False, None, None]),
        ("JSON_LENGTH(j)", [1, 1, 0, None, None]),
        ("JSON_LENGTH(j, '$.a.b')", [None, 1, None, None, None]),
    ],
)  # fmt: skip
def test_a_clause_says_what_a_call_gives(call: str, expected: list[Any]) -> None:
    assert given(call) == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("JSON_QUERY('[1, 2]', '$' WITH CONDITIONAL WRAPPER)", "[1,2]"),
        ("JSON_QUERY('[1, 2]', '$' WITH UNCONDITIONAL ARRAY WRAPPER)", "[[1,2]]"),
        ("JSON_QUERY('1', '$' WITHOUT WRAPPER)", None),
        ('JSON_QUERY(\'{"a":[{"c":1},{"c":2}]}\', \'lax $.a[*].c\')', "[1,2]"),
        ("JSON_QUERY('[\"a\"]', '$' RETURNING ARRAY<STRING>)", ["a"]),
        ("JSON_VALUE('x', '$' RETURNING INT DEFAULT '5' ON ERROR)", 5),
        ("JSON_VALUE('{\"a\":\"q\"}', 'lax $.a' RETURNING INT DEFAULT 3 ON ERROR)", 3),
        ("JSON_EXISTS('{\"a\":null}', 'lax $.a')", False),
        ("JSON_OBJECT(KEY 'a' VALUE JSON('[1]'))", '{"a":[1]}'),
        ("JSON_ARRAY(JSON('{}'), 'x')", '[{},"x"]'),
    ],
)
def test_constants_give_what_flink_gives(call: str, expected: Any) -> None:
    assert given(call)[0] == expected


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("JSON_VALUE(j, 'lax $.a' ERROR ON ERROR)", "leave out ERROR ON ERROR"),
        ("JSON_VALUE(j, 'lax $.a' ERROR ON EMPTY)", "nothing is there"),
        ("JSON_EXISTS(j, 'lax $.a' ERROR ON ERROR)", "json_exists\\('x'"),
        ("JSON_VALUE('{\"a\":\"q\"}', '$.a' RETURNING INT ERROR ON ERROR)", "cannot be cast"),
        ("JSON_ARRAY(JSON(j))", "is no JSON"),
    ],
)
def test_error_on_an_event_stops_the_query(call: str, message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        given(call)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("JSON_VALUE(j, '$.a' TRUE ON ERROR)", "has no TRUE ON ERROR: write NULL, ERROR"),
        ("JSON_EXISTS(j, '$.a' NULL ON EMPTY)", "has ON ERROR, not ON EMPTY"),
        ("JSON_QUERY(j, '$.a' DEFAULT 1 ON ERROR)", "has no DEFAULT value ON ERROR"),
        ("JSON_VALUE(j, '$.a' WITH WRAPPER)", "JSON_QUERY has one"),
        ("JSON_EXISTS(j, '$.a' RETURNING INT)", "leave out RETURNING"),
        ("JSON_VALUE(j, '$.a' NULL ON EMPTY NULL ON EMPTY)", "written twice"),
        ("JSON_VALUE(j, '$.a' NULL)", "is expected"),
        ("JSON_VALUE(j, '$.a' NULL ON)", "is expected after ON"),
    ],
)
def test_clauses_that_there_are_not_are_refused(call: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        given(call)


@pytest.mark.parametrize(
    "call",
    [
        "JSON_VALUE(j, 'lax $.a' RETURNING INT DEFAULT 7 ON EMPTY NULL ON ERROR)",
        "JSON_QUERY(j, '$' WITH CONDITIONAL WRAPPER EMPTY ARRAY ON EMPTY)",
        "JSON_EXISTS(j, '$' UNKNOWN ON ERROR)",
    ],
)
def test_a_call_is_written_as_it_was_read(call: str) -> None:
    assert sqlglot.parse_one(call, dialect=PkrayFlink).sql(dialect=PkrayFlink) == call
