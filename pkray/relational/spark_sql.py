"""Plans as Spark SQL: each node a common table expression, every cast and every order written out.

The text means what the plan means in a session with ANSI mode on, the time zone UTC and names told
apart by case. What Spark has no function for runs in a Python function over Arrow batches, by the
same kernel that the local engine uses: `SparkSql.kernels` lists these, for whoever runs the text to
register.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import singledispatchmethod
from typing import Any

from pkray.errors import UnsupportedError
from pkray.relational.functions.function import NO_SPARK, function
from pkray.relational.plan.expressions import (
    TRUE,
    AggregateCall,
    Call,
    Case,
    Cast,
    ColumnRef,
    Expression,
    Frame,
    Lambda,
    Literal,
    SortKey,
    UdfCall,
    WindowCall,
)
from pkray.relational.plan.fields import Field
from pkray.relational.plan.nodes import (
    Aggregate,
    Deduplicate,
    Distinct,
    Expand,
    Filter,
    IntervalJoin,
    Join,
    JoinKind,
    Limit,
    Node,
    Over,
    Project,
    Scan,
    SetOperation,
    Sort,
    TemporalJoin,
    TopN,
    Unnest,
    Values,
    Window,
    WindowKind,
)
from pkray.schema.types import DataType

_FLOATS = ("FLOAT", "DOUBLE")
_SUFFIXES = {"TINYINT": "Y", "SMALLINT": "S", "INT": "", "BIGINT": "L"}
_LEAST = {"TINYINT": -(2**7), "SMALLINT": -(2**15), "INT": -(2**31), "BIGINT": -(2**63)}
_TYPES = {"CHAR": "STRING", "VARCHAR": "STRING", "VARBINARY": "BINARY", "BYTES": "BINARY"}
_JOINS = {
    JoinKind.INNER: "JOIN",
    JoinKind.LEFT: "LEFT JOIN",
    JoinKind.RIGHT: "RIGHT JOIN",
    JoinKind.FULL: "FULL JOIN",
    JoinKind.SEMI: "LEFT SEMI JOIN",
    JoinKind.ANTI: "LEFT ANTI JOIN",
}
_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")


@dataclass
class SparkSql:
    """Writes plans as Spark SQL.

    Attributes:
        prefix: what the names of views and functions begin with.
        scans: the scans that the text reads as views, by the views' names.
        kernels: the calls that run in Python, by the functions' names; their arguments are
            ColumnRefs to ``arg0``, ``arg1`` ….
    """

    prefix: str = "pkray"
    scans: dict[str, Scan] = field(default_factory=dict)
    kernels: dict[str, Call | UdfCall] = field(default_factory=dict)
    _parts: list[str] = field(default_factory=list)
    _names: dict[int, str] = field(default_factory=dict)

    def query(self, plan: Node) -> str:
        """Write a plan as one query whose columns have exactly the plan's types."""
        last = self._name(plan)
        columns = ", ".join(self._as_declared(each) for each in plan.fields)
        order = _last_sort(plan)
        ordered = f"\nORDER BY {_order(order)}" if order else ""
        if not self._parts:
            return f"SELECT {columns} FROM {last}{ordered}"
        parts = ",\n".join(self._parts)
        return f"WITH {parts}\nSELECT {columns} FROM {last}{ordered}"

    def _as_declared(self, column: Field) -> str:
        name = quoted(column.name)
        return f"CAST({name} AS {type_text(column.type)}) AS {name}"

    def _name(self, node: Node) -> str:
        """Write a node, once, and give the name by which others read it."""
        if id(node) not in self._names:
            text = self._write(node)
            self._names[id(node)] = f"n{len(self._names)}"
            self._parts.append(f"{self._names[id(node)]} AS (\n  {text}\n)")
        return self._names[id(node)]

    @singledispatchmethod
    def _write(self, node: Node) -> str:
        """Write one node; what says something about rows without changing them gives its input."""
        return f"SELECT * FROM {self._name(node.inputs[0])}"

    @_write.register
    def _(self, node: Scan) -> str:
        view = f"{self.prefix}_source_{len(self.scans)}"
        self.scans[view] = node
        return f"SELECT {_list(node.fields.names) or '1 AS `$none`'} FROM {view}"

    @_write.register
    def _(self, node: Values) -> str:
        names = node.fields.names
        if not node.rows:
            nulls = (f"{_null(each.type)} AS {quoted(each.name)}" for each in node.fields)
            return f"SELECT {', '.join(nulls)} WHERE false"
        if not names:
            return f"SELECT * EXCEPT (x) FROM VALUES {', '.join(['(1)'] * len(node.rows))} AS t(x)"
        rows = ", ".join(f"({', '.join(literal(each) for each in row)})" for row in node.rows)
        return f"SELECT * FROM VALUES {rows} AS t({_list(names)})"

    @_write.register
    def _(self, node: Filter) -> str:
        return f"SELECT * FROM {self._name(node.input)} WHERE {self.expression(node.condition)}"

    @_write.register
    def _(self, node: Project) -> str:
        columns = ", ".join(
            f"{self.expression(value)} AS {quoted(name)}" for name, value in node.columns
        )
        return f"SELECT {columns or '1 AS `$none`'} FROM {self._name(node.input)}"

    @_write.register
    def _(self, node: Expand) -> str:
        below = self._name(node.input)
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

    @_write.register
    def _(self, node: Aggregate) -> str:
        below = self._name(node.input)
        exact = [name for name in node.keys if self._needs_bits(node.input, name)]
        columns = [
            f"first({quoted(k)}) AS {quoted(k)}" if k in exact else quoted(k) for k in node.keys
        ]
        columns += [
            f"{self.aggregate(call, node.input)} AS {quoted(name)}"
            for name, call in node.aggregates
        ]
        keys = [f"CAST({quoted(k)} AS STRING)" if k in exact else quoted(k) for k in node.keys]
        if not node.aggregates and not exact:
            return f"SELECT DISTINCT {', '.join(columns)} FROM {below}"
        grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
        return f"SELECT {', '.join(columns)} FROM {below}{grouped}"

    def _needs_bits(self, node: Node, name: str) -> bool:
        """Whether 0.0 and -0.0 are two groups, which Spark would make one."""
        if node.fields[name].type.root not in _FLOATS:
            return False
        value = dict(node.columns).get(name) if isinstance(node, Project) else None
        return not (isinstance(value, Call) and value.function == "normalize_zero")

    @_write.register
    def _(self, node: Distinct) -> str:
        return self._write(Aggregate(node.input, node.input.fields.names, ()))

    @_write.register
    def _(self, node: Join) -> str:
        if node.kind is JoinKind.MARK:
            return self._mark(node)
        if node.kind is JoinKind.ANTI and node.null_aware:
            unmatched, unknown = self._unmatched(node), self._unknown(node)
            below = self._name(node.left)
            right = self._right(node)
            return f"SELECT * FROM {below} LEFT ANTI JOIN {right} ON {unmatched} OR ({unknown})"
        if node.kind is JoinKind.SINGLE:
            return self._single(node)
        names = node.left.fields.names + (node.right_names if node.kind.keeps_right else ())
        left, right = self._name(node.left), self._right(node)
        on = self._on(node)
        joined = f"{left} {_JOINS[node.kind]} {right} ON {on}"
        if on == "true" and node.kind is JoinKind.INNER:
            joined = f"{left} CROSS JOIN {right}"
        return f"SELECT {_list(names) or '1 AS `$none`'} FROM {joined}"

    def _right(self, node: Join | IntervalJoin | TemporalJoin) -> str:
        pairs = zip(node.right.fields.names, node.right_names, strict=True)
        columns = ", ".join(f"{quoted(name)} AS {quoted(new)}" for name, new in pairs)
        return f"(SELECT {columns or '1 AS `$one`'} FROM {self._name(node.right)})"

    def _keys(self, node: Join | IntervalJoin | TemporalJoin) -> list[tuple[str, str]]:
        renamed = dict(zip(node.right.fields.names, node.right_names, strict=True))
        pairs = zip(node.left_keys, node.right_keys, strict=True)
        return [(quoted(left), quoted(renamed[right])) for left, right in pairs]

    def _on(self, node: Join, *, skip: int = 0) -> str:
        safe = node.null_safe or (False,) * len(node.left_keys)
        parts = [
            f"{left} {'<=>' if each else '='} {right}"
            for (left, right), each in list(zip(self._keys(node), safe, strict=True))[skip:]
        ]
        if node.condition != TRUE:
            parts.append(self.expression(node.condition))
        return " AND ".join(parts) or "true"

    def _unmatched(self, node: Join) -> str:
        return f"({self._on(node)})"

    def _unknown(self, node: Join) -> str:
        """Write what pairs a row with one that it may equal: one of the two keys is NULL."""
        left, right = self._keys(node)[0]
        return f"({left} IS NULL OR {right} IS NULL) AND {self._on(node, skip=1)}"

    def _mark(self, node: Join) -> str:
        """Write the matched rows and the others as two queries: Spark has no join that marks."""
        left, right = self._name(node.left), self._right(node)
        columns, mark = _list(node.left.fields.names), quoted(node.mark_name or "")
        on = self._on(node)

        def marked(value: str, joins: str) -> str:
            return f"SELECT {columns}, {value} AS {mark} FROM {left} {joins}"

        matched = marked("true", f"LEFT SEMI JOIN {right} ON {on}")
        if not node.null_aware:
            return f"{matched} UNION ALL {marked('false', f'LEFT ANTI JOIN {right} ON {on}')}"
        unknown = self._unknown(node)
        others = f"(SELECT * FROM {left} LEFT ANTI JOIN {right} ON {on})"
        null = (
            f"SELECT {columns}, CAST(NULL AS BOOLEAN) AS {mark} "
            f"FROM {others} LEFT SEMI JOIN {right} ON {unknown}"
        )
        false = marked("false", f"LEFT ANTI JOIN {right} ON ({on}) OR ({unknown})")
        return f"{matched} UNION ALL {null} UNION ALL {false}"

    def _single(self, node: Join) -> str:
        """Write a scalar subquery as a join with groups that are checked to have one row."""
        if node.condition != TRUE:
            raise UnsupportedError(
                "a scalar subquery that is correlated by more than equality does not run on Spark: "
                "run it with engine='local', or aggregate in the subquery",
                node="Join",
            )
        left, right, keys = self._name(node.left), self._right(node), self._keys(node)
        grouped = [name for _, name in keys]
        values = [quoted(name) for name in node.right_names]
        reason = "'a scalar subquery gives more than one row'"
        checked = [
            name
            if name in grouped
            else f"first(if(`$rows` > 1, raise_error({reason}), {name})) AS {name}"
            for name in values
        ]
        partition = f"PARTITION BY {', '.join(grouped)}" if grouped else ""
        counted = f"(SELECT *, count(*) OVER ({partition}) AS `$rows` FROM {right})"
        by = f" GROUP BY {', '.join(grouped)}" if grouped else ""
        one = f"(SELECT {', '.join(checked)} FROM {counted}{by})"
        columns = ", ".join([*map(quoted, node.left.fields.names), *values])
        return f"SELECT {columns} FROM {left} LEFT JOIN {one} ON {self._on(node)}"

    @_write.register
    def _(self, node: IntervalJoin) -> str:
        renamed = dict(zip(node.right.fields.names, node.right_names, strict=True))
        parts = [f"{left} = {right}" for left, right in self._keys(node)]
        near = f"{_micros(node.left_time)} - {_micros(renamed[node.right_time])}"
        parts.append(f"{near} BETWEEN {node.lower}L AND {node.upper}L")
        if node.condition != TRUE:
            parts.append(self.expression(node.condition))
        names = node.left.fields.names + (node.right_names if node.kind.keeps_right else ())
        left, right = self._name(node.left), self._right(node)
        on = " AND ".join(parts)
        return f"SELECT {_list(names)} FROM {left} {_JOINS[node.kind]} {right} ON {on}"

    @_write.register
    def _(self, node: TemporalJoin) -> str:
        """Write rows and versions in one order, and take the last version before each row."""
        if node.condition != TRUE:
            raise UnsupportedError(
                "a temporal join with a further condition does not run on Spark: filter after it",
                node="TemporalJoin",
            )
        renamed = dict(zip(node.right.fields.names, node.right_names, strict=True))
        if node.right_time is None:
            kind = JoinKind(node.kind)
            return self._write(
                Join(node.left, node.right, kind, node.left_keys, node.right_keys, node.right_names)
            )
        left, right, keys = self._name(node.left), self._right(node), self._keys(node)
        row = f"struct({_list(node.left.fields.names)})"
        version = f"struct({_list(node.right_names)})"
        left_keys = ", ".join(f"{name} AS `$k{i}`" for i, (name, _) in enumerate(keys))
        right_keys = ", ".join(f"{name} AS `$k{i}`" for i, (_, name) in enumerate(keys))
        by = ", ".join(f"`$k{i}`" for i in range(len(keys)))
        known = " AND ".join(f"`$k{i}` IS NOT NULL" for i in range(len(keys)))
        events = (
            f"SELECT {left_keys}, {_micros(node.left_time)} AS `$t`, 1 AS `$side`, "
            f"{row} AS `$row`, NULL AS `$version` FROM {left} UNION ALL "
            f"SELECT {right_keys}, {_micros(renamed[node.right_time])}, 0, NULL, {version} "
            f"FROM {right}"
        )
        last = (
            f"if({known}, last_value(`$version`) IGNORE NULLS OVER (PARTITION BY {by} "
            "ORDER BY `$t`, `$side` ROWS UNBOUNDED PRECEDING), NULL) AS `$version`"
        )
        matched = f"(SELECT `$side`, `$row`, {last} FROM ({events}))"
        where = "`$side` = 1"
        if node.kind is JoinKind.INNER:
            where += " AND `$version` IS NOT NULL"
        return f"SELECT `$row`.*, `$version`.* FROM {matched} WHERE {where}"

    @_write.register
    def _(self, node: Window) -> str:
        below, kind = self._name(node.input), node.input.fields[node.time].type
        absent = f"raise_error('the time column {_plain(node.time)} is NULL')"
        known = f"if({quoted(node.time)} IS NULL, {absent}, {_micros(node.time)})"
        if node.kind is WindowKind.SESSION:
            bounds = self._sessions(node, below, known)
        else:
            bounds = f"(SELECT *, {known} AS `$t` FROM {below}) {_views(node)}"
        start, end, last = node.names
        columns = [
            *map(quoted, node.input.fields.names),
            f"{_moment('`$start`', kind)} AS {quoted(start)}",
            f"{_moment('`$end`', kind)} AS {quoted(end)}",
            f"{_moment('`$end` - 1000', kind)} AS {quoted(last)}",
        ]
        return f"SELECT {', '.join(columns)} FROM {bounds}"

    def _sessions(self, node: Window, below: str, known: str) -> str:
        by = [quoted(name) for name in node.partition_by]
        partition = f"PARTITION BY {', '.join(by)} " if by else ""
        gap = f"`$t` - lag(`$t`) OVER ({partition}ORDER BY `$t`)"
        timed = f"SELECT *, {known} AS `$t` FROM {below}"
        begins = f"SELECT *, if({gap} <= {node.size}L, 0, 1) AS `$new` FROM ({timed})"
        before = f"{partition}ORDER BY `$t` RANGE UNBOUNDED PRECEDING"
        numbered = f"SELECT *, sum(`$new`) OVER ({before}) AS `$session` FROM ({begins})"
        whole = f"PARTITION BY {', '.join([*by, '`$session`'])}"
        return (
            f"(SELECT *, min(`$t`) OVER ({whole}) AS `$start`, "
            f"max(`$t`) OVER ({whole}) + {node.size}L AS `$end` FROM ({numbered}))"
        )

    @_write.register
    def _(self, node: Over) -> str:
        by = f"PARTITION BY {_list(node.partition_by)} " if node.partition_by else ""
        order = f"ORDER BY {_order(node.order_by)}" if node.order_by else ""
        columns = [
            f"{self._over(call, node, by, order)} AS {quoted(name)}" for name, call in node.calls
        ]
        return f"SELECT *, {', '.join(columns)} FROM {self._name(node.input)}"

    def _over(self, call: WindowCall, node: Over, by: str, order: str) -> str:
        value, further = call.arguments[:1], call.arguments[1:]
        constants = map(literal, call.parameters)
        arguments = [*map(quoted, value), *constants, *map(quoted, further)]
        nulls = " IGNORE NULLS" if call.ignore_nulls else ""
        if call.function in _RANKINGS or call.function in ("lag", "lead"):
            over = f"OVER ({by}{order})"
            return f"{call.function}({', '.join(arguments)}){nulls} {over}"
        over = f"OVER ({by}{order} {_frame(call.frame, node)})"
        if call.function in ("first_value", "last_value", "nth_value"):
            return f"{call.function}({', '.join(arguments)}){nulls} {over}"
        plain = AggregateCall(
            call.function,
            call.arguments,
            call.type,
            parameters=call.parameters,
            ignore_nulls=call.ignore_nulls,
        )
        return self.aggregate(plain, node.input, over)

    @_write.register
    def _(self, node: TopN) -> str:
        by = f"PARTITION BY {_list(node.partition_by)} " if node.partition_by else ""
        over = f"{by}ORDER BY {', '.join([*filter(None, [_order(node.order_by)]), '`$arrival`'])}"
        return self._numbered(node, over, node.start, node.end)

    @_write.register
    def _(self, node: Deduplicate) -> str:
        direction = "ASC" if node.keep_first else "DESC"
        time = f"{quoted(node.order_by)} {direction}, " if node.order_by else ""
        over = f"PARTITION BY {_list(node.keys)} ORDER BY {time}`$arrival` {direction}"
        return self._numbered(node, over, 1, 1)

    def _numbered(self, node: TopN | Deduplicate, over: str, start: int, end: int) -> str:
        """Write rows whose number is in a range; equal ones are numbered as they come."""
        name = quoted(node.rank_name or "$number")
        number = f"CAST(row_number() OVER ({over}) AS BIGINT) AS {name}"
        below = (
            f"SELECT *, monotonically_increasing_id() AS `$arrival` FROM {self._name(node.input)}"
        )
        rows = f"(SELECT *, {number} FROM ({below}))"
        return (
            f"SELECT {_list(node.fields.names)} FROM {rows} WHERE {name} BETWEEN {start} AND {end}"
        )

    @_write.register
    def _(self, node: SetOperation) -> str:
        kind = str(node.kind).upper() + (" ALL" if node.all else "")
        left, right = self._name(node.left), self._name(node.right)
        return f"SELECT * FROM {left} {kind} SELECT * FROM {right}"

    @_write.register
    def _(self, node: Sort) -> str:
        return f"SELECT * FROM {self._name(node.input)} ORDER BY {_order(node.order_by)}"

    @_write.register
    def _(self, node: Limit) -> str:
        count = "" if node.count is None else f" LIMIT {node.count}"
        offset = f" OFFSET {node.offset}" if node.offset else ""
        below = self._name(node.input)
        order = _last_sort(node.input)
        ordered = f" ORDER BY {_order(order)}" if order else ""
        return f"SELECT * FROM {below}{ordered}{count}{offset}"

    @_write.register
    def _(self, node: Unnest) -> str:
        if node.udf is not None:
            raise UnsupportedError(
                f"the table function {node.udf.name} does not run on Spark: use engine='local'",
                node="Unnest",
            )
        outer = "OUTER " if node.outer else ""
        call = f"{node.function}({_list(node.arguments)})"
        view = f"LATERAL VIEW {outer}{call} e AS {_list(node.names)}"
        return f"SELECT * FROM {self._name(node.input)} {view}"

    def aggregate(self, call: AggregateCall, below: Node, over: str = "") -> str:
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
            case "sum" if call.type.root == "DECIMAL" or call.type.root in _FLOATS:
                return f"CAST({plain('sum', columns[0])} AS {type_text(call.type)})"
            case "sum_wrapping" if kinds[0].root != "BIGINT":
                return _wrapped(plain("sum", columns[0]), call.type)
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
                return self._listagg(call, columns, distinct, tail)
            case "approx_count_distinct":
                return f"count(DISTINCT {columns[0]}){tail}"
            case "mode":
                return f"{plain('mode', columns[0], 'true')}"
            case "percentile_cont" | "percentile_disc":
                down = " DESC" if call.order_by and call.order_by[0].descending else ""
                within = f"WITHIN GROUP (ORDER BY {columns[0]}{down})"
                text = f"{call.function}({distinct}{literal(call.parameters[0])}) {within}{tail}"
                return f"CAST({text} AS {type_text(call.type)})"
        if call.udf is not None or call.order_by:
            name = call.udf.name if call.udf else call.function
            raise UnsupportedError(
                f"the aggregate {name} does not run on Spark: use engine='local'", function=name
            )
        arguments = [*columns, *(literal(each) for each in call.parameters)]
        return f"CAST({plain(call.function, *arguments)} AS {type_text(call.type)})"

    def _listagg(self, call: AggregateCall, columns: list[str], distinct: str, tail: str) -> str:
        separator = ", ".join(literal(each) for each in call.parameters) or "','"
        order = f" WITHIN GROUP (ORDER BY {_order(call.order_by)})" if call.order_by else ""
        return f"listagg({distinct}{columns[0]}, {separator}){order}{tail}"

    def expression(self, value: Expression) -> str:
        """Write one expression."""
        match value:
            case ColumnRef():
                return quoted(value.name)
            case Literal():
                return literal(value)
            case Cast():
                return self._cast(value)
            case Case():
                branches = " ".join(
                    f"WHEN {self.expression(when)} THEN {self.expression(then)}"
                    for when, then in value.branches
                )
                return f"CASE {branches} ELSE {self.expression(value.otherwise)} END"
            case Lambda():
                names = ", ".join(quoted(name) for name in value.parameters)
                names = f"({names})" if len(value.parameters) > 1 else names
                return f"{names} -> {self.expression(value.body)}"
            case UdfCall():
                return self._kernel(value)
            case Call():
                return self._call(value)
        raise AssertionError(value)

    def _call(self, value: Call) -> str:
        known = function(value.function)
        if known.spark is NO_SPARK:
            return self._kernel(value)
        arguments = [self.expression(each) for each in value.arguments]
        if known.spark is None:
            return f"{value.function}({', '.join(arguments)})"
        try:
            return f"({known.spark(value, arguments)})"
        except NotImplementedError:
            return self._kernel(value)

    def _kernel(self, value: Call | UdfCall) -> str:
        places = tuple(
            each if isinstance(each, Literal) else ColumnRef(each.type, f"arg{index}")
            for index, each in enumerate(value.arguments)
        )
        shape = value.with_operands(places)
        assert isinstance(shape, Call | UdfCall)
        known = [name for name, each in self.kernels.items() if each == shape]
        name = known[0] if known else f"{self.prefix}_function_{len(self.kernels)}"
        self.kernels[name] = shape
        arguments = [
            self.expression(each) for each in value.arguments if not isinstance(each, Literal)
        ]
        return f"{name}({', '.join(arguments)})"

    def _cast(self, value: Cast) -> str:
        operand, kind = self.expression(value.operand), value.type
        if value.on_error == "wrap":
            return _wrapped(operand, kind)
        word = "TRY_CAST" if value.on_error == "null" else "CAST"
        text = f"{word}({operand} AS {type_text(kind)})"
        if kind.root.startswith("TIMESTAMP") and (kind.precision or 0) < 6:
            return _at_precision(text, kind)
        return text


_RANKINGS = ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile")


def quoted(name: str) -> str:
    """Write a column's name."""
    return f"`{name.replace('`', '``')}`"


def type_text(kind: DataType) -> str:
    """Write a type as Spark calls it."""
    match kind.root:
        case "DECIMAL":
            return f"DECIMAL({kind.precision}, {kind.scale})"
        case "TIMESTAMP":
            return "TIMESTAMP_NTZ"
        case "TIMESTAMP_LTZ":
            return "TIMESTAMP"
        case "ARRAY":
            return f"ARRAY<{type_text(_part(kind.element))}>"
        case "MAP":
            return f"MAP<{type_text(_part(kind.key))}, {type_text(_part(kind.value))}>"
        case "ROW":
            inside = (f"{quoted(each.name)}: {type_text(each.type)}" for each in kind.fields or ())
            return f"STRUCT<{', '.join(inside)}>"
    return _TYPES.get(kind.root, kind.root)


def literal(value: Literal) -> str:
    """Write a constant of exactly its type."""
    return _constant(value.value, value.type)


def _constant(value: Any, kind: DataType) -> str:
    if value is None:
        return _null(kind)
    match kind.root:
        case "BOOLEAN":
            return "true" if value else "false"
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            if value == _LEAST[kind.root]:
                return f"CAST('{value}' AS {kind.root})"
            return (
                f"{value}{_SUFFIXES[kind.root]}"
                if value >= 0
                else f"({value}{_SUFFIXES[kind.root]})"
            )
        case "FLOAT" | "DOUBLE":
            return f"CAST('{_float(value)}' AS {kind.root})"
        case "DECIMAL":
            return f"CAST('{Decimal(value):f}' AS {type_text(kind)})"
        case "DATE":
            return f"DATE'{_date(value)}'"
        case "TIMESTAMP":
            return f"TIMESTAMP_NTZ'{_datetime(value)}'"
        case "TIMESTAMP_LTZ":
            return f"TIMESTAMP'{_datetime(value)} UTC'"
        case "BINARY" | "VARBINARY" | "BYTES":
            return f"X'{bytes(value).hex()}'"
        case "ARRAY":
            inside = ", ".join(_constant(each, _part(kind.element)) for each in value)
            return f"CAST(array({inside}) AS {type_text(kind)})"
        case "MAP":
            pairs = value.items() if isinstance(value, dict) else value
            inside = ", ".join(
                f"{_constant(k, _part(kind.key))}, {_constant(v, _part(kind.value))}"
                for k, v in pairs
            )
            return f"CAST(map({inside}) AS {type_text(kind)})"
        case "ROW":
            inside = ", ".join(
                f"{_text(each.name)}, {_constant(value[each.name], each.type)}"
                for each in kind.fields or ()
            )
            return f"named_struct({inside})"
        case "TIME":
            assert isinstance(value, time)
            return f"TIME'{value.isoformat()}'"
    return _text(str(value))


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _plain(name: str) -> str:
    return name.replace("\\", "\\\\").replace("'", "\\'")


def _null(kind: DataType) -> str:
    return f"CAST(NULL AS {type_text(kind)})"


def _float(value: float) -> str:
    text = repr(float(value))
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(text, text)


def _date(value: date | datetime) -> str:
    return value.isoformat()[:10]


def _datetime(value: datetime | int) -> str:
    if isinstance(value, int):
        value = datetime(1970, 1, 1) + timedelta(microseconds=value // 1000)
    if value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return value.isoformat(sep=" ")


def _part(kind: DataType | None) -> DataType:
    assert kind is not None
    return kind


def _list(names: Iterable[str]) -> str:
    return ", ".join(quoted(name) for name in names)


def _order(keys: Sequence[SortKey]) -> str:
    return ", ".join(
        f"{quoted(key.column)} {'DESC' if key.descending else 'ASC'} "
        f"NULLS {'FIRST' if key.nulls_first else 'LAST'}"
        for key in keys
    )


def _frame(frame: Frame, node: Over) -> str:
    unit = frame.unit.upper()
    start, end = (
        _bound(each, side, frame, node)
        for each, side in ((frame.start, "PRECEDING"), (frame.end, "FOLLOWING"))
    )
    if not node.order_by and frame.unit == "range":
        return "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
    return f"{unit} BETWEEN {start} AND {end}"


def _bound(bound: int | float | None, side: str, frame: Frame, node: Over) -> str:
    if bound is None:
        return f"UNBOUNDED {side}"
    if bound == 0:
        return "CURRENT ROW"
    side = "PRECEDING" if bound < 0 else "FOLLOWING"
    kind = node.input.fields[node.order_by[0].column].type.root if node.order_by else ""
    if frame.unit == "range" and kind.startswith("TIMESTAMP"):
        seconds = Decimal(int(abs(bound))) / 1_000_000
        return f"INTERVAL '{seconds:f}' SECOND {side}"
    if frame.unit == "range" and kind == "DATE":
        return f"INTERVAL '{int(abs(bound)) // 86_400_000_000}' DAY {side}"
    return f"{abs(bound)} {side}"


def _micros(name: str) -> str:
    return f"unix_micros(CAST({quoted(name)} AS TIMESTAMP))"


def _moment(micros: str, kind: DataType) -> str:
    return f"CAST(timestamp_micros({micros}) AS {type_text(kind)})"


def _views(node: Window) -> str:
    """Write the windows of a row whose time is ``$t`` microseconds."""
    size, step, offset = node.size, node.step, node.offset
    if node.kind is WindowKind.TUMBLE:
        start = f"`$t` - pmod(`$t` - {offset}L, {size}L)"
        return (
            f"LATERAL VIEW explode(array({start})) a AS `$start` "
            f"LATERAL VIEW explode(array(`$start` + {size}L)) b AS `$end`"
        )
    if node.kind is WindowKind.HOP:
        last = f"`$t` - pmod(`$t` - {offset}L, {step}L)"
        count = f"({size}L - 1 - pmod(`$t` - {offset}L, {step}L)) div {step}L"
        starts = (
            f"if(pmod(`$t` - {offset}L, {step}L) >= {size}L, array(), "
            f"transform(sequence(0L, greatest({count}, 0L)), i -> {last} - i * {step}L))"
        )
        return (
            f"LATERAL VIEW explode({starts}) a AS `$start` "
            f"LATERAL VIEW explode(array(`$start` + {size}L)) b AS `$end`"
        )
    start = f"`$t` - pmod(`$t` - {offset}L, {size}L)"
    first = f"(`$t` - `$start`) div {step}L + 1"
    ends = f"transform(sequence({first}, {size // step}L), i -> `$start` + i * {step}L)"
    return (
        f"LATERAL VIEW explode(array({start})) a AS `$start` "
        f"LATERAL VIEW explode({ends}) b AS `$end`"
    )


def _wrapped(value: str, kind: DataType) -> str:
    """Write an integer's low bits: what is left of it in a narrower type."""
    bits = {"TINYINT": 56, "SMALLINT": 48, "INT": 32}.get(kind.root)
    if bits is None:
        return f"CAST({value} AS {type_text(kind)})"
    wide = f"CAST({value} AS BIGINT)"
    return f"CAST(shiftright(shiftleft({wide}, {bits}), {bits}) AS {kind.root})"


def _at_precision(value: str, kind: DataType) -> str:
    """Write a timestamp without the digits that its type does not have."""
    micros = f"unix_micros(CAST({value} AS TIMESTAMP))"
    unit = 10 ** (6 - (kind.precision or 0))
    return _moment(f"{micros} - pmod({micros}, {unit}L)", kind)


def _last_sort(node: Node) -> tuple[SortKey, ...] | None:
    """Find the order that a result still has: its rows were only projected since."""
    while isinstance(node, Project | Limit):
        if isinstance(node, Project):
            below = node.input
            kept = {
                value.name: name for name, value in node.columns if isinstance(value, ColumnRef)
            }
            order = _last_sort(below)
            if order is None or not all(key.column in kept for key in order):
                return None
            return tuple(SortKey(kept[k.column], k.descending, k.nulls_first) for k in order)
        node = node.input
    return node.order_by if isinstance(node, Sort) else None
