"""Find the tables in the text of a query, as Spark's own parser reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.java_gateway import is_instance_of
from pyspark.sql import SparkSession

from pkray.errors import QueryError, UnsupportedError
from pkray.relational.spark_sql.constants import quoted

_PLANS = "org.apache.spark.sql.catalyst.plans.logical."
_CHANGING = tuple(_PLANS + name for name in ("Command", "ParsedStatement"))
"""Classes that Spark's parser makes of a statement that is no query."""
_SHOWN_CHARACTERS = 80


@dataclass(frozen=True)
class Mention:
    """A name in a text, from character `start` up to `stop`."""

    parts: tuple[str, ...]
    start: int
    stop: int


@dataclass(frozen=True)
class QueryText:
    """A query, and the names in it that may be tables; those that it defines itself are none."""

    text: str
    mentions: tuple[Mention, ...]

    @classmethod
    def parse(cls, spark: SparkSession, text: str) -> QueryText:
        """Parse a query.

        Raises:
            UnsupportedError: it is no query, or names a moment of a table.
            ParseException: Spark does not understand it.
        """
        session: Any = spark._jsparkSession
        nodes = list(walked(session.sessionState().sqlParser().parsePlan(text)))
        for node in nodes:
            _check(spark, node, text)
        own = {name.lower() for node in nodes for name in _defined(node)}
        found = [node for node in nodes if class_name(node) == "UnresolvedRelation"]
        mentions = [_mention(node) for node in found if not node.isStreaming()]
        kept = (
            each for each in mentions if len(each.parts) > 1 or each.parts[0].lower() not in own
        )
        read = next((node.origin().sqlText().get() for node in found), text)
        return cls(read, tuple(sorted(kept, key=lambda each: each.start)))

    def written(self, views: Mapping[Mention, str]) -> str:
        """Write the text with views in place of tables, which keep their names for columns."""
        pieces, place = [], 0
        for mention, view in views.items():
            before = self.text[place : mention.start]
            alias = f"({view} AS {quoted(mention.parts[-1])})"
            is_whole = before.rstrip().upper().endswith("TABLE")  # TABLE name: all of its rows
            pieces += [before, view if is_whole else alias]
            place = mention.stop
        return "".join([*pieces, self.text[place:]])


def walked(node: Any) -> Iterator[Any]:
    """Walk a plan of Spark's: a node, those below it, and those of subqueries in it."""
    yield node
    for below in (*listed(node.children()), *listed(node.innerChildren())):
        yield from walked(below)


def listed(sequence: Any) -> list[Any]:
    """List what a sequence of Scala's has."""
    return [sequence.apply(place) for place in range(sequence.size())]


def class_name(thing: Any) -> str:
    """Name the class of an object in the JVM."""
    name: str = thing.getClass().getSimpleName()
    return name


def _check(spark: SparkSession, node: Any, text: str) -> None:
    shown = text.strip()[:_SHOWN_CHARACTERS]
    gateway: Any = spark.sparkContext._gateway
    if any(is_instance_of(gateway, node, kind) for kind in _CHANGING):
        raise UnsupportedError(
            f"pkray.spark.sql answers queries, and {shown!r} is none: change tables by "
            "catalog.sql(text), and write DataFrames by pkray.spark.ingest(df, table)",
            statement=shown,
        )
    if class_name(node) == "RelationTimeTravel":
        raise UnsupportedError(
            f"pkray.spark.sql takes no VERSION and no TIMESTAMP AS OF, as in {shown!r}: name the "
            "moment by snapshot=, tag= or timestamp=",
            statement=shown,
        )


def _defined(node: Any) -> Sequence[str]:
    if class_name(node) != "UnresolvedWith":
        return ()
    return [str(each._1()) for each in listed(node.cteRelations())]


def _mention(node: Any) -> Mention:
    origin, parts = node.origin(), tuple(listed(node.multipartIdentifier()))
    if not node.options().isEmpty():
        name = ".".join(parts)
        raise QueryError(
            f"{name} has options, WITH (…), which tables of pkray.spark.sql do not take: leave "
            "them out",
            table=name,
        )
    return Mention(parts, origin.startIndex().get(), origin.stopIndex().get() + 1)
