"""Joins: the equalities of a condition become keys."""

from collections.abc import Mapping

from pkray.relational.dialect import Dialect
from pkray.relational.functions.coercion import with_one_zero
from pkray.relational.plan import expressions as ir
from pkray.relational.plan.fields import distinct_names
from pkray.relational.plan.nodes import Join, JoinKind, Node
from pkray.relational.sql.binder.scope import Rows

EQUALITIES = {"equal": False, "not_distinct": True}


def normalized(key: ir.Expression, dialect: Dialect) -> ir.Expression:
    """Make 0.0 and -0.0 one key in the spark dialect."""
    return with_one_zero(key) if dialect is Dialect.SPARK else key


class JoinBuilder:
    """Joins rows with those of another node.

    Conditions are over the left columns and the right ones under `names`; `taken` tells those by
    the right node's own.
    """

    def __init__(self, left: Rows, right: Node, dialect: Dialect) -> None:
        self.left = left
        self.right = Rows(right, left.numbers)
        self.dialect = dialect
        self.names: tuple[str, ...] = distinct_names(
            right.fields.names, taken=left.node.fields.names
        )
        self.taken: dict[str, str] = dict(zip(right.fields.names, self.names, strict=True))
        self.left_keys: list[str] = []
        self.right_keys: list[str] = []
        self.null_safe: list[bool] = []
        self.conditions: list[ir.Expression] = []

    def renamed(self, expression: ir.Expression) -> ir.Expression:
        """Make an expression over the right node's own columns one over the joined ones."""
        return renamed(expression, self.taken)

    def on(self, condition: ir.Expression) -> None:
        """Add a condition: equalities of both sides as keys, the rest as it is."""
        for each in ir.conjuncts(condition):
            if not self._as_key(each):
                self.conditions.append(each)

    def equate(self, left: ir.Expression, right: ir.Expression, *, null_safe: bool = False) -> None:
        """Add a key; `right` is over the right node's own columns, and of the left's type."""
        self.left_keys += self.left.compute([normalized(left, self.dialect)], "j")
        self.right_keys += self.right.compute([normalized(right, self.dialect)], "j")
        self.null_safe.append(null_safe)

    def _as_key(self, condition: ir.Expression) -> bool:
        if not isinstance(condition, ir.Call) or condition.function not in EQUALITIES:
            return False
        left, right = condition.arguments
        if self._is_right(left) and self._is_left(right):
            left, right = right, left
        if not (self._is_left(left) and self._is_right(right)):
            return False
        if left.type.with_nullable(True) != right.type.with_nullable(True):
            return False
        original = {name: own for own, name in self.taken.items()}
        self.equate(left, renamed(right, original), null_safe=EQUALITIES[condition.function])
        return True

    def _is_left(self, expression: ir.Expression) -> bool:
        columns = expression.columns()
        return bool(columns) and columns <= set(self.left.node.fields.names)

    def _is_right(self, expression: ir.Expression) -> bool:
        columns = expression.columns()
        return bool(columns) and columns.isdisjoint(self.left.node.fields.names)

    def join(
        self, kind: JoinKind, *, null_aware: bool = False, mark_name: str | None = None
    ) -> Join:
        """Make the join; columns that were added as keys come out as well."""
        added = self.right.node.fields.names[len(self.names) :]
        return Join(
            self.left.node,
            self.right.node,
            kind,
            tuple(self.left_keys),
            tuple(self.right_keys),
            (*self.names, *added),
            ir.all_of(tuple(self.conditions)),
            tuple(self.null_safe),
            null_aware,
            mark_name,
        )


def renamed(expression: ir.Expression, names: Mapping[str, str]) -> ir.Expression:
    """Give columns other names."""

    return ir.replace_columns(
        expression, lambda column: ir.ColumnRef(column.type, names.get(column.name, column.name))
    )
