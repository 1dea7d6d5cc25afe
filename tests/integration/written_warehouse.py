"""Write a small warehouse by pkray's public API, and its content, for later versions to go on with.

``python tests/integration/written_warehouse.py NAME`` makes ``NAME.tar.gz`` and ``NAME.json`` in
``tests/integration/data``, by the pkray that is installed. A release adds a pair under its own name
and leaves the older ones as they are.
"""

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pkray

DATA = Path(__file__).parent / "data"
KILLED = "--killed"
SITES = ["north", "south"]
Row = dict[str, Any]


def write(warehouse: str) -> None:
    with pkray.connect(warehouse) as catalog:
        _orders(catalog)
        _people(catalog)
        _stock(catalog)
        _visits(catalog)
        _places(catalog)
        _measures(catalog)
        _marks(catalog)
        _firsts(catalog)
    subprocess.run([sys.executable, __file__, KILLED, warehouse], check=False)


def commit(
    table: Any, user: str, number: int, rows: Sequence[Row] = (), deleted: Sequence[Row] = ()
) -> None:
    """Upsert rows and delete others, in one commit."""
    with table.open_writer(user) as writer:
        if rows:
            writer.upsert(list(rows))
        if deleted:
            writer.delete(list(deleted))
        writer.commit(number)


def _table(
    catalog: Any, name: str, columns: str, keys: str, partition: str = "", **options: str
) -> Any:
    """Make a table of columns such as ``id INT NOT NULL; name STRING``."""
    named = {key.replace("_", "-"): value for key, value in options.items()}
    typed = [tuple(column.split(" ", 1)) for column in columns.split("; ")]
    return catalog.create_table(
        f"shop.{name}", typed, keys.split(), partition.split(), options={"bucket": "1"} | named
    )


def _orders(catalog: Any) -> None:
    """Deduplicate with a lookup changelog: deletes, a tag, a branch, a consumer."""
    columns = "id BIGINT NOT NULL; customer STRING; amount DECIMAL(9, 2)"
    orders = _table(catalog, "orders", columns, "id", bucket="2", changelog_producer="lookup")
    names = ["Ada", "Grace", "Edsger", "Barbara", "Donald"]
    first = [{"id": n, "customer": names[n % 5], "amount": Decimal(f"{n}.50")} for n in range(12)]
    commit(orders, "orders", 1, first)
    orders.tags.create("first")
    changed = [{"id": n, "customer": "Barbara", "amount": Decimal("9.99")} for n in (3, 4, 40)]
    commit(orders, "orders", 2, changed, [{"id": 5}, {"id": 6}])
    orders.branches.create("trial", tag="first")
    commit(orders.branch("trial"), "trial", 1, [{"id": 0, "customer": "Tony", "amount": None}])
    last = orders.latest_snapshot().id
    with orders.stream(consumer_id="report", until_snapshot=last) as stream:
        for _ in stream:
            pass
    back = [{"id": 5, "customer": "Niklaus", "amount": Decimal("-1.00")}]
    commit(orders, "orders", 3, back, [{"id": 40}])


def _people(catalog: Any) -> None:
    """Partial-update, over columns that were added and renamed."""
    columns = "id INT NOT NULL; name STRING; mail STRING"
    people = _table(catalog, "people", columns, "id", merge_engine="partial-update")
    rows = [{"id": n, "name": f"name {n}", "mail": None} for n in range(4)]
    commit(people, "people", 1, rows)
    people.alter.add_column("since", "DATE")
    people.alter.rename_column("mail", "email")
    people = catalog.load_table("shop.people")
    more = [
        {"id": n, "name": None, "email": f"{n}@example.com", "since": _day(n)} for n in range(2, 6)
    ]
    commit(people, "people", 2, more)


def _stock(catalog: Any) -> None:
    """Aggregation with full compactions for its changelog."""
    functions = {"pieces": "sum", "dearest": "max", "notes": "listagg"}
    columns = "item STRING NOT NULL; pieces BIGINT; dearest DOUBLE; notes STRING"
    stock = _table(
        *(catalog, "stock", columns, "item"),
        merge_engine="aggregation",
        changelog_producer="full-compaction",
        **{f"fields.{name}.aggregate-function": each for name, each in functions.items()},
    )
    for number in range(1, 4):
        rows = [
            {"item": item, "pieces": number, "dearest": number * 1.5, "notes": f"{item[0]}{number}"}
            for item in ("nail", "bolt", "nut")[: 4 - number]
        ]
        commit(stock, "stock", number, rows)
        if number == 2:
            stock.compact(full=True)


def _visits(catalog: Any) -> None:
    """Dynamic buckets in partitions."""
    columns = "day DATE NOT NULL; page STRING NOT NULL; count INT"
    few = {"bucket": "-1", "dynamic-bucket.target-row-num": "5"}
    visits = _table(catalog, "visits", columns, "day page", "day", **few)
    for number in (1, 2):
        rows = [
            {"day": _day(n % 2), "page": f"page {n}", "count": number}
            for n in range(8 * number - 8, 8 * number + 4)
        ]
        commit(visits, "visits", number, rows)


def _places(catalog: Any) -> None:
    """Keys across partitions: rows move."""
    columns = "id INT NOT NULL; town STRING NOT NULL; name STRING"
    places = _table(catalog, "places", columns, "id", "town", bucket="-1")
    towns = ["Delft", "Turin", "Zürich"]
    rows = [{"id": n, "town": towns[n % 3], "name": f"name {n}"} for n in range(9)]
    commit(places, "places", 1, rows)
    moved = [{"id": n, "town": towns[(n + 1) % 3], "name": "moved"} for n in (0, 1)]
    commit(places, "places", 2, moved)


def _marks(catalog: Any) -> None:
    """Deletion vectors on a file that stays."""
    vectors = {"deletion-vectors.enabled": "true"}
    marks = _table(catalog, "marks", "k INT NOT NULL; v STRING", "k", **vectors)
    commit(marks, "marks", 1, [{"k": k, "v": f"value {k}"} for k in range(200)])
    commit(marks, "marks", 2, [{"k": k, "v": "marked"} for k in (7, 8)], [{"k": 100}])


def _measures(catalog: Any) -> None:
    """A sequence field, and many types."""
    columns = "site STRING NOT NULL; at TIMESTAMP(6) NOT NULL; version INT; values ARRAY<DOUBLE>"
    columns += "; labels MAP<STRING, INT>; raw BYTES; good BOOLEAN"
    order = {"sequence.field": "version"}
    measures = _table(catalog, "measures", columns, "site at", "site", **order)
    for number in (1, 2):
        rows = [
            measure(site, n, 10 - number if n == 0 else number)
            for site in SITES
            for n in (0, number)
        ]
        commit(measures, "measures", number, rows)


def measure(site: str, n: int, version: int) -> Row:
    """A row of ``shop.measures``."""
    return {
        "site": site,
        "at": datetime(2024, 2, 29, 12, n, 30, 123456),
        "version": version,
        "values": [n / 4, None, float(version)],
        "labels": [("n", n), ("version", version)],
        "raw": bytes([n, version]),
        "good": n % 2 == 0 if n else None,
    }


def _firsts(catalog: Any) -> None:
    """First-row."""
    how = {"merge-engine": "first-row", "changelog-producer": "lookup"}
    firsts = _table(catalog, "firsts", "id INT NOT NULL; heard STRING", "id", **how)
    for number in (1, 2):
        rows = [{"id": n, "heard": f"in commit {number}"} for n in range(number, number + 3)]
        commit(firsts, "firsts", number, rows)


def _killed(warehouse: str) -> None:
    """Die between a commit's manifests and its snapshot."""
    link = os.link

    def die(source: Any, target: Any, **options: Any) -> None:
        if "/snapshot/snapshot-" in str(target):
            os._exit(1)
        link(source, target, **options)

    os.link = die  # type: ignore[assignment]
    orders = pkray.connect(warehouse).load_table("shop.orders")
    rows = [{"id": n, "customer": "in doubt", "amount": None} for n in (1, 77)]
    commit(orders, "orders", 4, rows, [{"id": 2}])


def _day(number: int) -> Any:
    return date(2024, 2, 28 + number % 2)


def content(warehouse: str) -> dict[str, Any]:
    """All that the warehouse says of its tables."""
    with pkray.connect(warehouse) as catalog:
        return {
            name: _content(catalog.load_table(name)) for name in sorted(catalog.list_tables("shop"))
        }


def _content(table: Any) -> dict[str, Any]:
    ids = table.snapshots()["snapshot_id"].to_pylist()
    tags = table.tags.list()["tag_name"].to_pylist()
    branches = table.branches.list()["branch_name"].to_pylist()
    consumers = table.consumers.list().to_pylist()
    logged = table.options.get("changelog-producer", "none") != "none"
    return {
        "snapshots": {str(number): rows(table.to_arrow(snapshot_id=number)) for number in ids},
        "tags": {name: rows(table.to_arrow(tag=name)) for name in tags},
        "branches": {name: rows(table.branch(name).to_arrow()) for name in branches},
        "consumers": {each["consumer_id"]: each["next_snapshot_id"] for each in consumers},
        "changelog": rows(table.changelog()) if logged else [],
    }


def rows(found: Any) -> list[list[Any]]:
    """Each row's values as JSON has them, in order."""
    lines = sorted(json.dumps(list(row.values()), default=str) for row in found.to_pylist())
    return [json.loads(line) for line in lines]


def main(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write(folder)
        text = json.dumps(content(folder), ensure_ascii=False).replace("], [", "],\n[")
        (DATA / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        with tarfile.open(DATA / f"{name}.tar.gz", "w:gz") as archive:
            archive.add(folder, "warehouse", filter=_nobody)


def _nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave out who wrote it."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    if sys.argv[1] == KILLED:
        _killed(sys.argv[2])
    else:
        main(sys.argv[1])
