"""Values of type INTERVAL inside expressions: made, compared, taken apart and written.

Plans have no INTERVAL: one that is the value of a column is refused. What it gives, such as a
comparison or text, is computed from its months or its microseconds.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from pkray.errors import QueryError, UnsupportedError
from pkray.relational.dialect import Dialect
from pkray.relational.functions import coercion, function
from pkray.relational.functions.coercion import BIGINT, BOOLEAN, INT, TINYINT
from pkray.relational.functions.conditional import case_of
from pkray.relational.functions.function import Written, typed_call
from pkray.relational.functions.signatures import constant_text, integer, number, text_literal
from pkray.relational.functions.spans import DAY_SECOND, YEAR_MONTH
from pkray.relational.functions.time.arguments import timestamp
from pkray.relational.plan.expressions import COMPARISONS, Cast, Expression, Literal
from pkray.relational.sql.expressions.base import BaseBinder
from pkray.relational.sql.expressions.intervals import (
    MICROS,
    MONTHS,
    Interval,
    interval,
    of_length,
    spanned,
)
from pkray.schema.types import INTEGERS, STRINGS, TIMESTAMPS, DataType

_SPARK = Dialect.SPARK
_TIMES = ("DATE", *TIMESTAMPS)
_SIZES = {**MICROS, **MONTHS}
_EXACT = DataType("DECIMAL", precision=18, scale=6)
_COMPARISONS = (*COMPARISONS, "not_distinct")


def _call(name: str, *arguments: Expression) -> Expression:
    return function.resolve(name, arguments, _SPARK)


def _whole(value: int, kind: DataType = BIGINT) -> Literal:
    return Literal(kind.with_nullable(False), value)


def between(end: Expression, start: Expression) -> Interval | None:
    """Take a time from another; None where one of them is none, and the other no text."""
    roots = end.type.root, start.type.root
    if not any(root in _TIMES for root in roots):
        return None
    if not all(root in (*_TIMES, *STRINGS) for root in roots):
        return None
    if "DATE" in roots and not any(root in TIMESTAMPS for root in roots):
        days = coercion.cast_to(_call("datediff", end, start), BIGINT)
        return of_length(_call("multiply", days, _whole(_SIZES["DAY"])), "DAY", "DAY")
    times = Written("subtract", (end, start), _SPARK).taken(timestamp, timestamp)
    pair = coercion.coerced(times, _SPARK, "times of a difference")
    micros = typed_call("timestampdiff", text_literal("microsecond"), pair[1], pair[0])
    return of_length(micros, "DAY", "SECOND")


def null(span: Interval) -> Interval:
    """Make the NULL of an interval's kind."""
    return of_length(Literal(BIGINT, None), *(span.fields or ("DAY", "SECOND")))


def compared(name: str, left: Interval, right: Interval, dialect: Dialect) -> Expression:
    """Compare intervals of one kind.

    Raises:
        UnsupportedError: one is of months and the other of days, or it is no comparison.
    """
    if name not in _COMPARISONS or not spanned(left, right):
        raise UnsupportedError(
            f"{name} of two INTERVALs is for both of years and months, or both of days and hours"
        )
    return function.resolve(name, (left.length, right.length), dialect)


def is_null(span: Interval) -> Expression:
    """Tell whether an interval is NULL."""
    parts = [_call("is_null", each) for each in (span.months, span.micros) if each.type.nullable]
    if not parts:
        return Literal(BOOLEAN.with_nullable(False), False)
    return parts[0] if len(parts) == 1 else _call("or", *parts)


def extracted(field: str, span: Interval) -> Expression:
    """Give a field of an interval, with its sign.

    Raises:
        QueryError: it has no such field.
    """
    name = field.upper().removesuffix("S")
    known: Sequence[str] = YEAR_MONTH if span.is_months else DAY_SECOND if span.fields else ()
    ends = span.fields or ()
    has = known[known.index(ends[0]) : known.index(ends[-1]) + 1] if ends else ()
    if name not in has:
        said = ", ".join(has) or "none, as it may have months and days"
        raise QueryError(f"there is no {field} in this INTERVAL: its fields are {said}")
    if name == known[0]:
        return coercion.cast_to(_call("div", span.length, _size(span, name)), INT)
    above = _size(span, known[known.index(name) - 1])
    rest = _call("mod", span.length, above)
    if name != "SECOND":
        return coercion.cast_to(_call("div", rest, _size(span, name)), TINYINT)
    seconds = _seconds(rest)
    return coercion.cast_to(seconds, DataType("DECIMAL", precision=8, scale=6))


def _size(span: Interval, field: str) -> Literal:
    return _whole(_SIZES[field], INT if span.is_months else BIGINT)


def _seconds(micros: Expression) -> Expression:
    """Give microseconds as seconds, DECIMAL with six digits of a fraction."""
    million = Literal(DataType("DECIMAL", nullable=False, precision=7), 10**6)
    whole = coercion.cast_to(micros, DataType("DECIMAL", precision=19))
    return coercion.cast_to(
        _call("divide", whole, million), DataType("DECIMAL", precision=20, scale=6)
    )


def cast_to(span: Interval, target: DataType) -> Expression:
    """Cast an interval to text, or to a number of its last field.

    Raises:
        UnsupportedError: there is no such cast.
    """
    if target.root in STRINGS:
        return written(span)
    if span.fields and target.root in (*INTEGERS, "DECIMAL"):
        if span.fields[-1] == "SECOND" and target.root == "DECIMAL":
            return _seconds(span.micros)
        return _call("div", span.length, _size(span, span.fields[-1]))
    raise UnsupportedError(
        f"an INTERVAL is not cast to {target.root}: cast it to STRING, or take its fields by "
        "extract(DAY FROM …)"
    )


def cast_from(value: Expression, fields: tuple[str, ...], *, is_try: bool) -> Interval:
    """Cast to an interval: text, another interval, whose smaller fields are cut off, or a number of
    the last field.

    Raises:
        UnsupportedError: there is no such cast.
    """
    if not fields:
        raise UnsupportedError(
            "a cast to INTERVAL needs its fields: write INTERVAL DAY TO SECOND or YEAR TO MONTH"
        )
    if coercion.is_untyped_null(value):
        return of_length(Literal(BIGINT, None), *fields)
    if isinstance(value, Interval):
        if not spanned(value, of_length(_whole(0), *fields)):
            raise UnsupportedError(
                "an INTERVAL of months and one of days are not cast to each other"
            )
        size = _SIZES[fields[-1]]
        length = coercion.cast_to(value.length, BIGINT)
        whole = _call("multiply", _call("div", length, _whole(size)), _whole(size))
        return of_length(length if size == 1 else whole, *fields)
    if value.type.root in STRINGS:
        name = "try_interval_of_text" if is_try else "interval_of_text"
        text = coercion.cast_to(value, DataType("STRING"))
        unit = text_literal(" TO ".join(dict.fromkeys(fields)))
        return of_length(typed_call(name, text, unit), *fields)
    if value.type.root in INTEGERS:
        number = coercion.cast_to(value, BIGINT)
        return of_length(_call("multiply", number, _whole(_SIZES[fields[-1]])), *fields)
    if value.type.root == "DECIMAL" and fields[-1] == "SECOND":
        exact = coercion.cast_to(value, _EXACT)
        return of_length(_call("multiply", exact, _whole(10**6)), *fields)
    raise UnsupportedError(
        f"{value.type} is not cast to an INTERVAL: cast text, or a whole number of its last field"
    )


def written(span: Interval) -> Expression:
    """Write an interval as Spark does: ``INTERVAL '1 02:03:04.5' DAY TO SECOND``."""
    if not span.fields:
        raise UnsupportedError("an INTERVAL of months and days is not written as text")
    first, last = span.fields
    length = coercion.cast_to(span.length, BIGINT)
    zero = _whole(0)
    minus, none = text_literal("-"), text_literal("")
    sign = case_of([_call("less", length, zero)], [minus, none], _SPARK)
    size = _call("abs", length)
    order = YEAR_MONTH if span.is_months else DAY_SECOND
    parts: list[Expression] = [sign]
    for field in order[order.index(first) : order.index(last) + 1]:
        above = None if field == first else _whole(_SIZES[order[order.index(field) - 1]])
        parts += _field(size, field, above, padded=field != "DAY" and not span.is_months)
    unit = first if first == last else f"{first} TO {last}"
    return _call("concat", text_literal("INTERVAL '"), *parts, text_literal(f"' {unit}"))


def _field(
    size: Expression, field: str, above: Expression | None, *, padded: bool
) -> list[Expression]:
    """Write one field, after what divides it from the one before."""
    rest = size if above is None else _call("mod", size, above)
    whole = _call("div", rest, _whole(_SIZES[field]))
    text = coercion.cast_to(whole, DataType("STRING"))
    if padded:
        two = _call("lpad", text, _whole(2, INT), text_literal("0"))
        is_one = _call("less", whole, _whole(10))
        text = case_of([is_one], [two, text], _SPARK)
    divider = {"MONTH": "-", "HOUR": " "}.get(field, ":")
    parts = [text] if above is None else [text_literal(divider), text]
    if field == "SECOND":
        micros = coercion.cast_to(_call("mod", rest, _whole(10**6)), DataType("STRING"))
        digits = _call("lpad", micros, _whole(6, INT), text_literal("0"))
        point = _call("concat", text_literal("."), digits)
        fraction = _call("rtrim", point, text_literal("0"))
        parts.append(_call("rtrim", fraction, text_literal(".")))
    return parts


# Functions


def called(binder: BaseBinder, name: str, arguments: Sequence[exp.Expr]) -> Expression | None:
    """Bind a call that makes an interval, or of one; None for any other."""
    word = name.lower()
    maker = _MAKERS.get(word)
    if binder.dialect is not _SPARK or binder.names.udf(name) is not None:
        return None
    if maker is not None:
        return maker(word, [binder.bind(each) for each in arguments])
    if word not in _OF_INTERVALS or not arguments:
        return None
    span = binder.operand(arguments[-1])
    if not isinstance(span, Interval):
        return None
    if word in ("date_part", "datepart"):
        Written(word, tuple(arguments), _SPARK).exactly(2)  # type: ignore[arg-type]
        said = constant_text(word, binder.bind(arguments[0]), "the field")
        return extracted(said, span)
    Written(word, tuple(arguments), _SPARK).exactly(1)  # type: ignore[arg-type]
    return _OF_INTERVALS[word](span)


def _typeof(span: Interval) -> Expression:
    fields = " to ".join(dict.fromkeys(span.fields)).lower()
    return text_literal(f"interval {fields}".strip())


def _absolute(span: Interval) -> Interval:
    return replace(span, months=_call("abs", span.months), micros=_call("abs", span.micros))


_OF_INTERVALS: dict[str, Callable[[Interval], Expression]] = {
    "abs": _absolute,
    "negative": lambda span: span.negated(_SPARK),
    "positive": lambda span: span,
    "sign": lambda span: _call("sign", span.length),
    "signum": lambda span: _call("sign", span.length),
    "isnull": is_null,
    "typeof": _typeof,
    **dict.fromkeys(("date_part", "datepart"), lambda span: span),
    "string": written,
}


def _parts(name: str, given: list[Expression], count: int, *, seconds: bool) -> list[Expression]:
    """Take whole numbers, the last of them seconds; those that are not given are 0."""
    kinds = [(integer, BIGINT)] * (count - seconds) + [(number, _EXACT)] * seconds
    taken = Written(name, tuple(given), _SPARK).taken(*(each for each, _ in kinds), least=0)
    found = [coercion.cast_to(each, kind) for each, (_, kind) in zip(taken, kinds, strict=False)]
    return found + [_whole(0)] * (count - len(given))


def _sum(name: str, parts: list[Expression], sizes: Sequence[int]) -> Expression:
    """Add parts up, each so many times; `name` is that of the function that adds and multiplies."""
    prefix = "try_" if name.startswith("try_") else ""
    total: Expression = _whole(0)
    for part, size in zip(parts, sizes, strict=True):
        product = _call(f"{prefix}multiply", part, _whole(size))
        total = _call(f"{prefix}add", total, coercion.cast_to(product, BIGINT))
    return total


def _calendar(name: str, given: list[Expression]) -> Interval:
    """Make an interval of years, months, weeks, days, hours, minutes and seconds."""
    years, months, *rest = _parts(name, given, 7, seconds=True)
    day = _SIZES["DAY"]
    sizes = (7 * day, day, *(_SIZES[each] for each in DAY_SECOND[1:]))
    count = _sum(name, [years, months], (12, 1))
    on_error = "null" if name.startswith("try_") else "raise"
    as_int = Cast(INT.with_nullable(count.type.nullable or on_error == "null"), count, on_error)
    return replace(interval(0, 0), months=as_int, micros=_sum(name, rest, sizes))


def _days(name: str, given: list[Expression]) -> Interval:
    parts = _parts(name, given, 4, seconds=True)
    return of_length(_sum(name, parts, [_SIZES[each] for each in DAY_SECOND]), "DAY", "SECOND")


def _months(name: str, given: list[Expression]) -> Interval:
    return of_length(_sum(name, _parts(name, given, 2, seconds=False), (12, 1)), *YEAR_MONTH)


_MAKERS: dict[str, Callable[[str, list[Expression]], Interval]] = {
    "make_interval": _calendar,
    "try_make_interval": _calendar,
    "make_dt_interval": _days,
    "make_ym_interval": _months,
}
