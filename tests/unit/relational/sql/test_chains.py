"""Chains of thousands of operators: read flat, computed from left to right, refused beyond."""

import pickle
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pytest

from pkray.errors import EvaluationError, QueryError
from pkray.relational import col, from_arrow, query
from pkray.relational.dialect import Dialect
from pkray.relational.functions.function import is_known
from pkray.relational.plan.expressions import Chain
from pkray.relational.plan.nodes import Project
from pkray.relational.plan.text import from_text, to_text
from pkray.relational.running import prepare
from pkray.relational.spark_sql.query import SparkSql
from pkray.relational.sql.chains import MOST_TERMS
from pkray.relational.sql.parser import parse_query

ROWS = from_arrow(
    pa.table(
        {
            "a": pa.array([1, 2, None], pa.int32()),
            "d": [0.1, 2.5, None],
            "s": ["x", "y", None],
            "n": pa.array([1, 2, 3], pa.decimal128(5, 2)),
        }
    ),
    name="t",
)


def made(value: str, dialect: str = "spark") -> Any:
    return query(f"SELECT {value} AS x FROM t", dialect=dialect, t=ROWS)


def values(value: str, dialect: str = "spark") -> list[Any]:
    found: list[Any] = made(value, dialect).to_arrow()["x"].to_pylist()
    return found


def chain_of(value: str) -> tuple[Chain, Project]:
    node = made(value).plan
    assert isinstance(node, Project)
    found = dict(node.columns)["x"]
    assert isinstance(found, Chain)
    return found, node


@pytest.mark.parametrize("dialect", ["spark", "flink"])
def test_floats_are_added_from_left_to_right(dialect: str) -> None:
    terms = [0.1 * number for number in range(2000)]
    said = " + ".join(f"CAST({term!r} AS DOUBLE)" for term in terms)
    expected = [list(accumulate([start, *terms]))[-1] for start in (0.1, 2.5)]
    assert values(f"d + {said}", dialect) == [*expected, None]


def test_operators_of_a_chain_bind_as_they_do_in_short() -> None:
    text = "a" + " + 3 * 2 - a % 2" * 700
    assert values(text) == [1 + 700 * 5, 2 + 700 * 6, None]


@pytest.mark.parametrize("operator", ["+ 1", "- 1", "* 1.5e0", "/ 1.5e0", "% 7", "| 4", "+ 1.1"])
def test_a_long_chain_gives_what_short_ones_in_brackets_give(operator: str) -> None:
    inner = f"SELECT a {f'{operator} ' * 60} AS a FROM t"
    whole = query(f"SELECT a {f'{operator} ' * 60} AS x FROM ({inner})", t=ROWS).to_arrow()
    assert made(f"a {f'{operator} ' * 120}").to_arrow().equals(whole)


@pytest.mark.slow
def test_two_thousand_branches_terms_and_queries_run() -> None:
    cases = " ".join(f"WHEN a = {each} THEN {each} / a" for each in range(2000))
    assert values(f"CASE {cases} END") == [1.0, 1.0, None]
    assert values("s" + " || 'z'" * 2000) == ["x" + "z" * 2000, "y" + "z" * 2000, None]
    union = query(
        " UNION ALL ".join(f"SELECT a + {each} AS x FROM t" for each in range(500)), t=ROWS
    )
    assert sorted(each or 0 for each in union.to_arrow()["x"].to_pylist()) == sorted(
        [*range(1, 501), *range(2, 502), *[0] * 500]
    )
    assert query(" UNION ".join(["SELECT a FROM t"] * 500), t=ROWS).count() == 3


def test_queries_of_a_union_that_are_cut_stay_as_they_are() -> None:
    parts = " UNION ALL ".join(["SELECT a FROM t"] * 150)
    found = query(f"{parts} UNION SELECT a FROM t ORDER BY a LIMIT 2", t=ROWS).to_arrow()
    assert found["a"].to_pylist() == [None, 1]
    assert query(f"({parts} LIMIT 7) UNION ALL {parts}", t=ROWS).count() == 7 + 450


def test_a_chain_is_written_and_read_again_as_sql_and_as_a_plan() -> None:
    text = "a" + " + 3 * 2 - n" * 100 + " + d" * 100
    chain, node = chain_of(text)
    assert from_text(to_text(chain), node.input.fields, is_known) == chain
    assert pickle.loads(pickle.dumps(chain)) == chain
    again = query(made(text).sql(), t=ROWS).plan
    assert isinstance(again, Project)
    assert again.columns == node.columns


def test_python_s_operators_make_chains_as_well() -> None:
    column, expected = ROWS.d, [0.1, 2.5, None]
    for number in range(200):
        column = column * 1.5 if number % 2 else column + 0.5
        expected = [
            each if each is None else each * 1.5 if number % 2 else each + 0.5 for each in expected
        ]
    assert ROWS.select(x=column).to_arrow()["x"].to_pylist() == expected


def test_a_chain_of_python_s_operators_is_written_with_its_brackets() -> None:
    column = ROWS.d
    for _ in range(100):
        column = column + ROWS.a
    found = ROWS.select(x=(column * 2) / (column + 1))
    again = query(found.sql(), **{ROWS.plan.source.name: ROWS})  # type: ignore[attr-defined]
    assert again.to_arrow().equals(found.to_arrow())
    assert found.to_arrow()["x"].to_pylist()[0] == pytest.approx(200.2 / 101.1)


def test_what_fails_in_a_chain_says_its_row() -> None:
    with pytest.raises(EvaluationError, match=r"overflow|INT"):
        values("a" + " + 2147483" * 2000)
    assert values(f"CASE WHEN a > 1 THEN 0 ELSE a{' + 1' * 200} END") == [201, 0, None]


def test_spark_computes_a_chain_by_pkray_s_own_function() -> None:
    writer = SparkSql(prefix="t")
    text = writer.query(prepare(made("a" + " + a" * 200).plan))
    assert [type(each) for each in writer.kernels.values()] == [Chain]
    assert "t_function_0(" in text


def test_dates_in_a_row_of_operators_are_added_up() -> None:
    with pytest.raises(QueryError, match="no numbers"):
        values("DATE '2020-01-01'" + " + 1" * 300)
    assert str(values("DATE '2020-01-01'" + " + 1" * 100)[0]) == "2020-04-10"


def test_a_prefix_that_is_grouped_by_may_begin_a_chain() -> None:
    text = f"SELECT a + 1{' + 1' * 200} AS x FROM t GROUP BY a + 1 ORDER BY 1"
    assert query(text, t=ROWS).to_arrow()["x"].to_pylist() == [None, 202, 203]


@pytest.mark.parametrize(
    "text",
    [
        "a" + " + 1" * MOST_TERMS,
        "(" * 10_000 + "a" + ")" * 10_000,
        "CAST(NULL AS " + "ARRAY<" * 1000 + "INT" + ">" * 1000 + ")",
        "- " * 5000 + "a",
        "a" + " = 1" * 2000,
        "CASE WHEN a = 1 THEN 1 ELSE " * 2000 + "1" + " END" * 2000,
    ],
)
def test_what_is_too_long_or_deep_is_refused(text: str) -> None:
    with pytest.raises(QueryError, match=r"deeper|terms"):
        parse_query(f"SELECT {text} FROM t", Dialect.SPARK)


@pytest.mark.parametrize("kind", ["plus", "or"])
def test_methods_make_long_chains_in_steps_that_are_no_longer_than_they_are(kind: str) -> None:
    copied = 0
    step = col("a") if kind == "plus" else col("a") == -1
    for number in range(2000):
        step = step + 1 if kind == "plus" else step | (col("a") == number)
        copied += step._tree is not None and len(list(step._tree.walk()))
    assert copied < 60_000  # of 2,000 operators that are made anew each: millions
    found = ROWS.select(x=step).to_arrow()["x"].to_pylist()
    assert found == ([2001, 2002, None] if kind == "plus" else [True, True, None])


def test_too_long_a_chain_of_methods_is_refused() -> None:
    step = col("a")
    with pytest.raises(QueryError, match="terms"):
        for _ in range(MOST_TERMS + 1):
            step = step + 1


def test_what_was_made_of_a_chain_s_beginning_stays() -> None:
    begun = col("a") + 1
    left, right = begun + 2, begun * 10
    found = ROWS.select(x=left, y=right, z=begun).to_arrow().to_pylist()
    assert found[0] == {"x": 4, "y": 20, "z": 2}
