"""The values so far of an aggregate, which batches of rows are added to."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.batches import whole
from pkray.errors import UnsupportedError
from pkray.relational.plan.aggregates import facts
from pkray.relational.plan.expressions import AggregateCall

Arrays: TypeAlias = Sequence[pa.Array]
Accumulate: TypeAlias = "Callable[[AggregateCall, Sequence[pa.DataType]], Accumulator]"


class Accumulator(ABC):
    """The values so far of one aggregate."""

    required = slice(None)
    """Which arguments must not be NULL; rows where one is are left out."""

    def __init__(self, call: AggregateCall, types: Sequence[pa.DataType] = ()) -> None:
        self.call = call

    def update(
        self,
        groups: np.ndarray,
        count: int,
        arguments: Arrays,
        filter: pa.Array | None = None,
        order: Arrays = (),
    ) -> None:
        """Take a batch of rows.

        Args:
            groups: int64, one a row, 0 … count - 1; a number means the same group in each batch.
            count: how many groups there are so far; it never shrinks.
            arguments: of the call's arguments, one value a row; none for ``COUNT(*)``.
            filter: only rows where it is true are taken.
            order: the columns of ``call.order_by``, one value a row.
        """
        groups = groups.astype(np.int64, copy=False)
        check_size(self.call, [column.nbytes for column in (*arguments, *order) if _offset(column)])
        columns = [whole(column) for column in (*arguments, *order)]
        kept = self._kept(columns[: len(arguments)], filter)
        if kept is not None:
            rows = np.flatnonzero(kept)
            groups, taken = groups[rows], pa.array(rows)
            columns = [column.take(taken) for column in columns]
        if len(groups):
            self._add(groups, count, columns)

    def _kept(self, arguments: Arrays, filter: pa.Array | None) -> np.ndarray | None:
        """Say which rows are taken; None: all."""
        kept = None if filter is None else np.asarray(pc.fill_null(whole(filter), False))
        for column in arguments[self.required]:
            if column.null_count:
                valid = np.asarray(column.is_valid())
                kept = valid if kept is None else kept & valid
        return kept

    @abstractmethod
    def _add(self, groups: np.ndarray, count: int, columns: Arrays) -> None:
        """Take rows that count, the columns of the order last."""

    @abstractmethod
    def finish(self, count: int) -> pa.Array:
        """Give the value of each of `count` groups.

        Raises:
            EvaluationError: a sum does not fit its type.
        """


MOST_BYTES = (1 << 31) - 1
"""Bytes of texts or lists that one column takes: offsets of texts and lists have 32 bits."""


def check_size(call: AggregateCall, sizes: Sequence[int]) -> None:
    """Refuse more texts and lists than a column takes, before they are put into one.

    Args:
        sizes: bytes of each column.

    Raises:
        UnsupportedError: one is too large.
    """
    size = max(sizes, default=0)
    if size > MOST_BYTES:
        raise UnsupportedError(
            f"{call.function}({', '.join(call.arguments)}) keeps values of {size} bytes at once; "
            f"at most {MOST_BYTES} fit in a column: filter rows, group by more keys, or run on "
            "Spark",
            function=call.function,
            size=size,
        )


def _offset(column: pa.Array | pa.ChunkedArray) -> bool:
    """Whether values have offsets into other values."""
    return not pa.types.is_primitive(column.type)


def required_arguments(call: AggregateCall) -> slice:
    """Say which arguments must not be NULL."""
    known = facts(call.function)
    ignored = call.ignore_nulls or any(each.value is True for each in call.parameters)
    return slice(0, 0) if known.keeps_nulls and not ignored else slice(known.required_from, None)
