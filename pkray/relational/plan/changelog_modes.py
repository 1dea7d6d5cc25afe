"""Which kinds of changes flow from node to node when a plan runs continuously.

Two passes over the plan. From the bottom up: which kinds of changes a node can give, from those of
its inputs. From the top down: whether those above it need the row before an update beside the row
after it. Where a source gives no rows before updates and they are needed, the plan gets a
`Normalize`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import singledispatch
from typing import TypeAlias

from pkray.relational.plan.expressions import Call, Cast, ColumnRef, WindowCall
from pkray.relational.plan.keys import best_key, has_one_version, upsert_keys
from pkray.relational.plan.nodes import (
    Aggregate,
    Calc,
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
    Scan,
    SetKind,
    SetOperation,
    Sink,
    Sort,
    TemporalJoin,
    TopN,
    Unnest,
    Values,
    WatermarkAssign,
    Window,
    WindowKind,
)
from pkray.relational.plan.windowing import is_windowed, updates_windows

Kinds: TypeAlias = frozenset[str]

INSERT: Kinds = frozenset("I")
ALL: Kinds = frozenset("IUD")


@dataclass(frozen=True)
class ChangelogMode:
    """What a node gives.

    Attributes:
        kinds: of ``I`` (insert), ``U`` (update) and ``D`` (delete).
        before: whether an update brings the row before it.
    """

    kinds: Kinds
    before: bool = False

    @property
    def is_append(self) -> bool:
        """Whether rows are only added."""
        return self.kinds <= INSERT

    def __or__(self, other: ChangelogMode) -> ChangelogMode:
        """Give all that two takers of the same changes need."""
        return ChangelogMode(self.kinds | other.kinds, self.before or other.before)

    def names(self) -> list[str]:
        """List the row kinds: ``I``, ``UB``, ``UA``, ``D``."""
        updates = ["UB", "UA"] if self.before else ["UA"]
        return [
            *(["I"] if "I" in self.kinds else []),
            *(updates if "U" in self.kinds else []),
            *(["D"] if "D" in self.kinds else []),
        ]

    def __str__(self) -> str:
        return f"[{','.join(self.names())}]"


_FRAMELESS = (
    "lag",
    "lead",
    "row_number",
    "rank",
    "dense_rank",
    "percent_rank",
    "cume_dist",
    "ntile",
)
"""Window functions that have no frame."""
_NOW = ("current_timestamp", "localtimestamp")
Modes: TypeAlias = Mapping[int, ChangelogMode]

_PASSING = (Filter, Project, Exchange, Hint, WatermarkAssign, Expand, Unnest, Join)
"""Nodes that give the rows before updates wherever they get them."""


def changelog_modes(plan: Node, *, before: bool) -> Modes:
    """Work out the mode of each node.

    Args:
        before: whether what takes the plan's changes needs the rows before updates.

    Returns:
        a mode for each node, by the node's ``id``.
    """
    modes: dict[int, ChangelogMode] = {}
    kinds: dict[int, Kinds] = {}
    _collect_kinds(plan, kinds)
    _descend(plan, before, kinds, modes)
    return modes


def change_kinds(node: Node) -> Kinds:
    """List the kinds of changes that a node can give: of ``I``, ``U`` and ``D``."""
    return _collect_kinds(node, {})


def _collect_kinds(node: Node, found: dict[int, Kinds]) -> Kinds:
    if id(node) not in found:
        inputs = tuple(_collect_kinds(each, found) for each in node.inputs)
        found[id(node)] = _kinds(node, inputs)
    return found[id(node)]


def _descend(
    node: Node, before: bool, kinds: Mapping[int, Kinds], modes: dict[int, ChangelogMode]
) -> None:
    known = modes.get(id(node))
    before = before or is_numbered(node)
    mode = ChangelogMode(kinds[id(node)], before or (known is not None and known.before))
    if known == mode:
        return
    modes[id(node)] = mode
    for index, each in enumerate(node.inputs):
        _descend(each, _needs_before(node, index, before), kinds, modes)
    below = (modes[id(each)] for each in node.inputs)
    if isinstance(node, _PASSING) and any(each.before and "U" in each.kinds for each in below):
        modes[id(node)] = ChangelogMode(mode.kinds, before=True)


def is_numbered(node: Node) -> bool:
    """Whether a node tells of rows number by number: a row may come under one number before it
    goes under another, so that its key alone does not say which row an update takes away.
    """
    match node:
        case TopN():
            told = node.rank_name is not None or node.start > 1
            return told and _key_of(node) != {*node.partition_by}
        case Deduplicate():
            return _key_of(node) != {*node.keys}
        case Limit():
            return node.offset > 0
    return False


def _key_of(node: Node) -> set[str] | None:
    """Give the key by which the changes of a node are followed."""
    key = best_key(node, upsert_keys(node))
    return None if key is None else {*key}


def moves_rows(node: Node) -> bool:
    """Whether a key's new row may come before its old one goes."""
    return (isinstance(node, Over) and not node.waits) or is_numbered(node)


def _kinds(node: Node, inputs: tuple[Kinds, ...]) -> Kinds:
    """Work out which changes a node gives from those that it takes."""
    match node:
        case Scan():
            return INSERT if node.source.mode == "insert" else ALL
        case Values():
            return INSERT
        case Normalize():
            return ALL
        case TopN() | Deduplicate() | Join() if is_windowed(node):
            return INSERT
        case Aggregate() if is_windowed(node) and not updates_windows(node):
            return INSERT
        case Window(kind=WindowKind.SESSION):
            return INSERT
        case Aggregate():
            return INSERT | {"U"} if inputs[0] == INSERT else ALL
        case Distinct():
            return INSERT if inputs[0] == INSERT else ALL
        case Over():
            in_order = node.waits or _looks_back(node)
            return INSERT if inputs[0] == INSERT and in_order else ALL
        case Deduplicate():
            return _deduplicated(node, inputs[0])
        case Join() | IntervalJoin():
            return _joined(node, inputs)
        case TopN():
            return ALL
        case Sort() | Limit():
            ordered = isinstance(node, Sort) or isinstance(node.input, Sort)
            return INSERT if inputs[0] == INSERT and not ordered else ALL
        case SetOperation():
            both = inputs[0] | inputs[1]
            if node.kind is SetKind.UNION and node.all:
                return both
            return INSERT if both == INSERT and node.kind is not SetKind.EXCEPT else ALL
        case TemporalJoin() if node.right_time is not None:
            return INSERT if inputs[0] == INSERT else ALL
    return inputs[0]


def _deduplicated(node: Deduplicate, given: Kinds) -> Kinds:
    if given != INSERT:
        return ALL
    if node.order_by is None:
        return INSERT if node.keep_first else INSERT | {"U"}
    known = node.input.fields[node.order_by].is_rowtime or is_now(node.input, node.order_by)
    return INSERT if node.keep_first and known else ALL


def _looks_back(node: Over) -> bool:
    """Whether rows come in the order of the node, and rows that come later change no value."""
    if not node.calls:
        return True
    first = node.order_by[0] if node.order_by else None
    in_order = first is None or (is_now(node.input, first.column) and not first.descending)
    return in_order and all(_sees_none_after(call) for _, call in node.calls)


def _sees_none_after(call: WindowCall) -> bool:
    if call.function in _FRAMELESS:
        return call.function == "row_number"
    end = call.frame.end
    return call.frame.unit == "rows" and end is not None and end <= 0


def is_now(node: Node, column: str) -> bool:
    """Whether a column holds the time at which its row is handled."""
    while len(node.inputs) == 1 and column in node.fields:
        if isinstance(node, Project):
            value = dict(node.columns)[column]
            while isinstance(value, Cast):
                value = value.operand
            if not isinstance(value, ColumnRef):
                return isinstance(value, Call) and value.function in _NOW
            column = value.name
        (node,) = node.inputs
    return False


def _joined(node: Join | IntervalJoin, inputs: tuple[Kinds, ...]) -> Kinds:
    both = inputs[0] | inputs[1]
    if isinstance(node, IntervalJoin) and both == INSERT:
        return INSERT
    return both if node.kind in (JoinKind.INNER, JoinKind.SEMI) else ALL


@singledispatch
def _needs_before(node: Node, index: int, above: bool) -> bool:
    """Whether a node needs the rows before updates from one of its inputs.

    Most operators that keep state take the row before an update out of it.
    """
    return True


@_needs_before.register(Project)
@_needs_before.register(Exchange)
@_needs_before.register(Expand)
@_needs_before.register(Hint)
@_needs_before.register(WatermarkAssign)
@_needs_before.register(Sink)
@_needs_before.register(Unnest)
def _(node: Node, index: int, above: bool) -> bool:
    return above


@_needs_before.register
def _(node: RowKey, index: int, above: bool) -> bool:
    return above or not node.keys


@_needs_before.register
def _(node: Normalize, index: int, above: bool) -> bool:
    return False


@_needs_before.register
def _(node: Filter | Calc, index: int, above: bool) -> bool:
    """An update may leave what the filter keeps, unless the filter reads the key alone."""
    read = node.condition.columns()
    return above or (bool(read) and not any(read <= key for key in upsert_keys(node.input)))


@_needs_before.register
def _(node: SetOperation, index: int, above: bool) -> bool:
    return above or node.kind is not SetKind.UNION or not node.all


@_needs_before.register
def _(node: TemporalJoin, index: int, above: bool) -> bool:
    """Left rows wait for their time, and are told apart as wholes; so are versions, unless a newer
    one takes the place of the one before."""
    if index == 1:
        return node.right_time is not None and not has_one_version(node)
    return above or node.right_time is not None


@_needs_before.register
def _(node: Join, index: int, above: bool) -> bool:
    """A join replaces a row by its key, where it is found by the columns that are joined."""
    keys = (node.left_keys, node.right_keys)[index]
    known = any(key <= frozenset(keys) for key in upsert_keys(node.inputs[index]))
    return above or not known


@_needs_before.register
def _(node: Window, index: int, above: bool) -> bool:
    return True
