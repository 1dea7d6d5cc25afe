"""The columns that a node gives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from pkray.relational.plan.cached_value import cached_value
from pkray.relational.plan.expressions import ColumnRef
from pkray.schema.types import DataType


@dataclass(frozen=True)
class Field:
    """One column of a node.

    Attributes:
        is_rowtime: whether watermarks are about this column.
    """

    name: str
    type: DataType
    is_rowtime: bool = False

    def __str__(self) -> str:
        return f"{self.name} {self.type}" + (" *ROWTIME*" if self.is_rowtime else "")


@dataclass(frozen=True)
class Fields:
    """The columns of a node, in order; their names differ, also when case is ignored."""

    columns: tuple[Field, ...]
    _by_name: dict[str, Field] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {column.name: column for column in self.columns})

    def __iter__(self) -> Iterator[Field]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, name: str) -> Field:
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    @cached_value
    def names(self) -> tuple[str, ...]:
        """List the columns' names."""
        return tuple(column.name for column in self.columns)

    @cached_value
    def arrow(self) -> pa.Schema:
        """Give the Arrow schema of the rows."""
        return pa.schema(
            [
                pa.field(column.name, column.type.arrow, column.type.nullable)
                for column in self.columns
            ]
        )

    @property
    def refs(self) -> tuple[tuple[str, ColumnRef], ...]:
        """Give each column as an expression, under its name."""
        return tuple((each.name, ColumnRef(each.type, each.name)) for each in self.columns)

    def ref(self, name: str) -> ColumnRef:
        """Give a column as an expression."""
        return ColumnRef(self[name].type, name)

    def only(self, names: Iterable[str]) -> Fields:
        """Take some columns, in the order given."""
        return Fields(tuple(self[name] for name in names))

    def __add__(self, other: Fields) -> Fields:
        return Fields((*self.columns, *other.columns))


def distinct_names(names: Iterable[str], taken: Iterable[str] = ()) -> tuple[str, ...]:
    """Give each name that was there before (case ignored) the first free number: ``k``, ``k0``."""
    seen = {name.lower() for name in taken}
    result = []
    for name in names:
        fresh, number = name, 0
        while fresh.lower() in seen:
            fresh, number = f"{name}{number}", number + 1
        seen.add(fresh.lower())
        result.append(fresh)
    return tuple(result)
