"""Names of functions that give an INTERVAL: the binder makes it, as plans have no such type."""

from pkray.errors import QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.functions.function import Family, Written
from pkray.relational.plan.expressions import Expression

TIME = Family("time")


def _made_by_the_binder(call: Written) -> Expression:
    raise QueryError(f"{call.name} gives an INTERVAL: write it in SQL, in an expression of times")


for _name, _given, _about in (
    ("make_interval", "years, months, weeks, days, hours, minutes, seconds", "Make an interval."),
    ("try_make_interval", "years, months, …, seconds", "Make an interval, NULL if it overflows."),
    ("make_dt_interval", "days, hours, minutes, seconds", "Make an interval of days and seconds."),
    ("make_ym_interval", "years, months", "Make an interval of months."),
):
    TIME.only(Dialect.SPARK).alias(f"{_name}([{_given}]) -> INTERVAL", _about, _made_by_the_binder)
