"""``pkray alter``."""

import json

import pytest

import pkray


@pytest.fixture
def run(tmp_path, command, monkeypatch):
    warehouse = str(tmp_path / "w")
    monkeypatch.setenv("PKRAY_WAREHOUSE", warehouse)
    with pkray.connect(warehouse) as catalog:
        table = catalog.create_table(
            "db.t", [("id", "INT"), ("a", "INT NOT NULL"), ("r", "ROW<x INT>")], ["id"]
        )
        table.upsert([{"id": 1, "a": 2, "r": {"x": 3}}])
    return lambda *words: command("alter", *words)


def described(run, *words: str) -> dict:
    code, out, err = run(*words, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def columns(table: dict) -> list[tuple[str, str]]:
    return [(column["name"], column["type"]) for column in table["columns"]]


def test_columns_change(run):
    described(run, "add-column", "db.t", "n", "BIGINT", "--after", "id", "--comment", "how many")
    described(run, "rename-column", "db.t", "a", "b")
    described(run, "change-type", "db.t", "b", "BIGINT")
    described(run, "drop-not-null", "db.t", "b")
    described(run, "add-column", "db.t", "r.y", "STRING", "--first")
    table = described(run, "move-column", "db.t", "n", "--first")
    assert columns(table) == [
        ("n", "BIGINT"),
        ("id", "INT NOT NULL"),
        ("b", "BIGINT"),
        ("r", "ROW<`y` STRING, `x` INT>"),
    ]
    assert table["schema_id"] == 6
    assert columns(described(run, "drop-column", "db.t", "n"))[0] == ("id", "INT NOT NULL")


def test_comments_and_options_change(run):
    table = described(run, "comment", "db.t", "a table")
    assert table["comment"] == "a table"
    assert described(run, "comment", "db.t")["comment"] is None
    table = described(run, "set", "db.t", "write-only=true", "target-file-size=1 mb")
    assert table["options"] == {"bucket": "1", "write-only": "true", "target-file-size": "1 mb"}
    table = described(run, "unset", "db.t", "write-only", "target-file-size")
    assert table["options"] == {"bucket": "1"}
    described(run, "comment-column", "db.t", "a", "a value")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("drop-column", "db.t", "id"), "primary key"),
        (("change-type", "db.t", "a", "TINYINT"), "values could be lost"),
        (("set", "db.t", "merge-engine=first-row"), "merge-engine"),
        (("add-column", "db.t", "a", "INT"), "is there already"),
        (("rename-column", "db.x", "a", "b"), "db.x"),
    ],
)
def test_what_is_refused_is_said_in_a_line(run, words, said):
    code, out, err = run(*words)
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert said in err
    assert err.count("\n") == 1
