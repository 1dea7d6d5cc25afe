"""Put casts into expressions where types meet, by the rules of the dialects."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Context, Decimal, InvalidOperation

from pkray.errors import QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.functions import spans
from pkray.relational.plan.expressions import Call, Cast, Expression, Lambda, Literal
from pkray.schema.types import BINARIES, INTEGERS, STRINGS, TIMESTAMPS, DataField, DataType

BOOLEAN = DataType("BOOLEAN")
TINYINT = DataType("TINYINT")
SMALLINT = DataType("SMALLINT")
INT = DataType("INT")
BIGINT = DataType("BIGINT")
FLOAT = DataType("FLOAT")
DOUBLE = DataType("DOUBLE")
STRING = DataType("STRING")
BYTES = DataType("BYTES")
DATE = DataType("DATE")
TIMESTAMP = DataType("TIMESTAMP")
TIMESTAMP_LTZ = DataType("TIMESTAMP_LTZ")

FLOATS = ("FLOAT", "DOUBLE")
NUMBERS = (*INTEGERS, "DECIMAL", *FLOATS)
MAX_PRECISION = 38
LEAST_SCALE = 6
"""Fraction digits that arithmetic keeps when a result has more than 38 digits."""
_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 20}
_EXACT = Context(prec=76)
_BITS = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}


def untyped_null() -> Literal:
    """Make a NULL that takes the type that its context wants."""
    return Literal(STRING, None)


def is_untyped_null(expression: Expression) -> bool:
    """Whether it is a NULL that takes the type that its context wants."""
    return (
        isinstance(expression, Literal)
        and expression.value is None
        and expression.type.root == "STRING"
    )


def _is_without_elements(expression: Expression) -> bool:
    """Whether it is ``array()`` or ``map()``, whose elements take the type of those beside it."""
    return (
        isinstance(expression, Call)
        and expression.function in ("array", "map")
        and not expression.arguments
    )


def is_null_literal(expression: Expression) -> bool:
    """Whether it is NULL, of whatever type."""
    return isinstance(expression, Literal) and expression.value is None


def has_order(kind: DataType) -> bool:
    """Whether values of a type can be sorted: all but MAPs, and what has them inside."""
    return kind.root != "MAP" and all(map(has_order, kind.parts))


def with_one_zero(value: Expression) -> Expression:
    """Make -0.0 the 0.0 that it is equal to, also inside ARRAYs, MAPs and ROWs."""
    done = isinstance(value, Call) and value.function == "normalize_zero"
    if done or not _holds_floats(value.type):
        return value
    return Call(value.type, "normalize_zero", (value,))


def _holds_floats(kind: DataType) -> bool:
    return kind.root in FLOATS or any(map(_holds_floats, kind.parts))


def any_nullable(expressions: Sequence[Expression]) -> bool:
    """Whether one of them can be NULL."""
    return any(each.type.nullable for each in expressions)


def decimal(precision: int, scale: int) -> DataType:
    """Give the DECIMAL of so many digits; beyond 38, whole digits go before fraction digits."""
    if precision > MAX_PRECISION:
        scale = max(0, scale - (precision - MAX_PRECISION))
    return DataType("DECIMAL", precision=min(precision, MAX_PRECISION), scale=scale)


def arithmetic_decimal(precision: int, scale: int) -> DataType:
    """Give the DECIMAL of a result; beyond 38 digits, six fraction digits are kept if there are."""
    if precision > MAX_PRECISION:
        whole = precision - scale
        scale = max(MAX_PRECISION - whole, min(scale, LEAST_SCALE))
    return DataType("DECIMAL", precision=min(precision, MAX_PRECISION), scale=scale)


def as_decimal(expression: Expression, dialect: Dialect) -> DataType | None:
    """Give the DECIMAL that an integer's or a decimal's values have; None for other types.

    In the spark dialect an integer literal has the digits that it is written with.
    """
    root = expression.type.root
    if root == "DECIMAL":
        return expression.type
    if root not in INTEGERS:
        return None
    if (
        dialect is Dialect.SPARK
        and isinstance(expression, Literal)
        and isinstance(expression.value, int)
    ):
        return decimal(max(len(str(abs(expression.value))), 1), 0)
    if dialect is Dialect.FLINK and root == "BIGINT":
        return decimal(19, 0)
    return decimal(_DIGITS[root], 0)


def cast_to(expression: Expression, target: DataType) -> Expression:
    """Put a cast around, unless the type is that already; NULL-ness stays as it is.

    Literals of integers, and NULLs, become literals of the type.
    """
    wanted = target.with_nullable(expression.type.nullable)
    if expression.type == wanted or isinstance(expression, Lambda):
        return expression
    if isinstance(expression, Literal):
        literal = _literal_in(expression, wanted)
        if literal is not None:
            return literal
    return Cast(wanted, expression)


def _literal_in(literal: Literal, target: DataType) -> Literal | None:
    value = literal.value
    if value is None:
        return Literal(target, None)
    if isinstance(value, Decimal):
        return _decimal_in(value, target)
    if type(value) is not int or literal.type.root not in INTEGERS:
        return None
    if target.root in INTEGERS and -(2 ** _BITS[target.root]) <= value < 2 ** _BITS[target.root]:
        return Literal(target, value)
    if target.root == "DOUBLE" and abs(value) <= 2**53:
        return Literal(target, float(value))
    return _decimal_in(Decimal(value), target)


def _decimal_in(value: Decimal, target: DataType) -> Literal | None:
    """Write a constant in another type, where that changes nothing."""
    if target.root == "DOUBLE":
        return Literal(target, float(value))
    if target.root != "DECIMAL":
        return None
    scale = target.scale or 0
    try:
        near = _EXACT.quantize(value, Decimal(1).scaleb(-scale))
    except InvalidOperation:
        return None
    whole = 10 ** ((target.precision or 0) - scale)
    return Literal(target, near) if near == value and abs(near) < whole else None


def common_type(
    expressions: Sequence[Expression], dialect: Dialect, purpose: str = "values"
) -> DataType:
    """Find the type that all can be cast to; it is nullable if one of them is.

    Args:
        purpose: what they are to be, for the error: ``branches of CASE``.

    Raises:
        QueryError: there is none.
    """
    found: DataType | None = None
    for each in sorted(expressions, key=_is_without_elements):
        if is_untyped_null(each):
            continue
        if found is None:
            found = each.type
            continue
        if _is_without_elements(each) and each.type.root == found.root:
            continue
        merged = wider(found, each.type, dialect)
        if merged is None:
            raise QueryError(
                f"{purpose} have no type in common: {found.with_nullable(True)} and "
                f"{each.type.with_nullable(True)}; cast one of them"
            )
        found = merged
    return (found or STRING).with_nullable(any_nullable(expressions))


def coerced(
    expressions: Sequence[Expression], dialect: Dialect, purpose: str = "values"
) -> tuple[Expression, ...]:
    """Cast all to their common type; each keeps its own NULL-ness.

    Raises:
        QueryError: there is none.
    """
    target = common_type(expressions, dialect, purpose)
    return tuple(cast_to(each, target) for each in expressions)


def check_texts(name: str, left: Expression, right: Expression) -> None:
    """Refuse text beside what is none in the parts of ARRAYs and MAPs, as Spark does.

    Raises:
        QueryError: only a cast that can fail would give them one type.
    """
    if not _is_empty(left) and not _is_empty(right) and _mixes_text(left.type, right.type):
        one, other = left.type.with_nullable(True), right.type.with_nullable(True)
        raise QueryError(
            f"{name} takes {one} and {other}, text and what is none: cast one of them",
            function=name,
        )


def _mixes_text(left: DataType, right: DataType) -> bool:
    if left.is_nested and right.is_nested:
        return any(map(_mixes_text, left.parts, right.parts))
    return (left.root in STRINGS) is not (right.root in STRINGS)


def _is_empty(value: Expression) -> bool:
    """Whether it is NULL, or an ARRAY or a MAP of NULLs alone: of no type of its own."""
    if isinstance(value, Call) and value.function in ("array", "map"):
        return all(map(_is_empty, value.arguments))
    return is_untyped_null(value)


def wider(left: DataType, right: DataType, dialect: Dialect) -> DataType | None:
    """Find the type that holds the values of two types; None where there is none."""
    nullable = left.nullable or right.nullable
    left, right = left.with_nullable(True), right.with_nullable(True)
    found = left if left == right else _wider(left, right, dialect)
    return found and found.with_nullable(nullable)


def _wider(left: DataType, right: DataType, dialect: Dialect) -> DataType | None:
    if left.span or right.span:
        return spans.wider(left, right)
    if left.root in NUMBERS and right.root in NUMBERS:
        return _wider_number(left, right, dialect)
    if left.root in STRINGS or right.root in STRINGS:
        return _wider_text(left, right)
    if left.root in BINARIES and right.root in BINARIES:
        return BYTES
    if left.root in ("DATE", *TIMESTAMPS) and right.root in ("DATE", *TIMESTAMPS):
        return _wider_time(left, right)
    if left.root == right.root == "TIME":
        return max(left, right, key=lambda each: each.precision or 0)
    if left.root == right.root:
        return _wider_nested(left, right, dialect)
    return None


def _wider_number(left: DataType, right: DataType, dialect: Dialect) -> DataType:
    roots = {left.root, right.root}
    if roots <= set(INTEGERS):
        return left if INTEGERS.index(left.root) >= INTEGERS.index(right.root) else right
    if "DOUBLE" in roots or roots == {"FLOAT", "DECIMAL"}:
        return DOUBLE
    if "FLOAT" in roots:
        return DOUBLE if len(roots) > 1 and dialect is Dialect.SPARK else FLOAT
    (p1, s1), (p2, s2) = _digits(left, dialect), _digits(right, dialect)
    scale = max(s1, s2)
    return decimal(max(p1 - s1, p2 - s2) + scale, scale)


def _digits(type: DataType, dialect: Dialect) -> tuple[int, int]:
    if type.root == "BIGINT" and dialect is Dialect.FLINK:
        return 19, 0
    if type.root in INTEGERS:
        return _DIGITS[type.root], 0
    return type.precision or 0, type.scale or 0


def _wider_text(left: DataType, right: DataType) -> DataType | None:
    """Meet text with another type: the other type, since text can be read as it."""
    if left.root in STRINGS and right.root in STRINGS:
        return STRING
    other = right if left.root in STRINGS else left
    if other.root in INTEGERS:
        return BIGINT
    if other.root in ("DECIMAL", *FLOATS):
        return DOUBLE
    return None if other.is_nested else other


def _wider_time(left: DataType, right: DataType) -> DataType:
    root = "TIMESTAMP_LTZ" if "TIMESTAMP_LTZ" in (left.root, right.root) else "TIMESTAMP"
    return DataType(root, precision=max(left.precision or 0, right.precision or 0))


def _wider_nested(left: DataType, right: DataType, dialect: Dialect) -> DataType | None:
    if left.root == "ARRAY":
        element = _wider_part(left.element, right.element, dialect)
        return element and DataType("ARRAY", element=element)
    if left.root == "MAP":
        key = _wider_part(left.key, right.key, dialect)
        value = _wider_part(left.value, right.value, dialect)
        return DataType("MAP", key=key, value=value) if key and value else None
    if left.root != "ROW" or len(left.fields or ()) != len(right.fields or ()):
        return None
    fields: list[DataField] = []
    for one, other in zip(left.fields or (), right.fields or (), strict=True):
        merged = wider(one.type, other.type, dialect)
        if merged is None:
            return None
        fields.append(replace(one, type=merged))
    return DataType("ROW", fields=tuple(fields))


def _wider_part(left: DataType | None, right: DataType | None, dialect: Dialect) -> DataType | None:
    assert left is not None
    assert right is not None
    return wider(left, right, dialect)
