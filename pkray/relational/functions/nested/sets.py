"""Functions that take arrays as sets."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from pkray.columns.keys import argsort, codes, one_zero
from pkray.relational.functions.coercion import BOOLEAN, any_nullable
from pkray.relational.functions.function import Kernel, Value
from pkray.relational.functions.nested.arguments import ARRAY, NESTED, Values, element_of
from pkray.relational.functions.nested.arrays import compact, typed_as_joined
from pkray.relational.functions.nested.lists import Lists
from pkray.relational.functions.signatures import takes
from pkray.relational.functions.values import null_rows
from pkray.relational.plan.expressions import Call


def _set_kernel(kept: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Kernel:
    """Make a kernel of a set operation.

    Args:
        kept: of whether an element is of the first array, and whether its value is in the second,
            whether it is kept.
    """

    def kernel(call: Call, values: Values, rows: int) -> Value:
        kind = call.type.arrow.value_type
        parts = [Lists.of(value, rows) for value in values]
        joined = one_zero(pa.concat_arrays([part.values.cast(kind) for part in parts]))
        parents = np.concatenate([part.parents for part in parts])
        numbers = codes([pa.array(parents), joined], len(parents))
        is_first = np.arange(len(parents)) < len(parts[0].values)
        in_second = np.zeros(numbers.count, bool)
        in_second[numbers.of_row[~is_first]] = True
        first = numbers.first_rows()
        chosen = np.sort(first[kept(is_first[first], in_second[numbers.of_row[first]])])
        order = chosen[argsort([parents[chosen]], len(chosen))]
        lengths = np.bincount(parents[order], minlength=rows)
        result = Lists(lengths, joined.take(pa.array(order)))
        return result.array(call.type, null_rows(values, rows))

    return kernel


for _name, _about, _kept in (
    ("union", "Give the elements of both, each once.", np.logical_or),
    ("intersect", "Give the elements that are in both, each once.", np.logical_and),
    ("except", "Give the elements that are not in the second, each once.", np.greater),
):
    NESTED.infallible.add(
        f"array_{_name}(ARRAY, ARRAY) -> ARRAY",
        _about,
        takes(ARRAY, ARRAY, alike=True),
        _set_kernel(_kept),
        typed_as_joined,
    )


@NESTED.infallible.kernel(
    "arrays_overlap(ARRAY, ARRAY) -> BOOLEAN",
    "Whether they share an element.",
    takes(ARRAY, ARRAY, alike=True),
    lambda arguments: BOOLEAN.with_nullable(
        any_nullable(arguments) or any(element_of(each).nullable for each in arguments)
    ),
)
def _overlap_kernel(call: Call, values: Values, rows: int) -> Value:
    """Whether two arrays share an element; NULL where they do not and one of them has a NULL."""
    left, right = (Lists.of(value, rows) for value in values)
    some, others = compact(left), compact(right)
    joined = one_zero(pa.concat_arrays([some.values, others.values.cast(some.values.type)]))
    parents = np.concatenate([some.parents, others.parents])
    numbers = codes([pa.array(parents), joined], len(parents)).of_row
    shared = np.isin(numbers[: len(some.values)], numbers[len(some.values) :])
    found = np.zeros(rows, bool)
    found[some.parents[shared]] = True
    holes = (some.lengths < left.lengths) | (others.lengths < right.lengths)
    unknown = ~found & holes & (left.lengths > 0) & (right.lengths > 0)
    null = null_rows(values, rows)
    return pa.array(found, mask=unknown | null)
