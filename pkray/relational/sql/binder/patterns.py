"""Shapes of plans that have a node of their own: top-n, deduplication, interval joins."""

from collections.abc import Iterable
from dataclasses import replace

from pkray.relational.plan import expressions as ir
from pkray.relational.plan import nodes
from pkray.schema.types import INTEGERS, TIMESTAMPS

_FLIPPED = {
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
    "equal": "equal",
}


def filtered(node: nodes.Node, condition: ir.Expression) -> nodes.Node:
    """Filter rows; a filter by ROW_NUMBER becomes a top-n or a deduplication."""
    parts = ir.conjuncts(condition)
    if not parts:
        return node
    for column in dict.fromkeys(found[0] for part in parts if (found := _bound(part))):
        start, end, rest = 1, None, []
        for part in parts:
            found = _bound(part)
            if found is None or found[0] != column:
                rest.append(part)
                continue
            _, low, high = found
            start = max(start, low) if low is not None else start
            if high is not None:
                end = high if end is None else min(end, high)
        if end is not None and start <= end:
            numbered = _numbered(node, column, start, end)
            if numbered is not None:
                return filtered(numbered, ir.all_of(tuple(rest))) if rest else numbered
    return nodes.Filter(node, condition)


def where(node: nodes.Node, condition: ir.Expression) -> nodes.Node:
    """Filter rows by WHERE; what makes an inner join an interval join goes into the join."""
    if isinstance(node, nodes.Join) and node.kind is nodes.JoinKind.INNER and not node.null_safe:
        return _absorbed(node, condition)
    return filtered(node, condition)


def _absorbed(join: nodes.Join, condition: ir.Expression) -> nodes.Node:
    left = set(join.left.fields.names)
    names = dict(zip(join.right_names, join.right.fields.names, strict=True))
    keys: list[tuple[str, str]] = []
    spans: list[ir.Expression] = []
    rest: list[ir.Expression] = []
    for part in ir.conjuncts(condition):
        sides = part.arguments if isinstance(part, ir.Call) and part.function == "equal" else ()
        columns = [each.name for each in sides if isinstance(each, ir.ColumnRef)]
        columns.sort(key=lambda name: name not in left)
        floats = any(each.type.root in ("FLOAT", "DOUBLE") for each in sides)
        if len(columns) == 2 and columns[0] in left and columns[1] in names and not floats:
            keys.append((columns[0], names[columns[1]]))
        elif part.columns() & left and part.columns() & set(names):
            spans.append(part)
        else:
            rest.append(part)
    made = as_interval_join(
        replace(
            join,
            left_keys=(*join.left_keys, *(one for one, _ in keys)),
            right_keys=(*join.right_keys, *(other for _, other in keys)),
            condition=ir.all_of((*ir.conjuncts(join.condition), *spans)),
        )
    )
    if isinstance(made, nodes.IntervalJoin):
        return filtered(made, ir.all_of(tuple(rest)))
    return filtered(join, condition)


def _bound(part: ir.Expression) -> tuple[str, int | None, int | None] | None:
    """Read a comparison of a column with a whole number: (column, least, greatest)."""
    if not isinstance(part, ir.Call) or part.function not in _FLIPPED or len(part.arguments) != 2:
        return None
    function, (left, right) = part.function, part.arguments
    if isinstance(_bare(left), ir.Literal):
        function, left, right = _FLIPPED[function], right, left
    column, number = _bare(left), _bare(right)
    if not isinstance(column, ir.ColumnRef) or not isinstance(number, ir.Literal):
        return None
    value = number.value
    if column.type.root not in INTEGERS or not isinstance(value, int) or isinstance(value, bool):
        return None
    low = {"equal": value, "greater": value + 1, "greater_equal": value}.get(function)
    high = {"equal": value, "less": value - 1, "less_equal": value}.get(function)
    return column.name, low, high


def _bare(expression: ir.Expression) -> ir.Expression:
    while isinstance(expression, ir.Cast) and expression.type.root in (*INTEGERS, "DECIMAL"):
        expression = expression.operand
    return expression


def _numbered(node: nodes.Node, column: str, start: int, end: int) -> nodes.Node | None:
    """Put a top-n in the place of the ROW_NUMBER that gives a column; None if none does."""
    if isinstance(node, nodes.Project):
        value = dict(node.columns).get(column)
        if not isinstance(value, ir.ColumnRef):
            return None
        below = _numbered(node.input, value.name, start, end)
        return None if below is None else replace(node, input=below)
    if isinstance(node, nodes.Filter | nodes.Hint):
        below = _numbered(node.input, column, start, end)
        return None if below is None else replace(node, input=below)
    if not isinstance(node, nodes.Over):
        return None
    calls = dict(node.calls)
    if column not in calls or calls[column].function != "row_number":
        return None
    others = tuple((name, call) for name, call in node.calls if name != column)
    rows = replace(node, calls=others) if others else node.input
    return _typed(_top(rows, node, column, start, end), column, node)


def _top(rows: nodes.Node, over: nodes.Over, column: str, start: int, end: int) -> nodes.Node:
    order = over.order_by
    if over.partition_by and (start, end) == (1, 1):
        if not order:
            return nodes.Deduplicate(rows, over.partition_by, None, True, column)
        by = rows.fields[order[0].column]
        is_time = by.type.root in TIMESTAMPS and (by.is_rowtime or not by.type.nullable)
        if len(order) == 1 and is_time:
            first = not order[0].descending
            return nodes.Deduplicate(rows, over.partition_by, by.name, first, column)
    return nodes.TopN(rows, over.partition_by, order, start, end, column)


def _typed(node: nodes.Node, column: str, over: nodes.Over) -> nodes.Node:
    """Give the number the type that ROW_NUMBER has in the dialect."""
    wanted = over.fields[column].type
    if wanted == nodes.BIGINT:
        return node
    number = ir.Cast(wanted, ir.ColumnRef(nodes.BIGINT, column))
    columns = ((name, number if name == column else ref) for name, ref in node.fields.refs)
    return nodes.Project(node, tuple(columns))


def pruned(node: nodes.Node, needed: Iterable[str]) -> nodes.Node:
    """Leave out columns of projections, and numbers of top-n, that nothing above reads."""
    wanted = set(needed)
    if isinstance(node, nodes.Project):
        kept = tuple(each for each in node.columns if each[0] in wanted) or node.columns
        below = {name for _, value in kept for name in value.columns()}
        return projected(pruned(node.input, below), kept)
    if isinstance(node, nodes.Filter):
        return replace(node, input=pruned(node.input, wanted | node.condition.columns()))
    if isinstance(node, nodes.Hint | nodes.Limit | nodes.Sort):
        order = node.order_by if isinstance(node, nodes.Sort) else ()
        return replace(node, input=pruned(node.input, wanted.union(key.column for key in order)))
    if isinstance(node, nodes.TopN | nodes.Deduplicate):
        if isinstance(node, nodes.TopN):
            read = {*node.partition_by, *(key.column for key in node.order_by)}
        else:
            read = {*node.keys, node.order_by or ""}
        below = (wanted - {node.rank_name}) | read
        rank = node.rank_name if node.rank_name in wanted else None
        return replace(node, input=pruned(node.input, below), rank_name=rank)
    if isinstance(node, nodes.Aggregate):
        return replace(node, input=pruned(node.input, node.columns_read()))
    return node


def projected(node: nodes.Node, columns: tuple[tuple[str, ir.Expression], ...]) -> nodes.Node:
    """Project, unless nothing changes; two projections are one where one of them only renames."""
    if isinstance(node, nodes.Project):
        inner = dict(node.columns)
        renames = all(isinstance(value, ir.ColumnRef) for _, value in columns)
        if renames or all(isinstance(value, ir.ColumnRef) for value in inner.values()):
            merged = tuple((name, _substituted(value, inner)) for name, value in columns)
            return projected(node.input, merged)
    return node if columns == node.fields.refs else nodes.Project(node, columns)


def _substituted(value: ir.Expression, columns: dict[str, ir.Expression]) -> ir.Expression:
    return ir.replace_columns(value, lambda column: columns[column.name])


def as_interval_join(join: nodes.Join) -> nodes.Node:
    """Make a join whose condition bounds the distance of two event times an interval join."""
    of_subquery = join.kind in (nodes.JoinKind.SINGLE, nodes.JoinKind.MARK)
    if of_subquery or any(join.null_safe) or join.null_aware:
        return join
    left = {column.name for column in join.left.fields if column.is_rowtime}
    right = {
        name
        for name, column in zip(join.right_names, join.right.fields, strict=True)
        if column.is_rowtime
    }
    if not left or not right:
        return join
    lows: dict[tuple[str, str], int] = {}
    highs: dict[tuple[str, str], int] = {}
    used: dict[tuple[str, str], list[ir.Expression]] = {}
    for part in ir.conjuncts(join.condition):
        found = _distance(part, left, right)
        if found is None:
            continue
        times, low, high = found
        used.setdefault(times, []).append(part)
        if low is not None:
            lows[times] = max(low, lows.get(times, low))
        if high is not None:
            highs[times] = min(high, highs.get(times, high))
    for times in used:
        if times in lows and times in highs and lows[times] <= highs[times]:
            rest = tuple(part for part in ir.conjuncts(join.condition) if part not in used[times])
            own = dict(zip(join.right_names, join.right.fields.names, strict=True))[times[1]]
            low, high = lows[times], highs[times]
            return nodes.IntervalJoin(*join.paired, times[0], own, low, high, ir.all_of(rest))
    return join


def _distance(
    part: ir.Expression, left: set[str], right: set[str]
) -> tuple[tuple[str, str], int | None, int | None] | None:
    """Read a bound of left time - right time, in microseconds."""
    if not isinstance(part, ir.Call) or part.function not in _FLIPPED or part.function == "equal":
        return None
    function, (one, other) = part.function, part.arguments
    first, second = _shifted(one), _shifted(other)
    if first is None or second is None:
        return None
    if first[0] in right and second[0] in left:
        function, first, second = _FLIPPED[function], second, first
    if first[0] not in left or second[0] not in right:
        return None
    bound = second[1] - first[1]
    times = (first[0], second[0])
    if function in ("less", "less_equal"):
        return times, None, bound - (function == "less")
    return times, bound + (function == "greater"), None


def _shifted(expression: ir.Expression) -> tuple[str, int] | None:
    """Read a time column with a constant added: its name, and microseconds."""
    while isinstance(expression, ir.Cast) and expression.type.root in TIMESTAMPS:
        expression = expression.operand
    if isinstance(expression, ir.ColumnRef):
        precision = expression.type.precision or 0
        return (expression.name, 0) if precision <= 6 else None
    if isinstance(expression, ir.Call) and expression.function == "plus_interval":
        time, months, micros = expression.arguments
        inner = _shifted(time)
        if (
            inner is None
            or not isinstance(months, ir.Literal)
            or not isinstance(micros, ir.Literal)
        ):
            return None
        if not months.value and micros.value is not None:
            return inner[0], inner[1] + micros.value
    return None
