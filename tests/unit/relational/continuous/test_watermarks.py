"""Event time at operators, idle sources, and sources that wait for slower ones."""

import datetime
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from pkray.errors import OptionError, UnsupportedError
from pkray.options import TableOptions
from pkray.relational import changelog, query
from pkray.relational.continuous.feeds.pace import Pace, SourceTimes
from pkray.relational.continuous.log.log import Checkpoint, EpochRecord, NoLog
from pkray.relational.continuous.run import Run, RunnablePlan, RunSettings
from pkray.relational.continuous.state.states import States
from pkray.relational.continuous.watermarks import next_watermarks
from pkray.relational.optimizer import optimize
from pkray.relational.plan.physical import to_physical


@dataclass
class Stage:
    number: int
    inputs: tuple[int, ...]
    watermark: int | None = None
    own_watermark: int | None = None
    tells_time: bool = False


def telling(number: int, scan: int, watermark: int | None) -> Stage:
    return Stage(number, (scan,), own_watermark=watermark, tells_time=True)


def joined(left: int | None, right: int | None, before: int | None = None, **idle: Any) -> Any:
    stages = [telling(3, 1, left), telling(4, 2, right), Stage(5, (3, 4), before)]
    return next_watermarks([1, 2], stages, **idle)[5]


def test_the_slowest_input_counts() -> None:
    assert joined(10, 7) == 7


def test_an_input_that_has_not_begun_holds_time_back() -> None:
    assert joined(10, None) is None
    assert joined(10, None, 4) == 4


def test_an_input_without_a_watermark_does_not_count() -> None:
    stages = [telling(3, 1, 10), Stage(4, (3, 2))]
    assert next_watermarks([1, 2], stages)[4] == 10


def test_idle_inputs_do_not_count() -> None:
    assert joined(10, 7, 7, idle=[2]) == 10
    assert joined(10, None, idle=[2]) == 10


def test_time_stays_where_all_inputs_are_idle() -> None:
    assert joined(10, 7, 7, idle=[1, 2]) == 7


def test_time_does_not_go_back_when_an_idle_input_comes_again() -> None:
    assert joined(10, 8, 10) == 10


def test_what_is_idle_below_is_idle_above() -> None:
    stages = [
        telling(4, 1, 5),
        telling(5, 2, 9),
        telling(6, 3, 20),
        Stage(7, (4, 5)),
        Stage(8, (7, 6)),
    ]
    found = next_watermarks([1, 2, 3], stages, idle=[1, 2])
    assert (found[7], found[8]) == (None, 20)


def test_a_source_is_idle_when_no_rows_came_for_so_long() -> None:
    times = SourceTimes({"a": Pace(), "b": Pace(idle_timeout=50), "c": Pace(idle_timeout=0)}, 10, 0)
    assert times.idle(9) == set()
    assert times.idle(10) == {"a"}
    times.note(["a"], 45)
    assert times.idle(54) == {"b"}


def test_a_source_waits_for_the_slowest_of_its_group() -> None:
    pace = Pace(group="g", max_drift=5)
    times = SourceTimes({"a": pace, "b": pace, "c": Pace(group="h", max_drift=5)}, 0, 0)
    assert times.held({"a": 10, "b": 16, "c": 99}, [], 0) == {"b"}
    assert times.held({"a": 10, "b": 15, "c": 99}, [], 2000) == set()


def test_sources_that_are_idle_or_ended_are_not_waited_for() -> None:
    pace = Pace(group="g", max_drift=5)
    times = SourceTimes({"a": pace, "b": pace}, 0, 0)
    assert times.held({"a": 10, "b": 16}, ["a"], 0) == set()


def test_the_slowest_is_looked_at_once_an_interval() -> None:
    pace = Pace(group="g", max_drift=5, update_interval=100)
    times = SourceTimes({"a": pace, "b": pace}, 0, 0)
    assert times.held({"a": 10, "b": 16}, [], 0) == {"b"}
    assert times.held({"a": 16, "b": 16}, [], 99) == {"a", "b"}
    assert times.held({"a": 16, "b": 16}, [], 100) == set()


def test_a_group_needs_a_bound() -> None:
    options = TableOptions.parse({"scan.watermark.alignment.group": "g"})
    with pytest.raises(OptionError, match=r"needs scan\.watermark\.alignment\.max-drift"):
        Pace.from_options(options)


def test_records_of_earlier_versions_are_read() -> None:
    old = b'{"number":3,"bounds":{"t":[1,2]},"time":5}'
    assert msgspec.json.decode(old, type=EpochRecord).idle == ()
    old = b'{"epoch":3,"positions":{},"watermarks":{"2":7},"digest":"","files":{}}'
    assert msgspec.json.decode(old, type=Checkpoint).late == {}


class Remembered(NoLog):
    """Keeps what is written down."""

    def __init__(self, pending: list[EpochRecord] | None = None) -> None:
        self.records: list[EpochRecord] = []
        self.pending = pending or []

    def begin(self, record: EpochRecord) -> EpochRecord:
        self.records.append(record)
        return record

    def epochs_from(self, number: int) -> list[EpochRecord]:
        return list(self.pending)


class Two:
    """A query of two sources, each with event time in seconds of 1970, and a clock."""

    TEXT = (
        "SELECT l.k FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(at), INTERVAL '10' SECOND)) l "
        "JOIN b ON l.k = b.k"
    )

    def __init__(self, log: Remembered, idle_timeout: int = 0) -> None:
        columns = {"k": "INT", "at": "TIMESTAMP(3)"}
        self.a = changelog(columns, watermark="at", name="a", dialect="flink")
        self.b = changelog(columns, watermark="at", name="b", dialect="flink")
        self.now = 0
        self.log = log
        plan = query(self.TEXT, dialect="flink", a=self.a, b=self.b).plan
        root = to_physical(optimize(plan), before=True)
        settings = RunSettings(clock=lambda: self.now, idle_timeout=idle_timeout)
        self.open = lambda: Run(
            RunnablePlan((root,), (True,)), [Nowhere()], log, States(), settings
        )
        self.run = self.open()

    def push(self, name: str, second: int) -> None:
        at = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=second)
        getattr(self, name).push([{"k": 1, "at": at}])
        assert self.run.step()

    @property
    def reached(self) -> int | None:
        """Seconds that the join's inputs have passed."""
        mark = self.run.graph.stages[-1].watermark
        return None if mark is None else mark // 1_000_000


class Nowhere:
    takes_parts = True

    def give(self, changes: Any, epoch: Any) -> None: ...

    def commit(self, epoch: Any, positions: Any, watermarks: Any) -> None: ...

    def close(self) -> None: ...


def test_an_epoch_comes_where_an_idle_source_lets_time_go_on() -> None:
    two = Two(Remembered(), idle_timeout=1000)
    two.run.step()
    two.push("a", 5)
    two.push("b", 2)
    assert two.reached == 2
    two.now = 900
    two.push("a", 20)
    assert not two.run.step()
    two.now = 1000
    assert two.run.step()
    assert two.log.records[-1].idle == ("b",)
    assert (two.reached, two.run.status()["idle"]) == (20, ["b"])
    assert not two.run.step()


def test_epochs_run_again_find_the_same_sources_idle() -> None:
    log = Remembered()
    two = Two(log, idle_timeout=1000)
    two.run.step()
    two.push("a", 5)
    two.now = 1500
    two.push("b", 3)
    again = Two(Remembered(log.records), idle_timeout=0)
    again.a.source.epochs, again.a.source.stamps = two.a.source.epochs, two.a.source.stamps
    again.b.source.epochs, again.b.source.stamps = two.b.source.epochs, two.b.source.stamps
    reached = []
    for _ in log.records:
        again.run.step()
        reached.append(again.reached)
    assert (reached[-1], [each.idle for each in log.records]) == (3, [(), (), ("a",)])


def test_the_status_tells_watermarks_of_sources() -> None:
    two = Two(Remembered())
    two.run.step()
    two.push("a", 5)
    assert two.run.status()["watermarks"] == {"a": 5000, "b": None}


def test_a_source_that_has_ended_holds_time_back_no_more() -> None:
    two = Two(Remembered())
    two.run.step()
    two.push("a", 5)
    two.push("b", 2)
    two.b.finish()
    assert two.run.step()
    assert two.reached == 5


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a.k FROM a JOIN b ON a.k = b.k AND a.at < LOCALTIMESTAMP",
        "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k AND a.at < LOCALTIMESTAMP",
    ],
)
def test_what_changes_with_the_clock_is_refused_in_joins(text: str) -> None:
    columns = {"k": "INT", "at": "TIMESTAMP(3)"}
    a, b = (changelog(columns, name=name, dialect="flink") for name in "ab")
    with pytest.raises(UnsupportedError, match="make it a column of one side first"):
        query(text, dialect="flink", a=a, b=b).stream()


def test_a_watermark_that_follows_the_clock_is_refused() -> None:
    mark = ("at", "LEAST(at, LOCALTIMESTAMP)")
    a = changelog({"k": "INT", "at": "TIMESTAMP(3)"}, watermark=mark, name="a", dialect="flink")
    text = "SELECT * FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(at), INTERVAL '10' SECOND))"
    with pytest.raises(UnsupportedError, match="follows the rows alone"):
        query(text, dialect="flink", a=a).stream()


def test_the_time_of_an_epoch_is_one_for_all_its_rows() -> None:
    a = changelog({"k": "INT"}, name="a", dialect="flink")
    text = "SELECT PROCTIME() AS p, CURRENT_TIMESTAMP AS c, NOW() AS n FROM a"
    with query(text, dialect="flink", a=a).stream(clock=lambda: 5000) as stream:
        a.push([{"k": 1}, {"k": 2}])
        times = {value for row in stream.poll().to_pylist() for value in list(row.values())[2:]}
    assert times == {datetime.datetime(1970, 1, 1, 0, 0, 5, tzinfo=datetime.UTC)}
