"""ORDER BY, DISTINCT and LIMIT: the end of a SELECT."""

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from pkray.relational.plan.expressions import ColumnRef, Expression, Literal, SortKey, UdfCall
from pkray.relational.plan.nodes import Distinct, Limit, Project, Sort, TopN
from pkray.relational.sql.binder.clauses import read_limit
from pkray.relational.sql.binder.context import BoundQuery
from pkray.relational.sql.binder.from_clause.joins import normalized, renamed
from pkray.relational.sql.binder.group_by import ordinal
from pkray.relational.sql.binder.outputs import Output
from pkray.relational.sql.binder.over import check_sortable, sort_key, unique_keys
from pkray.relational.sql.binder.patterns import pruned
from pkray.relational.sql.binder.scope import Rows
from pkray.relational.sql.binder.select_state import SelectState
from pkray.relational.sql.places import unsupported, wrong


def finished(
    state: SelectState, outputs: list[Output], values: list[Expression], order: list[exp.Ordered]
) -> BoundQuery:
    """Project, sort, make distinct and limit."""
    names = tuple(output.name for output in outputs)
    limit, offset = read_limit(state.queries, state.select)
    distinct = state.select.args.get("distinct")
    if distinct is not None and distinct.args.get("on"):
        raise unsupported(
            "DISTINCT ON is not offered: QUALIFY ROW_NUMBER() OVER (…) = 1 does the same",
            state.select,
        )
    if state.defers:
        return BoundQuery(state.rows.node, names, names, tuple(state.pairs), values=tuple(values))
    if distinct is not None or limit is not None or offset:
        state.check_residuals()
    keys, sorted_by, later = _keys(state, outputs, values, order, is_distinct=distinct is not None)
    if distinct is not None:
        values = [normalized(value, state.dialect) for value in values]
    columns = [*zip(names, values, strict=True), *_added(state, names, values)]
    wanted = [name for name, _ in columns]
    project = Project(state.rows.node, (*columns, *sorted_by))
    rows = Rows(project, state.queries.numbers)
    if distinct is not None:
        rows.node = Distinct(rows.node)
    rows.add(later)
    _sort(state, rows, keys, limit, offset)
    if sorted_by or later:
        rows.node = Project(rows.node, tuple((name, rows.ref(name)) for name in wanted))
    node = pruned(rows.node, wanted)
    is_single = (
        state.grouping is not None
        and not state.grouping.groups.keys
        and state.grouping.groups.is_plain
        and not any(state.select.args.get(name) for name in ("having", "qualify", "offset"))
        and limit != 0
    )
    return BoundQuery(
        node, names, names, tuple(state.pairs), tuple(state.residuals), is_single=is_single
    )


def _added(
    state: SelectState, names: tuple[str, ...], values: list[Expression]
) -> list[tuple[str, Expression]]:
    """List the columns that the join with the query around needs besides those of SELECT."""
    needed = dict.fromkeys(state.correlated)
    for residual in state.residuals:
        needed.update(dict.fromkeys(sorted(residual.columns())))
    taken = {name.lower() for name in names}
    given = dict(zip(values, names, strict=True))
    added: list[tuple[str, Expression]] = []
    called: dict[str, str] = {}
    for column in needed:
        reference = state.rows.ref(column)
        name = given.get(reference)
        if name is None:
            name = state.rows.fresh("c") if column.lower() in taken else column
            added.append((name, reference))
        called[column] = name
    state.pairs = [replace(pair, column=called[pair.column]) for pair in state.pairs]
    state.residuals = [renamed(each, called) for each in state.residuals]
    return added


def _keys(
    state: SelectState,
    outputs: list[Output],
    values: list[Expression],
    order: list[exp.Ordered],
    *,
    is_distinct: bool,
) -> tuple[tuple[SortKey, ...], list[tuple[str, Expression]], list[tuple[str, Expression]]]:
    """Bind ORDER BY; give the columns to add for it, and those to add after DISTINCT."""
    added: list[tuple[str, Expression]] = []
    later: list[tuple[str, Expression]] = []
    keys = []
    by_value = {
        value: output.name for output, value in reversed([*zip(outputs, values, strict=True)])
    }
    for each in order:
        value = _order_value(state, each.this, outputs, values)
        if isinstance(value, Literal):
            continue
        check_sortable(value, each)
        name = by_value.get(value)
        if name is None:
            of_selected = _of_selected(value, by_value) if is_distinct else value
            if of_selected is None:
                raise wrong(
                    "ORDER BY of SELECT DISTINCT is by columns of SELECT: select what it is "
                    "ordered by",
                    each,
                )
            name = state.rows.fresh("o")
            (later if is_distinct else added).append((name, of_selected))
            if not is_distinct:
                by_value[value] = name
        keys.append(sort_key(name, each))
    return unique_keys(iter(keys)), added, later


def _of_selected(value: Expression, names: Mapping[Expression, str]) -> Expression | None:
    """Compute a value of columns of SELECT alone, by their names; None where that cannot be."""
    if value in names:
        return ColumnRef(value.type, names[value])
    if isinstance(value, ColumnRef | UdfCall):
        return None
    operands = [_of_selected(each, names) for each in value.operands()]
    known = tuple(each for each in operands if each is not None)
    return value.with_operands(known) if len(known) == len(operands) else None


def _order_value(
    state: SelectState, node: exp.Expr, outputs: list[Output], values: list[Expression]
) -> Expression:
    if isinstance(node, exp.Literal) and not node.is_string:
        ordinal(state, node, outputs)
        return values[int(node.name) - 1]
    if isinstance(node, exp.Column) and not node.table:
        for output, value in zip(outputs, values, strict=True):
            if state.base.key(output.name) == state.base.key(node.name):
                return value
    return state.bound(node)


def _sort(
    state: SelectState, rows: Rows, keys: tuple[SortKey, ...], limit: int | None, offset: int
) -> None:
    if state.correlated and (limit is not None or offset):
        end = offset + (limit if limit is not None else 2**62)
        if limit == 0:
            rows.node = Limit(rows.node, 0)
        else:
            rows.node = TopN(rows.node, tuple(state.correlated), keys, offset + 1, end)
        return
    if keys:
        rows.node = Sort(rows.node, keys)
    if limit is not None or offset:
        rows.node = Limit(rows.node, limit, offset)
