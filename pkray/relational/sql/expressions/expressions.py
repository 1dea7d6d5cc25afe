"""Scalar expressions of a query: names are found, types are given, casts are put in."""

from sqlglot import exp

from pkray.errors import QueryError, UnsupportedError
from pkray.relational.plan.expressions import Expression
from pkray.relational.sql.expressions.atoms import ATOMS
from pkray.relational.sql.expressions.base import BaseBinder, excerpt
from pkray.relational.sql.expressions.calls import CALLS, call, operands_of
from pkray.relational.sql.expressions.casts import CASTS
from pkray.relational.sql.expressions.operators import BINARY, OPERATORS, binary

_WITHOUT_PARENTHESES: dict[type[exp.Expr], str] = {
    exp.CurrentDate: "current_date",
    exp.CurrentTimestamp: "current_timestamp",
    exp.CurrentTime: "current_time",
    exp.Localtime: "localtime",
    exp.Localtimestamp: "localtimestamp",
}
_OF_QUERIES = (exp.Subquery, exp.Query, exp.Exists, exp.Window, exp.AggFunc)


class ExpressionBinder(BaseBinder):
    """Turns the syntax of scalar expressions into typed expressions."""

    def _plain(self, node: exp.Expr) -> Expression:
        kind = type(node)
        if kind in BINARY:
            return binary(self, BINARY[kind], node.this, node.expression)
        if kind in _WITHOUT_PARENTHESES:
            return self.resolve(_WITHOUT_PARENTHESES[kind], ())
        handler = _HANDLERS.get(kind)
        if handler is not None:
            return handler(self, node)
        if isinstance(node, _OF_QUERIES):
            raise QueryError(f"{excerpt(node)} cannot stand here")
        if isinstance(node, exp.Func):
            return call(self, node.sql_name(), operands_of(node), node)
        raise UnsupportedError(f"{excerpt(node)} is not supported")


_HANDLERS = {**ATOMS, **OPERATORS, **CASTS, **CALLS}
