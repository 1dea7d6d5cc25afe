"""Bind what every kind of expression needs: the hook, names, places of errors."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol, TypeAlias

from sqlglot import exp

from pkray.errors import PkrayError, QueryError, UnsupportedError
from pkray.relational.dialect import Dialect
from pkray.relational.functions import function
from pkray.relational.functions.coercion import BOOLEAN, cast_to, is_untyped_null
from pkray.relational.functions.signatures import text_literal
from pkray.relational.plan.expressions import ColumnRef, Expression, Literal
from pkray.relational.sql.dialects import PkraySpark
from pkray.relational.sql.expressions.intervals import Interval, of_value
from pkray.relational.sql.names import Names
from pkray.relational.sql.places import position
from pkray.schema.types import STRINGS

MAX_DEPTH = 120
"""Most expressions in each other: binding one takes a few of Python's 1,000 frames."""
Hook: TypeAlias = Callable[[exp.Expr], Expression | None]
_BARE = {
    "localtime",
    "localtimestamp",
    "current_date",
    "current_timestamp",
    "current_time",
    "current_user",
    "session_user",
}


class Scope(Protocol):
    """Tells what the names in an expression stand for."""

    def column(self, parts: tuple[str, ...], node: exp.Expr) -> Expression:
        """Find a column, or a field of a ROW column (by `access_field`).

        Args:
            parts: ``("c",)``, ``("t", "c")``, ``("db", "t", "c")``, each perhaps with fields after
                it; without quotes.

        Raises:
            QueryError: no column or more than one is called so.
        """


Handler: TypeAlias = "Callable[[BaseBinder, exp.Expr], Expression]"


class BaseBinder(ABC):
    """Binds expressions; a class below says how a node that the hook passes over is bound.

    Args:
        hook: tried first on every node; what it gives stands for the node. The binder of queries
            handles subqueries, aggregates and windows there.
    """

    def __init__(self, names: Names, scope: Scope, hook: Hook | None = None) -> None:
        self.names = names
        self.dialect = names.dialect
        self._scope = scope
        self._hook = hook
        self._depth = 0
        self.lambdas: list[dict[str, ColumnRef]] = []

    def bind(self, node: exp.Expr) -> Expression:
        """Bind a value.

        Raises:
            QueryError: with line and column; UnsupportedError: for what pkray does not have.
        """
        bound = self.operand(node)
        if not isinstance(bound, Interval):
            return bound
        try:
            return bound.value()
        except UnsupportedError as error:
            raise self.at(error, node) from None

    def condition(self, node: exp.Expr) -> Expression:
        """Bind a BOOLEAN, as WHERE, ON and HAVING want it."""
        return self.truth(node)

    def operand(self, node: exp.Expr) -> Expression:
        """Bind a value or an INTERVAL."""
        if self._depth >= MAX_DEPTH:
            raise QueryError(f"expressions stand in each other over more than {MAX_DEPTH} levels")
        self._depth += 1
        try:
            found = self._hook(node) if self._hook else None
            made = self._plain(node) if found is None else found
            return of_value(made) if made.type.span else made
        except (QueryError, UnsupportedError) as error:
            raise self.at(error, node) from None
        finally:
            self._depth -= 1

    def at(self, error: PkrayError, node: exp.Expr) -> PkrayError:
        """Add the place of a node to an error that has none."""
        if "line" in error.values:
            return error
        return type(error)(error.message, **{**error.values, **position(node)})

    def resolve(self, name: str, arguments: tuple[Expression, ...]) -> Expression:
        """Call a function of the query's dialect."""
        return function.resolve(name, arguments, self.dialect)

    def named(self, parts: tuple[str, ...], node: exp.Expr) -> Expression:
        """Find a parameter of a lambda, a word without parentheses, or a column."""
        for frame in reversed(self.lambdas):
            found = frame.get(parts[0].lower())
            if found is not None:
                value: Expression = found
                for field in parts[1:]:
                    value = access_field(value, field, self.dialect)
                return value
        if len(parts) == 1 and parts[0].lower() in _BARE and not is_quoted(node):
            return self.resolve(parts[0].lower(), ())
        return self._scope.column(parts, node)

    def truth(self, node: exp.Expr) -> Expression:
        """Bind a condition; what is not BOOLEAN is refused."""
        value = self.bind(node)
        if is_untyped_null(value):
            return Literal(BOOLEAN, None)
        if value.type.root in STRINGS and isinstance(value, Literal):
            return cast_to(value, BOOLEAN)
        if value.type.root != "BOOLEAN":
            raise self.at(
                QueryError(f"{excerpt(node)} is {value.type}; a condition must be BOOLEAN"), node
            )
        return value

    @abstractmethod
    def _plain(self, node: exp.Expr) -> Expression:
        """Bind a node that the hook does not know."""


def access_field(value: Expression, name: str, dialect: Dialect) -> Expression:
    """Take a field of a ROW, or the value beside a key of a MAP.

    Raises:
        QueryError: there is no such field (the fields are said), or it has none.
    """
    return function.resolve("element_of", (value, text_literal(name)), dialect)


def is_quoted(node: exp.Expr) -> bool:
    """Whether a name is written in quotes."""
    name = node.this if isinstance(node, exp.Column) else node
    return bool(name.args.get("quoted"))


def excerpt(node: exp.Expr) -> str:
    """Write a piece of a query in a message."""
    text = str(node.sql(PkraySpark))
    return text if len(text) <= 60 else text[:57] + "…"
