"""Calls of aggregates and window functions, taken apart."""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from pkray.relational.functions.aggregates.catalogue import is_aggregate
from pkray.relational.plan.aggregates import facts
from pkray.relational.sql.binder.context import Queries
from pkray.relational.sql.places import wrong

WRAPPERS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
IGNORING = ("first", "first_value", "last", "last_value", "any_value")
"""Functions that take whether NULLs are ignored as an argument."""
_OF_SORTED = ("percentile_cont", "percentile_disc")
"""Aggregates whose values are those that WITHIN GROUP sorts, as ``mode()`` has it too."""
_BESIDE = ("lag", "lead")
"""Functions that give the value of another row, be it NULL."""


@dataclass(frozen=True)
class Written:
    """A call of an aggregate or a window function, taken apart.

    Attributes:
        node: the function itself.
        whole: with FILTER and the like around it.
    """

    node: exp.Anonymous
    whole: exp.Expr
    arguments: tuple[exp.Expr, ...]
    distinct: bool = False
    filter: exp.Expr | None = None
    order: tuple[exp.Ordered, ...] = ()
    within: tuple[exp.Ordered, ...] = ()
    ignore_nulls: bool = False
    respect_nulls: bool = False

    @property
    def name(self) -> str:
        """Give the function's name."""
        return self.node.name

    def check(self, function: str) -> None:
        """Refuse an order, DISTINCT, and IGNORE or RESPECT NULLS that would change nothing.

        Args:
            function: the canonical name of the function; ``udf`` for one of a user.

        Raises:
            QueryError: the function takes no account of what is written.
        """
        known, name = facts(function), self.name.lower()
        sorts_its_values = name in _OF_SORTED or (function == "mode" and not self.arguments)
        order = self.order or (() if sorts_its_values else self.within)
        if order and not (known.by_arrival or known.collects or function == "udf"):
            self._refuse("WITHIN GROUP (ORDER BY …)" if order is self.within else "ORDER BY")
        if sorts_its_values and self.distinct:
            self._refuse("DISTINCT")
        keeps = function in _BESIDE or (known.keeps_nulls and function != "udf")
        if self.ignore_nulls and not (keeps or known.collects):
            self._refuse("IGNORE NULLS")
        if self.respect_nulls and not keeps:
            self._refuse("RESPECT NULLS")

    def _refuse(self, clause: str) -> None:
        raise wrong(f"{self.name} takes no {clause}: leave it out", self.node)


def take_apart(whole: exp.Expr) -> Written | None:
    """Find the function below FILTER, WITHIN GROUP and IGNORE NULLS; None if there is none."""
    node, condition, ignore, respect = whole, None, False, False
    within: tuple[exp.Ordered, ...] = ()
    while isinstance(node, WRAPPERS):
        if isinstance(node, exp.Filter):
            condition = node.expression.this
        elif isinstance(node, exp.WithinGroup):
            within = tuple(node.expression.expressions)
        else:
            ignore, respect = _nulls(node)
        node = node.this
    if not isinstance(node, exp.Anonymous):
        return None
    arguments: list[exp.Expr] = list(node.expressions)
    distinct, order = False, ()
    if arguments:
        last = arguments[-1]
        if isinstance(last, exp.Order):
            order = tuple(last.expressions)
            arguments[-1] = last.this
        if isinstance(arguments[0], exp.IgnoreNulls | exp.RespectNulls):
            ignore, respect = _nulls(arguments[0])
            arguments[0] = arguments[0].this
        if isinstance(arguments[0], exp.Distinct):
            distinct = True
            arguments[:1] = arguments[0].expressions
    return Written(
        node, whole, tuple(arguments), distinct, condition, order, within, ignore, respect
    )


def _nulls(node: exp.Expr) -> tuple[bool, bool]:
    """Tell whether NULLs are ignored, and whether they are respected."""
    return isinstance(node, exp.IgnoreNulls), isinstance(node, exp.RespectNulls)


class AggregateNames:
    """Tells aggregates from other functions."""

    def __init__(self, queries: Queries) -> None:
        self.queries = queries

    def is_aggregate(self, name: str) -> bool:
        """Whether people can write an aggregate of this name; users' functions too."""
        if is_aggregate(name, self.queries.dialect):
            return True
        udf = self.queries.names.udf(name)
        return udf is not None and str(udf.kind) == "aggregate"

    def calls_in(self, tree: exp.Expr) -> Iterator[Written]:
        """List the aggregates in an expression: not those with OVER, nor those of subqueries."""
        waiting = [tree]
        while waiting:
            node = waiting.pop()
            if isinstance(node, exp.Query):
                continue
            children: list[exp.Expr]
            if isinstance(node, exp.Window):
                inner = take_apart(node.this)
                children = list(node.iter_expressions())
                if inner is not None:
                    children = [each for each in children if each is not node.this]
                    children += [*inner.arguments, *([inner.filter] if inner.filter else [])]
                waiting += reversed(children)
                continue
            call = take_apart(node) if isinstance(node, (*WRAPPERS, exp.Anonymous)) else None
            if call is not None and self.is_aggregate(call.name):
                yield call
                continue
            waiting += reversed(list(node.iter_expressions()))
