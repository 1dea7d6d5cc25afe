"""Joins FOR SYSTEM_TIME AS OF a time of the left side."""

from sqlglot import exp

from pkray.relational.dialect import Dialect
from pkray.relational.plan.changelog_modes import change_kinds
from pkray.relational.plan.expressions import ColumnRef
from pkray.relational.plan.node import INSERT
from pkray.relational.plan.nodes import Hint, JoinKind, Node, TemporalJoin
from pkray.relational.plan.nodes.rows import is_now
from pkray.relational.plan.scans import scan_of
from pkray.relational.sql.binder.from_clause.base import SUBQUERIES, FromBase
from pkray.relational.sql.binder.from_clause.conditions import bind_on, moved
from pkray.relational.sql.binder.from_clause.joins import JoinBuilder
from pkray.relational.sql.binder.scope import Rows, Scope
from pkray.relational.sql.expressions.expressions import ExpressionBinder
from pkray.relational.sql.places import unsupported, wrong
from pkray.schema.types import TIMESTAMPS


def temporal_column(table: exp.Table) -> exp.Column | None:
    """Find the column of FOR SYSTEM_TIME AS OF; None where there is none."""
    version = table.args.get("version")
    if version is None or version.name.upper() != "TIMESTAMP":
        return None
    column = version.expression
    return column if isinstance(column, exp.Column) else None


def join_temporal(clause: FromBase, table: exp.Table, kind: JoinKind, on: exp.Expr | None) -> None:
    """Join each row with the version of its time."""
    if kind not in (JoinKind.INNER, JoinKind.LEFT):
        raise unsupported(
            f"a {kind} join FOR SYSTEM_TIME AS OF is not offered: write JOIN or LEFT JOIN", table
        )
    if on is not None and on.find(*SUBQUERIES):
        raise unsupported(
            "a subquery in the ON of a join FOR SYSTEM_TIME AS OF is not supported: put it in "
            "WHERE",
            on,
        )
    column = temporal_column(table)
    assert column is not None
    binder = ExpressionBinder(clause.queries.names, clause.scope)
    time = binder.bind(column)
    if not isinstance(time, ColumnRef):
        raise wrong("FOR SYSTEM_TIME AS OF takes a column", column)
    bare = table.copy()
    bare.set("version", None)
    item = clause.item(bare)
    right_time = _version_time(clause, time, item.node, table)
    if right_time is None:
        clause.sources.looked_up.add(clause.scope.key(table.alias_or_name))
    builder = JoinBuilder(clause.rows, item.node, clause.dialect)
    columns = moved(item.columns, builder)
    whole = Scope(
        Rows(builder.join(JoinKind.INNER), clause.queries.numbers),
        [*clause.scope.columns, *columns],
        clause.dialect,
    )
    if on is not None:
        bind_on(clause, builder, whole, on, JoinKind.LEFT, item)
    _check_versions(clause, item.node, builder, table)
    joined = builder.join(kind)
    # Of rows that may be taken back, the time of arrival is not told twice alike: it is not read.
    is_told_once = change_kinds(joined.left) == INSERT or not is_now(joined.left, time.name)
    left_time = time.name if is_told_once else None
    clause.rows.node = TemporalJoin(*joined.paired, left_time, right_time, joined.condition)
    clause.scope.columns += columns


def _version_time(clause: FromBase, time: ColumnRef, right: Node, table: exp.Table) -> str | None:
    if time.type.root not in TIMESTAMPS:
        raise wrong(f"FOR SYSTEM_TIME AS OF takes a TIMESTAMP column, not {time.type}", table)
    if clause.rows.node.fields[time.name].is_rowtime:
        found = [column.name for column in right.fields if column.is_rowtime]
        if found:
            return found[0]
        if clause.dialect is Dialect.FLINK:
            raise wrong(
                f"{table.name} has no versions: declare WATERMARK FOR one of its columns", table
            )
    elif clause.dialect is Dialect.FLINK and not (
        is_now(clause.rows.node, time.name) and _is_kept(right)
    ):
        raise unsupported(
            "a temporal join by processing time is not supported: join by an event time, or "
            "write a lookup join in the spark dialect",
            table,
        )
    return None


def _below_hints(node: Node) -> Node:
    while isinstance(node, Hint):
        node = node.input
    return node


def _is_kept(node: Node) -> bool:
    """Whether rows are a table's, which has them as they are when a row is handled."""
    scan = scan_of(_below_hints(node))
    return scan is not None and scan.source.is_kept


def _check_versions(clause: FromBase, right: Node, builder: JoinBuilder, table: exp.Table) -> None:
    scan = scan_of(_below_hints(right))
    if not builder.left_keys:
        raise wrong(
            "a join FOR SYSTEM_TIME AS OF needs an equality with the table's key in ON", table
        )
    if scan is not None:
        key = scan.source.primary_key
        if not key:
            raise wrong(
                f"{table.name} has no primary key, by which FOR SYSTEM_TIME AS OF finds versions",
                table,
            )
        missing = [name for name in key if name not in builder.right_keys]
        if missing:
            raise wrong(
                f"a join FOR SYSTEM_TIME AS OF is on the whole key of {table.name}: add "
                f"{' and '.join(missing)} to ON",
                table,
            )
