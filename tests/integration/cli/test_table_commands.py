"""``pkray drop``, ``rename``, ``delete``, ``database …``, and system tables by name."""

from pathlib import Path

import pytest

import pkray
from tests.integration.cli.conftest import lines


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    with pkray.connect(tmp_path) as catalog:
        table = catalog.create_table(
            "db.t", [("k", "BIGINT"), ("s", "INT")], ["k"], options={"sequence.field": "s"}
        )
        table.upsert([{"k": k, "s": 5} for k in range(3)], commit_user="job", commit_identifier=1)
    return tmp_path


def test_keys_are_deleted_in_one_commit(run, warehouse):
    words = ("delete", "db.t", "-k", "k=1,s=6", "-k", '{"k": 2, "s": 4}', "-w", warehouse, "--json")
    (said,) = lines(run(*words, "--commit-user", "ops", "--commit-identifier", 7))
    assert (said["keys"], said["commit_user"], said["commit_identifier"]) == (2, "ops", 7)
    left = lines(run("scan", "db.t", "-w", warehouse, "--json"))
    assert left == [{"k": 0, "s": 5}, {"k": 2, "s": 5}]


def test_a_delete_that_lacks_its_sequence_is_refused(run, warehouse):
    said = run("delete", "db.t", "-k", "k=1", "-w", warehouse, code=1)
    assert "sequence.field column 's' (INT) is missing" in said
    assert len(lines(run("snapshots", "db.t", "-w", warehouse, "--json"))) == 1


def test_a_table_is_renamed_and_dropped(run, warehouse):
    run("rename", "db.t", "old.t", "-w", warehouse)
    assert lines(run("tables", "-w", warehouse, "--json")) == [{"table": "old.t"}]
    assert "db.t does not exist" in run("drop", "db.t", "-w", warehouse, code=1)
    run("drop", "db.t", "--if-exists", "-w", warehouse)
    run("drop", "old.t", "-w", warehouse)
    assert lines(run("tables", "-w", warehouse, "--json")) == []


def test_databases_come_and_go(run, warehouse):
    run("database", "create", "new", "-w", warehouse)
    said = lines(run("database", "list", "-w", warehouse, "--json"))
    assert said == [{"database": "db"}, {"database": "new"}]
    assert "cascade" in run("database", "drop", "db", "-w", warehouse, code=1)
    run("database", "drop", "db", "--cascade", "-w", warehouse)
    run("database", "drop", "new", "-w", warehouse)
    assert run("database", "list", "-w", warehouse, "--json") == ""
    assert "does not exist" in run("tables", "db", "-w", warehouse, code=1)


def test_a_system_table_is_scanned_by_name(run, warehouse):
    words = ("scan", "db.t$files", "-w", warehouse, "-c", "level,record_count", "--json")
    assert lines(run(*words)) == [{"level": 0, "record_count": 3}]
    assert lines(run(*words, "-f", "level = 5")) == []
    assert lines(run(*words, "--snapshot", 1, "-n", 0)) == []
    log = lines(run("scan", "db.t$audit_log", "-w", warehouse, "--json", "-n", 1))
    assert log == [{"rowkind": "+I", "k": 0, "s": 5}]


def test_a_system_table_is_described(run, warehouse):
    (said,) = lines(run("describe", "db.t$audit_log", "-w", warehouse, "--json"))
    assert [column["name"] for column in said["columns"]] == ["rowkind", "k", "s"]
    assert said["columns"][1]["type"] == "BIGINT NOT NULL"


@pytest.mark.parametrize(
    "words",
    [
        ("scan", "db.t$files", "--explain"),
        ("lookup", "db.t$files", "-k", "level=0"),
        ("delete", "db.t$files", "-k", "level=0"),
        ("alter", "drop-column", "db.t$files", "level"),
        ("drop", "db.t$files"),
    ],
)
def test_what_a_system_table_does_not_do_is_said(run, warehouse, words):
    said = run(*words, "-w", warehouse, code=1)
    assert "db.t$files" in said
    assert "system table" in said


def test_rows_are_deleted_by_a_filter(run, warehouse):
    run("delete", "db.t", "--where", "k > 0", "-w", warehouse)
    assert lines(run("scan", "db.t", "-w", warehouse, "--json")) == [{"k": 0, "s": 5}]


def test_a_filter_or_keys_say_what_is_deleted(run, warehouse):
    assert "neither was given" in run("delete", "db.t", "-w", warehouse, code=1)


@pytest.mark.parametrize(
    ("name", "text"),
    [("rows.csv", "k,s,x\n7,9,a b\n"), ("rows.jsonl", '{"k": 7, "s": 9, "x": "a b"}\n')],
)
def test_new_columns_of_a_file_are_added_if_asked(run, warehouse, tmp_path, name, text):
    file = tmp_path / name
    file.write_text(text)
    assert "'x' is not in" in run("upsert", "db.t", file, "-w", warehouse, code=1)
    run("upsert", "db.t", file, "--merge-schema", "-w", warehouse)
    found = lines(run("scan", "db.t", "-f", "k = 7", "-w", warehouse, "--json"))
    assert found == [{"k": 7, "s": 9, "x": "a b"}]


def test_columns_that_a_file_lacks_are_null_if_asked(run, warehouse, tmp_path):
    run("alter", "add-column", "db.t", "x", "INT", "-w", warehouse)
    file = tmp_path / "rows.csv"
    file.write_text("k,s\n7,9\n")
    assert "missing='null'" in run("upsert", "db.t", file, "-w", warehouse, code=1)
    run("upsert", "db.t", file, "--missing", "null", "-w", warehouse)
    found = lines(run("scan", "db.t", "-f", "k = 7", "-w", warehouse, "--json"))
    assert found == [{"k": 7, "s": 9, "x": None}]
