"""Arguments of statements and queries that mean nothing are typed errors that show them."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pkray
from pkray.errors import PkrayError

NOTHING = object()
WRONG: dict[str, tuple[object, ...]] = {
    "start.name": (b"x", 7, "", ["x"], "\ud800"),
    "start.trigger": (b"x", None, 5, -1, math.nan, "", "soon", ["5 s"]),
    "start.max_rows": (b"x", "1", 0, -1, 1.5, math.nan, [], {}, NOTHING),
    "start.on_error": (b"x", "", "go on", NOTHING, "\ud800", 7),
    "start.clock": (7, "now", []),
    "start.on_failure": (7, "tell", {}),
    "start.backfill": (b"x", "", "duckdb", NOTHING, "\ud800"),
    "start.strict": ("yes", 7, []),
    "start.replace": ("yes", 7, []),
    "wait.snapshots": (b"x", None, 7, "default.t", ["default.t"], {"default.t": "1"}),
    "wait.timeout": (b"x", None, "60", math.nan, math.inf, [], NOTHING),
    "verify.snapshot": (b"x", "1", 1.5, []),
    "verify.engine": (b"x", "", "duckdb", 7),
    "savepoint.name": (b"x", None, 7, "", "a/b"),
    "savepoint.timeout": ("60", None, math.nan),
    "stop.timeout": ("60", None, math.nan),
    "rescale.workers": ("2", None, 1.5, []),
}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pkray.Catalog]:
    folder: Path = tmp_path_factory.mktemp("warehouse")
    with pkray.connect(folder) as opened:
        for name in ("t", "r", "s"):
            opened.create_table(f"default.{name}", [("k", "INT"), ("v", "INT")], ["k"])
        opened.load_table("default.t").upsert([{"k": 1, "v": 1}])
        opened.sql("SELECT k, v FROM t").materialize("default.kept")
        yield opened


def _call(catalog: pkray.Catalog, method: str) -> Callable[..., Any]:
    if method == "start":
        return catalog.sql("INSERT INTO r SELECT k, v FROM t").start
    call: Callable[..., Any] = getattr(catalog.query("default.kept"), method)
    return call


@pytest.mark.parametrize(
    ("argument", "value"),
    [(argument, value) for argument, values in WRONG.items() for value in values],
    ids=lambda each: ascii(each)[:20],
)
def test_wrong_arguments_are_typed_errors(
    catalog: pkray.Catalog, argument: str, value: object
) -> None:
    method, name = argument.split(".")
    given: dict[str, Any] = {name: value}
    if argument == "wait.timeout":
        given["snapshots"] = {"default.t": 1}
    if argument == "savepoint.timeout":
        given["name"] = "one"
    with pytest.raises(PkrayError) as caught:
        _call(catalog, method)(**given)
    shown = (
        type(value).__name__ if value is NOTHING else ascii(value).strip("[]{}'b").split(": '")[0]
    )
    assert (
        not shown or shown in ascii(str(caught.value)) or type(value).__name__ in str(caught.value)
    )


@pytest.mark.parametrize(
    "option",
    [
        "'bucket' = 'x'",
        "'bucket' = '-7'",
        "'bucket' = '99999999999999999999'",
        "'merge-engine' = ''",
        "'write-buffer-size' = 'NaN'",
        "'write-buffer-size' = '-1 mb'",
        "'snapshot.time-retained' = '-1 h'",
        "'target-file-size' = '99999999999999 tb'",
        "'sequence.field' = 'nowhere'",
        "'connector' = 'kafka'",
        "'scan.startup.mode' = 'soon'",
        "'' = 'x'",
        "'bucket'",
    ],
)
def test_wrong_options_of_create_table_are_typed_errors(
    catalog: pkray.Catalog, option: str
) -> None:
    name = option.split("'")[1]
    with pytest.raises(PkrayError, match=f"'{name}'|{name}"):
        catalog.sql(
            f"CREATE TABLE w (k INT, v INT, PRIMARY KEY (k) NOT ENFORCED) WITH ({option})",
            dialect="flink",
        )
    assert not catalog.table_exists("default.w")
