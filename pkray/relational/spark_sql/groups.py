"""Groups and aggregates."""

from pkray.errors import UnsupportedError
from pkray.relational.functions.coercion import has_order
from pkray.relational.functions.user_functions import lists_as_groups
from pkray.relational.plan.expressions import AggregateCall, Call, ColumnRef, UdfCall
from pkray.relational.plan.nodes import Aggregate, Distinct, Expand, Node, Project
from pkray.relational.spark_sql.constants import (
    FLOATS,
    literal,
    order_of,
    quoted,
    type_text,
    wrapped,
)
from pkray.relational.spark_sql.writer import Writer, check_compared, write


@write.register
def _expand(node: Expand, writer: Writer) -> str:
    below = writer.name(node.input)
    columns = []
    for each in node.input.fields:
        name = quoted(each.name)
        if each.name in node.keys:
            kept = [
                number
                for number, positions in enumerate(node.sets)
                if node.keys.index(each.name) in positions
            ]
            inside = ", ".join(map(str, kept)) or "-1"
            name = f"CASE WHEN `$set` IN ({inside}) THEN {name} END AS {name}"
        columns.append(name)
    count = len(node.keys)
    ids = [
        sum(1 << (count - 1 - key) for key in range(count) if key not in positions)
        for positions in node.sets
    ]
    chosen = " ".join(f"WHEN {number} THEN {value}L" for number, value in enumerate(ids))
    columns.append(f"CASE `$set` {chosen} END AS {quoted(node.id_name)}")
    if node.number_name:
        columns.append(f"`$set` AS {quoted(node.number_name)}")
    sets = ", ".join(map(str, range(len(node.sets))))
    view = f"LATERAL VIEW explode(array({sets})) s AS `$set`"
    return f"SELECT {', '.join(columns)} FROM {below} {view}"


@write.register
def _aggregate(node: Aggregate, writer: Writer) -> str:
    below = writer.name(node.input)
    for _, call in node.aggregates:
        if call.distinct or call.function == "collect_set":
            check_compared(node.input, call.arguments)
    exact = {name: text for name in node.keys if (text := _compared(node.input, name))}
    columns = [f"first({quoted(k)}) AS {quoted(k)}" if k in exact else quoted(k) for k in node.keys]
    columns += [
        f"{_value(call, node.input, writer)} AS {quoted(name)}" for name, call in node.aggregates
    ]
    keys = [exact.get(name, quoted(name)) for name in node.keys]
    if not columns:
        return "SELECT 1 AS `$none`"
    if not node.aggregates and not exact:
        return f"SELECT DISTINCT {', '.join(columns)} FROM {below}"
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {', '.join(columns)} FROM {below}{grouped}"


def _value(call: AggregateCall, below: Node, writer: Writer) -> str:
    if call.udf is None or call.order_by or not call.arguments:
        return aggregate(call, below)
    made = lists_as_groups(call.udf, [below.fields[name].type for name in call.arguments])
    parts = (f"'arg{place}', {quoted(name)}" for place, name in enumerate(call.arguments))
    collect = "collect_set" if call.distinct else "collect_list"
    tail = f" FILTER (WHERE {quoted(call.filter)})" if call.filter else ""
    collected = f"{collect}(named_struct({', '.join(parts)})){tail}"
    assert made.arguments is not None
    lists = UdfCall(call.type, made, (ColumnRef(made.arguments[0], "lists"),))
    return writer.in_python(lists, [collected])


def _compared(node: Node, name: str) -> str:
    """Write what Spark groups by in the place of a key; empty: the key itself.

    Spark would make 0.0 and -0.0 one group, and has no groups of MAPs before version 4.
    """
    kind = node.fields[name].type
    if kind.root == "MAP" and all(map(has_order, kind.parts)):
        return f"array_sort(map_entries({quoted(name)}))"
    check_compared(node, (name,))
    value = dict(node.columns).get(name) if isinstance(node, Project) else None
    normalized = isinstance(value, Call) and value.function == "normalize_zero"
    return "" if normalized or kind.root not in FLOATS else f"CAST({quoted(name)} AS STRING)"


@write.register
def _distinct(node: Distinct, writer: Writer) -> str:
    return write(Aggregate(node.input, node.input.fields.names, ()), writer)


def aggregate(call: AggregateCall, below: Node, over: str = "") -> str:
    """Write one aggregate."""
    columns = [quoted(name) for name in call.arguments]
    kinds = [below.fields[name].type for name in call.arguments]
    tail = f" FILTER (WHERE {quoted(call.filter)})" if call.filter else ""
    tail += f" {over}" if over else ""
    distinct = "DISTINCT " if call.distinct else ""

    def plain(name: str, *arguments: str) -> str:
        return f"{name}({distinct}{', '.join(arguments)}){tail}"

    match call.function:
        case "count":
            return plain("count", *(columns or ["*"]))
        case "sum" if call.type.root == "DECIMAL" or call.type.root in FLOATS:
            return f"CAST({plain('sum', columns[0])} AS {type_text(call.type)})"
        case "sum_wrapping" if kinds[0].root != "BIGINT":
            return wrapped(plain("sum", columns[0]), call.type)
        case "sum_wrapping":
            exact = plain("sum", f"CAST({columns[0]} AS DECIMAL(38, 0))")
            high = f"pmod({exact} + 9223372036854775808BD, 18446744073709551616BD)"
            return f"CAST({high} - 9223372036854775808BD AS BIGINT)"
        case "avg_truncating":
            total = plain("sum", f"CAST({columns[0]} AS DECIMAL(38, 0))")
            counted = f"nullif({plain('count', columns[0])}, 0)"
            return f"CAST({total} div {counted} AS {type_text(call.type)})"
        case "avg" if call.type.root == "DECIMAL":
            return f"CAST({plain('avg', columns[0])} AS {type_text(call.type)})"
        case "first" | "last" | "any_value":
            nulls = ", true" if call.ignore_nulls else ""
            if call.order_by:
                break_ = "first" if call.function != "last" else "last"
                raise UnsupportedError(
                    f"{break_} with an order does not run on Spark: use engine='local', "
                    "or min_by and max_by",
                    function=call.function,
                )
            return f"{call.function}({columns[0]}{nulls}){tail}"
        case "listagg":
            return _listagg(call, columns, distinct, tail)
        case "approx_count_distinct":
            return f"count(DISTINCT {columns[0]}){tail}"
        case "mode":
            return f"{plain('mode', columns[0], 'true')}"
        case "percentile_cont" | "percentile_disc":
            down = " DESC" if call.order_by and call.order_by[0].descending else ""
            within = f"WITHIN GROUP (ORDER BY {columns[0]}{down})"
            shares = ", ".join(map(literal, call.parameters))
            shares = f"array({shares})" if call.type.root == "ARRAY" else shares
            text = f"{call.function}({distinct}{shares}) {within}{tail}"
            return f"CAST({text} AS {type_text(call.type)})"
    if call.udf is not None or call.order_by:
        name = call.udf.name if call.udf else call.function
        raise UnsupportedError(
            f"the aggregate {name} does not run on Spark: use engine='local'", function=name
        )
    arguments = [*columns, *(literal(each) for each in call.parameters)]
    return f"CAST({plain(call.function, *arguments)} AS {type_text(call.type)})"


def _listagg(call: AggregateCall, columns: list[str], distinct: str, tail: str) -> str:
    separator = ", ".join(literal(each) for each in call.parameters) or "','"
    order = f" WITHIN GROUP (ORDER BY {order_of(call.order_by)})" if call.order_by else ""
    return f"listagg({distinct}{columns[0]}, {separator}){order}{tail}"
