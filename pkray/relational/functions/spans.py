"""INTERVALs as the values of columns: a BIGINT of microseconds, or of months, with its fields.

Whatever groups, sorts, joins and keeps values handles them as the numbers they are. What binds
expressions takes them apart (`pkray.relational.sql.expressions.intervals`), so that no function
takes one for a number; results are made durations as they leave (`pkray.relational.outcome`).
"""

from collections.abc import Sequence

from pkray.errors import UnsupportedError
from pkray.relational.plan.expressions import Expression
from pkray.schema.types import DataType, interval_type

YEAR_MONTH = ("YEAR", "MONTH")
DAY_SECOND = ("DAY", "HOUR", "MINUTE", "SECOND")
_TAKING = {
    *("coalesce", "if", "iff", "nvl", "ifnull", "nvl2", "nullif", "greatest", "least"),
    *("equal", "not_equal", "not_distinct", "less", "less_equal", "greater", "greater_equal"),
    *("is_null", "is_not_null", "isnull", "isnotnull", "in", "hash", "xxhash64"),
}
_AGGREGATES = {
    *("count", "min", "max", "sum", "avg", "mean", "any_value", "first", "first_value", "last"),
    *("last_value", "lag", "lead", "nth_value", "min_by", "max_by", "mode"),
    "approx_count_distinct",
}


def fields_of(kind: DataType) -> tuple[str, str]:
    """Give the first and the last field of a type of intervals."""
    parts = (kind.span or "").split(" TO ")
    return parts[0], parts[-1]


def is_months(kind: DataType) -> bool:
    """Whether intervals of a type are of years and months."""
    return fields_of(kind)[0] in YEAR_MONTH


def wider(left: DataType, right: DataType) -> DataType | None:
    """Find the type with the fields of two; None where one is of months and the other of days."""
    if not left.span or not right.span or is_months(left) is not is_months(right):
        return None
    order = YEAR_MONTH if is_months(left) else DAY_SECOND
    places = sorted(order.index(each) for kind in (left, right) for each in fields_of(kind))
    return interval_type((order[places[0]], order[places[-1]]), nullable=True)


def check_taken(name: str, arguments: Sequence[Expression], *, aggregate: bool = False) -> None:
    """Refuse INTERVALs as arguments of what would take them for numbers.

    Raises:
        UnsupportedError: the function takes none.
    """
    known = _AGGREGATES if aggregate else _TAKING
    found = next((each.type for each in arguments if each.type.span), None)
    if found is not None and name.lower() not in known:
        raise UnsupportedError(
            f"{name} takes no {found.with_nullable(True)}: write extract(DAY FROM …), or CAST it "
            "to STRING, or to BIGINT for its seconds",
            function=name,
        )
