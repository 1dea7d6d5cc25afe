import random
from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from pkray.relational import changelog, query
from pkray.relational.sources.changelog import ROW_KIND, ChangelogSource
from tests.effort import EFFORT
from tests.unit.relational.continuous.histories import Continuous, RandomHistory

KINDS = {
    "inner": "SELECT l.id, v, l.k, r.id AS rid, w FROM l JOIN r ON {on}",
    "left": "SELECT l.id, v, l.k, r.id AS rid, w FROM l LEFT JOIN r ON {on}",
    "right": "SELECT l.id, v, l.k, r.id AS rid, w FROM l RIGHT JOIN r ON {on}",
    "full": "SELECT l.id, v, l.k, r.id AS rid, w FROM l FULL JOIN r ON {on}",
    "semi": "SELECT * FROM l LEFT SEMI JOIN r ON {on}",
    "anti": "SELECT * FROM l LEFT ANTI JOIN r ON {on}",
    "mark": "SELECT l.*, EXISTS (SELECT 1 FROM r WHERE {on}) AS m FROM l",
    "filtered": "SELECT l.id, w FROM l JOIN (SELECT * FROM r WHERE w > 1) r ON {on}",
    "projected": "SELECT v, w FROM (SELECT k, id, v + 1 AS v FROM l) l LEFT JOIN r ON {on}",
}
CONDITIONS = {
    "keys": "l.id = r.id",
    "foreign key": "l.k = r.id",
    "foreign key of the right": "l.id = r.k",
    "neither key": "l.k = r.k",
    "condition": "l.k = r.id AND l.v < r.w",
}


class Rows:
    """Rows of a pushed source by columns that its keys begin with, as of an epoch."""

    def __init__(self, source: ChangelogSource) -> None:
        self.source = source
        self.before: list[dict[str, object]] = []
        self.after: list[dict[str, object]] = []
        self._taken = 0
        source.finds_by = self._finds_by  # type: ignore[method-assign]

    @property
    def begins(self) -> bool:
        return not self.before

    def _finds_by(self, columns: Sequence[str]) -> bool:
        return tuple(columns) == self.source.primary_key[: len(columns)]

    def advance(self) -> None:
        self.before = self.after
        rows = list(self.before)
        for epoch in self.source.epochs[self._taken :]:
            for row in epoch.to_pylist():
                kind = row.pop(ROW_KIND)
                rows.append(row) if kind[0] == "+" else rows.remove(row)
        self._taken = len(self.source.epochs)
        self.after = rows

    def find(
        self, keys: pa.RecordBatch, columns: Sequence[str], *, before: bool
    ) -> tuple[np.ndarray, pa.RecordBatch]:
        rows = self.before if before else self.after
        asked = keys.to_pylist()
        assert len({tuple(each.values()) for each in asked}) == len(asked)
        found = [
            (place, row)
            for place, each in enumerate(asked)
            for row in rows
            if all(row[name] == value for name, value in each.items())
        ]
        schema = pa.schema([self.source.fields.arrow.field(name) for name in columns])
        batch = pa.RecordBatch.from_pylist([row for _, row in found], schema)
        return np.array([place for place, _ in found], np.int64), batch


def row(rng: random.Random, value: str) -> dict[str, object]:
    return {
        "id": 0,
        "k": rng.choice([None, 0, 1, 2, 3, 4]),
        value: rng.choice([None, *range(4)]),
    }


def sourced(text: str, names: str, parts: int = 1) -> tuple[Continuous, dict[str, Rows]]:
    """Run a query whose sources of these names find rows by key."""
    sources = {
        name: changelog(
            {"id": "INT", "k": "INT", value: "INT"}, primary_key=["id"], mode="all", name=name
        )
        for name, value in (("l", "v"), ("r", "w"))
    }
    rows = {name: Rows(sources[name].source) for name in names}
    by_source = {id(each.source): each for each in rows.values()}
    run = Continuous(
        query(text, **sources), sources, parts=parts, rows_of=lambda each: by_source.get(id(each))
    )
    return run, rows


@pytest.mark.parametrize("on", CONDITIONS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(EFFORT))
def test_a_join_of_sources_that_find_rows_follows_them(kind: str, on: str, seed: int) -> None:
    rng = random.Random(f"{kind} {on} {seed}")
    names = rng.choice(["lr", "lr", "l", "r"])
    run, rows = sourced(KINDS[kind].format(on=CONDITIONS[on]), names, rng.choice([1, 3]))
    histories = {
        name: RandomHistory(rng, partial(row, value=value), keyed=True)
        for name, value in (("l", "v"), ("r", "w"))
    }
    for sizes in ((5, 5), (0, 3), (1, 1), (10, 10), (7, 5), (2, 20)):
        for name, size in zip("lr", sizes, strict=True):
            if size:
                run.sources[name].push(histories[name].epoch(size))
        for each in rows.values():
            each.advance()
        run.run()
        run.check()


def test_a_join_by_the_keys_of_both_sources_keeps_nothing() -> None:
    run, _ = sourced(KINDS["left"].format(on="l.id = r.id"), "lr")
    assert not run.graph.states()


def test_a_side_with_a_foreign_key_keeps_its_primary_keys_alone() -> None:
    run, _ = sourced(KINDS["inner"].format(on="l.k = r.id"), "lr")
    (state,) = run.graph.states().values()
    assert state.spec.columns.names == ["id"]
