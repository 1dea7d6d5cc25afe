"""Functions of chance: types, ranges, other values for each row, and where they are refused."""

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from pkray.errors import QueryError, UnsupportedError
from pkray.relational import changelog, from_arrow, query
from pkray.relational.dialect import Dialect
from tests.unit.relational.expressions import bound, type_of

SPARK, FLINK = Dialect.SPARK, Dialect.FLINK
ROWS = from_arrow(pa.table({"n": range(5000)}))
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def made(text: str, dialect: Dialect = SPARK) -> list[Any]:
    found = query(f"SELECT {text} AS v FROM r", dialect=dialect, r=ROWS).to_arrow()["v"]
    return list(found.to_pylist())


@pytest.mark.parametrize(
    ("text", "kind", "inside", "distinct"),
    [
        ("rand()", "DOUBLE NOT NULL", lambda v: 0 <= v < 1, 4990),
        ("random()", "DOUBLE NOT NULL", lambda v: 0 <= v < 1, 4990),
        ("randn()", "DOUBLE NOT NULL", lambda v: abs(v) < 9, 4990),
        ("uuid()", "STRING NOT NULL", UUID.fullmatch, 5000),
        ("randstr(20)", "STRING NOT NULL", re.compile("[0-9a-zA-Z]{20}").fullmatch, 5000),
        ("uniform(1, 10)", "INT NOT NULL", lambda v: 1 <= v < 10, 9),
        ("uniform(1L, -3)", "BIGINT NOT NULL", lambda v: -3 <= v <= 1, 3),
        ("uniform(1f, 3)", "FLOAT NOT NULL", lambda v: 1 <= v <= 3, 4000),
        ("uniform(1.5, 10.5)", "DECIMAL(3, 1) NOT NULL", lambda v: 1.5 <= v <= 10.5, 80),
        ("monotonically_increasing_id()", "BIGINT NOT NULL", lambda v: v >= 0, 5000),
    ],
)
def test_each_row_has_a_value_of_its_own(
    text: str, kind: str, inside: Callable[[Any], bool], distinct: int
) -> None:
    found = made(text)
    assert type_of(text) == kind
    assert all(map(inside, found))
    assert len(set(found)) >= distinct


def test_numbers_of_rows_ascend() -> None:
    found = made("monotonically_increasing_id()")
    assert found == sorted(found)


def test_elements_are_shuffled() -> None:
    found = made("shuffle(sequence(1, 5))")
    assert {tuple(sorted(each)) for each in found} == {(1, 2, 3, 4, 5)}
    assert len(set(map(tuple, found))) == 120


def test_flink_gives_random_integers() -> None:
    assert set(made("rand_integer(4)", FLINK)) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("rand(3)", UnsupportedError, r"takes no seed.*pmod\(hash\(key\), 100\)"),
        ("uniform(1, 2, 3)", UnsupportedError, "takes no seed"),
        ("shuffle(array(1), 3)", UnsupportedError, "takes no seed"),
        ("uniform('1', 2)", QueryError, "it takes a number"),
        ("randstr(-1)", QueryError, "must be 0 to 65536"),
        ("randstr(2000000000)", QueryError, "must be 0 to 65536"),
        ("monotonically_increasing_id(1)", QueryError, "takes 0 arguments"),
    ],
)
def test_wrong_calls_are_refused(text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        bound(text)


@pytest.mark.parametrize(
    "text",
    ["SELECT n, uniform(1, 9) AS v FROM r", "SELECT n FROM r WHERE rand() < 0.5",
     "SELECT max(uuid()) AS v FROM r"],
)  # fmt: skip
def test_continuous_queries_refuse_chance(text: str) -> None:
    rows = changelog(pa.schema([("n", pa.int64())]), mode="insert")
    with pytest.raises(UnsupportedError, match="gives other values when rows are computed again"):
        query(text, r=rows).stream("retract")
