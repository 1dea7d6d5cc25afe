"""Define what an aggregate function is."""

from abc import ABC, abstractmethod
from typing import ClassVar

import pyarrow as pa

from pkray.errors import MergeError, SchemaError
from pkray.lsm.engines.segments import Segments, take_numbers
from pkray.options.fields import FieldOptions
from pkray.schema.types import DataType


class AggregateFunction(ABC):
    """Merges the values of one column.

    Merged values can be merged again with what came before or after them.

    Args:
        field: the column.
        data_type: of the column.
        options: ``fields.<field>.*``.

    Raises:
        SchemaError: the function is not for columns of this type.

    Attributes:
        name: as ``fields.<field>.aggregate-function`` says it.
        takes_back: -U and -D take their value back; others are an error unless
            ``fields.<field>.ignore-retract`` is set.
        any_order: the result is the same whatever order the rows of a key come in.
        by_arrival: a sequence group's late rows count where they come, not before what is there.
        knows_late: they come to it as they came, and marked (``Segments.late``).
        skips_late: a sequence group's late rows do not count, unless they take back.
        late_replaces: a sequence group's late row gives its value, null or not, but for those
            before the first value (see `SequenceGroupMerger`).
        skips_nulls: of those, nulls are no first value.
        image_replaces: a merged value that is merged with one of those it was made of stays as it
            is, whatever was taken back in between.
        keeps_single: the only value of a key is its result.
        roots: the only types it is for; None: others are refused when values are to be merged.
    """

    name: ClassVar[str]
    takes_back: ClassVar[bool] = False
    any_order: ClassVar[bool] = False
    by_arrival: bool = False
    knows_late: ClassVar[bool] = False
    skips_late: ClassVar[bool] = False
    late_replaces: ClassVar[bool] = False
    skips_nulls: ClassVar[bool] = False
    image_replaces: bool = False
    keeps_single: bool = True
    roots: ClassVar[tuple[str, ...] | None] = None

    def __init__(self, field: str, data_type: DataType, options: FieldOptions) -> None:
        self.field = field
        self.data_type = data_type
        self.ignores_retract = options.ignore_retract
        if self.roots is not None and data_type.root not in self.roots:
            raise SchemaError(
                f"column {field!r} is {data_type}; the aggregate function {self.name!r} takes "
                f"{' or '.join(self.roots)}",
                field=field,
                function=self.name,
                type=str(data_type),
            )

    @property
    def merges_its_type(self) -> bool:
        """Whether several values of the column's type become one."""
        return True

    def __call__(self, column: pa.Array, rows: Segments) -> pa.Array:
        """Merge one value a key.

        Raises:
            MergeError: the function cannot take rows back, or cannot merge the column's type.
        """
        if rows.retract is not None and not rows.retract.any():
            rows = rows.adds()
        if rows.retract is not None:
            if self.ignores_retract:
                rows = rows.adds()
            elif not self.takes_back:
                raise MergeError(
                    f"column {self.field!r}: the aggregate function {self.name!r} cannot take "
                    "back a -U or -D row; set "
                    f"'fields.{self.field}.ignore-retract' = 'true' to ignore such rows",
                    field=self.field,
                    function=self.name,
                )
        if not len(rows):
            return pa.nulls(rows.keys, column.type)
        return self.merge(column, rows)

    @abstractmethod
    def merge(self, column: pa.Array, rows: Segments) -> pa.Array:
        """Merge one value a key; ``rows`` has some, and those that take back only if it can."""


class SkippingNulls(AggregateFunction):
    """Merges the values that are not null; a key that has none gets null."""

    def merge(self, column: pa.Array, rows: Segments) -> pa.Array:
        rows = rows.valid(column)
        if not len(rows):
            return pa.nulls(rows.keys, column.type)
        if not self.merges_its_type:
            return self._single(column, rows)
        return self.merge_values(column, rows)

    @abstractmethod
    def merge_values(self, column: pa.Array, rows: Segments) -> pa.Array:
        """Merge as `merge`, values that are not null."""

    def _single(self, column: pa.Array, rows: Segments) -> pa.Array:
        """Take a key's one value, where the function cannot merge the type.

        Raises:
            MergeError: a key has several values, or takes one back.
        """
        if len(rows.order) > len(rows) or rows.retract is not None:
            raise MergeError(
                f"column {self.field!r} is {self.data_type}, which the aggregate function "
                f"{self.name!r} cannot merge; choose another function",
                field=self.field,
                function=self.name,
                type=str(self.data_type),
            )
        return take_numbers(column, rows.numbers(rows.starts))
