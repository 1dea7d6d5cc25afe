"""Expressions on the local engine, in plans on Spark, and in Spark's own SQL."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from pkray.relational import from_arrow, query
from pkray.relational.sources.rows import conformed
from pkray.spark.types import spark_schema


def snippets(file: Path) -> dict[str, list[str]]:
    """Read lines such as ``abs: abs(n), abs(x)``."""
    lines = [line.partition(":") for line in file.read_text().splitlines() if line]
    return {name: list(_split(text)) for name, _, text in lines}


def _split(text: str) -> Iterator[str]:
    """Split at commas that stand outside of parentheses and quotes."""
    start, depth, quote = 0, 0, ""
    for place, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == "," and depth == 0:
            yield text[start:place].strip()
            start = place + 1
        else:
            depth += (character in "([") - (character in ")]")
    if text[start:].strip():
        yield text[start:].strip()


class SideBySide:
    """Computes expressions over the same rows everywhere.

    Args:
        rows: expressions name its columns.
    """

    def __init__(self, spark: SparkSession, rows: pa.Table) -> None:
        self.relation = from_arrow(rows, name="r")
        frame = self.relation.to_spark(spark).cache()
        frame.createOrReplaceTempView("r")
        self.session = frame.sparkSession

    def differences(self, expressions: Sequence[str], tail: str = "") -> list[str]:
        """Say for each expression in which types or values the three differ.

        Args:
            tail: what follows FROM in the query.
        """
        columns = ", ".join(f"{text} AS v{place}" for place, text in enumerate(expressions))
        text = f"SELECT {columns} FROM r {tail}"
        relation = query(text, r=self.relation)
        found = relation.to_arrow()
        frame = self.session.sql(text)
        wanted, given = frame.schema.fields, spark_schema(found.schema).fields
        said = [
            f"{expression}: {ours.dataType.simpleString()}, Spark {theirs.dataType.simpleString()}"
            for expression, ours, theirs in zip(expressions, given, wanted, strict=True)
            if ours.dataType.simpleString() != theirs.dataType.simpleString()
        ]
        if said:
            return said
        for theirs in (
            conformed(frame.toArrow(), relation.fields),
            relation.to_arrow(engine="spark"),
        ):
            pairs = zip(expressions, found.columns, theirs.columns, strict=True)
            said += [f"{e}: {d}" for e, ours, other in pairs if (d := difference(ours, other))]
        return said


def difference(ours: pa.ChunkedArray, theirs: pa.ChunkedArray) -> str:
    """Say the first differing value; nothing if there is none."""
    if len(ours) != len(theirs):
        return f"{len(ours)} rows, Spark {len(theirs)}"
    if ours.equals(theirs) and not pa.types.is_floating(ours.type):
        return ""
    pairs = zip(ours.to_pylist(), theirs.to_pylist(), strict=True)
    wrong = [(place, a, b) for place, (a, b) in enumerate(pairs) if not same(a, b)]
    if not wrong:
        return ""
    place, a, b = wrong[0]
    return f"{len(wrong)} values, in row {place} {a!r}, Spark {b!r}"


def same(a: Any, b: Any) -> bool:
    """Whether two values are one, but for the last digits of fractions."""
    if isinstance(a, float) and isinstance(b, float):
        if math.isnan(a) or math.isnan(b) or a == 0 or b == 0:
            return repr(a) == repr(b)
        return math.isclose(a, b, rel_tol=1e-12)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(map(same, a.values(), b.values()))
    return type(a) is type(b) and bool(a == b)
