"""A source whose rows change, and what a result holds of them."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pkray

Put = Callable[..., int]
Rows = Counter[tuple[Any, ...]]


def source(catalog: pkray.Catalog, name: str) -> Put:
    table = catalog.create_table(
        name, [("k", "INT"), ("v", "INT")], ["k"], options={"changelog-producer": "lookup"}
    )
    return lambda rows, *deleted: change(table, rows, *deleted)


def change(table: Any, rows: dict[int, int | None], *deleted: int) -> int:
    """Put rows into a table and delete others; give the snapshot's id."""
    with table.open_writer() as writer:
        if rows:
            writer.upsert([{"k": key, "v": value} for key, value in rows.items()])
        if deleted:
            writer.delete([{"k": key} for key in deleted])
        snapshot = writer.commit()
    assert snapshot is not None
    return int(snapshot.id)


def materialized(relation: Any, put: Put, rows: dict[int, int | None], *deleted: int) -> Any:
    """Begin the query default.r over default.t, and have it read what is put there then."""
    query = relation.materialize("default.r")
    query.wait({"default.t": put(rows, *deleted)})
    return query


def rows_of(table: Any) -> Rows:
    """Count the rows, without the key that queries give rows that have none."""
    kept = table.drop_columns([each for each in table.column_names if each == "_row_key"])
    return Counter(tuple(row.values()) for row in kept.to_pylist())


def content(catalog: pkray.Catalog, name: str = "default.r") -> Rows:
    return rows_of(catalog.load_table(name).to_arrow())
