"""Checks what is given as a DataFrame and as a table."""

from typing import Annotated, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from pkray.arguments.checks import CheckedInside
from pkray.errors import InputError

Frame: TypeAlias = Annotated[DataFrame, CheckedInside]
Session: TypeAlias = Annotated[SparkSession, CheckedInside]


def check_session(function: str, spark: object) -> None:
    """Raise an InputError for what is no session of Spark's."""
    remedy = "give what pkray.spark.session() returns"
    _check(function, spark, "dataSource", "a SparkSession", remedy)


def check_dataframe(function: str, df: object) -> None:
    """Raise an InputError for what is no DataFrame of Spark's."""
    remedy = "write rows of Python by table.open_writer()"
    _check(function, df, "isStreaming", "a Spark DataFrame", remedy)


def check_catalog(function: str, catalog: object) -> None:
    """Raise an InputError for what is no catalog."""
    remedy = "give what pkray.connect(warehouse) returns"
    _check(function, catalog, "load_table", "a catalog", remedy)


def check_table(function: str, table: object) -> None:
    """Raise an InputError for what is no table."""
    remedy = "give what catalog.load_table(name) returns"
    _check(function, table, "to_arrow", "a table", remedy)


def _check(function: str, given: object, attribute: str, what: str, remedy: str) -> None:
    if not hasattr(given, attribute):
        kind = type(given).__name__
        raise InputError(f"{function} takes {what}, and got a {kind}: {remedy}", type=kind)
