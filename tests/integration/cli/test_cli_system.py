"""``pkray system`` and ``pkray scan --explain``."""

from pathlib import Path

import pytest

import pkray
from tests.integration.cli.conftest import lines


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    with pkray.connect(str(tmp_path)) as catalog:
        table = catalog.create_table(
            "db.t", [("k", "BIGINT"), ("v", "INT")], ["k"], options={"bucket": "4"}
        )
        table.upsert([{"k": k, "v": k} for k in range(100)], commit_user="job", commit_identifier=1)
        table.upsert([{"k": 200, "v": 1}], commit_user="job", commit_identifier=2)
    return tmp_path


def test_a_system_table_as_json_has_every_column(run, warehouse):
    rows = lines(run("system", "db.t", "snapshots", "-w", warehouse, "--json"))
    assert [row["snapshot_id"] for row in rows] == [1, 2]
    assert rows[0]["commit_user"] == "job"
    assert rows[0]["base_manifest_list"].startswith("manifest-list-")


def test_people_see_the_main_columns_first(run, warehouse):
    text = run("system", "db.t", "files", "-w", warehouse)
    head = text.splitlines()[0]
    assert head.split()[:4] == ["partition", "bucket", "level", "record_count"]
    assert "min_value_stats" not in head
    assert "bucket-0/data-" in text


def test_an_older_snapshot(run, warehouse):
    rows = lines(run("system", "db.t", "files", "-w", warehouse, "--snapshot", 1, "--json"))
    assert sum(row["record_count"] for row in rows) == 100


def test_an_unknown_name_is_refused(run, warehouse):
    said = run("system", "db.t", "option", "-w", warehouse, code=1)
    assert "did you mean 'options'?" in said


def test_explain_prints_what_would_be_read(run, warehouse):
    words = ("scan", "db.t", "-w", warehouse, "--filter", "k = 7", "--explain")
    (report,) = lines(run(*words, "--json"))
    assert (report["buckets_read"], report["buckets_total"]) == (1, 4)
    assert report["files_total"] == 5
    text = run(*words)
    assert "buckets                   1               4" in text
    assert "by bucket" in text


def test_the_options_of_tables_are_listed_without_a_table(run):
    found = {line["option"]: line for line in lines(run("options", "--json"))}
    assert found["lookup.cache-file-retention"]["default"] == "1 h"
    assert found["write-buffer-size"]["default"] == "256 mb"
    assert found["file.format"]["takes"] == "parquet"
    assert found["sort-spill-threshold"]["default"] is None
    assert "sum" in found["fields.<column>.aggregate-function"]["takes"]
    assert all(line["meaning"] for line in found.values())


def test_options_are_found_by_a_word(run):
    found = lines(run("options", "Stop-Trigger", "--json"))
    assert {line["option"] for line in found} == {
        "num-sorted-run.stop-trigger",
        "sort-spill-threshold",
    }
    assert "0 options" in run("options", "nothing is called so")


@pytest.mark.parametrize(("columns", "width"), [(None, 80), ("60", 60)])
def test_the_options_fit_a_terminal_also_in_a_pipe(run, monkeypatch, columns, width):
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    printed = run("options").splitlines()
    assert max(len(line) for line in printed if line.startswith(" ")) <= width
    assert "merge-engine = deduplicate" in printed
    assert "    How rows of one key become one." in printed


def test_an_unknown_option_says_where_to_look(run, tmp_path):
    words = ["create", "db.t", "--column", "k INT NOT NULL", "-k", "k", "-w", tmp_path]
    assert "'pkray options' lists them" in run(*words, "-o", "9q9=1", code=1)
    assert "did you mean 'bucket'" in run(*words, "-o", "bukcet=1", code=1)
