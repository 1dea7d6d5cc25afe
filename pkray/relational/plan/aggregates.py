"""State the facts of each aggregate, by its canonical name, for plans and all that computes them.

How an aggregate is called, typed, described and computed is in `functions.aggregates`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Facts:
    """State what is true of an aggregate, or of a function that needs OVER.

    Attributes:
        takes_back: whether what is kept of a group forgets a row again.
        merges: whether what is kept of parts of a group gives what is kept of all.
        runs: whether its value so far can stand for the rows so far.
        needs_all: whether it needs all values of a group even where rows are only added.
        same_if_distinct: whether equal values count once anyhow.
        by_arrival: whether its value depends on the order in which rows come.
        keeps_nulls: whether NULLs count, unless the call says that they are ignored.
        required_from: the first argument that must not be NULL, else the row does not count.
        of_none: its value where no row counts.
        sums: whether it adds values up: sums and means.
        is_mean: whether it divides a sum.
        wraps: whether sums lose their high bits.
        tries: whether what does not fit is NULL.
        is_end: whether it is the value of the row where something is least or greatest.
        is_place: whether it is the value of the first or of the last row.
        is_last: whether the end is the greatest, or the last.
        collects: whether it puts values together in their order.
        parts: the aggregates of which it can be computed before a join.
        distinct_of: the aggregate of distinct values that it is; empty: none.
        total: the aggregate that puts its parts together; empty: itself.
    """

    takes_back: bool = False
    merges: bool = False
    runs: bool = False
    needs_all: bool = False
    same_if_distinct: bool = False
    by_arrival: bool = False
    keeps_nulls: bool = False
    required_from: int = 0
    of_none: Any = None
    sums: bool = False
    is_mean: bool = False
    wraps: bool = False
    tries: bool = False
    is_end: bool = False
    is_place: bool = False
    is_last: bool = False
    collects: bool = False
    parts: tuple[str, ...] = ()
    distinct_of: str = ""
    total: str = ""


_COUNT = Facts(takes_back=True, merges=True, of_none=0, total="sum")
_SUM = Facts(takes_back=True, merges=True, sums=True)
_MEAN = replace(_SUM, is_mean=True)
_LOGICAL = Facts(takes_back=True, merges=True, same_if_distinct=True)
_SPREAD = Facts(takes_back=True)
_END = Facts(is_end=True, same_if_distinct=True)
_EXTREME = replace(_END, merges=True, runs=True)
_BY = replace(_END, required_from=1)
_PLACE = Facts(is_place=True, by_arrival=True, keeps_nulls=True)
_LIST = Facts(collects=True, by_arrival=True)
_SHAPE = Facts(needs_all=True)
_OF_DISTINCT = Facts(same_if_distinct=True)

STATED: Mapping[str, Facts] = {
    "count": replace(_COUNT, runs=True, parts=("count",)),
    "count_if": replace(_COUNT, parts=("count_if",)),
    "approx_count_distinct": replace(_OF_DISTINCT, needs_all=True, distinct_of="count", of_none=0),
    "sum": replace(_SUM, runs=True, parts=("sum",)),
    "sum_wrapping": replace(_SUM, runs=True, wraps=True, parts=("sum_wrapping",)),
    "try_sum": replace(_SUM, tries=True),
    "avg": replace(_MEAN, parts=("sum", "count")),
    "avg_truncating": replace(_MEAN, wraps=True),
    "try_avg": replace(_MEAN, tries=True),
    "bool_and": _LOGICAL,
    "bool_or": _LOGICAL,
    "bit_and": Facts(same_if_distinct=True),
    "bit_or": Facts(same_if_distinct=True),
    "bit_xor": Facts(takes_back=True, merges=True),
    "var_pop": _SPREAD,
    "var_samp": _SPREAD,
    "stddev_pop": _SPREAD,
    "stddev_samp": _SPREAD,
    "covar_pop": _SPREAD,
    "covar_samp": _SPREAD,
    "corr": _SPREAD,
    "min": replace(_EXTREME, parts=("min",)),
    "max": replace(_EXTREME, is_last=True, parts=("max",)),
    "min_by": _BY,
    "max_by": replace(_BY, is_last=True),
    "first": replace(_PLACE, runs=True),
    "first_value": replace(_PLACE, runs=True),
    "last": replace(_PLACE, is_last=True),
    "last_value": replace(_PLACE, is_last=True),
    "nth_value": Facts(by_arrival=True, keeps_nulls=True),
    "listagg": _LIST,
    "collect_list": replace(_LIST, of_none=()),
    "collect_set": replace(_OF_DISTINCT, collects=True, distinct_of="collect_list", of_none=()),
    "array_agg": replace(_LIST, keeps_nulls=True),
    "percentile_cont": _SHAPE,
    "percentile_disc": _SHAPE,
    "mode": _SHAPE,
    "histogram_numeric": replace(_SHAPE, by_arrival=True),
    "skewness": _SHAPE,
    "kurtosis": _SHAPE,
    "udf": Facts(needs_all=True, keeps_nulls=True),
}
_NOTHING = Facts()


def facts(function: str) -> Facts:
    """Give what is true of an aggregate; of functions that number rows nothing is."""
    return STATED.get(function, _NOTHING)
