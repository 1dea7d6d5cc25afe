"""Window functions against a model that computes each row's frame by itself."""

import math
from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pkray.relational.plan.expressions import Frame, SortKey, WindowCall
from pkray.relational.plan.nodes import Over
from pkray.schema.types import DataType
from tests.effort import examples
from tests.unit.relational.local.inputs import lit, result, rows_of

Row = tuple[Any, ...]
ROWS = st.lists(
    st.tuples(
        st.sampled_from([None, 0, 1]),
        st.one_of(st.none(), st.integers(0, 5)),
        st.one_of(st.none(), st.integers(-3, 3)),
    ),
    max_size=10,
)
OFFSET = st.one_of(st.none(), st.integers(-3, 3))
FRAMES = st.builds(Frame, st.sampled_from(["rows", "range"]), OFFSET, OFFSET)
KEYS = st.builds(SortKey, st.just("o"), st.booleans(), st.booleans())


def calling(function: str, *arguments: str, kind: str = "BIGINT", frame: Frame = Frame.WHOLE,
            parameters: tuple[Any, ...] = (), **options: Any) -> WindowCall:  # fmt: skip
    literals = tuple(lit(value, "BIGINT NOT NULL") for value in parameters)
    return WindowCall(function, arguments, DataType.parse(kind), frame, literals, **options)


def computed(rows: list[Row], keys: tuple[SortKey, ...], *calls: WindowCall) -> list[Row]:
    """Run an Over; the rows come back in their order, as (values of the calls)."""
    source = rows_of("p INT, o INT, v BIGINT", rows)
    plan = Over(source, ("p",), keys, tuple((f"c{i}", each) for i, each in enumerate(calls)))
    found = result(plan)
    assert [row[:3] for row in found] == rows
    return [row[3:] for row in found]


def ordered(rows: list[Row], key: SortKey) -> list[int]:
    """Number a partition's rows in its order."""
    there = [i for i, row in enumerate(rows) if row[1] is not None]
    there.sort(key=lambda i: rows[i][1], reverse=key.descending)
    nulls = [i for i, row in enumerate(rows) if row[1] is None]
    return nulls + there if key.nulls_first else there + nulls


def framed(rows: list[Row], order: list[int], place: int, frame: Frame, key: SortKey) -> list[int]:
    """List the rows of a frame, in order."""
    if frame.unit == "rows":
        low = 0 if frame.start is None else place + frame.start
        high = len(order) - 1 if frame.end is None else place + frame.end
        return [order[i] for i in range(max(int(low), 0), min(int(high), len(order) - 1) + 1)]
    mine = rows[order[place]][1]
    sign = -1 if key.descending else 1
    kept = []
    for other, i in enumerate(order):
        value = rows[i][1]
        if mine is None or value is None:
            peers = mine is None and value is None
            after = (frame.start is None and other < place) or (frame.end is None and other > place)
            inside = peers or (after and (mine is None or value is None))
        else:
            gap = sign * (value - mine)
            inside = (frame.start is None or gap >= frame.start) and (
                frame.end is None or gap <= frame.end
            )
        if inside:
            kept.append(i)
    return kept


def fold(function: str, values: list[Any]) -> Any:
    there = [value for value in values if value is not None]
    if function == "count":
        return len(there)
    if function == "collect_list":
        return there
    if function in ("first_value", "last_value"):
        return (values[0] if function == "first_value" else values[-1]) if values else None
    if not there:
        return None
    if function == "avg":
        return sum(there) / len(there)
    return {"sum": sum, "min": min, "max": max}[function](there)


def partitions(rows: list[Row]) -> list[list[int]]:
    return [
        [i for i, row in enumerate(rows) if row[0] == p] for p in dict.fromkeys(r[0] for r in rows)
    ]


FOLDED = {
    "count": "BIGINT NOT NULL",
    "sum": "BIGINT",
    "avg": "DOUBLE",
    "min": "BIGINT",
    "max": "BIGINT",
    "collect_list": "ARRAY<BIGINT NOT NULL>",
    "first_value": "BIGINT",
    "last_value": "BIGINT",
}


@settings(max_examples=examples(60))
@given(rows=ROWS, frame=FRAMES, key=KEYS)
def test_aggregates_see_their_frames(rows: list[Row], frame: Frame, key: SortKey) -> None:
    calls = [calling(name, "v", kind=kind, frame=frame) for name, kind in FOLDED.items()]
    found = computed(rows, (key,), *calls)
    for numbers in partitions(rows):
        those = [rows[i] for i in numbers]
        order = ordered(those, key)
        for place, i in enumerate(order):
            values = [those[j][2] for j in framed(those, order, place, frame, key)]
            assert found[numbers[i]] == tuple(fold(name, values) for name in FOLDED)


@settings(max_examples=examples(60))
@given(rows=ROWS, key=KEYS, tiles=st.integers(1, 4))
def test_rows_are_numbered(rows: list[Row], key: SortKey, tiles: int) -> None:
    names = ("row_number", "rank", "dense_rank")
    calls = [calling(name, kind="INT NOT NULL") for name in names]
    calls += [calling(name, kind="DOUBLE NOT NULL") for name in ("percent_rank", "cume_dist")]
    calls.append(calling("ntile", kind="INT NOT NULL", parameters=(tiles,)))
    found = computed(rows, (key,), *calls)
    for numbers in partitions(rows):
        those = [rows[i] for i in numbers]
        order = ordered(those, key)
        values = [those[i][1] for i in order]
        size = len(order)
        cuts = [n for t in range(tiles) for n in [t + 1] * (size // tiles + (t < size % tiles))]
        for place, i in enumerate(order):
            first = values.index(values[place])
            last = size - values[::-1].index(values[place])
            dense = len(set(values[:first])) + 1
            share = first / (size - 1) if size > 1 else 0.0
            expected = (place + 1, first + 1, dense, share, last / size, cuts[place])
            assert found[numbers[i]] == expected


@settings(max_examples=examples(80))
@given(rows=ROWS, key=KEYS, offset=st.integers(-2, 2), ignore=st.booleans())
def test_other_rows_are_read(rows: list[Row], key: SortKey, offset: int, ignore: bool) -> None:
    lag = calling("lag", "v", "o", parameters=(offset,), ignore_nulls=ignore)
    lead = calling("lead", "v", parameters=(offset,), ignore_nulls=ignore)
    found = computed(rows, (key,), lag, lead)
    for numbers in partitions(rows):
        those = [rows[i] for i in numbers]
        order = ordered(those, key)
        for place, i in enumerate(order):
            default = those[i][1]
            assert found[numbers[i]] == (
                shifted(those, order, place, -offset, ignore, default),
                shifted(those, order, place, offset, ignore, None),
            )


def shifted(
    rows: list[Row], order: list[int], place: int, offset: int, ignore: bool, default: Any
) -> Any:
    step = 1 if offset > 0 else -1
    left, at = abs(offset), place
    while left:
        at += step
        if not 0 <= at < len(order):
            return default
        if not ignore or rows[order[at]][2] is not None:
            left -= 1
    return rows[order[at]][2]


@settings(max_examples=examples(80))
@given(rows=ROWS, key=KEYS, frame=FRAMES, nth=st.integers(1, 3))
def test_values_of_frames_leave_out_nulls_if_asked(
    rows: list[Row], key: SortKey, frame: Frame, nth: int
) -> None:
    options = {"frame": frame, "ignore_nulls": True}
    calls = [calling(name, "v", **options) for name in ("first_value", "last_value")]
    calls.append(calling("nth_value", "v", parameters=(nth,), **options))
    found = computed(rows, (key,), *calls)
    for numbers in partitions(rows):
        those = [rows[i] for i in numbers]
        order = ordered(those, key)
        for place, i in enumerate(order):
            values = [those[j][2] for j in framed(those, order, place, frame, key)]
            kept = [value for value in values if value is not None]
            third = kept[nth - 1] if len(kept) >= nth else None
            ends = (kept[0], kept[-1]) if kept else (None, None)
            assert found[numbers[i]] == (*ends, third)


def over_one(kind: str, values: list[Any], call: WindowCall, order: str = "INT") -> list[Any]:
    rows = list(enumerate(values)) if order == "INT" else values
    plan = Over(rows_of(f"o {order}, x {kind}", rows), (), (SortKey("o"),), (("c", call),))
    return [row[2] for row in result(plan)]


RUNNING = Frame("rows", None, 0)
TWO = Frame("rows", -1, 0)


def test_sums_of_floats_forget_what_left_the_frame() -> None:
    call = calling("sum", "x", kind="DOUBLE", frame=TWO)
    values = [1e300, 1.0, math.inf, 2.0, 0.5, math.nan, 0.25, 0.25]
    assert over_one("DOUBLE", values, call) == [
        1e300,
        1e300,
        math.inf,
        math.inf,
        2.5,
        "NaN",
        "NaN",
        0.5,
    ]


def test_extremes_of_floats_and_texts() -> None:
    least, most = (calling(name, "x", kind="DOUBLE", frame=TWO) for name in ("min", "max"))
    values = [None, math.nan, 1.0, None, -0.5]
    assert over_one("DOUBLE", values, least) == [None, "NaN", 1.0, 1.0, -0.5]
    assert over_one("DOUBLE", values, most) == [None, "NaN", "NaN", 1.0, -0.5]
    texts = calling("max", "x", kind="STRING", frame=RUNNING)
    assert over_one("STRING", ["a", "c", None, "b"], texts) == ["a", "c", "c", "c"]


def test_sums_are_exact_though_rows_leave_the_frame() -> None:
    call = calling("sum", "x", frame=TWO)
    assert over_one("BIGINT", [2**63 - 1, -5, 2**62, -(2**63)], call) == [
        2**63 - 1, 2**63 - 6, 2**62 - 5, -(2**62),
    ]  # fmt: skip


def test_sums_and_means_of_decimals() -> None:
    values = [Decimal("9" * 20 + ".99"), Decimal("0.01"), None, Decimal("-1.00")]
    total = calling("sum", "x", kind="DECIMAL(38, 2)", frame=RUNNING)
    large = Decimal("1" + "0" * 20 + ".00")
    less = Decimal("9" * 20 + ".00")
    assert over_one("DECIMAL(22, 2)", values, total) == [values[0], large, large, less - 0]
    mean = calling("avg", "x", kind="DECIMAL(26, 6)", frame=TWO)
    assert over_one("DECIMAL(22, 2)", [Decimal("1.00"), Decimal("1.01")], mean) == [
        Decimal("1.000000"),
        Decimal("1.005000"),
    ]


def test_ranges_over_times_count_in_microseconds() -> None:
    from datetime import datetime

    times = [datetime(1969, 12, 31, 23, 59, second) for second in (50, 55, 56)]
    call = calling("count", "x", kind="BIGINT NOT NULL", frame=Frame("range", -5_000_000, 0))
    rows = [(time, 1) for time in times]
    for kind in ("TIMESTAMP(3)", "TIMESTAMP(9)"):
        assert over_one("INT", rows, call, kind) == [1, 2, 2]


def test_ranges_over_floats_and_decimals() -> None:
    call = calling("count", "x", kind="BIGINT NOT NULL", frame=Frame("range", -0.5, 0))
    floats = [(value, 1) for value in (1.0, 1.4, 1.95, math.nan, math.nan)]
    assert over_one("INT", floats, call, "DOUBLE") == [1, 2, 1, 2, 2]
    decimals = [(Decimal(value), 1) for value in ("1.00", "1.50", "2.01")]
    assert over_one("INT", decimals, call, "DECIMAL(5, 2)") == [1, 2, 1]


def test_ranges_between_two_whole_numbers_are_exact() -> None:
    near = calling("count", "x", kind="BIGINT NOT NULL", frame=Frame("range", -1.5, 1.5))
    assert over_one("INT", [1, 1, 1, 1], near) == [2, 3, 3, 2]
    tenth = calling("count", "x", kind="BIGINT NOT NULL", frame=Frame("range", 0.1, None))
    decimals = [(Decimal(value), 1) for value in ("1.00", "1.10", "1.19")]
    assert over_one("INT", decimals, tenth, "DECIMAL(5, 2)") == [2, 0, 0]


def test_partitions_without_order_are_wholes() -> None:
    source = rows_of("p STRING, v INT", [("a", 1), (None, 2), ("a", 3), (None, 4)])
    total = calling("sum", "v", frame=Frame("range", None, 0))
    plan = Over(source, ("p",), (), (("c", total),))
    assert [row[2] for row in result(plan)] == [4, 6, 4, 6]


def test_no_rows_give_no_rows() -> None:
    calls = [calling(name, "v", kind=kind) for name, kind in FOLDED.items()]
    assert computed([], (SortKey("o"),), *calls) == []
