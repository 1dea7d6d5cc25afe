"""What the manual and the README show works as it stands there."""

import inspect
import json
import re

import pytest

import pkray
from tests.manual import Tour


def test_the_ten_minutes_of_the_readme(tmp_path, monkeypatch, capsys):
    tour = Tour(tmp_path, monkeypatch)
    tour.follow("../README.md")
    printed = capsys.readouterr().out
    assert "{'customer': 'Ada', 'total': Decimal('22.00')}" in printed
    assert "equal at snapshot" in printed
    tour["catalog"].close()


def test_the_guide_to_tables(tmp_path, monkeypatch):
    tour = Tour(tmp_path, monkeypatch)
    tour.follow("guides/tables.md")
    orders = tour["orders"]
    assert orders.to_arrow().to_pylist() == [{"id": 2, "customer": "Grace", "amount": 99.0}]
    assert sorted(orders.to_arrow(snapshot_id=1)["id"].to_pylist()) == [1, 2]
    assert orders.changelog(from_snapshot=2, to_snapshot=2).select(
        ["_row_kind", "id"]
    ).to_pylist() == [{"_row_kind": "-D", "id": 1}]
    tour["catalog"].close()


def test_the_guides_to_merge_rules_and_maintenance(tmp_path, monkeypatch, capsys):
    tour = Tour(tmp_path, monkeypatch)
    tour.follow("guides/tables.md", "guides/merging.md", "guides/time.md")
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


def test_the_guide_to_queries(tmp_path, monkeypatch, capsys):
    tour = Tour(tmp_path, monkeypatch)
    tour.follow("guides/tables.md", "guides/merging.md", "guides/time.md", "guides/queries.md")
    assert "Grace    | 99.0" in capsys.readouterr().out
    spent = tour["catalog"].sql("SELECT * FROM shop.spent ORDER BY customer").to_arrow()
    assert spent.to_pylist() == [
        {"customer": "Ada", "total": 65.0},
        {"customer": "Grace", "total": 99.0},
    ]
    tour["catalog"].close()


def test_the_guide_to_continuous_queries(tmp_path, monkeypatch, capsys):
    with pkray.connect(str(tmp_path / "warehouse")) as catalog:
        tour = Tour(tmp_path, monkeypatch, catalog=catalog)
        tour.follow("guides/continuous.md")
        assert "equal at snapshot" in capsys.readouterr().out
        balance = catalog.load_table("shop.balance").to_arrow()
        assert [(row["customer"], row["n"], int(row["total"])) for row in balance.to_pylist()] == [
            ("Ada", 2, 27)
        ]
        assert tour["query"].verify()
        assert catalog.load_table("shop.large").to_arrow()["id"].to_pylist() == [1]
        assert catalog.load_table("shop.small").to_arrow()["id"].to_pylist() == [3]
        assert [each.name for each in catalog.queries()] == ["shop.balance", "sizes"]


def test_the_guide_to_event_time(tmp_path, monkeypatch, capsys):
    with pkray.connect(str(tmp_path / "warehouse")) as catalog:
        tour = Tour(tmp_path, monkeypatch, catalog=catalog)
        tour.follow("guides/event-time.md")
        assert capsys.readouterr().out.count("'n': 1") == 1
        assert tour["minutes"].status()["late"] == 1
        (late,) = catalog.load_table("shop.minutes$late").to_arrow().to_pylist()
        assert '"at": "2026-01-01 12:00:59"' in late["row"]
        assert tour["minutes"].verify()


def test_the_guide_to_the_command_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "people.csv").write_text("id,name\n1,Ada\n2,Bob\n")
    change = {"op": "u", "before": {"id": 2}, "after": {"id": 2, "name": "Grace"}}
    (tmp_path / "changes.json").write_text(json.dumps(change))
    Tour(tmp_path, monkeypatch).follow("guides/command-line.md")
    assert '{"id":2,"name":"Grace"}' in capsys.readouterr().out
    with pkray.connect("warehouse") as catalog:
        people = catalog.load_table("shop.people")
        assert people.to_arrow().to_pylist() == [{"id": 1, "name": "Ada", "town": None}]
        assert people.to_arrow(tag="v1").num_rows == 2


@pytest.mark.parametrize(
    "page",
    [
        "concepts/epochs.md",
        "concepts/state.md",
        "concepts/visibility.md",
        "guides/backups.md",
        "guides/monitoring.md",
        "start/first-steps.md",
        "tutorials/database.md",
        "tutorials/features.md",
    ],
)
def test_pages_that_stand_alone(page, tmp_path, monkeypatch):
    tour = Tour(tmp_path, monkeypatch)
    tour.follow(page)
    tour["catalog"].close()


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
