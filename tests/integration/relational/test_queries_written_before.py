"""Queries that a version wrote which knew them by their names alone: later ones go on with them,
and no epoch is repeated or lost.
"""

import json
import tarfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import pkray
from pkray.errors import QueryFailedError, QueryNotFoundError
from tests.integration.relational import written_queries
from tests.integration.relational import written_queries as written
from tests.integration.written_warehouse import DATA, rows

WRITTEN = "queries_without_incarnations"
CONTENT: dict[str, dict[str, Any]] = json.loads(
    (DATA / f"{WRITTEN}.json").read_text(encoding="utf-8")
)
Rows = Counter[tuple[Any, ...]]

GROUPED = written.SUMS.replace("v AS total, 1L AS n", "SUM(v) AS total, COUNT(*) AS n")
EXPECTED = {
    "result": written.TOTALS,
    "parted.result": written.JOINED,
    "chained.result": "SELECT v % 2 AS side, COUNT(*) AS n FROM {db}.orders GROUP BY v % 2",
    "chained.sides": written.SIDES,
    "pair.small": written.SMALL,
    "pair.large": written.LARGE,
    "summed.result": f"{GROUPED} GROUP BY v % 3",
    "sums_begun.result": f"{GROUPED} GROUP BY v % 3",
}
"""What results are, in SQL that DuckDB has too."""
UPGRADES = ("warming", "decided", "switched", "upgraded", "undone")
PROGRAMS = ("streamed", "followed", "called")
PLAIN = [db for db in CONTENT if db not in (*UPGRADES, *PROGRAMS, "failed")]
GAPS = ("windowed", "parted", "chained", "failed", *UPGRADES)
"""Some of their epochs change nothing, and commit nothing."""
SUMS = ("summed", "sums_begun")
"""Their table sums by itself: it does not hold the rows of the query."""


def often(names: Iterable[str], *usual: str) -> list[Any]:
    """Leave databases to slow runs whose queries differ little, in what is tested, from others."""
    return [name if name in usual else pytest.param(name, marks=pytest.mark.slow) for name in names]


class Resuming:
    """A database with one query, or a chain of them, and its sources."""

    def __init__(self, catalog: pkray.Catalog, db: str) -> None:
        self.catalog = catalog
        self.db = db
        self.writing = written_queries.Writing(catalog, db)
        self.put: Callable[[int], dict[str, int]] = {
            "windowed": lambda number: written_queries.put_clicks(self.writing, number - 1),
            "parted": lambda number: written_queries.put_visits(self.writing, number),
        }.get(db, self.writing.put)

    @property
    def queries(self) -> list[Any]:
        """Those of the database, each after those that it reads."""
        found = [each for each in self.catalog.queries() if each.name.startswith(f"{self.db}.")]
        return sorted(found, key=lambda each: each.name, reverse=True)

    @property
    def query(self) -> Any:
        (found,) = self.queries
        return found

    @property
    def results(self) -> list[Any]:
        names = [name for query in self.queries for name in query.tables]
        return [self.catalog.load_table(name) for name in names]

    @property
    def newest(self) -> dict[str, int]:
        """The newest snapshots of the sources."""
        tables = self.catalog.list_tables(self.db)
        made = {table.name for table in self.results}
        sources = [name for name in tables if name not in made]
        found: dict[str, int] = {}
        for name in sources:
            found |= self.writing.newest(name.rpartition(".")[2])
        return found

    def resume(self, **given: Any) -> None:
        for query in self.queries:
            query.resume(**given)

    def catch_up(self, at: dict[str, int] | None = None) -> None:
        """Wait until the results have what the sources hold."""
        at = at or self.newest
        for query in self.queries:
            if self.db == "ended":  # it runs up to what there is
                query.resume().wait_ended()
                assert query.status()["sources"] == at
                return
            number = query.wait(at)
            at = dict.fromkeys(query.tables, number)

    def check(self, sql: str | None = None) -> None:
        """Compare the results with what is computed of the sources' rows by other means."""
        for table in self.results:
            text = sql or EXPECTED.get(table.name) or EXPECTED["result"]
            assert content(table) == self.computed(text), table.name
        for query in self.queries:
            report = query.verify()
            assert report.equal or self.db in SUMS, str(report)

    def computed(self, text: str) -> Rows:
        if self.db == "windowed":
            return windows()[0]
        with duckdb.connect() as connection:
            for name in self.newest:
                rows = self.catalog.load_table(name).to_arrow()
                connection.register(name.rpartition(".")[2], rows)
            return Counter(connection.sql(text.replace("{db}.", "")).fetchall())

    def check_commits(self, until: int = 2**40) -> None:
        """Each epoch is committed once, and what was there is there as it was.

        Args:
            until: the snapshot of a result that was gone back to.
        """
        for table in self.results:
            before = CONTENT[self.db]["results"][table.name]
            now = written_queries.results_of(table)
            # They are old: those beyond `snapshot.num-retained.min` expire as commits come.
            stayed = [number for number in before if int(number) <= until and number in now]
            assert [now[number] for number in stayed] == [before[number] for number in stayed]
            for epochs in committed(table).values():
                assert epochs == sorted(set(epochs)), table.name
                if self.db not in GAPS:
                    assert epochs == list(range(epochs[0], epochs[0] + len(epochs))), table.name

    def go_on(self, sql: str | None = None) -> None:
        """Change the sources further, an epoch each."""
        for number in (5, 6):
            self.catch_up(self.put(number))
            self.check(sql)


def committed(table: Any) -> dict[str, list[int]]:
    """List the epochs that were committed to a result, by the commit user of the incarnation."""
    rows = {row["snapshot_id"]: row for row in table.snapshots().to_pylist()}
    found: dict[str, list[int]] = {}
    for number, epoch in written.epochs_of(table):
        if rows[number]["commit_kind"] == "APPEND" and epoch is not None:
            found.setdefault(rows[number]["commit_user"], []).append(epoch)
    return found


def content(table: Any) -> Rows:
    """Give rows; a sum over no rows is there as 0 where a table sums by itself."""
    found = table.to_arrow()
    kept = found.drop_columns([name for name in found.column_names if name == "_row_key"])
    said = Counter(tuple(row.values()) for row in kept.to_pylist())
    return Counter({row: count for row, count in said.items() if row[1:] != (0, 0)})


def windows() -> tuple[Rows, Counter[Any]]:
    """Count clicks by window, and those that come late by the end of theirs."""
    counts: Rows = Counter()
    late: Counter[Any] = Counter()
    mark = -1
    for seconds in written_queries.CLICKS:
        for second in seconds:
            end = second // 10 * 10 + 10
            if end <= mark:
                late[written_queries.click(end)["at"]] += 1
            else:
                counts[second % 3 % 2, end - 10, end] += 1
        mark = max(mark, *(second - 2 for second in seconds))
    closed = {group: count for group, count in counts.items() if group[2] <= mark}
    at = {second: written_queries.click(second)["at"] for second in range(0, 100, 10)}
    found = [(side, at[start], at[end], n) for (side, start, end), n in closed.items()]
    return Counter(found), late


def unpack(db: str, folder: Path) -> Path:
    wanted = (f"warehouse/{db}.db/", f"warehouse/.queries/{db}.")
    with tarfile.open(DATA / f"{WRITTEN}.tar.xz") as archive:
        members = [each for each in archive.getmembers() if each.name.startswith(wanted)]
        archive.extractall(folder, members, filter="data")
    return folder / "warehouse"


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[[str], Resuming]]:
    opened: list[pkray.Catalog] = []

    def unpacked(db: str) -> Resuming:
        opened.append(pkray.connect(unpack(db, tmp_path)))
        return Resuming(opened[0], db)

    yield unpacked
    for catalog in opened:
        for query in catalog.queries():
            query.drop()
        catalog.close()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("db", CONTENT)
def test_it_is_read_as_it_was(tmp_path, db):
    with pkray.connect(unpack(db, tmp_path)) as catalog:
        found = written.content_of(catalog, db)
    assert found == {name: each for name, each in CONTENT[db].items() if name != "given"}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("db", PLAIN)
def test_it_goes_on_where_it_was(begin, db):
    before = begin(db)
    before.resume()
    before.catch_up()
    if db != "windowed":
        before.check()
    before.go_on() if db != "windowed" else _click_on(before)
    before.check_commits()
    assert all(query.status()["failure"] is None for query in before.queries)


def _click_on(before: Resuming) -> None:
    for number in (5, 6):
        before.catch_up(before.put(number))
    before.check()
    late = before.catalog.load_table("windowed.result$late").to_arrow()["window_end"]
    assert Counter(late.to_pylist()) == windows()[1]


@pytest.mark.parametrize("db", often(("killed", "sums_begun", "shared", "pair"), "sums_begun"))
def test_it_is_begun_by_its_statement_too(begin, db):
    before = begin(db)
    pair = (
        f"EXECUTE STATEMENT SET BEGIN INSERT INTO {{db}}.small {written.SMALL};"
        f" INSERT INTO {{db}}.large {written.LARGE}; END"
    )
    if db == "pair":
        before.writing.sql(pair).start("pair.pair")
    elif db == "sums_begun":
        before.writing.sql(f"INSERT INTO {{db}}.result {written.SUMS}").start("sums_begun.sums")
    else:
        before.writing.sql(written.TOTALS).materialize(f"{db}.result")
    before.catch_up()
    before.check()
    before.go_on()
    before.check_commits()


@pytest.mark.parametrize("db", often(("begun", "sums_begun", "pair", "windowed"), "sums_begun"))
def test_it_is_stopped_and_resumed_time_and_again(begin, db):
    before = begin(db)
    for _ in range(2):
        before.resume()
        before.catch_up()
        for query in before.queries:
            query.stop()
    before.resume()
    before.go_on() if db != "windowed" else _click_on(before)
    before.check_commits()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("names", "until"), [(("one",), 2), (("two",), 3), (("two", "one", "one"), 2)]
)
def test_its_savepoints_are_gone_back_to(begin, names, until):
    before = begin("saved")
    for name in names:
        before.query.resume(savepoint=name)
        before.catch_up()
        before.check()
    before.go_on()
    before.check_commits(until)


def test_workers_that_were_three_become_two(begin):
    before = begin("shared")
    before.query.rescale(2)
    before.resume()
    before.catch_up()
    before.check()
    before.go_on()
    before.check_commits()
    assert before.query.status()["workers"] == 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize("end", ["accept", "rollback"])
@pytest.mark.parametrize("db", often(UPGRADES[:-1], "warming", "decided", "upgraded"))
def test_an_upgrade_that_was_begun_is_ended(begin, db, end):
    before = begin(db)
    before.resume()
    before.query.upgrade(written.UPGRADED.format(db=db))
    before.catch_up()
    before.check(written.UPGRADED)
    assert before.query.status()["upgrade"]["state"] == "unaccepted"
    getattr(before.query, end)()
    assert "upgrade" not in before.query.status()
    before.go_on(written.UPGRADED if end == "accept" else written.TOTALS)
    before.check_commits()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("db", often(UPGRADES, "warming", "decided", "undone"))
def test_an_upgrade_that_was_begun_is_rolled_back_before_the_query_goes_on(begin, db):
    before = begin(db)
    before.query.rollback()
    assert "upgrade" not in before.query.status()
    before.resume()
    before.catch_up()
    before.check(written.TOTALS)
    before.go_on(written.TOTALS)
    before.check_commits()


def test_an_upgrade_that_was_rolled_back_is_undone_as_the_query_goes_on(begin):
    before = begin("undone")
    before.resume()
    before.catch_up()
    before.check(written.TOTALS)
    assert "upgrade" not in before.query.status()
    before.go_on(written.TOTALS)
    before.check_commits()


def test_an_upgrade_is_accepted_before_the_query_goes_on(begin):
    before = begin("upgraded")
    before.query.accept()
    before.resume()
    before.catch_up()
    before.go_on(written.UPGRADED)
    before.check_commits()


@pytest.mark.parametrize("db", ["streamed", "followed"])
def test_a_stream_goes_on_after_its_checkpoint(begin, db):
    before = begin(db)
    given: list[Any] = []
    with before.writing.sql(written.CHANGES_OF).stream(name=f"{db}.stream") as stream:
        _take(stream, given)
        for number in (5, 6):
            before.put(number)
            _take(stream, given)
    _check_given(before, given)


def _take(stream: Any, given: list[Any]) -> None:
    while (batch := stream.poll()) is not None:
        given.append([batch["_epoch"][0].as_py(), rows(batch.drop_columns(["_epoch"]))])


def test_a_function_is_called_for_what_comes_after_its_checkpoint(begin):
    before = begin("called")
    given: list[Any] = []

    def called(batch: Any, epoch: int) -> None:
        given.append([epoch, rows(batch.drop_columns(["_epoch"]))])

    query = before.writing.sql(written.CHANGES_OF).foreach_batch(called, name="called.calls")
    query.wait(before.newest)
    for number in (5, 6):
        query.wait(before.put(number))
    query.stop()
    _check_given(before, given)


def _check_given(before: Resuming, given: list[Any]) -> None:
    """What is given again is the same, no epoch is left out, and all of it makes the result."""
    said = CONTENT[before.db]
    (query,) = said["queries"].values()
    assert [epoch for epoch, _ in given] == [
        query["epoch"] + 1 + place for place in range(len(given))
    ]
    epochs = dict(said["given"])
    for epoch, batch in given:
        assert epochs.setdefault(epoch, batch) == batch
    held: Rows = Counter()
    for epoch in sorted(epochs):
        for kind, *row in epochs[epoch]:
            held[tuple(row)] += 1 if kind in ("+I", "+U") else -1
    assert {row: n for row, n in held.items() if n} == before.computed(written.CHANGES_OF)


def test_a_failure_is_what_it_was(begin):
    before = begin("failed")
    status = before.query.status()
    assert status["state"] == "failed"
    assert "k = 2, v = 0" in status["failure"]
    before.resume()
    with pytest.raises(QueryFailedError, match="k = 2, v = 0"):
        before.query.wait({"failed.orders": 2**40})
    before.check_commits()


def test_a_query_that_failed_goes_on_under_a_plan_that_can_be_computed(begin):
    before = begin("failed")
    divided = written.DIVIDED.replace("12 / v", "try_divide(12, v)").format(db="failed")
    before.query.upgrade(divided)
    before.resume()
    for number in (5, 6):
        before.catch_up(before.put(number))
        expected = before.computed(written.DIVIDED.replace("12 / v", "12 / nullif(v, 0)"))
        assert content(before.results[0]) == expected
    assert before.query.verify().equal
    before.check_commits()


@pytest.mark.parametrize(
    "db", often(CONTENT, "killed", "saved", "decided", "upgraded", "pair", "streamed", "chained")
)
def test_it_is_dropped(begin, db):
    before = begin(db)
    names = [query.name for query in before.queries]
    results = {table.name: content(table) for table in before.results}
    sources = list(before.newest)
    for name in reversed(names):  # nobody reads the result of the last one
        before.catalog.query(name).drop()
        with pytest.raises(QueryNotFoundError):
            before.catalog.query(name)
    for name, rows_before in results.items():
        table = before.catalog.load_table(name)
        assert content(table) == rows_before or db in ("decided", "undone")
        assert not [tag for tag in _tags(table) if tag.startswith("upgrade-")]
    for name in sources:
        assert not before.catalog.load_table(name).consumers.list().num_rows
        before.catalog.drop_table(name)


def _tags(table: Any) -> list[str]:
    found: list[str] = table.tags.list()["tag_name"].to_pylist()
    return found
