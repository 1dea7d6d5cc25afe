"""FROM: its entries and how they are joined."""

from __future__ import annotations

from sqlglot import exp

from pkray.relational.plan.lookup_options import LOOKUP
from pkray.relational.plan.nodes import Distinct, JoinKind, Project
from pkray.relational.sql.binder.context import Pair
from pkray.relational.sql.binder.from_clause import conditions
from pkray.relational.sql.binder.from_clause.base import FromBase, Item
from pkray.relational.sql.binder.from_clause.items import bind_item
from pkray.relational.sql.binder.from_clause.joins import JoinBuilder
from pkray.relational.sql.binder.from_clause.laterals import is_lateral, join_lateral, lateral_view
from pkray.relational.sql.binder.from_clause.temporal import join_temporal, temporal_column
from pkray.relational.sql.binder.patterns import as_interval_join
from pkray.relational.sql.binder.scope import Rows, Scope
from pkray.relational.sql.places import wrong


class FromBinder(FromBase):
    """Binds FROM, its joins and its LATERAL VIEWs."""

    def bind(self) -> Scope:
        """Bind FROM with all its joins."""
        start = self.select.args.get("from_")
        if start is not None:
            self._first(start.this)
            self._joins(start.this)
        for join in self.select.args.get("joins") or ():
            self._join(join)
        for lateral in self.select.args.get("laterals") or ():
            lateral_view(self, lateral)
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
        if is_lateral(tree):
            join_lateral(self, tree, JoinKind.INNER, None)
            return
        item = self.item(tree)
        self.rows.node = item.node
        self.scope.columns += item.columns
        self.sources.pairs += item.pairs
        self.sources.residuals += item.residuals

    def _joins(self, tree: exp.Expr) -> None:
        for join in tree.args.get("joins") or ():
            self._join(join)

    def _join(self, join: exp.Join) -> None:
        kind = conditions.kind_of(join)
        tree = join.this
        on = join.args.get("on")
        if is_lateral(tree):
            join_lateral(self, tree, kind, on)
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
        whole = Scope(
            Rows(builder.join(JoinKind.INNER), self.queries.numbers),
            [*self.scope.columns, *columns],
            self.dialect,
            self.correlation,
        )
        later = conditions.bind_on(self, builder, whole, on, kind, item) if on is not None else []
        self.pass_on(item, builder)
        self.rows.node = as_interval_join(builder.join(kind))
        if kind.keeps_right:
            self.scope.columns += columns
        self.filter(later)

    def item(self, tree: exp.Expr) -> Item:
        """Bind one entry of FROM."""
        return bind_item(self, tree)
