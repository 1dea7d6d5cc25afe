"""Functions with OVER."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from pkray.errors import QueryError, UnsupportedError
from pkray.relational.functions.aggregates import catalogue
from pkray.relational.functions.aggregates.aggregate import Resolved
from pkray.relational.functions.coercion import BOOLEAN, INT
from pkray.relational.plan.aggregates import facts
from pkray.relational.plan.expressions import Case, Expression, Frame, Literal, SortKey, WindowCall
from pkray.relational.plan.nodes import Over
from pkray.relational.sql.binder.calls import IGNORING, Written, take_apart
from pkray.relational.sql.binder.context import Queries
from pkray.relational.sql.binder.from_clause.joins import normalized
from pkray.relational.sql.binder.scope import Rows
from pkray.relational.sql.dialects import shown
from pkray.relational.sql.expressions.intervals import read_interval
from pkray.relational.sql.places import placed, unsupported, wrong
from pkray.schema.types import INTEGERS, TIMESTAMPS

_RANKS = ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile")
_PLACED = ("lag", "lead")
_NUMBERS = (*INTEGERS, "FLOAT", "DOUBLE", "DECIMAL")


@dataclass(frozen=True)
class _Spec:
    partition: tuple[str, ...]
    order: tuple[SortKey, ...]


def all_spread(order: exp.Order | None, columns: int) -> list[exp.Ordered]:
    """List what ORDER BY says; ``ALL`` becomes the number of each column."""
    if order is None:
        return []
    entries: list[exp.Ordered] = list(order.expressions)
    if len(entries) != 1 or entries[0].this != exp.var("ALL"):
        return entries
    spread = [entries[0].copy() for _ in range(columns)]
    for number, each in enumerate(spread, 1):
        each.set("this", exp.Literal.number(number))
    return spread


@dataclass(eq=False)
class OverBinder:
    """Adds a column for each function with OVER.

    Args:
        bind: binds expressions over `rows`.
        correlated: columns by which the rows of a subquery are joined to the query around: every
            partition is within one value of them.
    """

    queries: Queries
    rows: Rows
    bind: Callable[[exp.Expr], Expression]
    named: Mapping[str, exp.Window]
    correlated: Sequence[str]
    _columns: dict[int, str] = field(default_factory=dict, init=False)

    def add(self, windows: Sequence[exp.Window]) -> None:
        """Add the columns: one node for each order and partition."""
        specs: dict[_Spec, list[tuple[str, WindowCall]]] = {}
        known: dict[tuple[_Spec, WindowCall], str] = {}
        for window in windows:
            written = self._whole(window)
            spec = self._spec(written)
            call = self._call(window, written, spec)
            name = known.get((spec, call))
            if name is None:
                name = self.rows.fresh("w")
                known[spec, call] = name
                specs.setdefault(spec, []).append((name, call))
            self._columns[id(window)] = name
        for spec, calls in specs.items():
            node = Over(self.rows.node, spec.partition, spec.order, tuple(calls))
            self.rows.node = replace(node, waits=node.can_wait())

    def replaced(self, node: exp.Expr) -> Expression | None:
        """Find the column for a function with OVER; None for any other node."""
        name = self._columns.get(id(node))
        if name is not None:
            return self.rows.ref(name)
        if isinstance(node, exp.Window):
            raise misplaced(node)
        if isinstance(node, exp.Anonymous) and catalogue.is_window(node.name):
            known = catalogue.is_aggregate(node.name, self.queries.dialect)
            if not known:
                raise wrong(
                    f"{node.name} needs a window: write {node.name}(…) OVER (ORDER BY …)", node
                )
        return None

    def _whole(self, window: exp.Window) -> exp.Window:
        """Put what a named window says into OVER."""
        seen: set[str] = set()
        whole = window
        while whole.args.get("alias") is not None:
            name = whole.args["alias"].name
            base = self.named.get(name.lower())
            if base is None or name.lower() in seen:
                raise wrong(f"no window is called {name}: add WINDOW {name} AS (…)", window)
            seen.add(name.lower())
            merged = base.copy()
            merged.set("this", window.this)
            for part in ("partition_by", "order", "spec"):
                if whole.args.get(part):
                    merged.set(part, whole.args[part])
            whole = merged
        if "over" in whole.args and {"partition_by", "order", "spec"}.isdisjoint(whole.args):
            raise wrong("OVER lacks its window: write OVER (…)", window)
        return whole

    def _spec(self, window: exp.Window) -> _Spec:
        dialect = self.queries.dialect
        partition = [
            normalized(self.bind(each), dialect) for each in window.args.get("partition_by") or ()
        ]
        names = self.rows.compute(partition, "p")
        order = window.args.get("order")
        keys = sort_keys(order.expressions if order is not None else (), self.rows, self.bind)
        if order is not None and not keys and _needs_order(window):
            (same,) = self.rows.compute([Literal(INT.with_nullable(False), 0)], "o")
            keys = (SortKey(same),)
        return _Spec(tuple(dict.fromkeys((*self.correlated, *names))), keys)

    def _call(self, window: exp.Window, whole: exp.Window, spec: _Spec) -> WindowCall:
        call = take_apart(window.this)
        if call is None:
            raise wrong(
                f"{shown(window.this)} takes no OVER: give an aggregate or a window function",
                window,
            )
        if call.distinct:
            raise unsupported(f"{call.name}(DISTINCT …) with OVER is not offered", call.node)
        if call.order or call.within:
            raise unsupported(f"{call.name} with OVER takes its order from there", call.node)
        arguments = self._arguments(call)
        resolved, udf = self._resolved(call, arguments)
        call.check(resolved.function)
        values = self._filtered(call, resolved)
        if resolved.function == "count" and call.filter is None:
            values = tuple(each for each in values if each.type.nullable)
        ignores = call.ignore_nulls or bool(
            facts(resolved.function).is_place and resolved.parameters
        )
        return WindowCall(
            resolved.function,
            tuple(self.rows.compute(values, "a")),
            resolved.type,
            self._frame(whole, spec, call),
            () if facts(resolved.function).is_place else resolved.parameters,
            ignores,
            udf,
        )

    def _arguments(self, call: Written) -> tuple[Expression, ...]:
        if call.name.lower() == "count" and any(isinstance(a, exp.Star) for a in call.arguments):
            return ()
        for argument in call.arguments:
            if argument.find(exp.Window):
                raise wrong(
                    "a function with OVER stands in another: compute it in a subquery first",
                    argument,
                )
        return tuple(self.bind(each) for each in call.arguments)

    def _resolved(
        self, call: Written, arguments: tuple[Expression, ...]
    ) -> tuple[Resolved, object]:
        name, dialect = call.name, self.queries.dialect
        udf = self.queries.names.udf(name)
        if udf is not None and str(udf.kind) == "aggregate":
            return Resolved("udf", udf.typed(arguments), (), udf.type), udf
        with placed(call.node):
            if catalogue.is_window(name):
                return catalogue.resolve_window(name, arguments, dialect), None
            if call.ignore_nulls and name.lower() in IGNORING:
                arguments = (*arguments, Literal(BOOLEAN.with_nullable(False), True))
            if name.lower() in ("avg", "mean") and arguments and arguments[0].type.span:
                raise UnsupportedError(
                    f"{name} of an INTERVAL with OVER is not offered: divide sum(…) OVER by "
                    "count(…) OVER"
                )
            return catalogue.resolve_aggregate(name, arguments, dialect), None

    def _filtered(self, call: Written, resolved: Resolved) -> tuple[Expression, ...]:
        """Make values NULL where FILTER leaves their rows out."""
        if call.filter is None:
            return resolved.arguments
        known = facts(resolved.function)
        if catalogue.is_window(call.name) or known.keeps_nulls or known.required_from:
            raise unsupported(f"{call.name} with FILTER and OVER is not offered", call.node)
        condition = self.bind(call.filter)
        if condition.type.root != "BOOLEAN":
            raise wrong(f"FILTER takes a condition, not {condition.type}", call.filter)
        values = resolved.arguments or (Literal(BOOLEAN.with_nullable(False), True),)
        first = values[0]
        kind = first.type.with_nullable(True)
        return (Case(kind, ((condition, first),), Literal(kind, None)), *values[1:])

    # Frames

    def _frame(self, window: exp.Window, spec: _Spec, call: Written) -> Frame:
        written = window.args.get("spec")
        name = call.name.lower()
        if name in (*_RANKS, *_PLACED):
            if not spec.order and name != "row_number":
                raise wrong(f"{call.name} needs an order: write OVER (ORDER BY …)", call.node)
            if written is not None:
                raise wrong(f"{call.name} takes no {written.args['kind'].upper()} frame", call.node)
        if written is None:
            return Frame() if spec.order else Frame.WHOLE
        unit = written.args["kind"].lower()
        if unit not in ("rows", "range"):
            raise unsupported(f"{unit.upper()} frames are not offered: write ROWS or RANGE", window)
        if written.args.get("exclude"):
            raise unsupported("EXCLUDE of a frame is not offered", window)
        start = self._bound(written, "start", unit, spec)
        end = self._bound(written, "end", unit, spec) if written.args.get("end") else 0
        if start is not None and end is not None and start > end:
            raise wrong(
                "the frame of OVER ends before it begins: write BETWEEN earlier AND later", window
            )
        return Frame(unit, start, end)

    def _bound(
        self, written: exp.WindowSpec, which: str, unit: str, spec: _Spec
    ) -> int | float | None:
        value = written.args.get(which)
        side = str(written.args.get(f"{which}_side") or "").upper()
        if value == "CURRENT ROW":
            return 0
        if value == "UNBOUNDED":
            wanted = "PRECEDING" if which == "start" else "FOLLOWING"
            if side != wanted:
                raise QueryError(f"a frame cannot {which} with UNBOUNDED {side}: write {wanted}")
            return None
        if not isinstance(value, exp.Expr) or side not in ("PRECEDING", "FOLLOWING"):
            raise QueryError(
                f"a frame cannot {which} there: write ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"
            )
        length = self._length(value, unit, spec)
        return -length if side == "PRECEDING" else length

    def _length(self, value: exp.Expr, unit: str, spec: _Spec) -> int | float:
        if isinstance(value, exp.Interval) and unit == "range":
            months, micros = read_interval(value)
            if months:
                raise unsupported("a frame of months is not offered: they differ in length", value)
            self._check_order(spec, ("DATE", *TIMESTAMPS), "an INTERVAL", value)
            return micros
        bound = self.bind(value)
        number = bound.value if isinstance(bound, Literal) else None
        if number is None or isinstance(number, str | bool) or number < 0:
            raise wrong("the length of a frame is a constant number", value)
        if unit == "rows":
            if not isinstance(number, int):
                raise wrong("a frame of ROWS is of a whole number", value)
            return number
        self._check_order(spec, (*_NUMBERS, "DATE"), "a number", value)
        if self._order_type(spec) == "DATE":
            return int(number) * 86_400_000_000
        return number if isinstance(number, int) else float(number)

    def _order_type(self, spec: _Spec) -> str:
        return self.rows.node.fields[spec.order[0].column].type.root

    def _check_order(self, spec: _Spec, roots: Sequence[str], what: str, value: exp.Expr) -> None:
        if len(spec.order) != 1 or self._order_type(spec) not in roots:
            raise wrong(
                f"RANGE with {what} needs one ORDER BY column that it can be added to", value
            )


def misplaced(window: exp.Window) -> QueryError:
    """Make the error for a function with OVER where none can stand."""
    return wrong(
        "a function with OVER cannot stand here: compute it in a subquery, or filter by QUALIFY",
        window,
    )


def _needs_order(window: exp.Window) -> bool:
    """Whether it is a function that has no meaning without an order, be it of one value."""
    call = take_apart(window.this)
    name = "" if call is None else call.name.lower()
    return name in (*_RANKS, *_PLACED) and name != "row_number"


def sort_keys(
    order: Sequence[exp.Expr], rows: Rows, bind: Callable[[exp.Expr], Expression]
) -> tuple[SortKey, ...]:
    """Bind ORDER BY; what is no column yet is computed. Constants order nothing."""
    values = [bind(each.this) for each in order]
    pairs = [
        (value, each)
        for value, each in zip(values, order, strict=True)
        if not isinstance(value, Literal)
    ]
    for value, each in pairs:
        check_sortable(value, each)
    names = rows.compute([value for value, _ in pairs], "o")
    return unique_keys(map(sort_key, names, (each for _, each in pairs)))


def sort_key(column: str, written: exp.Expr) -> SortKey:
    """Order by a column in the direction that is written."""
    return SortKey(column, bool(written.args.get("desc")), bool(written.args.get("nulls_first")))


def check_sortable(value: Expression, node: exp.Expr) -> None:
    """Check that values of a type have an order."""
    if value.type.root == "MAP":
        raise wrong("a MAP has no order", node)


def unique_keys(keys: Iterator[SortKey]) -> tuple[SortKey, ...]:
    """Leave out later keys of a column: they order nothing."""
    found: dict[str, SortKey] = {}
    for key in keys:
        found.setdefault(key.column, key)
    return tuple(found.values())


def windows_in(tree: exp.Expr) -> Iterator[exp.Window]:
    """List the functions with OVER in an expression, but not those of its subqueries."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, exp.Query):
            continue
        if isinstance(node, exp.Window):
            yield node
            continue
        waiting += reversed(list(node.iter_expressions()))
