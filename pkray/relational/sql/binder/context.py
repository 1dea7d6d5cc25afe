"""Share state among the parts of the binder while they bind one query."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from sqlglot import exp

from pkray.relational.dialect import Dialect
from pkray.relational.plan.expressions import Expression
from pkray.relational.plan.nodes import Node
from pkray.relational.sql.binder.scope import Correlation, Numbers
from pkray.relational.sql.names import Names


@dataclass(frozen=True)
class Pair:
    """One equality between a query and a subquery in it.

    Attributes:
        outer: over the rows of the query around.
        column: of the subquery's rows.
        null_safe: whether NULL equals NULL.
    """

    outer: Expression
    column: str
    null_safe: bool = False


@dataclass(frozen=True)
class BoundQuery:
    """A query as a plan.

    Attributes:
        names: of the result's columns, as they can be written; `columns` are those of the node.
        pairs: what its rows are joined to the query around by; empty if it uses nothing of it.
        residuals: further conditions, over the node's columns and OuterRefs.
        values: what the columns stand for, where it is computed only after the join with the query
            around (see `subqueries`); empty otherwise.
        is_single: whether it always gives one row.
    """

    node: Node
    names: tuple[str, ...]
    columns: tuple[str, ...]
    pairs: tuple[Pair, ...] = ()
    residuals: tuple[Expression, ...] = ()
    values: tuple[Expression, ...] = ()
    is_single: bool = False

    @property
    def is_correlated(self) -> bool:
        """Whether it uses columns of the query around it."""
        return bool(self.pairs or self.residuals)


class Queries(Protocol):
    """Binds queries within a query."""

    names: Names
    dialect: Dialect
    numbers: Numbers
    tables: dict[str, BoundQuery]

    def bind(
        self, tree: exp.Expr, correlation: Correlation | None = None, *, is_scalar: bool = False
    ) -> BoundQuery:
        """Bind a query.

        Args:
            correlation: what it sees of the query around it.
            is_scalar: whether its one value is wanted, so that `BoundQuery.values` is understood.
        """


TableHints: TypeAlias = Mapping[str, Mapping[str, tuple[tuple[str, str], ...]]]
"""What hints say of tables: options by the hint's name, by alias."""


@dataclass
class Sources:
    """Gathers what FROM names.

    Attributes:
        pairs, residuals: of the subqueries in it, to be passed on.
        deferred: conditions of inner joins that use the query around: they are handled as those of
            WHERE are.
        aliases: of its tables, which hints name.
        looked_up: of the tables of lookup joins.
    """

    pairs: list[Pair] = field(default_factory=list)
    residuals: list[Expression] = field(default_factory=list)
    deferred: list[exp.Expr] = field(default_factory=list)
    aliases: set[str] = field(default_factory=set)
    looked_up: set[str] = field(default_factory=set)
