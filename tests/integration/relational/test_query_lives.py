"""The life of a query: dropped, begun anew, restored from copies, sent back, woken up."""

import json
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import pkray
from pkray import errors
from pkray.relational.continuous.outlets.table_outlet import TableOutlet
from pkray.relational.continuous.queries.definitions.query_store import QueryStore
from pkray.relational.continuous.queries.incarnations.begun import free_others
from pkray.relational.continuous.queries.wanted import resume_wanted
from tests.integration.relational.changed_rows import Rows, change, rows_of
from tests.waiting import wait_until

TOTALS = "SELECT v % 2 AS side, COUNT(*) AS n, SUM(v) AS total FROM t GROUP BY v % 2"
LARGE = "SELECT v % 2 AS side, COUNT(*) AS n, SUM(v) AS total FROM t WHERE v > 1 GROUP BY v % 2"
PLAIN = "SELECT k, v FROM t WHERE v > 0"


class Shop:
    """A warehouse with a source, ``default.t``."""

    def __init__(self, folder: Path, **options: str) -> None:
        self.folder = folder
        self.opened: list[pkray.Catalog] = []
        self.catalog = self.open()
        given = {"changelog-producer": "lookup", **options}
        self.source = self.catalog.create_table(
            "default.t", [("k", "INT"), ("v", "INT")], ["k"], options=given
        )

    def open(self) -> pkray.Catalog:
        """Open the warehouse as another process would."""
        self.opened.append(pkray.connect(self.folder))
        return self.opened[-1]

    def put(self, rows: dict[int, int], *deleted: int) -> int:
        return change(self.catalog.load_table("default.t"), rows, *deleted)

    def begin(self, text: str = TOTALS, **how: Any) -> Any:
        return self.catalog.sql(text).materialize("default.r", **how)

    def catch_up(self, query: Any) -> None:
        query.wait({"default.t": self.catalog.load_table("default.t").latest_snapshot().id})

    def begun(self, rows: dict[int, int], text: str = TOTALS, **how: Any) -> Any:
        """Begin the query over some rows, and have it read them."""
        self.put(rows)
        query = self.begin(text, **how)
        self.catch_up(query)
        return query

    def follow(self, query: Any, rows: dict[int, int], *deleted: int) -> None:
        """Change rows, and have the query read that."""
        self.put(rows, *deleted)
        self.catch_up(query)

    def content(self, name: str = "default.r", **at: Any) -> Rows:
        return rows_of(self.catalog.load_table(name).at(**at).to_arrow())

    def expected(self, text: str = TOTALS) -> Rows:
        return rows_of(self.catalog.sql(text).to_arrow())

    def check(self, query: Any, text: str = TOTALS, name: str = "default.r") -> None:
        """Compare the result with what the sources hold, and with what verify says."""
        self.catch_up(query)
        assert self.content(name) == self.expected(text)
        report = query.verify()
        assert report.equal, str(report)

    @property
    def query_folder(self) -> Path:
        """Where all queries of the name are."""
        return self.folder / ".queries" / "default.r"

    @property
    def life_folder(self) -> Path:
        """Where the files of the one beginning of the query are that is there."""
        (found,) = (self.query_folder / "lives").iterdir()
        return found


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Shop]]:
    made: list[Shop] = []

    def make_shop(**options: str) -> Shop:
        made.append(Shop(tmp_path / "warehouse", **options))
        return made[-1]

    yield make_shop
    for shop in made:
        for catalog in shop.opened:
            catalog.close()


@pytest.fixture
def shop(make: Callable[..., Shop]) -> Shop:
    return make()


# Begun anew


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", [TOTALS, LARGE], ids=["same plan", "another plan"])
@pytest.mark.parametrize("workers", ["1", "3"])
def test_a_query_that_is_begun_anew_replaces_the_rows_of_the_one_before(shop, text, workers):
    shop.catalog.sql(f"SET 'query.parallelism' = '{workers}'")
    query = shop.begun({1: 1, 2: 2, 3: 3})
    shop.follow(query, {4: 1}, 2)
    before, last = shop.content(), shop.catalog.load_table("default.r").latest_snapshot().id
    query.drop()
    shop.put({1: 7, 6: 8})
    query = shop.begin(text)
    shop.check(query, text)
    newest = shop.catalog.load_table("default.r").latest_snapshot().id
    for number in range(last, newest + 1):  # nobody sees an empty or a mixed result
        assert shop.content(snapshot_id=number) in (before, shop.expected(text))
    shop.put({1: 5}, 6)
    shop.check(query, text)


def test_a_query_over_no_rows_empties_what_the_one_before_left(shop):
    query = shop.begun({1: 1})
    query.drop()
    query = shop.begin(
        "SELECT v % 2 AS side, COUNT(*) AS n, SUM(v) AS total FROM t WHERE k > 99 GROUP BY v % 2"
    )
    shop.catch_up(query)
    assert shop.content() == Counter()


def test_a_statement_set_that_is_begun_anew_replaces_its_own_rows(shop):
    for name in ("small", "large"):
        shop.catalog.create_table(f"default.{name}", [("k", "INT"), ("v", "INT")], ["k"])
    texts = {"small": "SELECT k, v FROM t WHERE v < 2", "large": "SELECT k, v FROM t WHERE v >= 2"}
    inserts = "".join(f"INSERT INTO {name} {text}; " for name, text in texts.items())
    statement = f"EXECUTE STATEMENT SET BEGIN {inserts}END"
    shop.put({1: 1, 2: 2, 3: 3})
    query = shop.catalog.sql(statement).start("both")
    shop.catch_up(query)
    query.drop()
    shop.put({1: 9, 3: 1}, 2)
    query = shop.catalog.sql(statement).start("both")
    for name, text in texts.items():
        shop.check(query, text, f"default.{name}")


@pytest.mark.parametrize("engine", ["aggregation", "partial-update"])
def test_a_table_that_merges_rows_is_begun_anew_too(shop, engine):
    options = {"merge-engine": engine}
    if engine == "aggregation":
        options["fields.v.aggregate-function"] = "sum"
    shop.catalog.create_table("default.r", [("k", "INT"), ("v", "INT")], ["k"], options=options)
    statement = "INSERT INTO r SELECT k % 2 AS k, v FROM t"
    shop.put({1: 1, 3: 3})
    query = shop.catalog.sql(statement).start("sums")
    shop.catch_up(query)
    query.drop()
    shop.put({2: 5})
    query = shop.catalog.sql(statement).start("sums")
    shop.catch_up(query)
    found = shop.content()
    assert found[(0, 5)] == 1
    assert engine != "aggregation" or found == Counter([(0, 5), (1, 4)])


def test_rows_of_a_user_are_never_deleted_but_by_replace(shop):
    query = shop.begun({1: 1}, PLAIN)
    shop.catalog.load_table("default.r").upsert([{"k": 99, "v": 99}], commit_user="alice")
    query.drop()
    with pytest.raises(errors.SharedResultError, match="alice") as caught:
        shop.begin(PLAIN)
    assert caught.value.writers == ("alice",)
    assert shop.content() == Counter([(1, 1), (99, 99)])
    assert shop.catalog.queries() == []
    shop.check(shop.begin(PLAIN, replace=True), PLAIN)


def test_an_insert_adds_to_the_rows_of_others(shop):
    table = shop.catalog.create_table("default.r", [("k", "INT"), ("v", "INT")], ["k"])
    table.upsert([{"k": 99, "v": 99}])
    shop.put({1: 1})
    shop.catch_up(shop.catalog.sql(f"INSERT INTO r {PLAIN}").start("one"))
    assert shop.content() == Counter([(1, 1), (99, 99)])


def test_an_insert_into_a_table_that_others_write_too_is_not_begun_anew(shop):
    shop.catalog.create_table("default.r", [("k", "INT"), ("v", "INT")], ["k"])
    shop.put({1: 1, 2: 2})
    texts = {
        name: f"INSERT INTO r SELECT k + {add} AS k, v FROM t"
        for name, add in (("one", 0), ("two", 10))
    }
    queries = {name: shop.catalog.sql(text).start(name) for name, text in texts.items()}
    for query in queries.values():
        shop.catch_up(query)
    queries["two"].drop()
    shop.put({}, 2)
    with pytest.raises(errors.SharedResultError, match="query one"):
        shop.catalog.sql(texts["two"]).start("two")
    shop.catch_up(queries["one"])
    assert shop.content() == Counter([(1, 1), (11, 1), (12, 2)])


def test_a_query_that_goes_on_is_begun_anew_by_replace(shop):
    query = shop.begun({1: 1, 2: 2})
    first = query.status()["incarnation"]
    anew = shop.begin(LARGE, replace=True)
    shop.check(anew, LARGE)
    assert anew.status()["incarnation"] != first
    with pytest.raises(errors.QueryFencedError, match="another begun under its name"):
        query.status()


def test_a_handle_of_a_dropped_query_says_so(shop):
    query = shop.begun({1: 1})
    query.drop()
    assert repr(query) == "Query('default.r', dropped)"
    with pytest.raises(errors.QueryNotFoundError):
        query.status()


def test_what_wrote_to_a_result_is_known_when_its_first_snapshots_have_expired(shop):
    query = shop.begin(PLAIN)
    for number in range(1, 6):
        shop.follow(query, {number: number})
    query.drop()
    shop.catalog.load_table("default.r").expire_snapshots(retain_max=1)
    shop.put({}, 1)
    shop.check(shop.begin(PLAIN), PLAIN)


# Restored from copies


@pytest.fixture
def restored(shop: Shop, tmp_path: Path) -> Shop:
    """A query that has gone on since its folder was copied to ``copy``."""
    query = shop.begun({1: 1, 2: 2})
    query.savepoint("start")
    query.stop()
    shutil.copytree(shop.query_folder, tmp_path / "copy")
    for number in range(4):
        query.resume()
        shop.follow(query, {number + 3: number})
        query.stop()  # with a checkpoint, so that what came before goes
    shop.put({9: 9})
    return shop


def restore(shop: Shop, copy: Path | None, *names: str) -> None:
    for place in [shop.life_folder / name for name in names] or [shop.query_folder]:
        shutil.rmtree(place)
        if copy is not None:
            shutil.copytree(copy / place.relative_to(shop.query_folder), place)


RESTORED = {
    "the whole folder": ((), True),
    "its checkpoints": (("checkpoints",), True),
    "checkpoints and epochs": (("checkpoints", "epochs"), True),
    "no checkpoints": (("checkpoints",), False),
    "no state": (("state",), False),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("what", RESTORED)
def test_a_query_whose_files_are_older_than_its_result_does_not_go_on(restored, tmp_path, what):
    names, from_copy = RESTORED[what]
    restore(restored, tmp_path / "copy" if from_copy else None, *names)
    before = restored.content()
    catalog = restored.open()
    with pytest.raises(errors.PkrayError) as caught:
        query = catalog.query("default.r")
        query.resume()
        restored.catch_up(query)
    assert not isinstance(caught.value, errors.ServiceUnavailableError), caught.value
    assert restored.content() == before
    assert what == "no state" or not isinstance(caught.value, errors.QueryFailedError)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("what", ["the whole folder", "its checkpoints", "no checkpoints"])
@pytest.mark.parametrize("way", ["a savepoint", "anew"])
def test_a_query_whose_files_are_older_than_its_result_has_ways_on(restored, tmp_path, what, way):
    names, from_copy = RESTORED[what]
    restore(restored, tmp_path / "copy" if from_copy else None, *names)
    with pytest.raises(errors.QueryDivergedError, match=r"resume\(savepoint=…\)") as caught:
        restored.catalog.query("default.r").resume()
    assert "older than its result" in str(caught.value) or "missing" in str(caught.value)
    with pytest.raises(errors.QueryDivergedError):
        restored.catalog.query("default.r").verify()
    if way == "anew":
        query = restored.begin(replace=True)
    else:
        query = restored.catalog.query("default.r").resume(savepoint="start")
    restored.check(query)


def test_a_copy_of_an_earlier_incarnation_does_not_go_on(shop, tmp_path):
    query = shop.begun({1: 1})
    query.stop()
    shutil.copytree(shop.query_folder, tmp_path / "copy")
    query.drop()
    query = shop.begin()
    shop.follow(query, {2: 2})
    query.stop()
    restore(shop, tmp_path / "copy")
    with pytest.raises(errors.QueryDivergedError, match="incarnation"):
        shop.open().query("default.r").resume()


def test_a_folder_that_is_gone_is_begun_anew(shop):
    query = shop.begun({1: 1, 2: 2})
    query.stop()
    shutil.rmtree(shop.query_folder)
    shop.put({3: 3}, 1)
    shop.check(shop.begin())


def test_a_query_says_that_its_wish_is_gone(shop):
    query = shop.begun({1: 1})
    next(shop.life_folder.glob("wanted-*.json")).unlink()
    with pytest.raises(errors.QueryFailedError, match=r"wanted-[0-9a-f]*\.json.* is gone"):
        query.wait({"default.t": 99}, timeout=120)
    assert query.status()["state"] == "failed"
    shop.put({2: 2})
    shop.check(query.resume())


def test_a_damaged_wish_is_told(shop):
    query = shop.begun({1: 1})
    wish = next(shop.life_folder.glob("wanted-*.json"))
    assert "pkray.crc32" in json.loads(wish.read_text())
    wish.write_text(wish.read_text().replace("true", "false"))
    with pytest.raises(errors.QueryFailedError, match=r"wanted-[0-9a-f]*\.json is damaged"):
        query.wait({"default.t": 99}, timeout=120)


# Woken up


class Sleeper:
    """Stops the thread of a query as it commits, as a machine that is paused."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._commit = TableOutlet.commit
        self._asleep, self._woken = threading.Event(), threading.Event()
        self._sleeps = False
        monkeypatch.setattr(TableOutlet, "commit", lambda *given: self._slept(*given))

    def fall_asleep(self) -> None:
        """Have the next commit sleep."""
        self._sleeps = True

    def await_sleep(self) -> None:
        assert self._asleep.wait(120)

    def wake(self) -> None:
        self._woken.set()

    def _slept(self, *given: Any) -> None:
        if self._sleeps:
            self._sleeps = False
            self._asleep.set()
            assert self._woken.wait(120)
        self._commit(*given)


@pytest.mark.parametrize("meanwhile", ["sent back", "begun anew", "resumed", "dropped"])
def test_a_run_that_wakes_up_changes_nothing(shop, monkeypatch, meanwhile):
    failures: list[dict[str, Any]] = []
    sleeper = Sleeper(monkeypatch)
    query = shop.begun({1: 1, 2: 2}, on_failure=failures.append)
    query.savepoint("start")
    query.resume(on_failure=failures.append)
    shop.follow(query, {3: 3})
    sleeper.fall_asleep()
    shop.put({4: 4, 5: 5})
    sleeper.await_sleep()
    catalog = shop.open()
    monkeypatch.setattr("pkray.relational.continuous.queries.watched.SILENT_MILLIS", 0)
    other = catalog.query("default.r")
    if meanwhile == "sent back":
        other.resume(savepoint="start")
    elif meanwhile == "resumed":
        other.resume()
    else:
        other.drop()
        if meanwhile == "begun anew":
            other = catalog.sql(LARGE).materialize("default.r")
    if meanwhile != "dropped":
        shop.catch_up(other)
    if meanwhile == "resumed":  # it finds that the epoch is committed, and begins the next one
        sleeper.wake()
        shop.put({7: 7})
        shop.catch_up(other)
    before = shop.content()
    sleeper.wake()
    worker = _worker_of(query)
    worker._thread.join(30)
    assert worker.status()["state"] == "fenced"
    assert failures == []
    assert list(shop.query_folder.rglob("failure.json")) == []
    assert shop.content() == before
    if meanwhile != "dropped":
        shop.put({6: 6}, 1)
        shop.check(other, LARGE if meanwhile == "begun anew" else TOTALS)


def _worker_of(query: Any) -> Any:
    return query._watched.running.here(query._watched.stored)


# Savepoints


def test_a_reader_of_the_result_follows_it_back(shop):
    query = shop.begun({1: 1, 2: 2}, PLAIN)
    reader = shop.catalog.sql("SELECT COUNT(*) AS n, SUM(v) AS s FROM r GROUP BY k % 1")
    reader = reader.materialize("default.s")
    query.savepoint("start")
    for number in (7, 8):
        shop.follow(query, {number: number})
    reader.wait({"default.r": shop.catalog.load_table("default.r").latest_snapshot().id})
    shop.put({}, 8)
    query.resume(savepoint="start")
    shop.check(query, PLAIN)
    reader.wait({"default.r": shop.catalog.load_table("default.r").latest_snapshot().id})
    assert shop.content("default.s") == Counter([(3, 10)])
    assert reader.verify().equal


def test_a_savepoint_keeps_what_its_sources_hold(shop):
    query = shop.begun({1: 1, 2: 2})
    query.savepoint("start")
    for number in range(3, 9):
        shop.follow(query, {number: number}, number - 2)
    query.stop()
    report = shop.source.expire_snapshots(retain_max=1)
    assert any("start" in name for name in report.held_by)
    shop.check(query.resume(savepoint="start"))
    query.delete_savepoint("start")
    assert query.savepoints() == []
    shop.source.expire_snapshots(retain_max=1)
    query.stop()
    assert not any("start" in n for n in shop.source.expire_snapshots(retain_max=1).held_by)


def test_nothing_is_changed_before_a_savepoint_is_known_to_be_whole(shop):
    query = shop.begun({1: 1})
    query.savepoint("start")
    shop.follow(query, {2: 2})
    result = shop.catalog.load_table("default.r")
    (tag,) = result.tags.list()["tag_name"].to_pylist()
    result.tags.delete(tag)
    with pytest.raises(errors.TagNotFoundError):
        query.resume(savepoint="start")
    assert query.status()["state"] == "running"
    shop.put({3: 3})
    shop.check(query)


def test_a_savepoint_whose_sources_have_expired_is_not_gone_back_to(shop):
    query = shop.begun({1: 1})
    query.savepoint("start")
    for number in range(2, 8):
        shop.follow(query, {number: number})
    held = [n for n in shop.source.consumers.list()["consumer_id"].to_pylist() if "savepoint" in n]
    shop.source.consumers.delete(held[0])
    query.stop()
    query.resume()
    query.stop()
    shop.source.expire_snapshots(retain_max=1)
    with pytest.raises(errors.SnapshotNotFoundError, match="expired"):
        query.resume(savepoint="start")
    shop.put({9: 9})
    shop.check(query.resume())


def test_a_savepoint_is_not_gone_back_to_over_rows_of_others(shop):
    query = shop.begun({1: 1}, PLAIN)
    query.savepoint("start")
    shop.catalog.load_table("default.r").upsert([{"k": 99, "v": 99}], commit_user="alice")
    with pytest.raises(errors.SharedResultError, match="alice"):
        query.resume(savepoint="start")
    assert shop.content() == Counter([(1, 1), (99, 99)])


def test_a_dropped_query_leaves_no_tag_and_no_consumer(shop):
    query = shop.begun({1: 1})
    query.savepoint("one")
    query.resume(savepoint="one")
    shop.follow(query, {2: 2})
    query.savepoint("two")
    query.drop()
    assert shop.source.consumers.list().num_rows == 0
    assert shop.catalog.load_table("default.r").tags.list().num_rows == 0
    assert list((shop.query_folder / "lives").iterdir()) == []
    left = [each.name for each in shop.query_folder.rglob("*") if each.stat().st_size > 7]
    assert [name for name in left if "." in name or "-" in name] == ["query.json"]


def test_a_query_that_is_held_drops_no_later_beginning_and_its_name_drops_what_is_there(shop):
    shop.put({1: 1})
    old = shop.begin()
    shop.catch_up(old)
    shop.open().query("default.r").drop()
    new = shop.begin()
    with pytest.raises(errors.QueryFencedError, match="another begun under its name"):
        old.drop()
    shop.check(new)
    shop.open().query("default.r").drop()
    with pytest.raises(errors.QueryNotFoundError):
        new.status()


def test_a_beginning_that_slept_leaves_what_the_next_one_holds(shop):
    shop.put({1: 1})
    old = shop.begin()
    shop.catch_up(old)
    definition, store = old._watched.stored.definition, QueryStore(shop.catalog.store)
    new = shop.begin(replace=True)
    shop.catch_up(new)
    held = shop.source.consumers.list()["consumer_id"].to_pylist()
    assert held == [f"query-default.r@{new.status()['incarnation']}"]
    with pytest.raises(errors.QueryFencedError):
        free_others(definition, [shop.source], partial(store.check_current, definition))
    assert shop.source.consumers.list()["consumer_id"].to_pylist() == held


def test_savepoints_of_a_dropped_query_are_not_those_of_the_next(shop):
    query = shop.begun({1: 1})
    query.savepoint("start")
    query.drop()
    query = shop.begin()
    with pytest.raises(errors.QueryNotFoundError, match="start"):
        query.resume(savepoint="start")


# Sources


def test_an_empty_source_is_held_from_before_it_is_read(make):
    shop = make(**{"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
    query = shop.begin()
    wait_until(lambda: query.status()["epoch"] >= 0)
    query.stop()
    for number in range(1, 6):
        shop.put({number: number})
    shop.check(query.resume())


def _made_anew(shop: Shop) -> None:
    shop.catalog.drop_table("default.t", force=True)
    shop.catalog.create_table(
        "default.t", [("k", "INT"), ("v", "INT")], ["k"], options={"changelog-producer": "lookup"}
    )
    for number in range(1, 6):
        shop.put({number: number * 10})


def _rolled_back(shop: Shop) -> None:
    shop.catalog.load_table("default.t").rollback_to(snapshot_id=2, force=True)


def _rolled_back_and_written(shop: Shop) -> None:
    _rolled_back(shop)
    for number in range(1, 6):
        shop.put({number: number * 10})


@pytest.mark.sampled(3)
@pytest.mark.parametrize("change", [_made_anew, _rolled_back, _rolled_back_and_written])
@pytest.mark.parametrize("runs", [True, False], ids=["running", "stopped"])
def test_a_source_that_is_another_is_an_error_each_time(shop, change, runs):
    shop.put({1: 1})
    query = shop.begin()
    shop.put({2: 2})
    shop.follow(query, {3: 3})
    if not runs:
        query.stop()
    before = shop.content()
    change(shop)
    for _ in range(3):
        with pytest.raises(errors.PkrayError) as caught:
            if not runs:
                shop.open().query("default.r").resume().wait({"default.t": 99}, timeout=120)
            query.wait({"default.t": 99}, timeout=120)
        assert not isinstance(caught.value, errors.ServiceUnavailableError), caught.value
        runs = False
    assert shop.content() == before
    shop.catalog.load_table("default.t")
    shop.check(shop.begin(replace=True))


def _left_untold(make: Callable[..., Shop], producer: str = "lookup") -> tuple[Shop, int]:
    """Go back between rows in two buckets and the compaction that tells of them."""
    shop = make(**{"bucket": "2", "changelog-producer": producer})
    shop.put({1: 1})
    shop.source.compact()
    both = {number: number for number in range(2, 12)}
    told = shop.put(both)
    untold = shop.source.at(snapshot_id=told - (producer == "lookup")).snapshot
    assert untold is not None
    assert untold.commit_kind == "APPEND"
    shop.source.rollback_to(untold.id, force=True)
    return shop, untold.id


def test_the_next_commit_tells_of_what_a_rollback_left_untold_in_other_buckets(make):
    shop, untold = _left_untold(make)
    query = shop.begin(PLAIN)
    with pytest.raises(errors.ServiceUnavailableError):
        query.wait({"default.t": untold}, timeout=0.1)
    shop.put({1: 5})
    shop.check(query, PLAIN)


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_a_query_says_what_is_to_be_compacted_before_it_goes_on(make, producer):
    shop, untold = _left_untold(make, producer)
    query, full = shop.begin(PLAIN), producer == "full-compaction"
    wait_until(lambda: query.status().get("untold"))
    assert query.status()["untold"] == {"default.t": {"snapshot": untold, "full": full}}
    with pytest.raises(errors.ServiceUnavailableError, match=rf"compact\(full={full}\)$"):
        query.wait({"default.t": untold}, timeout=0.1)
    shop.source.compact(full=full)
    shop.check(query, PLAIN)
    assert query.status()["untold"] == {}


def test_a_column_that_was_dropped_and_added_again_is_another(shop):
    query = shop.begun({1: 1, 2: 2}, PLAIN)
    query.stop()
    shop.source.alter.drop_column("v")
    shop.source.alter.add_column("v", "INT")
    shop.put({3: 3})
    for _ in range(2):
        with pytest.raises(errors.SchemaChangedError, match="dropped, and another one added"):
            shop.open().query("default.r").resume()
    shop.check(shop.begin(PLAIN, replace=True), PLAIN)


# What verify and wait say


def test_a_result_is_compared_where_the_query_is(shop):
    query = shop.begun({1: 1}, PLAIN)
    number = shop.put({2: -1})  # changes nothing of the result
    shop.catch_up(query)
    report = query.verify()
    assert report.equal
    assert report.sources == {"default.t": number}


def test_a_result_that_lost_a_row_is_not_equal_though_older_sources_had_none(shop, monkeypatch):
    query = shop.begun({1: 1}, PLAIN)
    monkeypatch.setattr(TableOutlet, "give", lambda *_: None)
    shop.follow(query, {2: 2})
    report = query.verify()
    assert (report.missing_rows, report.extra_rows) == (1, 0)


def test_sources_that_have_expired_are_named_with_what_can_be_compared(shop):
    query = shop.begin(PLAIN)
    for number in range(1, 5):
        shop.follow(query, {number: number})
    query.stop()
    shop.source.expire_snapshots(retain_max=1)
    newest = shop.catalog.load_table("default.r").latest_snapshot().id
    with pytest.raises(errors.SnapshotNotFoundError, match="whose sources are all there") as caught:
        query.verify(snapshot=newest - 2)
    assert caught.value.comparable == (newest,)


def test_waiting_for_a_query_that_does_not_run_ends_at_once(shop):
    query = shop.begun({1: 1})
    query.stop()
    began = time.monotonic()
    with pytest.raises(errors.ServiceUnavailableError, match="stopped"):
        query.wait({"default.t": 99}, timeout=250)
    assert time.monotonic() - began < 120


def test_waiting_for_a_query_that_failed_elsewhere_says_why(shop):
    query = shop.begin("SELECT k, 12 / v AS w FROM t")
    shop.put({1: 0})
    with pytest.raises(errors.QueryFailedError):
        query.wait({"default.t": 1})
    shop.opened[0].close()
    with pytest.raises(errors.QueryFailedError, match="zero"):
        shop.open().query("default.r").wait({"default.t": 1})


def test_a_query_comes_back_beside_one_whose_definition_is_damaged(shop):
    shop.begun({1: 1})
    shop.catalog.sql(PLAIN).materialize("default.other")
    shop.catalog.close()
    (definition,) = shop.folder.glob(".queries/default.other/definitions/*")
    definition.write_bytes(b"")
    again = shop.open()
    resumed = resume_wanted(again)
    assert resumed["default.r"] is None
    assert isinstance(resumed["default.other"], errors.PkrayError)
    newest = change(again.load_table("default.t"), {2: 2})
    again.query("default.r").wait({"default.t": newest})
