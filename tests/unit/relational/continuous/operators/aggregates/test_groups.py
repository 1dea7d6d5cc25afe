import random
from collections import defaultdict
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pkray.errors import EvaluationError
from pkray.relational import changelog, query
from pkray.relational.continuous.operator import Epoch
from pkray.relational.continuous.operators.aggregates.calls import _narrowed
from pkray.relational.continuous.operators.aggregates.groups import Groups
from pkray.relational.plan.expressions import AggregateCall
from pkray.relational.udf import udaf
from pkray.schema.types import DataType
from tests.effort import examples
from tests.unit.relational.continuous.histories import Continuous, RandomHistory, kinds_of


def run_of(text: str, columns: dict[str, str], *, mode: str = "all", **said: Any) -> Continuous:
    t = changelog(columns, mode=mode, name="t")
    return Continuous(query(text, t=t), {"t": t}, **said)


def rows(*changes: tuple[str, Any, Any]) -> list[dict[str, Any]]:
    return [{"_row_kind": kind, "k": k, "v": v} for kind, k, v in changes]


KV = {"k": "STRING", "v": "BIGINT"}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("seed", range(examples(3)))
def test_values_in_order_of_arrival_lose_the_oldest_of_equal_rows(seed: int, parts: int) -> None:
    text = (
        "SELECT k, FIRST(v) AS f, LAST(v) AS l, FIRST(v, TRUE) AS fn, COLLECT_LIST(v) AS c, "
        "LISTAGG(s, ',') AS j, LAST(v) FILTER (WHERE v > 1) AS lf, COLLECT_SET(v) AS d "
        "FROM t GROUP BY k"
    )
    columns = {"k": "INT", "v": "INT", "s": "STRING"}
    run = run_of(text, columns, memory=2048, parts=parts)
    rng = random.Random(seed)

    def row(rng: random.Random) -> dict[str, Any]:
        v = rng.choice([None, 0, 1, 2, 3])
        return {"k": rng.randrange(3), "v": v, "s": None if v is None else str(v)}

    history = RandomHistory(rng, row)
    groups: dict[int, list[Any]] = defaultdict(list)
    for size in (8, 1, 40, 25, 3):
        changes = history.epoch(size)
        for change in changes:
            if change["_row_kind"] in ("+I", "+U"):
                groups[change["k"]].append(change["v"])
            else:
                groups[change["k"]].remove(change["v"])
        run.push("t", changes)
        expected = {(k, *_in_order(values)) for k, values in groups.items() if values}
        assert set(run.content) == expected


def _in_order(values: list[Any]) -> tuple[Any, ...]:
    there = [value for value in values if value is not None]
    large = [value for value in there if value > 1]
    return (
        values[0],
        values[-1],
        there[0] if there else None,
        tuple(there),
        ",".join(map(str, there)) if there else None,
        large[-1] if large else None,
        tuple(dict.fromkeys(there)),
    )


def test_values_in_order_of_arrival_follow_rows_that_are_only_added() -> None:
    text = "SELECT k, FIRST(v) AS f, LAST(v) AS l, COLLECT_LIST(v) AS c FROM t GROUP BY k"
    run = run_of(text, KV, mode="insert")
    run.push("t", rows(("+I", "a", 2), ("+I", "b", None), ("+I", "a", 1)))
    run.push("t", rows(("+I", "a", None), ("+I", "b", 5)))
    assert set(run.content) == {("a", 2, None, (2, 1)), ("b", None, 5, (5,))}


@pytest.mark.parametrize(
    "aggregates",
    ["COUNT(*) AS a, SUM(v) AS b", "MIN(v) AS a", "FIRST(v) AS a", "COLLECT_LIST(v) AS a"],
)
def test_rows_that_are_only_added_leave_one_state(aggregates: str) -> None:
    run = run_of(f"SELECT k, {aggregates} FROM t GROUP BY k", KV, mode="insert")
    assert len(run.graph.states()) == 1


@pytest.mark.parametrize("mode", ["insert", "all"])
@pytest.mark.parametrize(
    "call",
    [
        "AVG(v)",
        "STDDEV(v)",
        "COUNT_IF(v > 1)",
        "MAX(v)",
        "LAST(v)",
        "MEDIAN(v)",
        "COUNT(DISTINCT v)",
    ],
)
def test_plans_say_which_groups_keep_their_values(call: str, mode: str) -> None:
    run = run_of(f"SELECT k, {call} AS a FROM t GROUP BY k", KV, mode=mode)
    (said,) = (state for node in run.plan.walk() for state in node.states())
    kept = len(run.graph.states()) > 1
    assert said.grows_with == ("groups and their distinct values" if kept else "groups")


def test_distinct_calls_with_several_filters_share_their_values() -> None:
    text = (
        "SELECT k, COUNT(DISTINCT v) AS a, SUM(DISTINCT v) FILTER (WHERE v > 1) AS b, "
        "COUNT(DISTINCT v) FILTER (WHERE v < 3) AS c FROM t GROUP BY k"
    )
    assert len(run_of(text, KV).graph.states()) == 2


def test_a_sum_that_does_not_fit_names_its_group() -> None:
    run = run_of("SELECT k, SUM(v) AS s FROM t GROUP BY k", KV)
    most = 2**63 - 1
    with pytest.raises(EvaluationError, match="group k = b is 9223372036854775808, which BIGINT"):
        run.push("t", rows(("+I", "a", most), ("+I", "b", most), ("+I", "b", 1)))


def test_a_sum_that_fits_at_the_end_of_an_epoch_is_exact() -> None:
    run = run_of("SELECT k, SUM(v) AS s FROM t GROUP BY k", KV)
    most = 2**63 - 1
    run.push("t", rows(("+I", "a", most), ("+I", "a", most), ("-D", "a", most)))
    assert set(run.content) == {("a", most)}
    run.push("t", rows(("+I", "a", -most), ("-D", "a", most)))
    assert set(run.content) == {("a", -most)}


def test_a_decimal_sum_that_does_not_fit_is_refused_or_null() -> None:
    columns = {"k": "STRING", "v": "DECIMAL(38, 0)"}
    most = Decimal(10**38 - 1)
    run = run_of("SELECT k, SUM(v) AS s FROM t GROUP BY k", columns)
    with pytest.raises(EvaluationError, match="group k = a"):
        run.push("t", rows(("+I", "a", most), ("+I", "a", most)))
    trying = run_of("SELECT k, try_sum(v) AS s FROM t GROUP BY k", {"k": "STRING", "v": "BIGINT"})
    trying.push("t", rows(("+I", "a", 2**63 - 1), ("+I", "a", 1)))
    assert set(trying.content) == {("a", None)}
    trying.push("t", rows(("-D", "a", 1)))
    assert set(trying.content) == {("a", 2**63 - 1)}


DIGITS = {"k": "STRING", "v": "DECIMAL(38, 2)"}
WIDE, LEAST = Decimal("9" * 36 + ".99"), Decimal("-" + "9" * 36 + ".99")


def test_tried_sums_of_more_than_38_digits_are_null_until_they_fit_again() -> None:
    text = "SELECT k, try_sum(v) AS s, try_avg(v) AS a, COUNT(v) AS n FROM t GROUP BY k"
    run = run_of(text, DIGITS)
    for changes in (
        [("+I", "a", WIDE), ("+I", "a", WIDE), ("+I", "b", LEAST), ("+I", "b", Decimal("-0.01"))],
        [("+I", "a", WIDE), ("+I", "a", None), ("-D", "b", LEAST), ("+I", "b", WIDE)],
        [("-D", "a", WIDE), ("+I", "b", WIDE)],
        [("-D", "a", WIDE), ("-D", "b", WIDE), ("+I", "b", Decimal("0.02"))],
    ):
        run.push("t", rows(*changes))
        run.check()
    assert ("a", WIDE) in {row[:2] for row in run.content}


def test_a_sum_beside_a_tried_one_is_refused_by_name() -> None:
    run = run_of("SELECT k, SUM(v) AS s, try_sum(v) AS t FROM t GROUP BY k", DIGITS)
    value = f"group k = a is 1{'9' * 36}.98, which DECIMAL"
    with pytest.raises(EvaluationError, match=value):
        run.push("t", rows(("+I", "a", WIDE), ("+I", "a", WIDE)))


def test_sums_heal_when_nan_and_infinities_are_retracted() -> None:
    run = run_of("SELECT k, SUM(v) AS s FROM t GROUP BY k", {"k": "STRING", "v": "DOUBLE"})
    nan, inf = float("nan"), float("inf")
    run.push("t", rows(("+I", "a", 1.5), ("+I", "a", nan), ("+I", "a", inf), ("+I", "a", -inf)))
    assert set(run.content) == {("a", "nan")}
    run.push("t", rows(("-D", "a", nan), ("-D", "a", -inf)))
    assert set(run.content) == {("a", inf)}
    run.push("t", rows(("-D", "a", inf)))
    assert set(run.content) == {("a", 1.5)}


def test_a_float_sum_is_exact_again_when_its_last_value_goes() -> None:
    run = run_of("SELECT k, SUM(v) AS s FROM t GROUP BY k", {"k": "STRING", "v": "DOUBLE"})
    run.push("t", rows(("+I", "a", 0.1), ("+I", "a", 0.2), ("+I", "a", None)))
    run.push("t", rows(("-D", "a", 0.1), ("-D", "a", 0.2)))
    run.push("t", rows(("+I", "a", 0.3)))
    assert run.content.keys() == {("a", 0.3)}


def test_retractions_of_unknown_groups_are_swallowed_in_the_order_of_the_epoch() -> None:
    run = run_of("SELECT k, COUNT(*) AS c, SUM(v) AS s, MIN(v) AS m FROM t GROUP BY k", KV)
    made = run.push("t", rows(("-D", "a", 5), ("+I", "a", 7), ("-D", "b", 1), ("+I", "c", 2)))
    assert kinds_of(made) == [("+I", ("a", 1, 7, 7)), ("+I", ("c", 1, 2, 2))]
    made = run.push("t", rows(("-D", "a", 7), ("-D", "a", 7), ("+I", "a", 3)))
    assert kinds_of(made) == [("-U", ("a", 1, 7, 7)), ("+U", ("a", 1, 3, 3))]


def test_a_group_that_expired_is_as_if_it_never_was() -> None:
    text = "SELECT k, COUNT(*) AS c, MAX(v) AS m, COUNT(DISTINCT v) AS d FROM t GROUP BY k"
    run = run_of(text, KV, ttl="1 s")
    run.push("t", rows(("+I", "a", 5)), 0)
    assert kinds_of(run.push("t", rows(("+I", "a", 5)), 900)) == [
        ("-U", ("a", 1, 5, 1)),
        ("+U", ("a", 2, 5, 1)),
    ]
    assert kinds_of(run.push("t", rows(("+I", "a", 4)), 2000)) == [("+I", ("a", 1, 4, 1))]


def test_unchanged_results_are_given_again_only_where_state_expires() -> None:
    text = "SELECT k, MAX(v) AS m FROM t GROUP BY k"
    for ttl, again in (("0 ms", []), ("1 s", [("-U", ("a", 5)), ("+U", ("a", 5))])):
        run = run_of(text, KV, ttl=ttl)
        run.push("t", rows(("+I", "a", 5)))
        assert kinds_of(run.push("t", rows(("+I", "a", 4)))) == again


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, v, COUNT(*) AS c, SUM(v) AS s, GROUPING_ID() AS g FROM t "
        "GROUP BY GROUPING SETS ((k, v), (k), (v))",
        "SELECT k, v, COUNT(*) AS c, COUNT(DISTINCT v) AS d FROM t GROUP BY CUBE (k, v)",
        "SELECT k, MIN(v) AS m FROM t GROUP BY k HAVING COUNT(*) > 2",
        "SELECT c, COUNT(*) AS n FROM (SELECT k, COUNT(*) AS c FROM t GROUP BY k) GROUP BY c",
        "SELECT k, FIRST(v) FILTER (WHERE v < 2) AS m, MAX(DISTINCT v) AS d FROM t "
        "WHERE v > 0 GROUP BY k",
        "SELECT COUNT(*) AS c FROM (SELECT DISTINCT v FROM t)",
    ],
)
@pytest.mark.parametrize("mode", ["all", "upsert"])
def test_aggregates_among_other_operators_equal_the_bounded_run(text: str, mode: str) -> None:
    columns = {"id": "INT", "k": "STRING", "v": "BIGINT"}
    rng = random.Random(f"{text} {mode}")
    t = changelog(columns, primary_key=["id"], mode=mode, name="t")
    run = Continuous(query(text, t=t), {"t": t}, memory=4096, parts=rng.choice([1, 3]))

    def row(rng: random.Random) -> dict[str, Any]:
        return {"id": 0, "k": rng.choice([None, "a", "b"]), "v": rng.choice([None, 1, 2, 3])}

    history = RandomHistory(rng, row, keyed=True)
    for size in (12, 1, 50, 30):
        changes = history.epoch(size)
        if mode == "upsert":
            changes = [each for each in changes if each["_row_kind"] != "-U"]
        run.push("t", changes)
        if history.rows:
            run.check()


@udaf("BIGINT", arguments=["BIGINT"])
def widest(values: pa.Array) -> int | None:
    """Give how far the values lie apart."""
    ends = pc.min_max(values)
    return None if ends["min"].as_py() is None else ends["max"].as_py() - ends["min"].as_py()


@pytest.mark.parametrize("mode", ["insert", "all"])
def test_users_aggregates_follow_their_rows(mode: str) -> None:
    t = changelog(KV, mode=mode, name="t")
    relation = t.group_by("k").agg(w=widest(t["v"]))
    run = Continuous(relation, {"t": t})
    run.push("t", rows(("+I", "a", 5), ("+I", "a", None), ("+I", "b", 1)))
    run.push("t", rows(("+I", "a", 9), ("+I", "a", 9)))
    run.check()
    if mode == "all":
        run.push("t", rows(("-D", "a", 9), ("-D", "b", 1)))
        run.push("t", rows(("-D", "a", 9)))
        run.check()
        assert set(run.content) == {("a", 0)}


def test_a_sum_wider_than_its_type_is_refused() -> None:
    call = AggregateCall("sum", ("v",), DataType.parse("DECIMAL(20, 2)"))
    total = pa.array([Decimal("1.25"), Decimal(10**18)], pa.decimal128(38, 2))
    run = run_of("SELECT k FROM t", KV)
    changes = run.push("t", rows(("+I", "a", 1), ("+I", "b", 1)))
    groups = Groups.from_changes(changes, ["k"], Epoch(0, 0))
    with pytest.raises(EvaluationError, match=r"group k = b is 1000000000000000000.00, which DEC"):
        _narrowed(call, total, groups)
    assert _narrowed(replace(call, function="try_sum"), total, groups).to_pylist() == [
        Decimal("1.25"),
        None,
    ]
