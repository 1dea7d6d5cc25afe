"""Two results are compared as bags of rows."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from pkray.relational.continuous.queries.verification.comparison import (
    SHOWN_ROWS,
    Surplus,
    differences,
)
from pkray.relational.sources.rows import fields_of


def compared(expected: pa.Table, given: pa.Table, memory: int | None = None) -> list[Surplus]:
    fields = fields_of(expected.schema)
    return list(differences(expected.to_batches(), given.to_batches(), fields, memory))


def bag(table: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def test_rows_are_missing_or_extra_as_often_as_they_differ():
    expected = pa.table({"a": [1, 1, 2, None], "b": ["x", "x", None, "y"]})
    given = pa.table({"a": [1, 2, 2, 3], "b": ["x", None, None, "z"]})
    missing, extra = compared(expected, given)
    assert bag(missing.first) == Counter([(1, "x"), (None, "y")])
    assert bag(extra.first) == Counter([(2, None), (3, "z")])


@pytest.mark.parametrize("memory", [None, 20_000])
def test_rows_that_do_not_fit_in_memory_are_compared_all_the_same(memory):
    numbers = np.arange(20_000)
    expected = pa.table({"a": numbers, "b": numbers % 7 / 3})
    given = pa.concat_tables([expected.slice(3), pa.table({"a": [-1] * 2, "b": [0.0] * 2})])
    missing, extra = compared(
        expected, given.take(np.random.default_rng(1).permutation(19_999)), memory
    )
    assert bag(missing.first) == bag(expected.slice(0, 3))
    assert bag(extra.first) == Counter({(-1, 0.0): 2})


def test_sums_of_floats_in_another_order_are_equal():
    expected = pa.table({"a": [0.1 + 0.2, -0.0, float("nan")]})
    given = pa.table({"a": [float("nan"), 0.3, 0.0]})
    assert [each.rows for each in compared(expected, given)] == [0, 0]


def test_a_report_holds_the_first_rows_and_counts_all():
    missing, extra = compared(pa.table({"a": np.arange(5000)}), pa.table({"a": np.arange(10)}))
    assert (missing.rows, missing.first.num_rows, extra.rows) == (4990, SHOWN_ROWS, 0)


def test_results_without_columns_or_rows_are_compared():
    nothing = pa.table({"a": pa.array([], pa.int64())})
    assert [each.rows for each in compared(nothing, nothing)] == [0, 0]
