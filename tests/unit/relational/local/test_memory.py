"""Rows beyond memory: set aside on the local disk, with the same result."""

import random
import tempfile
from collections import Counter
from typing import Any

import pytest

from pkray.errors import UnsupportedError
from pkray.relational.local import memory as spilling
from pkray.relational.local.catalogue import run
from pkray.relational.plan.expressions import (
    TRUE,
    AggregateCall,
    Expression,
    Frame,
    Literal,
    SortKey,
    WindowCall,
)
from pkray.relational.plan.nodes import (
    Aggregate,
    Deduplicate,
    Distinct,
    IntervalJoin,
    Join,
    JoinKind,
    Limit,
    Node,
    Over,
    SetKind,
    SetOperation,
    Sort,
    TemporalJoin,
    TopN,
    Window,
    WindowKind,
)
from pkray.schema.types import DataType
from pkray.storage.spill import SpilledBatches
from tests.unit.relational.local.inputs import call, col, rows_of

LITTLE = 10_000
COLUMNS = "k INT, h INT, s STRING, x DOUBLE, t TIMESTAMP(3)"
RANDOM = random.Random(5)


def made(count: int, keys: int) -> list[tuple[Any, ...]]:
    """Make rows whose ``k`` has many values and ``h`` few, most of them one; some are NULL."""
    return [
        (
            RANDOM.choice([None, *range(keys)]),
            RANDOM.choice([None, 1, 2, *[7] * 20]),
            RANDOM.choice([None, "", "name"]) and f"name {RANDOM.randrange(keys)}",
            RANDOM.choice([None, 0.0, float("nan"), float(RANDOM.randrange(keys))]),
            None if RANDOM.random() < 0.01 else 1000 * RANDOM.randrange(count),
        )
        for _ in range(count)
    ]


LEFT, RIGHT = rows_of(COLUMNS, made(900, 300)), rows_of(COLUMNS, made(700, 300))
KNOWN = rows_of("k INT, t TIMESTAMP(3) NOT NULL", [(i % 90, 7000 * i) for i in range(900)])
for each in (LEFT, RIGHT, KNOWN):
    each.source.batch_rows = 50  # type: ignore[attr-defined]
RIGHT_NAMES = tuple(f"{name}0" for name in LEFT.fields.names)
LESS = call("less", col("x", "DOUBLE"), col("x0", "DOUBLE"))
SAME = call("equal", col("k"), col("k0"))
DESCENDING = (SortKey("s", descending=True), SortKey("x"))


def joined(kind: JoinKind, key: str | None, condition: Expression = TRUE, **more: Any) -> Join:
    keys = (key,) if key else ()
    mark = "m" if kind is JoinKind.MARK else None
    return Join(LEFT, RIGHT, kind, keys, keys, RIGHT_NAMES, condition, mark_name=mark, **more)


def of(function: str, *arguments: str, kind: str, **more: Any) -> AggregateCall:
    return AggregateCall(function, arguments, DataType.parse(kind), **more)


CALLS = (
    ("n", of("count", kind="BIGINT NOT NULL")),
    ("total", of("sum", "k", kind="BIGINT")),
    ("least", of("min", "s", kind="STRING")),
    ("mean", of("avg", "h", kind="DOUBLE")),
)
WHOLE = (("values", of("count", "x", kind="BIGINT NOT NULL", distinct=True)),)
SETS = (
    *(*CALLS, *WHOLE),
    ("texts", of("count", "s", "x", kind="BIGINT NOT NULL", distinct=True)),
    ("sum_of", of("sum", "k", kind="BIGINT", distinct=True)),
    ("last_text", of("max", "s", kind="STRING", distinct=True)),
)
BINS = of(
    "histogram_numeric",
    "x",
    kind="ARRAY<ROW<`x` DOUBLE, `y` DOUBLE>>",
    parameters=(Literal(DataType("INT", False), 2),),
)
RUNNING = WindowCall("sum", ("k",), DataType("BIGINT"), Frame("rows", None, 0))
PLANS: dict[str, Node] = {
    "groups": Aggregate(LEFT, ("k", "s"), CALLS),
    "few groups with many values": Aggregate(LEFT, ("k",), WHOLE),
    "groups with histograms": Aggregate(LEFT, ("k",), (("bins", BINS),)),
    "one group and many": Aggregate(LEFT, ("h", "x"), CALLS),
    "groups with several sets of values": Aggregate(LEFT, ("k", "s"), SETS),
    "a group that is too large with several sets of values": Aggregate(LEFT, ("h",), SETS),
    "all rows with several sets of values": Aggregate(LEFT, (), SETS),
    "distinct": Distinct(LEFT),
    "over": Over(LEFT, ("k",), (SortKey("s"), SortKey("x"), SortKey("t")), (("r", RUNNING),)),
    "top": TopN(LEFT, ("k",), (SortKey("t"), SortKey("s"), SortKey("x")), 1, 2, "rank"),
    "top of one key": TopN(LEFT, ("h",), (SortKey("t"), SortKey("s"), SortKey("x")), 1, 3),
    "first": Deduplicate(LEFT, ("k",), None, True),
    "last": Deduplicate(LEFT, ("k",), "t", False),
    "sessions": Window(KNOWN, WindowKind.SESSION, "t", 20_000_000, partition_by=("k",)),
    "as of": TemporalJoin(LEFT, RIGHT, JoinKind.LEFT, ("k",), ("k",), RIGHT_NAMES, "t", "t"),
    "near": IntervalJoin(
        *(LEFT, RIGHT, JoinKind.FULL, ("k",), ("k",), RIGHT_NAMES, "t", "t", -200_000, 200_000)
    ),
    "not in": joined(JoinKind.ANTI, "k", null_aware=True),
    "in": joined(JoinKind.MARK, "s", null_aware=True),
    "null-safe keys": joined(JoinKind.FULL, "k", null_safe=(True,)),
    **{
        f"{kind} join by {key} where {what}": joined(kind, key, condition)
        for kind in JoinKind
        if kind is not JoinKind.SINGLE
        for key, what, condition in (
            *(("k", "true", TRUE), ("k", "less", LESS)),
            *(("h", "same", SAME), (None, "same", SAME)),
        )
    },
    **{
        f"{kind} {all_}": SetOperation(LEFT, RIGHT, kind, all_)
        for kind in SetKind
        for all_ in (True, False)
    },
}


FIT = ("union True", "top of one key")
"""Plans that hold few rows."""


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch) -> list[SpilledBatches]:
    """The lists of rows that were set aside."""
    found: list[SpilledBatches] = []
    plain = spilling.Memory.open

    def noted(memory: spilling.Memory, kept: int = 0) -> SpilledBatches:
        found.append(plain(memory, kept))
        return found[-1]

    monkeypatch.setattr(spilling.Memory, "open", noted)
    return found


def in_order(plan: Node, memory: int | None) -> list[str]:
    return [repr(row) for batch in run(plan, memory=memory) for row in batch.to_pylist()]


def rows(plan: Node, memory: int | None) -> Counter[str]:
    return Counter(in_order(plan, memory))


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", PLANS)
def test_rows_that_pass_through_the_disk_are_the_same(
    name: str, lists: list[SpilledBatches], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = rows(PLANS[name], None)
    assert not lists
    monkeypatch.setattr("pkray.relational.local.sorting.REDUCE_ROWS", 100)
    assert rows(PLANS[name], LITTLE) == expected
    assert any(each.disk_bytes for each in lists) or name in FIT


@pytest.mark.parametrize("order", [DESCENDING, (SortKey("h"),), (SortKey("t", False, True),)])
def test_sorted_runs_are_merged_and_equal_rows_keep_their_order(
    order: tuple[SortKey, ...], lists: list[SpilledBatches], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pkray.relational.local.sorting.MERGED_RUNS", 3)
    assert in_order(Sort(LEFT, order), LITTLE) == in_order(Sort(LEFT, order), None)
    assert len([each for each in lists if each.disk_bytes]) > 9


def test_the_first_rows_are_found_where_they_cannot_be_held(lists: list[SpilledBatches]) -> None:
    plan = Limit(Sort(LEFT, DESCENDING), 500, 20)
    assert in_order(plan, LITTLE) == in_order(plan, None)
    assert lists


def test_rows_that_are_used_twice_are_set_aside(lists: list[SpilledBatches]) -> None:
    groups = Aggregate(LEFT, ("k", "s"), CALLS)
    names = tuple(f"{name}0" for name in groups.fields.names)
    plan = Join(groups, groups, JoinKind.INNER, ("k", "s"), ("k", "s"), names)
    assert rows(plan, LITTLE) == rows(plan, None)
    assert any(each.disk_bytes for each in lists)


def test_a_subquery_of_several_rows_is_refused_beyond_memory() -> None:
    plan = joined(JoinKind.SINGLE, None)
    with pytest.raises(Exception, match="more than one row"):
        rows(plan, LITTLE)


@pytest.mark.parametrize(
    "plan",
    [
        Over(LEFT, (), (SortKey("k"),), (("r", RUNNING),)),
        Over(LEFT, ("h",), (SortKey("k"),), (("r", RUNNING),)),
    ],
)
def test_rows_that_cannot_be_divided_are_refused_by_node(plan: Node) -> None:
    with pytest.raises(UnsupportedError, match=f"{type(plan).__name__} needs rows") as refused:
        rows(plan, LITTLE // 4)
    assert refused.value.values["node"] == type(plan).__name__


def test_what_is_set_aside_has_no_name_on_the_disk(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    batches = run(Sort(LEFT, DESCENDING), memory=LITTLE)
    first = next(batches)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    assert sum(batch.num_rows for batch in batches) == 900 - first.num_rows


def test_a_plan_divides_memory_among_the_nodes_that_hold_rows() -> None:
    alone = spilling.Memory.of(LEFT, 1 << 20)
    several = spilling.Memory.of(Sort(Distinct(joined(JoinKind.INNER, "k")), DESCENDING), 1 << 20)
    assert alone.share // 3 == several.share
    assert spilling.Memory.of(LEFT, None).most == spilling.machine_memory() // 2
