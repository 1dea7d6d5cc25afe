"""Estimate how many rows a node gives."""

import math
from collections.abc import Sequence
from datetime import date, datetime
from functools import singledispatch
from typing import Any

from pkray.relational.plan import nodes
from pkray.relational.plan.expressions import Call, Cast, ColumnRef, Expression, Literal, conjuncts
from pkray.relational.plan.keys import unique_keys
from pkray.relational.plan.node import Keys

UNKNOWN_ROWS = 100_000
"""Of a source that cannot tell: between a dimension and a fact."""
_RANGE, _LIKE, _OTHER = 1 / 3, 1 / 10, 1 / 4
_COMPARISONS = ("less", "less_equal", "greater", "greater_equal")


class Estimates:
    """Estimates of one plan, each worked out once."""

    def __init__(self) -> None:
        self._rows: dict[int, float] = {}
        self._unique: dict[int, Keys] = {}
        self._nodes: list[nodes.Node] = []

    def rows(self, node: nodes.Node) -> float:
        """Estimate the number of rows, at least one."""
        if id(node) not in self._rows:
            self._nodes.append(node)  # so that no other node gets its id
            self._rows[id(node)] = max(1.0, _rows(node, self))
        return self._rows[id(node)]

    def distinct(self, node: nodes.Node, column: str) -> float:
        """Estimate the number of values of a column."""
        return max(1.0, min(self.rows(node), self._values(node, column)))

    def keys(self, node: nodes.Join) -> float:
        """Estimate the number of keys that a join's sides choose theirs from."""
        sides = (node.left, node.left_keys), (node.right, node.right_keys)
        if len(node.left_keys) > 1:
            unique = [self._all_keys(*side) for side in sides if self._is_unique(*side)]
            if unique:  # the other side's rows refer to these
                return max(unique)
        return max(self._combined(*side) for side in sides)

    def _combined(self, node: nodes.Node, columns: Sequence[str]) -> float:
        """Estimate the number of combinations of columns' values, which go together somewhat."""
        counts = sorted((self.distinct(node, column) for column in columns), reverse=True)
        found = math.prod(count ** (0.5**place) for place, count in enumerate(counts))
        return min(found, self.rows(node))

    def _is_unique(self, node: nodes.Node, columns: Sequence[str]) -> bool:
        if id(node) not in self._unique:
            self._nodes.append(node)
            self._unique[id(node)] = unique_keys(node)
        return any(key <= set(columns) for key in self._unique[id(node)])

    def _all_keys(self, node: nodes.Node, columns: Sequence[str]) -> float:
        """Count the keys that there were before filters."""
        sources = [_source_of(node, column) for column in columns]
        scans = {id(source[0]): source[0] for source in sources if source is not None}
        if len(scans) != 1 or None in sources:
            return self.rows(node)
        (scan,) = scans.values()
        names = [source[1] for source in sources if source is not None]
        return _total(scan) if self._is_unique(nodes.Scan(scan.source), names) else self.rows(node)

    def knows(self, node: nodes.Node, column: str) -> bool:
        """Whether the number of values of a column is known to be no larger than `distinct`."""
        source = _source_of(node, column)
        return source is not None and self._known_values(*source) is not None

    def _values(self, node: nodes.Node, column: str) -> float:
        source = _source_of(node, column)
        if source is None:
            return self.rows(node) ** 0.75
        known = self._known_values(*source)
        return _total(source[0]) ** 0.6 if known is None else known

    def _known_values(self, scan: nodes.Scan, name: str) -> float | None:
        """Bound the number of values of a source's column; None where nothing does."""
        total = _total(scan)
        if frozenset({name}) in unique_keys(scan):
            return total
        known = scan.source.statistics(name)
        width = _width(known.least, known.greatest)
        if width is not None and scan.fields[name].type.root in ("INT", "BIGINT", "SMALLINT"):
            return min(total, width + 1)
        return None

    def selectivity(self, condition: Expression, node: nodes.Node) -> float:
        """Estimate the part of a node's rows for which a condition is true."""
        if not isinstance(condition, Call):
            return _OTHER
        match condition.function:
            case "and":
                return math.prod(self.selectivity(each, node) for each in condition.arguments)
            case "or":
                parts = sum(self.selectivity(each, node) for each in condition.arguments)
                return min(1.0, parts)
            case "not":
                return max(0.05, 1 - self.selectivity(condition.arguments[0], node))
            case "equal" | "in":
                return self._equal(condition, node)
            case "like":
                return _LIKE
            case "is_null":
                return 0.05
            case "is_not_null" | "not_equal":
                return 0.95
        if condition.function in _COMPARISONS:
            return self._compared(condition, node)
        return _OTHER

    def _equal(self, condition: Call, node: nodes.Node) -> float:
        first = _column(condition.arguments[0])
        if first is None or first not in node.fields:
            return _LIKE
        count = len(condition.arguments) - 1
        return min(1.0, count / self.distinct(node, first))

    def _compared(self, condition: Call, node: nodes.Node) -> float:
        left, right = condition.arguments
        column, constant, below = _column(left), right, condition.function.startswith("less")
        if column is None:
            column, constant, below = _column(right), left, not below
        if column is None or not isinstance(constant, Literal):
            return _RANGE
        source = _source_of(node, column)
        if source is None:
            return _RANGE
        known = source[0].source.statistics(source[1])
        whole = _width(known.least, known.greatest)
        part = _width(known.least, constant.value)
        if not whole or part is None:
            return _RANGE
        share = min(1.0, max(0.0, part / whole))
        return max(0.001, share if below else 1 - share)


@singledispatch
def _rows(node: nodes.Node, known: Estimates) -> float:
    return known.rows(node.inputs[0]) if node.inputs else UNKNOWN_ROWS


@_rows.register
def _(node: nodes.Scan, known: Estimates) -> float:
    bare = nodes.Scan(node.source)
    return _total(node) * math.prod(
        known.selectivity(each, bare) for each in conjuncts(node.condition)
    )


@_rows.register
def _(node: nodes.Values, known: Estimates) -> float:
    return len(node.rows)


@_rows.register
def _(node: nodes.Filter, known: Estimates) -> float:
    below = node.input
    told = set(conjuncts(below.condition)) if isinstance(below, nodes.Scan) else set()
    fresh = (each for each in conjuncts(node.condition) if each not in told)
    return known.rows(below) * math.prod(known.selectivity(each, below) for each in fresh)


@_rows.register
def _(node: nodes.Aggregate, known: Estimates) -> float:
    groups = math.prod(known.distinct(node.input, key) for key in node.keys)
    return min(groups, known.rows(node.input))


@_rows.register
def _(node: nodes.Distinct, known: Estimates) -> float:
    return known.rows(node.input) / 2


@_rows.register
def _(node: nodes.Limit, known: Estimates) -> float:
    below = known.rows(node.input)
    return below if node.count is None else min(below, node.count)


@_rows.register
def _(node: nodes.SetOperation, known: Estimates) -> float:
    return known.rows(node.left) + known.rows(node.right)


@_rows.register
def _(node: nodes.Join, known: Estimates) -> float:
    left, right = known.rows(node.left), known.rows(node.right)
    matched = left * right / known.keys(node)
    match node.kind:
        case nodes.JoinKind.SEMI | nodes.JoinKind.ANTI:
            return left / 2
        case nodes.JoinKind.MARK | nodes.JoinKind.SINGLE:
            return left
        case nodes.JoinKind.LEFT:
            return max(left, matched)
        case nodes.JoinKind.RIGHT:
            return max(right, matched)
        case nodes.JoinKind.FULL:
            return max(left + right, matched)
    return matched


def _total(scan: nodes.Scan) -> float:
    count = scan.source.row_count()
    return float(UNKNOWN_ROWS if count is None else max(count, 1))


def _source_of(node: nodes.Node, column: str) -> tuple[nodes.Scan, str] | None:
    """Find where a column is read."""
    match node:
        case nodes.Scan():
            return node, column
        case nodes.Project():
            value = _column(dict(node.columns)[column])
            return None if value is None else _source_of(node.input, value)
        case nodes.Join():
            if column in node.left.fields:
                return _source_of(node.left, column)
            names = dict(zip(node.right_names, node.right.fields.names, strict=True))
            return _source_of(node.right, names[column]) if column in names else None
    below = node.inputs[0] if len(node.inputs) == 1 else None
    return _source_of(below, column) if below is not None and column in below.fields else None


def _column(value: Expression) -> str | None:
    while isinstance(value, Cast):
        value = value.operand
    return value.name if isinstance(value, ColumnRef) else None


def _width(least: Any, greatest: Any) -> float | None:
    """Measure how far two values are apart; None where that has no meaning."""
    try:
        if isinstance(least, datetime | date):
            return (greatest - least).total_seconds()
        if isinstance(least, bool | str | bytes) or least is None or greatest is None:
            return None
        return float(greatest) - float(least)
    except (TypeError, ValueError, OverflowError):
        return None
