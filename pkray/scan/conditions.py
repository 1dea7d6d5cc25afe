"""Conditions on rows: as Arrow expressions, and against the statistics of files.

Negation is gone when a condition is made (``NOT a < 1`` is ``a >= 1``), so only whether a
condition is true matters; NULL makes each of them not true. NaN is the largest number, as in
Spark and Paimon.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Bools = np.ndarray
_COMPARE: dict[str, Callable[[pc.Expression, pa.Scalar], pc.Expression]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Statistics:
    """Bounds of the values of many files, one element a file.

    Args:
        least, greatest: by column; a null is an unknown bound.
        nulls: by column; below 0 where unknown.
        rows: rows of each file.
    """

    least: Mapping[str, pa.Array]
    greatest: Mapping[str, pa.Array]
    nulls: Mapping[str, np.ndarray]
    rows: np.ndarray

    @property
    def everything(self) -> Bools:
        return np.ones(len(self.rows), bool)

    def has_values(self, column: str) -> Bools:
        """Tell which files may hold a value of the column that is not null."""
        nulls = self.nulls.get(column)
        return self.everything if nulls is None else (nulls < 0) | (nulls < self.rows)

    def has_nulls(self, column: str) -> Bools:
        """Tell which files may hold a null of the column."""
        nulls = self.nulls.get(column)
        return self.everything if nulls is None else nulls != 0


class Condition(Protocol):
    """A condition that rows have to meet."""

    @property
    def columns(self) -> frozenset[str]: ...

    def expression(self) -> pc.Expression: ...

    def may_match(self, statistics: Statistics) -> Bools:
        """Tell which files may hold a row for which the condition is true."""


@dataclass(frozen=True)
class Always:
    """TRUE or FALSE, whatever the row."""

    value: bool

    @property
    def columns(self) -> frozenset[str]:
        return frozenset()

    def expression(self) -> pc.Expression:
        return pc.scalar(self.value)

    def may_match(self, statistics: Statistics) -> Bools:
        return statistics.everything & self.value


@dataclass(frozen=True)
class _OfColumn:
    column: str

    @property
    def columns(self) -> frozenset[str]:
        return frozenset((self.column,))


@dataclass(frozen=True)
class IsNull(_OfColumn):
    """IS NULL, or IS NOT NULL."""

    negated: bool = False

    def expression(self) -> pc.Expression:
        """Make the pyarrow expression."""
        field = pc.field(self.column)
        return field.is_valid() if self.negated else field.is_null()

    def may_match(self, statistics: Statistics) -> Bools:
        if self.negated:
            return statistics.has_values(self.column)
        return statistics.has_nulls(self.column)


@dataclass(frozen=True)
class Compare(_OfColumn):
    """A column against a value of its type. ``operator``: = <> < <= > >=."""

    operator: str
    value: pa.Scalar

    def expression(self) -> pc.Expression:
        """Make the pyarrow expression."""
        field, value = pc.field(self.column), self.value
        if _is_nan(value):
            is_nan = pc.is_nan(field)
            expressions = {
                "=": is_nan,
                ">=": is_nan,
                "<>": ~is_nan,
                "<": ~is_nan,
                "<=": field.is_valid(),
                ">": pc.scalar(False),
            }
            return expressions[self.operator]
        compared = _COMPARE[self.operator](field, value)
        if self.operator in (">", ">=") and pa.types.is_floating(value.type):
            return compared | pc.is_nan(field)
        return compared

    def may_match(self, statistics: Statistics) -> Bools:
        kept = statistics.has_values(self.column)
        least, greatest = _bounds(statistics, self.column)
        if least is None or greatest is None or _is_nan(self.value):
            return kept
        if self.operator in ("=", "<", "<="):
            excluded = pc.greater_equal if self.operator == "<" else pc.greater
            kept &= ~_known(excluded(least, self.value))
        if self.operator == "=" or (self.operator in (">", ">=") and not _may_hide_nan(greatest)):
            excluded = pc.less_equal if self.operator == ">" else pc.less
            kept &= ~_known(excluded(greatest, self.value))
        if self.operator == "<>" and not _may_hide_nan(greatest):
            same = pc.and_(pc.equal(least, self.value), pc.equal(greatest, self.value))
            kept &= ~_known(same)
        return kept


@dataclass(frozen=True)
class OneOf(_OfColumn):
    """IN, or NOT IN, values of the column's type without nulls."""

    values: pa.Array
    negated: bool = False

    def expression(self) -> pc.Expression:
        """Make the pyarrow expression."""
        field = pc.field(self.column)
        found = field.isin(self.values)
        return field.is_valid() & ~found if self.negated else found

    def may_match(self, statistics: Statistics) -> Bools:
        kept = statistics.has_values(self.column)
        least, greatest = _bounds(statistics, self.column)
        if self.negated or least is None or greatest is None or _may_hide_nan(greatest):
            return kept
        known = pc.and_(least.is_valid(), greatest.is_valid()).to_numpy(zero_copy_only=False)
        # Ranks stand for the values, so that one search serves every type.
        every = pa.concat_arrays([self.values, least, greatest])
        if pa.types.is_boolean(every.type):
            every = every.cast(pa.int8())
        ranks = pc.rank(every, tiebreaker="dense").to_numpy().astype(np.int64)
        values, low, high = np.split(ranks, [len(self.values), len(self.values) + len(least)])
        values = np.sort(values)
        first = np.searchsorted(values, low)
        within = np.append(values, np.iinfo(np.int64).max)[first] <= high
        return kept & (within | ~known)


@dataclass(frozen=True)
class Like(_OfColumn):
    """LIKE, ILIKE and their negations; in the pattern ``\\`` takes % and _ as they are."""

    pattern: str
    ignore_case: bool = False
    negated: bool = False

    def expression(self) -> pc.Expression:
        """Make the pyarrow expression."""
        found = pc.match_like(pc.field(self.column), self.pattern, ignore_case=self.ignore_case)
        return ~found if self.negated else found

    def may_match(self, statistics: Statistics) -> Bools:
        kept = statistics.has_values(self.column)
        least, greatest = _bounds(statistics, self.column)
        prefix = self.prefix
        if self.negated or self.ignore_case or not prefix or least is None or greatest is None:
            return kept
        start = pc.utf8_slice_codeunits(least, 0, len(prefix))
        return kept & ~_known(pc.greater(start, prefix)) & ~_known(pc.less(greatest, prefix))

    @property
    def prefix(self) -> str:
        """Return what every matching text begins with."""
        literal, escaped = [], False
        for character in self.pattern:
            if not escaped and character in "%_":
                break
            escaped = not escaped and character == "\\"
            if not escaped:
                literal.append(character)
        return "".join(literal)


@dataclass(frozen=True)
class _Compound:
    """Conditions joined by AND or OR."""

    parts: tuple[Condition, ...]

    @property
    def columns(self) -> frozenset[str]:
        return frozenset().union(*(part.columns for part in self.parts))


class AllOf(_Compound):
    """AND."""

    def expression(self) -> pc.Expression:
        return reduce(lambda a, b: a & b, (part.expression() for part in self.parts))

    def may_match(self, statistics: Statistics) -> Bools:
        return np.logical_and.reduce([part.may_match(statistics) for part in self.parts])


class AnyOf(_Compound):
    """OR."""

    def expression(self) -> pc.Expression:
        return reduce(lambda a, b: a | b, (part.expression() for part in self.parts))

    def may_match(self, statistics: Statistics) -> Bools:
        return np.logical_or.reduce([part.may_match(statistics) for part in self.parts])


@dataclass(frozen=True)
class Opaque:
    """An Arrow expression that the user wrote; it prunes nothing."""

    written: pc.Expression
    columns: frozenset[str]

    def expression(self) -> pc.Expression:
        return self.written

    def may_match(self, statistics: Statistics) -> Bools:
        return statistics.everything


def _bounds(statistics: Statistics, column: str) -> tuple[pa.Array | None, pa.Array | None]:
    return statistics.least.get(column), statistics.greatest.get(column)


def _known(compared: pa.Array) -> Bools:
    return compared.fill_null(False).to_numpy(zero_copy_only=False)


def _is_nan(value: pa.Scalar) -> bool:
    return pa.types.is_floating(value.type) and value.as_py() != value.as_py()


def _may_hide_nan(bounds: pa.Array) -> bool:
    """Whether a column is FLOAT or DOUBLE, whose bounds say nothing about NaN."""
    return pa.types.is_floating(bounds.type)
