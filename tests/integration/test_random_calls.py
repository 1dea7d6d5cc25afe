"""Random public calls with good and wrong arguments: each ends in a value or a PkrayError, and the
table keeps the rows that were committed, as a dict has them."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pkray
from pkray.errors import PkrayError
from tests.effort import examples
from tests.integration.test_wrong_arguments import GOOD, WRONG, calls, outcome, required

CALLS = 500
TABLES = {
    "plain": {},
    "lookup": {"changelog-producer": "lookup", "bucket": "2", "write-buffer-size": "256 kb"},
    "dynamic": {"bucket": "-1", "changelog-producer": "input"},
    "vectors": {"deletion-vectors.enabled": "true", "changelog-producer": "lookup"},
}
CHANGING = {
    "catalog": {"drop_table", "rename_table", "drop_database", "close"},
    "table": {"overwrite", "drop_partitions", "rollback_to", "rescale", "expire_partitions"},
    "writer": {"upsert", "delete", "write", "commit", "abort", "close"},
    "branches": {"fast_forward"},
    "alter": {"add_column", "drop_column", "rename_column", "apply", "change_type", "move_column"},
}
"""Calls that a wrong argument might, rightly taken, let change rows or columns."""
NO_ROWS = [None, 5, "x", b"x", object(), [5], [[]], [{"x": 1}], {"id": 1}, *WRONG[-2:]]


class Walk:
    """A table, a writer, and what they should hold.

    Attributes:
        committed, pending: values by key; None is a row that was deleted.
    """

    def __init__(self, catalog: pkray.Catalog, options: dict[str, str], seed: int) -> None:
        self.random = random.Random(seed)
        self.catalog = catalog
        columns = [("id", "BIGINT"), ("v", "INT")]
        self.table = catalog.create_table("db.t", columns, ["id"], options=options)
        self.writer = self.table.open_writer()
        self.committed: dict[int, int | None] = {}
        self.pending: dict[int, int | None] = {}
        self.refused = 0

    def step(self) -> None:
        """Make a call that is right, or one that is wrong."""
        right = [self.upsert, self.upsert, self.delete, self.commit, self.look_up, self.maintain]
        wrong = [self.wrong_call] * 6 + [self.wrong_rows]
        self.random.choice([*right, *wrong, self.read, self.abort, self.reopen])()

    def upsert(self) -> None:
        rows = {self.key(): self.random.randrange(1000) for _ in range(self.random.randrange(9))}
        self.writer.upsert([{"id": key, "v": value} for key, value in rows.items()])
        self.pending |= rows

    def delete(self) -> None:
        keys = {self.key() for _ in range(3)}
        self.writer.delete([{"id": key} for key in keys])
        self.pending |= dict.fromkeys(keys)

    def commit(self) -> None:
        self.writer.commit(full_compact=self.random.random() < 0.1)
        self.committed |= self.pending
        self.pending = {}

    def abort(self) -> None:
        self.writer.abort()
        self.pending = {}

    def reopen(self) -> None:
        self.writer.close()
        self.pending = {}
        self.table = self.catalog.load_table("db.t")
        self.writer = self.table.open_writer()

    def look_up(self) -> None:
        keys = sorted({self.key() for _ in range(5)})
        expected = {**self.committed, **self.pending}
        found = self.table.lookup([{"id": key} for key in keys]).to_pylist()
        assert {row["id"]: row["v"] for row in found} == live(expected, keys)

    def read(self) -> None:
        if self.table.options.get("deletion-vectors.enabled") == "true":
            self.table.compact(full=True)  # reads see what was compacted
        rows = self.table.to_arrow().to_pylist()
        assert {row["id"]: row["v"] for row in rows} == live(self.committed)
        assert len(rows) == len(live(self.committed))

    def maintain(self) -> None:
        name = f"tag-{self.random.randrange(4)}"
        table = self.table
        work: list[Callable[[], object]] = [
            table.compact,
            lambda: table.compact(full=False),
            lambda: table.expire_snapshots(2, 1, older_than=2**60),
            lambda: table.tags.create(name),
            lambda: table.tags.delete(name),
            lambda: table.changelog(),
            lambda: table.alter.comment_table(name),
            lambda: table.explain(filter="id > 3"),
            lambda: table.system("files"),
        ]
        self.may_refuse(self.random.choice(work))

    def wrong_rows(self) -> None:
        use = self.random.choice([self.writer.upsert, self.writer.write, self.writer.delete])
        with pytest.raises(PkrayError):
            use(self.random.choice(NO_ROWS))
        self.refused += 1

    def wrong_call(self) -> None:
        """A public method with one argument or two that are anything."""
        what = self.random.choice(["catalog", "table", "tags", "branches", "consumers", "alter"])
        holder = {"catalog": self.catalog, "table": self.table}.get(what)
        holder = getattr(self.table, what) if holder is None else holder
        names = [name for name in calls(holder) if name not in CHANGING.get(what, ())]
        call = getattr(holder, self.random.choice(names))
        parameters, needed = required(call, {**GOOD, "name": "db.other"})
        for name in self.random.sample(parameters, min(len(parameters), 2)):
            needed[name] = self.random.choice(WRONG)
        self.may_refuse(lambda: outcome(call, needed, refused=True))

    def may_refuse(self, use: Callable[[], object]) -> None:
        try:
            use()
        except PkrayError:
            self.refused += 1

    def key(self) -> int:
        return self.random.randrange(30)


def live(rows: dict[int, int | None], keys: Any = None) -> dict[int, int]:
    """Those that were not deleted."""
    wanted = rows if keys is None else keys
    return {key: value for key in wanted if (value := rows.get(key)) is not None}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[pkray.Catalog]:
    with pkray.connect(tmp_path, runtime_options={"owners": 1}) as opened:
        yield opened


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(examples(1)))
@pytest.mark.parametrize("kind", TABLES)
def test_random_calls_end_in_values_or_pkray_errors_and_keep_the_rows(catalog, kind, seed):
    walk = Walk(catalog, TABLES[kind], 1000 * list(TABLES).index(kind) + seed)
    for number in range(CALLS):
        try:
            walk.step()
        except Exception as error:
            raise AssertionError(
                f"call {number} of {kind}, seed {seed}: {error!r:.1000}"
            ) from error
    walk.read()
    walk.reopen()
    walk.read()
    assert walk.refused > CALLS // 10
