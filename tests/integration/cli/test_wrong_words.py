"""Words on the command line that are none of what a command takes."""

import io
from pathlib import Path
from types import SimpleNamespace

import pytest

import pkray
from tests.integration.cli.conftest import Command


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    with pkray.connect(tmp_path) as catalog:
        table = catalog.create_table("db.t", [("id", "BIGINT"), ("v", "ARRAY<INT>")], ["id"])
        table.upsert([{"id": 1, "v": [1]}, {"id": 2, "v": None}])
    return str(tmp_path)


def error(command: Command, *words: str) -> str:
    code, out, err = command(*words)
    assert code in (1, 2)
    assert (out, err.count("\n")) == ("", 1)
    return err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["delete", "db.t", "-k", '{"id": 1, "id": 2}'], "gives 'id' twice: give it once"),
        (["lookup", "db.t", "-k", '{"id": 1, "id": 2}'], "gives 'id' twice: give it once"),
        (["delete", "db.t", "-k", "id=1,id=2"], "gives 'id' twice: give it once"),
        (["lookup", "db.t", "-k", '{"id":' * 3000], "is not JSON"),
        (["changelog", "db.t", "--poll", "nan", "--follow"], "--poll cannot be nan"),
        (["changelog", "db.t", "--poll", "inf", "--follow"], "--poll cannot be inf"),
        (["compact", "db.t", "--dedicated", "--loop", "inf"], "--loop takes seconds, not inf"),
        (["scan", "db.t", "--timestamp", "²"], "'²' is no time"),
        (["scan", "db.t", "--timestamp", "9" * 30], "--timestamp cannot be a number of 100 bits"),
        (["scan", "db.t", "--snapshot", str(2**70)], "--snapshot cannot be 1180591620717411303424"),
        (["scan", "db.\udcff"], "text that UTF-8 can hold"),
        (["scan", "db.t", "-f", "(" * 3000], "filter '((("),
        (["tag", "create", "db.t", "x" * 300], "give text, of at most 200"),
        (["tag", "create", "db.t", "\udcff"], "text that UTF-8 can hold"),
        (["create", "db.x", "--column", "id " + "ARRAY<" * 30, "-k", "id"], "is not a type"),
        (["create", "db.x", "--column", "id " + "ARRAY<" * 300, "-k", "id"], "nest them less"),
        (["alter", "comment", "db.t", "\udcff"], "comment cannot be"),
    ],
)
def test_a_wrong_word_is_named(warehouse, command, words, message):
    assert message in error(command, *words, "-w", warehouse)
    with pkray.connect(warehouse) as catalog:
        table = catalog.load_table("db.t")
        assert table.to_arrow()["id"].to_pylist() == [1, 2]
        assert table.latest_snapshot().id == 1


def test_a_field_that_a_line_gives_twice_is_refused(warehouse, command, monkeypatch):
    for line in ('{"id": 1, "id": 7, "v": [7]}', '{"id": 7, "v": [7], "v": [8]}'):
        source = SimpleNamespace(buffer=io.BytesIO(line.encode()))
        monkeypatch.setattr("sys.stdin", source)
        words = ["upsert", "db.t", "-", "--format", "jsonl", "-w", warehouse]
        assert "twice: give it once" in error(command, *words)
    with pkray.connect(warehouse) as catalog:
        assert catalog.load_table("db.t").latest_snapshot().id == 1
