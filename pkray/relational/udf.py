"""Users' functions over Arrow arrays: a value a row, rows for a row, or a value a group.

::

    @udf("BIGINT")
    def doubled(x: pa.Array) -> pa.Array:
        return pc.multiply(x, 2)

    @udtf("word STRING, length INT")
    def words(text: pa.Array) -> pa.RecordBatch:    # a column _row says of which row each is
        parts = pc.split_pattern(text, " ")
        word = pc.list_flatten(parts)
        rows = pc.list_parent_indices(parts)
        return pa.record_batch({"_row": rows, "word": word, "length": pc.utf8_length(word)})

    @udaf("DOUBLE")
    def spread(x: pa.Array) -> float:               # the rows of one group
        return pc.max(x).as_py() - pc.min(x).as_py()

Arguments come as arrays of one length, NULLs included. A function may be called with no rows, and
for any part of the rows; it must not keep state.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pkray.relational.api.column import Column, expression
from pkray.relational.functions.user_functions import ROW as ROW
from pkray.relational.functions.user_functions import UdfKind, UserFunction
from pkray.relational.plan.fields import Field
from pkray.relational.sql.syntax import UserCall
from pkray.schema.types import DataType


@dataclass(frozen=True)
class Udf(UserFunction):
    """A user's function, which a relation's methods take."""

    def __call__(self, *columns: object) -> Column:
        """Call it in a relation's methods: ``rel.select(doubled(rel.x))``.

        Args:
            columns: columns, SQL text or constants.
        """
        return Column(UserCall(this=self, expressions=[expression(each) for each in columns]))


def udf(
    result_type: str | DataType,
    *,
    arguments: Sequence[str | DataType] | None = None,
    name: str | None = None,
    deterministic: bool = True,
) -> Callable[[Callable[..., Any]], Udf]:
    """Make a function of Arrow arrays a scalar function of queries.

    Args:
        result_type: ``"BIGINT"``; NULLs are refused if it is NOT NULL.
        arguments: types that arguments are cast to; by default they come as they are.
        name: as queries call it; by default the Python function's.
        deterministic: whether equal arguments give equal results.
    """
    kind = DataType.given(result_type)
    return _making(UdfKind.SCALAR, kind, (), arguments, name, deterministic)


def udtf(
    columns: str,
    *,
    arguments: Sequence[str | DataType] | None = None,
    name: str | None = None,
    deterministic: bool = True,
) -> Callable[[Callable[..., Any]], Udf]:
    """Make a function a table function: rows for each row.

    It gives a ``pa.RecordBatch`` of the columns with a column ``_row`` (integers from 0: of which
    row each is), or with a list a row in every column; or a list array of structs.

    Args:
        columns: ``"word STRING, length INT"``.
        arguments, name, deterministic: as of `udf`.
    """
    kind = DataType.parse(f"ROW<{columns}>")
    fields = tuple(Field(each.name, each.type) for each in kind.fields or ())
    return _making(UdfKind.TABLE, kind, fields, arguments, name, deterministic)


def udaf(
    result_type: str | DataType,
    *,
    arguments: Sequence[str | DataType] | None = None,
    name: str | None = None,
    deterministic: bool = True,
) -> Callable[[Callable[..., Any]], Udf]:
    """Make a function an aggregate: it takes the rows of one group and gives one value.

    Args:
        result_type, arguments, name, deterministic: as of `udf`.
    """
    kind = DataType.given(result_type)
    return _making(UdfKind.AGGREGATE, kind, (), arguments, name, deterministic)


def _making(
    kind: UdfKind,
    result: DataType,
    fields: tuple[Field, ...],
    arguments: Sequence[str | DataType] | None,
    name: str | None,
    deterministic: bool,
) -> Callable[[Callable[..., Any]], Udf]:
    types = None if arguments is None else tuple(DataType.given(each) for each in arguments)
    return lambda function: Udf(
        name or function.__name__, kind, function, result, fields, types, deterministic
    )
