"""Subqueries in expressions: each becomes a join."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from pkray.relational.functions import function
from pkray.relational.functions.coercion import BOOLEAN, coerced
from pkray.relational.plan import expressions as ir
from pkray.relational.plan.nodes import JoinKind
from pkray.relational.sql.binder.context import BoundQuery, Queries
from pkray.relational.sql.binder.from_clause.joins import JoinBuilder
from pkray.relational.sql.binder.patterns import as_interval_join, pruned
from pkray.relational.sql.binder.scope import Correlation, NeedsDomainError, OuterRef, Scope
from pkray.relational.sql.expressions.operators import BINARY, negation
from pkray.relational.sql.places import placed, wrong

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
Bind = Callable[[exp.Expr], ir.Expression]


def bind_subquery(
    queries: Queries, tree: exp.Expr, outer: Scope, *, is_scalar: bool = False
) -> BoundQuery:
    """Bind a query that may use columns of the query around it."""
    correlation = Correlation(outer)
    while True:
        try:
            return queries.bind(tree, correlation, is_scalar=is_scalar)
        except NeedsDomainError as need:
            if need.reference.correlation is not correlation:
                raise
            names = correlation.domains.setdefault(id(need.select), [])
            if need.reference.name in names:
                raise wrong(
                    f"column {need.reference.name} of the query around cannot be used here: "
                    "write a join",
                    need.select,
                ) from None
            names += dict.fromkeys(
                name for name in (need.reference.name, *need.equal) if name not in names
            )


class Subqueries:
    """Joins the rows of a query with those of the subqueries in its expressions.

    Args:
        scope: what the subqueries see of it; they are joined to its rows.
        bind: binds expressions over it.
    """

    def __init__(self, queries: Queries, scope: Scope, bind: Bind) -> None:
        self.queries = queries
        self.scope = scope
        self.bind = bind

    # As conditions of WHERE

    def filter(self, node: exp.Expr) -> bool:
        """Keep the rows for which EXISTS, IN, ANY or ALL is true; False: it is none of these."""
        negated, inner = False, node
        while isinstance(inner, exp.Not | exp.Paren):
            negated ^= isinstance(inner, exp.Not)
            inner = inner.this
        kind = JoinKind.ANTI if negated else JoinKind.SEMI
        if isinstance(inner, exp.Exists):
            builder = self._matched(inner.this)
            self.scope.rows.node = as_interval_join(builder.join(kind))
            return True
        if isinstance(inner, exp.In) and inner.args.get("query") is not None:
            self._filter_in(inner, inner.args["query"], negated=negated)
            return True
        quantified = _quantified(inner)
        if quantified is None:
            return False
        name, is_any, query = quantified
        if (name, is_any) in (("equal", True), ("not_equal", False)):
            self._filter_in(inner, query, negated=negated ^ (not is_any))
            return True
        builder, compared = self._compared(inner, name, query)
        wants = compared if is_any else negation(compared)
        if negated == is_any:
            wants = ir.Call(BOOLEAN, "or", (wants, _is_null(compared)))
        kind = JoinKind.SEMI if negated != is_any else JoinKind.ANTI
        builder.on(wants)
        self.scope.rows.node = builder.join(kind)
        return True

    def _filter_in(self, node: exp.Expr, query: exp.Expr, *, negated: bool) -> None:
        lefts = self._values(node.this)
        if negated and len(lefts) > 1:
            builder, equal = self._rows_equal(node, lefts, query)
            builder.conditions.append(ir.Call(BOOLEAN, "or", (equal, _is_null(equal))))
            self.scope.rows.node = builder.join(JoinKind.ANTI)
            return
        builder = self._keyed(node, lefts, query)
        kind = JoinKind.ANTI if negated else JoinKind.SEMI
        joined = builder.join(kind, null_aware=negated and _may_be_null(builder))
        self.scope.rows.node = as_interval_join(joined)

    # As values

    def replaced(self, node: exp.Expr) -> ir.Expression | None:
        """Find the column for a subquery; None for any other node."""
        if isinstance(node, exp.Subquery | exp.Select | exp.SetOperation):
            return self._scalar(node)
        if isinstance(node, exp.Exists):
            return self._mark(self._matched(node.this))
        if isinstance(node, exp.In) and node.args.get("query") is not None:
            return self._in(node, node.args["query"])
        quantified = _quantified(node)
        if quantified is None:
            return None
        name, is_any, query = quantified
        if (name, is_any) == ("equal", True):
            return self._in(node, query)
        if (name, is_any) == ("not_equal", False):
            return negation(self._in(node, query))
        found = self._exists(lambda: self._compared(node, name, query), negated=not is_any)
        return found if is_any else negation(found)

    def _in(self, node: exp.Expr, query: exp.Expr) -> ir.Expression:
        lefts = self._values(node.this)
        if len(lefts) > 1:
            return self._exists(lambda: self._rows_equal(node, lefts, query), negated=False)
        builder = self._keyed(node, lefts, query)
        return self._mark(builder, null_aware=_may_be_null(builder))

    def _exists(
        self, compare: Callable[[], tuple[JoinBuilder, ir.Expression]], *, negated: bool
    ) -> ir.Expression:
        """Whether a comparison is true for some row, in three-valued logic."""
        builder, compared = compare()
        builder.on(negation(compared) if negated else compared)
        is_true = self._mark(builder)
        builder, compared = compare()
        builder.conditions.append(_is_null(compared))
        is_unknown = self._mark(builder)
        branches = ((is_true, ir.Literal(BOOLEAN, True)), (is_unknown, ir.Literal(BOOLEAN, None)))
        return ir.Case(BOOLEAN, branches, ir.Literal(BOOLEAN, False))

    def _mark(self, builder: JoinBuilder, *, null_aware: bool = False) -> ir.Expression:
        rows = self.scope.rows
        name = rows.fresh("m")
        rows.node = builder.join(JoinKind.MARK, null_aware=null_aware, mark_name=name)
        return rows.ref(name)

    def _scalar(self, node: exp.Expr) -> ir.Expression:
        rows = self.scope.rows
        bound = bind_subquery(self.queries, node, self.scope, is_scalar=True)
        if len(bound.columns) != 1:
            raise wrong(
                f"a subquery that stands for a value gives one column, not {len(bound.columns)}",
                node,
            )
        builder = self._pairs(bound)
        if bound.values:
            rows.node = builder.join(JoinKind.LEFT)
            return self._of_group(bound, builder)
        single = bound.is_single and not bound.is_correlated
        rows.node = builder.join(JoinKind.INNER if single else JoinKind.SINGLE)
        return rows.ref(builder.taken[bound.columns[0]])

    def _of_group(self, bound: BoundQuery, builder: JoinBuilder) -> ir.Expression:
        """Compute the value from a group's aggregates; a group without rows counts 0."""
        rows = self.scope.rows

        def change(part: ir.Expression) -> ir.Expression:
            if isinstance(part, OuterRef):
                return rows.ref(part.name)
            if not isinstance(part, ir.ColumnRef):
                return part
            return counted(rows.ref(builder.taken[part.name]), part.type.nullable)

        return bound.values[0].transform(change)

    # Joins

    def _matched(self, tree: exp.Expr) -> JoinBuilder:
        """Join with the rows of EXISTS: what it selects does not matter."""
        bound = bind_subquery(self.queries, tree, self.scope)
        needed = {pair.column for pair in bound.pairs}
        for residual in bound.residuals:
            needed |= residual.columns()
        node = pruned(bound.node, needed) if needed else bound.node
        return self._pairs(replace(bound, node=node))

    def _pairs(self, bound: BoundQuery) -> JoinBuilder:
        builder = JoinBuilder(self.scope.rows, bound.node, self.queries.dialect)
        equate(builder, bound)
        return builder

    def _values(self, node: exp.Expr) -> list[ir.Expression]:
        node = node.unnest()
        written = node.expressions if isinstance(node, exp.Tuple) else [node]
        return [self.bind(each) for each in written]

    def _bound(self, node: exp.Expr, count: int, query: exp.Expr) -> BoundQuery:
        bound = bind_subquery(self.queries, query, self.scope)
        if len(bound.columns) != count:
            raise wrong(
                f"{count} values are compared with a subquery of {len(bound.columns)} columns", node
            )
        return bound

    def _keyed(
        self, node: exp.Expr, lefts: Sequence[ir.Expression], query: exp.Expr
    ) -> JoinBuilder:
        """Join by equality; the compared values are the first keys."""
        bound = self._bound(node, len(lefts), query)
        builder = JoinBuilder(self.scope.rows, bound.node, self.queries.dialect)
        for left, name in zip(lefts, bound.columns, strict=True):
            with placed(node):
                right = builder.right.ref(name)
                pair = coerced((left, right), self.queries.dialect, "values of IN")
            builder.equate(*pair)
        equate(builder, bound)
        return builder

    def _rows_equal(
        self, node: exp.Expr, lefts: Sequence[ir.Expression], query: exp.Expr
    ) -> tuple[JoinBuilder, ir.Expression]:
        bound = self._bound(node, len(lefts), query)
        builder = self._pairs(bound)
        equal = tuple(
            function.resolve("equal", (left, _right(builder, name)), self.queries.dialect)
            for left, name in zip(lefts, bound.columns, strict=True)
        )
        return builder, ir.all_of(equal)

    def _compared(
        self, node: exp.Expr, name: str, query: exp.Expr
    ) -> tuple[JoinBuilder, ir.Expression]:
        left = self.bind(node.this)
        bound = self._bound(node, 1, query)
        builder = self._pairs(bound)
        right = _right(builder, bound.columns[0])
        return builder, function.resolve(name, (left, right), self.queries.dialect)


def equate(builder: JoinBuilder, bound: BoundQuery) -> None:
    """Join by what the rows of a subquery are joined to the query around by."""
    for pair in bound.pairs:
        right = builder.right.ref(pair.column)
        builder.equate(pair.outer, right, null_safe=pair.null_safe)
    for residual in bound.residuals:
        builder.on(as_joined(builder.renamed(residual)))


def counted(value: ir.ColumnRef, nullable: bool) -> ir.Expression:
    """Give a count that an outer join has made NULL its value for no rows: 0."""
    if nullable:
        return value
    kind = value.type.with_nullable(False)
    zero = ir.Literal(kind, [] if kind.root == "ARRAY" else 0)
    return ir.Case(kind, ((_is_null(value), zero),), value)


def as_joined(expression: ir.Expression) -> ir.Expression:
    """Read columns of the query around from the rows that a subquery is joined to."""

    def change(part: ir.Expression) -> ir.Expression:
        return ir.ColumnRef(part.type, part.name) if isinstance(part, OuterRef) else part

    return expression.transform(change)


def _quantified(node: exp.Expr) -> tuple[str, bool, exp.Expr] | None:
    """Read ``x > ALL (SELECT …)``: the comparison, whether it is ANY, and the subquery."""
    if type(node) not in _COMPARISONS or not isinstance(node.expression, exp.Any | exp.All):
        return None
    query = node.expression.this.unnest()
    if not isinstance(query, exp.Query):
        return None
    return BINARY[type(node)], isinstance(node.expression, exp.Any), query


def _right(builder: JoinBuilder, column: str) -> ir.Expression:
    return builder.renamed(builder.right.ref(column))


def _is_null(value: ir.Expression) -> ir.Expression:
    return ir.Call(ir.TRUE.type, "is_null", (value,))


def _may_be_null(builder: JoinBuilder) -> bool:
    left = builder.left.node.fields[builder.left_keys[0]].type.nullable
    return left or builder.right.node.fields[builder.right_keys[0]].type.nullable
