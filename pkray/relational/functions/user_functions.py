"""Call users' functions: Arrow arrays in, a value a row, rows or a value a group out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.batches import whole
from pkray.errors import EvaluationError, QueryError
from pkray.relational.functions.coercion import cast_to
from pkray.relational.plan.expressions import Expression, NamedFunction, UdfCall
from pkray.relational.plan.fields import Field
from pkray.schema.types import DataField, DataType

ROW = "_row"
"""The column of a table function's result that says of which row (from 0) each row is."""


class UdfKind(StrEnum):
    """Names what a function gives."""

    SCALAR = "scalar"
    TABLE = "table"
    AGGREGATE = "aggregate"


@dataclass(frozen=True)
class UserFunction(NamedFunction):
    """A user's function.

    Attributes:
        name: as queries call it.
        function: takes a ``pa.Array`` an argument, all of one length.
        type: of the result; of a table function a ROW of its columns.
        columns: of a table function's rows; empty for others.
        arguments: the types that arguments are cast to; None: any, as they come.
        deterministic: whether equal arguments give equal results.
    """

    name: str
    kind: UdfKind
    function: Callable[..., Any] = field(repr=False)
    type: DataType
    columns: tuple[Field, ...] = ()
    arguments: tuple[DataType, ...] | None = None
    deterministic: bool = True

    def typed(self, arguments: tuple[Expression, ...]) -> tuple[Expression, ...]:
        """Cast arguments to the declared types.

        Raises:
            QueryError: there are more or fewer than declared.
        """
        if self.arguments is None:
            return arguments
        if len(arguments) != len(self.arguments):
            raise QueryError(
                f"{self.name} takes {len(self.arguments)} arguments; {len(arguments)} given",
                function=self.name,
            )
        pairs = zip(arguments, self.arguments, strict=True)
        return tuple(cast_to(argument, wanted) for argument, wanted in pairs)

    def call(self, arguments: tuple[Expression, ...]) -> UdfCall:
        """Make the expression of a scalar function's call."""
        return UdfCall(self.type, self, self.typed(arguments))

    def evaluate(self, arguments: Sequence[pa.Array | pa.Scalar], rows: int) -> pa.Array:
        """Compute a value a row.

        Raises:
            EvaluationError: the function fails, or gives another number of values, another type, or
                NULLs where its type has none.
        """
        result = self._run([_spread(argument, rows) for argument in arguments])
        if isinstance(result, pa.Scalar):
            result = pa.repeat(result, rows)
        return self._checked(result, self.type, rows)

    def expand(
        self, arguments: Sequence[pa.Array | pa.Scalar], rows: int
    ) -> tuple[np.ndarray, list[pa.Array]]:
        """Compute rows for each row.

        Returns:
            for each row that comes out the number of the row it is of (int64, ascending), and its
            columns.

        Raises:
            EvaluationError: as `evaluate`; or the result has not the declared columns.
        """
        result = self._run([_spread(argument, rows) for argument in arguments])
        numbers, columns = self._rows(result, rows)
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= rows):
            raise self._error(f"its column {ROW} names a row that is not one of the {rows} given")
        typed = [
            self._checked(array, column.type, len(numbers))
            for array, column in zip(columns, self.columns, strict=True)
        ]
        if (np.diff(numbers) < 0).any():
            order = np.argsort(numbers, kind="stable")
            numbers, typed = numbers[order], [array.take(pa.array(order)) for array in typed]
        return numbers, typed

    def aggregate(self, groups: np.ndarray, count: int, arguments: Sequence[pa.Array]) -> pa.Array:
        """Compute a value a group, by a call a group.

        Args:
            groups: int64, one a row, 0 … count - 1.
        """
        order = np.argsort(groups, kind="stable")
        sorted_arguments = [array.take(pa.array(order)) for array in arguments]
        ends = np.cumsum(np.bincount(groups, minlength=count))
        values = []
        for start, end in zip(np.concatenate(([0], ends[:-1])), ends, strict=True):
            parts = [array.slice(start, end - start) for array in sorted_arguments]
            value = self._run(parts)
            values.append(value.as_py() if isinstance(value, pa.Scalar) else value)
        return self._checked(values, self.type, count)

    def _run(self, arguments: list[pa.Array]) -> Any:
        try:
            return self.function(*arguments)
        except Exception as error:
            raise self._error(f"{type(error).__name__}: {error}") from error

    def _rows(self, result: Any, rows: int) -> tuple[np.ndarray, list[Any]]:
        """Take the result of a table function apart: row numbers and columns."""
        names = [column.name for column in self.columns]
        if isinstance(result, pa.Array | pa.ChunkedArray) and pa.types.is_list(result.type):
            numbers, inside = self._from_lists(result, rows)
            return numbers, inside.flatten() if pa.types.is_struct(inside.type) else [inside]
        if not isinstance(result, pa.Table | pa.RecordBatch):
            raise self._error(f"it gave a {type(result).__name__}; give a pa.RecordBatch")
        missing = [name for name in names if name not in result.schema.names]
        if missing:
            raise self._error(
                f"its result has no column {missing[0]!r}; it has {', '.join(result.schema.names)}"
            )
        columns = [whole(result[name]) for name in names]
        if ROW in result.schema.names:
            numbers = self._checked(result[ROW], DataType("BIGINT", False), result.num_rows)
            return np.asarray(numbers), columns
        if not all(pa.types.is_list(column.type) for column in columns):
            raise self._error(f"its result needs a column {ROW}, or a list a row in every column")
        taken = [self._from_lists(column, rows) for column in columns]
        if any(not np.array_equal(numbers, taken[0][0]) for numbers, _ in taken):
            raise self._error("the lists of one row have different lengths")
        return taken[0][0], [inside for _, inside in taken]

    def _from_lists(self, lists: pa.Array | pa.ChunkedArray, rows: int) -> tuple[Any, pa.Array]:
        lists = whole(lists)
        if len(lists) != rows:
            raise self._error(f"it gave {len(lists)} lists for {rows} rows")
        numbers = np.asarray(pc.list_parent_indices(lists)).astype(np.int64)
        return numbers, pc.list_flatten(lists)

    def _checked(self, values: Any, wanted: DataType, rows: int) -> pa.Array:
        """Give an array of exactly this type and length."""
        try:
            array = whole(values) if hasattr(values, "type") else pa.array(values)
            if not array.type.equals(wanted.arrow):
                array = array.cast(wanted.arrow)
        except (pa.ArrowException, TypeError, ValueError, AttributeError) as error:
            raise self._error(f"its result is not {wanted}: {error}") from error
        if len(array) != rows:
            raise self._error(f"it gave {len(array)} values for {rows} rows")
        if array.null_count and not wanted.nullable:
            raise self._error(f"it gave NULL; its type is {wanted}")
        return array

    def _error(self, reason: str) -> EvaluationError:
        return EvaluationError(f"the function {self.name!r} failed: {reason}", function=self.name)


def rows_as_lists(table: UserFunction) -> UserFunction:
    """Make a table function a scalar one, which gives an ARRAY of its rows for each row."""
    element = DataType("ROW", nullable=False, fields=table.type.fields)
    kind = DataType("ARRAY", nullable=False, element=element)
    names = [column.name for column in table.columns]

    def listed(*arguments: pa.Array) -> pa.Array:
        rows = len(arguments[0])
        numbers, columns = table.expand(arguments, rows)
        ends = np.cumsum(np.bincount(numbers, minlength=rows))
        offsets = pa.array(np.concatenate(([0], ends)).astype(np.int32))
        return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(columns, names))

    return replace(table, kind=UdfKind.SCALAR, function=listed, type=kind, columns=())


def lists_as_groups(aggregate: UserFunction, types: Sequence[DataType]) -> UserFunction:
    """Make an aggregate a scalar function of an ARRAY of ROWs: the arguments of a group's rows.

    Args:
        types: of the arguments.
    """
    fields = tuple(DataField(place, f"arg{place}", each) for place, each in enumerate(types))
    element = DataType("ROW", nullable=False, fields=fields)
    given = DataType("ARRAY", nullable=False, element=element)

    def grouped(lists: pa.Array) -> pa.Array:
        columns = pc.list_flatten(lists).flatten()
        groups = np.asarray(pc.list_parent_indices(lists)).astype(np.int64)
        return aggregate.aggregate(groups, len(lists), columns)

    return replace(aggregate, kind=UdfKind.SCALAR, function=grouped, arguments=(given,))


def _spread(argument: pa.Array | pa.Scalar, rows: int) -> pa.Array:
    return pa.repeat(argument, rows) if isinstance(argument, pa.Scalar) else argument
