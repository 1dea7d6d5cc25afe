"""What is given in place of a DataFrame or a table is named before Spark is asked."""

from types import SimpleNamespace
from typing import Any

import pytest

import pkray.spark
from pkray.errors import InputError, OptionError

FRAME: Any = SimpleNamespace(isStreaming=False)


@pytest.mark.parametrize(
    ("function", "call"),
    [
        ("ingest", lambda name: pkray.spark.ingest(FRAME, name)),
        (
            "start_ingest",
            lambda name: pkray.spark.start_ingest(FRAME, name, checkpoint_location=""),
        ),
        ("read", lambda name: pkray.spark.read(FRAME, name)),
        ("read_stream", lambda name: pkray.spark.read_stream(FRAME, name)),
    ],
)
def test_a_tables_name_is_no_table(function: str, call: Any) -> None:
    with pytest.raises(InputError, match=rf"{function} takes a table, and got a str: .*load_table"):
        call("shop.orders")


@pytest.mark.parametrize("function", ["ingest", "start_ingest"])
def test_rows_of_python_are_no_dataframe(function: str) -> None:
    more = {"checkpoint_location": ""} if function == "start_ingest" else {}
    with pytest.raises(InputError, match=rf"{function} takes a Spark DataFrame, and got a list"):
        getattr(pkray.spark, function)([{"id": 1}], None, **more)


@pytest.mark.parametrize("function", ["read", "read_stream"])
def test_a_warehouse_is_no_session(function: str) -> None:
    table: Any = SimpleNamespace(to_arrow=None)
    with pytest.raises(InputError, match=rf"{function} takes a SparkSession, and got a str"):
        getattr(pkray.spark, function)("warehouse", table)


@pytest.mark.parametrize("wrong", [None, 1.5, True, "\0", "\ud800", [], {5: 5}, object])
@pytest.mark.parametrize(
    "name", ["app_name", "ray", "executors", "cores", "memory", "configs", "more"]
)
def test_settings_of_a_session_are_checked_before_java_is_looked_for(name: str, wrong: Any) -> None:
    if name == "more":
        with pytest.raises(TypeError, match="more"):
            pkray.spark.session(more=wrong)
    elif not (wrong is True and name == "ray") and not (wrong is None and name == "configs"):
        with pytest.raises(OptionError, match=rf"{name}.* cannot be"):
            pkray.spark.session(**{name: wrong})
