"""Joins as they are written: kinds, ON and USING."""

from collections.abc import Iterable
from dataclasses import replace

from sqlglot import exp

from pkray.errors import QueryError
from pkray.relational.functions.coercion import coerced
from pkray.relational.plan.expressions import TRUE, Call, Case, ColumnRef, Expression
from pkray.relational.plan.nodes import JoinKind, Project
from pkray.relational.sql.binder.from_clause.base import SUBQUERIES, FromBase, Item, flattened
from pkray.relational.sql.binder.from_clause.joins import JoinBuilder
from pkray.relational.sql.binder.scope import Scope, Visible, outer_references
from pkray.relational.sql.binder.subqueries import Subqueries
from pkray.relational.sql.expressions.expressions import ExpressionBinder
from pkray.relational.sql.places import placed, unsupported

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


def _filters_one_side(
    clause: FromBase, builder: JoinBuilder, part: exp.Expr, item: Item, kind: JoinKind
) -> bool:
    """Filter by a condition the rows that come out only where they match."""
    if kind is JoinKind.RIGHT:
        scope = clause.scope
    elif kind in (JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI):
        scope = Scope(builder.right, item.columns, clause.dialect)
    else:
        return False
    before = scope.rows.node
    try:
        clause.filter_rows(scope, [part])
    except QueryError:
        scope.rows.node = before
        return False
    return True


def _with_columns(
    clause: FromBase, builder: JoinBuilder, whole: Scope, part: exp.Expr, item: Item, kind: JoinKind
) -> Expression:
    """Bind a condition; each subquery in it becomes a column of the side that it reads."""
    sides = (clause.scope, Scope(builder.right, item.columns, clause.dialect))

    def replaced(node: exp.Expr) -> Expression | None:
        rows = whole.rows.node
        found = _column(clause, whole, node)
        whole.rows.node = rows
        if found is None:
            return None
        for side in sides:
            before = side.rows.node
            try:
                return _column(clause, side, node)
            except QueryError:
                side.rows.node = before
        raise unsupported(
            f"a subquery in the ON of a {kind} join that uses columns of both sides is not "
            "supported: put it in WHERE, or join with it",
            node,
        )

    return ExpressionBinder(clause.queries.names, whole, replaced).condition(part)


def _column(clause: FromBase, scope: Scope, node: exp.Expr) -> Expression | None:
    """Add a column with the value of a subquery to rows; None for any other node."""
    rows, before = scope.rows, scope.rows.node.fields.names
    found = Subqueries(clause.queries, scope, lambda tree: clause.value(scope, tree)).replaced(node)
    if found is None:
        return None
    name = rows.fresh("n")
    kept = tuple((each, rows.ref(each)) for each in before)
    rows.node = Project(rows.node, (*kept, (name, scope.settled(found))))
    return rows.ref(name)


def bind_on(
    clause: FromBase, builder: JoinBuilder, scope: Scope, on: exp.Expr, kind: JoinKind, item: Item
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
            if _filters_one_side(clause, builder, part, item, kind):
                continue
            condition = _with_columns(clause, builder, scope, part, item, kind)
        else:
            condition = ExpressionBinder(clause.queries.names, scope).condition(part)
        if outer_references(condition):
            if kind is not JoinKind.INNER:
                raise unsupported(
                    f"the ON of a {kind} join uses a column of the query around it: "
                    "put the condition in WHERE",
                    part,
                )
            clause.check_inner(part)
            clause.sources.deferred.append(part)
        elif condition != TRUE:
            builder.on(condition)
    return later


def kind_of(join: exp.Join) -> JoinKind:
    """Read the kind of a join."""
    side, kind = (str(join.args.get(name) or "").upper() for name in ("side", "kind"))
    method = str(join.args.get("method") or "").upper()
    if method not in ("", "NATURAL") or (side, kind) not in _KINDS:
        said = " ".join(part for part in (method, side, kind, "JOIN") if part)
        raise unsupported(f"{said} is not offered", join.this)
    for name in ("match_condition", "pivots", "expressions", "directed"):
        if join.args.get(name):
            raise unsupported(f"{name} of a join is not offered", join.this)
    return _KINDS[side, kind]


def using_names(clause: FromBase, join: exp.Join, item: Item) -> list[str]:
    """Name the columns of USING, or of NATURAL."""
    if str(join.args.get("method") or "").upper() == "NATURAL":
        left = {clause.scope.key(each.name) for each in clause.scope.star((), join)}
        return [each.name for each in item.columns if clause.scope.key(each.name) in left]
    return [each.name for each in join.args.get("using") or ()]


def _written(join: exp.Join, name: str) -> exp.Expr:
    """Find where USING writes a name."""
    using = join.args.get("using") or ()
    return next((each for each in using if each.name == name), join.this)


def merge(
    clause: FromBase,
    builder: JoinBuilder,
    kind: JoinKind,
    columns: list[Visible],
    using: list[str],
    item: Item,
    join: exp.Join,
) -> None:
    """Join on columns of one name on both sides; the name stands for both from then on."""
    mine = Scope(clause.rows, clause.scope.columns, clause.dialect)
    theirs = Scope(builder.right, item.columns, clause.dialect)
    pairs = []
    for name in using:
        written = _written(join, name)
        left = mine.column((name,), written)
        right = theirs.column((name,), written)
        assert isinstance(left, ColumnRef)
        assert isinstance(right, ColumnRef)
        what = f"column {name} of both sides"
        with placed(written):
            one, other = coerced((left, right), clause.dialect, what)
        builder.equate(one, other)
        pairs.append((name, left, right))
    clause.pass_on(item, builder)
    clause.rows.node = builder.join(kind)
    if not kind.keeps_right:
        return
    clause.scope.columns += columns
    taken = builder.taken
    merged = []
    for name, left, right in pairs:
        column = left.name
        if kind is JoinKind.RIGHT:
            column = taken[right.name]
        elif kind is JoinKind.FULL:
            (column,) = clause.rows.compute([_either(clause, left.name, taken[right.name])], "u")
        merged.append(Visible(name, column))
        _hide(clause, (left.name, taken[right.name]), name)
    clause.scope.columns = [*merged, *clause.scope.columns]


def _either(clause: FromBase, left: str, right: str) -> Expression:
    one, other = coerced((clause.rows.ref(left), clause.rows.ref(right)), clause.dialect, "USING")
    is_null = Call(TRUE.type, "is_null", (one,))
    return Case(one.type.with_nullable(True), ((is_null, other),), one)


def _hide(clause: FromBase, columns: tuple[str, str], name: str) -> None:
    clause.scope.columns = [
        replace(each, is_plain=False, in_star=False)
        if each.column in columns and clause.scope.key(each.name) == clause.scope.key(name)
        else each
        for each in clause.scope.columns
        if each.qualifier or each.column not in columns
    ]


def moved(columns: Iterable[Visible], builder: JoinBuilder) -> list[Visible]:
    """Find the columns of an item under the names that they have once joined."""
    return [replace(each, column=builder.taken[each.column]) for each in columns]
