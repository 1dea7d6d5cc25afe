"""Find what a query needs of the tables it reads, as Spark's own optimizer finds it.

The query is optimized over stand-ins without rows, whose columns may all be NULL: what the plan
does not look at then, no row can change.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pkray.spark.queries.texts import class_name, listed, walked
from pkray.spark.types import spark_schema

_MARK = "pkray.stand-in"
_PASSING = frozenset(
    ("Aggregate", "Filter", "GlobalLimit", "Join", "LocalLimit", "Project", "Sort", "Window")
)
"""Nodes that look at the columns of their expressions alone, and pass the others on."""
_OPERATORS = {
    "EqualTo": "__eq__",
    "GreaterThan": "__gt__",
    "GreaterThanOrEqual": "__ge__",
    "LessThan": "__lt__",
    "LessThanOrEqual": "__le__",
}
"""Names methods of columns by the classes of Spark's filters."""
_FIRST_YEAR = 1900
"""Older days may be of another calendar where Spark gives them to Java."""


@dataclass(frozen=True)
class Comparison:
    """Compare a column: the query looks at no row of which this is not true."""

    column: str
    method: str
    values: tuple[int | str | dt.date, ...]


@dataclass(frozen=True)
class Needs:
    """Say what a query looks at of a table, for one place where its text names it."""

    columns: frozenset[str] = frozenset()
    conditions: tuple[Comparison, ...] = ()

    def joined(self, other: Needs) -> Needs:
        """Take in what the query needs where it reads the same name once more."""
        return Needs(self.columns | other.columns)


def stand_in(spark: SparkSession, schema: pa.Schema, number: int) -> DataFrame:
    """Make a DataFrame that the optimizer knows nothing of but the columns and this number."""
    text = spark_schema(schema).json()
    for part in ("nullable", "containsNull", "valueContainsNull"):
        text = text.replace(f'"{part}":false', f'"{part}":true')
    made = json.loads(text)
    for field in made["fields"]:
        field["metadata"] = {_MARK: number}
    return spark.createDataFrame([], StructType.fromJson(made))


def needs_of(spark: SparkSession, frame: DataFrame) -> dict[int, Needs]:
    """Find by number what a query needs of its stand-ins; those it does not read are left out."""
    machine: Any = spark._jvm
    execution: Any = frame._jdf.queryExecution()
    now = machine.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
    is_timeless = not execution.analyzed().containsPattern(now)
    plan = execution.optimizedPlan()
    seen = _seen(plan)
    found: dict[int, Needs] = {}
    for node, parent in _with_parents(plan, None):
        fields = [each for each in listed(node.output()) if each.metadata().contains(_MARK)]
        if not fields or not node.children().isEmpty():
            continue
        columns = frozenset(each.name() for each in fields if each.exprId().id() in seen)
        filtered = is_timeless and parent is not None and class_name(parent) == "Filter"
        conditions = tuple(_comparisons(machine, parent.condition())) if filtered else ()
        needs, number = Needs(columns, conditions), fields[0].metadata().getLong(_MARK)
        found[number] = found[number].joined(needs) if number in found else needs
    return found


def _seen(plan: Any) -> set[int]:
    """Number the columns that some node looks at, or that are the result of a plan."""
    seen = {each.exprId().id() for each in listed(plan.output())}
    for node in walked(plan):
        seen |= {each.exprId().id() for each in listed(node.references().toSeq())}
        given = listed(node.innerChildren())
        if class_name(node) not in _PASSING:
            given += listed(node.children())
        seen |= {each.exprId().id() for below in given for each in listed(below.output())}
    return seen


def _with_parents(node: Any, parent: Any) -> Iterator[tuple[Any, Any]]:
    yield node, parent
    for below in listed(node.children()):
        yield from _with_parents(below, node)
    for below in listed(node.innerChildren()):
        yield from _with_parents(below, None)


def _comparisons(machine: Any, condition: Any) -> Iterator[Comparison]:
    if class_name(condition) == "And":
        yield from _comparisons(machine, condition.left())
        yield from _comparisons(machine, condition.right())
        return
    sources = machine.org.apache.spark.sql.execution.datasources
    strategy = getattr(getattr(sources, "DataSourceStrategy$"), "MODULE$")
    translated = strategy.translateFilter(condition, True)
    if translated.isDefined():
        yield from _comparison(translated.get())


def _comparison(pushed: Any) -> Iterator[Comparison]:
    kind = class_name(pushed)
    if kind in _OPERATORS:
        method, values = _OPERATORS[kind], [_value(pushed.value())]
    elif kind == "In":
        method, values = "isin", [_value(each) for each in pushed.values()]
    else:
        return
    known = tuple(each for each in values if each is not None)
    if values and len(known) == len(values):
        yield Comparison(pushed.attribute(), method, known)


def _value(value: Any) -> int | str | dt.date | None:
    """Take a value out of the JVM; None for what may mean something else here."""
    if isinstance(value, int | str):
        return None if isinstance(value, bool) else value
    if not hasattr(value, "getClass") or class_name(value) not in ("Date", "LocalDate"):
        return None
    try:
        day = dt.date.fromisoformat(value.toString())
    except ValueError:
        return None
    return day if day.year >= _FIRST_YEAR else None
