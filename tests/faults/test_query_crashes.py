"""The process that runs a query is killed at each operation on its storage, and it goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import pkray
from pkray.relational.continuous.queries.query import find_query
from tests.faults.faulty_store import Storage, faulty, put_files

QUERIES = {
    "totals": "SELECT v % 2 AS side, COUNT(*) AS n, SUM(v) AS total, MAX(v) AS most"
    " FROM shop.orders GROUP BY v % 2",
    "bag": "SELECT v % 2 AS side FROM shop.orders",
    "paired": "SELECT a.k, a.v, b.v AS w FROM shop.orders a JOIN shop.orders b ON a.v = b.k",
}
EPOCHS = [
    ({1: 1, 2: 2, 3: 3}, []),
    ({2: 5, 4: 4}, [1]),
    ({1: 7, 3: 2}, [4]),
    ({5: 5, 2: 2}, [1]),
]


WORKERS = {"one worker": (1, 1, 1, 1), "two workers": (2, 2, 2, 2), "rescaled": (1, 3, 2, 1)}
"""How many workers run each epoch."""


def job(catalog: pkray.Catalog, text: str, workers: Sequence[int]) -> None:
    """Fill the source and run the query up to what it holds, four times; safe to do again."""
    orders = catalog.create_table(
        "shop.orders",
        [("k", "BIGINT"), ("v", "BIGINT")],
        ["k"],
        options={"changelog-producer": "lookup"},
        if_not_exists=True,
    )
    for number, (rows, deleted) in enumerate(EPOCHS):
        with orders.open_writer("orders") as writer:
            writer.upsert([{"k": key, "v": value} for key, value in rows.items()])
            writer.delete([{"k": key} for key in deleted])
            writer.commit(number)
        catalog.sql(f"SET 'query.parallelism' = '{workers[number]}'")
        query = catalog.sql(text).materialize("shop.result", trigger="available_now")
        query.wait_ended()


def content(catalog: pkray.Catalog) -> Counter[tuple[Any, ...]]:
    rows = catalog.load_table("shop.result").to_arrow()
    kept = rows.drop_columns([n for n in rows.column_names if n == "_row_key"])
    return Counter(tuple(row.values()) for row in kept.to_pylist())


@pytest.mark.parametrize(
    ("name", "workers", "stride"),
    [
        ("totals", "one worker", 6),
        ("totals", "two workers", 20),
        ("totals", "rescaled", 20),
        *(
            pytest.param(name, workers, 1, marks=pytest.mark.slow)
            for name in QUERIES
            for workers in WORKERS
        ),
    ],
)
def test_a_query_goes_on_from_every_crash_point(
    name: str,
    workers: str,
    stride: int,
    new_root: Callable[[str], str],
    process: Callable[[str], pkray.Catalog],
    survived: Callable[[str], None],
) -> None:
    storage = Storage(new_root("memory"))
    with faulty(storage), process(storage.root) as catalog:
        job(catalog, QUERIES[name], WORKERS[workers])
        expected = content(catalog)
        bounded = catalog.sql(QUERIES[name]).to_arrow()
        assert expected == Counter(tuple(row.values()) for row in bounded.to_pylist())
    states = range(1, len(storage.changes) + 1, stride)
    failed: dict[int, Exception] = {}
    for changes in states:
        root = new_root("memory")
        put_files(root, storage.state(changes))
        try:
            with process(root) as catalog:
                job(catalog, QUERIES[name], WORKERS[workers])
                _check(catalog, expected)
        except Exception as error:
            failed[changes] = error
    good = len(states) - len(failed)
    survived(f"query {name}, {workers}: {good} of {len(states)} crash points survived")
    assert not failed, f"{len(failed)} of {len(states)}: {next(iter(failed.items()))}"


def _check(catalog: pkray.Catalog, expected: Counter[tuple[Any, ...]]) -> None:
    assert content(catalog) == expected
    result = catalog.load_table("shop.result")
    query = find_query(catalog, "shop.result")
    for snapshot in result.system("snapshots").column("snapshot_id").to_pylist():
        report = query.verify(snapshot)
        assert report.equal, str(report)
