"""Statements that change rows: INSERT, UPDATE, DELETE and MERGE, each in one commit."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from pkray.errors import EvaluationError, QueryError, UnsupportedError
from pkray.format.snapshot import Snapshot
from pkray.relational import running
from pkray.relational.api import composing
from pkray.relational.bound_query import BoundQuery
from pkray.relational.catalog import Catalog
from pkray.relational.dialect import Dialect
from pkray.relational.functions.casts.assignment import assigned_whole
from pkray.relational.plan.expressions import Call, ColumnRef, Expression, Literal, all_of
from pkray.relational.plan.nodes import Filter, Node, Project, Sink, Values
from pkray.relational.session import QuerySession
from pkray.relational.sql import syntax
from pkray.relational.sql.expressions.casts import ASSIGNMENT
from pkray.relational.sql.places import nearest
from pkray.relational.sql.statements import kinds as said
from pkray.relational.sql.syntax import aliased, column, identifier, star
from pkray.relational.statements.definitions import constants
from pkray.schema.computed_columns import computed_columns
from pkray.schema.types import DataType
from pkray.table.system_table import SystemTable
from pkray.table.table import Table

_KIND = "_row_kind"


class BoundInsert:
    """An INSERT whose query is bound to the columns of its table.

    Args:
        relation: the query, if it is bound already.

    Attributes:
        node: the plan, down to the table.
    """

    def __init__(
        self,
        catalog: Catalog,
        asked: said.Insert,
        dialect: Dialect,
        relation: BoundQuery | None = None,
    ) -> None:
        self.session = catalog.session
        self.table = _table(catalog, asked.name)
        self.overwrite = asked.overwrite
        self.partition = constants(asked.partition)
        if relation is None:
            relation = BoundQuery(asked.tree, catalog.session.environment(dialect))
        targets = _targets(self.table, asked, self.partition, relation)
        self.node = Sink(
            _enforced(_assigned(relation.plan, self.table, targets), self.table, self.session),
            self.table.name,
            targets,
            asked.on_conflict,
        )

    def run(self, plan: Node | None = None) -> Snapshot | None:
        """Run it once in one commit.

        Args:
            plan: the query, if its tables are pinned already; by default they are as of now.
        """
        plan = plan or running.pinned(self.node.input)
        return _run(
            self.table,
            self.node,
            plan,
            self.partition,
            overwrite=self.overwrite,
            memory=self.session.memory,
        )


def write_sink(catalog: Catalog, sink: Sink) -> Snapshot | None:
    """Run the plan of an INSERT once, over what the tables hold now, in one commit."""
    table, plan = catalog.load_table(sink.table), running.pinned(sink.input)
    return _run(table, sink, plan, {}, memory=catalog.session.memory)


def _run(
    table: Table,
    sink: Sink,
    plan: Node,
    partition: Mapping[str, object],
    *,
    overwrite: bool = False,
    memory: int | None = None,
) -> Snapshot | None:
    fixed = _fixed(partition, table)
    rows = (_with_columns(batch, fixed) for batch in running.run(plan, memory=memory))
    if overwrite or sink.on_conflict in ("error", "nothing"):
        held = pa.Table.from_batches(running.run(plan, memory=memory), plan.fields.arrow)
        whole = _with_columns(held, fixed)
        if sink.on_conflict in ("error", "nothing"):
            whole = _unique(whole, table, sink.on_conflict)
        if overwrite:
            return table.overwrite(_complete(whole, table), partition or None)
        rows = iter(whole.to_batches())
    lacking = set(table.schema.names) - set(sink.target) - set(partition)
    with table.open_writer(missing="null" if lacking else "error") as writer:
        for batch in rows:
            writer.upsert(batch)
        return writer.commit()


def update(catalog: Catalog, asked: said.Update, dialect: Dialect) -> pa.Table:
    """Change rows."""
    table = _table(catalog, asked.name)
    _check_replaces(table, "UPDATE")
    values = _values(table, asked.values)
    target = asked.alias or asked.name[-1]
    columns = [
        aliased(_cast(values[each.name], each.type), each.name)
        if each.name in values
        else column(each.name, target)
        for each in table.schema.fields
    ]
    relation = _of_table(catalog, asked, columns, dialect)
    return _written(table, relation._rows_now(), deletes=False)


def delete(catalog: Catalog, asked: said.Delete, dialect: Dialect) -> pa.Table:
    """Delete rows."""
    table = _table(catalog, asked.name)
    names = dict.fromkeys([*table.primary_keys, *table.schema.core.sequence_field])
    target = asked.alias or asked.name[-1]
    relation = _of_table(catalog, asked, [column(name, target) for name in names], dialect)
    return _written(table, relation._rows_now(), deletes=True)


def merge(catalog: Catalog, asked: said.Merge, dialect: Dialect) -> pa.Table:
    """Change, delete and insert rows by those of another relation."""
    table = _table(catalog, asked.name)
    _check_replaces(table, "MERGE")
    made = _Merge(table, asked)
    names = catalog.session.environment(dialect)
    changes = [BoundQuery(tree, names) for tree in made.queries()]
    rows = 0
    matched: list[pa.Table] = []
    with table.open_writer() as writer:
        for plan in running.pinned_together([each.plan for each in changes]):
            for batch in running.run(plan, memory=catalog.session.memory):
                matched.append(_matched_keys(batch, table))
                writer.write(batch, row_kinds=_KIND)
                rows += batch.num_rows
        _check_once(matched, table)
        snapshot = writer.commit()
    return _result(rows, snapshot)


class _Merge:
    """The queries that give the changes of a MERGE."""

    def __init__(self, table: Table, asked: said.Merge) -> None:
        self._table = table
        self._tree = asked.tree
        self._target = asked.tree.this.alias_or_name
        self._whens = list(asked.tree.args["whens"].expressions)
        self._source = asked.tree.args["using"].alias_or_name
        if not self._source:
            raise QueryError("the source of MERGE is a query: give it an alias")

    def queries(self) -> Iterator[exp.Select]:
        """Write a query for rows of the source, and one for rows that none of them matches."""
        by_target = [each for each in self._whens if not each.args.get("source")]
        by_source = [
            each for each in self._whens if each.args.get("source") and not each.args["matched"]
        ]
        if by_target:
            yield self._query(by_target, self._tree.args["using"], self._tree.this, "")
        if by_source:
            yield self._query(by_source, self._tree.this, self._tree.args["using"], "ANTI")

    def _query(
        self, whens: Sequence[exp.Expr], left: exp.Expr, right: exp.Expr, kind: str
    ) -> exp.Select:
        tests = [self._test(each, alone=bool(kind)) for each in whens]
        actions = [self._action(each.args["then"]) for each in whens]
        made = star(left.copy())
        join = exp.Join(this=right.copy(), side="LEFT", on=self._tree.args["on"].copy())
        if kind:
            join.set("kind", kind)
        made.set("joins", [join])
        kinds: list[exp.Expr] = [exp.Literal.string(kind_) for kind_, _ in actions]
        columns = [
            aliased(
                _case(tests, [_cast(values[each.name], each.type) for _, values in actions]),
                each.name,
            )
            for each in self._table.schema.fields
        ]
        made.set("expressions", [*columns, aliased(_case(tests, kinds), _KIND)])
        outer = star(composing.subquery(made))
        there = exp.Not(this=exp.Is(this=column(_KIND), expression=exp.Null()))
        outer.set("where", exp.Where(this=there))
        return outer

    def _test(self, when: exp.Expr, *, alone: bool) -> exp.Expr:
        """Write when a clause is for a row."""
        parts: list[exp.Expr] = []
        if not alone:
            key = column(self._table.primary_keys[0], self._target)
            missing = exp.Is(this=key, expression=exp.Null())
            parts.append(exp.Not(this=missing) if when.args["matched"] else missing)
        condition = when.args.get("condition")
        if condition is not None:
            parts.append(syntax.wrapped(condition.copy()))
        return syntax.joined(exp.And, parts) if parts else exp.Boolean(this=True)

    def _action(self, then: exp.Expr) -> tuple[str, dict[str, exp.Expr]]:
        """Write what becomes of a row: the kind of the change, and its columns."""
        names = self._table.schema.names
        old: dict[str, exp.Expr] = {name: column(name, self._target) for name in names}
        new: dict[str, exp.Expr] = {name: column(name, self._source) for name in names}
        if isinstance(then, exp.Update):
            if any(isinstance(each, exp.Star) for each in then.expressions):
                return "+U", {**new, **{key: old[key] for key in self._table.primary_keys}}
            pairs = [(each.this.name, each.expression) for each in then.expressions]
            return "+U", {**old, **_values(self._table, pairs)}
        if isinstance(then, exp.Insert):
            if isinstance(then.this, exp.Star):
                return "+I", new
            given = [each.name for each in then.this.expressions] if then.this else list(names)
            values = then.expression.expressions
            if len(given) != len(values):
                raise QueryError(
                    f"INSERT names {len(given)} columns and gives {len(values)} values"
                )
            _check_columns(self._table, given)
            empty: dict[str, exp.Expr] = {name: exp.Null() for name in names}
            return "+I", {**empty, **dict(zip(given, values, strict=True))}
        if then.name.upper() == "DELETE":
            return "-D", old
        raise UnsupportedError(f"MERGE with THEN {then.sql(dialect='spark')} is not supported")


def _table(catalog: Catalog, parts: Sequence[str]) -> Table:
    name = catalog.session.full_name(tuple(parts))
    if (len(parts) == 1 and parts[0] in catalog.session.views) or (
        not catalog.table_exists(name) and catalog.find_view(name) is not None
    ):
        raise QueryError(f"{'.'.join(parts)} is a view: rows are written to tables", table=name)
    table: Any = catalog.load_table(name)
    if isinstance(table, SystemTable):
        raise QueryError(f"{name} is a system table: it is read alone", table=name)
    found: Table = table
    return found


def _of_table(
    catalog: Catalog,
    asked: said.Update | said.Delete,
    columns: Sequence[exp.Expr],
    dialect: Dialect,
) -> BoundQuery:
    """Select columns of the rows that a statement is about."""
    database = identifier(asked.name[0]) if len(asked.name) > 1 else None
    item = exp.Table(this=identifier(asked.name[-1]), db=database)
    if asked.alias:
        item.set("alias", exp.TableAlias(this=identifier(asked.alias)))
    made = star(item)
    made.set("expressions", list(columns))
    if asked.where is not None:
        made.set("where", exp.Where(this=asked.where.copy()))
    return BoundQuery(made, catalog.session.environment(dialect))


def _targets(
    table: Table, asked: said.Insert, fixed: Mapping[str, object], relation: BoundQuery
) -> tuple[str, ...]:
    _check_columns(table, [*asked.columns, *fixed])
    others = [name for name in table.schema.names if name not in fixed]
    targets = asked.columns or tuple(others)
    if len(targets) != len(relation.columns):
        raise QueryError(
            f"the query gives {len(relation.columns)} columns ({', '.join(relation.columns)}), "
            f"{table.name} takes {len(targets)}: {', '.join(targets)}",
            table=table.name,
        )
    if len(set(targets)) < len(targets):
        raise QueryError(f"INSERT INTO {table.name} names a column twice")
    return tuple(targets)


def _check_columns(table: Table, names: Sequence[str]) -> None:
    computed = {each.name for each in computed_columns(table.schema.fields, table.options)}
    for name in names:
        if name in computed:
            raise QueryError(
                f"column {name} of {table.name} is computed: it is read, not written; leave it out",
                column_name=name,
            )
        if name not in table.schema.names:
            raise QueryError(
                f"table {table.name} has no column {name!r}{nearest(name, table.schema.names)}",
                column_name=name,
            )


def _values(table: Table, pairs: Sequence[tuple[str, exp.Expr]]) -> dict[str, exp.Expr]:
    """Check assignments of SET."""
    names = [name for name, _ in pairs]
    _check_columns(table, names)
    for name in names:
        if name in table.primary_keys:
            raise QueryError(
                f"column {name} is part of the key of {table.name}: delete the row and insert "
                "another one",
                column_name=name,
            )
        if names.count(name) > 1:
            raise QueryError(f"SET gives column {name} twice", column_name=name)
    return {name: value.copy() for name, value in pairs}


def _check_replaces(table: Table, word: str) -> None:
    engine = table.schema.core.merge_engine
    if engine not in ("deduplicate", "partial-update"):
        raise UnsupportedError(
            f"{word} is not for {table.name}, whose merge-engine is {engine}: a row that is "
            "written does not replace the one that is there",
            table=table.name,
        )


def _cast(value: exp.Expr, kind: DataType) -> exp.Expr:
    made = exp.Cast(this=value.copy(), to=syntax.type_syntax(kind))
    made.meta[ASSIGNMENT] = True
    return made


def _case(tests: Sequence[exp.Expr], values: Sequence[exp.Expr]) -> exp.Expr:
    pairs = zip(tests, values, strict=True)
    return exp.Case(ifs=[exp.If(this=test.copy(), true=value.copy()) for test, value in pairs])


def _assigned(plan: Node, table: Table, targets: Sequence[str]) -> Node:
    """Cast a query's columns to those of a table."""
    columns = []
    for target, field in zip(targets, plan.fields, strict=True):
        kind = table.schema.field(target).type
        value: Expression = Literal(kind.with_nullable(True), None)
        if not _is_null(plan, field.name):
            value = assigned_whole(ColumnRef(field.type, field.name), kind, target)
        columns.append((target, value))
    return Project(plan, tuple(columns))


def _enforced(plan: Node, table: Table, session: QuerySession) -> Node:
    """Leave out rows with NULL in columns that have none, where SET says so."""
    if session.options.get("table.exec.sink.not-null-enforcer", "").lower() != "drop":
        return plan
    needed = {field.name for field in table.schema.fields if not field.type.nullable}
    boolean = DataType("BOOLEAN", nullable=False)
    kept = [
        Call(boolean, "is_not_null", (ColumnRef(field.type, field.name),))
        for field in plan.fields
        if field.name in needed and field.type.nullable
    ]
    return Filter(plan, all_of(tuple(kept))) if kept else plan


def _is_null(plan: Node, name: str) -> bool:
    """Whether a query writes a column as NULL, which has no type of its own."""
    if isinstance(plan, Values):
        at = plan.columns.names.index(name)
        return all(row[at].value is None for row in plan.rows)
    if not isinstance(plan, Project):
        return False
    value = dict(plan.columns)[name]
    if isinstance(value, ColumnRef):
        return _is_null(plan.input, value.name)
    return isinstance(value, Literal) and value.value is None


def _written(table: Table, batches: Iterator[pa.RecordBatch], *, deletes: bool) -> pa.Table:
    rows = 0
    with table.open_writer() as writer:
        for batch in batches:
            rows += batch.num_rows
            (writer.delete if deletes else writer.upsert)(batch)
        snapshot = writer.commit() if rows else None
    return _result(rows, snapshot)


def _result(rows: int, snapshot: Snapshot | None) -> pa.Table:
    number = pa.array([snapshot.id if snapshot else None], pa.int64())
    return pa.table({"rows": pa.array([rows], pa.int64()), "snapshot_id": number})


def _matched_keys(batch: pa.RecordBatch, table: Table) -> pa.Table:
    rows = pa.Table.from_batches([batch])
    kept = rows.filter(pc.not_equal(rows.column(_KIND), "+I"))
    return kept.select(list(table.primary_keys))


def _check_once(matched: Sequence[pa.Table], table: Table) -> None:
    keys = pa.concat_tables(matched) if matched else None
    if keys is None or keys.num_rows == 0:
        return
    counted = keys.group_by(keys.column_names).aggregate([([], "count_all")])
    if counted.num_rows < keys.num_rows:
        twice = counted.filter(pc.greater(counted.column("count_all"), 1)).slice(0, 1)
        row = twice.drop_columns(["count_all"]).to_pylist()[0]
        raise EvaluationError(
            f"MERGE INTO {table.name} matches the row {row} with several rows of the source: let "
            "the source have one row a key",
            row=row,
        )


def _fixed(values: Mapping[str, object], table: Table) -> dict[str, pa.Scalar]:
    return {
        name: pa.scalar(value).cast(table.schema.field(name).type.arrow)
        for name, value in values.items()
    }


def _with_columns(rows: Any, values: Mapping[str, pa.Scalar]) -> Any:
    for name, value in values.items():
        rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
    return rows


def _complete(rows: pa.Table, table: Table) -> pa.Table:
    """Add the nullable columns that rows lack."""
    for field in table.schema.arrow_schema:
        if field.name not in rows.column_names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows


def _unique(rows: pa.Table, table: Table, on_conflict: str) -> pa.Table:
    """Keep the first row of each key, or refuse a second one."""
    keys = list(table.primary_keys)
    place = pa.array(range(rows.num_rows), pa.int64())
    first = rows.select(keys).append_column(_KIND, place).group_by(keys).aggregate([(_KIND, "min")])
    if first.num_rows == rows.num_rows:
        return rows
    if on_conflict == "error":
        raise EvaluationError(
            f"the query gives {rows.num_rows - first.num_rows} rows whose keys are there before: "
            "write ON CONFLICT DO NOTHING or DEDUPLICATE, or let it give one row a key"
        )
    return rows.take(pa.array(np.sort(first.column(f"{_KIND}_min").to_numpy())))
