"""The state of FROM while it is bound, and what its parts share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from sqlglot import exp

from pkray.relational.plan.expressions import Expression
from pkray.relational.plan.nodes import Hint, Node
from pkray.relational.sql.binder.context import Pair, Queries, Sources, TableHints
from pkray.relational.sql.binder.from_clause.calls import SINGLE_ROW
from pkray.relational.sql.binder.from_clause.generators import Generators
from pkray.relational.sql.binder.from_clause.joins import JoinBuilder
from pkray.relational.sql.binder.from_clause.time_windows import TimeWindows
from pkray.relational.sql.binder.patterns import filtered
from pkray.relational.sql.binder.scope import Correlation, Rows, Scope, Visible
from pkray.relational.sql.binder.subqueries import Subqueries
from pkray.relational.sql.expressions.expressions import ExpressionBinder
from pkray.relational.sql.expressions.operators import chained
from pkray.relational.sql.places import unsupported, wrong

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


@dataclass(eq=False)
class FromBase(ABC):
    """Gathers the columns and sources of FROM, for all parts that bind it.

    Attributes:
        scope: the columns that it gives.
        sources: what else it has gathered.
    """

    queries: Queries
    select: exp.Select
    correlation: Correlation | None
    settle: Callable[[Expression], Expression]
    hints: TableHints
    sources: Sources = field(default_factory=Sources, init=False)

    def __post_init__(self) -> None:
        self.dialect = self.queries.dialect
        self.rows = Rows(SINGLE_ROW, self.queries.numbers)
        self.scope = Scope(self.rows, (), self.dialect, self.correlation, self.settle)
        self.windows = TimeWindows(self.queries)
        self.generators = Generators(self.queries)

    def pass_on(self, item: Item, builder: JoinBuilder) -> None:
        """Take on what an item is joined to the query around by, under its new names."""
        names = builder.taken
        self.sources.pairs += [replace(pair, column=names[pair.column]) for pair in item.pairs]
        self.sources.residuals += [builder.renamed(each) for each in item.residuals]

    def filter_rows(self, scope: Scope, conditions: Iterable[exp.Expr]) -> None:
        """Keep the rows of a scope for which conditions with subqueries are true."""
        for each in conditions:
            subqueries = Subqueries(self.queries, scope, lambda tree: self.value(scope, tree))
            if subqueries.filter(each):
                continue
            binder = ExpressionBinder(self.queries.names, scope, subqueries.replaced)
            condition = scope.settled(binder.condition(each))
            scope.rows.node = filtered(scope.rows.node, condition)

    def value(self, scope: Scope, tree: exp.Expr) -> Expression:
        """Bind a value that may hold subqueries."""
        subqueries = Subqueries(self.queries, scope, lambda each: self.value(scope, each))
        binder = ExpressionBinder(self.queries.names, scope, subqueries.replaced)
        return scope.settled(binder.bind(tree))

    def bound(self, tree: exp.Expr) -> Expression:
        """Bind a value."""
        return self.scope.settled(ExpressionBinder(self.queries.names, self.scope).bind(tree))

    def named(self, node: Node, columns: Iterable[Visible], alias: str) -> Item:
        """Make an item of a name that no other has."""
        if alias:
            if alias in self.sources.aliases:
                raise wrong(
                    f"two tables of this query are called {alias}: give one another alias",
                    self.select,
                )
            self.sources.aliases.add(alias)
            known = {self.scope.key(name): hints for name, hints in self.hints.items()}
            for name, options in known.get(self.scope.key(alias), {}).items():
                node = Hint(node, name, options)
        return Item(node, list(columns))

    def check_inner(self, tree: exp.Expr) -> None:
        """Refuse columns of the query around within an outer join."""
        start = self.select.args["from_"].this
        joins = [*(self.select.args.get("joins") or ()), *(start.args.get("joins") or ())]
        if any(
            join.args.get("side") or join.args.get("kind") in ("SEMI", "ANTI") for join in joins
        ):
            raise unsupported(
                "a subquery within an outer join uses a column of the query around it: "
                "put the condition in WHERE",
                tree,
            )

    def nested(self, select: exp.Select) -> Self:
        """Make a binder of a FROM within this one."""
        return type(self)(self.queries, select, self.correlation, self.scope.settled, {})

    @abstractmethod
    def bind(self) -> Scope:
        """Bind FROM with all its joins."""

    @abstractmethod
    def item(self, tree: exp.Expr) -> Item:
        """Bind one entry of FROM."""


def flattened(condition: exp.Expr) -> list[exp.Expr]:
    """Split a condition at AND."""
    return chained(condition, exp.And)
