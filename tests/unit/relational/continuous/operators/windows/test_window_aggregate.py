import datetime as dt
import random
from collections.abc import Iterator
from typing import Any

import pytest

from pkray.errors import EvaluationError
from pkray.relational import changelog, query
from pkray.relational.continuous.operators.stateless import Watermarks
from pkray.relational.continuous.operators.windows import slice_aggregate
from pkray.relational.plan.nodes import Aggregate, Window, WindowKind
from pkray.relational.plan.physical import to_logical
from pkray.relational.plan.slicing import without_slices
from tests.effort import examples
from tests.unit.relational.continuous.histories import Continuous, kinds_of

COLUMNS = {"ts": "TIMESTAMP(3)", "k": "STRING", "v": "INT", "f": "DOUBLE"}
BEFORE_1970 = dt.datetime(1969, 12, 31, 23, 59, 0)
DELAY = "ts - INTERVAL '5' SECOND"
ROWS = {
    "tumble": "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)",
    "tumble with an offset": "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND, "
    "INTERVAL '3' SECOND)",
    "hop": "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '4' SECOND, INTERVAL '12' SECOND)",
    "hop that leaves gaps": "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '7' SECOND, "
    "INTERVAL '3' SECOND)",
    "hop of no whole steps": "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '4' SECOND, "
    "INTERVAL '10' SECOND)",
    "cumulate": "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '3' SECOND, INTERVAL '12' SECOND)",
    "session": "SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '2' SECOND)",
    "session of all": "SESSION(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND)",
}
AGGREGATES = {
    "sums": "COUNT(*) AS a, SUM(v) AS b, AVG(f) AS c, COUNT(v) FILTER (WHERE v > 2) AS d",
    "extremes": "MIN(v) AS a, MAX(k) AS b, MAX(ts) AS c, MIN(f) AS d",
    "distinct": "COUNT(DISTINCT v) AS a, SUM(DISTINCT v) AS b, MAX(v) AS c, STDDEV_POP(v) AS d",
}
KEYS = {
    "bounds": "window_start, window_end",
    "bounds and a key": "window_start, window_end, k",
    "time and a key": "k, window_time, window_end, window_start",
    "sets": "window_start, window_end, GROUPING SETS ((k), (), (k, v))",
}


def stream(rng: random.Random, span: float, begin: dt.datetime = BEFORE_1970) -> Iterator[Any]:
    """Give epochs of rows whose times are behind the newest by up to `span` seconds."""
    now = begin
    for _ in range(6):
        rows = []
        for _ in range(rng.randrange(40)):
            now += dt.timedelta(milliseconds=rng.choice([0, 0, 100, 400, 900]))
            behind = dt.timedelta(milliseconds=rng.randrange(int(1000 * span)) // 100 * 100)
            rows.append(
                {
                    "ts": now - behind,
                    "k": rng.choice([None, "a", "b", "c"]),
                    "v": rng.choice([None, *range(-2, 6)]),
                    "f": rng.choice([None, 0.5, -2.25, 8.0, float("nan")]),
                }
            )
        yield rows


def opened(sql: str, mode: str = "insert", **options: Any) -> Continuous:
    source = changelog(COLUMNS, mode=mode, watermark=("ts", DELAY))
    return Continuous(query(sql, t=source), {"t": source}, **options)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", range(examples(1)))
@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("aggregates", AGGREGATES)
def test_windows_equal_the_bounded_run_without_late_rows(
    aggregates: str, kind: str, seed: int
) -> None:
    rng = random.Random(f"{kind} {aggregates} {seed}")
    keys = rng.choice(list(KEYS.values()))
    sql = f"SELECT {AGGREGATES[aggregates]}, window_start, window_end FROM TABLE({ROWS[kind]}) "
    query = opened(f"{sql} GROUP BY {keys}", parts=rng.choice([1, 3]), memory=1 << 12)
    for rows in stream(rng, span=rng.choice([4, 15])):
        query.push("t", rows)
    query.finish()
    query.check_without_late()
    assert not query.kept_rows()


@pytest.mark.parametrize("kind", ["hop", "hop of no whole steps", "cumulate"])
def test_windows_of_slices_are_told_apart_by_none_of_the_slices_bounds(kind: str) -> None:
    sql = f"SELECT COUNT(*) AS a, {KEYS['time and a key']} FROM TABLE({ROWS[kind]}) "
    query = opened(f"{sql} GROUP BY {KEYS['time and a key']}")
    for rows in stream(random.Random(kind), span=4):
        query.push("t", rows)
    query.finish()
    query.check_without_late()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(examples(1)))
@pytest.mark.parametrize("kind", ROWS)
def test_rows_of_open_windows_can_be_retracted(kind: str, seed: int) -> None:
    rng = random.Random(f"{kind} {seed}")
    aggregates = rng.choice(list(AGGREGATES.values()))
    sql = f"SELECT {aggregates}, window_end FROM TABLE({ROWS[kind]}) "
    query = opened(
        f"{sql} GROUP BY window_start, window_end", "all", parts=rng.choice([1, 3]), memory=1 << 12
    )
    held: list[dict[str, Any]] = []
    newest = BEFORE_1970
    for rows in stream(rng, span=4):
        newest = max([newest, *(row["ts"] for row in rows)])
        is_open = [row for row in held if row["ts"] > newest - dt.timedelta(seconds=5)]
        taken = rng.sample(is_open, len(is_open) // 3)
        changes = [{**row, "_row_kind": "-D"} for row in taken]
        changes += [{**row, "_row_kind": "+I"} for row in rows]
        dropped = rows[: len(rows) // 4]
        changes += [{**row, "_row_kind": "-D"} for row in dropped]
        held = [row for row in held if row not in taken] + rows[len(rows) // 4 :]
        query.push("t", changes)
    query.finish()
    query.check_without_late()
    assert not query.kept_rows()


def at(second: float) -> dt.datetime:
    return BEFORE_1970 + dt.timedelta(seconds=second)


def row(second: float, key: str = "a", value: int = 1) -> dict[str, Any]:
    return {"ts": at(second), "k": key, "v": value, "f": None}


def test_a_window_fires_when_the_watermark_is_at_its_last_millisecond() -> None:
    query = opened(
        f"SELECT k, window_end, SUM(v) AS s FROM TABLE({ROWS['tumble']}) "
        "GROUP BY k, window_start, window_end"
    )
    assert not len(query.push("t", [row(3), row(4, "b"), row(9.999)]))
    assert not len(query.push("t", [row(14.998)]))
    fired = query.push("t", [row(14.999)])
    assert kinds_of(fired) == [("+I", ("a", at(10), 2)), ("+I", ("b", at(10), 1))]


def test_a_row_that_is_late_for_one_window_counts_in_the_next() -> None:
    query = opened(
        f"SELECT window_start, SUM(v) AS s FROM TABLE({ROWS['hop']}) "
        "GROUP BY window_start, window_end"
    )
    query.push("t", [row(1), row(17)])
    query.push("t", [row(6, value=10)])
    query.finish()
    totals = dict(iter(query.content))
    assert totals == {at(-8): 1, at(-4): 1, at(0): 1, at(4): 10, at(8): 1, at(12): 1, at(16): 1}
    (name,) = query.late
    assert sorted(query.late_of(name)) == [(at(-4), at(8), 10), (at(0), at(12), 10)]


def test_late_rows_are_kept_with_the_window_that_they_missed() -> None:
    query = opened(
        f"SELECT window_start, window_end, SUM(v) AS s FROM TABLE({ROWS['tumble']}) "
        "GROUP BY window_start, window_end"
    )
    query.push("t", [row(3), row(20)])
    query.push("t", [row(7, value=70), row(16)])
    (name,) = query.late
    assert query.late_of(name) == [(at(0), at(10), 70)]


def test_a_window_of_a_windows_time_is_aggregated_in_the_same_epoch() -> None:
    inner = (
        f"SELECT k, window_time AS ts, COUNT(*) AS n FROM TABLE({ROWS['tumble']}) "
        "GROUP BY k, window_start, window_end, window_time"
    )
    query = opened(
        f"WITH w AS ({inner}) SELECT window_end, SUM(n) AS s, COUNT(*) AS c FROM "
        "TABLE(TUMBLE(TABLE w, DESCRIPTOR(ts), INTERVAL '20' SECOND)) "
        "GROUP BY window_start, window_end"
    )
    query.push("t", [row(1), row(2, "b"), row(3), row(12)])
    assert not len(query.push("t", [row(15)]))
    assert kinds_of(query.push("t", [row(25)])) == [("+I", (at(20), 5, 3))]


def test_bounds_are_known_under_other_names_and_through_filters() -> None:
    query = opened(
        f"SELECT b, e, COUNT(*) AS n FROM (SELECT window_start AS b, window_end AS e, v FROM "
        f"TABLE({ROWS['tumble']}) WHERE v > 0) GROUP BY b, e"
    )
    query.push("t", [row(1), row(2, value=0), row(3, value=4)])
    assert kinds_of(query.push("t", [row(15)])) == [("+I", (at(0), at(10), 2))]


def test_bounds_that_a_grouping_set_leaves_out_are_no_window() -> None:
    query = opened(
        f"SELECT window_end, k, COUNT(*) AS n FROM TABLE({ROWS['tumble']}) "
        "GROUP BY GROUPING SETS ((window_start, window_end, k), (k))"
    )
    query.push("t", [row(1), row(2, "b")])
    query.push("t", [row(11)])
    query.finish()
    query.check()


def test_late_retractions_are_swallowed() -> None:
    query = opened(
        f"SELECT window_start, SUM(v) AS s FROM TABLE({ROWS['tumble']}) "
        "GROUP BY window_start, window_end",
        "all",
    )
    query.push("t", [row(3), row(20)])
    query.push("t", [{**row(3), "_row_kind": "-D"}, {**row(21, value=5), "_row_kind": "+I"}])
    query.finish()
    assert query.content == {(at(0), 1): 1, (at(20), 6): 1}


def test_the_same_epochs_give_the_same_changes_in_the_same_order() -> None:
    def ran() -> list[Any]:
        rng = random.Random(7)
        query = opened(
            f"SELECT k, window_start, SUM(v) AS s, AVG(f) AS a FROM TABLE({ROWS['hop']}) "
            "GROUP BY window_start, window_end, k"
        )
        return [kinds_of(query.push("t", rows)) for rows in stream(rng, span=15)]

    assert ran() == ran()


def aggregated(sql: str, mode: str = "insert") -> Aggregate:
    (found,) = (each for each in opened(sql, mode).plan.walk() if isinstance(each, Aggregate))
    return found


@pytest.mark.parametrize("kind", ["hop", "hop of no whole steps", "cumulate"])
def test_overlapping_windows_are_aggregated_over_slices(kind: str) -> None:
    sql = f"SELECT window_end, SUM(v), MAX(v) FROM TABLE({ROWS[kind]}) GROUP BY "
    node = aggregated(f"{sql} window_start, window_end")
    (window,) = (each for each in node.walk() if isinstance(each, Window))
    assert node.slices is not None
    assert (window.kind, node.slices.size % window.size) == (WindowKind.TUMBLE, 0)
    assert to_logical(without_slices(node)) == to_logical(node)


@pytest.mark.parametrize(
    ("values", "where", "mode"),
    [
        ("COUNT(DISTINCT v)", "", "insert"),
        ("MAX(v)", "", "all"),
        ("MAX(k)", "", "insert"),
        ("COUNT(*)", "WHERE window_end > TIMESTAMP '1969-12-31 23:59:10'", "insert"),
        ("MAX(window_end)", "", "insert"),
    ],
)
def test_what_slices_cannot_give_is_aggregated_by_windows(
    values: str, where: str, mode: str
) -> None:
    sql = f"SELECT {values} FROM TABLE({ROWS['hop']}) {where} GROUP BY window_start, window_end"
    assert aggregated(sql, mode).slices is None


@pytest.mark.parametrize("kind", ["hop", "cumulate"])
@pytest.mark.parametrize("waste", [0, 10**9])
def test_windows_of_slices_are_the_same_row_by_row_and_by_arrays(
    kind: str, waste: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slice_aggregate, "WASTE", waste)
    monkeypatch.setattr(slice_aggregate, "MOST_CELLS", 32)
    sql = f"SELECT {AGGREGATES['sums']}, MIN(f) AS e, k, window_end FROM TABLE({ROWS[kind]}) "
    query = opened(f"{sql} GROUP BY k, window_start, window_end")
    for rows in stream(random.Random(3), span=15):
        query.push("t", rows)
    query.finish()
    query.check_without_late()


def test_sums_of_slices_that_do_not_fit_fail() -> None:
    source = changelog({"ts": "TIMESTAMP(3)", "v": "BIGINT"}, mode="insert", watermark=("ts", "ts"))
    sql = f"SELECT SUM(v) AS s FROM TABLE({ROWS['hop']}) GROUP BY window_start, window_end"
    continuous = Continuous(query(sql, t=source), {"t": source})
    rows = [{"ts": at(second), "v": 2**62} for second in (1, 5)]
    with pytest.raises(EvaluationError, match="9223372036854775808, which BIGINT cannot hold"):
        continuous.push("t", [*rows, {"ts": at(30), "v": 1}])


def test_windows_of_local_time_go_on_over_a_change_of_the_clocks() -> None:
    source = changelog(
        {"ts": "TIMESTAMP_LTZ(3)", "k": "STRING"}, mode="insert", watermark=("ts", "ts")
    )
    relation = query(
        "SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), "
        "INTERVAL '1' HOUR)) GROUP BY window_start, window_end",
        t=source,
    )
    continuous = Continuous(relation, {"t": source})
    begin = dt.datetime(2024, 3, 31, 0, 0, tzinfo=dt.UTC)  # at 01:00 UTC summer time begins
    for minute in range(0, 240, 20):
        continuous.push("t", [{"ts": begin + dt.timedelta(minutes=minute), "k": "a"}])
    continuous.finish()
    continuous.check()


@pytest.mark.parametrize("kind", ["tumble", "hop"])
def test_groups_are_noted_before_there_is_a_watermark(kind: str) -> None:
    query = opened(
        f"SELECT window_end, COUNT(*) AS n FROM TABLE({ROWS[kind]}) "
        "GROUP BY window_start, window_end"
    )
    sources = [stage for stage in query.graph.stages if isinstance(stage.operator, Watermarks)]
    sources[0].operator.apply = lambda inputs, epoch: inputs[0]  # type: ignore[method-assign]
    query.push("t", [row(1), row(2)])
    assert [name for name in query.kept_rows() if name.endswith("windows")]


def test_a_row_at_the_end_of_a_session_still_belongs_to_it() -> None:
    sql = (
        "SELECT window_start, window_end, COUNT(*) AS n FROM "
        "SESSION(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND) GROUP BY window_start, window_end"
    )
    run = opened(sql)

    def push(*seconds: float) -> list[Any]:
        times = [BEFORE_1970 + dt.timedelta(seconds=each) for each in seconds]
        rows = [{"ts": each, "k": None, "v": None, "f": None} for each in times]
        return kinds_of(run.push("t", rows))

    assert push(0, 6.999) == []  # the watermark is at 1.999
    assert push(2) == []
    ((kind, (start, end, count)),) = push(9.5)
    assert (kind, start, count) == ("+I", BEFORE_1970, 2)
    assert end == BEFORE_1970 + dt.timedelta(seconds=4)
