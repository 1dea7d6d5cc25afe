"""Backups from the command line."""

from typing import Any

import pytest

import pkray
from tests.integration.cli.conftest import lines


@pytest.fixture
def run(tmp_path, monkeypatch, command):
    """Run a command in a warehouse with one table of one row, whose backups go to a folder."""
    monkeypatch.setenv("PKRAY_WAREHOUSE", str(tmp_path / "warehouse"))
    with pkray.connect(tmp_path / "warehouse") as catalog:
        table = catalog.create_table("db.t", [("k", "INT"), ("v", "INT")], ["k"])
        table.upsert([{"k": 1, "v": 1}])

    def call(name: str, *words: str, code: int = 0, err: str = "") -> list[dict[str, Any]]:
        left, out, said = command("backup", name, tmp_path / "backups", *words, "--json")
        assert left == code
        assert err in said
        return lines(out)

    return call


def test_backups_are_made_listed_and_proved(run):
    (made,) = run("create", "one")
    assert (made["tables"], made["queries"]) == (["db.t"], [])
    (listed,) = run("list")
    assert (listed["name"], listed["tables"]) == ("one", 1)
    assert run("verify", "one") == [{"name": "one", "whole": True}]
    assert run("verify", "one", "--quick") == [{"name": "one", "whole": True}]


def test_a_damaged_backup_is_said_file_by_file(run, tmp_path):
    run("create", "one")
    (data,) = (tmp_path / "backups/files").rglob("bucket-0/*.parquet")
    data.unlink()
    (fault,) = run("verify", "one", code=1)
    assert (fault["name"], fault["what"]) == ("db.t", "it is gone")
    run("restore", "one", "-w", str(tmp_path / "other"), code=1, err="is incomplete")


def test_a_backup_is_restored_into_another_warehouse(run, tmp_path):
    run("create", "one")
    (found,) = run("restore", "one", "-w", str(tmp_path / "other"))
    assert found["tables"] == ["db.t"]
    run("restore", "one", "-w", str(tmp_path / "other"), code=1, err="give --replace")
    run("restore", "one", "-w", str(tmp_path / "other"), "--replace", "--table", "db.t")
    with pkray.connect(tmp_path / "other") as other:
        assert other.load_table("db.t").to_arrow().to_pylist() == [{"k": 1, "v": 1}]


def test_a_backup_is_deleted(run):
    run("create", "one")
    (gone,) = run("delete", "one")
    assert gone["freed_bytes"] > 0
    assert run("list") == []
    run("delete", "one", code=1, err="no backup 'one'")
