"""Tell what each operator remembers between epochs when a plan runs continuously."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pyarrow as pa

from pkray.options.values import duration_text
from pkray.relational.plan.node import Node, State
from pkray.relational.plan.nodes import (
    Exchange,
    Expand,
    Filter,
    Hint,
    Join,
    Normalize,
    Project,
    WatermarkAssign,
)
from pkray.relational.plan.source_sides import SourceSide, source_sides

NEVER = "0 ms"
"""The TTL of state that never expires."""


def state_ttls(node: Node, default: str = NEVER) -> tuple[str, ...]:
    """List the TTL of each state that the TTL cleans: from a STATE_TTL hint, or the default.

    Args:
        default: the option ``table.exec.state.ttl``.
    """
    hinted = dict(_hinted(node))
    names = ("left", "right") if len(node.inputs) == 2 else ("",)
    return tuple(
        hinted.get(names[min(index, len(names) - 1)], default)
        for index, state in enumerate(node.states())
        if state.cleaned_by == "ttl"
    )


def kept_states(node: Node, default: str = NEVER) -> tuple[State, ...]:
    """List the tables of state of a node, and say which sides of a join are read from sources.

    Args:
        default: as of `state_ttls`; what may expire is kept.
    """
    found = node.states()
    if not isinstance(node, Join) or {NEVER} != set(state_ttls(node, default)):
        return found
    sides = source_sides(node)
    return tuple(_read(state, side) for state, side in zip(found, sides, strict=True))


def keyed_map(node: Node) -> str | None:
    """Name a column of a type that holds a MAP, by which states of an operator may be kept; None
    where there is none.
    """
    keyed = (field for each in node.keyed_columns() for field in each)
    return next((each.name for each in keyed if _holds_map(each.type.arrow)), None)


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


def ttl_of(options: Mapping[str, str]) -> str:
    """Read the TTL that applies where no hint says another."""
    return duration_text(options.get("table.exec.state.ttl", NEVER))
