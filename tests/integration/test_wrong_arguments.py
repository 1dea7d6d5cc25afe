"""Every public callable with every kind of wrong argument: what is raised is a PkrayError."""

import datetime as dt
import functools
import inspect
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import pkray
from pkray.errors import PkrayError
from pkray.schema import changes as schema_changes
from pkray.schema.table_schema import TableSchema
from pkray.schema.types import DataType


def nested(wrap: Callable[[Any], Any]) -> Any:
    value: Any = "x"
    for _ in range(3000):
        value = wrap(value)
    return value


def ignore(*_: Any) -> None: ...


class Ignored:
    def __init__(self, *_: Any) -> None: ...


WRONG = [
    None, 5, 0, -1, 2**70, float("nan"), float("inf"), 1.5, True, 1j, b"x", "", " ", "x", "\0",
    "a\0b", "\ud800", "a/b", "../x", "é" * 300, [], [[]], [None], [5], ["x"], ["\ud800"], (), {},
    {5: 5}, {"x": object()}, {"x": "\0"}, {"x": None}, set(), {"id"}, object(), ignore, Ignored,
    np.int64(3), np.float64("nan"), np.str_("x"), np.array([1, 2]), np.array(5), np.bool_(True),
    pa.array([1]), pa.chunked_array([[1], [2]]), pa.scalar(1), pa.table({"id": [1]}), pa.int64(),
    pd.DataFrame({"id": [None]}), pd.Series([1]), iter([]), range(3), dt.timedelta(-1),
    dt.datetime.min, dt.date.max, Decimal("NaN"), nested(lambda inner: [inner]),
    nested(lambda inner: {"x": inner}), "(" * 3000 + "id = 1" + ")" * 3000, "ARRAY<" * 300,
    [("id", "=", nested(lambda inner: [inner]))], [("id", "in", [object()])],
]  # fmt: skip

COLUMNS = [("id", "BIGINT"), ("dt", "STRING"), ("v", "INT")]
ROWS = [{"id": 1, "dt": "a", "v": 1}, {"id": 2, "dt": "b", "v": 2}]
PARTITIONS = [{"dt": "a"}]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture
def catalog(warehouse: Path) -> Iterator[pkray.Catalog]:
    with pkray.connect(warehouse) as opened:
        yield opened
        opened.drop_database("db", if_exists=True, cascade=True)


@pytest.fixture
def table(catalog: pkray.Catalog) -> pkray.Table:
    made = catalog.create_table("db.t", COLUMNS, ["id", "dt"], ["dt"])
    made.upsert(ROWS, commit_user="job", commit_identifier=1)
    made.tags.create("v1")
    made.branches.create("b", "v1")
    return made


HOLDERS: dict[str, Callable[[pkray.Table, pkray.Catalog], Any]] = {
    "catalog": lambda table, catalog: catalog,
    "table": lambda table, catalog: table,
    "writer": lambda table, catalog: table.open_writer(),
    "tags": lambda table, catalog: table.tags,
    "branches": lambda table, catalog: table.branches,
    "consumers": lambda table, catalog: table.consumers,
    "alter": lambda table, catalog: table.alter,
    "view": lambda table, catalog: table.view(),
    "push": lambda table, catalog: table.open_push("push", 1),
    "target": lambda table, catalog: table.open_push("push", 1).target(),
    "pusher": lambda table, catalog: table.open_push("push", 1).target().open(0, 0),
    "system_table": lambda table, catalog: catalog.load_table("db.t$files"),
    "split": lambda table, catalog: table.splits()[0],
    "report": lambda table, catalog: table.explain(),
    "type": lambda table, catalog: DataType,
    "definition": lambda table, catalog: TableSchema,
}

GOOD: dict[str, Any] = {
    "name": "db.t", "new_name": "db.other", "schema": COLUMNS, "primary_keys": ["id", "dt"],
    "columns": ["id"], "filter": "id = 1", "data": ROWS, "rows": ROWS,
    "keys": [{"id": 1, "dt": "a"}], "partitions": PARTITIONS, "buckets": 2, "snapshot_id": 1,
    "commit_user": "job", "commit_identifier": 7, "reports": [], "source": 0, "attempt": 0,
    "consumer_id": "c", "type": "BIGINT", "comment": "x", "options": {"write-only": "true"},
    "changes": [schema_changes.DropColumn("v")], "warehouse": "memory://wrong",
    "text_or_json": "INT", "said": "INT", "arrow": pa.int64(), "field": pa.field("x", pa.int64()),
    "root": "INT", "nullable": True, "report": None, "batch": pa.RecordBatch.from_pylist(ROWS),
}  # fmt: skip
"""Of parameters by their names, where a call needs one."""
GOOD_OF = {
    "tags": {"name": "v1"},
    "branches": {"name": "v1"},
    "alter": {"name": "v", "new_name": "w", "keys": ["write-only"]},
}
INTERNAL = {
    "pusher": {"push_checked", "move_to"},
    "target": {"take_over", "path", "assigner", "pusher", "unassigned", "clear"},
    "view": {"find", "find_prefixes"},
}
"""Methods that pkray alone calls, with what it has checked."""


def calls(holder: Any) -> Iterator[str]:
    """The names of the public methods of an object; of a class, those that need none."""
    for name in dir(holder):
        member = inspect.getattr_static(holder, name)
        is_method = inspect.isfunction(member) and not isinstance(holder, type)
        if not name.startswith("_") and (
            is_method or isinstance(member, staticmethod | classmethod)
        ):
            yield name


@pytest.mark.parametrize("what", HOLDERS)
def test_what_a_wrong_argument_raises_is_a_pkray_error(what, table, catalog):
    given = {**GOOD, **GOOD_OF.get(what, {})}
    for name in calls(HOLDERS[what](table, catalog)):
        if name not in INTERNAL.get(what, ()) and name != "close":
            try_all(getattr(HOLDERS[what](table, catalog), name), given)


@pytest.mark.parametrize("function", [pkray.connect, DataType], ids=["connect", "DataType"])
def test_what_a_wrong_argument_of_a_function_raises_is_a_pkray_error(function):
    try_all(function, GOOD)


@pytest.mark.parametrize("kind", get_args(schema_changes.SchemaChange))
def test_what_a_wrong_change_of_a_schema_raises_is_a_pkray_error(kind, table):
    @functools.wraps(kind)
    def apply(**given: Any) -> None:
        table.alter.apply([kind(**given)])

    try_all(apply, {**GOOD, **GOOD_OF["alter"]})


def try_all(call: Callable[..., Any], good: dict[str, Any]) -> None:
    """Call with each argument in turn that is wrong, the others as they should be."""
    parameters, needed = required(call, good)
    for name in parameters:
        for number, wrong in enumerate(WRONG):
            try:
                outcome(call, {**needed, name: wrong})
            except Exception as error:
                where = f"{call.__qualname__}({name}=WRONG[{number}], a {type(wrong).__name__})"
                raise AssertionError(f"{where} raised {type(error).__name__}: {error}") from error


def required(call: Callable[..., Any], good: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """The names of all parameters, and values of those that have no default."""
    parameters = inspect.signature(call).parameters
    needed = {
        name: good.get(name)
        for name, each in parameters.items()
        if each.default is each.empty and each.kind is not each.VAR_KEYWORD
    }
    return list(parameters), needed


def outcome(call: Callable[..., Any], given: dict[str, Any], *, refused: bool = False) -> None:
    """Make a call, and read what it returns to its end; what is said is short.

    Args:
        refused: raise its PkrayError.
    """
    message = "fine"
    try:
        found = call(**given)
        if hasattr(found, "close"):
            found.close()
        elif isinstance(found, Iterator):
            list(found)
    except PkrayError as error:
        if refused:
            raise
        message = str(error)
    assert message
    assert len(message) < 20_000, message[:3000]
