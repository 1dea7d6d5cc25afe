"""Random streams in event time: disorder, late rows, idle sources, equal times, crashes.

After every epoch what a query gave equals its bounded run without the rows that came late and what
still waits; epochs that run again give the same changes.
"""

import datetime
import random
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pkray.errors import EvaluationError
from pkray.relational import changelog, query
from pkray.relational.continuous.changes import Changes
from pkray.relational.continuous.log.late_rows import ADDED, kept_late, late_until
from pkray.relational.continuous.log.log import Checkpoint, EpochRecord, NoLog
from pkray.relational.continuous.operator import Epoch
from pkray.relational.continuous.queries.verification.as_of_watermarks import (
    EventTime,
    as_of_watermarks,
)
from pkray.relational.continuous.queries.verification.verify import pinned_to
from pkray.relational.continuous.run import Run, RunnablePlan, RunSettings
from pkray.relational.continuous.state.states import States
from pkray.relational.optimizer import optimize
from pkray.relational.plan.physical import to_logical, to_physical
from pkray.relational.running import run as run_bounded
from pkray.storage.opening import open_store
from tests.effort import examples
from tests.unit.relational.continuous.histories import Row, kinds_of, rows_of

EPOCHS, DELAY = 8, 4
KINDS = {"local": "TIMESTAMP(3)", "instants": "TIMESTAMP_LTZ(3)"}
SPAN = "DESCRIPTOR(at), INTERVAL '10' SECOND"
TUMBLE = f"TABLE(TUMBLE(TABLE {{}}, {SPAN}))"
BOUNDS = "window_start, window_end"
KEEP = (
    "SELECT k, v, window_end FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, "
    f"window_end, k ORDER BY {{}}) AS place FROM {TUMBLE.format('a')}) WHERE place <= {{}}"
)
JOINED = (
    f"FROM (SELECT * FROM {TUMBLE.format('a')}) l {{}} JOIN (SELECT * FROM {TUMBLE.format('b')}) r "
    "ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end"
)
NEAR = (
    "FROM a {} JOIN b ON a.k = b.k AND a.at BETWEEN b.at - INTERVAL '3' SECOND "
    "AND b.at + INTERVAL '5' SECOND"
)
EXISTS = (
    f"SELECT k, v, window_end FROM (SELECT * FROM {TUMBLE.format('a')}) l WHERE {{}} EXISTS ("
    f"SELECT 1 FROM (SELECT * FROM {TUMBLE.format('b')}) r WHERE l.k = r.k AND l.window_start = "
    "r.window_start AND l.window_end = r.window_end)"
)
BY_K, IN_ORDER = "(PARTITION BY k ORDER BY at)", "(PARTITION BY k ORDER BY at, v)"
RANGE = "RANGE BETWEEN INTERVAL '5' SECOND"
QUERIES = {
    "tumble": f"SELECT k, {BOUNDS}, COUNT(*) AS n, SUM(v) AS s, MAX(v) AS m, "
    f"COUNT(DISTINCT v) AS d FROM {TUMBLE.format('a')} GROUP BY k, {BOUNDS}",
    "offset": f"SELECT {BOUNDS}, AVG(v) AS s FROM TABLE(TUMBLE(TABLE a, {SPAN}, INTERVAL '3' "
    f"SECOND)) GROUP BY {BOUNDS}",
    "hop": f"SELECT k, {BOUNDS}, COUNT(*) AS n, MIN(v) AS m FROM TABLE(HOP(TABLE a, DESCRIPTOR(at),"
    f" INTERVAL '2' SECOND, INTERVAL '10' SECOND)) GROUP BY k, {BOUNDS}",
    "cumulate": f"SELECT {BOUNDS}, k, SUM(v) AS s FROM TABLE(CUMULATE(TABLE a, DESCRIPTOR(at), "
    f"INTERVAL '5' SECOND, INTERVAL '20' SECOND)) GROUP BY {BOUNDS}, k",
    "session": f"SELECT k, {BOUNDS}, COUNT(*) AS n FROM TABLE(SESSION(TABLE a PARTITION BY k, "
    f"DESCRIPTOR(at), INTERVAL '3' SECOND)) GROUP BY k, {BOUNDS}",
    "sets": f"SELECT {BOUNDS}, k, COUNT(*) AS n FROM {TUMBLE.format('a')} "
    f"GROUP BY {BOUNDS}, GROUPING SETS ((k), ())",
    "cascade": "SELECT window_start, window_end, SUM(n) AS n, MAX(n) AS m FROM TABLE(TUMBLE(TABLE "
    "fives, DESCRIPTOR(rt), INTERVAL '20' SECOND)) GROUP BY window_start, window_end",
    "first": KEEP.format("at, v", 1),
    "greatest": KEEP.format("v DESC, at", 2),
    "first of all": "SELECT k, at FROM (SELECT k, at, ROW_NUMBER() OVER (PARTITION BY k ORDER BY "
    "at) AS place FROM a) WHERE place = 1",
    "inner": f"SELECT l.k, l.v, r.v AS w, l.window_end {JOINED.format('INNER')}",
    "left": f"SELECT l.k, l.v, r.v AS w, l.window_end {JOINED.format('LEFT')}",
    "full": f"SELECT l.v, r.v AS w, l.window_end {JOINED.format('FULL')}",
    "semi": EXISTS.format(""),
    "anti": EXISTS.format("NOT"),
    "near": f"SELECT a.k, a.v, b.v AS w {NEAR.format('INNER')}",
    "near left": f"SELECT a.k, a.v, a.at, b.v AS w, b.at AS bt {NEAR.format('LEFT')}",
    "near full": f"SELECT a.k, a.v, a.at, b.v AS w, b.at AS bt {NEAR.format('FULL')}",
    "union": f"SELECT {BOUNDS}, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE both_, {SPAN})) "
    f"GROUP BY {BOUNDS}",
    "sums so far": f"SELECT k, v, at, SUM(v) OVER {BY_K} AS s, AVG(v) OVER {BY_K} AS a, COUNT(*) "
    f"OVER {BY_K} AS n, RANK() OVER {BY_K} AS r FROM a",
    "rows so far": f"SELECT k, v, at, ROW_NUMBER() OVER {IN_ORDER} AS n, LAG(v, 2) OVER {IN_ORDER}"
    f" AS u, AVG(v) OVER {IN_ORDER[:-1]} ROWS 2 PRECEDING) AS a FROM a",
    "near rows": f"SELECT k, v, at, SUM(v) OVER {IN_ORDER[:-1]} ROWS BETWEEN 3 PRECEDING AND 1 "
    "PRECEDING) AS s FROM a",
    "near in time": f"SELECT k, v, at, SUM(v) OVER {BY_K[:-1]} {RANGE} PRECEDING AND CURRENT ROW) "
    f"AS s, COUNT(*) OVER {BY_K[:-1]} {RANGE} PRECEDING AND INTERVAL '2' SECOND PRECEDING) AS n "
    "FROM a",
    "near either way": f"SELECT k, v, at, MAX(v) OVER {BY_K[:-1]} {RANGE} PRECEDING AND CURRENT "
    f"ROW) AS m, SUM(v) OVER {BY_K} AS s FROM a",
    "whole history": f"SELECT k, v, at, STDDEV_POP(v) OVER {BY_K} AS d, SUM(v) OVER {BY_K} AS s "
    "FROM a",
    "the row alone": f"SELECT k, v, at, SUM(v) OVER {IN_ORDER[:-1]} ROWS BETWEEN CURRENT ROW AND "
    f"CURRENT ROW) AS s FROM a",
    "newest": f"SELECT k, at, LAST_VALUE(v) OVER {IN_ORDER} AS v FROM a",
    "without partitions": "SELECT v, at, SUM(v) OVER (ORDER BY at) AS s FROM both_",
    "over windows": "SELECT k, rt, n, SUM(n) OVER (PARTITION BY k ORDER BY rt) AS s, LAG(n) OVER "
    "(PARTITION BY k ORDER BY rt) AS u FROM fives",
    "over rows of windows": "SELECT k, v, window_end, COUNT(*) OVER (PARTITION BY window_start, "
    f"window_end, k ORDER BY at, v) AS n FROM {TUMBLE.format('a')}",
    "one after another": f"SELECT s, at, COUNT(*) OVER (PARTITION BY s ORDER BY at) AS n FROM "
    f"(SELECT at, SUM(v) OVER {BY_K} AS s FROM a)",
    "numbered": f"SELECT k, at, s FROM (SELECT k, at, SUM(v) OVER {BY_K} AS s, ROW_NUMBER() OVER "
    "(PARTITION BY k ORDER BY at, v) AS n FROM a) WHERE n <= 3",
    "windows of sums": f"SELECT {BOUNDS}, SUM(s) AS s FROM TABLE(TUMBLE(TABLE sums, {SPAN})) "
    f"GROUP BY {BOUNDS}",
}
SO_FAR = ("sums so far", "rows so far", "near in time", "near either way", "over windows")
VERSIONS = (
    "SELECT a.k, a.v, a.at, r.v AS w FROM a {} JOIN rates FOR SYSTEM_TIME AS OF a.at AS r "
    "ON a.k = r.k"
)
VIEWS = {
    "rates": "SELECT k, v, at FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY at DESC) "
    "AS place FROM b) WHERE place = 1",
    "fives": f"SELECT k, window_time AS rt, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE a, "
    f"DESCRIPTOR(at), INTERVAL '5' SECOND)) GROUP BY k, {BOUNDS}, window_time",
    "both_": "SELECT * FROM a UNION ALL SELECT * FROM b",
    "sums": f"SELECT at, SUM(v) OVER {BY_K} AS s FROM a",
}
BASES = {
    "before 1970": datetime.datetime(1969, 12, 31, 23, 59, 20),
    "clocks go forward": datetime.datetime(2024, 3, 31, 0, 59, 20),
    "clocks go back": datetime.datetime(2024, 10, 27, 0, 59, 20),
}


ZONES = [
    ("before 1970", "local"),
    ("clocks go forward", "instants"),
    ("clocks go back", "instants"),
]


class Kept(NoLog):
    """Keeps epochs and the newest checkpoint in memory."""

    def __init__(self) -> None:
        self.records: list[EpochRecord] = []
        self.checkpoint: Checkpoint | None = None

    def take_over(self) -> Checkpoint | None:
        return self.checkpoint

    def begin(self, record: EpochRecord) -> EpochRecord:
        self.records.append(record)
        return record

    def epochs_from(self, number: int) -> list[EpochRecord]:
        return self.records[number:]

    def write_checkpoint(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint


class Collected:
    """Collects the changes of each epoch."""

    takes_parts = False

    def __init__(self) -> None:
        self.epochs: dict[int, list[tuple[str, Row]]] = {}

    def give(self, changes: Changes, epoch: Epoch) -> None:
        self.epochs.setdefault(epoch.number, []).extend(kinds_of(changes))

    def commit(self, epoch: Epoch, positions: Any, watermarks: Any) -> None: ...

    def close(self) -> None: ...

    def content(self) -> Counter[Row]:
        left: Counter[Row] = Counter()
        for changes in self.epochs.values():
            for kind, row in changes:
                left[row] += 1 if kind in ("+I", "+U") else -1
        return +left


class Stream:
    """A query of two streams that is checked after each epoch.

    Args:
        idle: milliseconds after which a source is idle.
    """

    def __init__(
        self, folder: Path, text: str, kind: str, idle: int = 0, mode: Any = "insert"
    ) -> None:
        columns = {"k": "INT", "v": "BIGINT", "at": kind}
        mark = ("at", f"at - INTERVAL '{DELAY}' SECOND")
        self.sources = {
            name: changelog(columns, mode=mode, watermark=mark, name=name, dialect="flink")
            for name in "ab"
        }
        named: dict[str, Any] = dict(self.sources)
        for name, view in VIEWS.items():
            named[name] = query(view, dialect="flink", **self.sources)
        plan = query(text, dialect="flink", **named).plan
        self.root = to_physical(optimize(plan), before=True)
        self.log, self.folder, self.idle, self.now = Kept(), folder, idle, 0
        self.run, self.given = self.opened()

    def opened(self) -> tuple[Run, Collected]:
        """Open a run on the newest checkpoint."""
        given = Collected()
        states = States(open_store(str(self.folder / "state")), memory=1 << 20)
        settings = RunSettings(clock=lambda: self.now, idle_timeout=self.idle)
        plan = RunnablePlan((self.root,), (True,))
        return Run(plan, [given], self.log, states, settings), given

    def push(self, name: str, rows: list[dict[str, Any]]) -> None:
        self.sources[name].push(rows)
        while self.run.step():
            pass

    def check(self, given: Collected) -> int:
        """Compare with the bounded run; give how many rows came late."""
        self.run.checkpoint()
        assert self.log.checkpoint is not None
        late = kept_late(open_store(str(self.folder / "state")), self.log.checkpoint)
        rows = {name: late_until(each, None) for name, each in late.items()}
        time = EventTime(self.run.graph.judged_by(), rows)
        timely = to_logical(as_of_watermarks([self.root], time)[0])
        plan = pinned_to(timely, self.run.positions, {})
        bounded = pa.Table.from_batches(run_bounded(plan), plan.fields.arrow)
        expected, found = Counter(rows_of(bounded)), given.content()
        assert found == expected, f"missing {expected - found}, extra {found - expected}"
        count = sum(sum(each[ADDED].to_pylist()) for each in rows.values())
        assert self.run.status()["late"] == count
        return count


def stream_of(
    rng: random.Random, base: datetime.datetime, kind: str, disorder: float = 0.3
) -> Iterator[Any]:
    """Make epochs of one of two sources: some in disorder, with equal times, or with nothing."""
    zone = datetime.UTC if "LTZ" in kind else None
    at = {"a": 0, "b": 0}
    for _ in range(EPOCHS * 2):
        name = rng.choice("aab")
        rows = []
        for _ in range(rng.choice([0, 1, 5, 20])):
            at[name] += rng.choice([0, 0, 1, 1, 2, 12 if rng.random() < 0.1 else 1])
            second = at[name] - (rng.randrange(15) if rng.random() < disorder else 0)
            time = (base + datetime.timedelta(seconds=second)).replace(tzinfo=zone)
            key = rng.choice([1, 2, None])
            rows.append({"k": key, "v": rng.randrange(9), "at": time})
        yield name, rows


def seeded(*parts: object) -> random.Random:
    return random.Random(zlib.crc32(repr(parts).encode()))


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("name", "base", "kind"),
    [
        *((name, *ZONES[number % len(ZONES)]) for number, name in enumerate(QUERIES)),
        *((name, *zone) for name in ("hop", "session") for zone in ZONES),
    ],
)
def test_what_came_in_time_and_has_passed_is_the_result(tmp_path, name, base, kind):
    rng = seeded(name, base)
    stream = Stream(tmp_path, QUERIES[name], KINDS[kind], idle=rng.choice([0, 1000]))
    late = 0
    for number, (source, rows) in enumerate(stream_of(rng, BASES[base], KINDS[kind])):
        stream.now += rng.choice([10, 300, 2000])
        stream.push(source, rows)
        if number % 4 == 3:
            late = stream.check(stream.given)
    for source in stream.sources.values():
        source.finish()
    while stream.run.step():
        pass
    assert stream.check(stream.given) >= late


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "name", ["hop", "session", "cascade", "full", "near full", "greatest", *SO_FAR]
)
def test_epochs_that_run_again_give_the_same(tmp_path, name):
    rng = seeded(name)
    stream = Stream(tmp_path, QUERIES[name], KINDS["local"], idle=1000)
    for source, rows in stream_of(rng, BASES["before 1970"], KINDS["local"]):
        stream.now += rng.choice([10, 300, 2000])
        stream.push(source, rows)
        if rng.random() < 0.2:
            stream.run.checkpoint()
        if rng.random() < 0.3:  # the process ends, and epochs since the checkpoint run again
            before, since = stream.given, stream.log.checkpoint
            stream.run.close()
            stream.idle, stream.now = rng.choice([0, 1000]), stream.now + 5000
            stream.run, stream.given = stream.opened()
            begun = since.epoch + 1 if since else 0
            for number in range(begun, len(stream.log.records)):
                assert stream.run.step()
                assert stream.given.epochs.get(number) == before.epochs.get(number)
            for number, changes in before.epochs.items():
                stream.given.epochs.setdefault(number, changes)
    stream.check(stream.given)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["tumble", "hop", "session", "cascade", "left", "near left"])
def test_rows_that_are_taken_back_late_stay_in_the_result(tmp_path, name):
    rng = seeded(name, "updates")
    stream = Stream(tmp_path, QUERIES[name], KINDS["local"], idle=1000, mode="all")
    there: dict[str, list[dict[str, Any]]] = {"a": [], "b": []}
    for number, (source, rows) in enumerate(stream_of(rng, BASES["before 1970"], KINDS["local"])):
        held = there[source]
        rng.shuffle(held)
        gone = [held.pop() for _ in range(min(len(held), rng.randrange(4)))]
        held += rows
        stream.now += rng.choice([10, 300])
        stream.push(source, _changes(gone, rows))
        if number % 4 == 3:
            stream.check(stream.given)
    stream.check(stream.given)


def _changes(gone: list[dict[str, Any]], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kinds = [("-D", gone), ("+I", rows)]
    return [{**row, "_row_kind": kind} for kind, each in kinds for row in each]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["INNER", "LEFT"])
@pytest.mark.parametrize("seed", range(examples(2)))
def test_each_row_meets_the_version_of_its_time(tmp_path, kind, seed):
    rng = seeded(kind, seed)
    stream = Stream(tmp_path, VERSIONS.format(kind), KINDS["local"])
    for source, rows in stream_of(rng, BASES["before 1970"], KINDS["local"], disorder=0.0):
        stream.push(source, rows)
        stream.check(stream.given)
    assert stream.given.epochs or kind == "INNER"


def test_the_streams_have_late_rows_and_idle_sources(tmp_path):
    late, idle = 0, False
    for name in ("tumble", "session", "inner", "near"):
        folder = tmp_path / name
        rng = seeded(name)
        stream = Stream(folder, QUERIES[name], KINDS["local"], idle=1000)
        for source, rows in stream_of(rng, BASES["before 1970"], KINDS["local"]):
            stream.now += rng.choice([10, 300, 2000])
            stream.push(source, rows)
        late += stream.check(stream.given)
        idle |= any(record.idle for record in stream.log.records)
    assert late > 10
    assert idle


def test_a_row_without_a_time_stops_the_query_and_is_named(tmp_path):
    stream = Stream(tmp_path, QUERIES["tumble"], KINDS["local"])
    with pytest.raises(EvaluationError, match="at is NULL, and watermarks follow it: the row"):
        stream.push("a", [{"k": 7, "v": 1, "at": None}])
