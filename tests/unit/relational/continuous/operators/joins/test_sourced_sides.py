import random
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import pkray
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
    "itself": "SELECT l.id, l.v, r.v AS w FROM l LEFT JOIN (SELECT *, v AS w FROM l) r ON {on}",
    "twice": "SELECT l.id, a.w, r.w AS b FROM l LEFT JOIN r ON {on} JOIN r a ON a.id = l.k",
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
    return {"id": 0, "k": rng.choice([None, 0, 1, 2, 3, 4]), value: rng.choice([None, *range(4)])}


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


@pytest.mark.sampled(10)
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


def test_a_hint_keeps_the_rows_of_a_side() -> None:
    text = "SELECT /*+ STATEFUL('r' = 'true') */ l.id, w FROM l JOIN r ON l.id = r.id"
    run, _ = sourced(text, "lr")
    (state,) = run.graph.states().values()
    assert state.spec.index == 1


def test_an_explanation_says_which_table_has_the_rows_of_a_side() -> None:
    run, _ = sourced(KINDS["inner"].format(on="l.k = r.id"), "lr")
    text = str(run.relation.explain())
    assert "leftState: two-sided by (k, id), grows with primary keys of l, which has" in text
    assert "rightState: source by (id), grows with nothing: r has the rows" in text
    assert "rightState grows" not in text


def test_a_side_that_may_expire_is_kept() -> None:
    text = "SELECT /*+ STATE_TTL('l' = '1 d', 'r' = '1 d') */ l.id, w FROM l JOIN r ON l.id = r.id"
    run, _ = sourced(text, "lr")
    assert len(run.graph.states()) == 2
    assert "has the rows" not in str(run.relation.explain())


def test_a_join_reads_the_rows_of_tables(tmp_path: Path) -> None:
    with pkray.connect(tmp_path) as catalog:
        for name, value in (("l", "v"), ("r", "w")):
            catalog.sql(
                f"CREATE TABLE {name} (id BIGINT, {value} BIGINT) TBLPROPERTIES ("
                "'primary-key' = 'id', 'changelog-producer' = 'lookup', 'bucket' = '1')"
            )
        relation = catalog.sql("SELECT l.id, v, w FROM l LEFT JOIN r ON l.id = r.id")
        content: Counter[tuple[int | None, ...]] = Counter()
        with relation.stream() as stream:
            for left, right in (([0, 1, 2, 3], [0, 1]), ([1, 2], [2, 4]), ([4], [0, 5])):
                for name, value, ids in (("l", "v", left), ("r", "w", right)):
                    with catalog.load_table(f"default.{name}").open_writer() as writer:
                        made = [len(content) * 10 + each for each in ids]
                        writer.write(pa.table({"id": ids, value: made}))
                        writer.commit()
                while (batch := stream.poll()) is not None:
                    for each in batch.to_pylist():
                        sign = 1 if each["_row_kind"][0] == "+" else -1
                        content[each["id"], each["v"], each["w"]] += sign
                bounded = relation.to_arrow(engine="local").to_pylist()
                assert +content == Counter(tuple(row.values()) for row in bounded)
