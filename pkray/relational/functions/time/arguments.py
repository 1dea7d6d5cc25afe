"""Arguments of functions of time: dates, timestamps, units and patterns."""

from pkray.errors import QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.functions.coercion import DATE, any_nullable, cast_to
from pkray.relational.functions.function import Family, Resolver, Typing, Written
from pkray.relational.functions.signatures import constant_text, parameter, text_literal
from pkray.relational.functions.time import calendar, time_patterns
from pkray.relational.functions.time.calendar import MICROS, MONTHS
from pkray.relational.plan.expressions import Expression
from pkray.schema.types import STRINGS, TIMESTAMPS, DataType

LTZ = DataType("TIMESTAMP_LTZ")
NTZ = DataType("TIMESTAMP")
SPARK, FLINK = Dialect.SPARK, Dialect.FLINK
DEFAULT_PATTERN = "yyyy-MM-dd HH:mm:ss"
TIME = Family("time")


@parameter("a date or a timestamp")
def time_or_date(argument: Expression, dialect: Dialect) -> Expression | None:
    """Take a date or a timestamp as it is; text is read as a timestamp."""
    if argument.type.root in ("DATE", *TIMESTAMPS):
        return argument
    read = argument.type.root in STRINGS
    return cast_to(argument, LTZ if dialect is SPARK else NTZ) if read else None


@parameter("a timestamp or a time of day")
def any_clock(argument: Expression, dialect: Dialect) -> Expression | None:
    """Take a TIME as it is, and what `time_or_date` takes."""
    return argument if argument.type.root == "TIME" else time_or_date.cast(argument, dialect)


@parameter("a date or a timestamp")
def timestamp(argument: Expression, dialect: Dialect) -> Expression | None:
    """Take a timestamp; a date is taken as its midnight."""
    taken = time_or_date.cast(argument, dialect)
    if taken is not None and taken.type.root == "DATE":
        return cast_to(taken, LTZ if dialect is SPARK else NTZ)
    return taken


@parameter("a date or a timestamp")
def timestamp_ltz(argument: Expression, dialect: Dialect) -> Expression | None:
    """Take a TIMESTAMP_LTZ(6)."""
    taken = time_or_date.cast(argument, dialect)
    return None if taken is None else cast_to(taken, LTZ)


@parameter("a date")
def date(argument: Expression, dialect: Dialect) -> Expression | None:
    """Take a date; of a timestamp its day, text is read."""
    taken = argument.type.root in ("DATE", *TIMESTAMPS, *STRINGS)
    return cast_to(argument, DATE) if taken else None


def constant_pattern(call: Written, place: int) -> Expression:
    """Take a constant pattern, the default one where there is no such argument."""
    if place == len(call.arguments):
        return text_literal(DEFAULT_PATTERN)
    time_patterns.tokens(constant_text(call.name, call.arguments[place], "the pattern"))
    return call.arguments[place]


def type_of_argument(place: int) -> Typing:
    """Type a call as one of its arguments."""
    return lambda arguments: arguments[place].type.with_nullable(any_nullable(arguments))


def by_dialect(spark: Resolver, flink: Resolver) -> Resolver:
    """Resolve by one resolver in each dialect."""
    return lambda call: (spark if call.dialect is SPARK else flink)(call)


def unit_of(name: str, argument: Expression) -> str:
    """Read a unit of time, a constant text."""
    said = constant_text(name, argument, "the unit")
    unit = calendar.unit_named(said)
    if unit is None:
        raise QueryError(
            f"there is no unit {said!r} of time: write {', '.join((*MONTHS, *MICROS))}",
            function=name,
        )
    return unit
