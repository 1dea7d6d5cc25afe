"""``pkray system`` and ``pkray scan --explain``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import pkray
from pkray.cli import main


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    with pkray.connect(str(tmp_path)) as catalog:
        table = catalog.create_table(
            "db.t", [("k", "BIGINT"), ("v", "INT")], ["k"], options={"bucket": "4"}
        )
        with table.open_writer("job") as writer:
            writer.upsert([{"k": k, "v": k} for k in range(100)])
            writer.commit(1)
            writer.upsert([{"k": 200, "v": 1}])
            writer.commit(2)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> str:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    assert ended.value.code == code
    said = capsys.readouterr()
    return said.err if code else said.out


def lines(text: str) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in text.splitlines()]


def test_a_system_table_as_json_has_every_column(capsys, warehouse):
    rows = lines(run(capsys, "system", "db.t", "snapshots", "-w", warehouse, "--json"))
    assert [row["snapshot_id"] for row in rows] == [1, 2]
    assert rows[0]["commit_user"] == "job"
    assert rows[0]["base_manifest_list"].startswith("manifest-list-")


def test_people_see_the_main_columns_first(capsys, warehouse):
    text = run(capsys, "system", "db.t", "files", "-w", warehouse)
    head = text.splitlines()[0]
    assert head.split()[:4] == ["partition", "bucket", "level", "record_count"]
    assert "min_value_stats" not in head
    assert "bucket-0/data-" in text


def test_an_older_snapshot(capsys, warehouse):
    rows = lines(run(capsys, "system", "db.t", "files", "-w", warehouse, "--snapshot", 1, "--json"))
    assert sum(row["record_count"] for row in rows) == 100


def test_an_unknown_name_is_refused(capsys, warehouse):
    said = run(capsys, "system", "db.t", "option", "-w", warehouse, code=1)
    assert "did you mean 'options'?" in said


def test_explain_prints_what_would_be_read(capsys, warehouse):
    words = ("scan", "db.t", "-w", warehouse, "--filter", "k = 7", "--explain")
    (report,) = lines(run(capsys, *words, "--json"))
    assert (report["buckets_read"], report["buckets_total"]) == (1, 4)
    assert report["files_total"] == 5
    text = run(capsys, *words)
    assert "buckets                   1               4" in text
    assert "by bucket" in text


def test_the_options_of_tables_are_listed_without_a_table(capsys):
    found = {line["option"]: line for line in lines(run(capsys, "options", "--json"))}
    assert found["lookup.cache-file-retention"]["default"] == "1 h"
    assert found["write-buffer-size"]["default"] == "256 mb"
    assert found["file.format"]["takes"] == "parquet"
    assert found["sort-spill-threshold"]["default"] is None
    assert "sum" in found["fields.<column>.aggregate-function"]["takes"]
    assert all(line["meaning"] for line in found.values())


def test_options_are_found_by_a_word(capsys):
    found = lines(run(capsys, "options", "Stop-Trigger", "--json"))
    assert {line["option"] for line in found} == {
        "num-sorted-run.stop-trigger",
        "sort-spill-threshold",
    }
    assert "0 options" in run(capsys, "options", "nothing is called so")


@pytest.mark.parametrize(("columns", "width"), [(None, 80), ("60", 60)])
def test_the_options_fit_a_terminal_also_in_a_pipe(capsys, monkeypatch, columns, width):
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    printed = run(capsys, "options").splitlines()
    assert max(len(line) for line in printed if line.startswith(" ")) <= width
    assert "merge-engine = deduplicate" in printed
    assert "    How rows of one key become one." in printed


def test_an_unknown_option_says_where_to_look(capsys, tmp_path):
    words = ["create", "db.t", "--column", "k INT NOT NULL", "-k", "k", "-w", tmp_path]
    assert "'pkray options' lists them" in run(capsys, *words, "-o", "9q9=1", code=1)
    assert "did you mean 'bucket'" in run(capsys, *words, "-o", "bukcet=1", code=1)
