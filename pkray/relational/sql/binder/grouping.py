"""GROUP BY and aggregates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from sqlglot import exp

from pkray.errors import QueryError, UnsupportedError
from pkray.relational.dialect import Dialect
from pkray.relational.functions.aggregates.catalogue import resolve_aggregate
from pkray.relational.functions.coercion import cast_to
from pkray.relational.plan import expressions as ir
from pkray.relational.plan.aggregates import facts
from pkray.relational.plan.nodes import Aggregate, Expand
from pkray.relational.sql.binder.calls import (
    IGNORING,
    WRAPPERS,
    AggregateNames,
    Written,
    take_apart,
)
from pkray.relational.sql.binder.context import Queries
from pkray.relational.sql.binder.from_clause.joins import normalized
from pkray.relational.sql.binder.grouping_sets import Groups
from pkray.relational.sql.binder.over import sort_key
from pkray.relational.sql.binder.scope import Correlation, Rows, Scope
from pkray.relational.sql.dialects import shown
from pkray.relational.sql.expressions.expressions import ExpressionBinder
from pkray.relational.sql.expressions.intervals import of_value
from pkray.relational.sql.places import placed, wrong
from pkray.schema.types import DataType

Bind: TypeAlias = Callable[[exp.Expr], ir.Expression]
BOOLEAN = DataType("BOOLEAN")
BIGINT = DataType("BIGINT", nullable=False)
TINYINT = DataType("TINYINT", nullable=False)


class GroupedScope(Scope):
    """Finds names in groups: a column must be a key, or stand in an aggregate."""

    def __init__(self, grouping: Grouping, below: Scope, correlation: Correlation | None) -> None:
        super().__init__(grouping.rows, below.columns, below.dialect, correlation, grouping.settle)
        self.domain = grouping.domain
        self._below = below
        self._grouping = grouping

    def find(self, parts: tuple[str, ...], node: exp.Expr) -> ir.Expression | None:
        """Find a key."""
        found = self._below.find(parts, node)
        if found is None:
            return None
        key = self._of_key(found)
        if key is None and self.key(parts[0]) in self.aliases and len(parts) == 1:
            return None
        if key is None:
            raise not_grouped(".".join(parts), node, self.dialect)
        return key

    def _of_key(self, found: ir.Expression) -> ir.Expression | None:
        """Find a key, or a field of one."""
        key: ir.Expression | None = self._grouping.key_of(found)
        if key is None and isinstance(found, ir.Call):
            owner = self._of_key(found.arguments[0])
            key = None if owner is None else found.with_operands((owner, *found.arguments[1:]))
        return key


def not_grouped(name: str, node: exp.Expr, dialect: Dialect) -> QueryError:
    """Make the error for a column that may differ among the rows of a group."""
    select = node.find_ancestor(exp.Select)
    alone = select is not None and select.args.get("having") and not select.args.get("group")
    return wrong(
        f"column {name} is neither in GROUP BY nor in an aggregate: "
        + ("HAVING makes one group of all rows; filter rows by WHERE, or " if alone else "")
        + f"group by it, or write any_value({name})"
        + ("" if dialect is Dialect.SPARK else f" or MAX({name})"),
        node,
    )


@dataclass(eq=False)
class Grouping:
    """Groups rows and computes aggregates.

    Attributes:
        rows: a row a group.
    """

    queries: Queries
    below: Scope
    bind_below: ExpressionBinder
    settle_below: Callable[[ir.Expression], ir.Expression]
    settle: Callable[[ir.Expression], ir.Expression]
    groups: Groups = field(default_factory=Groups, init=False)

    def __post_init__(self) -> None:
        self._keys: list[tuple[ir.Expression, str]] = []
        self._shapes: set[type[exp.Expr]] = set()
        self._written: dict[exp.Expr, str] = {}
        self._calls: list[tuple[str, ir.AggregateCall]] = []
        self._columns: dict[int, str] = {}
        self._averages: dict[int, tuple[str, str]] = {}
        self._set_keys: list[str] = []
        self._id: str | None = None
        self.rows = self.below.rows
        self.domain = self.below.domain

    def bind(self, groups: Groups, calls: Sequence[Written], correlated: Sequence[str]) -> None:
        """Add the nodes.

        Args:
            calls: the aggregates.
            correlated: columns that the rows of a subquery are joined to the query around by; they
                are keys as well.
        """
        self.groups = groups
        rows = self.below.rows
        bound = [self._key(each) for each in groups.keys]
        dialect = self.queries.dialect
        keys = [normalized(each, dialect) for each in bound]
        if groups.is_plain:
            names = rows.compute(keys, "k")
        else:
            names = [rows.fresh("k") for _ in keys]
            rows.add(zip(names, keys, strict=True))
        self._keys = list(zip(bound, names, strict=True))
        self._written = {
            each: name
            for each, name in zip(groups.keys, names, strict=True)
            if each.find(exp.Query)
        }
        self._shapes = {type(each.unnest()) for each in groups.keys}
        for call in calls:
            average = self._average(call)
            if average is None:
                self._columns[id(call.whole)] = self._call(call)
            else:
                self._averages[id(call.whole)] = average
        if not groups.keys and not self._calls:
            self._calls.append((rows.fresh("s"), ir.AggregateCall("count", (), BIGINT)))
        extra = self._expand(names)
        unique = tuple(dict.fromkeys((*names, *extra, *correlated)))
        node = Aggregate(rows.node, unique, tuple(self._calls))
        self.rows = Rows(node, self.queries.numbers)

    def _key(self, node: exp.Expr) -> ir.Expression:
        return self.settle_below(self.bind_below.bind(node))

    def _expand(self, names: list[str]) -> list[str]:
        """Repeat rows for grouping sets; give the columns that tell the sets apart."""
        if self.groups.is_plain:
            return []
        rows, sets = self.below.rows, self.groups.sets
        everywhere = set(range(len(names))).intersection(*map(set, sets))
        places = [place for place in range(len(names)) if place not in everywhere]
        self._set_keys = [names[place] for place in places]
        self._id = rows.fresh("g")
        number = rows.fresh("g") if len({frozenset(each) for each in sets}) < len(sets) else None
        chosen = tuple(
            tuple(new for new, place in enumerate(places) if place in each) for each in sets
        )
        rows.node = Expand(rows.node, tuple(self._set_keys), chosen, self._id, number)
        return [self._id, *([number] if number else [])]

    # Aggregates

    def _average(self, call: Written) -> tuple[str, str] | None:
        """Add the sum and the count of INTERVALs whose average is asked for; None for others."""
        if call.name.lower() not in ("avg", "mean") or len(call.arguments) != 1:
            return None
        if self.queries.names.udf(call.name) is not None:
            return None
        arguments = self._arguments(call)
        if not arguments[0].type.span:
            return None
        condition = self._condition(call)
        columns = tuple(self.below.rows.compute(arguments, "a"))
        kind = arguments[0].type.with_nullable(True)
        total = ir.AggregateCall("sum", columns, kind, call.distinct, condition)
        count = ir.AggregateCall("count", columns, BIGINT, call.distinct, condition)
        return self._added(total), self._added(count)

    def _condition(self, call: Written) -> str | None:
        if call.filter is None:
            return None
        self._check_plain(call.filter)
        bound = self.settle_below(self.bind_below.condition(call.filter))
        (condition,) = self.below.rows.compute([bound], "a")
        return condition

    def _call(self, call: Written) -> str:
        condition = self._condition(call)
        udf = self.queries.names.udf(call.name)
        if udf is not None and str(udf.kind) == "aggregate":
            made = self._of_udf(call, udf, condition)
        else:
            made = self._of_function(call, condition)
        return self._added(made)

    def _added(self, made: ir.AggregateCall) -> str:
        for name, known in self._calls:
            if known == made:
                return name
        name = self.below.rows.fresh("s")
        self._calls.append((name, made))
        return name

    def _of_udf(self, call: Written, udf: Any, condition: str | None) -> ir.AggregateCall:
        call.check("udf")
        arguments = udf.typed(self._arguments(call))
        return ir.AggregateCall(
            "udf",
            tuple(self.below.rows.compute(arguments, "a")),
            udf.type,
            call.distinct,
            condition,
            self._order(call.order or call.within),
            udf=udf,
        )

    def _of_function(self, call: Written, condition: str | None) -> ir.AggregateCall:
        arguments = self._arguments(call)
        if call.ignore_nulls and call.name.lower() in IGNORING:
            arguments = (*arguments, ir.Literal(BOOLEAN.with_nullable(False), True))
        within = tuple(self._argument(each.this) for each in call.within)
        with placed(call.node):
            resolved = resolve_aggregate(
                call.name,
                arguments,
                self.queries.dialect,
                distinct=call.distinct,
                within_group=within,
            )
        call.check(resolved.function)
        counted = resolved.arguments
        if resolved.function == "count" and not call.distinct:
            counted = tuple(each for each in counted if each.type.nullable)
        if call.distinct:
            counted = tuple(normalized(each, self.queries.dialect) for each in counted)
        columns = tuple(self.below.rows.compute(counted, "a"))
        order = call.order
        is_place = resolved.function in ("percentile_cont", "percentile_disc", "mode")
        if not is_place or any(each.args.get("desc") for each in call.within):
            order = order or call.within
        ignores = call.ignore_nulls or bool(
            facts(resolved.function).is_place and resolved.parameters
        )
        return ir.AggregateCall(
            resolved.function,
            columns,
            resolved.type,
            call.distinct,
            condition,
            self._order(order),
            () if facts(resolved.function).is_place else resolved.parameters,
            ignores,
        )

    def _arguments(self, call: Written) -> tuple[ir.Expression, ...]:
        if len(call.arguments) == 1 and isinstance(call.arguments[0], exp.Star):
            if call.name.lower() != "count":
                raise wrong(f"{call.name}(*) is not defined: name a column", call.node)
            if call.distinct:
                raise wrong("COUNT(DISTINCT *) is not defined: name columns", call.node)
            return ()
        return tuple(self._argument(each) for each in call.arguments)

    def _argument(self, node: exp.Expr) -> ir.Expression:
        self._check_plain(node)
        return self.settle_below(self.bind_below.bind(node))

    def _check_plain(self, node: exp.Expr) -> None:
        for inner in AggregateNames(self.queries).calls_in(node):
            raise wrong(
                f"{inner.name} stands in another aggregate: compute it in a subquery first",
                inner.node,
            )
        if node.find(exp.Window):
            raise wrong(
                "a window function stands in an aggregate: compute it in a subquery first", node
            )

    def _order(self, order: Sequence[exp.Ordered]) -> tuple[ir.SortKey, ...]:
        values = [self._argument(each.this) for each in order]
        return tuple(map(sort_key, self.below.rows.compute(values, "o"), order))

    # What groups know

    def key_of(self, expression: ir.Expression) -> ir.ColumnRef | None:
        """Find the key that an expression over the rows below is."""
        for key, name in self._keys:
            if key == expression:
                return self.rows.ref(name)
        return None

    def replaced(self, node: exp.Expr) -> ir.Expression | None:
        """Find the column for an aggregate, a key or GROUPING(…); None for any other node."""
        name = self._columns.get(id(node))
        if name is not None:
            return self.rows.ref(name)
        average = self._averages.get(id(node))
        if average is not None:
            total, count = (self.rows.ref(each) for each in average)
            return of_value(total).divided(count, self.queries.dialect).value()
        if isinstance(node, exp.Anonymous) and node.name.lower() in ("grouping", "grouping_id"):
            return self._grouping(node)
        if type(node) in self._shapes and not isinstance(node, exp.Column):
            if node in self._written:
                return self.rows.ref(self._written[node])
            return self._as_key(node)
        call = take_apart(node) if isinstance(node, (*WRAPPERS, exp.Anonymous)) else None
        if call is not None and AggregateNames(self.queries).is_aggregate(call.name):
            raise wrong(
                f"{call.name} cannot stand here: aggregates are of SELECT, HAVING and ORDER BY",
                call.node,
            )
        return None

    def _as_key(self, node: exp.Expr) -> ir.Expression | None:
        if any(True for _ in AggregateNames(self.queries).calls_in(node)):
            return None
        if node.find(exp.Query, exp.Window):
            return None
        plain = ExpressionBinder(self.queries.names, self.below)
        try:
            return self.key_of(self.settle_below(plain.bind(node)))
        except (QueryError, UnsupportedError):
            return None

    def _grouping(self, node: exp.Anonymous) -> ir.Expression:
        if self._id is None:
            raise wrong(
                f"{node.name.upper()} is for GROUPING SETS, ROLLUP and CUBE: this query has none",
                node,
            )
        keys = [self._grouping_key(each) for each in node.expressions]
        if not keys:
            keys = [name for _, name in self._keys]
        bits = [self._bit(name) for name in keys]
        kind = BIGINT
        spark = self.queries.dialect is Dialect.SPARK
        if node.name.lower() == "grouping":
            if len(keys) != 1 and spark:
                raise wrong("GROUPING takes one column", node)
            kind = TINYINT if spark and len(keys) == 1 else BIGINT
        result = bits[0]
        for bit in bits[1:]:
            doubled = ir.Call(BIGINT, "add", (result, result))
            result = ir.Call(BIGINT, "add", (doubled, bit))
        return cast_to(result, kind)

    def _grouping_key(self, node: exp.Expr) -> str:
        below = self.settle_below(ExpressionBinder(self.queries.names, self.below).bind(node))
        key = self.key_of(below)
        if key is None:
            raise wrong(f"{shown(node)} is no column of GROUP BY", node)
        return key.name

    def _bit(self, name: str) -> ir.Expression:
        if name not in self._set_keys:
            return ir.Literal(BIGINT, 0)
        assert self._id is not None
        place = len(self._set_keys) - 1 - self._set_keys.index(name)
        shifted: ir.Expression = self.rows.ref(self._id)
        if place:
            by = ir.Literal(replace(BIGINT, root="INT"), place)
            shifted = ir.Call(BIGINT, "shiftright", (shifted, by))
        return ir.Call(BIGINT, "bitwise_and", (shifted, ir.Literal(BIGINT, 1)))
