"""FROM: tables, views, subqueries, VALUES and table functions, and how they are joined."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any

from sqlglot import exp

from pkray.errors import QueryError, UnsupportedError
from pkray.relational.compiled import fold
from pkray.relational.dialect import Dialect
from pkray.relational.functions.coercion import coerced
from pkray.relational.plan.expressions import TRUE, Call, Case, ColumnRef, Expression, Literal
from pkray.relational.plan.fields import Fields, distinct_names
from pkray.relational.plan.nodes import (
    Distinct,
    Hint,
    JoinKind,
    Node,
    Project,
    Scan,
    TemporalJoin,
    Values,
)
from pkray.relational.sql.binder.context import BoundQuery, Pair, Queries, Sources
from pkray.relational.sql.binder.joins import JoinBuilder
from pkray.relational.sql.binder.patterns import as_interval_join, filtered
from pkray.relational.sql.binder.pivots import Pivots
from pkray.relational.sql.binder.scope import Correlation, Rows, Scope, Visible, outer_references
from pkray.relational.sql.binder.subqueries import Subqueries, as_joined, bind_subquery
from pkray.relational.sql.binder.table_functions import TableFunctions, unwrapped
from pkray.relational.sql.binder.values import bind_values
from pkray.relational.sql.dialects import shown
from pkray.relational.sql.expressions.expressions import ExpressionBinder
from pkray.relational.sql.hints import hint_options
from pkray.relational.sql.places import placed, position
from pkray.schema.types import TIMESTAMPS

SINGLE_ROW = Values(Fields(()), ((),))
_KINDS = {
    ("", ""): JoinKind.INNER,
    ("", "INNER"): JoinKind.INNER,
    ("", "CROSS"): JoinKind.INNER,
    ("LEFT", ""): JoinKind.LEFT,
    ("LEFT", "OUTER"): JoinKind.LEFT,
    ("RIGHT", ""): JoinKind.RIGHT,
    ("RIGHT", "OUTER"): JoinKind.RIGHT,
    ("FULL", ""): JoinKind.FULL,
    ("FULL", "OUTER"): JoinKind.FULL,
    ("LEFT", "SEMI"): JoinKind.SEMI,
    ("", "SEMI"): JoinKind.SEMI,
    ("LEFT", "ANTI"): JoinKind.ANTI,
    ("", "ANTI"): JoinKind.ANTI,
}
SUBQUERIES = (exp.Subquery, exp.Select, exp.SetOperation)


@dataclass
class Item:
    """One entry of FROM: its plan and its columns, as they can be named.

    Attributes:
        pairs, residuals: what it is joined to the query around by.
    """

    node: Node
    columns: list[Visible]
    pairs: Sequence[Pair] = ()
    residuals: Sequence[Expression] = ()


class FromBinder:
    """Binds FROM, its joins and its LATERAL VIEWs.

    Attributes:
        scope: the columns that it gives.
        sources: what else it has gathered.
    """

    def __init__(
        self,
        queries: Queries,
        select: exp.Select,
        correlation: Correlation | None,
        settle: Callable[[Expression], Expression],
        hints: Mapping[str, str],
    ) -> None:
        self.queries = queries
        self.dialect = queries.dialect
        self.select = select
        self.correlation = correlation
        self.sources = Sources()
        self.hints = hints
        rows = Rows(SINGLE_ROW, queries.numbers)
        self.scope = Scope(rows, (), self.dialect, correlation, settle)
        self.rows = rows
        self._functions = TableFunctions(queries)

    def bind(self) -> Scope:
        """Bind FROM with all its joins."""
        start = self.select.args.get("from_")
        if start is not None:
            self._first(start.this)
            self._joins(start.this)
        for join in self.select.args.get("joins") or ():
            self._join(join)
        for lateral in self.select.args.get("laterals") or ():
            self._lateral_view(lateral)
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
        for alias in self.hints:
            if self.scope.key(alias) not in known:
                raise QueryError(
                    f"hint STATE_TTL names {alias}, which is no table of this query; "
                    f"there are {', '.join(sorted(self.sources.aliases))}",
                    **position(self.select),
                )

    # Joins

    def _first(self, tree: exp.Expr) -> None:
        if _is_lateral(tree):
            self._join_lateral(tree, JoinKind.INNER, None)
            return
        item = self._item(tree)
        self.rows.node = item.node
        self.scope.columns += item.columns
        self.sources.pairs += item.pairs
        self.sources.residuals += item.residuals

    def _joins(self, tree: exp.Expr) -> None:
        for join in tree.args.get("joins") or ():
            self._join(join)

    def _join(self, join: exp.Join) -> None:
        kind = self._kind(join)
        tree = join.this
        on = join.args.get("on")
        if _is_lateral(tree):
            self._join_lateral(tree, kind, on)
            return
        if isinstance(tree, exp.Table) and self._temporal_column(tree) is not None:
            self._join_temporal(tree, kind, on)
            return
        item = self._item(tree)
        builder = JoinBuilder(self.rows, item.node, self.dialect)
        columns = _moved(item.columns, builder)
        using = self._using(join, item)
        if using:
            self._merge(builder, kind, columns, using, item, join)
            return
        whole = Scope(
            Rows(builder.join(JoinKind.INNER), self.queries.numbers),
            [*self.scope.columns, *columns],
            self.dialect,
            self.correlation,
        )
        later = self._on(builder, whole, on, kind, item) if on is not None else []
        self._pass_on(item, builder)
        self.rows.node = as_interval_join(builder.join(kind))
        if kind.keeps_right:
            self.scope.columns += columns
        self._filter(later)

    def _pass_on(self, item: Item, builder: JoinBuilder) -> None:
        names = dict(zip(builder.right.node.fields.names, builder.names, strict=False))
        self.sources.pairs += [replace(pair, column=names[pair.column]) for pair in item.pairs]
        self.sources.residuals += [builder.renamed(each) for each in item.residuals]

    def _filters_one_side(
        self, builder: JoinBuilder, part: exp.Expr, item: Item, kind: JoinKind
    ) -> bool:
        """Filter by a condition the rows that come out only where they match."""
        if kind is JoinKind.RIGHT:
            scope = self.scope
        elif kind in (JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI):
            scope = Scope(builder.right, item.columns, self.dialect)
        else:
            return False
        before = scope.rows.node
        try:
            self._filter_rows(scope, [part])
        except QueryError:
            scope.rows.node = before
            return False
        return True

    def _with_columns(
        self, builder: JoinBuilder, whole: Scope, part: exp.Expr, item: Item, kind: JoinKind
    ) -> Expression:
        """Bind a condition; each subquery in it becomes a column of the side that it reads."""
        sides = (self.scope, Scope(builder.right, item.columns, self.dialect))

        def replaced(node: exp.Expr) -> Expression | None:
            rows = whole.rows.node
            found = self._column(whole, node)
            whole.rows.node = rows
            if found is None:
                return None
            for side in sides:
                before = side.rows.node
                try:
                    return self._column(side, node)
                except QueryError:
                    side.rows.node = before
            raise UnsupportedError(
                f"a subquery in the ON of a {kind} join that uses columns of both sides is not "
                "supported: put it in WHERE, or join with it",
                **position(node),
            )

        return ExpressionBinder(self.queries.names, whole, replaced).condition(part)

    def _column(self, scope: Scope, node: exp.Expr) -> Expression | None:
        """Add a column with the value of a subquery to rows; None for any other node."""
        rows, before = scope.rows, scope.rows.node.fields.names
        found = Subqueries(self.queries, scope, lambda tree: self._value(scope, tree)).replaced(
            node
        )
        if found is None:
            return None
        name = rows.fresh("n")
        kept = tuple((each, rows.ref(each)) for each in before)
        rows.node = Project(rows.node, (*kept, (name, scope.settled(found))))
        return rows.ref(name)

    def _on(
        self,
        builder: JoinBuilder,
        scope: Scope,
        on: exp.Expr,
        kind: JoinKind,
        item: Item,
    ) -> list[exp.Expr]:
        """Add the conditions of ON; give those with subqueries, to be handled after the join."""
        later: list[exp.Expr] = []
        for part in flattened(on):
            if part.find(*SUBQUERIES):
                for column in part.walk(prune=lambda node: isinstance(node, exp.Query)):
                    if isinstance(column, exp.Column):
                        scope.column(tuple(each.name for each in column.parts), column)
                if kind is JoinKind.INNER:
                    later.append(part)
                    continue
                if self._filters_one_side(builder, part, item, kind):
                    continue
                condition = self._with_columns(builder, scope, part, item, kind)
            else:
                condition = ExpressionBinder(self.queries.names, scope).condition(part)
            if outer_references(condition):
                if kind is not JoinKind.INNER:
                    raise UnsupportedError(
                        f"the ON of a {kind} join uses a column of the query around it: "
                        "put the condition in WHERE",
                        **position(part),
                    )
                self._check_inner(part)
                self.sources.deferred.append(part)
            elif condition != TRUE:
                builder.on(condition)
        return later

    def _filter(self, conditions: Iterable[exp.Expr]) -> None:
        """Keep the rows for which conditions with subqueries are true."""
        self._filter_rows(self.scope, conditions)

    def _filter_rows(self, scope: Scope, conditions: Iterable[exp.Expr]) -> None:
        for each in conditions:
            subqueries = Subqueries(self.queries, scope, lambda tree: self._value(scope, tree))
            if subqueries.filter(each):
                continue
            binder = ExpressionBinder(self.queries.names, scope, subqueries.replaced)
            condition = scope.settled(binder.condition(each))
            scope.rows.node = filtered(scope.rows.node, condition)

    def _value(self, scope: Scope, tree: exp.Expr) -> Expression:
        subqueries = Subqueries(self.queries, scope, lambda each: self._value(scope, each))
        binder = ExpressionBinder(self.queries.names, scope, subqueries.replaced)
        return scope.settled(binder.bind(tree))

    def _kind(self, join: exp.Join) -> JoinKind:
        side, kind = (str(join.args.get(name) or "").upper() for name in ("side", "kind"))
        method = str(join.args.get("method") or "").upper()
        if method not in ("", "NATURAL") or (side, kind) not in _KINDS:
            said = " ".join(part for part in (method, side, kind, "JOIN") if part)
            raise UnsupportedError(f"{said} is not offered", **position(join.this))
        for name in ("match_condition", "pivots", "expressions", "directed"):
            if join.args.get(name):
                raise UnsupportedError(f"{name} of a join is not offered", **position(join.this))
        return _KINDS[side, kind]

    def _using(self, join: exp.Join, item: Item) -> list[str]:
        if str(join.args.get("method") or "").upper() == "NATURAL":
            left = {self.scope.key(each.name) for each in self.scope.star((), join)}
            return [each.name for each in item.columns if self.scope.key(each.name) in left]
        return [each.name for each in join.args.get("using") or ()]

    def _written(self, join: exp.Join, name: str) -> exp.Expr:
        """Find where USING writes a name."""
        using = join.args.get("using") or ()
        return next((each for each in using if each.name == name), join.this)

    def _merge(
        self,
        builder: JoinBuilder,
        kind: JoinKind,
        columns: list[Visible],
        using: list[str],
        item: Item,
        join: exp.Join,
    ) -> None:
        """Join on columns of one name on both sides; the name stands for both from then on."""
        mine = Scope(self.rows, self.scope.columns, self.dialect)
        theirs = Scope(builder.right, item.columns, self.dialect)
        pairs = []
        for name in using:
            written = self._written(join, name)
            left = mine.column((name,), written)
            right = theirs.column((name,), written)
            assert isinstance(left, ColumnRef)
            assert isinstance(right, ColumnRef)
            what = f"column {name} of both sides"
            with placed(written):
                one, other = coerced((left, right), self.dialect, what)
            builder.equate(one, other)
            pairs.append((name, left, right))
        self._pass_on(item, builder)
        self.rows.node = builder.join(kind)
        if not kind.keeps_right:
            return
        self.scope.columns += columns
        taken = dict(zip(builder.right.node.fields.names, builder.names, strict=False))
        merged = []
        for name, left, right in pairs:
            column = left.name
            if kind is JoinKind.RIGHT:
                column = taken[right.name]
            elif kind is JoinKind.FULL:
                (column,) = self.rows.compute([self._either(left.name, taken[right.name])], "u")
            merged.append(Visible(name, column))
            self._hide((left.name, taken[right.name]), name)
        self.scope.columns = [*merged, *self.scope.columns]

    def _either(self, left: str, right: str) -> Expression:
        one, other = coerced((self.rows.ref(left), self.rows.ref(right)), self.dialect, "USING")
        is_null = Call(TRUE.type, "is_null", (one,))
        return Case(one.type.with_nullable(True), ((is_null, other),), one)

    def _hide(self, columns: tuple[str, str], name: str) -> None:
        self.scope.columns = [
            replace(each, is_plain=False, in_star=False)
            if each.column in columns and self.scope.key(each.name) == self.scope.key(name)
            else each
            for each in self.scope.columns
            if each.qualifier or each.column not in columns
        ]

    # Temporal joins

    def _temporal_column(self, table: exp.Table) -> exp.Column | None:
        version = table.args.get("version")
        if version is None or version.name.upper() != "TIMESTAMP":
            return None
        column = version.expression
        return column if isinstance(column, exp.Column) else None

    def _join_temporal(self, table: exp.Table, kind: JoinKind, on: exp.Expr | None) -> None:
        if kind not in (JoinKind.INNER, JoinKind.LEFT):
            raise UnsupportedError(
                f"a {kind} join FOR SYSTEM_TIME AS OF is not offered: write JOIN or LEFT JOIN",
                **position(table),
            )
        if on is not None and on.find(*SUBQUERIES):
            raise UnsupportedError(
                "a subquery in the ON of a join FOR SYSTEM_TIME AS OF is not supported: put it in "
                "WHERE",
                **position(on),
            )
        column = self._temporal_column(table)
        assert column is not None
        binder = ExpressionBinder(self.queries.names, self.scope)
        time = binder.bind(column)
        if not isinstance(time, ColumnRef):
            raise QueryError("FOR SYSTEM_TIME AS OF takes a column", **position(column))
        bare = table.copy()
        bare.set("version", None)
        item = self._item(bare)
        right_time = self._version_time(time, item.node, table)
        builder = JoinBuilder(self.rows, item.node, self.dialect)
        columns = _moved(item.columns, builder)
        whole = Scope(
            Rows(builder.join(JoinKind.INNER), self.queries.numbers),
            [*self.scope.columns, *columns],
            self.dialect,
        )
        if on is not None:
            self._on(builder, whole, on, JoinKind.LEFT, item)
        self._check_versions(item.node, builder, table)
        joined = builder.join(kind)
        self.rows.node = TemporalJoin(
            joined.left,
            joined.right,
            kind,
            joined.left_keys,
            joined.right_keys,
            joined.right_names,
            time.name,
            right_time,
            joined.condition,
        )
        self.scope.columns += columns

    def _version_time(self, time: ColumnRef, right: Node, table: exp.Table) -> str | None:
        if time.type.root not in TIMESTAMPS:
            raise QueryError(
                f"FOR SYSTEM_TIME AS OF takes a TIMESTAMP column, not {time.type}",
                **position(table),
            )
        if self.rows.node.fields[time.name].is_rowtime:
            found = [column.name for column in right.fields if column.is_rowtime]
            if found:
                return found[0]
            if self.dialect is Dialect.FLINK:
                raise QueryError(
                    f"{table.name} has no versions: declare WATERMARK FOR one of its columns",
                    **position(table),
                )
        elif self.dialect is Dialect.FLINK:
            raise UnsupportedError(
                "a temporal join by processing time is not supported: join by an event time, or "
                "write a lookup join in the spark dialect",
                **position(table),
            )
        return None

    def _check_versions(self, right: Node, builder: JoinBuilder, table: exp.Table) -> None:
        scan = right
        while isinstance(scan, Hint):
            scan = scan.input
        if not builder.left_keys:
            raise QueryError(
                "a join FOR SYSTEM_TIME AS OF needs an equality with the table's key in ON",
                **position(table),
            )
        if isinstance(scan, Scan):
            key = scan.source.primary_key
            if not key:
                raise QueryError(
                    f"{table.name} has no primary key, by which FOR SYSTEM_TIME AS OF finds "
                    "versions",
                    **position(table),
                )
            missing = [name for name in key if name not in builder.right_keys]
            if missing:
                raise QueryError(
                    f"a join FOR SYSTEM_TIME AS OF is on the whole key of {table.name}: add "
                    f"{' and '.join(missing)} to ON",
                    **position(table),
                )

    # Laterals

    def _join_lateral(self, tree: exp.Expr, kind: JoinKind, on: exp.Expr | None) -> None:
        if kind not in (JoinKind.INNER, JoinKind.LEFT):
            raise UnsupportedError(
                f"a {kind} join with LATERAL is not offered: write CROSS JOIN or LEFT JOIN",
                **position(tree),
            )
        query = tree.this if isinstance(tree, exp.Lateral) else None
        if isinstance(query, exp.Subquery):
            self._join_lateral_query(tree, query, kind, on)
            return
        condition = None if on is None or on == exp.true() else on
        if condition is not None and kind is JoinKind.LEFT:
            raise UnsupportedError(
                "a LEFT JOIN with a table function takes ON TRUE: filter its rows in WHERE",
                **position(tree),
            )
        self._unnest(tree, outer=kind is JoinKind.LEFT)
        self._filter(flattened(condition) if condition is not None else ())

    def _join_lateral_query(
        self, tree: exp.Expr, query: exp.Subquery, kind: JoinKind, on: exp.Expr | None
    ) -> None:
        bound = bind_subquery(self.queries, query.this, self.scope)
        builder = JoinBuilder(self.rows, bound.node, self.dialect)
        for pair in bound.pairs:
            right = builder.right.ref(pair.column)
            builder.equate(pair.outer, right, null_safe=pair.null_safe)
        for residual in bound.residuals:
            builder.on(as_joined(builder.renamed(residual)))
        item = Item(bound.node, _columns(bound, tree.args.get("alias"), self.dialect))
        columns = _moved(item.columns, builder)
        whole = Scope(
            Rows(builder.join(JoinKind.INNER), self.queries.numbers),
            [*self.scope.columns, *columns],
            self.dialect,
            self.correlation,
        )
        later = self._on(builder, whole, on, kind, item) if on is not None else []
        self.rows.node = builder.join(kind)
        self.scope.columns += columns
        self._filter(later)

    def _lateral_view(self, lateral: exp.Lateral) -> None:
        self._unnest(lateral, outer=bool(lateral.args.get("outer")))

    def _unnest(self, tree: exp.Expr, *, outer: bool) -> None:
        self.scope.columns += self._functions.unnest(self.rows, tree, self._bound, outer=outer)
        if tree.alias:
            self.sources.aliases.add(tree.alias)

    def _bound(self, tree: exp.Expr) -> Expression:
        return self.scope.settled(ExpressionBinder(self.queries.names, self.scope).bind(tree))

    # Items

    def _item(self, tree: exp.Expr) -> Item:
        if tree.args.get("pivots"):
            return self._pivoted(tree)
        for name in ("sample", "only", "partition", "when", "changes", "indexed"):
            if tree.args.get(name):
                raise UnsupportedError(_not_offered(name), **position(tree))
        if isinstance(tree, exp.Subquery) and isinstance(tree.this, exp.Table):
            return self._nested_join(tree)
        if isinstance(tree, exp.Subquery):
            return self._query(tree)
        if isinstance(tree, exp.Values):
            return self._values(tree)
        if isinstance(tree, exp.Table) and isinstance(tree.this, exp.Identifier):
            return self._table(tree)
        call = tree.this
        if isinstance(call, exp.Anonymous) and self._functions.is_window(call):
            return self._window(tree, call)
        if isinstance(call, exp.Anonymous) and unwrapped(call).name.lower() == "range":
            return self._named(*self._functions.range(tree, self._bound), tree.alias)
        if isinstance(tree, exp.Unnest) or isinstance(call, exp.Anonymous):
            rows = Rows(SINGLE_ROW, self.queries.numbers)
            binder = ExpressionBinder(self.queries.names, Scope(rows, (), self.dialect))
            columns = self._functions.unnest(rows, tree, binder.bind, outer=False)
            return self._named(rows.node, columns, tree.alias)
        raise UnsupportedError(
            f"{shown(tree)} cannot stand in FROM: give a table, a query or a table function",
            **position(tree),
        )

    def _pivoted(self, tree: exp.Expr) -> Item:
        """Bind PIVOT and UNPIVOT as the query that they stand for."""
        inner = tree.copy()
        pivots = inner.args["pivots"]
        inner.set("pivots", None)
        alias = pivots[-1].args.get("alias")
        query = exp.select("*").from_(inner)
        for pivot in pivots:
            names = self.queries.bind(query).names
            query = Pivots(self.queries, names).written(query, pivot)
        bound = self.queries.bind(query)
        columns = _columns(bound, alias, self.dialect)
        return self._named(bound.node, columns, "" if alias is None else alias.name)

    def _named(self, node: Node, columns: Iterable[Visible], alias: str) -> Item:
        if alias:
            if alias in self.sources.aliases:
                raise QueryError(
                    f"two tables of this query are called {alias}: give one another alias",
                    **position(self.select),
                )
            self.sources.aliases.add(alias)
            known = {self.scope.key(name): ttl for name, ttl in self.hints.items()}
            if self.scope.key(alias) in known:
                node = Hint(node, "STATE_TTL", (("ttl", known[self.scope.key(alias)]),))
        return Item(node, list(columns))

    def _table(self, table: exp.Table) -> Item:
        parts = tuple(part.name for part in table.parts)
        options = self._options(table)
        at = self._at(table)
        found = self.queries.tables.get(self.scope.key(parts[0])) if len(parts) == 1 else None
        if found is not None:
            if options or at:
                raise QueryError(
                    f"{parts[0]} is a WITH query: OPTIONS and AS OF are of tables",
                    **position(table),
                )
            columns = _columns(found, table.args.get("alias"), self.dialect, parts)
            return self._named(found.node, columns, table.alias_or_name)
        try:
            node = self.queries.names.relation(parts, options, at)
        except QueryError as error:
            if "line" in error.values:
                raise
            raise QueryError(error.message, **{**error.values, **position(table)}) from None
        bound = BoundQuery(node, node.fields.names, node.fields.names)
        columns = _columns(bound, table.args.get("alias"), self.dialect, parts)
        return self._named(node, columns, table.alias_or_name)

    def _options(self, table: exp.Table) -> dict[str, str]:
        options: dict[str, str] = {}
        for hint in table.args.get("hints") or ():
            if not isinstance(hint, exp.Hint):
                raise UnsupportedError(f"{shown(hint)} is not offered", **position(table))
            for call in hint.expressions:
                if call.name != "OPTIONS":
                    raise QueryError(
                        f"hint {call.name} stands after SELECT, not after a table",
                        **position(table),
                    )
                options.update(hint_options(call))
        return options

    def _at(self, table: exp.Table) -> dict[str, Any]:
        version = table.args.get("version")
        if version is None:
            return {}
        if version.args.get("kind") != "AS OF":
            raise UnsupportedError(
                f"{version.args.get('kind')} is not offered: write AS OF", **position(table)
            )
        if version.expression is None:
            raise QueryError("AS OF lacks a version or a time", **position(table))
        value = ExpressionBinder(self.queries.names, self.scope).bind(version.expression)
        value = fold(value)
        if not isinstance(value, Literal) or value.value is None:
            raise QueryError("AS OF takes a constant here", **position(table))
        if version.name.upper() == "TIMESTAMP":
            is_day = isinstance(value.value, date) and not isinstance(value.value, datetime)
            return {"timestamp": value.value.isoformat() if is_day else value.value}
        return {"snapshot_id" if isinstance(value.value, int) else "tag": value.value}

    def _query(self, tree: exp.Subquery) -> Item:
        bound = self.queries.bind(tree.this, self.correlation)
        if bound.is_correlated:
            self._check_inner(tree)
        columns = _columns(bound, tree.args.get("alias"), self.dialect)
        item = self._named(bound.node, columns, tree.alias)
        return replace(item, pairs=bound.pairs, residuals=bound.residuals)

    def _check_inner(self, tree: exp.Expr) -> None:
        start = self.select.args["from_"].this
        joins = [*(self.select.args.get("joins") or ()), *(start.args.get("joins") or ())]
        if any(
            join.args.get("side") or join.args.get("kind") in ("SEMI", "ANTI") for join in joins
        ):
            raise UnsupportedError(
                "a subquery within an outer join uses a column of the query around it: "
                "put the condition in WHERE",
                **position(tree),
            )

    def _values(self, tree: exp.Values) -> Item:
        bound = bind_values(self.queries, tree)
        columns = _columns(bound, tree.args.get("alias"), self.dialect)
        return self._named(bound.node, columns, tree.alias)

    def _nested_join(self, tree: exp.Subquery) -> Item:
        inner = exp.Select(expressions=[exp.Star()])
        inner.set("from_", exp.From(this=tree.this))
        binder = FromBinder(self.queries, inner, self.correlation, self.scope.settled, {})
        scope = binder.bind()
        if binder.sources.deferred:
            self._check_inner(tree)
        self.sources.deferred += binder.sources.deferred
        pairs, residuals = binder.sources.pairs, binder.sources.residuals
        columns = scope.columns
        if tree.alias:
            shown = [each for each in columns if each.in_star]
            columns = [Visible(each.name, each.column, (tree.alias,)) for each in shown]
            item = self._named(scope.rows.node, columns, tree.alias)
            return replace(item, pairs=pairs, residuals=residuals)
        self.sources.aliases |= binder.sources.aliases
        return Item(scope.rows.node, columns, pairs, residuals)

    def _window(self, tree: exp.Expr, call: exp.Anonymous) -> Item:
        argument = self._functions.table_of(call)
        item = self._item(argument)
        self.sources.aliases.discard(argument.alias_or_name)
        scope = Scope(Rows(item.node, self.queries.numbers), item.columns, self.dialect)
        node = self._functions.window(call, scope)
        names = node.fields.names[len(item.node.fields) :]
        columns = [replace(each, qualifier=()) for each in item.columns]
        columns += [Visible(name, name) for name in names]
        bound = BoundQuery(
            node, tuple(each.name for each in columns), tuple(each.column for each in columns)
        )
        shown = _columns(bound, tree.args.get("alias"), self.dialect)
        if not tree.alias:
            shown = [
                replace(each, qualifier=qualifier)
                for each, qualifier in zip(
                    shown,
                    [*(each.qualifier for each in item.columns), *[()] * len(names)],
                    strict=True,
                )
            ]
        return self._named(node, shown, tree.alias)


def flattened(condition: exp.Expr) -> list[exp.Expr]:
    """Split a condition at AND, without recursion."""
    waiting, found = [condition], []
    while waiting:
        each = waiting.pop()
        while isinstance(each, exp.Paren):
            each = each.this
        if isinstance(each, exp.And):
            waiting += [each.expression, each.this]
        else:
            found.append(each)
    return found


def _is_lateral(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Lateral | exp.Unnest)


def _moved(columns: Iterable[Visible], builder: JoinBuilder) -> list[Visible]:
    """Find the columns of an item under the names that they have once joined."""
    names = dict(zip(builder.right.node.fields.names, builder.names, strict=False))
    return [replace(each, column=names[each.column]) for each in columns]


def _columns(
    bound: BoundQuery,
    alias: exp.TableAlias | None,
    dialect: Dialect,
    parts: tuple[str, ...] = (),
) -> list[Visible]:
    """Name the columns of an item as its alias has it: ``t`` or ``t(a, b)``."""
    qualifier = parts
    names = bound.names
    if alias is not None:
        qualifier = (alias.name,) if alias.name else ()
        if alias.columns:
            names = tuple(column.name for column in alias.columns)
            if len(names) != len(bound.names):
                raise QueryError(
                    f"{alias.name} names {len(names)} columns, but there are "
                    f"{len(bound.names)}: {', '.join(bound.names)}",
                    **position(alias),
                )
            names = distinct_names(names)
    return [
        Visible(name, column, qualifier) for name, column in zip(names, bound.columns, strict=True)
    ]


def _not_offered(name: str) -> str:
    if name == "sample":
        return "TABLESAMPLE is not offered: filter by a hash, as relation.sample() does"
    return f"{name.upper()} of a table is not offered"
