"""Nodes that pass rows on: scans, projections, filters, orders, limits."""

from dataclasses import replace

from pkray.relational.functions.user_functions import rows_as_lists
from pkray.relational.plan import nodes
from pkray.relational.plan.expressions import ColumnRef, SortKey, UdfCall
from pkray.relational.spark_sql.constants import literal, names_of, null_of, order_of, quoted
from pkray.relational.spark_sql.writer import Writer, check_compared, write


@write.register
def _scan(node: nodes.Scan, writer: Writer) -> str:
    view = f"{writer.prefix}_source_{len(writer.scans)}"
    writer.scans[view] = node
    return f"SELECT {names_of(node.fields.names) or '1 AS `$none`'} FROM {view}"


@write.register
def _values(node: nodes.Values, writer: Writer) -> str:
    names = node.fields.names
    if not node.rows:
        nulls = (f"{null_of(each.type)} AS {quoted(each.name)}" for each in node.fields)
        return f"SELECT {', '.join(nulls) or '1 AS `$none`'} WHERE false"
    if not names:
        return f"SELECT * EXCEPT (x) FROM VALUES {', '.join(['(1)'] * len(node.rows))} AS t(x)"
    rows = ", ".join(f"({', '.join(literal(each) for each in row)})" for row in node.rows)
    return f"SELECT * FROM VALUES {rows} AS t({names_of(names)})"


@write.register
def _filter(node: nodes.Filter, writer: Writer) -> str:
    return f"SELECT * FROM {writer.name(node.input)} WHERE {writer.expression(node.condition)}"


@write.register
def _project(node: nodes.Project, writer: Writer) -> str:
    columns = ", ".join(
        f"{writer.expression(value)} AS {quoted(name)}" for name, value in node.columns
    )
    return f"SELECT {columns or '1 AS `$none`'} FROM {writer.name(node.input)}"


@write.register
def _setoperation(node: nodes.SetOperation, writer: Writer) -> str:
    if not (node.kind is nodes.SetKind.UNION and node.all):
        check_compared(node, node.fields.names)
    kind = str(node.kind).upper() + (" ALL" if node.all else "")
    left, right = writer.name(node.left), writer.name(node.right)
    return f"SELECT * FROM {left} {kind} SELECT * FROM {right}"


@write.register
def _sort(node: nodes.Sort, writer: Writer) -> str:
    return f"SELECT * FROM {writer.name(node.input)} ORDER BY {order_of(node.order_by)}"


@write.register
def _limit(node: nodes.Limit, writer: Writer) -> str:
    count = "" if node.count is None else f" LIMIT {node.count}"
    offset = f" OFFSET {node.offset}" if node.offset else ""
    below = writer.name(node.input)
    order = last_sort(node.input)
    ordered = f" ORDER BY {order_of(order)}" if order else ""
    return f"SELECT * FROM {below}{ordered}{count}{offset}"


@write.register
def _unnest(node: nodes.Unnest, writer: Writer) -> str:
    outer = "OUTER " if node.outer else ""
    call = f"{node.function}({names_of(node.arguments)})"
    if node.udf is not None:
        made = rows_as_lists(node.udf)
        fields = node.input.fields
        arguments = tuple(ColumnRef(fields[name].type, name) for name in node.arguments)
        call = f"inline({writer.expression(UdfCall(made.type, made, arguments))})"
    elif node.function == "sequence_rows":
        start, stop, step = (quoted(name) for name in node.arguments)
        numbers = f"sequence({start}, {stop}, {step})"
        call = f"explode(if(({stop} - {start}) * sign({step}) < 0, array(), {numbers}))"
    view = f"LATERAL VIEW {outer}{call} e AS {names_of(node.names)}"
    return f"SELECT {names_of(node.fields.names)} FROM {writer.name(node.input)} {view}"


def last_sort(node: nodes.Node) -> tuple[SortKey, ...] | None:
    """Find the order that a result still has: its rows were only projected since."""
    if isinstance(node, nodes.Limit):
        return last_sort(node.input)
    if isinstance(node, nodes.Project):
        kept = {value.name: name for name, value in node.columns if isinstance(value, ColumnRef)}
        order = last_sort(node.input)
        if order is None or not all(key.column in kept for key in order):
            return None
        return tuple(replace(key, column=kept[key.column]) for key in order)
    return node.order_by if isinstance(node, nodes.Sort) else None
