"""GROUP BY and aggregates."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

from sqlglot import exp

from pkray.errors import QueryError, UnsupportedError
from pkray.relational.dialect import Dialect
from pkray.relational.functions.aggregates import (
    Resolved,
    is_aggregate,
    resolve_aggregate,
)
from pkray.relational.functions.coercion import cast_to
from pkray.relational.plan.expressions import (
    AggregateCall,
    Call,
    ColumnRef,
    Expression,
    Literal,
    SortKey,
)
from pkray.relational.plan.nodes import Aggregate, Expand
from pkray.relational.sql.context import Queries
from pkray.relational.sql.expressions import ExpressionBinder
from pkray.relational.sql.joins import normalized
from pkray.relational.sql.parser import position
from pkray.relational.sql.scope import Correlation, Rows, Scope
from pkray.schema.types import DataType

_T = TypeVar("_T")
Bind: TypeAlias = Callable[[exp.Expr], Expression]
MAX_SETS = 1024
"""Most grouping sets: each repeats every row; CUBE of ten columns has that many."""
BOOLEAN = DataType("BOOLEAN")
BIGINT = DataType("BIGINT", nullable=False)
TINYINT = DataType("TINYINT", nullable=False)
_WRAPPERS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
_IGNORING = ("first", "first_value", "last", "last_value", "any_value")


@dataclass(frozen=True)
class Written:
    """A call of an aggregate or a window function, taken apart.

    Attributes:
        node: the function itself.
        whole: with FILTER and the like around it.
    """

    node: exp.Anonymous
    whole: exp.Expr
    arguments: tuple[exp.Expr, ...]
    distinct: bool = False
    filter: exp.Expr | None = None
    order: tuple[exp.Ordered, ...] = ()
    within: tuple[exp.Ordered, ...] = ()
    ignore_nulls: bool = False

    @property
    def name(self) -> str:
        """Give the function's name."""
        return self.node.name


def take_apart(whole: exp.Expr) -> Written | None:
    """Find the function below FILTER, WITHIN GROUP and IGNORE NULLS; None if there is none."""
    node, condition, ignore = whole, None, False
    within: tuple[exp.Ordered, ...] = ()
    while isinstance(node, _WRAPPERS):
        if isinstance(node, exp.Filter):
            condition = node.expression.this
        elif isinstance(node, exp.WithinGroup):
            within = tuple(node.expression.expressions)
        else:
            ignore = isinstance(node, exp.IgnoreNulls)
        node = node.this
    if not isinstance(node, exp.Anonymous):
        return None
    arguments: list[exp.Expr] = list(node.expressions)
    distinct, order = False, ()
    if arguments:
        last = arguments[-1]
        if isinstance(last, exp.Order):
            order = tuple(last.expressions)
            arguments[-1] = last.this
        if isinstance(arguments[0], exp.IgnoreNulls | exp.RespectNulls):
            ignore = isinstance(arguments[0], exp.IgnoreNulls)
            arguments[0] = arguments[0].this
        if isinstance(arguments[0], exp.Distinct):
            distinct = True
            arguments[:1] = arguments[0].expressions
    return Written(node, whole, tuple(arguments), distinct, condition, order, within, ignore)


class AggregateNames:
    """Tells aggregates from other functions."""

    def __init__(self, queries: Queries) -> None:
        self.queries = queries

    def is_aggregate(self, name: str) -> bool:
        """Whether people can write an aggregate of this name; users' functions too."""
        if is_aggregate(name, self.queries.dialect):
            return True
        udf = self.queries.names.udf(name)
        return udf is not None and str(udf.kind) == "aggregate"

    def calls_in(self, tree: exp.Expr) -> Iterator[Written]:
        """List the aggregates in an expression: not those with OVER, nor those of subqueries."""
        waiting = [tree]
        while waiting:
            node = waiting.pop()
            if isinstance(node, exp.Query):
                continue
            children: list[exp.Expr]
            if isinstance(node, exp.Window):
                inner = take_apart(node.this)
                children = list(node.iter_expressions())
                if inner is not None:
                    children = [each for each in children if each is not node.this]
                    children += [*inner.arguments, *([inner.filter] if inner.filter else [])]
                waiting += reversed(children)
                continue
            call = take_apart(node) if isinstance(node, (*_WRAPPERS, exp.Anonymous)) else None
            if call is not None and self.is_aggregate(call.name):
                yield call
                continue
            waiting += reversed(list(node.iter_expressions()))


@dataclass
class Groups:
    """What GROUP BY says.

    Attributes:
        keys: the expressions, each once.
        sets: positions in `keys`, a grouping set each; one set of all keys where GROUP BY is plain.
        is_plain: whether no grouping sets are written.
    """

    keys: list[exp.Expr] = field(default_factory=list)
    sets: list[tuple[int, ...]] = field(default_factory=lambda: [()])
    is_plain: bool = True


def read_groups(group: exp.Group | None, resolve: Callable[[exp.Expr], exp.Expr]) -> Groups:
    """Read GROUP BY.

    Args:
        resolve: finds what an ordinal or an alias stands for.
    """
    groups = Groups()
    if group is None:
        return groups
    if group.args.get("totals"):
        raise UnsupportedError("WITH TOTALS is not offered: write ROLLUP", **position(group))
    parts = [_sets(each, groups, resolve) for each in group.expressions]
    plain = tuple(dict.fromkeys(place for part in parts for each in part for place in each))
    for kind in ("rollup", "cube"):
        for each in group.args.get(kind) or ():
            if isinstance(each, exp.Rollup | exp.Cube) and not each.expressions:
                groups.is_plain = False
                parts = [_prefixes(plain) if kind == "rollup" else _subsets(plain)]
            elif isinstance(each, exp.Expr):
                parts.append(_sets(each, groups, resolve))
    for each in group.args.get("grouping_sets") or ():
        parts = [_sets(each, groups, resolve)]
    count = 1
    for part in parts:
        count *= len(part)
        if count > MAX_SETS:
            raise QueryError(f"GROUP BY has more than {MAX_SETS} grouping sets", **position(group))
    groups.sets = [
        tuple(dict.fromkeys(itertools.chain.from_iterable(each)))
        for each in itertools.product(*parts)
    ]
    return groups


def _sets(
    node: exp.Expr, groups: Groups, resolve: Callable[[exp.Expr], exp.Expr]
) -> list[tuple[int, ...]]:
    if isinstance(node, exp.GroupingSets):
        groups.is_plain = False
        return [each for part in node.expressions for each in _sets(part, groups, resolve)]
    if isinstance(node, exp.Rollup | exp.Cube):
        groups.is_plain = False
        if len(node.expressions) > 10 and isinstance(node, exp.Cube):
            raise QueryError("CUBE takes at most ten columns", **position(node))
        parts = [_sets(each, groups, resolve)[0] for each in node.expressions]
        chosen = _prefixes(parts) if isinstance(node, exp.Rollup) else _subsets(parts)
        return [tuple(dict.fromkeys(itertools.chain.from_iterable(each))) for each in chosen]
    if isinstance(node, exp.Tuple):
        inner = [_sets(each, groups, resolve)[0] for each in node.expressions]
        return [tuple(dict.fromkeys(itertools.chain.from_iterable(inner)))]
    if isinstance(node, exp.Paren):
        return _sets(node.this, groups, resolve)
    key = resolve(node)
    if key not in groups.keys:
        groups.keys.append(key)
    return [(groups.keys.index(key),)]


def _prefixes(parts: Sequence[_T]) -> list[tuple[_T, ...]]:
    return [tuple(parts[:length]) for length in range(len(parts), -1, -1)]


def _subsets(parts: Sequence[_T]) -> list[tuple[_T, ...]]:
    return [
        chosen
        for length in range(len(parts), -1, -1)
        for chosen in itertools.combinations(parts, length)
    ]


class GroupedScope(Scope):
    """Finds names in groups: a column must be a key, or stand in an aggregate."""

    def __init__(self, grouping: Grouping, below: Scope, correlation: Correlation | None) -> None:
        super().__init__(grouping.rows, below.columns, below.dialect, correlation, grouping.settle)
        self.domain = grouping.domain
        self._below = below
        self._grouping = grouping

    def find(self, parts: tuple[str, ...], node: exp.Expr) -> Expression | None:
        """Find a key."""
        found = self._below.find(parts, node)
        if found is None:
            return None
        key = self._grouping.key_of(found)
        if key is None and self.key(parts[0]) in self.aliases and len(parts) == 1:
            return None
        if key is None:
            name = ".".join(parts)
            raise QueryError(
                f"column {name} is neither in GROUP BY nor in an aggregate: group by it, or write "
                f"any_value({name})"
                + ("" if self.dialect is Dialect.SPARK else f" or MAX({name})"),
                **position(node),
            )
        return key


class Grouping:
    """Groups rows and computes aggregates.

    Attributes:
        rows: a row a group.
    """

    def __init__(
        self,
        queries: Queries,
        below: Scope,
        bind_below: ExpressionBinder,
        settle_below: Callable[[Expression], Expression],
        settle: Callable[[Expression], Expression],
    ) -> None:
        self.queries = queries
        self.below = below
        self.settle = settle
        self._binder = bind_below
        self._settle_below = settle_below
        self._keys: list[tuple[Expression, str]] = []
        self._shapes: set[type[exp.Expr]] = set()
        self._written: dict[exp.Expr, str] = {}
        self._calls: list[tuple[str, AggregateCall]] = []
        self._columns: dict[int, str] = {}
        self._set_keys: list[str] = []
        self._id: str | None = None
        self.groups = Groups()
        self.rows = below.rows
        self.domain = below.domain

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
        self._shapes = {type(_bare(each)) for each in groups.keys}
        for call in calls:
            self._columns[id(call.whole)] = self._call(call)
        extra = self._expand(names)
        unique = tuple(dict.fromkeys((*names, *extra, *correlated)))
        node = Aggregate(rows.node, unique, tuple(self._calls))
        self.rows = Rows(node, self.queries.numbers)

    def _key(self, node: exp.Expr) -> Expression:
        key = self._settle_below(self._binder.bind(node))
        if key.type.root == "MAP":
            raise QueryError("a MAP cannot be grouped by", **position(node))
        return key

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

    def _call(self, call: Written) -> str:
        condition = None
        if call.filter is not None:
            self._check_plain(call.filter)
            bound = self._settle_below(self._binder.condition(call.filter))
            (condition,) = self.below.rows.compute([bound], "a")
        udf = self.queries.names.udf(call.name)
        if udf is not None and str(udf.kind) == "aggregate":
            made = self._of_udf(call, udf, condition)
        else:
            made = self._of_function(call, condition)
        for name, known in self._calls:
            if known == made:
                return name
        name = self.below.rows.fresh("s")
        self._calls.append((name, made))
        return name

    def _of_udf(self, call: Written, udf: Any, condition: str | None) -> AggregateCall:
        arguments = udf.typed(self._arguments(call))
        return AggregateCall(
            "udf",
            tuple(self.below.rows.compute(arguments, "a")),
            udf.type,
            call.distinct,
            condition,
            self._order(call.order or call.within),
            udf=udf,
        )

    def _of_function(self, call: Written, condition: str | None) -> AggregateCall:
        arguments = self._arguments(call)
        if call.ignore_nulls and call.name.lower() in _IGNORING:
            arguments = (*arguments, Literal(BOOLEAN.with_nullable(False), True))
        within = tuple(self._argument(each.this) for each in call.within)
        resolved = self._resolved(call, arguments, within)
        counted = resolved.arguments
        if resolved.function == "count" and not call.distinct:
            counted = tuple(each for each in counted if each.type.nullable)
        if call.distinct and self.queries.dialect is Dialect.SPARK:
            counted = tuple(normalized(each, self.queries.dialect) for each in counted)
        columns = tuple(self.below.rows.compute(counted, "a"))
        order = call.order
        is_place = resolved.function in ("percentile_cont", "percentile_disc", "mode")
        if not is_place or any(each.args.get("desc") for each in call.within):
            order = order or call.within
        ignores = call.ignore_nulls or bool(
            resolved.function in ("first", "last") and resolved.parameters
        )
        return AggregateCall(
            resolved.function,
            columns,
            resolved.type,
            call.distinct,
            condition,
            self._order(order),
            resolved.parameters,
            ignores,
        )

    def _resolved(
        self, call: Written, arguments: tuple[Expression, ...], within: tuple[Expression, ...]
    ) -> Resolved:
        try:
            return resolve_aggregate(
                call.name,
                arguments,
                self.queries.dialect,
                distinct=call.distinct,
                within_group=within,
            )
        except (QueryError, UnsupportedError) as error:
            if "line" in error.values:
                raise
            values = {**error.values, **position(call.node)}
            raise type(error)(error.message, **values) from None

    def _arguments(self, call: Written) -> tuple[Expression, ...]:
        if len(call.arguments) == 1 and isinstance(call.arguments[0], exp.Star):
            if call.name.lower() != "count":
                raise QueryError(
                    f"{call.name}(*) is not defined: name a column", **position(call.node)
                )
            if call.distinct:
                raise QueryError(
                    "COUNT(DISTINCT *) is not defined: name columns", **position(call.node)
                )
            return ()
        return tuple(self._argument(each) for each in call.arguments)

    def _argument(self, node: exp.Expr) -> Expression:
        self._check_plain(node)
        return self._settle_below(self._binder.bind(node))

    def _check_plain(self, node: exp.Expr) -> None:
        for inner in AggregateNames(self.queries).calls_in(node):
            raise QueryError(
                f"{inner.name} stands in another aggregate: compute it in a subquery first",
                **position(inner.node),
            )
        if node.find(exp.Window):
            raise QueryError(
                "a window function stands in an aggregate: compute it in a subquery first",
                **position(node),
            )

    def _order(self, order: Sequence[exp.Ordered]) -> tuple[SortKey, ...]:
        values = [self._argument(each.this) for each in order]
        names = self.below.rows.compute(values, "o")
        return tuple(
            SortKey(name, bool(each.args.get("desc")), bool(each.args.get("nulls_first")))
            for name, each in zip(names, order, strict=True)
        )

    # What groups know

    def key_of(self, expression: Expression) -> ColumnRef | None:
        """Find the key that an expression over the rows below is."""
        for key, name in self._keys:
            if key == expression:
                return self.rows.ref(name)
        return None

    def replaced(self, node: exp.Expr) -> Expression | None:
        """Find the column for an aggregate, a key or GROUPING(…); None for any other node."""
        name = self._columns.get(id(node))
        if name is not None:
            return self.rows.ref(name)
        if isinstance(node, exp.Anonymous) and node.name.lower() in ("grouping", "grouping_id"):
            return self._grouping(node)
        if type(node) in self._shapes and not isinstance(node, exp.Column):
            if node in self._written:
                return self.rows.ref(self._written[node])
            return self._as_key(node)
        call = take_apart(node) if isinstance(node, (*_WRAPPERS, exp.Anonymous)) else None
        if call is not None and AggregateNames(self.queries).is_aggregate(call.name):
            raise QueryError(
                f"{call.name} cannot stand here: aggregates are of SELECT, HAVING and ORDER BY",
                **position(call.node),
            )
        return None

    def _as_key(self, node: exp.Expr) -> Expression | None:
        if any(True for _ in AggregateNames(self.queries).calls_in(node)):
            return None
        if node.find(exp.Query, exp.Window):
            return None
        plain = ExpressionBinder(self.queries.names, self.below)
        try:
            return self.key_of(self._settle_below(plain.bind(node)))
        except (QueryError, UnsupportedError):
            return None

    def _grouping(self, node: exp.Anonymous) -> Expression:
        if self._id is None:
            raise QueryError(
                f"{node.name.upper()} is for GROUPING SETS, ROLLUP and CUBE: this query has none",
                **position(node),
            )
        keys = [self._grouping_key(each) for each in node.expressions]
        if not keys:
            keys = [name for _, name in self._keys]
        bits = [self._bit(name) for name in keys]
        kind = BIGINT
        spark = self.queries.dialect is Dialect.SPARK
        if node.name.lower() == "grouping":
            if len(keys) != 1 and spark:
                raise QueryError("GROUPING takes one column", **position(node))
            kind = TINYINT if spark and len(keys) == 1 else BIGINT
        result = bits[0]
        for bit in bits[1:]:
            doubled = Call(BIGINT, "add", (result, result))
            result = Call(BIGINT, "add", (doubled, bit))
        return cast_to(result, kind)

    def _grouping_key(self, node: exp.Expr) -> str:
        below = self._settle_below(ExpressionBinder(self.queries.names, self.below).bind(node))
        key = self.key_of(below)
        if key is None:
            raise QueryError(f"{node.sql()} is no column of GROUP BY", **position(node))
        return key.name

    def _bit(self, name: str) -> Expression:
        if name not in self._set_keys:
            return Literal(BIGINT, 0)
        assert self._id is not None
        place = len(self._set_keys) - 1 - self._set_keys.index(name)
        shifted: Expression = self.rows.ref(self._id)
        if place:
            by = Literal(replace(BIGINT, root="INT"), place)
            shifted = Call(BIGINT, "shiftright", (shifted, by))
        return Call(BIGINT, "bitwise_and", (shifted, Literal(BIGINT, 1)))


def _bare(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node
