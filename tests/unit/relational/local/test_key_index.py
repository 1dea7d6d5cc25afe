"""Rows by their keys, against a look at every pair."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkray.relational.local.key_index import KeyIndex, cut_ranges

KINDS = {
    pa.int32(): st.integers(-3, 3),
    pa.int64(): st.sampled_from([-(2**63), 2**63 - 1, 0, 1]),
    pa.string(): st.sampled_from(["", "a", "b"]),
    pa.float64(): st.sampled_from([0.0, -0.0, float("nan"), 1.5]),
    pa.date32(): st.sampled_from([0, 1, 20_000]),
}


def same(a: Any, b: Any) -> bool:
    """Whether two values that are not NULL are equal as keys: by bits, NaN being one."""
    return repr(a) == repr(b)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(data=st.data())
def test_ranges_hold_the_rows_of_equal_keys(kind: pa.DataType, data: st.DataObject) -> None:
    safe = data.draw(st.lists(st.booleans(), min_size=1, max_size=3))
    row = st.tuples(*(st.one_of(st.none(), KINDS[kind]) for _ in safe))
    left, right = (data.draw(st.lists(row, max_size=8)) for _ in range(2))
    columns = [
        [pa.chunked_array([pa.array([row[i] for row in side], kind)]) for i in range(len(safe))]
        for side in (left, right)
    ]
    index = KeyIndex.of(columns[1], safe)
    starts, lengths = index.ranges(columns[0])
    for i, ours in enumerate(left):
        expected = {
            j
            for j, theirs in enumerate(right)
            if all(
                (a is None and b is None and null)
                or (a is not None and b is not None and same(a, b))
                for a, b, null in zip(ours, theirs, safe, strict=True)
            )
        }
        found = index.order[starts[i] : starts[i] + lengths[i]].tolist()
        assert (set(found), len(found)) == (expected, len(expected))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 7)), max_size=9), st.integers(1, 5))
def test_ranges_are_cut_without_a_place_lost(ranges: list[tuple[int, int]], most: int) -> None:
    starts, lengths = (np.array([each[i] for each in ranges], np.int64) for i in range(2))
    pieces = list(cut_ranges(starts, lengths, most))
    assert all(0 < len(rows) <= most for rows, _ in pieces)
    found = [pair for piece in pieces for pair in zip(*map(np.ndarray.tolist, piece), strict=True)]
    assert found == [
        (row, start + place)
        for row, (start, length) in enumerate(ranges)
        for place in range(length)
    ]
