"""Tables whose columns others change: another engine, or other processes at once."""

import subprocess
import sys

import pytest

import pkray
from tests.integration.readers import RustCatalog, rows_of


def test_files_of_older_columns_are_read_under_the_new_ones(tmp_path):
    warehouse = str(tmp_path)
    with pkray.connect(warehouse) as catalog:
        table = catalog.create_table("db.t", [("id", "INT"), ("v", "STRING")], ["id"])
        table.upsert([{"id": 1, "v": "a"}])
    other = RustCatalog(warehouse)
    other.sql("ALTER TABLE paimon.db.t ADD COLUMN w INT")
    other.sql("ALTER TABLE paimon.db.t RENAME COLUMN v TO u")
    with pkray.connect(warehouse) as catalog:
        table = catalog.load_table("db.t")
        assert table.to_arrow().to_pylist() == [{"id": 1, "u": "a", "w": None}]
        with table.open_writer() as writer:
            writer.upsert([{"id": 2, "u": "b", "w": 5}])
            writer.commit(full_compact=True)
        expected = [(1, "a", None), (2, "b", 5)]
        assert rows_of(table.to_arrow(), ["id"]) == expected
    assert rows_of(other.read("db.t"), ["id"]) == expected


@pytest.mark.parametrize(
    "change",
    [
        ("rename_column", "r.x", "xx"),
        ("add_column", "r.z", "INT"),
        ("drop_column", "r.y"),
        ("change_type", "r.x", "BIGINT"),
        ("rename_column", "l.p", "pp"),
        ("add_column", "l.s", "INT"),
    ],
    ids=" ".join,
)
def test_another_engine_reads_changed_fields_of_rows(tmp_path, change):
    columns = [("id", "INT"), ("r", "ROW<x INT, y STRING>"), ("l", "ARRAY<ROW<p INT>>")]
    with pkray.connect(str(tmp_path)) as catalog:
        table = catalog.create_table("db.t", columns, ["id"])
        table.upsert([{"id": 1, "r": {"x": 1, "y": "s"}, "l": [{"p": 3}, None]}])
        method, *arguments = change
        getattr(table.alter, method)(*arguments)
        mine = table.to_arrow().to_pylist()
    assert RustCatalog(str(tmp_path)).read("db.t").to_pylist() == mine


_ADD_COLUMNS = """
import sys, pkray
with pkray.connect(sys.argv[1]) as catalog:
    table = catalog.load_table("db.t")
    for number in range(10):
        table.alter.add_column(f"{sys.argv[2]}{number}", "INT")
"""


def test_processes_change_a_table_at_once(tmp_path):
    with pkray.connect(str(tmp_path)) as catalog:
        catalog.create_table("db.t", [("id", "INT"), ("v", "INT")], ["id"])
    command = [sys.executable, "-c", _ADD_COLUMNS, str(tmp_path)]
    running = [subprocess.Popen([*command, name]) for name in "abc"]
    assert [process.wait() for process in running] == [0, 0, 0]
    with pkray.connect(str(tmp_path)) as catalog:
        schema = catalog.load_table("db.t").schema
    assert schema.id == 30
    names = {f"{name}{number}" for name in "abc" for number in range(10)}
    assert set(schema.names) == {"id", "v", *names}
    assert sorted(field.id for field in schema.fields) == list(range(32))
