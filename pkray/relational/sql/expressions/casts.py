"""CASE and CAST in expressions."""

from sqlglot import exp

from pkray.errors import QueryError, UnsupportedError
from pkray.relational.functions.casts.casting import cast
from pkray.relational.functions.coercion import untyped_null
from pkray.relational.functions.conditional import case_of
from pkray.relational.functions.evaluation.compiled import constant_value
from pkray.relational.plan.expressions import Expression, Literal
from pkray.relational.sql.expressions import interval_values
from pkray.relational.sql.expressions.base import BaseBinder, Handler, excerpt
from pkray.relational.sql.expressions.intervals import Interval, fields_of
from pkray.relational.sql.expressions.operators import binary
from pkray.relational.sql.expressions.types import type_of

ASSIGNMENT = "assignment"
"""Key of a cast's `meta`: nobody wrote it, a column is given the value."""

_EXAMPLES = {
    "DATE": "DATE '2024-02-29'",
    "TIME": "TIME '12:30:00'",
    "TIMESTAMP": "TIMESTAMP '2024-02-29 12:30:00'",
    "TIMESTAMP_LTZ": "TIMESTAMP '2024-02-29 12:30:00'",
}


def _case(binder: BaseBinder, node: exp.Expr) -> Expression:
    operand = node.args.get("this")
    conditions, values = [], []
    for branch in node.args["ifs"]:
        conditions.append(
            binder.truth(branch.this)
            if operand is None
            else binary(binder, "equal", operand, branch.this)
        )
        values.append(binder.bind(branch.args["true"]))
    default = node.args.get("default")
    values.append(untyped_null() if default is None else binder.bind(default))
    return case_of(conditions, values, binder.dialect)


def _if(binder: BaseBinder, node: exp.Expr) -> Expression:
    default = node.args.get("false")
    otherwise = untyped_null() if default is None else binder.bind(default)
    values = [binder.bind(node.args["true"]), otherwise]
    return case_of([binder.truth(node.this)], values, binder.dialect)


def _cast(binder: BaseBinder, node: exp.Expr) -> Expression:
    to = node.args["to"]
    is_try = isinstance(node, exp.TryCast) and bool(node.args.get("safe"))
    if isinstance(to, exp.DataType) and isinstance(to.this, exp.Interval):
        unit = exp.Interval(this=exp.Literal.string("1"), unit=to.this.args["unit"])
        return interval_values.cast_from(binder.operand(node.this), fields_of(unit), is_try=is_try)
    if isinstance(to, exp.Interval) or not isinstance(to, exp.DataType):
        raise UnsupportedError(f"a cast to {excerpt(to)} is not supported")
    target = type_of(to, binder.dialect)
    span = binder.operand(node.this)
    if isinstance(span, Interval) and node.meta.get(ASSIGNMENT):
        raise QueryError(
            f"{excerpt(node.this)} is an INTERVAL: a column of {target} does not take it; write "
            f"CAST({excerpt(node.this)} AS {target})"
        )
    value = interval_values.cast_to(span, target) if isinstance(span, Interval) else span
    made = cast(value, target, binder.dialect, is_try=is_try)
    if node.meta.get("constant") and isinstance(value, Literal):
        _check_constant(made, value.value)
    return made


def _check_constant(made: Expression, text: str) -> None:
    """Refuse ``DATE '2020-13-01'`` before there are rows."""
    if constant_value(made) is None:
        said = str(made.type.with_nullable(True))
        raise QueryError(f"{text!r} is no {said}: write {_EXAMPLES.get(made.type.root, '')}")


CASTS: dict[type[exp.Expr], Handler] = {
    exp.Case: _case,
    exp.If: _if,
    exp.Cast: _cast,
    exp.TryCast: _cast,
}
