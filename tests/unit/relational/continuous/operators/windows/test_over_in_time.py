import random
from collections import Counter
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

import pkray
from pkray.relational import Changelog, changelog, query
from tests.effort import examples
from tests.unit.relational.continuous.event_times import EventTimes, at
from tests.unit.relational.continuous.histories import Continuous, kinds_of
from tests.unit.relational.continuous.parallel.teams import Workers

BY = "PARTITION BY k ORDER BY at"
CALLS = {
    "so far": f"sum(v) OVER ({BY}), avg(v) OVER ({BY}), count(v) OVER ({BY}), max(s) OVER ({BY}), "
    f"rank() OVER ({BY}), dense_rank() OVER ({BY})",
    "decimals so far": f"avg(d) OVER ({BY}), sum(d) OVER ({BY}), avg(x) OVER ({BY}), first_value(d)"
    f" OVER ({BY} ROWS UNBOUNDED PRECEDING)",
    "near rows": f"sum(v) OVER ({BY} ROWS 2 PRECEDING), lag(s, 3, 'none') OVER ({BY}), "
    f"row_number() OVER ({BY}), last_value(v) OVER ({BY} ROWS 1 PRECEDING)",
    "rows before": f"min(v) OVER ({BY} ROWS BETWEEN 4 PRECEDING AND 2 PRECEDING)",
    "near in time": f"sum(v) OVER ({BY} RANGE INTERVAL '7' SECOND PRECEDING), count(*) OVER ({BY} "
    "RANGE BETWEEN INTERVAL '9' SECOND PRECEDING AND INTERVAL '2' SECOND PRECEDING)",
    "near either way": f"sum(v) OVER ({BY} RANGE INTERVAL '4' SECOND PRECEDING), lag(v) OVER ({BY})"
    f", count(*) OVER ({BY} ROWS UNBOUNDED PRECEDING)",
    "of all": f"stddev_pop(v) OVER ({BY}), sum(v) OVER ({BY}), lag(v) IGNORE NULLS OVER ({BY})",
    "of the row": f"sum(v) OVER ({BY} ROWS BETWEEN CURRENT ROW AND CURRENT ROW), last_value(v) "
    f"OVER ({BY}), sum(v) OVER ({BY} RANGE CURRENT ROW)",
    "without partitions": "sum(v) OVER (ORDER BY at, met, v, k, s)",
}
COLUMNS = {"k": "INT", "v": "INT", "s": "STRING", "d": "DECIMAL(9, 2)", "x": "DOUBLE"}


def fields(rng: random.Random) -> dict[str, Any]:
    return {
        "k": rng.choice([None, *range(4)]),
        "v": rng.choice([None, *range(50)]),
        "s": rng.choice([None, *"abc"]),
        "d": rng.choice([None, 1, 7]),
        "x": rng.choice([None, 0.5, 2.25]),
    }


def is_late(name: str, moment: datetime, met: datetime) -> bool:
    return moment <= met


def streamed(calls: str, rng: random.Random, **arguments: Any) -> EventTimes:
    text = f"SELECT k, v, {calls}, at FROM l"
    return EventTimes(rng, text, {"l": (COLUMNS, fields)}, is_late, **arguments)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(examples(2)))
@pytest.mark.parametrize("name", CALLS)
def test_each_row_comes_when_the_watermark_passes_it(name: str, seed: int) -> None:
    rng = random.Random(f"{name} {seed}")
    run = streamed(CALLS[name], rng, memory=rng.choice([2 << 10, 64 << 10]), parts=1 + 2 * seed)
    for size in (20, 20, 1, 60, 3, 20):
        run.epoch(size)
        mark = run.watermark
        assert run.given() == [r for r in run.expected() if mark is not None and r[-1] <= mark]
    run.run.finish()
    assert run.given() == run.expected()
    assert len(run.run.late_rows()) == run.late


def row(k: int, v: int, seconds: float) -> dict[str, Any]:
    return {"k": k, "v": v, "at": at(seconds)}


def clicks(text: str, **arguments: Any) -> Continuous:
    stream = watched()
    return Continuous(query(text, l=stream), {"l": stream}, **arguments)


def watched() -> Changelog:
    columns = {"k": "INT", "v": "INT", "at": "TIMESTAMP(3)"}
    return changelog(columns, watermark=("at", "at - INTERVAL '5' SECOND"), name="l")


SUMS = f"SELECT k, sum(v) OVER ({BY}) AS s FROM l"


def test_rows_wait_and_come_in_the_order_of_their_times() -> None:
    run = clicks(SUMS)
    assert not len(run.push("l", [row(1, 5, 4), row(1, 1, 2), row(2, 7, 3)]))
    made = run.push("l", [row(1, 2, 9)])
    assert kinds_of(made) == [("+I", (1, 1)), ("+I", (2, 7)), ("+I", (1, 6))]


def test_rows_of_one_time_have_one_sum_where_the_frame_is_a_range() -> None:
    run = clicks(SUMS)
    run.push("l", [row(1, 5, 4), row(1, 1, 4)])
    run.push("l", [row(1, 2, 4)])
    assert kinds_of(run.finish()) == [("+I", (1, 8))] * 3


def test_late_rows_change_nothing_and_are_kept() -> None:
    run = clicks(SUMS)
    run.push("l", [row(1, 5, 4), row(1, 1, 20)])
    assert not len(run.push("l", [row(1, 9, 15), row(2, 9, 3)]))
    assert sorted(run.late_rows()) == [(1, at(15), 9), (2, at(3), 9)]
    assert kinds_of(run.finish()) == [("+I", (1, 6))]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("frame", "kept"),
    [
        ("", 2),
        ("ROWS 3 PRECEDING", 6),
        ("ROWS BETWEEN CURRENT ROW AND CURRENT ROW", 0),
        ("RANGE INTERVAL '3' SECOND PRECEDING", 6),
    ],
)
def test_no_more_is_kept_than_the_rows_to_come_look_at(frame: str, kept: int) -> None:
    run = clicks(f"SELECT k, sum(v) OVER ({BY} {frame}) AS s FROM l")
    for second in range(100):
        run.push("l", [row(k, 1, second) for k in (1, 2)])
    main = next(name for name in run.states if name.isdigit())
    assert run.kept_rows().get(main, 0) == kept
    assert sum(run.kept_rows().values()) <= 2 * kept + 2 * 5


def test_frames_of_time_are_forgotten_though_their_key_does_not_come_again() -> None:
    run = clicks(f"SELECT k, sum(v) OVER ({BY} RANGE INTERVAL '3' SECOND PRECEDING) AS s FROM l")
    run.push("l", [row(k, 1, 1) for k in range(50)])
    run.push("l", [row(99, 1, 60)])
    assert list(run.kept_rows().values()) == [1]
    run.finish()
    assert run.kept_rows() == {}


def test_sums_go_on_as_long_as_their_state_lives_and_rows_that_wait_do_not_expire() -> None:
    run = clicks(SUMS, ttl="10 ms")
    run.push("l", [row(1, 5, 1), row(1, 0, 10)], time=1)
    run.push("l", [row(1, 3, 11)], time=5)
    made = run.push("l", [row(1, 4, 20)], time=100)
    assert kinds_of(made) == [("+I", (1, 0)), ("+I", (1, 3))]


@pytest.mark.parametrize("hint", ["", "/*+ UPDATES('l' = 'true') */"])
def test_rows_come_at_once_and_change_where_a_hint_says_so(hint: str) -> None:
    run = clicks(SUMS.replace("SELECT", f"SELECT {hint}"))
    first = kinds_of(run.push("l", [row(1, 5, 4), row(1, 1, 20)]))
    second = kinds_of(run.push("l", [row(1, 2, 3)]))
    updates = [("+I", (1, 2)), ("-U", (1, 5)), ("+U", (1, 7)), ("-U", (1, 6)), ("+U", (1, 8))]
    assert first == [("+I", (1, 5)), *([("+I", (1, 6))] if hint else [])]
    assert second == (updates if hint else [])
    assert bool(run.late_rows()) == (not hint)


def test_the_hint_of_a_relation_says_the_same() -> None:
    stream = watched()
    for hinted in (False, True):
        relation = stream.hint("UPDATES", {"l": "true"}) if hinted else stream
        text = str(query(SUMS, l=relation).explain())
        assert ("emit=[at the watermark]" in text) != hinted


def test_rows_are_only_added() -> None:
    stream = watched()
    told = []
    with query(SUMS, l=stream).stream("append") as changes:
        stream.push([row(1, 5, 4), row(1, 1, 20)])
        stream.finish()
        for batch in changes:
            told += batch.select(["_row_kind", "k", "s"]).to_pylist()
    assert [tuple(each.values()) for each in told] == [("+I", 1, 5), ("+I", 1, 6)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["so far", "near rows", "near in time", "of all"])
def test_epochs_since_a_checkpoint_give_the_same_rows_again(name: str) -> None:
    rng = random.Random(name)
    columns = {**COLUMNS, "at": "TIMESTAMP(3)"}
    stream = changelog(columns, watermark=("at", "at - INTERVAL '5' SECOND"), name="l")
    calls = CALLS[name].replace("ORDER BY at", "ORDER BY at, v, s, d, x")
    if "RANGE" in calls:
        calls = CALLS[name]
    run = Workers(query(f"SELECT k, v, {calls}, at FROM l", l=stream), 3, memory=1 << 12)
    now, again = 0.0, 0
    for number in range(9):
        if number % 3 == 1:
            run.run.checkpoint()
            run.told.clear()
        now += 3
        seconds = [now - rng.choice([0, 0, 1, 3, 12]) for _ in range(20)]
        stream.push([{**fields(rng), "at": at(second)} for second in seconds])
        run.step()
        if number % 3 == 0:  # the process ends, and what was given since the checkpoint comes again
            before, content = rows_told(run.told), dict(run.content)
            run.told.clear()
            run.reopen(3)
            run.step()
            assert rows_told(run.told) == before
            run.content = Counter(content)
            again += len(before)
    assert again
    run.close()


def rows_told(batches: list[pa.RecordBatch]) -> list[str]:
    return sorted(map(repr, (row for batch in batches for row in batch.to_pylist())))


def test_a_stream_and_its_bounded_run_agree_over_tables(tmp_path: Any) -> None:
    with pkray.connect(tmp_path) as catalog:
        options = {"merge-engine": "first-row", "changelog-producer": "lookup"}
        columns = [("id", "INT"), ("k", "INT"), ("v", "INT"), ("at", "TIMESTAMP(3)")]
        table = catalog.create_table("default.l", columns, ["id"], options=options)
        table.alter.set_watermark("at", "5 s")
        table.upsert([{"id": i, **row(i % 2, i, i)} for i in range(9)])
        relation = catalog.sql(SUMS)
        with relation.stream("append", trigger="available_now") as changes:
            rows = [(each["k"], each["s"]) for batch in changes for each in batch.to_pylist()]
        assert rows == [(0, 0), (1, 1), (0, 2), (1, 4)]
        assert relation.to_arrow().num_rows == 9
