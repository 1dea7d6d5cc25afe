"""GROUP BY: keys as they are written, and rows for groups that are not there."""

from sqlglot import exp

from pkray.relational.plan.expressions import ColumnRef, Expression
from pkray.relational.plan.nodes import Distinct, JoinKind, Project
from pkray.relational.sql.binder.calls import AggregateNames
from pkray.relational.sql.binder.context import Pair
from pkray.relational.sql.binder.from_clause.base import SUBQUERIES
from pkray.relational.sql.binder.from_clause.joins import JoinBuilder, normalized
from pkray.relational.sql.binder.grouping import GroupedScope, Grouping
from pkray.relational.sql.binder.grouping_sets import Groups, read_groups
from pkray.relational.sql.binder.outputs import Output
from pkray.relational.sql.binder.over import windows_in
from pkray.relational.sql.binder.scope import Rows
from pkray.relational.sql.binder.select_state import SelectState
from pkray.relational.sql.binder.subqueries import Subqueries, counted
from pkray.relational.sql.expressions.expressions import ExpressionBinder
from pkray.relational.sql.places import wrong


def bind_group(state: SelectState, outputs: list[Output], order: list[exp.Ordered]) -> None:
    """Bind GROUP BY and the aggregates; nothing where there are none."""
    names = AggregateNames(state.queries)
    having, qualify = state.select.args.get("having"), state.select.args.get("qualify")
    places: list[exp.Expr] = [each.node for each in outputs if each.node is not None]
    places += [each.this for each in (having, qualify) if each is not None]
    places += [each.this for each in order]
    places += state.select.args.get("windows") or ()
    calls = [call for place in places for call in names.calls_in(place)]
    group = state.select.args.get("group")
    if group is None and not calls and having is None:
        return
    state.check_residuals()
    groups = _groups(state, group, outputs, names)
    around = state.correlated
    if not groups.keys and groups.is_plain and state.correlation is not None:
        state.defers = _may_defer(state)
    grouping = Grouping(state.queries, state.base, _below(state), state.settled, state.settle)
    grouping.bind(groups, calls, around)
    if around and not groups.keys and groups.is_plain and not state.defers:
        _complete(state, grouping)
    state.grouping = grouping
    state.rows = grouping.rows
    if state.defers:
        grouping.domain = {}
    state.scope = GroupedScope(grouping, state.base, state.correlation)


def _below(state: SelectState) -> ExpressionBinder:
    scope = state.base

    def replaced(node: exp.Expr) -> Expression | None:
        found = state.in_window(node)
        if found is not None:
            return found
        state.check_plain(node)
        return Subqueries(state.queries, scope, state.bound).replaced(node)

    return ExpressionBinder(state.queries.names, scope, replaced)


def _groups(
    state: SelectState, group: exp.Group | None, outputs: list[Output], names: AggregateNames
) -> Groups:
    if group is not None and group.args.get("all"):
        keys = [
            each.node
            for each in outputs
            if each.node is not None and not any(True for _ in names.calls_in(each.node))
        ]
        group = exp.Group(expressions=[each.copy() for each in keys])
    elif group is not None and not any(group.args.values()):
        raise wrong("GROUP BY names no columns", state.select)
    return read_groups(group, lambda node: _group_key(state, node, outputs))


def _group_key(state: SelectState, node: exp.Expr, outputs: list[Output]) -> exp.Expr:
    """Find what an ordinal or an alias in GROUP BY stands for."""
    if isinstance(node, exp.Literal) and not node.is_string:
        return ordinal(state, node, outputs)
    is_name = isinstance(node, exp.Column) and not node.table
    if is_name and state.base.find((node.name,), node) is None:
        for output in outputs:
            if output.node is not None and state.base.key(output.name) == state.base.key(node.name):
                return output.node
    return node


def ordinal(state: SelectState, node: exp.Expr, outputs: list[Output]) -> exp.Expr:
    """Find the column that a number in GROUP BY or ORDER BY means."""
    text = node.name
    if not text.isdigit() or not 1 <= int(text) <= len(outputs):
        raise wrong(f"there is no column {text} in SELECT: it has {len(outputs)}", node)
    output = outputs[int(text) - 1]
    if output.node is not None:
        return output.node
    shown = next(each for each in state.base.columns if each.column == output.column)
    parts = [*shown.qualifier[-1:], shown.name]
    return exp.column(*reversed(parts), quoted=True)


def _may_defer(state: SelectState) -> bool:
    """Whether the value of this aggregate can be computed after the join with the rows around.

    A group that is not there then counts as an empty one.
    """
    args = state.select.args
    plain = not any(args.get(name) for name in ("having", "qualify", "distinct", "offset"))
    windows = any(True for each in state.select.expressions for _ in windows_in(each))
    inner = any(each.find(*SUBQUERIES) for each in state.select.expressions)
    return state.is_scalar and plain and not windows and not inner


def _complete(state: SelectState, grouping: Grouping) -> None:
    """Give a group for each value of the query around: an aggregate always has a row."""
    assert state.correlation is not None
    outer = state.correlation.outer.rows
    names = [state.queries.numbers.fresh("d") for _ in state.pairs]
    values = tuple(
        (name, normalized(pair.outer, state.dialect))
        for name, pair in zip(names, state.pairs, strict=True)
    )
    domain = Rows(Distinct(Project(outer.node, values)), state.queries.numbers)
    builder = JoinBuilder(domain, grouping.rows.node, state.dialect)
    for name, pair in zip(names, state.pairs, strict=True):
        builder.equate(domain.ref(name), builder.right.ref(pair.column), null_safe=pair.null_safe)
    joined = Rows(builder.join(JoinKind.LEFT), state.queries.numbers)
    columns: list[tuple[str, Expression]] = [(name, joined.ref(name)) for name in names]
    columns += [
        (each.name, counted(joined.ref(each.name), each.type.nullable))
        for each in grouping.rows.node.fields
        if each.name not in state.correlated
    ]
    grouping.domain = {
        pair.outer.name: name
        for name, pair in zip(names, state.pairs, strict=True)
        if isinstance(pair.outer, ColumnRef)
    }
    grouping.rows = Rows(Project(joined.node, tuple(columns)), state.queries.numbers)
    state.pairs[:] = [
        Pair(pair.outer, name, null_safe=True)
        for name, pair in zip(names, state.pairs, strict=True)
    ]
