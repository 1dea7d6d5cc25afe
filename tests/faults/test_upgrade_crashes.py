"""The process that upgrades a query is killed at each operation on its storage, and it goes on."""

import contextlib
from collections import Counter
from typing import Any

import pytest

import pkray
from pkray.errors import QueryExistsError, UpgradeError
from pkray.relational.continuous.feeds.told_snapshots import ToldSnapshots
from tests.effort import stride
from tests.faults.changed_orders import changed_orders, verify_snapshots
from tests.faults.conftest import Check, Sweep

OLDER = (
    "SELECT v % 2 AS side, COUNT(*) AS n, SUM(v) AS total FROM shop.orders"
    " WHERE v < 9 GROUP BY v % 2"
)
NEWER = {
    "kept": OLDER + " HAVING COUNT(*) > 1",
    "warmed": OLDER.replace("v < 9", "v < 5").replace("SUM(v)", "MAX(v)"),
    "grown": OLDER.replace("AS total", "AS total, MAX(v) AS most"),
    "shrunk": OLDER.replace("COUNT(*) AS n, ", ""),
    "expiring": OLDER.replace("SELECT", "SELECT /*+ STATE_TTL('orders' = '1 d') */"),
}


class Job:
    """Fills the source, upgrades the query in the middle and goes on; safe to do again.

    Args:
        runs: whether the query runs as it is upgraded.
        goes_back: whether the upgrade is rolled back in the end, and not accepted.
    """

    def __init__(self, newer: str, *, runs: bool, goes_back: bool) -> None:
        self.texts = (newer, OLDER)
        self.runs = runs
        self.goes_back = goes_back

    def __call__(self, catalog: pkray.Catalog) -> None:
        done = [name for name in ("done", "back") if catalog.table_exists(f"shop.{name}")]
        for number in changed_orders(catalog):
            query = self.follow(catalog)
            if number == 1 and "done" not in done:
                query.upgrade(self.texts[0])
                self.mark(catalog, "done")
            if number == 2 and "back" not in done:
                self.end(query)
                self.mark(catalog, "back")
                self.follow(catalog)
        query.stop()

    def follow(self, catalog: pkray.Catalog) -> Any:
        """Let the query go on under the plan that it has, up to what there is."""
        trigger = "changes" if self.runs else "available_now"
        for text in (OLDER, self.texts[0], OLDER):  # a plan may take over as it is asked for
            with contextlib.suppress(QueryExistsError):
                query = catalog.sql(text).materialize("shop.result", trigger=trigger)
                break
        if self.runs:
            orders = catalog.load_table("shop.orders")
            told = ToldSnapshots(orders).newest(orders.at().snapshot)
            query.wait({"shop.orders": told}, timeout=20)
        else:
            query.wait_ended()
        return query

    def end(self, query: Any) -> None:
        with contextlib.suppress(UpgradeError):  # it has ended
            if self.goes_back:
                query.rollback()
            else:
                query.accept()

    def mark(self, catalog: pkray.Catalog, name: str) -> None:
        catalog.create_table(f"shop.{name}", [("k", "INT")], ["k"], if_not_exists=True)


def content(table: Any) -> Counter[tuple[tuple[str, Any], ...]]:
    """Give rows without columns that are NULL."""
    kept = [n for n in table.column_names if n != "_row_key"]
    return Counter(
        tuple(sorted((name, value) for name, value in row.items() if value is not None))
        for row in table.select(kept).to_pylist()
    )


@pytest.mark.parametrize(
    ("name", "runs", "goes_back", "every"),
    [
        ("kept", False, False, stride(200)),
        ("grown", True, True, stride(300)),
        *(
            pytest.param(name, runs, goes_back, 2, marks=pytest.mark.slow)
            for name in NEWER
            for runs, goes_back in ((False, True), (True, False))
        ),
    ],
)
def test_an_upgrade_is_whole_or_not_there_at_every_crash_point(
    name: str, runs: bool, goes_back: bool, every: int, sweep: Sweep
) -> None:
    upgrade = Job(NEWER[name], runs=runs, goes_back=goes_back)

    def job(catalog: pkray.Catalog) -> Check:
        upgrade(catalog)
        expected = content(catalog.sql(upgrade.texts[goes_back]).to_arrow())
        assert content(catalog.load_table("shop.result").to_arrow()) == expected
        allowed = _contents(catalog, upgrade)

        def check(catalog: pkray.Catalog) -> None:
            if catalog.table_exists("shop.result"):
                assert content(catalog.load_table("shop.result").to_arrow()) in allowed
            upgrade(catalog)
            _check(catalog, expected)

        return check

    sweep(f"upgrade {name}", every, job)


def _contents(catalog: pkray.Catalog, job: Job) -> list[Counter[tuple[tuple[str, Any], ...]]]:
    """List what either plan gives over each snapshot of the source."""
    found: list[Counter[tuple[tuple[str, Any], ...]]] = [Counter()]
    for snapshot in catalog.load_table("shop.orders").system("snapshots")["snapshot_id"]:
        for text in job.texts:
            found.append(content(catalog.sql(text).to_arrow(snapshot=snapshot.as_py())))
    return found


def _check(catalog: pkray.Catalog, expected: Counter[tuple[tuple[str, Any], ...]]) -> None:
    result = catalog.load_table("shop.result")
    assert content(result.to_arrow()) == expected
    query = verify_snapshots(catalog)
    assert not result.tags.list().num_rows
    readers = catalog.load_table("shop.orders").consumers.list()["consumer_id"].to_pylist()
    assert readers == [f"query-shop.result@{query.status()['incarnation']}"]
