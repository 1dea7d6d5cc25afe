"""FROM: its entries and how they are joined."""

from collections.abc import Sequence

from sqlglot import exp

from pkray.relational.plan.lookup_options import LOOKUP
from pkray.relational.plan.nodes import Distinct, JoinKind, Project
from pkray.relational.sql.binder.context import Pair
from pkray.relational.sql.binder.from_clause import conditions
from pkray.relational.sql.binder.from_clause.base import FromBase, Item, flattened
from pkray.relational.sql.binder.from_clause.items import bind_item, named_columns
from pkray.relational.sql.binder.from_clause.joins import JoinBuilder
from pkray.relational.sql.binder.from_clause.temporal import join_temporal, temporal_column
from pkray.relational.sql.binder.patterns import as_interval_join
from pkray.relational.sql.binder.scope import Rows, Scope, Visible
from pkray.relational.sql.binder.subqueries import bind_subquery, equate
from pkray.relational.sql.places import unsupported, wrong


class FromBinder(FromBase):
    """Binds FROM, its joins and its LATERAL VIEWs."""

    def bind(self) -> Scope:
        """Bind FROM with all its joins."""
        start = self.select.args.get("from_")
        if start is not None:
            self._first(start.this)
            for join in start.this.args.get("joins") or ():
                self._join(join)
        for join in self.select.args.get("joins") or ():
            self._join(join)
        for lateral in self.select.args.get("laterals") or ():
            _unnest(self, lateral, outer=bool(lateral.args.get("outer")))
        self._domain()
        self._check_hints()
        return self.scope

    def _domain(self) -> None:
        """Join with the values that columns of the query around have."""
        if self.correlation is None:
            return
        wanted = self.correlation.domains.get(id(self.select), ())
        if not wanted:
            return
        outer = self.correlation.outer.rows
        names = [self.queries.numbers.fresh("d") for _ in wanted]
        references = [outer.ref(name) for name in wanted]
        domain = Distinct(Project(outer.node, tuple(zip(names, references, strict=True))))
        builder = JoinBuilder(self.rows, domain, self.dialect)
        self.rows.node = builder.join(JoinKind.INNER)
        for reference, name in zip(references, names, strict=True):
            self.scope.domain[reference.name] = name
            self.sources.pairs.append(Pair(reference, name, null_safe=True))

    def _check_hints(self) -> None:
        known = {self.scope.key(alias) for alias in self.sources.aliases}
        for alias, hints in self.hints.items():
            if self.scope.key(alias) not in known:
                raise wrong(
                    f"hint {next(iter(hints))} names {alias}, which is no table of this query; "
                    f"there are {', '.join(sorted(self.sources.aliases))}",
                    self.select,
                )
            if LOOKUP in hints and self.scope.key(alias) not in self.sources.looked_up:
                raise wrong(
                    f"hint LOOKUP names {alias}, which is not looked up: it is of joins FOR "
                    "SYSTEM_TIME AS OF a time that no watermark follows",
                    self.select,
                )

    def _first(self, tree: exp.Expr) -> None:
        if _is_lateral(tree):
            _join_lateral(self, tree, JoinKind.INNER, None)
            return
        item = self.item(tree)
        self.rows.node = item.node
        self.scope.columns += item.columns
        self.sources.pairs += item.pairs
        self.sources.residuals += item.residuals

    def _join(self, join: exp.Join) -> None:
        kind = conditions.kind_of(join)
        tree = join.this
        on = join.args.get("on")
        if _is_lateral(tree):
            _join_lateral(self, tree, kind, on)
            return
        if isinstance(tree, exp.Table) and temporal_column(tree) is not None:
            join_temporal(self, tree, kind, on)
            return
        item = self.item(tree)
        builder = JoinBuilder(self.rows, item.node, self.dialect)
        columns = conditions.moved(item.columns, builder)
        using = conditions.using_names(self, join, item)
        if using:
            conditions.merge(self, builder, kind, columns, using, item, join)
            return
        whole = _both_sides(self, builder, columns)
        later = conditions.bind_on(self, builder, whole, on, kind, item) if on is not None else []
        self.pass_on(item, builder)
        self.rows.node = as_interval_join(builder.join(kind))
        if kind.keeps_right:
            self.scope.columns += columns
        self.filter_rows(self.scope, later)

    def item(self, tree: exp.Expr) -> Item:
        """Bind one entry of FROM."""
        return bind_item(self, tree)


def _join_lateral(clause: FromBase, tree: exp.Expr, kind: JoinKind, on: exp.Expr | None) -> None:
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
    _unnest(clause, tree, outer=kind is JoinKind.LEFT)
    clause.filter_rows(clause.scope, flattened(condition) if condition is not None else ())


def _join_lateral_query(
    clause: FromBase, tree: exp.Expr, query: exp.Subquery, kind: JoinKind, on: exp.Expr | None
) -> None:
    bound = bind_subquery(clause.queries, query.this, clause.scope)
    builder = JoinBuilder(clause.rows, bound.node, clause.dialect)
    equate(builder, bound)
    item = Item(bound.node, named_columns(bound, tree.args.get("alias"), clause.dialect))
    columns = conditions.moved(item.columns, builder)
    whole = _both_sides(clause, builder, columns)
    later = conditions.bind_on(clause, builder, whole, on, kind, item) if on is not None else []
    clause.rows.node = builder.join(kind)
    clause.scope.columns += columns
    clause.filter_rows(clause.scope, later)


def _unnest(clause: FromBase, tree: exp.Expr, *, outer: bool) -> None:
    """Join each row with what a table function makes of it."""
    clause.scope.columns += clause.generators.unnest(clause.rows, tree, clause.bound, outer=outer)
    if tree.alias:
        clause.sources.aliases.add(tree.alias)


def _is_lateral(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Lateral | exp.Unnest)


def _both_sides(clause: FromBase, builder: JoinBuilder, columns: Sequence[Visible]) -> Scope:
    """Make the scope of a join's condition."""
    rows = Rows(builder.join(JoinKind.INNER), clause.queries.numbers)
    seen = [*clause.scope.columns, *columns]
    return Scope(rows, seen, clause.dialect, clause.correlation)
