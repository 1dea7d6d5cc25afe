"""Calls of functions in expressions, and what is written otherwise and is a call."""

import re
from collections.abc import Sequence

from sqlglot import exp

from pkray.errors import QueryError, UnsupportedError
from pkray.relational.dialect import Dialect
from pkray.relational.functions import spans
from pkray.relational.functions.aggregates.catalogue import is_aggregate, is_window
from pkray.relational.functions.coercion import BIGINT, INT, cast_to
from pkray.relational.functions.signatures import text_literal
from pkray.relational.plan.expressions import Call, ColumnRef, Expression, Lambda, Literal
from pkray.relational.sql.dialects import JsonCall
from pkray.relational.sql.expressions import interval_values
from pkray.relational.sql.expressions.base import BaseBinder, Handler, excerpt
from pkray.relational.sql.expressions.intervals import Interval
from pkray.relational.sql.expressions.json_calls import json_call
from pkray.relational.sql.names import database_of, zone_of
from pkray.schema.types import DataType

_UNIT_FIRST = {"timestampadd", "timestampdiff", "dateadd", "datediff", "date_add", "date_diff"}
_UNITS = re.compile(
    r"(micro|milli)?seconds?|minutes?|hours?|days?|dayofyear|weeks?|months?|quarters?|years?", re.I
)


def _adjacent(binder: BaseBinder, node: exp.Expr) -> Expression:
    if all(isinstance(part, exp.Literal) for part in node.expressions):
        return text_literal("".join(part.this for part in node.expressions))
    return call(binder, "concat", node.expressions, node)


def _bracket(binder: BaseBinder, node: exp.Expr) -> Expression:
    if isinstance(node.this, exp.Column) and not node.this.table:
        word = node.this.name.lower()
        if word == "multiset":
            raise UnsupportedError("there is no type MULTISET: write ARRAY[…]")
        if word == "map" and len(node.expressions) > 1:
            return call(binder, "map", node.expressions, node)
    if len(node.expressions) != 1:
        raise QueryError(f"{excerpt(node)}: give one index or key")
    return binder.resolve("element_of", (binder.bind(node.this), binder.bind(node.expressions[0])))


def call(
    binder: BaseBinder, name: str, arguments: Sequence[exp.Expr], node: exp.Expr
) -> Expression:
    """Bind a call as it is written; users' functions go first."""
    of_interval = interval_values.called(binder, name, arguments)
    if of_interval is not None:
        return of_interval
    bound: list[Expression] = []
    for position, argument in enumerate(arguments):
        if isinstance(argument, exp.Lambda):
            bound.append(_lambda(binder, name, bound, argument))
        elif position == 0 and _is_unit(name, argument, len(arguments)):
            bound.append(text_literal(argument.name.lower()))
        elif name.lower() == "sequence" and position == 2:
            bound.extend(_step(binder, name, argument))
        else:
            bound.extend(_argument(binder, name, argument))
    udf = binder.names.udf(name)
    if udf is not None:
        spans.check_taken(f"the function {name}", bound)
        called: Expression = udf.call(tuple(bound))
        return called
    if is_aggregate(name, binder.dialect) or is_window(name):
        raise QueryError(
            f"{name} is computed from several rows: it cannot stand here", function=name
        )
    if binder.dialect is Dialect.SPARK and name.lower() in ("ltrim", "rtrim", "trim"):
        bound.reverse()  # characters come first there
    of_session = _OF_SESSION.get(name.lower())
    if of_session is not None and not bound:
        return text_literal(of_session(binder.names))
    return binder.resolve(name, tuple(bound))


_OF_SESSION = {
    "current_timezone": zone_of,
    "current_database": database_of,
    "current_schema": database_of,
}


def _step(binder: BaseBinder, name: str, node: exp.Expr) -> tuple[Expression, ...]:
    """Bind the step of sequence; an INTERVAL as its months and its microseconds."""
    value = binder.operand(node)
    if isinstance(value, Interval):
        return cast_to(value.months, INT), cast_to(value.micros, BIGINT)
    return (value,)


def _argument(binder: BaseBinder, name: str, node: exp.Expr) -> tuple[Expression, ...]:
    if isinstance(node, exp.Alias) and name.lower() in ("struct", "row"):
        return (_named_argument(node.alias, binder.bind(node.this)),)
    if isinstance(node, exp.Kwarg | exp.PropertyEQ):
        raise UnsupportedError(f"{name} takes its arguments by position, not by name")
    if isinstance(node, exp.Star):
        raise QueryError(f"{name} takes no *")
    if isinstance(node, exp.Distinct | exp.IgnoreNulls | exp.RespectNulls | exp.Order):
        raise QueryError(f"{name} is no aggregate: {excerpt(node)} cannot stand in it")
    value = binder.bind(node)
    if name.lower() == "struct" and isinstance(node, exp.Column):
        return (_named_argument(node.name, value),)
    return (value,)


def _lambda(
    binder: BaseBinder, name: str, before: Sequence[Expression], node: exp.Expr
) -> Expression:
    parameters = tuple(each.name for each in node.expressions)
    types = parameter_types(name, before, len(parameters))
    frame = {
        parameter.lower(): ColumnRef(wanted, parameter)
        for parameter, wanted in zip(parameters, types, strict=True)
    }
    binder.lambdas.append(frame)
    try:
        body = binder.bind(node.this)
    finally:
        binder.lambdas.pop()
    return Lambda(body.type, parameters, body)


def _extract(binder: BaseBinder, node: exp.Expr) -> Expression:
    value = binder.operand(node.expression)
    if isinstance(value, Interval):
        return interval_values.extracted(node.name, value)
    return binder.resolve("extract", (text_literal(node.name.lower()), value))


def _trim(binder: BaseBinder, node: exp.Expr) -> Expression:
    side = str(node.args.get("position") or "BOTH").upper()
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(side, "trim")
    characters = node.args.get("expression")
    further = () if characters is None else (binder.bind(characters),)
    return binder.resolve(name, (binder.bind(node.this), *further))


def _of_parts(name: str, *keys: str) -> Handler:
    """Call a function with the parts of a node that are there."""

    def bound(binder: BaseBinder, node: exp.Expr) -> Expression:
        parts = [node.args.get(key) for key in keys]
        return binder.resolve(name, tuple(binder.bind(p) for p in parts if p is not None))

    return bound


def _round_to(binder: BaseBinder, node: exp.Expr) -> Expression:
    name = "ceil" if isinstance(node, exp.Ceil) else "floor"
    unit = node.args.get("to")
    if unit is not None:
        cut = "date_trunc" if name == "floor" else "date_ceil"
        time = binder.bind(node.this)
        if unit.name.upper() != "WEEK" or binder.dialect is not Dialect.FLINK:
            return binder.resolve(cut, (text_literal(unit.name), time))
        moved = binder.resolve(cut, (text_literal("WEEK"), _in_days(binder, time, 1)))
        return _in_days(binder, moved, -1)  # weeks begin on Sundays
    digits = node.args.get("decimals")
    parts = [node.this] if digits is None else [node.this, digits]
    return call(binder, name, parts, node)


def _in_days(binder: BaseBinder, time: Expression, days: int) -> Expression:
    number = Literal(DataType("INT", False), days)
    return binder.resolve("timestampadd", (text_literal("DAY"), number, time))


def _json_object(binder: BaseBinder, node: exp.Expr) -> Expression:
    """Bind ``JSON_OBJECT(KEY name VALUE value, … ABSENT ON NULL)``."""
    on_null = str(node.args.get("null_handling") or "NULL ON NULL").upper()
    pairs = [
        binder.bind(part) for each in node.expressions for part in (each.this, each.expression)
    ]
    return binder.resolve("json_object", (text_literal(on_null), *pairs))


def _named_argument(name: str, value: Expression) -> Expression:
    return Call(value.type, "named", (text_literal(name), value))


def _is_unit(name: str, node: exp.Expr, count: int) -> bool:
    word = isinstance(node, exp.Column | exp.Var) and not node.args.get("table")
    return (
        word
        and count == 3
        and name.lower() in _UNIT_FIRST
        and _UNITS.fullmatch(node.name) is not None
    )


def operands_of(node: exp.Expr) -> list[exp.Expr]:
    """List the operands of a node."""
    values = (each if isinstance(each, list) else [each] for each in node.args.values())
    return [part for each in values for part in each if isinstance(part, exp.Expr)]


def _name(node: exp.Expr) -> str:
    return node.this if isinstance(node.this, str) else str(node.this.name)


_ROW = {Dialect.SPARK: "struct", Dialect.FLINK: "row"}
CALLS: dict[type[exp.Expr], Handler] = {
    exp.Concat: _adjacent,
    exp.Bracket: _bracket,
    exp.Extract: _extract,
    exp.Trim: _trim,
    exp.Substring: _of_parts("substring", "this", "start", "length"),
    exp.StrPosition: _of_parts("locate", "substr", "this", "position"),
    exp.Overlay: _of_parts("overlay", "this", "expression", "from_", "for_"),
    exp.Ceil: _round_to,
    exp.Floor: _round_to,
    exp.DecodeCase: lambda binder, node: call(binder, "decode", node.expressions, node),
    exp.Array: lambda binder, node: call(binder, "array", node.expressions, node),
    exp.Tuple: lambda binder, node: call(binder, _ROW[binder.dialect], node.expressions, node),
    exp.Anonymous: lambda binder, node: call(binder, _name(node), node.expressions, node),
    exp.JSONObject: _json_object,
    JsonCall: json_call,
}


_OF_ELEMENTS = ("transform", "filter", "exists", "forall", "any_match", "all_match")
_OF_ENTRIES = ("map_filter", "transform_keys", "transform_values")
_FOLDS = ("aggregate", "reduce")


def parameter_types(
    function: str, before: Sequence[Expression], count: int
) -> tuple[DataType, ...]:
    """Find the types of a lambda's parameters.

    Args:
        function: as written.
        before: the arguments before the lambda.
        count: how many parameters it has.

    Raises:
        QueryError: the function takes no lambda there, or one of other parameters.
    """
    name = function.lower()
    known = _known(name, before)
    if known is None:
        raise QueryError(f"{name} takes no lambda here", function=name)
    if not 0 < count <= len(known):
        raise QueryError(
            f"the lambda of {name} has {count} parameters; it takes {len(known)}", function=name
        )
    return known[:count]


def _known(name: str, before: Sequence[Expression]) -> tuple[DataType, ...] | None:
    types = [argument.type for argument in before]
    element = types[0].element if types else None
    if name in _OF_ELEMENTS and element:
        return (element, INT.with_nullable(False))
    if name in _FOLDS and element and len(types) >= 2:
        start = types[1].with_nullable(True)
        return (start, element) if len(types) == 2 else (start,)
    if name in _OF_ENTRIES and types and types[0].key and types[0].value:
        return (types[0].key, types[0].value)
    if name == "array_sort" and element:
        return (element, element)
    if name == "zip_with" and len(types) == 2 and element and types[1].element:
        return (element.with_nullable(True), types[1].element.with_nullable(True))
    if name == "map_zip_with" and len(types) == 2 and types[0].key and types[1].value:
        assert types[0].value is not None
        values = (types[0].value.with_nullable(True), types[1].value.with_nullable(True))
        return (types[0].key, *values)
    return None
