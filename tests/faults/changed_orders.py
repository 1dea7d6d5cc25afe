"""Orders that change in a few commits, and the result of a query of them."""

from collections.abc import Iterator
from typing import Any

import pkray

CHANGES = [({1: 1, 2: 2, 3: 3}, []), ({2: 5, 4: 4}, [1]), ({1: 7, 3: 2}, [4]), ({5: 5, 2: 2}, [1])]
"""Values by key, and keys that are deleted."""


def changed_orders(catalog: pkray.Catalog) -> Iterator[int]:
    """Make each commit of ``shop.orders``, and yield its number; safe to do again."""
    columns, options = [("k", "BIGINT"), ("v", "BIGINT")], {"changelog-producer": "lookup"}
    orders = catalog.create_table(
        "shop.orders", columns, ["k"], options=options, if_not_exists=True
    )
    for number, (rows, deleted) in enumerate(CHANGES):
        with orders.open_writer("orders") as writer:
            writer.upsert([{"k": key, "v": value} for key, value in rows.items()])
            writer.delete([{"k": key} for key in deleted])
            writer.commit(number)
        yield number


def verify_snapshots(catalog: pkray.Catalog) -> Any:
    """Verify all that there is of ``shop.result``; give its query."""
    query = catalog.query("shop.result")
    for snapshot in catalog.load_table("shop.result").snapshots()["snapshot_id"].to_pylist():
        report = query.verify(snapshot)
        assert report.equal, str(report)
    return query
