"""The names that stand in a query, and the rows behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from pkray.errors import QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.plan.expressions import ColumnRef, Expression, replace_columns
from pkray.relational.plan.nodes import Node, Project
from pkray.relational.sql.expressions.base import access_field
from pkray.relational.sql.places import nearest, quoted, wrong


class Numbers:
    """Gives the columns that a query adds their names: ``$k0``, ``$k1``, ``$s0`` …"""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def fresh(self, prefix: str) -> str:
        """Give a name that no other column has."""
        number = self._next.get(prefix, 0)
        self._next[prefix] = number + 1
        return f"${prefix}{number}"


class Rows:
    """A plan that grows, a node at a time; the columns that it has stay.

    Attributes:
        node: the plan so far.
    """

    def __init__(self, node: Node, numbers: Numbers) -> None:
        self.node = node
        self.numbers = numbers
        self._computed: dict[Expression, str] = {}
        self._added: Project | None = None

    def ref(self, name: str) -> ColumnRef:
        """Refer to a column."""
        return self.node.fields.ref(name)

    def compute(self, expressions: Sequence[Expression], prefix: str) -> list[str]:
        """Add columns for those that are not columns yet, and name all of them."""
        added: list[tuple[str, Expression]] = []
        names = []
        for each in expressions:
            name = each.name if isinstance(each, ColumnRef) else self._computed.get(each)
            if name is None or name not in self.node.fields:
                name = self.fresh(prefix)
                self._computed[each] = name
                added.append((name, each))
            names.append(name)
        self.add(added)
        return names

    def fresh(self, prefix: str) -> str:
        """Give a name that none of the rows' columns has."""
        name = self.numbers.fresh(prefix)
        while name in self.node.fields:
            name = self.numbers.fresh(prefix)
        return name

    def add(self, columns: Iterable[tuple[str, Expression]]) -> None:
        """Add columns under names that are free."""
        added = tuple(columns)
        if not added:
            return
        node = self.node
        old: tuple[tuple[str, Expression], ...] = node.fields.refs
        last = self._added
        if last is not None and node is last:
            needed = {name for _, value in added for name in value.columns()}
            if all(name in last.input.fields for name in needed):
                node, old = last.input, last.columns
        self._added = Project(node, (*old, *added))
        self.node = self._added


@dataclass(frozen=True)
class Visible:
    """A column as a query can name it.

    Attributes:
        name: as it is written.
        column: the column of the rows.
        qualifier: what may stand before the name: ``("t",)`` or ``("db", "t")``.
        is_plain: whether the name alone finds it.
        in_star: whether ``*`` gives it.
    """

    name: str
    column: str
    qualifier: tuple[str, ...] = ()
    is_plain: bool = True
    in_star: bool = True

    def __str__(self) -> str:
        return ".".join(quoted(part) for part in (*self.qualifier[-1:], self.name))


@dataclass(frozen=True)
class OuterRef(Expression):
    """A column of the query around a subquery; it never stands in a plan."""

    name: str
    correlation: Correlation = field(compare=False)


class NeedsDomainError(Exception):
    """A subquery uses a column of the query around it where that cannot become a join condition.

    The subquery is bound again, over each value of the column that the query around it has.

    Attributes:
        equal: other columns of the query around that the subquery's rows are equal to: with them
            each value is joined with the rows that it concerns, not with all.
    """

    def __init__(self, reference: OuterRef, select: exp.Expr, equal: Iterable[str] = ()) -> None:
        super().__init__(reference.name)
        self.reference = reference
        self.select = select
        self.equal = tuple(equal)


class Correlation:
    """Shows a subquery the query around it.

    Attributes:
        outer: the names of the query around it.
        domains: for each SELECT in the subquery, by identity, the columns of the query around it
            whose values it is joined with.
    """

    def __init__(self, outer: Scope) -> None:
        self.outer = outer
        self.domains: dict[int, list[str]] = {}


def outer_references(expression: Expression) -> list[OuterRef]:
    """List the columns of the query around it that an expression reads."""
    return [part for part in expression.walk() if isinstance(part, OuterRef)]


class Scope:
    """Finds the columns that names stand for.

    Args:
        rows: whose columns they are.
        correlation: where to look for names that are not here.
        settle: makes references to the query around this one columns of `rows`.
    """

    def __init__(
        self,
        rows: Rows,
        columns: Iterable[Visible],
        dialect: Dialect,
        correlation: Correlation | None = None,
        settle: Callable[[Expression], Expression] | None = None,
    ) -> None:
        self.rows = rows
        self.columns = list(columns)
        self.dialect = dialect
        self.correlation = correlation
        self.domain: dict[str, str] = {}
        self.aliases: dict[str, Callable[[], Expression]] = {}
        self._settle = settle

    def key(self, name: str) -> str:
        """Give what names are compared by."""
        return name.lower() if self.dialect is Dialect.SPARK else name

    def column(self, parts: tuple[str, ...], node: exp.Expr) -> Expression:
        """Find a column, or a field of a ROW column; see ``ExpressionBinder``."""
        found = self.lookup(parts, node)
        if found is None:
            raise self.unknown(parts, node)
        return found

    def lookup(self, parts: tuple[str, ...], node: exp.Expr) -> Expression | None:
        """Find a column here or in the queries around; None where there is none."""
        found = self.find(parts, node)
        if found is None and self.key(parts[0]) in self.aliases:
            found = self.aliases[self.key(parts[0])]()
            for name in parts[1:]:
                found = access_field(found, name, self.dialect)
        if found is None and self.correlation is not None:
            found = self.correlation.outer.lookup(parts, node)
            if found is not None:
                found = self.correlation.outer.settled(found)
                found = replace_columns(found, self._as_outer)
        return found

    def find(self, parts: tuple[str, ...], node: exp.Expr) -> Expression | None:
        """Find a column of this query alone; None where there is none."""
        for width in range(min(len(parts) - 1, 3), -1, -1):
            found = self._named(parts[:width], parts[width])
            if len({each.column for each in found}) > 1:
                where = " and ".join(str(each) for each in found)
                raise wrong(f"{'.'.join(parts)} is ambiguous: write one of {where}", node)
            if found:
                value: Expression = self.rows.ref(found[0].column)
                for name in parts[width + 1 :]:
                    value = access_field(value, name, self.dialect)
                return value
        return None

    def settled(self, expression: Expression) -> Expression:
        """Make an expression one of `rows` alone."""
        if self._settle is None or not outer_references(expression):
            return expression
        return self._settle(expression)

    def _named(self, qualifier: tuple[str, ...], name: str) -> list[Visible]:
        wanted, before = self.key(name), tuple(self.key(part) for part in qualifier)
        found = []
        for each in self.columns:
            if self.key(each.name) != wanted:
                continue
            has = tuple(self.key(part) for part in each.qualifier)
            if each.is_plain if not before else has[-len(before) :] == before:
                found.append(each)
        return found

    def _as_outer(self, part: ColumnRef) -> Expression:
        if part.name in self.domain:
            return self.rows.ref(self.domain[part.name])
        assert self.correlation is not None
        return OuterRef(part.type, part.name, self.correlation)

    def unknown(self, parts: tuple[str, ...], node: exp.Expr) -> QueryError:
        """Say that there is no such column, and which may have been meant."""
        said = ".".join(parts)
        if len(parts) > 1:
            qualifier = self.key(parts[-2])
            mine = [
                each for each in self.columns if qualifier in map(self.key, each.qualifier[-1:])
            ]
            if mine:
                near = nearest(parts[-1], (each.name for each in mine))
                hint = near or _list(each.name for each in mine)
                return wrong(f"{parts[-2]} has no column {parts[-1]}{hint}", node)
            names = {part for each in self.columns for part in each.qualifier[-1:]}
            hint = nearest(parts[-2], names) or _list(sorted(names))
            return wrong(f"no table of this query is called {parts[-2]}{hint}", node)
        names_of_all = [*(each.name for each in self.columns), *self.aliases]
        hint = nearest(parts[-1], names_of_all) or _list(names_of_all)
        return wrong(f"there is no column {said}{hint}", node)

    def star(self, qualifier: tuple[str, ...], node: exp.Expr) -> list[Visible]:
        """List the columns that ``*`` or ``t.*`` gives."""
        before = tuple(self.key(part) for part in qualifier)
        if not before:
            return [each for each in self.columns if each.in_star]
        found = [
            each
            for each in self.columns
            if tuple(map(self.key, each.qualifier))[-len(before) :] == before
        ]
        if not found:
            names = {part for each in self.columns for part in each.qualifier[-1:]}
            hint = nearest(qualifier[-1], names) or _list(sorted(names))
            raise wrong(f"no table of this query is called {'.'.join(qualifier)}{hint}", node)
        return found


def _list(names: Iterable[str]) -> str:
    known = list(dict.fromkeys(names))
    if not known:
        return ""
    shown = ", ".join(known[:12]) + (", …" if len(known) > 12 else "")
    return f"; there are {shown}"
