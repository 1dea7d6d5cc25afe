"""A warehouse that version 0.1.0 wrote, in the format that is promised to stay: later versions read
it as that version did, and go on with it."""

import json
import tarfile
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import pkray
from tests.integration.readers import read_with_rust
from tests.integration.written_warehouse import DATA, Row, commit, measure, rows

WRITTEN = "written_by_0_1_0"
CONTENT: dict[str, dict[str, Any]] = json.loads(
    (DATA / f"{WRITTEN}.json").read_text(encoding="utf-8")
)
TABLES = sorted(CONTENT)
LOGGED = [name for name in TABLES if CONTENT[name]["changelog"]]
DAY = date(2024, 2, 28)
PAGES = [{"day": DAY, "page": f"page {n}", "count": 3} for n in (0, 18, 20)]

NEXT: dict[str, tuple[list[Row], list[Row], list[Row]]] = {
    "firsts": ([{"id": n, "heard": "late"} for n in (4, 5)], [], [{"id": 5, "heard": "late"}]),
    "marks": (
        [{"k": 8, "v": "again"}, {"k": 300, "v": "new"}],
        [{"k": 7}, {"k": 9}],
        [{"k": 8, "v": "again"}, {"k": 300, "v": "new"}],
    ),
    "measures": ([measure("north", 0, 3), measure("south", 2, 7)], [], [measure("south", 2, 7)]),
    "orders": (
        [{"id": 5, "customer": "Alan", "amount": Decimal("7.25")}],
        [{"id": 0}],
        [{"id": 5, "customer": "Alan", "amount": "7.25"}],
    ),
    "people": (
        [{"id": 0, "name": None, "email": "0@example.com", "since": None}],
        [],
        [{"id": 0, "name": "name 0", "email": "0@example.com", "since": None}],
    ),
    "places": (
        [{"id": 0, "town": "Delft", "name": "back"}, {"id": 9, "town": "Turin", "name": "new"}],
        [{"id": 2, "town": "Zürich"}],
        [{"id": 0, "town": "Delft", "name": "back"}, {"id": 9, "town": "Turin", "name": "new"}],
    ),
    "stock": (
        [{"item": "nut", "pieces": 4, "dearest": 0.5, "notes": "n4"}],
        [],
        [{"item": "nut", "pieces": 5, "dearest": 1.5, "notes": "n1,n4"}],
    ),
    "visits": (PAGES, [{"day": DAY, "page": "page 2"}], PAGES),
}
"""By table, the rows to upsert and the keys to delete next, and the rows that upserting makes."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with tarfile.open(DATA / f"{WRITTEN}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "warehouse"


@pytest.fixture
def catalog(folder: Path) -> Iterator[pkray.Catalog]:
    with pkray.connect(folder) as catalog:
        yield catalog


def newest(name: str) -> list[list[Any]]:
    """The rows of the newest snapshot."""
    return list(CONTENT[name]["snapshots"].values())[-1]


def by_key(table: Any, found: list[list[Any]]) -> dict[tuple[Any, ...], list[Any]]:
    """Rows by their primary key."""
    places = [table.arrow_schema.names.index(name) for name in table.primary_keys]
    return {tuple(row[place] for place in places): row for row in found}


def as_json(row: Row) -> list[Any]:
    return json.loads(json.dumps(list(row.values()), default=str))


def keys_of(table: Any) -> list[Row]:
    return table.to_arrow(columns=list(table.primary_keys)).to_pylist()


@pytest.mark.parametrize("name", TABLES)
def test_every_snapshot_is_read_as_it_was(catalog: pkray.Catalog, name: str) -> None:
    table = catalog.load_table(name)
    numbers = table.snapshots()["snapshot_id"].to_pylist()

    found = {str(number): rows(table.to_arrow(snapshot_id=number)) for number in numbers}

    assert found == CONTENT[name]["snapshots"]
    assert rows(table.to_arrow()) == newest(name)


@pytest.mark.parametrize("name", TABLES)
def test_another_reader_agrees(folder: Path, name: str) -> None:
    assert rows(read_with_rust(str(folder), name)) == newest(name)


@pytest.mark.parametrize("name", TABLES)
def test_rows_are_found_by_key(catalog: pkray.Catalog, name: str) -> None:
    table = catalog.load_table(name)

    assert rows(table.lookup(keys_of(table), visibility="committed")) == newest(name)
    assert rows(table.lookup(keys_of(table))) == newest(name)


@pytest.mark.parametrize("name", LOGGED)
def test_the_changelog_is_read_as_it_was(catalog: pkray.Catalog, name: str) -> None:
    assert rows(catalog.load_table(name).changelog()) == CONTENT[name]["changelog"]


@pytest.mark.parametrize("name", LOGGED)
def test_the_changelog_replays_to_what_the_table_held(catalog: pkray.Catalog, name: str) -> None:
    table = catalog.load_table(name)
    held: dict[tuple[Any, ...], list[Any]] = {}
    last = 0

    for batch in table.changelog_batches():
        for kind, last, *row in (as_json(change) for change in batch.to_pylist()):  # noqa: B007
            ((key, _),) = by_key(table, [row]).items()
            if kind in ("-D", "-U"):
                assert held.pop(key) == row
            else:
                held[key] = row

    assert held == by_key(table, CONTENT[name]["snapshots"][str(last)])


def test_tags_and_branches_are_read_as_they_were(catalog: pkray.Catalog) -> None:
    orders = catalog.load_table("shop.orders")
    expected = CONTENT["shop.orders"]

    assert orders.tags.list()["tag_name"].to_pylist() == ["first"]
    assert rows(orders.to_arrow(tag="first")) == expected["tags"]["first"]
    assert rows(orders.branch("trial").to_arrow()) == expected["branches"]["trial"]


def test_a_consumer_goes_on_where_it_was(catalog: pkray.Catalog) -> None:
    orders = catalog.load_table("shop.orders")
    expected = CONTENT["shop.orders"]

    with orders.stream(consumer_id="report", until_snapshot=6) as stream:
        found = [row for batch in stream for row in rows(batch)]

    start = expected["consumers"]["report"]
    assert sorted(found) == sorted(row for row in expected["changelog"] if row[1] >= start)


@pytest.mark.parametrize("name", TABLES)
def test_writing_goes_on(folder: Path, catalog: pkray.Catalog, name: str) -> None:
    table = catalog.load_table(name)
    upserts, deletes, made = NEXT[table.name.removeprefix("shop.")]
    expected = by_key(table, newest(name))
    for key in deletes:
        del expected[tuple(as_json({each: key[each] for each in table.primary_keys}))]
    expected |= by_key(table, [as_json(row) for row in made])

    commit(table, "goes on", 1, upserts, deletes)
    assert by_key(table, rows(table.to_arrow())) == expected
    table.compact(full=True)
    assert by_key(table, rows(table.to_arrow())) == expected

    assert by_key(table, rows(read_with_rust(str(folder), name))) == expected
    assert by_key(table, rows(table.lookup(keys_of(table)))) == expected


def test_changes_that_come_next_follow_the_old_ones(catalog: pkray.Catalog) -> None:
    orders = catalog.load_table("shop.orders")
    upserts, deletes, _ = NEXT["orders"]

    commit(orders, "goes on", 1, upserts, deletes)

    assert rows(orders.changelog(from_snapshot=7)) == [
        ["+U", 8, 5, "Alan", "7.25"],
        ["-D", 8, 0, "Ada", "0.50"],
        ["-U", 8, 5, "Niklaus", "-1.00"],
    ]


def test_a_commit_that_happened_does_not_happen_again(catalog: pkray.Catalog) -> None:
    orders = catalog.load_table("shop.orders")

    commit(orders, "orders", 3, [{"id": 1, "customer": "again", "amount": None}])

    assert rows(orders.to_arrow()) == newest("shop.orders")


def test_a_commit_that_was_killed_happens_once(catalog: pkray.Catalog) -> None:
    orders = catalog.load_table("shop.orders")
    upserts = [{"id": n, "customer": "in doubt", "amount": None} for n in (1, 77)]

    for _ in range(2):
        commit(orders, "orders", 4, upserts, [{"id": 2}])

    expected = by_key(orders, newest("shop.orders"))
    del expected[2,]
    expected |= {(n,): [n, "in doubt", None] for n in (1, 77)}
    assert by_key(orders, rows(orders.to_arrow())) == expected
    assert orders.latest_snapshot().id == 8


def test_files_of_the_killed_commit_are_orphans(catalog: pkray.Catalog) -> None:
    orders = catalog.load_table("shop.orders")

    removed = orders.remove_orphan_files(older_than=2**52)["path"].to_pylist()
    again = orders.remove_orphan_files(older_than=2**52)

    assert {path.partition("/")[0] for path in removed} == {
        *("bucket-0", "bucket-1", "manifest", "snapshot")
    }
    assert again.num_rows == 0
    assert rows(orders.to_arrow()) == newest("shop.orders")
    assert rows(orders.to_arrow(tag="first")) == CONTENT["shop.orders"]["tags"]["first"]
    assert rows(orders.branch("trial").to_arrow()) == CONTENT["shop.orders"]["branches"]["trial"]


def test_it_is_rolled_back_to_its_tag(catalog: pkray.Catalog) -> None:
    orders = catalog.load_table("shop.orders")

    orders.rollback_to(tag="first")

    assert rows(orders.to_arrow()) == CONTENT["shop.orders"]["tags"]["first"]


def test_its_branch_takes_the_place_of_the_table(catalog: pkray.Catalog) -> None:
    orders = catalog.load_table("shop.orders")

    orders.branches.fast_forward("trial")

    assert rows(orders.to_arrow()) == CONTENT["shop.orders"]["branches"]["trial"]


def test_columns_are_altered_further(catalog: pkray.Catalog) -> None:
    people = catalog.load_table("shop.people")

    people.alter.rename_column("since", "joined")
    people.alter.drop_column("email")

    assert rows(catalog.load_table("shop.people").to_arrow()) == [
        [number, name, joined] for number, name, _, joined in newest("shop.people")
    ]
