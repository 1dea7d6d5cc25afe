"""Windows over time: TUMBLE, HOP, SESSION and CUMULATE, and ``window(…)`` of Spark."""

from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from pkray.relational.dialect import Dialect
from pkray.relational.functions import function
from pkray.relational.functions.coercion import TIMESTAMP_LTZ, cast_to
from pkray.relational.functions.signatures import text_literal
from pkray.relational.plan.expressions import Call, ColumnRef
from pkray.relational.plan.fields import distinct_names
from pkray.relational.plan.nodes import Node, Window, WindowKind
from pkray.relational.sql.binder.context import Queries
from pkray.relational.sql.binder.from_clause.calls import Bind, unwrapped
from pkray.relational.sql.binder.patterns import filtered
from pkray.relational.sql.binder.scope import Rows, Scope
from pkray.relational.sql.dialects import WINDOW_FUNCTIONS, TableArgument
from pkray.relational.sql.expressions.expressions import ExpressionBinder
from pkray.relational.sql.expressions.intervals import read_interval
from pkray.relational.sql.names import emission_of
from pkray.relational.sql.places import nearest, placed, unsupported, wrong
from pkray.schema.types import STRINGS, TIMESTAMPS, DataType

_SIGNATURES = {
    "TUMBLE": ("DATA", "TIMECOL", "SIZE"),
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE"),
    "CUMULATE": ("DATA", "TIMECOL", "STEP", "SIZE"),
    "SESSION": ("DATA", "TIMECOL", "GAP"),
}


class TimeWindows:
    """Binds TUMBLE, HOP, SESSION and CUMULATE, and ``window(…)`` of Spark."""

    def __init__(self, queries: Queries) -> None:
        self.queries = queries
        self.dialect = queries.dialect

    def is_window(self, call: exp.Anonymous) -> bool:
        """Whether it is TUMBLE, HOP, SESSION or CUMULATE."""
        return unwrapped(call).name.upper() in WINDOW_FUNCTIONS

    def table_of(self, call: exp.Anonymous) -> exp.Expr:
        """Find the table that a window function is over."""
        data = self._arguments(unwrapped(call))["DATA"]
        table: exp.Expr = data.this if isinstance(data, TableArgument) else data
        if isinstance(table, exp.Table | exp.Subquery):
            return table
        raise wrong(
            f"argument DATA of {unwrapped(call).name.upper()} is a table: write TABLE name", call
        )

    def window(self, call: exp.Anonymous, scope: Scope) -> Node:
        """Bind a window function over the rows of `scope`."""
        call = unwrapped(call)
        name = call.name.upper()
        arguments = self._arguments(call)
        data = arguments["DATA"]
        partition = data.args.get("partition_by") or ()
        if partition and name != "SESSION":
            raise wrong(
                f"PARTITION BY is of SESSION: {name} gives each row the same windows without it",
                call,
            )
        time = self._time(name, arguments["TIMECOL"], scope)
        kind = WindowKind(name.lower())
        step = self._micros(arguments.get("SLIDE") or arguments.get("STEP"))
        size = self._micros(arguments.get("SIZE") or arguments.get("GAP"))
        self._check_sizes(name, size, step, call)
        old = scope.rows.node.fields.names
        start, end, last = distinct_names(("window_start", "window_end", "window_time"), taken=old)
        return Window(
            scope.rows.node,
            kind,
            time.name,
            size,
            step,
            self._micros(arguments.get("OFFSET")),
            tuple(self._partition(each, scope) for each in partition),
            (start, end, last),
            **self._emission(arguments, call),
        )

    def _emission(self, arguments: Mapping[str, exp.Expr], call: exp.Expr) -> dict[str, Any]:
        """Find when results come beside the watermark: as arguments say, else as options do."""
        found: dict[str, Any] = emission_of(self.queries.names)
        for name, argument in (("early", "EARLY"), ("lateness", "LATENESS")):
            if argument in arguments:
                found[name] = self._micros(arguments[argument])
        if any(micros < 0 for micros in found.values()):
            raise wrong("EARLY and LATENESS are no less than zero", call)
        return found

    def window_of_rows(self, call: exp.Anonymous, rows: Rows, bind: Bind) -> str:
        """Put rows in the windows of ``window(time, size [, slide [, offset]])``.

        Returns:
            the column with each row's window: a ROW of its start and its end.
        """
        name, usage = call.name.lower(), "write window(time, '10 minutes'[, '5 minutes'])"
        if name == "session_window":
            raise unsupported(
                "session_window is not offered: write FROM TABLE(SESSION(TABLE t PARTITION BY k, "
                "DESCRIPTOR(time), INTERVAL '5' MINUTES)) and group by window_start, window_end",
                call,
            )
        if not 2 <= len(call.expressions) <= 4:
            raise wrong(f"window takes 2 to 4 arguments; {usage}", call)
        time = bind(call.expressions[0])
        if time.type.root not in TIMESTAMPS and time.type.root in ("DATE", *STRINGS):
            time = cast_to(time, TIMESTAMP_LTZ)
        if time.type.root not in TIMESTAMPS:
            raise wrong(f"window is over a TIMESTAMP, not {time.type}", call)
        size, step, offset = (
            [*(self._length(each, usage) for each in call.expressions[1:]), 0, 0]
        )[:3]
        kind = WindowKind.HOP if step and step != size else WindowKind.TUMBLE
        if size <= 0 or not 0 <= step <= size:
            raise wrong("the size of a window is positive, and its slide no longer", call)
        (column,) = rows.compute([time], "t")
        if time.type.nullable:
            known = Call(DataType("BOOLEAN", nullable=False), "is_not_null", (rows.ref(column),))
            rows.node = filtered(rows.node, known)
        start, end, last = (rows.fresh("w") for _ in range(3))
        slide = step if kind is WindowKind.HOP else 0
        names, emission = (start, end, last), emission_of(self.queries.names)
        rows.node = Window(rows.node, kind, column, size, slide, offset, (), names, **emission)
        bounds = [text_literal("start"), rows.ref(start), text_literal("end"), rows.ref(end)]
        struct = function.resolve("named_struct", tuple(bounds), self.dialect)
        (made,) = rows.compute([struct], "w")
        return made

    def _length(self, node: exp.Expr, usage: str) -> int:
        """Read ``'10 minutes'`` or an INTERVAL, in microseconds."""
        written = exp.Interval(this=node.copy()) if isinstance(node, exp.Literal) else node
        if not isinstance(written, exp.Interval):
            raise wrong(f"the length of a window is a constant; {usage}", node)
        with placed(node):
            return self._micros(written)

    def _arguments(self, call: exp.Anonymous) -> dict[str, exp.Expr]:
        name = call.name.upper()
        names = _SIGNATURES[name]
        by_place = names if name == "SESSION" else (*names, "OFFSET")
        allowed = (*by_place, "EARLY", "LATENESS")
        usage = _usage(name)
        found: dict[str, exp.Expr] = {}
        for place, argument in enumerate(call.expressions):
            if isinstance(argument, exp.Kwarg):
                said, value = argument.this.name.upper(), argument.expression
            elif place < len(by_place):
                said, value = by_place[place], argument
            else:
                raise wrong(f"{name} has too many arguments: {usage}", call)
            if said not in allowed:
                hint = nearest(said, allowed)
                raise wrong(f"{name} has no argument {said}{hint}; {usage}", argument)
            if said in found:
                raise wrong(f"argument {said} is given twice", argument)
            found[said] = value
        missing = [each for each in names if each not in found]
        if missing:
            raise wrong(f"{name} lacks {' and '.join(missing)}: {usage}", call)
        return found

    def _time(self, name: str, node: exp.Expr, scope: Scope) -> ColumnRef:
        is_descriptor = isinstance(node, exp.Anonymous) and node.name.upper() == "DESCRIPTOR"
        if not is_descriptor or len(node.expressions) != 1:
            raise wrong(
                f"argument TIMECOL of {name} names one column: write DESCRIPTOR(column)", node
            )
        column = ExpressionBinder(self.queries.names, scope).bind(node.expressions[0])
        if not isinstance(column, ColumnRef) or column.type.root not in TIMESTAMPS:
            times = [each.name for each in scope.rows.node.fields if each.type.root in TIMESTAMPS]
            hint = f"; there are {', '.join(times)}" if times else ""
            raise wrong(f"{name} is over a TIMESTAMP column, not {column.type}{hint}", node)
        return column

    def _partition(self, node: exp.Expr, scope: Scope) -> str:
        column = ExpressionBinder(self.queries.names, scope).bind(node)
        if not isinstance(column, ColumnRef):
            raise wrong("PARTITION BY of SESSION takes columns", node)
        return column.name

    def _micros(self, node: exp.Expr | None) -> int:
        if node is None:
            return 0
        if not isinstance(node, exp.Interval):
            raise wrong("the length of a window is an INTERVAL: write INTERVAL '10' MINUTES", node)
        months, micros = read_interval(node)
        if months:
            raise wrong(
                "the length of a window is in days or shorter units: months differ in length", node
            )
        return micros

    def _check_sizes(self, name: str, size: int, step: int, call: exp.Expr) -> None:
        if size <= 0 or step < 0 or (name in ("HOP", "CUMULATE") and step == 0):
            raise wrong(f"the lengths of {name} must be positive", call)
        if name == "CUMULATE" and size % step:
            raise wrong("the SIZE of CUMULATE must be a multiple of its STEP", call)
        if name == "HOP" and self.dialect is Dialect.FLINK and size % step:
            raise wrong("the SIZE of HOP must be a multiple of its SLIDE", call)


def _usage(name: str) -> str:
    if name == "SESSION":
        return "write SESSION(TABLE t [PARTITION BY k], DESCRIPTOR(time), INTERVAL '5' MINUTES)"
    between = "" if name == "TUMBLE" else "INTERVAL '1' MINUTE, "
    return f"write {name}(TABLE t, DESCRIPTOR(time), {between}INTERVAL '10' MINUTES)"
