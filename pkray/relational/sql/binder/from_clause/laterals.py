"""LATERAL: queries and table functions that see the entries before them."""

from __future__ import annotations

from sqlglot import exp

from pkray.relational.plan.nodes import JoinKind
from pkray.relational.sql.binder.from_clause.base import FromBase, Item, flattened
from pkray.relational.sql.binder.from_clause.conditions import bind_on, moved
from pkray.relational.sql.binder.from_clause.items import named_columns
from pkray.relational.sql.binder.from_clause.joins import JoinBuilder
from pkray.relational.sql.binder.scope import Rows, Scope
from pkray.relational.sql.binder.subqueries import as_joined, bind_subquery
from pkray.relational.sql.places import unsupported


def join_lateral(clause: FromBase, tree: exp.Expr, kind: JoinKind, on: exp.Expr | None) -> None:
    """Join with a query or a table function that reads the entries before it."""
    if kind not in (JoinKind.INNER, JoinKind.LEFT):
        raise unsupported(
            f"a {kind} join with LATERAL is not offered: write CROSS JOIN or LEFT JOIN", tree
        )
    query = tree.this if isinstance(tree, exp.Lateral) else None
    if isinstance(query, exp.Subquery):
        _join_lateral_query(clause, tree, query, kind, on)
        return
    condition = None if on is None or on == exp.true() else on
    if condition is not None and kind is JoinKind.LEFT:
        raise unsupported(
            "a LEFT JOIN with a table function takes ON TRUE: filter its rows in WHERE", tree
        )
    unnest(clause, tree, outer=kind is JoinKind.LEFT)
    clause.filter(flattened(condition) if condition is not None else ())


def _join_lateral_query(
    clause: FromBase, tree: exp.Expr, query: exp.Subquery, kind: JoinKind, on: exp.Expr | None
) -> None:
    bound = bind_subquery(clause.queries, query.this, clause.scope)
    builder = JoinBuilder(clause.rows, bound.node, clause.dialect)
    for pair in bound.pairs:
        right = builder.right.ref(pair.column)
        builder.equate(pair.outer, right, null_safe=pair.null_safe)
    for residual in bound.residuals:
        builder.on(as_joined(builder.renamed(residual)))
    item = Item(bound.node, named_columns(bound, tree.args.get("alias"), clause.dialect))
    columns = moved(item.columns, builder)
    whole = Scope(
        Rows(builder.join(JoinKind.INNER), clause.queries.numbers),
        [*clause.scope.columns, *columns],
        clause.dialect,
        clause.correlation,
    )
    later = bind_on(clause, builder, whole, on, kind, item) if on is not None else []
    clause.rows.node = builder.join(kind)
    clause.scope.columns += columns
    clause.filter(later)


def lateral_view(clause: FromBase, lateral: exp.Lateral) -> None:
    """Bind one LATERAL VIEW."""
    unnest(clause, lateral, outer=bool(lateral.args.get("outer")))


def unnest(clause: FromBase, tree: exp.Expr, *, outer: bool) -> None:
    """Join each row with what a table function makes of it."""
    clause.scope.columns += clause.generators.unnest(clause.rows, tree, clause.bound, outer=outer)
    if tree.alias:
        clause.sources.aliases.add(tree.alias)


def is_lateral(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Lateral | exp.Unnest)
