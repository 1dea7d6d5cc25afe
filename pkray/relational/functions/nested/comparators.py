"""Arrays in the order of a comparison that the query writes."""

from typing import Any

import numpy as np
import pyarrow as pa

from pkray.errors import EvaluationError, QueryError
from pkray.relational.cancellation import checkpoint
from pkray.relational.functions.function import Value, Written, typed_call, wrong_argument
from pkray.relational.functions.nested.arguments import ARRAY, NESTED, Values, typed_as_first
from pkray.relational.functions.nested.lists import Lists
from pkray.relational.functions.values import as_array
from pkray.relational.plan.expressions import Call, Expression, Lambda

NAME = "array_sort_by"


def sorted_by(call: Written) -> Expression:
    """Resolve array_sort(array, (left, right) -> INT)."""
    _, body = call.exactly(2)
    ARRAY.taken(call, 0)
    if not isinstance(body, Lambda):
        raise wrong_argument("array_sort", 1, body, "a lambda such as (x, y) -> x - y")
    if len(body.parameters) != 2 or body.type.root != "INT":
        raise QueryError(
            f"the lambda of array_sort has {len(body.parameters)} parameters and gives "
            f"{body.type}: it takes two elements and gives an INT that is negative, 0 or positive",
            function="array_sort",
        )
    return typed_call(NAME, *call.arguments)


def _kernel(call: Call, values: Values, rows: int) -> Value:
    """Sort all arrays at once by merging runs; equal elements keep their order.

    Each element finds its place in the run beside its own by halving, so that arrays of n elements
    are compared in about log(n)² / 2 steps over all elements.
    """
    lists = Lists.of(values[0], rows)
    order = np.arange(len(lists.values))
    longest = int(lists.lengths.max(initial=0))
    width = 1
    while width < longest:
        order = _merged(order, lists, width, values[1])
        width *= 2
    return lists.chosen(order).array(call.type)


def _merged(order: np.ndarray, lists: Lists, width: int, compare: Any) -> np.ndarray:
    """Merge each two neighbouring runs of `width` elements of every array."""
    places, parents = lists.places, lists.parents
    run = places // width
    is_left = run % 2 == 0
    begins, ends = lists.begins[parents], (lists.begins + lists.lengths)[parents]
    pair = begins + (run - run % 2) * width
    middle = np.minimum(pair + width, ends)
    first = np.where(is_left, middle, pair)
    last = np.where(is_left, np.minimum(pair + 2 * width, ends), middle)
    found = _places_beside(order, lists, (first, last), is_left, compare)
    own = np.arange(len(order)) - np.where(is_left, pair, middle)
    target = pair + own + found - first
    merged = np.full(len(order), -1)
    merged[target] = order
    if (merged < 0).any():
        row = int(parents[np.argmin(merged)])
        raise EvaluationError(
            "the comparison of array_sort contradicts itself: where x is before y, y is not after "
            "x, or another element is between them and is not",
            function="array_sort",
            row=row,
        )
    return merged


def _places_beside(
    order: np.ndarray,
    lists: Lists,
    run: tuple[np.ndarray, np.ndarray],
    is_left: np.ndarray,
    compare: Any,
) -> np.ndarray:
    """Find where each element would stand in the run beside its own.

    Args:
        run: where that run begins and ends, one pair an element.
        is_left: whether an element's own run is the left one: it goes before equal elements.
    """
    low, high = run[0].copy(), run[1].copy()
    while True:
        checkpoint()
        open_ = np.flatnonzero(low < high)
        if not len(open_):
            return low
        middle = (low[open_] + high[open_]) // 2
        own, other = order[open_], order[middle]
        left = is_left[open_]
        one, two = np.where(left, own, other), np.where(left, other, own)
        signs = _signs(lists, one, two, compare)
        # A left element goes before the first of the right that is not less than it.
        goes_on = np.where(left, signs > 0, signs <= 0)
        low[open_] = np.where(goes_on, middle + 1, low[open_])
        high[open_] = np.where(goes_on, high[open_], middle)


def _signs(lists: Lists, one: np.ndarray, two: np.ndarray, compare: Any) -> np.ndarray:
    parents = lists.parents[one]
    parameters = [lists.values.take(pa.array(each)) for each in (one, two)]
    signs = as_array(compare(parameters, pa.array(parents), len(one)), len(one))
    if signs.null_count:
        row = int(parents[np.asarray(signs.is_null())][0])
        raise EvaluationError(
            "the comparison of array_sort gives NULL: give a negative number, 0 or a positive one",
            function="array_sort",
            row=row,
        )
    return np.asarray(signs)


NESTED.add_inner(
    NAME,
    "Sort elements by a comparison.",
    _kernel,
    typed_as_first,
    lambda call, arguments: f"array_sort({', '.join(arguments)})",
)
