"""Queries that an older version began: what it stored is found, or said not to be."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec import structs

import pkray
from pkray.errors import QueryDivergedError
from pkray.relational.continuous.queries.definitions.query_store import QueryStore, _stored
from pkray.relational.continuous.state import encoding

BY_MAP = "SELECT m, COUNT(*) AS n FROM t GROUP BY m"
BY_KEY = "SELECT k % 2 AS side, COUNT(*) AS n, COUNT(m) AS maps FROM t GROUP BY k % 2"
MAP = pa.map_(pa.string(), pa.int64())
ROWS = pa.table({"k": [1, 2], "m": pa.array([[("b", 1), ("a", 2)], [("c", 3)]], MAP)})
TURNED = pa.table({"k": [3, 4], "m": pa.array([[("a", 2), ("b", 1)], [("c", 3)]], MAP)})


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[pkray.Catalog]:
    with pkray.connect(tmp_path) as catalog:
        columns = [("k", "INT"), ("m", "MAP<STRING, BIGINT>")]
        catalog.create_table(
            "default.t", columns, ["k"], options={"changelog-producer": "lookup"}
        ).upsert(ROWS)
        yield catalog


def begin_as_before(catalog: pkray.Catalog, folder: Path, text: str) -> None:
    """Begin a query as versions did that had no folder for each beginning, and stop it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoding, "_sorted", lambda entries, owners: entries)
        query = catalog.sql(text).materialize("default.r")
        query.wait({"default.t": catalog.load_table("default.t").latest_snapshot().id})
        query.stop()
    store = QueryStore(catalog.store)
    definition = store.read("default.r")
    root = folder / ".queries" / "default.r"
    shutil.copytree(root / "lives" / definition.begun, root, dirs_exist_ok=True)
    shutil.rmtree(root / "lives")
    shutil.rmtree(root / "definitions")
    before = structs.replace(definition, apart=False)
    (root / "query.json").write_bytes(_stored(before))


def counts(catalog: pkray.Catalog) -> list[tuple[int, ...]]:
    rows = catalog.load_table("default.r").to_arrow().to_pylist()
    return sorted(tuple(row[name] for name in row if name not in ("m", "_row_key")) for row in rows)


def test_rows_kept_by_maps_in_another_order_are_not_gone_on_with(catalog, tmp_path):
    begin_as_before(catalog, tmp_path, BY_MAP)
    with pkray.connect(tmp_path) as other:
        for again in (
            lambda: other.query("default.r").resume(),
            lambda: other.sql(BY_MAP).materialize("default.r"),
        ):
            with pytest.raises(QueryDivergedError, match=r"'m' \(\w+\).*replace=True"):
                again()
        other.load_table("default.t").upsert(TURNED)
        query = other.sql(BY_MAP).materialize("default.r", replace=True)
        query.wait({"default.t": other.load_table("default.t").latest_snapshot().id})
        assert counts(other) == [(2,), (2,)]


def test_a_query_that_keeps_no_rows_by_maps_goes_on_but_by_no_plan_that_does(catalog, tmp_path):
    begin_as_before(catalog, tmp_path, BY_KEY)
    with pkray.connect(tmp_path) as other:
        query = other.query("default.r").resume()
        other.load_table("default.t").upsert(TURNED)
        query.wait({"default.t": other.load_table("default.t").latest_snapshot().id})
        assert counts(other) == [(0, 2, 2), (1, 2, 2)]
        with pytest.raises(QueryDivergedError, match="holds a MAP"):
            query.upgrade(
                "SELECT k % 2 AS side, COUNT(*) AS n, COUNT(DISTINCT m) AS maps FROM t"
                " GROUP BY k % 2"
            )
