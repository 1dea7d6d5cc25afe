"""Keys whose rows get another place in an order keep their newest row, and no row that is gone."""

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import pkray.relational
from pkray.api.inputs import Changelog
from pkray.relational.continuous.queries.stream import ResultStream

QUERIES = {
    "ranks": "SELECT k, RANK() OVER (ORDER BY v DESC) AS place FROM t",
    "neighbours": "SELECT k, LAG(v) OVER (ORDER BY v, k) AS least FROM t",
    "sums above": "SELECT k, s FROM "
    "(SELECT k, SUM(v) OVER (ORDER BY v, k) AS s FROM t) WHERE s > 9",
    "numbered top": "SELECT k, n FROM "
    "(SELECT k, ROW_NUMBER() OVER (ORDER BY v DESC, k) AS n FROM t) WHERE n <= 4",
    "top": "SELECT k, v FROM "
    "(SELECT k, v, ROW_NUMBER() OVER (ORDER BY v DESC, k) AS n FROM t) WHERE n <= 3",
    "first": "SELECT k, v FROM t ORDER BY v, k LIMIT 4",
    "after the first": "SELECT k, v FROM t ORDER BY v, k LIMIT 3 OFFSET 1",
    "joined ranks": "SELECT a.k, a.place, b.v FROM "
    "(SELECT k, RANK() OVER (ORDER BY v DESC) AS place FROM t) a JOIN t b ON a.k = b.k",
    "joined numbers": "SELECT a.k, a.n, b.v FROM (SELECT k, n FROM (SELECT k, ROW_NUMBER() OVER "
    "(ORDER BY v DESC, k) AS n FROM t) WHERE n <= 3) a JOIN t b ON a.k = b.k",
    "filtered": "SELECT k, v FROM t WHERE v > 5",
}


class Table:
    """A changelog with a key, changed at random.

    Attributes:
        changes: the relation.
    """

    def __init__(self, mode: str, seed: int) -> None:
        columns = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.int32())])
        self.changes: Changelog = pkray.relational.changelog(columns, primary_key=["k"], mode=mode)
        self._mode = mode
        self._random = random.Random(seed)
        self._rows: dict[int, int] = {}

    def change(self) -> None:
        """Push an epoch of some changes."""
        told: list[tuple[str, int, int]] = []
        for key in self._random.sample(range(9), self._random.randrange(1, 6)):
            old, new = self._rows.pop(key, None), self._random.randrange(12)
            stays = old is None or self._random.random() < 0.8
            if old is not None and (self._mode == "all" or not stays):
                told.append(("-U" if stays else "-D", key, old))
            if stays:
                told.append(("+I" if old is None else "+U", key, new))
                self._rows[key] = new
        self.changes.push([{"_row_kind": kind, "k": k, "v": v} for kind, k, v in told])


def followed(stream: ResultStream, held: dict[int, dict[str, Any]]) -> None:
    """Bring rows by key up to date."""
    while (batch := stream.poll()) is not None:
        for row in batch.to_pylist():
            kind = row.pop("_row_kind")
            del row["_epoch"]
            if kind == "-D":
                del held[row["k"]]
            else:
                held[row["k"]] = row


def counted(rows: Any) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in rows)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("mode", ["all", "upsert"])
def test_rows_by_key_are_those_of_the_bounded_run(mode, name):
    for seed in range(2):
        table = Table(mode, seed)
        table.change()
        relation = pkray.relational.query(QUERIES[name], t=table.changes)
        held: dict[int, dict[str, Any]] = {}
        with relation.stream("upsert") as stream:
            for _ in range(6):
                followed(stream, held)
                assert counted(held.values()) == counted(relation.to_arrow().to_pylist())
                table.change()
