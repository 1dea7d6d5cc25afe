"""Define aggregates: how each is called, typed and computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from pkray.relational.dialect import Dialect
from pkray.relational.functions.aggregates.accumulator import Accumulate
from pkray.relational.functions.aggregates.folds import Fold
from pkray.relational.functions.function import Written
from pkray.relational.plan.expressions import Expression, Literal
from pkray.schema.types import DataType

BOTH = frozenset(Dialect)
SPARK = frozenset({Dialect.SPARK})
FLINK = frozenset({Dialect.FLINK})


class Resolved(NamedTuple):
    """An aggregate or window function with its typed arguments.

    Attributes:
        function: the canonical name.
        arguments: cast to what the function computes with.
        parameters: constants of the call.
        type: of the result.
    """

    function: str
    arguments: tuple[Expression, ...]
    parameters: tuple[Literal, ...]
    type: DataType


Resolver: TypeAlias = Callable[[Written], Resolved]
MakeFold: TypeAlias = Callable[[Sequence[pa.DataType]], Fold | None]


@dataclass(frozen=True)
class Aggregate:
    """One aggregate, or one window function.

    Attributes:
        name: as people write it; the canonical name is often the same.
        usage: ``sum(x number) -> BIGINT | DOUBLE | DECIMAL``.
        about: one sentence that begins with a verb.
        resolve: types a call.
        synonyms: other names that people write.
        dialects: where people can write it.
    """

    name: str
    usage: str
    about: str
    resolve: Resolver
    synonyms: tuple[str, ...] = ()
    dialects: frozenset[Dialect] = BOTH


AGGREGATES: dict[str, Aggregate] = {}
WINDOWS: dict[str, Aggregate] = {}
COMPUTATIONS: dict[str, Computation] = {}


def _define(table: dict[str, Aggregate], aggregate: Aggregate) -> None:
    for name in (aggregate.name, *aggregate.synonyms):
        assert name not in table, name
        table[name] = aggregate


def define_aggregate(
    usage: str, about: str, resolve: Resolver, *synonyms: str, dialects: frozenset[Dialect] = BOTH
) -> None:
    """Add an aggregate to the table."""
    _define(
        AGGREGATES, Aggregate(usage.partition("(")[0], usage, about, resolve, synonyms, dialects)
    )


def define_window(usage: str, about: str, resolve: Resolver) -> None:
    """Add a window function to the table."""
    _define(WINDOWS, Aggregate(usage.partition("(")[0], usage, about, resolve))


class Computation(NamedTuple):
    """Tells how an aggregate is computed.

    Attributes:
        accumulate: makes what takes batches, of a call and the types of its arguments.
        fold: says how it is computed in parts, given the types; None: it is not.
    """

    accumulate: Accumulate
    fold: MakeFold | None = None


def compute(*functions: str, accumulate: Accumulate, fold: MakeFold | None = None) -> None:
    """Say how aggregates are computed, by their canonical names."""
    COMPUTATIONS.update(dict.fromkeys(functions, Computation(accumulate, fold)))
