"""Entries of FROM: tables, views, queries, VALUES, table functions, joins in parentheses."""

from dataclasses import replace
from datetime import date, datetime

from sqlglot import exp

from pkray.relational.dialect import Dialect
from pkray.relational.functions.evaluation.compiled import fold
from pkray.relational.plan.expressions import Literal
from pkray.relational.plan.fields import distinct_names
from pkray.relational.sql.binder.context import BoundQuery
from pkray.relational.sql.binder.from_clause.base import FromBase, Item
from pkray.relational.sql.binder.from_clause.calls import SINGLE_ROW, unwrapped
from pkray.relational.sql.binder.from_clause.pivots import Pivots
from pkray.relational.sql.binder.from_clause.values import bind_values
from pkray.relational.sql.binder.scope import Rows, Scope, Visible
from pkray.relational.sql.binder.session_zone import value_in_session_zone
from pkray.relational.sql.dialects import shown
from pkray.relational.sql.expressions.expressions import ExpressionBinder
from pkray.relational.sql.hints import hint_options
from pkray.relational.sql.names import zone_of
from pkray.relational.sql.places import placed, unsupported, wrong
from pkray.scan.moment import LATEST, Moment


def bind_item(clause: FromBase, tree: exp.Expr) -> Item:
    """Bind one entry of FROM by its kind."""
    if tree.args.get("pivots"):
        return _pivoted(clause, tree)
    for name in ("sample", "only", "partition", "when", "changes", "indexed"):
        if tree.args.get(name):
            raise unsupported(_not_offered(name), tree)
    if isinstance(tree, exp.Subquery) and isinstance(tree.this, exp.Table):
        return _nested_join(clause, tree)
    if isinstance(tree, exp.Subquery):
        return _query(clause, tree)
    if isinstance(tree, exp.Values):
        return _aliased(clause, bind_values(clause.queries, tree), tree)
    if isinstance(tree, exp.Table) and isinstance(tree.this, exp.Identifier):
        return _table(clause, tree)
    call = tree.this
    if isinstance(call, exp.Anonymous) and clause.windows.is_window(call):
        return _window(clause, tree, call)
    if isinstance(call, exp.Anonymous) and unwrapped(call).name.lower() == "range":
        return clause.named(*clause.generators.range(tree, clause.bound), tree.alias)
    if isinstance(tree, exp.Unnest) or isinstance(call, exp.Anonymous):
        rows = Rows(SINGLE_ROW, clause.queries.numbers)
        binder = ExpressionBinder(clause.queries.names, Scope(rows, (), clause.dialect))
        columns = clause.generators.unnest(rows, tree, binder.bind, outer=False)
        return clause.named(rows.node, columns, tree.alias)
    raise unsupported(
        f"{shown(tree)} cannot stand in FROM: give a table, a query or a table function", tree
    )


def _pivoted(clause: FromBase, tree: exp.Expr) -> Item:
    """Bind PIVOT and UNPIVOT as the query that they stand for."""
    inner = tree.copy()
    pivots = inner.args["pivots"]
    inner.set("pivots", None)
    alias = pivots[-1].args.get("alias")
    query = exp.select("*").from_(inner)
    for pivot in pivots:
        names = clause.queries.bind(query).names
        query = Pivots(clause.queries, names).written(query, pivot)
    bound = clause.queries.bind(query)
    columns = named_columns(bound, alias, clause.dialect)
    return clause.named(bound.node, columns, "" if alias is None else alias.name)


def _table(clause: FromBase, table: exp.Table) -> Item:
    parts = tuple(part.name for part in table.parts)
    options = _options(clause, table)
    at = _at(clause, table)
    found = clause.queries.tables.get(clause.scope.key(parts[0])) if len(parts) == 1 else None
    if found is None:
        with placed(table):
            node = clause.queries.names.relation(parts, options, at)
        found = BoundQuery(node, node.fields.names, node.fields.names)
    elif options or not at.is_latest:
        raise wrong(f"{parts[0]} is a WITH query: OPTIONS and AS OF are of tables", table)
    return _aliased(clause, found, table, parts)


def _aliased(
    clause: FromBase, bound: BoundQuery, tree: exp.Expr, parts: tuple[str, ...] = ()
) -> Item:
    columns = named_columns(bound, tree.args.get("alias"), clause.dialect, parts)
    return clause.named(bound.node, columns, tree.alias_or_name)


def _options(clause: FromBase, table: exp.Table) -> dict[str, str]:
    options: dict[str, str] = {}
    for hint in table.args.get("hints") or ():
        if not isinstance(hint, exp.Hint):
            raise unsupported(f"{shown(hint)} is not offered", table)
        for call in hint.expressions:
            if call.name != "OPTIONS":
                raise wrong(f"hint {call.name} stands after SELECT, not after a table", table)
            options.update(hint_options(call))
    return options


def _at(clause: FromBase, table: exp.Table) -> Moment:
    version = table.args.get("version")
    if version is None:
        return LATEST
    if version.args.get("kind") != "AS OF":
        raise unsupported(f"{version.args.get('kind')} is not offered: write AS OF", table)
    if version.expression is None:
        raise wrong("AS OF lacks a version or a time", table)
    value = ExpressionBinder(clause.queries.names, clause.scope).bind(version.expression)
    zone = zone_of(clause.queries.names)
    value = fold(value_in_session_zone(value, zone, clause.dialect))
    if not isinstance(value, Literal) or value.value is None:
        raise wrong("AS OF takes a constant here", table)
    if version.name.upper() == "TIMESTAMP":
        if not isinstance(value.value, date | str | int):
            raise wrong(f"TIMESTAMP AS OF takes a time, not {value.type}", table)
        time = value.value
        if isinstance(time, date) and not isinstance(time, datetime):
            time = time.isoformat()
        return Moment.from_arguments(timestamp=time)
    if not isinstance(value.value, int | str) or isinstance(value.value, bool):
        raise wrong(
            f"VERSION AS OF takes a snapshot's number or a tag's name, not {value.type}", table
        )
    if isinstance(value.value, int):
        return Moment.from_arguments(value.value)
    return Moment.from_arguments(tag=value.value)


def _query(clause: FromBase, tree: exp.Subquery) -> Item:
    bound = clause.queries.bind(tree.this, clause.correlation)
    if bound.is_correlated:
        clause.check_inner(tree)
    item = _aliased(clause, bound, tree)
    return replace(item, pairs=bound.pairs, residuals=bound.residuals)


def _nested_join(clause: FromBase, tree: exp.Subquery) -> Item:
    inner = exp.Select(expressions=[exp.Star()])
    inner.set("from_", exp.From(this=tree.this))
    binder = clause.nested(inner)
    scope = binder.bind()
    if binder.sources.deferred:
        clause.check_inner(tree)
    clause.sources.deferred += binder.sources.deferred
    pairs, residuals = binder.sources.pairs, binder.sources.residuals
    columns = scope.columns
    if tree.alias:
        shown = [each for each in columns if each.in_star]
        columns = [Visible(each.name, each.column, (tree.alias,)) for each in shown]
        item = clause.named(scope.rows.node, columns, tree.alias)
        return replace(item, pairs=pairs, residuals=residuals)
    clause.sources.aliases |= binder.sources.aliases
    return Item(scope.rows.node, columns, pairs, residuals)


def _window(clause: FromBase, tree: exp.Expr, call: exp.Anonymous) -> Item:
    argument = clause.windows.table_of(call)
    item = clause.item(argument)
    clause.sources.aliases.discard(argument.alias_or_name)
    scope = Scope(Rows(item.node, clause.queries.numbers), item.columns, clause.dialect)
    node = clause.windows.window(call, scope)
    names = node.fields.names[len(item.node.fields) :]
    columns = [replace(each, qualifier=()) for each in item.columns]
    columns += [Visible(name, name) for name in names]
    bound = BoundQuery(
        node, tuple(each.name for each in columns), tuple(each.column for each in columns)
    )
    shown = named_columns(bound, tree.args.get("alias"), clause.dialect)
    if not tree.alias:
        shown = [
            replace(each, qualifier=qualifier)
            for each, qualifier in zip(
                shown, [*(each.qualifier for each in item.columns), *[()] * len(names)], strict=True
            )
        ]
    return clause.named(node, shown, tree.alias)


def named_columns(
    bound: BoundQuery, alias: exp.TableAlias | None, dialect: Dialect, parts: tuple[str, ...] = ()
) -> list[Visible]:
    """Name the columns of an item as its alias has it: ``t`` or ``t(a, b)``."""
    qualifier = parts
    names = bound.names
    if alias is not None:
        qualifier = (alias.name,) if alias.name else ()
        if alias.columns:
            names = tuple(column.name for column in alias.columns)
            if len(names) != len(bound.names):
                raise wrong(
                    f"{alias.name} names {len(names)} columns, but there are "
                    f"{len(bound.names)}: {', '.join(bound.names)}",
                    alias,
                )
            names = distinct_names(names)
    return [
        Visible(name, column, qualifier) for name, column in zip(names, bound.columns, strict=True)
    ]


def _not_offered(name: str) -> str:
    if name == "sample":
        return "TABLESAMPLE is not offered: filter by a hash, as relation.sample() does"
    return f"{name.upper()} of a table is not offered"
