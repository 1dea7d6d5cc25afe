"""What people should know of a plan before it runs continuously."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pkray.relational.functions.function import function
from pkray.relational.plan.aggregates import facts
from pkray.relational.plan.changelog_modes import INSERT, change_kinds
from pkray.relational.plan.expressions import Call, Expression
from pkray.relational.plan.nodes import (
    Aggregate,
    Calc,
    Deduplicate,
    Filter,
    Limit,
    Node,
    Over,
    Project,
    Scan,
    Sort,
    TemporalJoin,
    TopN,
)
from pkray.relational.plan.over import depends_on_arrival
from pkray.relational.plan.state import NEVER, kept_states, state_ttls
from pkray.relational.plan.total_rows import lacks_row

_RANKINGS = ("rank", "dense_rank", "row_number", "percent_rank", "cume_dist", "ntile")
_FLOATS = ("FLOAT", "DOUBLE")


@dataclass(frozen=True)
class Lint:
    """One remark on a node.

    Attributes:
        code: ``unbounded-state``, ``not-determined``, ``rewrites`` or ``not-exact``.
        text: what happens and what to do.
    """

    code: str
    text: str


def lints(node: Node, default_ttl: str = NEVER) -> tuple[Lint, ...]:
    """List the remarks on one node of a physical plan."""
    return (
        *_unbounded(node, default_ttl),
        *_undetermined(node),
        *_rewriting(node),
        *_inexact(node),
    )


def _unbounded(node: Node, default_ttl: str) -> Iterator[Lint]:
    ttls = iter(state_ttls(node, default_ttl))
    for state in kept_states(node, default_ttl):
        grows = state.grows_with != "one row" and state.shape != "source"
        if state.cleaned_by == "ttl" and next(ttls) == NEVER and grows:
            yield Lint(
                "unbounded-state",
                f"{state.name} grows with {state.grows_with}: set table.exec.state.ttl or a "
                "STATE_TTL hint if old ones may be forgotten",
            )


def _undetermined(node: Node) -> Iterator[Lint]:
    if change_kinds(node) == {"I"}:
        return
    for name in sorted({each for part in _expressions(node) for each in _volatile(part)}):
        yield Lint(
            "not-determined",
            f"{name}() gives another value when a row is taken back, so that what it gave is not "
            "found again: compute it before the first operator with state, or store it in a table",
        )


def _rewriting(node: Node) -> Iterator[Lint]:
    match node:
        case Over(partition_by=(), waits=False) if _ranks(node):
            yield Lint("rewrites", "ranks without a partition: one change can move every row")
        case TopN(partition_by=()) if node.rank_name:
            yield Lint("rewrites", f"one change can move up to {node.end} ranks")
        case Sort():
            yield Lint("rewrites", "an order over all rows has no meaning in a stream of changes")


def _ranks(node: Over) -> bool:
    return any(call.function in _RANKINGS for _, call in node.calls)


def _inexact(node: Node) -> Iterator[Lint]:
    match node:
        case Scan() if node.source.begins_late:
            yield Lint("not-exact", f"{late_rows(node)}: the result has nothing of them")
        case Limit() if not isinstance(node.input, Sort):
            yield Lint("not-exact", "which rows a LIMIT without ORDER BY keeps depends on arrival")
        case TopN() | Deduplicate(order_by=str()):
            yield Lint("not-exact", "rows that are equal in the order are kept by their arrival")
        case Over() if depends_on_arrival(node):
            yield Lint("not-exact", "rows that are equal in the order of OVER stand by arrival")
        case Deduplicate():
            yield Lint("not-exact", "the first and the last row of a key depend on arrival")
        case TemporalJoin(right_time=None):
            yield Lint("not-exact", "a lookup join sees the right side when a row is handled")
        case Aggregate():
            yield from _inexact_aggregates(node)
        case Project() | Filter() if change_kinds(node.input) == INSERT:
            for name in sorted({n for part in _expressions(node) for n in _volatile(part)}):
                yield Lint("not-exact", f"{name}() depends on when a row comes, or on chance")


def late_rows(scan: Scan) -> str:
    """Say which rows are not read, as continuous reads of a source begin with changes."""
    said = ", ".join(f"{key} {value}" for key, value in scan.options) or "its options"
    return f"rows of {scan.source.name} that did not change since {said} are not read"


def _inexact_aggregates(node: Aggregate) -> Iterator[Lint]:
    retracts = "D" in change_kinds(node.input) or "U" in change_kinds(node.input)
    for name, call in node.aggregates:
        types = [node.input.fields[column].type.root for column in call.arguments]
        if facts(call.function).by_arrival and not call.order_by:
            yield Lint("not-exact", f"{name} depends on the order of arrival")
        if retracts and facts(call.function).sums and types[0] in _FLOATS:
            yield Lint("not-exact", f"{name} sums floating numbers: equal within rounding only")
    if lacks_row(node):
        yield Lint("not-exact", "a global aggregate over no rows gives no row before its first")


def _expressions(node: Node) -> Iterator[Expression]:
    match node:
        case Project():
            yield from (value for _, value in node.columns)
            if isinstance(node, Calc):
                yield node.condition
        case Filter():
            yield node.condition


def _volatile(expression: Expression) -> Iterator[str]:
    for part in expression.walk():
        if isinstance(part, Call) and not function(part.function).deterministic:
            yield part.function
