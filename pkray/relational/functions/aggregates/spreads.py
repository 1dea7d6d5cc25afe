"""Variances, covariances and the shapes of distributions."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pkray.errors import QueryError
from pkray.relational.functions.aggregates.accumulator import Accumulator, Arrays
from pkray.relational.functions.aggregates.aggregate import (
    SPARK,
    Resolved,
    Resolver,
    compute,
    define_aggregate,
)
from pkray.relational.functions.aggregates.arguments import number
from pkray.relational.functions.aggregates.rows import Chosen
from pkray.relational.functions.coercion import DOUBLE, cast_to
from pkray.relational.functions.function import Written
from pkray.relational.functions.numbers.exact_sums import GroupNumbers
from pkray.relational.plan.expressions import AggregateCall


def _moments(name: str, count: int = 1) -> Resolver:
    def resolve(call: Written) -> Resolved:
        call.exactly(count)
        numbers = call._replace(name=name).taken(*[number] * count)
        return Resolved(name, tuple(cast_to(each, DOUBLE) for each in numbers), (), DOUBLE)

    return resolve


def _regression(call: Written) -> Resolved:
    """Refuse what the parser has not written in other aggregates: DISTINCT, and a wrong count."""
    call.exactly(2)
    raise QueryError(f"{call.name} takes no DISTINCT: select distinct rows first")


class Moments(Accumulator):
    """Means and sums of squared deviations, of one or two columns, merged batch by batch.

    Deviations are taken from the batch's own means, so that large values near to each other lose
    nothing.
    """

    def __init__(self, call: AggregateCall, types: Sequence[pa.DataType] = ()) -> None:
        super().__init__(call, types)
        self.counts, self.mean_x, self.mean_y = (GroupNumbers(np.float64) for _ in range(3))
        self.xx, self.xy, self.yy = (GroupNumbers(np.float64) for _ in range(3))

    def _add(self, groups: np.ndarray, count: int, columns: Arrays) -> None:
        touched, local = np.unique(groups, return_inverse=True)
        x, y = np.asarray(columns[0]), np.asarray(columns[-1])
        with np.errstate(all="ignore"):
            added = np.bincount(local, minlength=len(touched)).astype(np.float64)
            first = np.empty(len(touched), np.int64)
            first[local[::-1]] = np.arange(len(local) - 1, -1, -1)
            mean_x, x = _around_mean(x, x[first], local, added)
            mean_y, y = _around_mean(y, y[first], local, added)
            known = self.counts.to(count)[touched]
            total = known + added
            shift_x = mean_x - self.mean_x.to(count)[touched]
            shift_y = mean_y - self.mean_y.to(count)[touched]
            weight = known * added / total
            # A first batch's means are taken as they are: infinity - 0 would spoil the sums.
            for sums, products, shift in (
                (self.xx, x * x, shift_x * shift_x),
                (self.xy, x * y, shift_x * shift_y),
                (self.yy, y * y, shift_y * shift_y),
            ):
                moved = np.where(known > 0, shift * weight, 0.0)
                sums.to(count)[touched] += np.bincount(local, products, len(touched)) + moved
            self.mean_x.array[touched] += shift_x * added / total
            self.mean_y.array[touched] += shift_y * added / total
            self.counts.array[touched] = total

    def finish(self, count: int) -> pa.Array:
        counts, xx, xy, yy = (
            each.to(count)[:count] for each in (self.counts, self.xx, self.xy, self.yy)
        )
        name = self.call.function
        with np.errstate(all="ignore"):
            if name == "corr":
                values = xy / np.sqrt(xx * yy)
                return pa.array(values, mask=(counts < 2) | (xx * yy == 0))
            sample = name.endswith("_samp")
            values = xy / (counts - sample)
            values = np.sqrt(values) if name.startswith("stddev") else values
            return pa.array(values, mask=counts <= sample)


def _around_mean(
    values: np.ndarray, some: np.ndarray, local: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Give the mean of each group, and each value's distance from it: 0 where all are equal.

    Args:
        values: float64, one a row; `local` says of which group.
        some: float64, a value of each group, near to which sums are exact.
    """
    away = values - some[local]
    mean = np.bincount(local, away, len(some)) / counts
    return some + mean, away - mean[local]


def _shapes(call: AggregateCall, groups: np.ndarray, count: int, columns: Arrays) -> pa.Array:
    """Compute skewness and kurtosis; NULL where all values are equal."""
    values = np.asarray(columns[0])
    counts = np.bincount(groups, minlength=count)
    with np.errstate(all="ignore"):
        away = values - (np.bincount(groups, values, count) / counts)[groups]
        power = 3 if call.function == "skewness" else 4
        second = np.bincount(groups, away**2, count)
        high = np.bincount(groups, away**power, count)
        if power == 3:
            result = np.sqrt(counts) * high / np.sqrt(second**3)
        else:
            result = counts * high / second**2 - 3.0
    return pa.array(result, mask=(counts == 0) | (second == 0))


compute(
    *("var_pop", "var_samp", "stddev_pop", "stddev_samp", "covar_pop", "covar_samp", "corr"),
    accumulate=Moments,
)
compute("skewness", "kurtosis", accumulate=Chosen.of_all(_shapes))
for _name, _about, _synonyms in (
    ("stddev_samp", "Gives the standard deviation of a sample.", ("stddev", "std")),
    ("stddev_pop", "Gives the standard deviation of a population.", ()),
    ("var_samp", "Gives the variance of a sample.", ("variance",)),
    ("var_pop", "Gives the variance of a population.", ()),
    ("skewness", "Gives the skewness of a population.", ()),
    ("kurtosis", "Gives the excess kurtosis of a population.", ()),
):
    define_aggregate(f"{_name}(number) -> DOUBLE", _about, _moments(_name), *_synonyms)
for _name, _about in (
    ("covar_pop", "Gives the covariance of a population."),
    ("covar_samp", "Gives the covariance of a sample."),
    ("corr", "Gives Pearson's coefficient of correlation."),
):
    define_aggregate(f"{_name}(number, number) -> DOUBLE", _about, _moments(_name, 2))
for _name, _about in (
    ("regr_count", "Counts rows in which neither is NULL."),
    ("regr_avgx", "Gives the mean of x."),
    ("regr_avgy", "Gives the mean of y."),
    ("regr_sxx", "Gives the sum of squared deviations of x."),
    ("regr_syy", "Gives the sum of squared deviations of y."),
    ("regr_sxy", "Gives the sum of products of deviations."),
    ("regr_slope", "Gives the slope of the line of least squares."),
    ("regr_intercept", "Gives y of the line of least squares where x is 0."),
    ("regr_r2", "Gives the coefficient of determination."),
):
    kind = "BIGINT" if _name == "regr_count" else "DOUBLE"
    define_aggregate(f"{_name}(y, x) -> {kind}", _about, _regression, dialects=SPARK)
