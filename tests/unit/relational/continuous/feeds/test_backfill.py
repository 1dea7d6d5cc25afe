"""First epochs that another engine computes; here the local one, by hand."""

import sys
from types import ModuleType

import pytest

import pkray
from pkray.errors import QueryFailedError
from pkray.relational import running
from pkray.storage.spool import Feeder

TOTALS = "SELECT k, SUM(v * 2) AS total FROM db.t WHERE v > 0 GROUP BY k"


class ByHand:
    """An engine that computes when it is told to."""

    def __init__(self) -> None:
        self.attempts = 0

    def start(self, query, backfill, parts) -> "ByHand":
        self.backfill, self.parts, self.is_running = backfill, parts, True
        self.attempt, self.spool = backfill.begin()
        self.attempts += 1
        self.say("running")
        return self

    def say(self, state, message=None) -> None:
        self.is_running = state == "running"
        self.spool.say(Feeder(self.attempt, state, True, message, done=1, total=2))

    def compute(self) -> None:
        for number, plan in enumerate(self.parts.plans.values()):
            rows = running.run(plan)
            file = self.spool.write_file(number, plan.fields.arrow, rows)
            self.spool.add(number, [file] if file else [])
        self.backfill.end(self.attempt, self.parts)
        self.say("ended")

    def stop(self) -> None:
        self.say("stopped")


@pytest.fixture
def engine(monkeypatch) -> ByHand:
    made, module = ByHand(), ModuleType("pkray.spark.engine")
    module.start_backfill = made.start
    monkeypatch.setitem(sys.modules, "pkray.spark.engine", module)
    return made


@pytest.fixture
def catalog(catalog):
    columns = [("id", "INT"), ("k", "STRING"), ("v", "BIGINT")]
    table = catalog.create_table("db.t", columns, primary_keys=["id"])
    table.upsert([{"id": n, "k": f"k{n % 3}", "v": n - 2} for n in range(10)])
    return catalog


def test_the_query_waits_for_what_is_computed_and_goes_on_from_there(catalog, engine):
    query = catalog.sql(TOTALS).materialize("db.r", backfill="spark")
    assert query.status()["epoch"] == -1
    assert query.status()["backfill"]["state"] == "running"
    assert query.status()["backfill"]["tasks"] == "1 of 2"
    later = catalog.load_table("db.t").upsert([{"id": 99, "k": "k9", "v": 5}])
    engine.compute()
    query.wait({"db.t": later.id})
    assert query.verify()
    assert query.status()["epoch"] == 1


def test_an_attempt_that_is_killed_is_begun_anew(catalog, engine):
    query = catalog.sql(TOTALS).materialize("db.r", backfill="spark", trigger="available_now")
    query.stop()
    later = catalog.load_table("db.t").upsert([{"id": 99, "k": "k9", "v": 5}])
    query.resume()
    assert engine.attempts == 2
    engine.compute()
    query.wait_ended()
    assert query.status()["sources"] == {"db.t": later.id}
    assert query.verify()


def test_a_first_epoch_that_is_killed_runs_again_over_the_same_rows(catalog, engine, monkeypatch):
    from pkray.relational.continuous.run import Run

    write = Run.checkpoint
    monkeypatch.setattr(Run, "checkpoint", lambda _: None)
    query = catalog.sql(TOTALS).materialize("db.r", backfill="spark", trigger="available_now")
    engine.compute()
    query.wait_ended()
    monkeypatch.setattr(Run, "checkpoint", write)
    query.resume()
    query.wait_ended()
    assert engine.attempts == 1
    assert query.verify()
    assert len(catalog.load_table("db.r").snapshots()) == 1


def test_a_failed_attempt_fails_the_query_until_it_is_resumed(catalog, engine):
    query = catalog.sql(TOTALS).materialize("db.r", backfill="spark")
    engine.say("failed", "no executor is left")
    with pytest.raises(QueryFailedError, match="backfill failed: no executor is left"):
        query.wait({"db.t": 1})
    query.resume()
    engine.compute()
    query.wait({"db.t": 1})
    assert query.verify()


def test_an_attempt_that_comes_late_changes_nothing(catalog, engine):
    query = catalog.sql(TOTALS).materialize("db.r", backfill="spark")
    engine.compute()
    query.wait({"db.t": 1})
    engine.backfill.end("another", engine.parts)
    query.stop()
    query.resume().wait({"db.t": 1})
    assert engine.attempts == 1
    assert query.verify()


def test_several_workers_share_what_is_computed(catalog, engine):
    catalog.sql("SET 'query.parallelism' = '3'")
    query = catalog.sql(TOTALS).materialize("db.r", backfill="spark")
    engine.compute()
    later = catalog.load_table("db.t").upsert([{"id": 99, "k": "k9", "v": 5}])
    query.wait({"db.t": later.id})
    assert query.status()["workers"] == 3
    assert query.verify()


def test_parts_end_below_the_first_operator_with_state(catalog, engine):
    catalog.sql("SELECT a.id, b.v + 1 AS w FROM db.t a JOIN db.t b ON a.k = b.k").materialize(
        "db.r", backfill="spark"
    )
    assert len(engine.parts.plans) >= 1
    kinds = {type(node).__name__ for plan in engine.parts.plans.values() for node in plan.walk()}
    assert kinds <= {"Scan", "Project", "Filter"}
    engine.compute()
    query = catalog.query("db.r")
    query.wait({"db.t": 1})
    assert query.verify()


def test_the_time_is_the_epochs(catalog, engine):
    options = {"merge-engine": "first-row"}
    firsts = catalog.create_table("db.f", [("id", "INT")], primary_keys=["id"], options=options)
    firsts.upsert([{"id": 1}])
    query = catalog.sql("SELECT id, current_timestamp AS at FROM db.f").materialize(
        "db.r", backfill="spark", clock=lambda: 5000
    )
    assert {type(plan).__name__ for plan in engine.parts.plans.values()} == {"Scan"}
    engine.compute()
    query.wait({"db.f": 1})
    times = catalog.load_table("db.r").to_arrow()["at"].unique().to_pylist()
    assert [each.timestamp() for each in times] == [5.0]


def test_a_query_of_no_table_has_no_part(catalog, engine):
    rows = pkray.relational.changelog([("a", "INT")], name="rows")
    catalog.create_view("rows", rows, temporary=True)
    query = catalog.sql("SELECT a FROM rows").materialize("db.r", backfill="spark")
    rows.push([{"a": 1}])
    query.wait({"rows": 1})
    assert engine.attempts == 0
