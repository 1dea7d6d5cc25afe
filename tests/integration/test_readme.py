"""What the README shows works as it stands there."""

from __future__ import annotations

import inspect
import json
import re
import shlex

import pytest

import pkray
from pkray.cli import main
from tests.readme import blocks


def test_the_tour_of_the_python_api(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("Python")
    tour: dict = {}
    exec(compile(code, "README.md", "exec"), tour)
    orders = tour["orders"]
    assert orders.to_arrow().to_pylist() == [{"id": 2, "customer": "Grace", "amount": 99.0}]
    assert sorted(orders.to_arrow(snapshot_id=1)["id"].to_pylist()) == [1, 2]
    assert orders.changelog(from_snapshot=2, to_snapshot=2).select(
        ["_row_kind", "id"]
    ).to_pylist() == [{"_row_kind": "-D", "id": 1}]
    tour["catalog"].close()


def test_the_tour_of_merge_rules_and_maintenance(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tour: dict = {}
    for heading in ("Python", "Merge rules and changes", "Time and maintenance"):
        (code,) = blocks(heading)
        exec(compile(code, "README.md", "exec"), tour)
    lines = tour["stock"].to_arrow().sort_by("item").to_pylist()
    assert [(line["item"], line["pieces"], line["mm"]) for line in lines] == [
        ("bolt", 10, 8),
        ("nail", 70, None),
    ]
    printed = capsys.readouterr().out
    assert "'_row_kind': '+I'" in printed
    assert tour["orders"].tags.list()["tag_name"].to_pylist() == ["year-end"]
    assert tour["orders"].to_arrow().num_rows == tour["trial"].to_arrow().num_rows
    tour["catalog"].close()


def test_the_tour_of_queries(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tour: dict = {}
    for heading in ("Python", "Merge rules and changes", "Time and maintenance", "Queries"):
        (code,) = blocks(heading)
        exec(compile(code, "README.md", "exec"), tour)
    assert "Grace    | 99.0" in capsys.readouterr().out
    spent = tour["catalog"].sql("SELECT * FROM shop.spent ORDER BY customer").to_arrow()
    assert spent.to_pylist() == [
        {"customer": "Ada", "total": 65.0},
        {"customer": "Grace", "total": 99.0},
    ]
    tour["catalog"].close()


def test_the_tour_of_continuous_queries(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pkray.connect("warehouse") as catalog:
        tour: dict = {"catalog": catalog}
        code = blocks("Continuous queries")[0]
        exec(compile(code, "README.md", "exec"), tour)
        assert "equal at snapshot" in capsys.readouterr().out
        balance = catalog.load_table("shop.balance").to_arrow()
        assert [(row["customer"], row["n"], int(row["total"])) for row in balance.to_pylist()] == [
            ("Ada", 2, 27)
        ]
        assert tour["query"].verify()
        assert catalog.load_table("shop.large").to_arrow()["id"].to_pylist() == [1]
        assert catalog.load_table("shop.small").to_arrow()["id"].to_pylist() == [3]
        assert [each.name for each in catalog.queries()] == ["shop.balance", "sizes"]


def test_the_tour_of_event_time(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pkray.connect("warehouse") as catalog:
        tour: dict = {"catalog": catalog}
        exec(compile(blocks("Continuous queries")[1], "README.md", "exec"), tour)
        assert capsys.readouterr().out.count("'n': 1") == 1
        assert tour["minutes"].status()["late"] == 1
        (late,) = catalog.load_table("shop.minutes$late").to_arrow().to_pylist()
        assert '"at": "2026-01-01 12:00:59"' in late["row"]
        assert tour["minutes"].verify()


def test_the_tour_of_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text("id,name\n1,Ada\n2,Bob\n")
    change = {"op": "u", "before": {"id": 2}, "after": {"id": 2, "name": "Grace"}}
    (tmp_path / "changes.json").write_text(json.dumps(change))
    (text,) = blocks("Command line", "")
    lines = text.replace("\\\n", " ").splitlines()
    for line in lines:
        command = shlex.split(line.removeprefix("$ "), comments=True)
        if command[0] == "export":
            monkeypatch.setenv(*command[1].split("=", 1))
            continue
        assert command[0] == "pkray"
        with pytest.raises(SystemExit) as exit_:
            main(command[1:])
        assert exit_.value.code == 0, capsys.readouterr().err
    assert '{"id":2,"name":"Grace"}' in capsys.readouterr().out
    with pkray.connect("warehouse") as catalog:
        people = catalog.load_table("shop.people")
        assert people.to_arrow().to_pylist() == [{"id": 1, "name": "Ada"}]
        assert people.to_arrow(tag="v1").num_rows == 2


def test_the_example_of_open_push(tmp_path):
    text = inspect.getdoc(pkray.Table.open_push) or ""
    (code,) = re.findall(r" ::\n\n(.*?)\n\n\S", text, re.DOTALL)
    with pkray.connect(str(tmp_path)) as catalog:
        orders = catalog.create_table("db.orders", [("id", "INT")], primary_keys=["id"])
        tour = {"orders": orders, "parts": [[{"id": 1}, {"id": 2}], [{"id": 3}]]}
        for _ in range(2):
            exec(compile(inspect.cleandoc(code), "open_push", "exec"), tour)
        assert sorted(orders.to_arrow()["id"].to_pylist()) == [1, 2, 3]
        assert orders.latest_snapshot().id == 1
