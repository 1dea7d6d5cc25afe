"""Aggregate functions by name (``fields.<field>.aggregate-function``).

An `AggregateFunction` merges one column of all keys at once, from values laid out as segments. Its
attributes say whether the order of rows matters and whether -U and -D rows can be taken back.
`FUNCTIONS` has them by name: ``arithmetic``, ``min_max``, ``boolean``, ``first_last``, ``text``,
``nested`` (lists, maps, rows) and ``sketches``.
"""

from pkray.errors import UnsupportedError
from pkray.lsm.engines.functions.arithmetic import Count, Product, Sum
from pkray.lsm.engines.functions.boolean import BoolAnd, BoolOr
from pkray.lsm.engines.functions.first_last import (
    FirstNonNullValue,
    FirstNotNullValue,
    FirstValue,
    LastNonNullValue,
    LastValue,
)
from pkray.lsm.engines.functions.function import AggregateFunction
from pkray.lsm.engines.functions.min_max import Max, Min
from pkray.lsm.engines.functions.nested import Collect, MergeMap, NestedUpdate
from pkray.lsm.engines.functions.sketches import HllSketch, RoaringBitmap32, ThetaSketch
from pkray.lsm.engines.functions.text import ListAgg
from pkray.options.fields import UNSUPPORTED_FUNCTIONS, FieldOptions
from pkray.schema.types import DataType

FUNCTIONS: dict[str, type[AggregateFunction]] = {
    function.name: function
    for function in (
        Sum,
        Product,
        Count,
        Min,
        Max,
        LastValue,
        LastNonNullValue,
        FirstValue,
        FirstNonNullValue,
        FirstNotNullValue,
        ListAgg,
        BoolAnd,
        BoolOr,
        Collect,
        MergeMap,
        NestedUpdate,
        RoaringBitmap32,
        HllSketch,
        ThetaSketch,
    )
}


def aggregate_function(
    name: str, field: str, data_type: DataType, options: FieldOptions
) -> AggregateFunction:
    """Make the function that merges a column.

    Raises:
        UnsupportedError: rbm64, or a name that nobody knows.
        SchemaError: the function is not for columns of this type.
        MissingExtraError: the function's library is not installed.
    """
    function = FUNCTIONS.get(name)
    if function is None:
        reason = UNSUPPORTED_FUNCTIONS.get(name)
        raise UnsupportedError(
            f"column {field!r}: the aggregate function {name!r} is not supported"
            f"{f', as {reason}' if reason else ''}; there are {', '.join(FUNCTIONS)}",
            field=field,
            function=name,
        )
    return function(field, data_type, options)


__all__ = ["FUNCTIONS", "AggregateFunction", "aggregate_function"]
