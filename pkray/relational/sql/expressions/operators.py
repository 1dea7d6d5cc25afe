"""Operators, comparisons and conditions in expressions."""

from collections.abc import Callable

from sqlglot import exp

from pkray.errors import QueryError, UnsupportedError
from pkray.relational.dialect import Dialect
from pkray.relational.functions.coercion import BOOLEAN, NUMBERS, any_nullable, is_untyped_null
from pkray.relational.functions.signatures import text_literal
from pkray.relational.plan import expressions as ir
from pkray.relational.sql.chains import OPERATORS as OPERATORS_OF_CHAINS
from pkray.relational.sql.chains import OperatorChain
from pkray.relational.sql.dialects import UnsignedShift
from pkray.relational.sql.expressions import interval_values
from pkray.relational.sql.expressions.atoms import number_literal
from pkray.relational.sql.expressions.base import MAX_DEPTH, BaseBinder, Handler, excerpt
from pkray.relational.sql.expressions.intervals import Interval
from pkray.schema.types import DataType

BINARY: dict[type[exp.Expr], str] = {
    exp.Add: "add",
    exp.Sub: "subtract",
    exp.Mul: "multiply",
    exp.Div: "divide",
    exp.IntDiv: "div",
    exp.Mod: "mod",
    exp.EQ: "equal",
    exp.NEQ: "not_equal",
    exp.LT: "less",
    exp.LTE: "less_equal",
    exp.GT: "greater",
    exp.GTE: "greater_equal",
    exp.NullSafeEQ: "not_distinct",
    exp.BitwiseAnd: "bitwise_and",
    exp.BitwiseOr: "bitwise_or",
    exp.BitwiseXor: "bitwise_xor",
    exp.BitwiseLeftShift: "shiftleft",
    exp.RegexpLike: "rlike",
    exp.Pow: "power",
}


def _shift_right(binder: BaseBinder, node: exp.Expr) -> ir.Expression:
    by = node.expression
    if isinstance(by, UnsignedShift):
        return binary(binder, "shiftrightunsigned", node.this, by.this)
    return binary(binder, "shiftright", node.this, by)


def _similar(binder: BaseBinder, node: exp.Expr, escape: exp.Expr | None = None) -> ir.Expression:
    further = () if escape is None else (binder.bind(escape),)
    parts = (binder.bind(node.this), binder.bind(node.expression), *further)
    return binder.resolve("similar_to", parts)


def _negative(binder: BaseBinder, node: exp.Expr) -> ir.Expression:
    inner = node.this
    if isinstance(inner, exp.Literal) and not inner.args["is_string"]:
        return number_literal("-" + inner.this)
    if (
        isinstance(inner, exp.Cast)
        and inner.to.this in exp.DataType.NUMERIC_TYPES
        and (isinstance(inner.this, exp.Literal))
    ):
        constant = inner.copy()
        if not constant.this.this.startswith("-"):
            constant.this.set("this", "-" + constant.this.this)
            return binder.operand(constant)
    value = binder.operand(inner)
    if isinstance(value, Interval):
        return value.negated(binder.dialect)
    return binder.resolve("negative", (value,))


def binary(binder: BaseBinder, name: str, left: exp.Expr, right: exp.Expr) -> ir.Expression:
    """Bind an operator by its function's name; rows and INTERVALs are operands, too."""
    if isinstance(left, exp.Tuple) and isinstance(right, exp.Tuple):
        return _tuples(binder, name, left, right)
    if isinstance(right, exp.Any | exp.All):
        return _quantified(binder, lambda each: binary(binder, name, left, each), right)
    return _combined(binder, name, binder.operand(left), binder.operand(right))


def _combined(
    binder: BaseBinder, name: str, one: ir.Expression, other: ir.Expression
) -> ir.Expression:
    if isinstance(one, Interval) or isinstance(other, Interval):
        return _with_interval(binder, name, one, other)
    if name == "subtract" and binder.dialect is Dialect.SPARK:
        between = interval_values.between(one, other)
        if between is not None:
            return between
    return binder.resolve(name, (one, other))


def _chain(binder: BaseBinder, node: exp.Expr) -> ir.Expression:
    """Bind a chain from left to right; what is no step of numbers is a level of its own."""
    value, links, levels = binder.operand(node.this), list[ir.Link](), 0
    for step in node.expressions:
        name, operand = BINARY[OPERATORS_OF_CHAINS[step.name]], binder.operand(step.expression)
        link = _link(binder, name, links[-1].type if links else value.type, operand)
        if link is not None and not isinstance(value, ir.Literal):
            links.append(link)
            continue
        value, links = _combined(binder, name, _linked(value, links), operand), []
        levels += 1
        if levels > MAX_DEPTH:
            raise QueryError(
                f"more than {MAX_DEPTH} operators of what are no numbers stand in a row: compute "
                "parts of it in WITH clauses"
            )
    return _linked(value, links)


def _linked(first: ir.Expression, links: list[ir.Link]) -> ir.Expression:
    return ir.Chain(links[-1].type, first, tuple(links)) if links else first


def _link(binder: BaseBinder, name: str, kind: DataType, operand: ir.Expression) -> ir.Link | None:
    """Find the step that applies an operator to a value of a type."""
    if (
        kind.root not in NUMBERS
        or isinstance(operand, Interval)
        or operand.type.root not in NUMBERS
    ):
        return None
    so_far = ir.ColumnRef(kind, "")
    call = binder.resolve(name, (so_far, operand))
    if not isinstance(call, ir.Call) or len(call.arguments) != 2:
        return None
    left, right = call.arguments
    plain = left == so_far or left == ir.Cast(left.type, so_far)
    return ir.Link(call.function, call.type, left.type, right) if plain else None


def _with_interval(
    binder: BaseBinder, name: str, left: ir.Expression, right: ir.Expression
) -> ir.Expression:
    if isinstance(left, Interval) and isinstance(right, Interval):
        if name in ("add", "subtract"):
            right = right.negated(binder.dialect) if name == "subtract" else right
            return left.plus(right, binder.dialect)
        return interval_values.compared(name, left, right, binder.dialect)
    if isinstance(right, Interval):
        if name in ("add", "subtract"):
            span = right.negated(binder.dialect) if name == "subtract" else right
            return span.added_to(left, binder.dialect)
        if name == "multiply":
            return right.times(left, binder.dialect)
    elif isinstance(left, Interval):
        if name == "add":
            return left.added_to(right, binder.dialect)
        if name == "multiply":
            return left.times(right, binder.dialect)
        if name == "divide":
            return left.divided(right, binder.dialect)
    if isinstance(left, Interval) and is_untyped_null(right):
        return interval_values.compared(name, left, interval_values.null(left), binder.dialect)
    if isinstance(right, Interval) and is_untyped_null(left):
        return interval_values.compared(name, interval_values.null(right), right, binder.dialect)
    raise UnsupportedError(f"{name} of an INTERVAL is not supported")


def _tuples(binder: BaseBinder, name: str, left: exp.Tuple, right: exp.Tuple) -> ir.Expression:
    if len(left.expressions) != len(right.expressions):
        raise QueryError(
            f"a row of {len(left.expressions)} values is compared with one of "
            f"{len(right.expressions)}"
        )
    if name not in ("equal", "not_equal", "not_distinct"):
        raise UnsupportedError("rows can be compared by = and <> only")
    pairs = zip(left.expressions, right.expressions, strict=True)
    parts = tuple(binary(binder, name, one, other) for one, other in pairs)
    return _logical("or" if name == "not_equal" else "and", parts)


def _quantified(
    binder: BaseBinder, compare: Callable[[exp.Expr], ir.Expression], right: exp.Expr
) -> ir.Expression:
    values = right.this.unnest()
    if isinstance(values, exp.Query | exp.Subquery):
        raise QueryError(f"{excerpt(right)} cannot stand here")
    each = values.expressions if isinstance(values, exp.Tuple) else [values]
    word = "or" if isinstance(right, exp.Any) else "and"
    return _logical(word, tuple(compare(value) for value in each))


def _is(binder: BaseBinder, node: exp.Expr) -> ir.Expression:
    value, wanted = node.this, node.expression
    if isinstance(wanted, exp.Null):
        found = binder.operand(value)
        if isinstance(found, Interval):
            return interval_values.is_null(found)
        return binder.resolve("is_null", (binder.bind(value),))
    if isinstance(wanted, exp.Boolean):
        truth = ir.Literal(BOOLEAN.with_nullable(False), bool(wanted.this))
        return binder.resolve("not_distinct", (binder.truth(value), truth))
    if isinstance(wanted, exp.JSON):
        kind = wanted.args.get("this") or "VALUE"
        if kind in _JSON_KINDS and not (wanted.args.get("with_") or wanted.args.get("unique")):
            return _is_json(binder, binder.bind(value), kind)
    raise UnsupportedError(f"{excerpt(node)} is not supported")


_JSON_KINDS = {"VALUE": "", "OBJECT": r"^\s*\{", "ARRAY": r"^\s*\[", "SCALAR": r"^\s*[^\s{\[]"}
"""Match how text of each kind begins."""


def _is_json(binder: BaseBinder, value: ir.Expression, kind: str) -> ir.Expression:
    """Tell whether text is JSON of a kind; NULL is none in flink."""
    found = binder.resolve("is_json", (value,))
    if _JSON_KINDS[kind]:
        found = _logical(
            "and", (found, binder.resolve("rlike", (value, text_literal(_JSON_KINDS[kind]))))
        )
    if binder.dialect is Dialect.FLINK:
        no = ir.Literal(BOOLEAN.with_nullable(False), False)
        return binder.resolve("coalesce", (found, no))
    return found


def _between(binder: BaseBinder, node: exp.Expr) -> ir.Expression:
    low, high = node.args["low"], node.args["high"]
    if node.args.get("symmetric"):
        ranges = ((low, high), (high, low))
        return _logical("or", tuple(_range(binder, node.this, *each) for each in ranges))
    return _range(binder, node.this, low, high)


def _range(binder: BaseBinder, value: exp.Expr, low: exp.Expr, high: exp.Expr) -> ir.Expression:
    least = binary(binder, "greater_equal", value, low)
    return _logical("and", (least, binary(binder, "less_equal", value, high)))


def _in(binder: BaseBinder, node: exp.Expr) -> ir.Expression:
    if node.args.get("query") or node.args.get("unnest"):
        raise QueryError(f"{excerpt(node)} cannot stand here")
    first = None if isinstance(node.this, exp.Tuple) else binder.operand(node.this)
    if first is None or isinstance(first, Interval):
        parts = tuple(binary(binder, "equal", node.this, each) for each in node.expressions)
        return _logical("or", parts)
    return binder.resolve("in", (first, *(binder.bind(each) for each in node.expressions)))


def _like(binder: BaseBinder, node: exp.Expr, escape: exp.Expr | None = None) -> ir.Expression:
    name = "ilike" if isinstance(node, exp.ILike) else "like"
    further = () if escape is None else (binder.bind(escape),)

    def compare(pattern: exp.Expr) -> ir.Expression:
        found = binder.resolve(name, (binder.bind(node.this), binder.bind(pattern), *further))
        return negation(found) if node.args.get("negate") else found

    pattern = node.expression
    quantified = isinstance(pattern, exp.Any | exp.All)
    return _quantified(binder, compare, pattern) if quantified else compare(pattern)


def _escape(binder: BaseBinder, node: exp.Expr) -> ir.Expression:
    if isinstance(node.this, exp.SimilarTo):
        return _similar(binder, node.this, node.expression)
    if not isinstance(node.this, exp.Like | exp.ILike):
        raise QueryError("ESCAPE stands after LIKE only")
    return _like(binder, node.this, node.expression)


def negation(condition: ir.Expression) -> ir.Expression:
    """Negate a condition; NOT (x IS NULL) is IS NOT NULL."""
    if isinstance(condition, ir.Call) and condition.function == "is_null":
        return ir.Call(condition.type, "is_not_null", condition.arguments)
    return ir.Call(condition.type, "not", (condition,))


def _logical(name: str, parts: tuple[ir.Expression, ...]) -> ir.Expression:
    if len(parts) == 1:
        return parts[0]
    flat = tuple(
        inner
        for part in parts
        for inner in (
            part.arguments if isinstance(part, ir.Call) and part.function == name else (part,)
        )
    )
    return ir.Call(DataType("BOOLEAN", any_nullable(flat)), name, flat)


def chained(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """List the operands of a chain of one operator, without recursion."""
    waiting, found = [node], []
    while waiting:
        each = waiting.pop().unnest()
        if type(each) is kind:
            waiting += [each.expression, each.this]
        else:
            found.append(each)
    return found


def _each(bind: Callable[[exp.Expr], ir.Expression], node: exp.Expr) -> tuple[ir.Expression, ...]:
    return tuple(map(bind, chained(node, type(node))))


OPERATORS: dict[type[exp.Expr], Handler] = {
    OperatorChain: _chain,
    exp.Paren: lambda binder, node: binder.operand(node.this),
    exp.Neg: _negative,
    exp.And: lambda binder, node: _logical("and", _each(binder.truth, node)),
    exp.Or: lambda binder, node: _logical("or", _each(binder.truth, node)),
    exp.Not: lambda binder, node: negation(binder.truth(node.this)),
    exp.Is: _is,
    exp.NullSafeNEQ: lambda binder, node: negation(
        binary(binder, "not_distinct", node.this, node.expression)
    ),
    exp.Between: _between,
    exp.In: _in,
    exp.Like: _like,
    exp.ILike: _like,
    exp.Escape: _escape,
    exp.SimilarTo: _similar,
    exp.BitwiseRightShift: _shift_right,
    exp.DPipe: lambda binder, node: binder.resolve("concat", _each(binder.bind, node)),
    exp.BitwiseNot: lambda binder, node: binder.resolve("bitwise_not", (binder.bind(node.this),)),
}
