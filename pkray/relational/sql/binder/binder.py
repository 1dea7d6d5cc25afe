"""Queries as plans: the binder finds names, gives types and takes subqueries apart."""

from collections.abc import Sequence

from sqlglot import exp

from pkray.errors import QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.functions.coercion import cast_to, common_type
from pkray.relational.plan.expressions import Expression, Literal
from pkray.relational.plan.fields import distinct_names
from pkray.relational.plan.nodes import Limit, Node, Project, SetKind, SetOperation, Sort
from pkray.relational.sql.binder.clauses import read_limit
from pkray.relational.sql.binder.context import BoundQuery, Pair
from pkray.relational.sql.binder.from_clause.joins import normalized
from pkray.relational.sql.binder.from_clause.values import bind_values
from pkray.relational.sql.binder.over import all_spread, sort_keys
from pkray.relational.sql.binder.patterns import projected
from pkray.relational.sql.binder.scope import (
    Correlation,
    Numbers,
    Rows,
    Scope,
    Visible,
    outer_references,
)
from pkray.relational.sql.binder.select import SelectBinder
from pkray.relational.sql.binder.session_zone import in_session_zone
from pkray.relational.sql.dialects import shown
from pkray.relational.sql.expressions.expressions import ExpressionBinder
from pkray.relational.sql.names import Names, zone_of
from pkray.relational.sql.places import placed, position, unsupported, wrong

MAX_NODES = 50_000
"""Most nodes of a plan: a query that WITH names counts as often as it is read."""
MAX_QUERIES = 2000
"""Most SELECTs that are bound for one query: a correlated subquery can be bound several times."""
_SET_KINDS: dict[type[exp.Expr], SetKind] = {
    exp.Union: SetKind.UNION,
    exp.Intersect: SetKind.INTERSECT,
    exp.Except: SetKind.EXCEPT,
}
_SET_CLAUSES = ("with_", "this", "expression", "distinct", "order", "limit", "offset")


class Binder:
    """Turns the syntax of queries into plans.

    Args:
        names: tells what tables, views and users' functions there are, and the dialect.
    """

    def __init__(self, names: Names) -> None:
        self.names = names

    def query(self, tree: exp.Expr) -> Node:
        """Bind a query.

        Returns:
            a plan that gives the query's columns under the names that they have in SELECT; a name
            that is there twice gets a number: ``k``, ``k0``.

        Raises:
            QueryError: with line and column where they are known.
            UnsupportedError: it is valid and not offered.
        """
        try:
            node = _Queries(self.names).bind(tree).node
            node = in_session_zone(node, zone_of(self.names), self.names.dialect)
            _check_size(node)
        except RecursionError:
            raise QueryError(
                "the query is nested too deeply: name parts of it in WITH clauses"
            ) from None
        return node


class _Queries:
    """Binds the queries within one query."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.dialect = names.dialect
        self.numbers = Numbers()
        self.tables: dict[str, BoundQuery] = {}
        self._count = 0

    def bind(
        self, tree: exp.Expr, correlation: Correlation | None = None, *, is_scalar: bool = False
    ) -> BoundQuery:
        """Bind a query; see ``Queries``."""
        self._count += 1
        if self._count > MAX_QUERIES:
            raise QueryError(
                f"the query holds more than {MAX_QUERIES} subqueries, or ones that depend on each "
                "other too deeply: name parts of it in WITH clauses"
            )
        before = self.tables
        try:
            self.tables = self._with(tree)
            return self._bind(tree, correlation, is_scalar=is_scalar)
        finally:
            self.tables = before

    def _bind(
        self, tree: exp.Expr, correlation: Correlation | None, *, is_scalar: bool
    ) -> BoundQuery:
        if isinstance(tree, exp.Subquery):
            return self._subquery(tree, correlation, is_scalar=is_scalar)
        if isinstance(tree, exp.Select):
            return SelectBinder(self, tree, correlation, is_scalar=is_scalar).bind()
        if isinstance(tree, exp.SetOperation):
            return self._set_operation(tree, correlation)
        if isinstance(tree, exp.Values):
            return bind_values(self, tree)
        raise wrong(
            f"a query is expected, not {shown(tree)}: begin with SELECT, WITH or VALUES", tree
        )

    def _with(self, tree: exp.Expr) -> dict[str, BoundQuery]:
        clause = tree.args.get("with_")
        if clause is None:
            return self.tables
        if clause.args.get("recursive"):
            raise unsupported(
                "WITH RECURSIVE is not supported: write as many joins as there are levels", clause
            )
        tables = dict(self.tables)
        for cte in clause.expressions:
            self.tables = tables
            bound = self.bind(cte.this)
            names = bound.names
            alias = cte.args["alias"]
            if alias.columns:
                names = tuple(column.name for column in alias.columns)
                if len(names) != len(bound.names):
                    raise wrong(
                        f"{cte.alias} names {len(names)} columns, but its query gives "
                        f"{len(bound.names)}: {', '.join(bound.names)}",
                        alias,
                    )
            key = self._key(cte.alias)
            if key in {self._key(each.alias) for each in clause.expressions if each is not cte}:
                raise wrong(f"WITH defines {cte.alias} twice", alias)
            tables = {**tables, key: BoundQuery(bound.node, distinct_names(names), bound.columns)}
        return tables

    def _key(self, name: str) -> str:
        return name.lower() if self.dialect is Dialect.SPARK else name

    def _subquery(
        self, tree: exp.Subquery, correlation: Correlation | None, *, is_scalar: bool
    ) -> BoundQuery:
        clauses = [name for name in ("order", "limit", "offset") if tree.args.get(name)]
        if not clauses and not isinstance(tree.this, exp.Table):
            return self.bind(tree.this, correlation, is_scalar=is_scalar)
        whole = exp.Select(expressions=[exp.Star()])
        whole.set("from_", exp.From(this=exp.Subquery(this=tree.this)))
        for name in clauses:
            whole.set(name, tree.args[name])
        return SelectBinder(self, whole, correlation, is_scalar=is_scalar).bind()

    # UNION, INTERSECT and EXCEPT

    def _set_operation(self, tree: exp.SetOperation, correlation: Correlation | None) -> BoundQuery:
        for name, value in tree.args.items():
            if value and name not in _SET_CLAUSES:
                raise unsupported(
                    f"{name.upper().replace('_', ' ')} of {tree.key.upper()} is not offered", tree
                )
        left, right = self.bind(tree.this, correlation), self.bind(tree.expression, correlation)
        word = tree.key.upper()
        if len(left.columns) != len(right.columns):
            raise wrong(
                f"the sides of {word} give {len(left.columns)} and {len(right.columns)} columns",
                tree.expression,
            )
        if _matching(left) != _matching(right) or left.residuals or right.residuals:
            self._force_domains(left, right, tree, correlation)
            return self._set_operation(tree, correlation)
        pairs = left.pairs
        kind, all_rows = _SET_KINDS[type(tree)], not tree.args.get("distinct")
        keeps = kind is SetKind.UNION and all_rows
        lefts, rights = self._common_columns(left, right, tree)
        names = left.names
        hidden = tuple(self.numbers.fresh("c") for _ in pairs)
        wanted = (*names, *hidden)
        one = self._side(left, wanted, lefts, keeps=keeps)
        theirs = (*right.columns, *hidden)
        other = self._side(right, theirs, rights, keeps=keeps)
        rows = Rows(SetOperation(one, other, kind, all_rows), self.numbers)
        self._sort(tree, rows, names, correlated=hidden)
        joined = tuple(
            Pair(pair.outer, name, pair.null_safe) for pair, name in zip(pairs, hidden, strict=True)
        )
        return BoundQuery(rows.node, names, names, joined)

    def _force_domains(
        self,
        left: BoundQuery,
        right: BoundQuery,
        tree: exp.SetOperation,
        correlation: Correlation | None,
    ) -> None:
        """Have both sides joined with the same columns of the query around."""
        assert correlation is not None
        needed = dict.fromkeys(
            name
            for bound in (left, right)
            for name in (
                *(name for pair in bound.pairs for name in sorted(pair.outer.columns())),
                *(each.name for part in bound.residuals for each in outer_references(part)),
            )
        )
        leaves = _leaves(tree)
        if leaves is None or all(
            correlation.domains.get(id(leaf)) == list(needed) for leaf in leaves
        ):
            raise unsupported(
                f"a {tree.key.upper()} that uses the query around it in this way is not "
                "supported: write it as joins",
                tree,
            )
        for leaf in leaves:
            correlation.domains[id(leaf)] = list(needed)

    def _common_columns(
        self, left: BoundQuery, right: BoundQuery, tree: exp.Expr
    ) -> tuple[list[Expression], list[Expression]]:
        lefts: list[Expression] = []
        rights: list[Expression] = []
        for place, (one, other) in enumerate(zip(left.columns, right.columns, strict=True)):
            a, b = _constant(left.node, one), _constant(right.node, other)
            what = f"column {place + 1} of the sides of {tree.key.upper()}"
            with placed(column_written(tree.expression, place)):
                kind = common_type((a, b), self.dialect, what)
            lefts.append(cast_to(left.node.fields.ref(one), kind))
            rights.append(cast_to(right.node.fields.ref(other), kind))
        return lefts, rights

    def _side(
        self,
        bound: BoundQuery,
        names: tuple[str, ...],
        values: Sequence[Expression],
        *,
        keeps: bool,
    ) -> Node:
        pairs = [bound.node.fields.ref(pair.column) for pair in bound.pairs]
        columns = [
            value if keeps else normalized(value, self.dialect) for value in (*values, *pairs)
        ]
        return projected(bound.node, tuple(zip(names, columns, strict=True)))

    def _sort(
        self, tree: exp.Expr, rows: Rows, names: tuple[str, ...], correlated: tuple[str, ...]
    ) -> None:
        order = tree.args.get("order")
        limit, offset = read_limit(self, tree)
        if correlated and (limit is not None or offset):
            raise unsupported("LIMIT of a UNION that uses the query around is not supported", tree)
        if order is not None:
            scope = Scope(rows, (Visible(name, name) for name in names), self.dialect)
            binder = ExpressionBinder(self.names, scope)

            def bind(node: exp.Expr) -> Expression:
                if isinstance(node, exp.Literal) and not node.is_string:
                    if not node.name.isdigit() or not 1 <= int(node.name) <= len(names):
                        raise wrong(f"there is no column {node.name}: there are {len(names)}", node)
                    return rows.ref(names[int(node.name) - 1])
                return binder.bind(node)

            keys = sort_keys(all_spread(order, len(names)), rows, bind)
            rows.node = Sort(rows.node, keys) if keys else rows.node
        if limit is not None or offset:
            rows.node = Limit(rows.node, limit, offset)
        wanted = (*names, *correlated)
        rows.node = projected(rows.node, tuple((name, rows.ref(name)) for name in wanted))


def column_written(tree: exp.Expr, place: int) -> exp.Expr:
    """Find where a query writes a column; the query itself where it does not."""
    select = tree
    while isinstance(select, exp.Subquery | exp.SetOperation):
        select = select.this
    written = select.expressions if isinstance(select, exp.Select) else []
    plain = not any(each.is_star for each in written) and place < len(written)
    return written[place] if plain and position(written[place]) else tree


def _matching(bound: BoundQuery) -> list[tuple[Expression, bool]]:
    return [(pair.outer, pair.null_safe) for pair in bound.pairs]


def _leaves(tree: exp.Expr) -> list[exp.Expr] | None:
    """List the SELECTs of a set operation; None if one of its sides is none."""
    if isinstance(tree, exp.Select):
        return [tree]
    if isinstance(tree, exp.Subquery):
        return _leaves(tree.this)
    if not isinstance(tree, exp.SetOperation):
        return None
    left, right = _leaves(tree.this), _leaves(tree.expression)
    return None if left is None or right is None else left + right


def _check_size(node: Node) -> None:
    sizes: dict[int, int] = {}

    def size(part: Node) -> int:
        known = sizes.get(id(part))
        if known is None:
            known = sizes[id(part)] = 1 + sum(size(each) for each in part.inputs)
        return known

    if size(node) > MAX_NODES:
        raise QueryError(
            f"the plan has more than {MAX_NODES} nodes: queries named by WITH are read too often"
        )


def _constant(node: Node, name: str) -> Expression:
    """Find a NULL that is selected as it is: it takes the type of the other side."""
    if isinstance(node, Project):
        value = dict(node.columns)[name]
        if isinstance(value, Literal):
            return value
    return node.fields.ref(name)
