"""Scalar expressions of a query: names are found, types are given, casts are put in."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Protocol, TypeAlias

from sqlglot import exp

from pkray.errors import PkrayError, QueryError, SchemaError, UnsupportedError
from pkray.relational.compiled import constant_value
from pkray.relational.dialect import Dialect
from pkray.relational.functions import function
from pkray.relational.functions.aggregates.aggregate import is_aggregate, is_window
from pkray.relational.functions.casts.casting import cast
from pkray.relational.functions.coercion import (
    BIGINT,
    BOOLEAN,
    INT,
    any_nullable,
    cast_to,
    is_untyped_null,
    untyped_null,
)
from pkray.relational.functions.conditional import case_of
from pkray.relational.plan.expressions import Call, ColumnRef, Expression, Lambda, Literal
from pkray.relational.sql.dialects import PkraySpark, UnsignedShift
from pkray.relational.sql.expressions.intervals import Interval, interval, read_interval
from pkray.relational.sql.expressions.lambdas import parameter_types
from pkray.relational.sql.expressions.types import type_of
from pkray.relational.sql.names import Names
from pkray.schema.types import STRINGS, DataType

MAX_DEPTH = 120
"""Most expressions in each other: binding one takes a few of Python's 1,000 frames."""
Hook: TypeAlias = "Callable[[exp.Expr], Expression | None]"

_BINARY: dict[type[exp.Expr], str] = {
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
_WITHOUT_PARENTHESES: dict[type[exp.Expr], str] = {
    exp.CurrentDate: "current_date",
    exp.CurrentTimestamp: "current_timestamp",
    exp.CurrentTime: "current_time",
    exp.Localtime: "localtime",
    exp.Localtimestamp: "localtimestamp",
}
_OF_QUERIES = (exp.Subquery, exp.Query, exp.Exists, exp.Window, exp.AggFunc)
_BARE = {"localtime", "localtimestamp", "current_date", "current_timestamp", "current_time"}
_UNIT_FIRST = {"timestampadd", "timestampdiff", "dateadd", "datediff", "date_add", "date_diff"}
_UNITS = re.compile(
    r"(micro|milli)?seconds?|minutes?|hours?|days?|dayofyear|weeks?|months?|quarters?|years?", re.I
)
_EXAMPLES = {
    "DATE": "DATE '2024-02-29'",
    "TIME": "TIME '12:30:00'",
    "TIMESTAMP": "TIMESTAMP '2024-02-29 12:30:00'",
    "TIMESTAMP_LTZ": "TIMESTAMP '2024-02-29 12:30:00'",
}
_SUFFIX_TYPES = {"L": "BIGINT", "S": "SMALLINT", "Y": "TINYINT"}


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


class ExpressionBinder:
    """Turns the syntax of scalar expressions into typed expressions.

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
        self._lambdas: list[dict[str, ColumnRef]] = []

    def bind(self, node: exp.Expr) -> Expression:
        """Bind a value.

        Raises:
            QueryError: with line and column; UnsupportedError: for what pkray does not have.
        """
        bound = self._bind(node)
        if isinstance(bound, Interval):
            raise self._at(
                QueryError("an INTERVAL can only be added to, or taken from, a date or timestamp"),
                node,
            )
        return bound

    def condition(self, node: exp.Expr) -> Expression:
        """Bind a BOOLEAN, as WHERE, ON and HAVING want it."""
        return self._truth(node)

    def _bind(self, node: exp.Expr) -> Expression:
        if self._depth >= MAX_DEPTH:
            raise QueryError(f"expressions stand in each other over more than {MAX_DEPTH} levels")
        self._depth += 1
        try:
            found = self._hook(node) if self._hook else None
            return self._plain(node) if found is None else found
        except (QueryError, UnsupportedError) as error:
            raise self._at(error, node) from None
        finally:
            self._depth -= 1

    def _at(self, error: PkrayError, node: exp.Expr) -> PkrayError:
        """Add the place of a node to an error that has none."""
        if "line" in error.values:
            return error
        place = next((part.meta for part in node.walk() if part.meta.get("line")), None)
        if place is None:
            return error
        values = {**error.values, "line": place["line"], "column": _first_column(place)}
        return type(error)(error.message, **values)

    def _plain(self, node: exp.Expr) -> Expression:
        kind = type(node)
        if kind in _BINARY:
            return self._binary(_BINARY[kind], node.this, node.expression)
        if kind in _WITHOUT_PARENTHESES:
            return self._resolve(_WITHOUT_PARENTHESES[kind], ())
        handler = _HANDLERS.get(kind)
        if handler is not None:
            return handler(self, node)
        if isinstance(node, _OF_QUERIES):
            raise QueryError(f"{_shown(node)} cannot stand here")
        if isinstance(node, exp.Func):
            return self._call(node.sql_name(), _arguments(node), node)
        raise UnsupportedError(f"{_shown(node)} is not supported")

    def _resolve(self, name: str, arguments: tuple[Expression, ...]) -> Expression:
        return function.resolve(name, arguments, self.dialect)

    # Names and constants

    def _column(self, node: exp.Expr) -> Expression:
        if isinstance(node, exp.Dot):
            path: list[exp.Expr] = []
            root: exp.Expr = node
            while isinstance(root, exp.Dot):
                path.append(root.expression)
                root = root.this
            if isinstance(root, exp.Column) and all(
                isinstance(part, exp.Identifier) for part in path
            ):
                return self._named((*_parts(root), *(p.name for p in reversed(path))), node)
            value = self.bind(root)
            for part in reversed(path):
                value = access_field(value, part.name, self.dialect)
            return value
        return self._named(_parts(node), node)

    def _named(self, parts: tuple[str, ...], node: exp.Expr) -> Expression:
        for frame in reversed(self._lambdas):
            found = frame.get(parts[0].lower())
            if found is not None:
                value: Expression = found
                for field in parts[1:]:
                    value = access_field(value, field, self.dialect)
                return value
        if len(parts) == 1 and parts[0].lower() in _BARE and not _is_quoted(node):
            return self._resolve(parts[0].lower(), ())
        return self._scope.column(parts, node)

    def _number(self, node: exp.Expr) -> Expression:
        if node.args["is_string"]:
            return Literal(DataType("STRING", nullable=False), node.this)
        return number_literal(node.this)

    def _text(self, node: exp.Expr) -> Expression:
        return Literal(DataType("STRING", nullable=False), node.this)

    def _bytes(self, node: exp.Expr) -> Expression:
        digits = node.this if len(node.this) % 2 == 0 else "0" + node.this
        try:
            value = bytes.fromhex(digits)
        except ValueError:
            raise QueryError(f"X'{node.this}' is not written in hexadecimal digits") from None
        return Literal(DataType("BYTES", nullable=False), value)

    def _adjacent(self, node: exp.Expr) -> Expression:
        if all(isinstance(part, exp.Literal) for part in node.expressions):
            text = "".join(part.this for part in node.expressions)
            return Literal(DataType("STRING", nullable=False), text)
        return self._call("concat", node.expressions, node)

    def _boolean(self, node: exp.Expr) -> Expression:
        return Literal(DataType("BOOLEAN", nullable=False), bool(node.this))

    def _null(self, node: exp.Expr) -> Expression:
        return untyped_null()

    def _interval(self, node: exp.Expr) -> Expression:
        assert isinstance(node, exp.Interval)
        value = node.this
        while isinstance(value, exp.Paren):
            value = value.this
        constant = value.this if isinstance(value, exp.Neg) else value
        if isinstance(constant, exp.Literal):
            return interval(*read_interval(node))
        unit = exp.Interval(this=exp.Literal.string("1"), unit=node.args.get("unit"))
        return interval(*read_interval(unit)).times(self.bind(value), self.dialect)

    # Operators

    def _shift_right(self, node: exp.Expr) -> Expression:
        by = node.expression
        if isinstance(by, UnsignedShift):
            return self._binary("shiftrightunsigned", node.this, by.this)
        return self._binary("shiftright", node.this, by)

    def _similar(self, node: exp.Expr, escape: exp.Expr | None = None) -> Expression:
        further = () if escape is None else (self.bind(escape),)
        parts = (self.bind(node.this), self.bind(node.expression), *further)
        return self._resolve("similar_to", parts)

    def _paren(self, node: exp.Expr) -> Expression:
        return self._bind(node.this)

    def _negative(self, node: exp.Expr) -> Expression:
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
                return self._bind(constant)
        value = self._bind(inner)
        if isinstance(value, Interval):
            return value.negated(self.dialect)
        return self._resolve("negative", (value,))

    def _binary(self, name: str, left: exp.Expr, right: exp.Expr) -> Expression:
        if isinstance(left, exp.Tuple) and isinstance(right, exp.Tuple):
            return self._tuples(name, left, right)
        if isinstance(right, exp.Any | exp.All):
            return self._quantified(lambda each: self._binary(name, left, each), right)
        one, other = self._bind(left), self._bind(right)
        if isinstance(one, Interval) or isinstance(other, Interval):
            return self._with_interval(name, one, other)
        return self._resolve(name, (one, other))

    def _with_interval(self, name: str, left: Expression, right: Expression) -> Expression:
        if isinstance(left, Interval) and isinstance(right, Interval):
            if name in ("add", "subtract"):
                right = right.negated(self.dialect) if name == "subtract" else right
                months = self._resolve("add", (left.months, right.months))
                return Interval(
                    left.type, months, self._resolve("add", (left.micros, right.micros))
                )
        elif isinstance(right, Interval):
            if name in ("add", "subtract"):
                span = right.negated(self.dialect) if name == "subtract" else right
                return span.added_to(left, self.dialect)
            if name == "multiply":
                return right.times(left, self.dialect)
        elif isinstance(left, Interval):
            if name == "add":
                return left.added_to(right, self.dialect)
            if name == "multiply":
                return left.times(right, self.dialect)
        raise UnsupportedError(f"{name} of an INTERVAL is not supported")

    def _tuples(self, name: str, left: exp.Tuple, right: exp.Tuple) -> Expression:
        if len(left.expressions) != len(right.expressions):
            raise QueryError(
                f"a row of {len(left.expressions)} values is compared with one of "
                f"{len(right.expressions)}"
            )
        if name not in ("equal", "not_equal", "not_distinct"):
            raise UnsupportedError("rows can be compared by = and <> only")
        pairs = zip(left.expressions, right.expressions, strict=True)
        parts = tuple(self._binary(name, one, other) for one, other in pairs)
        return _logical("or" if name == "not_equal" else "and", parts)

    def _quantified(self, compare: Callable[[exp.Expr], Expression], right: exp.Expr) -> Expression:
        values = right.this
        while isinstance(values, exp.Paren):
            values = values.this
        if isinstance(values, exp.Query | exp.Subquery):
            raise QueryError(f"{_shown(right)} cannot stand here")
        each = values.expressions if isinstance(values, exp.Tuple) else [values]
        word = "or" if isinstance(right, exp.Any) else "and"
        return _logical(word, tuple(compare(value) for value in each))

    def _and(self, node: exp.Expr) -> Expression:
        return _logical("and", tuple(self._truth(part) for part in _flattened(node)))

    def _or(self, node: exp.Expr) -> Expression:
        return _logical("or", tuple(self._truth(part) for part in _flattened(node)))

    def _truth(self, node: exp.Expr) -> Expression:
        value = self.bind(node)
        if is_untyped_null(value):
            return Literal(BOOLEAN, None)
        if value.type.root in STRINGS and isinstance(value, Literal):
            return cast_to(value, BOOLEAN)
        if value.type.root != "BOOLEAN":
            raise self._at(
                QueryError(f"{_shown(node)} is {value.type}; a condition must be BOOLEAN"), node
            )
        return value

    def _not(self, node: exp.Expr) -> Expression:
        return negation(self._truth(node.this))

    def _is(self, node: exp.Expr) -> Expression:
        value, wanted = node.this, node.expression
        if isinstance(wanted, exp.Null):
            return self._resolve("is_null", (self.bind(value),))
        if isinstance(wanted, exp.Boolean):
            truth = Literal(BOOLEAN.with_nullable(False), bool(wanted.this))
            return self._resolve("not_distinct", (self._truth(value), truth))
        if isinstance(wanted, exp.JSON) and not any(wanted.args.values()):
            return self._resolve("is_json", (self.bind(value),))
        raise UnsupportedError(f"{_shown(node)} is not supported")

    def _distinct(self, node: exp.Expr) -> Expression:
        return negation(self._binary("not_distinct", node.this, node.expression))

    def _between(self, node: exp.Expr) -> Expression:
        low, high = node.args["low"], node.args["high"]
        if node.args.get("symmetric"):
            ranges = ((low, high), (high, low))
            return _logical("or", tuple(self._range(node.this, *each) for each in ranges))
        return self._range(node.this, low, high)

    def _range(self, value: exp.Expr, low: exp.Expr, high: exp.Expr) -> Expression:
        least = self._binary("greater_equal", value, low)
        return _logical("and", (least, self._binary("less_equal", value, high)))

    def _in(self, node: exp.Expr) -> Expression:
        if node.args.get("query") or node.args.get("unnest"):
            raise QueryError(f"{_shown(node)} cannot stand here")
        if isinstance(node.this, exp.Tuple):
            rows = tuple(self._binary("equal", node.this, each) for each in node.expressions)
            return _logical("or", rows)
        values = (self.bind(node.this), *(self.bind(each) for each in node.expressions))
        return self._resolve("in", values)

    def _like(self, node: exp.Expr, escape: exp.Expr | None = None) -> Expression:
        name = "ilike" if isinstance(node, exp.ILike) else "like"
        further = () if escape is None else (self.bind(escape),)

        def compare(pattern: exp.Expr) -> Expression:
            return self._resolve(name, (self.bind(node.this), self.bind(pattern), *further))

        pattern = node.expression
        found = (
            self._quantified(compare, pattern)
            if isinstance(pattern, exp.Any | exp.All)
            else compare(pattern)
        )
        return negation(found) if node.args.get("negate") else found

    def _escape(self, node: exp.Expr) -> Expression:
        if isinstance(node.this, exp.SimilarTo):
            return self._similar(node.this, node.expression)
        if not isinstance(node.this, exp.Like | exp.ILike):
            raise QueryError("ESCAPE stands after LIKE only")
        return self._like(node.this, node.expression)

    def _concat(self, node: exp.Expr) -> Expression:
        parts = tuple(self.bind(part) for part in _flattened(node))
        return self._resolve("concat", parts)

    def _bitwise_not(self, node: exp.Expr) -> Expression:
        return self._resolve("bitwise_not", (self.bind(node.this),))

    def _bracket(self, node: exp.Expr) -> Expression:
        if isinstance(node.this, exp.Column) and not node.this.table:
            word = node.this.name.lower()
            if word == "multiset":
                raise UnsupportedError("there is no type MULTISET: write ARRAY[…]")
            if word == "map" and len(node.expressions) > 1:
                return self._call("map", node.expressions, node)
        if len(node.expressions) != 1:
            raise QueryError(f"{_shown(node)}: give one index or key")
        return self._resolve("element_of", (self.bind(node.this), self.bind(node.expressions[0])))

    # Case, casts

    def _case(self, node: exp.Expr) -> Expression:
        operand = node.args.get("this")
        conditions, values = [], []
        for branch in node.args["ifs"]:
            conditions.append(
                self._truth(branch.this)
                if operand is None
                else self._binary("equal", operand, branch.this)
            )
            values.append(self.bind(branch.args["true"]))
        default = node.args.get("default")
        values.append(untyped_null() if default is None else self.bind(default))
        return case_of(conditions, values, self.dialect)

    def _if(self, node: exp.Expr) -> Expression:
        default = node.args.get("false")
        otherwise = untyped_null() if default is None else self.bind(default)
        values = [self.bind(node.args["true"]), otherwise]
        return case_of([self._truth(node.this)], values, self.dialect)

    def _cast(self, node: exp.Expr) -> Expression:
        to = node.args["to"]
        if isinstance(to, exp.Interval) or not isinstance(to, exp.DataType):
            raise UnsupportedError(f"a cast to {_shown(to)} is not supported")
        target = type_of(to, self.dialect)
        value = self.bind(node.this)
        is_try = isinstance(node, exp.TryCast) and bool(node.args.get("safe"))
        made = cast(value, target, self.dialect, is_try=is_try)
        if node.meta.get("constant") and isinstance(value, Literal):
            _check_constant(made, value.value)
        return made

    # Calls

    def _call(self, name: str, arguments: Sequence[exp.Expr], node: exp.Expr) -> Expression:
        bound: list[Expression] = []
        for position, argument in enumerate(arguments):
            if isinstance(argument, exp.Lambda):
                bound.append(self._lambda(name, bound, argument))
            elif position == 0 and _is_unit(name, argument, len(arguments)):
                bound.append(text_literal(argument.name.lower()))
            elif name.lower() == "sequence" and position == 2:
                bound.extend(self._step(name, argument))
            else:
                bound.extend(self._argument(name, argument))
        udf = self.names.udf(name)
        if udf is not None:
            called: Expression = udf.call(tuple(bound))
            return called
        if is_aggregate(name, self.dialect) or is_window(name):
            raise QueryError(
                f"{name} is computed from several rows: it cannot stand here", function=name
            )
        if self.dialect is Dialect.SPARK and name.lower() in ("ltrim", "rtrim", "trim"):
            bound.reverse()  # characters come first there
        return self._resolve(name, tuple(bound))

    def _step(self, name: str, node: exp.Expr) -> tuple[Expression, ...]:
        """Bind the step of sequence; an INTERVAL as its months and its microseconds."""
        value = self._bind(node)
        if isinstance(value, Interval):
            return cast_to(value.months, INT), cast_to(value.micros, BIGINT)
        return (value,)

    def _argument(self, name: str, node: exp.Expr) -> tuple[Expression, ...]:
        if isinstance(node, exp.Alias) and name.lower() in ("struct", "row"):
            return (_named_argument(node.alias, self.bind(node.this)),)
        if isinstance(node, exp.Kwarg | exp.PropertyEQ):
            raise UnsupportedError(f"{name} takes its arguments by position, not by name")
        if isinstance(node, exp.Star):
            raise QueryError(f"{name} takes no *")
        if isinstance(node, exp.Distinct | exp.IgnoreNulls | exp.RespectNulls | exp.Order):
            raise QueryError(f"{name} is no aggregate: {_shown(node)} cannot stand in it")
        value = self.bind(node)
        if name.lower() == "struct" and isinstance(node, exp.Column):
            return (_named_argument(node.name, value),)
        return (value,)

    def _lambda(self, name: str, before: Sequence[Expression], node: exp.Expr) -> Expression:
        parameters = tuple(each.name for each in node.expressions)
        types = parameter_types(name, before, len(parameters))
        frame = {
            parameter.lower(): ColumnRef(wanted, parameter)
            for parameter, wanted in zip(parameters, types, strict=True)
        }
        self._lambdas.append(frame)
        try:
            body = self.bind(node.this)
        finally:
            self._lambdas.pop()
        return Lambda(body.type, parameters, body)

    def _identifier(self, node: exp.Expr) -> Expression:
        return self._named((node.name,), node)

    def _extract(self, node: exp.Expr) -> Expression:
        unit = text_literal(node.name.lower())
        return self._resolve("extract", (unit, self.bind(node.expression)))

    def _trim(self, node: exp.Expr) -> Expression:
        side = str(node.args.get("position") or "BOTH").upper()
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(side, "trim")
        characters = node.args.get("expression")
        further = () if characters is None else (self.bind(characters),)
        return self._resolve(name, (self.bind(node.this), *further))

    def _substring(self, node: exp.Expr) -> Expression:
        parts = [node.this, node.args.get("start"), node.args.get("length")]
        return self._resolve("substring", tuple(self.bind(p) for p in parts if p is not None))

    def _position(self, node: exp.Expr) -> Expression:
        parts = [node.args["substr"], node.this, node.args.get("position")]
        return self._resolve("locate", tuple(self.bind(p) for p in parts if p is not None))

    def _overlay(self, node: exp.Expr) -> Expression:
        parts = [node.this, node.expression, node.args["from_"], node.args.get("for_")]
        return self._resolve("overlay", tuple(self.bind(p) for p in parts if p is not None))

    def _round_to(self, node: exp.Expr) -> Expression:
        name = "ceil" if isinstance(node, exp.Ceil) else "floor"
        unit = node.args.get("to")
        if unit is not None:
            cut = "date_trunc" if name == "floor" else "date_ceil"
            return self._resolve(cut, (text_literal(unit.name), self.bind(node.this)))
        digits = node.args.get("decimals")
        parts = [node.this] if digits is None else [node.this, digits]
        return self._call(name, parts, node)

    def _decode(self, node: exp.Expr) -> Expression:
        return self._call("decode", node.expressions, node)

    def _array(self, node: exp.Expr) -> Expression:
        return self._call("array", node.expressions, node)

    def _tuple(self, node: exp.Expr) -> Expression:
        name = "struct" if self.dialect is Dialect.SPARK else "row"
        return self._call(name, node.expressions, node)

    def _anonymous(self, node: exp.Expr) -> Expression:
        name = node.this if isinstance(node.this, str) else node.this.name
        return self._call(name, node.expressions, node)


Handler: TypeAlias = Callable[[ExpressionBinder, exp.Expr], Expression]
_HANDLERS: dict[type[exp.Expr], Handler] = {
    exp.Column: ExpressionBinder._column,
    exp.Dot: ExpressionBinder._column,
    exp.Identifier: ExpressionBinder._identifier,
    exp.Literal: ExpressionBinder._number,
    exp.RawString: ExpressionBinder._text,
    exp.National: ExpressionBinder._text,
    exp.HexString: ExpressionBinder._bytes,
    exp.Concat: ExpressionBinder._adjacent,
    exp.Boolean: ExpressionBinder._boolean,
    exp.Null: ExpressionBinder._null,
    exp.Interval: ExpressionBinder._interval,
    exp.Paren: ExpressionBinder._paren,
    exp.Neg: ExpressionBinder._negative,
    exp.And: ExpressionBinder._and,
    exp.Or: ExpressionBinder._or,
    exp.Not: ExpressionBinder._not,
    exp.Is: ExpressionBinder._is,
    exp.NullSafeNEQ: ExpressionBinder._distinct,
    exp.Between: ExpressionBinder._between,
    exp.In: ExpressionBinder._in,
    exp.Like: ExpressionBinder._like,
    exp.ILike: ExpressionBinder._like,
    exp.Escape: ExpressionBinder._escape,
    exp.SimilarTo: ExpressionBinder._similar,
    exp.BitwiseRightShift: ExpressionBinder._shift_right,
    exp.DPipe: ExpressionBinder._concat,
    exp.BitwiseNot: ExpressionBinder._bitwise_not,
    exp.Bracket: ExpressionBinder._bracket,
    exp.Case: ExpressionBinder._case,
    exp.If: ExpressionBinder._if,
    exp.Cast: ExpressionBinder._cast,
    exp.TryCast: ExpressionBinder._cast,
    exp.Extract: ExpressionBinder._extract,
    exp.Trim: ExpressionBinder._trim,
    exp.Substring: ExpressionBinder._substring,
    exp.StrPosition: ExpressionBinder._position,
    exp.Overlay: ExpressionBinder._overlay,
    exp.Ceil: ExpressionBinder._round_to,
    exp.Floor: ExpressionBinder._round_to,
    exp.DecodeCase: ExpressionBinder._decode,
    exp.Array: ExpressionBinder._array,
    exp.Tuple: ExpressionBinder._tuple,
    exp.Anonymous: ExpressionBinder._anonymous,
}


def number_literal(text: str) -> Literal:
    """Read a number: INT, BIGINT or DECIMAL(n, 0) as it fits; with a point DECIMAL, with e DOUBLE.

    Raises:
        QueryError: more than 38 digits.
    """
    if "e" in text.lower():
        return Literal(DataType("DOUBLE", nullable=False), float(text))
    value: Any = Decimal(text)
    if "." not in text and -(2**63) <= value < 2**63:
        whole = int(value)
        root = "INT" if -(2**31) <= whole < 2**31 else "BIGINT"
        return Literal(DataType(root, nullable=False), whole)
    digits, exponent = value.as_tuple().digits, -value.as_tuple().exponent
    precision = max(len(digits), exponent)
    try:
        wanted = DataType("DECIMAL", nullable=False, precision=precision, scale=exponent)
    except SchemaError:
        raise QueryError(f"{text} has more than 38 digits") from None
    return Literal(wanted, value)


def negation(condition: Expression) -> Expression:
    """Negate a condition; NOT (x IS NULL) is IS NOT NULL."""
    if isinstance(condition, Call) and condition.function == "is_null":
        return Call(condition.type, "is_not_null", condition.arguments)
    return Call(condition.type, "not", (condition,))


def access_field(value: Expression, name: str, dialect: Dialect) -> Expression:
    """Take a field of a ROW, or the value beside a key of a MAP.

    Raises:
        QueryError: there is no such field (the fields are said), or it has none.
    """
    return function.resolve("element_of", (value, text_literal(name)), dialect)


def _logical(name: str, parts: tuple[Expression, ...]) -> Expression:
    if len(parts) == 1:
        return parts[0]
    flat = tuple(
        inner
        for part in parts
        for inner in (
            part.arguments if isinstance(part, Call) and part.function == name else (part,)
        )
    )
    return Call(DataType("BOOLEAN", any_nullable(flat)), name, flat)


def _flattened(node: exp.Expr) -> list[exp.Expr]:
    """List the operands of a chain of one operator, without recursion."""
    kind, waiting, found = type(node), [node], []
    while waiting:
        each = waiting.pop()
        while isinstance(each, exp.Paren):
            each = each.this
        if type(each) is kind:
            waiting += [each.expression, each.this]
        else:
            found.append(each)
    return found


def _check_constant(made: Expression, text: str) -> None:
    """Refuse ``DATE '2020-13-01'`` before there are rows."""
    if constant_value(made) is None:
        said = str(made.type.with_nullable(True))
        raise QueryError(f"{text!r} is no {said}: write {_EXAMPLES.get(made.type.root, '')}")


def _named_argument(name: str, value: Expression) -> Expression:
    return Call(value.type, "named", (text_literal(name), value))


def text_literal(text: str) -> Literal:
    """Make a constant of text."""
    return Literal(DataType("STRING", nullable=False), text)


def _parts(node: exp.Expr) -> tuple[str, ...]:
    assert isinstance(node, exp.Column)
    return tuple(part.name for part in node.parts)


def _is_quoted(node: exp.Expr) -> bool:
    name = node.this if isinstance(node, exp.Column) else node
    return bool(name.args.get("quoted"))


def _is_unit(name: str, node: exp.Expr, count: int) -> bool:
    word = isinstance(node, exp.Column | exp.Var) and not node.args.get("table")
    return (
        word
        and count == 3
        and name.lower() in _UNIT_FIRST
        and _UNITS.fullmatch(node.name) is not None
    )


def _arguments(node: exp.Expr) -> list[exp.Expr]:
    values = (each if isinstance(each, list) else [each] for each in node.args.values())
    return [part for each in values for part in each if isinstance(part, exp.Expr)]


def _first_column(place: dict[str, Any]) -> int:
    width = place.get("end", 0) - place.get("start", 0)
    return int(max(place["col"] - width, 1))


def _shown(node: exp.Expr) -> str:
    text = str(node.sql(PkraySpark))
    return text if len(text) <= 60 else text[:57] + "…"
