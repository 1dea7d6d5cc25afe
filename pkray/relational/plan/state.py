"""What each operator remembers between epochs when a plan runs continuously."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from pkray.options.values import duration_text
from pkray.relational.plan.aggregates import facts
from pkray.relational.plan.changelog_modes import INSERT, change_kinds
from pkray.relational.plan.expressions import AggregateCall
from pkray.relational.plan.fields import Fields
from pkray.relational.plan.keys import best_key, unique_keys
from pkray.relational.plan.nodes import (
    Aggregate,
    Deduplicate,
    Distinct,
    Exchange,
    Expand,
    Filter,
    Hint,
    IntervalJoin,
    Join,
    JoinKind,
    Limit,
    Node,
    Normalize,
    Over,
    Project,
    RowKey,
    SetKind,
    SetOperation,
    TemporalJoin,
    TopN,
    Unique,
    WatermarkAssign,
    Window,
    WindowKind,
)
from pkray.relational.plan.over import History, history
from pkray.relational.plan.source_sides import SourceSide, source_sides
from pkray.relational.plan.windowing import is_windowed

NEVER = "0 ms"
"""The TTL of state that never expires."""


@dataclass(frozen=True)
class State:
    """One table of state.

    Attributes:
        name: as compiled plans call it.
        shape: ``fold`` (a value a key), ``ordered`` (rows of a key by their order),
            ``two-sided`` (the rows of one side of a join) or ``source`` (nothing: the rows of a
            side are read from a table).
        key: the columns by which it is kept.
        grows_with: what it has a row for.
        cleaned_by: ``ttl`` or ``watermark``; state that the watermark cleans has no TTL.
    """

    name: str
    shape: str
    key: tuple[str, ...]
    grows_with: str
    cleaned_by: str = "ttl"


def states(node: Node) -> tuple[State, ...]:
    """List the tables of state that an operator keeps, one an input that has any."""
    if is_windowed(node):
        return tuple(_windowed(node))
    match node:
        case Aggregate():
            return (_aggregate(node),)
        case Distinct():
            return (State("distinctState", "fold", node.fields.names, "distinct rows"),)
        case Normalize():
            return (State("changelogNormalizeState", "fold", node.keys, "keys of the source"),)
        case TopN():
            kept = "rows" if "D" in change_kinds(node.input) else f"{node.end} rows a partition"
            return (State("rankState", "ordered", node.partition_by, kept),)
        case Deduplicate():
            return (_deduplicate(node),)
        case Join():
            return _two_sided(node, "ttl")
        case IntervalJoin():
            return _two_sided(node, "watermark")
        case TemporalJoin():
            return _temporal(node)
        case Over():
            return tuple(_over(node))
        case SetOperation() if not (node.kind is SetKind.UNION and node.all):
            name = f"{node.kind}State"
            return (State(name, "fold", node.fields.names, "distinct rows of both inputs"),)
        case Window(kind=WindowKind.SESSION):
            rows = "rows of open sessions"
            return (State("sessionState", "ordered", node.partition_by, rows, "watermark"),)
        case Unique():
            return (State("uniqueState", "ordered", node.keys, "rows"),)
        case RowKey(keys=()):
            return (State("rowKeyState", "fold", node.input.fields.names, "distinct rows"),)
        case Limit():
            return (State("limitState", "ordered", (), "rows"),)
    return ()


def state_ttls(node: Node, default: str = NEVER) -> tuple[str, ...]:
    """List the TTL of each state that the TTL cleans: from a STATE_TTL hint, or the default.

    Args:
        default: the option ``table.exec.state.ttl``.
    """
    hinted = dict(_hinted(node))
    names = ("left", "right") if len(node.inputs) == 2 else ("",)
    return tuple(
        hinted.get(names[min(index, len(names) - 1)], default)
        for index, state in enumerate(states(node))
        if state.cleaned_by == "ttl"
    )


def kept_states(node: Node, default: str = NEVER) -> tuple[State, ...]:
    """List the tables of state as `states`, and say which sides of a join are read from sources.

    Args:
        default: as of `state_ttls`; what may expire is kept.
    """
    found = states(node)
    if not isinstance(node, Join) or {NEVER} != set(state_ttls(node, default)):
        return found
    sides = source_sides(node)
    return tuple(_read(state, side) for state, side in zip(found, sides, strict=True))


def keyed_map(node: Node) -> str | None:
    """Name a column of a type that holds a MAP, by which states of an operator may be kept; None
    where there is none.
    """
    keyed = (field for each in _keyed(node) for field in each)
    return next((each.name for each in keyed if _holds_map(each.type.arrow)), None)


def _keyed(node: Node) -> Iterator[Fields]:
    """List the columns whose values keys of states hold, by which rows or values are found."""
    kept = states(node)
    match node:
        case Aggregate():
            calls = [c for _, c in node.aggregates if c.distinct or _keeps_values(node, c)]
            ordered = (key.column for call in calls for key in call.order_by)
            values = (name for call in calls for name in call.arguments)
            yield node.input.fields.only(dict.fromkeys((*node.keys, *values, *ordered)))
        case RowKey(keys=keys) if keys:
            yield node.input.fields.only(keys)
        case Join() | IntervalJoin() if kept and not is_windowed(node):
            for each, state in zip(node.inputs, kept, strict=True):
                by_row = "row" in state.key and "row" not in each.fields
                is_whole = by_row and change_kinds(each) != INSERT
                named = [name for name in state.key if name in each.fields]
                yield each.fields if is_whole else each.fields.only(named)
        case _:
            by_key = bool(kept) and all(each.shape == "fold" for each in kept)
            for each in node.inputs if kept else ():
                keys = (*kept[0].key,) if by_key else each.fields.names
                yield each.fields.only(name for name in keys if name in each.fields)


def _holds_map(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return True
    return any(_holds_map(kind.field(place).type) for place in range(kind.num_fields))


def _read(state: State, side: SourceSide | None) -> State:
    if side is None:
        return state
    table = side.scan.source.name
    if side.finds:
        return replace(
            state, shape="source", key=side.key, grows_with=f"nothing: {table} has the rows"
        )
    return replace(state, grows_with=f"primary keys of {table}, which has the rows")


def _hinted(node: Node) -> Iterator[tuple[str, str]]:
    """Find the hints below an operator and above the next that keeps state, a side of a join by
    itself; the nearest comes last."""
    for side, each in zip(("left", "right"), node.inputs, strict=False):
        found = []
        while isinstance(each, _PASSED_BY_HINTS):
            if isinstance(each, Hint) and each.name.upper() == "STATE_TTL":
                found += [(side if len(node.inputs) == 2 else "", ttl) for _, ttl in each.options]
            each = each.input
        yield from reversed(found)


_PASSED_BY_HINTS = (Exchange, Expand, Filter, Hint, Normalize, Project, WatermarkAssign)


def _aggregate(node: Aggregate) -> State:
    values = [call for _, call in node.aggregates if call.distinct or _keeps_values(node, call)]
    grows = "groups and their distinct values" if values else "groups"
    return State("groupAggregateState", "fold", node.keys, grows if node.keys else "one row")


def _keeps_values(node: Aggregate, call: AggregateCall) -> bool:
    known = facts(call.function)
    return known.needs_all or ("D" in change_kinds(node.input) and not known.takes_back)


def _deduplicate(node: Deduplicate) -> State:
    updating = change_kinds(node.input) - {"I"}
    shape = "ordered" if updating else "fold"
    return State("deduplicateState", shape, node.keys, "rows" if updating else "keys")


def _over(node: Over) -> Iterator[State]:
    if not node.waits:
        yield State("overState", "ordered", node.partition_by, "rows")
        return
    kept = history(node.calls)
    by_time = kept is not None and not kept.rows
    cleaned_by = "watermark" if by_time else "ttl"
    yield State("overState", "ordered", node.partition_by, _kept(node, kept), cleaned_by)
    yield State("waitingState", "ordered", node.partition_by, "rows that wait", "watermark")


def _kept(node: Over, kept: History | None) -> str:
    if kept is None:
        return "rows"
    if kept.micros or not kept.rows:
        return "rows that frames reach"
    if kept.rows > 1:
        return f"{kept.rows} rows a partition"
    return "partitions" if node.partition_by else "one row"


def _two_sided(node: Join | IntervalJoin, cleaned_by: str) -> tuple[State, ...]:
    keys = (node.left_keys, node.right_keys)
    result = []
    for side, each, key in zip(("left", "right"), node.inputs, keys, strict=True):
        unique = best_key(each, unique_keys(each))
        row = unique if unique is not None else ("row",)
        whole = (*key, *(name for name in row if name not in key))
        outer = JoinKind.LEFT if side == "left" else JoinKind.RIGHT
        counted = node.kind in (outer, JoinKind.FULL, JoinKind.SEMI, JoinKind.ANTI)
        grows = f"rows of the {side} input" + (", with match counts" if counted else "")
        result.append(State(f"{side}State", "two-sided", whole, grows, cleaned_by))
    return tuple(result)


def _temporal(node: TemporalJoin) -> tuple[State, ...]:
    if node.right_time is None:
        return ()
    return (
        State("leftState", "ordered", node.left_keys, "rows that wait", "watermark"),
        State("rightState", "ordered", node.right_keys, "keys and open versions", "watermark"),
    )


def _windowed(node: Node) -> Iterator[State]:
    match node:
        case Join():
            for side, keys in (("left", node.left_keys), ("right", node.right_keys)):
                rows = f"rows of open windows of the {side} input"
                yield State(f"{side}State", "ordered", keys, rows, "watermark")
        case Aggregate():
            yield _open_windows("windowAggregateState", node.keys)
        case TopN():
            yield _open_windows("windowRankState", node.partition_by)
        case Deduplicate():
            yield _open_windows("windowDeduplicateState", node.keys)


def _open_windows(name: str, keys: tuple[str, ...]) -> State:
    return State(name, "ordered", keys, "open windows", "watermark")


def ttl_of(options: Mapping[str, str]) -> str:
    """Read the TTL that applies where no hint says another."""
    return duration_text(options.get("table.exec.state.ttl", NEVER))
