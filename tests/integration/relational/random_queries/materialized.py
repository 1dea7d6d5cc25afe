"""Results of queries that keep tables up to date, as tables change commit by commit."""

from collections.abc import Mapping
from random import Random
from tempfile import TemporaryDirectory

import pyarrow as pa

import pkray
from pkray.errors import PkrayError

COMMITS = 3
"""Commits that a table's rows come in, before what is none of them goes again."""
KEY = "id"


def materialized(text: str, tables: Mapping[str, pa.Table], random: Random) -> pa.Table | None:
    """Keep a query's result while its tables come to hold these rows; None where that is refused.

    Rows come in several commits, most of them with another row's values first, so that they are
    updated; some keys come and go again. The first commits are there when the query begins.

    Raises:
        QueryFailedError: a row cannot be computed; it may be one that is none of the final ones.
    """
    with TemporaryDirectory() as folder, pkray.connect(folder) as catalog:
        kept = {}
        for name, rows in tables.items():
            kept[name] = catalog.create_table(
                f"default.{name}",
                [(KEY, pa.int32()), *((each.name, each.type) for each in rows.schema)],
                [KEY],
                options={"changelog-producer": random.choice(("input", "lookup"))},
            )
            _commit(kept[name], _some(rows, random))
        try:
            query = catalog.sql(text).materialize("default.result")
        except PkrayError:
            return None
        last = {}
        for commit in range(COMMITS):
            for name, rows in tables.items():
                given = _some(rows, random) if commit < COMMITS - 1 else keyed(rows)
                goes = range(rows.num_rows, rows.num_rows + COMMITS) if given.num_rows else ()
                last[f"default.{name}"] = _commit(kept[name], given, goes)
        query.wait(last, timeout=120)
        result = catalog.load_table("default.result").to_arrow()
        if result.column_names[:1] == ["_row_key"]:
            result = result.drop_columns(["_row_key"])
        query.stop()
        return result


def keyed(rows: pa.Table, keys: list[int] | None = None) -> pa.Table:
    """Number the rows, or give them keys."""
    numbers = pa.array(range(rows.num_rows) if keys is None else keys, pa.int32())
    return rows.add_column(0, pa.field(KEY, pa.int32(), False), numbers)


def _some(rows: pa.Table, random: Random) -> pa.Table:
    """Choose rows, under keys of any of them or of none that stays."""
    count = rows.num_rows
    if not count:
        return keyed(rows)
    keys = random.sample(range(count + COMMITS), random.randint(1, count))
    return keyed(rows.take([random.randrange(count) for _ in keys]), keys)


def _commit(table: pkray.Table, rows: pa.Table, deleted: range | tuple[()] = ()) -> int:
    with table.open_writer() as writer:
        if rows.num_rows:
            writer.upsert(rows)
        if deleted:
            writer.delete(pa.table({KEY: pa.array(deleted, pa.int32())}))
        snapshot = writer.commit()
    return 0 if snapshot is None else int(snapshot.id)
