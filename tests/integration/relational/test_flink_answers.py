"""What Flink 2.3 gave for calls that Spark answers in another way."""

import datetime as dt
import math

import pyarrow as pa
import pytest

from pkray.relational import from_arrow, query
from pkray.relational.dialect import Dialect

ROWS = from_arrow(
    {
        "a": [[1, 2]],
        "b": pa.array([[1, None, 2]]),
        "t": [dt.date(2024, 5, 15)],
        "v": [dt.datetime(2024, 5, 12)],
        "d": [-0.5],
        "j": [' {"a": 1}'],
        "n": pa.array([None], pa.string()),
        "r": pa.array([{"q": "x"}], pa.struct([("p", pa.int32()), ("q", pa.string())])),
        "s": ["a-bc"],
        "u": [dt.datetime(2024, 2, 29, 13, 14, 15, 123450)],
        "y": [b"\x01\x02\x03"],
        "z": [0.0],
    },
    dialect=Dialect.FLINK,
)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("a[3]", None),
        ("ARRAY_CONTAINS(a, 3)", False),
        ("ARRAY_CONTAINS(a, CAST(NULL AS BIGINT))", False),
        ("ARRAY_CONTAINS(b, 2)", True),
        ("ARRAY_CONTAINS(b, 3)", False),
        ("ARRAY_CONTAINS(b, CAST(NULL AS BIGINT))", True),
        ("ARRAY_CONTAINS(NULLIF(b, b), 2)", None),
        ("ARRAY_REMOVE(b, 1)", [None, 2]),
        ("ARRAY_REMOVE(b, CAST(NULL AS BIGINT))", [1, 2]),
        ("FLOOR(t TO WEEK)", dt.date(2024, 5, 12)),
        ("CEIL(t TO WEEK)", dt.date(2024, 5, 19)),
        ("FLOOR(u TO WEEK)", dt.datetime(2024, 2, 25)),
        ("FLOOR(v TO WEEK)", dt.datetime(2024, 5, 12)),
        ("CEIL(v TO WEEK)", dt.datetime(2024, 5, 12)),
        ("LPAD(s, -1, 'x')", None),
        ("LPAD(s, 2, '')", None),
        ("RPAD(s, 6, 'xy')", "a-bcxy"),
        ("LN(z)", -math.inf),
        ("LOG10(z)", -math.inf),
        ("LOG(2, z)", -math.inf),
        ("LOG(z, 2)", -0.0),
        ("LOG2(NULLIF(z, 0))", None),
        ("LOG1P(z)", 0.0),
        ("JSON_STRING(u)", '"2024-02-29T13:14:15.12345"'),
        ("JSON_STRING(CAST(u AS TIMESTAMP(0)))", '"2024-02-29T13:14:15"'),
        ("JSON_OBJECT('k' VALUE r)", '{"k":{"p":null,"q":"x"}}'),
        ("CAST(s AS BINARY(2))", b"a-"),
        ("CAST(y AS BINARY(5))", b"\x01\x02\x03\x00\x00"),
        ("CAST(y AS VARBINARY(2))", b"\x01\x02"),
        ("CAST(y AS VARBINARY(5))", b"\x01\x02\x03"),
        ("j IS JSON OBJECT", True),
        ("j IS JSON ARRAY", False),
        ("j IS JSON SCALAR", False),
        ("j IS NOT JSON VALUE", False),
        ("'\"x\"' IS JSON SCALAR", True),
        ("n IS JSON OBJECT", False),
        ("PARSE_URL(s || ' no', 'HOST')", None),
        (r"REGEXP_REPLACE(s, '[a-z]+', '<$0\>')", r"<$0\>-<$0\>"),
    ],
)
def test_calls_answer_as_in_flink(text: str, answer: object) -> None:
    (found,) = query(f"SELECT {text} AS v FROM t", t=ROWS, dialect="flink").to_arrow()["v"]
    assert found.as_py() == answer


def test_logarithms_of_negative_numbers_are_no_numbers() -> None:
    sql = "SELECT LN(d) AS a, LOG2(d) AS b, LOG(d, 2) AS c FROM t"
    (row,) = query(sql, t=ROWS, dialect="flink").to_arrow().to_pylist()
    assert all(math.isnan(value) for value in row.values())
