"""The command line, command by command."""

import gzip
import io
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pkray
from pkray.cli import main
from tests.integration.cli.conftest import Command

ORDERS = ["--column", "id BIGINT NOT NULL", "--column", "name STRING", "--column", "amount DOUBLE"]


class Shell:
    """Runs commands on one warehouse."""

    def __init__(self, warehouse: Path, command: Command) -> None:
        self.warehouse = str(warehouse)
        self.run = command

    def ok(self, *words: str | Path) -> str:
        code, out, err = self.run(*words)
        assert (code, err) == (0, "")
        return out

    def json(self, *words: str | Path) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.ok(*words, "--json").splitlines()]

    def error(self, *words: str | Path, code: int = 1) -> str:
        got, out, err = self.run(*words)
        assert (got, out) == (code, "")
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        return err


@pytest.fixture
def shell(tmp_path, command, monkeypatch) -> Shell:
    monkeypatch.setenv("PKRAY_WAREHOUSE", str(tmp_path / "warehouse"))
    return Shell(tmp_path / "warehouse", command)


@pytest.fixture
def orders(shell, tmp_path) -> Shell:
    shell.ok("create", "shop.orders", *ORDERS, "-k", "id", "-o", "bucket=2")
    rows = [
        {"id": 1, "name": "ann", "amount": 1.5},
        {"id": 2, "name": None, "amount": -2.0},
        {"id": 3, "name": "", "amount": None},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "orders.parquet")
    shell.ok("upsert", "shop.orders", tmp_path / "orders.parquet")
    return shell


def scan(shell: Shell, *words: str) -> list[dict[str, Any]]:
    return sorted(shell.json("scan", *words), key=lambda row: row["id"])


def test_create_describes_the_table(shell):
    (made,) = shell.json(
        "create", "shop.days", "--column", "day DATE", "--column", "id INT",
        "--column", "`odd name` DECIMAL(10, 2)", "--primary-key", "day,id", "--partition", "day",
        "--option", "bucket=3", "--comment", "by day",
    )  # fmt: skip
    assert made["table"] == "shop.days"
    assert [(c["name"], c["type"]) for c in made["columns"]] == [
        ("day", "DATE NOT NULL"),
        ("id", "INT NOT NULL"),
        ("odd name", "DECIMAL(10, 2)"),
    ]
    assert (made["primary_key"], made["partition_by"]) == (["day", "id"], ["day"])
    assert made["options"] == {"bucket": "3"}
    assert made["comment"] == "by day"
    assert shell.json("describe", "shop.days") == [made]
    assert "DECIMAL(10, 2)" in shell.ok("describe", "shop.days")


def test_create_takes_the_columns_of_a_file(shell, tmp_path):
    pq.write_table(pa.table({"id": pa.array([1], pa.int32())}), tmp_path / "rows.parquet")
    (made,) = shell.json("create", "a.b", "--like", tmp_path / "rows.parquet", "-k", "id")
    assert made["columns"] == [{"name": "id", "type": "INT NOT NULL", "description": None}]


def test_create_twice(orders):
    assert "shop.orders exists already" in orders.error(
        "create", "shop.orders", *ORDERS, "-k", "id"
    )
    orders.ok("create", "shop.orders", *ORDERS, "-k", "id", "--if-not-exists")


def test_tables(orders):
    orders.ok("create", "other.one", *ORDERS, "-k", "id")
    assert orders.json("tables") == [{"table": "other.one"}, {"table": "shop.orders"}]
    assert orders.json("tables", "shop") == [{"table": "shop.orders"}]
    assert "shop.orders" in orders.ok("tables")


def test_warehouse_option_wins_over_the_environment(orders, tmp_path):
    assert orders.json("tables", "-w", str(tmp_path / "another")) == []


def test_upsert_reports_its_snapshot_and_scan_sees_it(orders):
    assert scan(orders, "shop.orders") == [
        {"id": 1, "name": "ann", "amount": 1.5},
        {"id": 2, "name": None, "amount": -2.0},
        {"id": 3, "name": "", "amount": None},
    ]
    assert "ann" in orders.ok("scan", "shop.orders")
    assert "NULL" in orders.ok("scan", "shop.orders")


def test_upsert_csv(orders, tmp_path):
    (tmp_path / "new.csv").write_text('id,amount,name\n2,7,"a, b"\n3,,""\n4,1e3,\n')
    (done,) = orders.json("upsert", "shop.orders", tmp_path / "new.csv")
    assert (done["rows"], done["snapshot"], done["commit_kind"]) == (3, 2, "APPEND")
    assert scan(orders, "shop.orders")[1:] == [
        {"id": 2, "name": "a, b", "amount": 7.0},
        {"id": 3, "name": "", "amount": None},
        {"id": 4, "name": None, "amount": 1000.0},
    ]


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_upsert_json_lines(orders, tmp_path, suffix):
    path = tmp_path / f"new{suffix}"
    text = b'{"id": 1, "amount": 2}\n\n{"amount": null, "id": 9, "name": "z"}\n'
    path.write_bytes(gzip.compress(text) if suffix.endswith("gz") else text)
    orders.ok("upsert", "shop.orders", path)
    rows = scan(orders, "shop.orders")
    assert rows[0] == {"id": 1, "name": None, "amount": 2.0}
    assert rows[-1] == {"id": 9, "name": "z", "amount": None}


def test_upsert_from_a_pipe(orders, monkeypatch):
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as pipe:
        pipe.write("id,name,amount\n1,Ada,1.5\n")
    with os.fdopen(reading) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        (said,) = orders.json("upsert", "shop.orders", "-", "--format", "csv")
    assert said["rows"] == 1
    assert scan(orders, "shop.orders")[0]["name"] == "Ada"


@pytest.mark.parametrize(
    ("format", "line"), [("csv", b"1,\xff,1.5"), ("jsonl", b'{"id": 1, "name": "\xff"}')]
)
def test_bytes_from_a_pipe_that_are_not_utf8_are_named(orders, monkeypatch, format, line):
    head = b"id,name,amount\n2,x,1\n" if format == "csv" else b'{"id": 2}\n'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(head + line)))
    place = len(head) + line.index(b"\xff")
    line_number = head.count(b"\n") + 1
    wrong = orders.error("upsert", "shop.orders", "-", "--format", format)
    assert f"stdin: its text is not UTF-8: the byte at offset {place} " in wrong
    assert f"(line {line_number}) is 0xff" in wrong
    assert len(scan(orders, "shop.orders")) == 3


def test_upsert_many_files_in_one_commit(orders, tmp_path):
    (tmp_path / "a.csv").write_text("id,name,amount\n10,a,1\n")
    (tmp_path / "b.txt").write_text("id,name,amount\n11,b,1\n10,c,2\n")
    a, b = tmp_path / "a.csv", tmp_path / "b.txt"
    assert "does not say how it is written" in orders.error("upsert", "shop.orders", b, code=2)
    (done,) = orders.json("upsert", "shop.orders", a, b, "--format", "csv")
    assert (done["rows"], done["snapshot"]) == (3, 2)
    assert [row["name"] for row in scan(orders, "shop.orders")[-2:]] == ["c", "b"]


def test_upsert_of_a_large_file_comes_in_batches(orders, tmp_path):
    count = 300_000
    pq.write_table(
        pa.table({"id": range(count), "name": ["x"] * count, "amount": [0.5] * count}),
        tmp_path / "large.parquet",
    )
    (done,) = orders.json("upsert", "shop.orders", tmp_path / "large.parquet")
    assert done["rows"] == count
    ids = pkray.connect(orders.warehouse).load_table("shop.orders").to_arrow(["id"])["id"]
    assert sorted(ids.to_pylist()) == list(range(count))


def test_upsert_with_row_kinds(orders, tmp_path):
    (tmp_path / "changes.csv").write_text("op,id,name,amount\n-D,1,,\n+U,2,b,3\n")
    orders.ok("upsert", "shop.orders", tmp_path / "changes.csv", "--row-kinds", "op")
    assert [(row["id"], row["name"]) for row in scan(orders, "shop.orders")] == [(2, "b"), (3, "")]


def test_the_same_identifier_commits_once(orders, tmp_path):
    (tmp_path / "a.csv").write_text("id,name,amount\n10,a,1\n")
    job = ("--commit-user", "job", "--commit-identifier", "7")
    first = orders.json("upsert", "shop.orders", tmp_path / "a.csv", *job)
    again = orders.json("upsert", "shop.orders", tmp_path / "a.csv", *job)
    assert first == again
    assert len(orders.json("snapshots", "shop.orders")) == 2


def test_every_type_survives_the_way_out_and_in(shell, tmp_path):
    columns = {
        "id": "INT", "flag": "BOOLEAN", "price": "DECIMAL(20, 4)", "ratio": "FLOAT",
        "text": "STRING", "raw": "BYTES", "day": "DATE", "clock": "TIME(3)",
        "at": "TIMESTAMP(6)", "utc": "TIMESTAMP_LTZ(9)",
    }  # fmt: skip
    given = [word for name, kind in columns.items() for word in ("--column", f"{name} {kind}")]
    for table in ("a.jsonl", "a.csv"):
        shell.ok("create", table.replace(".", "_") + ".t", *given, "-k", "id")
    row = {
        "id": 1, "flag": True, "price": "-12.3400", "ratio": 0.5, "text": 'a "quoted", é',
        "raw": "00ff", "day": "1969-12-31", "clock": "23:59:59.999",
        "at": "2024-02-29T12:30:00.000001", "utc": "2024-02-29T12:30:00.000000001Z",
    }  # fmt: skip
    nulls = {"id": 2, **dict.fromkeys(list(columns)[1:])}
    (tmp_path / "a.jsonl").write_text(f"{json.dumps(row)}\n{json.dumps(nulls)}\n")
    shell.ok("upsert", "a_jsonl.t", tmp_path / "a.jsonl")
    assert scan(shell, "a_jsonl.t") == [row, nulls]

    quoted = ",".join(f'"{str(value).replace(chr(34), chr(34) * 2)}"' for value in row.values())
    lines = [",".join(row), quoted.replace("True", "true"), "2" + "," * (len(row) - 1)]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    shell.ok("upsert", "a_csv.t", tmp_path / "a.csv")
    assert scan(shell, "a_csv.t") == [row, nulls]


def test_nested_values_survive_the_way_out_and_in(shell, tmp_path):
    columns = {
        "id": "INT", "days": "ARRAY<DATE>", "raw": "ARRAY<BYTES>", "m": "MAP<INT, DECIMAL(9, 2)>",
        "r": "ROW<at TIMESTAMP(9), utc TIMESTAMP_LTZ(3), f FLOAT, m MAP<STRING, TIME(3)>>",
    }  # fmt: skip
    given = [word for name, kind in columns.items() for word in ("--column", f"{name} {kind}")]
    shell.ok("create", "a.t", *given, "-k", "id")
    parts = {
        "at": "2024-02-29T12:30:00.000000001", "utc": "2024-02-29T10:00:00.001000Z", "f": 0.5,
        "m": [["a", "23:59:59.999000"]],
    }  # fmt: skip
    row = {
        "id": 1, "days": ["1969-12-31", None], "raw": ["00ff", ""], "m": [[-1, "1.50"], [2, None]],
        "r": parts,
    }  # fmt: skip
    nulls = {"id": 2, **dict.fromkeys(list(columns)[1:])}
    other = {**row, "id": 3, "m": {"7": 2.25}, "r": {**parts, "m": {"b": "01:02:03"}}}
    lines = [json.dumps(row), json.dumps(nulls), "", json.dumps(other)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    shell.ok("upsert", "a.t", tmp_path / "a.jsonl")
    other |= {"m": [[7, "2.25"]], "r": {**parts, "m": [["b", "01:02:03"]]}}
    found = scan(shell, "a.t")
    assert found == [row, nulls, other]
    (tmp_path / "b.jsonl").write_text("\n".join(json.dumps(row) for row in found))
    shell.ok("upsert", "a.t", tmp_path / "b.jsonl")
    assert scan(shell, "a.t") == found


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"m": {"a": 1.5}}, "'m'.*1.5"),
        ({"m": [{"key": "a", "value": 1}]}, "'m' row 0"),
        ({"r": {"a": 1, "b": 2}}, r"'r' has the fields \['a', 'b'\]"),
        ({"r": {"a": 300}}, "'r'.*300"),
        ({"d": ["2024-02-30"]}, r"'d' line 1: \['2024-02-30'\] is not a value of ARRAY<DATE>"),
        ({"dd": []}, "did you mean 'd'"),
        ([1], "line 1 is no JSON object"),
    ],
)
def test_nested_values_that_do_not_fit_are_named(shell, tmp_path, line, message):
    columns = ["id INT", "m MAP<STRING, INT>", "r ROW<a TINYINT>", "d ARRAY<DATE>"]
    given = [word for column in columns for word in ("--column", column)]
    shell.ok("create", "a.t", *given, "-k", "id")
    line = {"id": 1, **line} if isinstance(line, dict) else line
    (tmp_path / "a.jsonl").write_text(json.dumps(line))
    assert re.search(message, shell.error("upsert", "a.t", tmp_path / "a.jsonl"))
    assert shell.json("snapshots", "a.t") == []


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [
        ("TIMESTAMP(3)", "a.jsonl", '{"id": 1, "v": "2024-02-29T12:00:00Z"}'),
        ("TIMESTAMP_LTZ(3)", "a.jsonl", '{"id": 1, "v": "2024-02-29T12:00:00"}'),
        ("FLOAT", "a.jsonl", '{"id": 1, "v": 1e300}'),
        ("FLOAT", "a.csv", "id,v\n1,1e300\n"),
    ],
)
def test_zones_and_large_numbers_of_files_are_not_dropped(shell, tmp_path, kind, name, text):
    shell.ok("create", "a.t", "--column", "id INT", "--column", f"v {kind}", "-k", "id")
    (tmp_path / name).write_text(text)
    shell.error("upsert", "a.t", tmp_path / name)
    assert shell.json("snapshots", "a.t") == []


def test_numbers_that_json_has_not_are_printed(shell, tmp_path):
    shell.ok("create", "a.t", "--column", "id INT", "--column", "v DOUBLE", "-k", "id")
    (tmp_path / "a.csv").write_text("id,v\n1,nan\n2,-inf\n")
    shell.ok("upsert", "a.t", tmp_path / "a.csv")
    printed = shell.ok("scan", "a.t")
    assert "NaN" in printed
    assert "-Infinity" in printed


def test_numbers_that_json_has_not_are_read_as_they_are_printed(shell, tmp_path):
    columns = ("--column", "id INT", "--column", "v DOUBLE", "--column", "l ARRAY<FLOAT>")
    shell.ok("create", "a.t", *columns, "-k", "id")
    row = {"id": 1, "v": "NaN", "l": ["-Infinity", 0.5, None, "Infinity"]}
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    shell.ok("upsert", "a.t", tmp_path / "a.jsonl")
    assert shell.json("scan", "a.t") == [row]


def test_scan_columns_filter_and_limit(orders):
    found = scan(orders, "shop.orders", "-c", "id", "--filter", "amount < 0 OR name = ''")
    assert found == [{"id": 2}, {"id": 3}]
    assert len(orders.json("scan", "shop.orders", "--limit", "2")) == 2
    assert orders.json("scan", "shop.orders", "--limit", "0") == []
    assert "0 rows" in orders.ok("scan", "shop.orders", "-n", "0")


def test_scan_of_an_older_snapshot(orders, tmp_path):
    (tmp_path / "a.csv").write_text("id,name,amount\n1,newer,1\n")
    orders.ok("upsert", "shop.orders", tmp_path / "a.csv")
    assert scan(orders, "shop.orders", "--snapshot", "1")[0]["name"] == "ann"
    assert scan(orders, "shop.orders")[0]["name"] == "newer"
    assert "snapshot 9" in orders.error("scan", "shop.orders", "--snapshot", "9")


def test_lookup(orders):
    assert orders.json("lookup", "shop.orders", "-k", "id=3", "-k", '{"id": 1}', "-k", "id=9") == [
        {"id": 3, "name": "", "amount": None},
        {"id": 1, "name": "ann", "amount": 1.5},
    ]
    committed = ("--visibility", "committed", "-c", "name")
    assert orders.json("lookup", "shop.orders", "-k", "id=1", *committed) == [{"name": "ann"}]


def test_lookup_by_a_key_of_several_columns(shell, tmp_path):
    shell.ok(
        "create", "a.b", "--column", "day DATE", "--column", "raw BYTES", "--column", "n INT",
        "-k", "day", "-k", "raw", "--partition", "day",
    )  # fmt: skip
    (tmp_path / "rows.csv").write_text("day,raw,n\n2024-02-29,00ff,5\n2024-03-01,00ff,6\n")
    shell.ok("upsert", "a.b", tmp_path / "rows.csv")
    row = {"day": "2024-02-29", "raw": "00ff", "n": 5}
    assert shell.json("lookup", "a.b", "-k", "day=2024-02-29,raw=00FF") == [row]
    assert shell.json("lookup", "a.b", "-k", '{"raw": "00ff", "day": "2024-02-29"}') == [row]


def test_lookup_by_the_first_columns_of_the_key(shell, tmp_path):
    shell.ok("create", "a.b", "--column", "a INT", "--column", "b INT", "-k", "a", "-k", "b")
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n1,1\n2,5\n")
    shell.ok("upsert", "a.b", tmp_path / "rows.csv")
    rows = [{"a": 2, "b": 5}, {"a": 1, "b": 1}, {"a": 1, "b": 2}]
    assert shell.json("lookup", "a.b", "-k", "a=2", "-k", "a=1", "--prefix") == rows


def test_snapshots_files_and_compaction(orders, tmp_path):
    (tmp_path / "a.csv").write_text("id,name,amount\n1,newer,1\n2,newer,1\n3,newer,1\n")
    orders.ok("upsert", "shop.orders", tmp_path / "a.csv")
    assert {file["level"] for file in orders.json("files", "shop.orders")} == {0}
    (done,) = orders.json("compact", "shop.orders", "--full")
    assert (done["snapshot"], done["commit_kind"]) == (3, "COMPACT")
    assert orders.json("compact", "shop.orders", "--full") == [{"snapshot": None}]
    kinds = [snapshot["commit_kind"] for snapshot in orders.json("snapshots", "shop.orders")]
    assert kinds == ["APPEND", "APPEND", "COMPACT"]
    compacted = orders.json("files", "shop.orders")
    assert sum(file["record_count"] for file in compacted) == 3
    assert 0 not in {file["level"] for file in compacted}
    assert {file["level"] for file in orders.json("files", "shop.orders", "--snapshot", "1")} == {0}
    assert "COMPACT" in orders.ok("snapshots", "shop.orders")
    assert "bucket-" in orders.ok("files", "shop.orders")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["describe", "shop.nope"], 1, "shop.nope does not exist"),
        (["describe", "shop.ordres"], 1, "did you mean shop.orders?"),
        (["scan", "orders"], 1, "database.table"),
        (["scan", "shop.orders", "-f", "amonut > 1"], 1, "did you mean 'amount'"),
        (["scan", "shop.orders", "-f", "amount >"], 1, "is not SQL"),
        (["scan", "shop.orders", "-c", "nme"], 1, "'nme'"),
        (["lookup", "shop.orders", "-k", "id=x"], 1, "cannot be compared with 'x'"),
        (["lookup", "shop.orders", "-k", "id=1.5"], 1, "does not hold '1.5'"),
        (["lookup", "shop.orders", "-k", "name=a"], 1, "it needs id"),
        (["lookup", "shop.orders", "-k", '{"id": null}'], 1, "cannot be null"),
        (["lookup", "shop.orders", "-k", "{oops"], 2, "is not JSON"),
        (["lookup", "shop.orders", "-k", "7"], 2, "takes KEY=VALUE"),
        (["lookup", "shop.orders", "-k", "id=1,id=2"], 2, "gives 'id' twice"),
        (["lookup", "shop.orders", "-k", "id=1", "--visibility", "soon"], 1, "'soon'"),
        (["lookup", "shop.orders"], 2, "--key"),
        (["upsert", "shop.orders", "none.csv"], 1, "file 'none.csv' does not exist"),
        (["upsert", "shop.orders", "."], 1, "file '.' is a folder"),
        (["create", "a.b", *ORDERS, "-k", "id", "-o", "buckt=2"], 1, "did you mean 'bucket'"),
        (["create", "a.b", *ORDERS, "-k", "nope"], 1, "nope"),
        (["create", "a.b", "--column", "id", "-k", "id"], 2, 'takes "NAME TYPE"'),
        (["create", "a.b", "--column", "id WHAT", "-k", "id"], 1, "WHAT"),
        (["create", "a.b", "-k", "id"], 2, "--column"),
        (["create", "a.b", *ORDERS, "-k", "id", "-o", "bucket"], 2, "takes KEY=VALUE"),
        (["create", "a.b", "--like", "none.parquet", "-k", "id"], 1, "'none.parquet'"),
        (["frobnicate"], 2, "frobnicate"),
        (["scan"], 2, "TABLE"),
        (["scan", "shop.orders", "--limit", "many"], 2, "--limit"),
    ],
)
def test_errors_are_one_line(orders, words, code, message):
    assert message in orders.error(*words, code=code)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "id,name,amount\nx,a,1\n", "invalid value 'x'"),
        ("a.csv", "id,name,amount\n1,a\n", "Expected 3 columns, got 2"),
        ("a.csv", "id,nme,amount\n1,a,1\n", "did you mean 'name'"),
        ("a.csv", "id,name\n1,a\n", "'amount'"),
        ("a.csv", "id,name,amount\n,a,1\n", "'id'"),
        ("a.csv", "", "a.csv"),
        ("a.jsonl", '{"id": 1, "nme": "a"}\n', "did you mean 'name'"),
        ("a.jsonl", '{"id": "one"}\n', "a.jsonl"),
        ("a.jsonl", '{"id": 1\n', "a.jsonl"),
        ("a.jsonl", '{"name": "a"}\n', "'id'"),
        ("a.parquet", "not parquet", "a.parquet"),
        ("a.csv.gz", "not compressed", "a.csv.gz"),
    ],
)
def test_a_file_that_does_not_fit_changes_nothing(orders, tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    assert message in orders.error("upsert", "shop.orders", tmp_path / name)
    assert len(orders.json("snapshots", "shop.orders")) == 1


def test_debug_shows_where(orders):
    with pytest.raises(pkray.errors.TableNotFoundError):
        main(["describe", "shop.nope", "--debug"])


def test_version_and_help(shell):
    assert shell.ok("--version") == f"pkray {pkray.__version__}\n"
    assert "upsert" in shell.ok("--help")
    assert "--filter" in shell.ok("scan", "--help")


def test_no_words_at_all_get_help(shell):
    code, out, err = shell.run()
    assert (code, err) == (2, "")
    assert "changelog" in out


def test_what_does_nothing_says_so(orders):
    assert "nothing to do" in orders.ok("compact", "shop.orders", "--bucket", "1", "--bucket", "9")


def test_an_interrupted_command_ends_quietly(orders, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(pkray.Catalog, "load_table", interrupted)
    assert orders.run("scan", "shop.orders") == (130, "", "")
