"""Checks what is given as a DataFrame and as a table."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from pkray.arguments.checks import CheckedInside
from pkray.errors import InputError

Frame: TypeAlias = Annotated[DataFrame, CheckedInside]
Session: TypeAlias = Annotated[SparkSession, CheckedInside]


def check_session(function: str, spark: object) -> None:
    """Raise an InputError for what is no session of Spark's."""
    if not hasattr(spark, "dataSource"):
        raise InputError(
            f"{function} takes a SparkSession, and got a {type(spark).__name__}: give what "
            "pkray.spark.session() returns",
            type=type(spark).__name__,
        )


def check_dataframe(function: str, df: object) -> None:
    """Raise an InputError for what is no DataFrame of Spark's."""
    if not hasattr(df, "isStreaming"):
        raise InputError(
            f"{function} takes a Spark DataFrame, and got a {type(df).__name__}: write rows of "
            "Python by table.open_writer()",
            type=type(df).__name__,
        )


def check_table(function: str, table: object) -> None:
    """Raise an InputError for what is no table."""
    if not hasattr(table, "to_arrow"):
        raise InputError(
            f"{function} takes a table, and got a {type(table).__name__}: give what "
            "catalog.load_table(name) returns",
            type=type(table).__name__,
        )
