"""The state of a SELECT while it is bound, and how expressions are bound over it."""

from dataclasses import KW_ONLY, dataclass, field

from sqlglot import exp

from pkray.relational.plan.expressions import TRUE, Call, ColumnRef, Expression, all_of
from pkray.relational.sql.binder import scope as scopes
from pkray.relational.sql.binder.calls import AggregateNames
from pkray.relational.sql.binder.clauses import check_window_function
from pkray.relational.sql.binder.context import Pair, Queries
from pkray.relational.sql.binder.from_clause.joins import EQUALITIES, normalized
from pkray.relational.sql.binder.grouping import GroupedScope, Grouping, not_grouped
from pkray.relational.sql.binder.over import OverBinder, misplaced
from pkray.relational.sql.binder.patterns import filtered
from pkray.relational.sql.binder.subqueries import Subqueries, as_joined
from pkray.relational.sql.dialects import shown
from pkray.relational.sql.expressions.expressions import ExpressionBinder
from pkray.relational.sql.places import wrong


@dataclass(eq=False)
class SelectState:
    """One SELECT while it is bound.

    Attributes:
        rows: the plan so far.
        base: the columns of FROM; scope: those that can be named now.
        pairs, residuals: what the rows of this subquery are joined to the query around by.
        defers: whether SELECT is computed after the join with the query around.
        window: the ``window(…)`` that rows were put in, and its column.
    """

    queries: Queries
    select: exp.Select
    correlation: scopes.Correlation | None
    _: KW_ONLY
    is_scalar: bool
    rows: scopes.Rows = field(init=False)
    base: scopes.Scope = field(init=False)
    scope: scopes.Scope | GroupedScope = field(init=False)
    pairs: list[Pair] = field(init=False)
    residuals: list[Expression] = field(init=False)
    grouping: Grouping | None = field(default=None, init=False)
    over: OverBinder | None = field(default=None, init=False)
    defers: bool = field(default=False, init=False)
    window: exp.Anonymous | None = field(default=None, init=False)
    window_column: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self.dialect = self.queries.dialect

    def binder(self) -> ExpressionBinder:
        """Make what binds expressions over what can be named now."""
        return ExpressionBinder(self.queries.names, self.scope, self._replaced)

    def _replaced(self, node: exp.Expr) -> Expression | None:
        """Find the column that stands for a node which the binder of expressions does not know."""
        found = self.in_window(node)
        if found is None and self.over is not None:
            found = self.over.replaced(node)
        if found is not None:
            return found
        if self.grouping is not None:
            found = self.grouping.replaced(node)
            if found is not None:
                return found
        else:
            self.check_plain(node)
        return Subqueries(self.queries, self.scope, self.bound).replaced(node)

    def check_plain(self, node: exp.Expr) -> None:
        """Refuse aggregates and functions with OVER where they cannot stand."""
        if isinstance(node, exp.Window) and self.over is None:
            raise misplaced(node)
        if isinstance(node, exp.Anonymous):
            check_window_function(node)
            if AggregateNames(self.queries).is_aggregate(node.name):
                raise wrong(
                    f"{node.name} cannot stand here: filter groups by HAVING, or aggregate in a "
                    "subquery",
                    node,
                )
            if node.name.lower() in ("grouping", "grouping_id"):
                raise wrong(f"{node.name.upper()} is for queries with GROUP BY", node)

    def bound(self, node: exp.Expr) -> Expression:
        """Bind a value."""
        return self.settled(self.binder().bind(node))

    def settled(self, expression: Expression) -> Expression:
        """Read columns of the query around from rows that are equal to them, if there are any."""
        return self.settle(expression) if scopes.outer_references(expression) else expression

    def settle(self, expression: Expression) -> Expression:
        """Read columns of the query around from rows that are equal to them."""

        def change(part: Expression) -> Expression:
            if not isinstance(part, scopes.OuterRef):
                return part
            for pair in self.pairs:
                if isinstance(pair.outer, ColumnRef) and pair.outer.name == part.name:
                    mine = self.rows.ref(pair.column)
                    if mine.type.with_nullable(True) == part.type.with_nullable(True):
                        return mine
            equal = [each.outer.name for each in self.pairs if isinstance(each.outer, ColumnRef)]
            raise scopes.NeedsDomainError(part, self.select, equal)

        return expression.transform(change)

    def check_residuals(self) -> None:
        """Filter by what else holds, where that cannot wait for the join with the query around."""
        local = [self.settle(residual) for residual in self.residuals]
        self.residuals = []
        self.rows.node = filtered(self.rows.node, all_of(tuple(local)))

    @property
    def correlated(self) -> list[str]:
        return list(dict.fromkeys(pair.column for pair in self.pairs))

    def sort_condition(self, condition: Expression, local: list[Expression]) -> None:
        """Sort a condition: for the rows here, or for the join with the query around."""
        if condition == TRUE:
            return
        if not scopes.outer_references(condition):
            local.append(condition)
        elif not self._as_pair(condition):
            self.residuals.append(condition)

    def _as_pair(self, condition: Expression) -> bool:
        if not isinstance(condition, Call) or condition.function not in EQUALITIES:
            return False
        for inner, outer in (condition.arguments, condition.arguments[::-1]):
            mixed = outer.columns() or scopes.outer_references(inner) or not inner.columns()
            same = inner.type.with_nullable(True) == outer.type.with_nullable(True)
            if mixed or not same:
                continue
            (column,) = self.rows.compute([normalized(inner, self.dialect)], "c")
            self.pairs.append(Pair(as_joined(outer), column, EQUALITIES[condition.function]))
            return True
        return False

    def in_window(self, node: exp.Expr) -> Expression | None:
        """Find the column for ``window(…)``; None for any other node."""
        if self.window is None or node != self.window:
            return None
        if self.window_column not in self.rows.node.fields:
            raise not_grouped(shown(node), node, self.dialect)
        return self.rows.ref(self.window_column)
