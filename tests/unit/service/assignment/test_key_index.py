import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pkray.service.assignment.key_index import ABSENT, KeyIndex, distinct, ordered, pack, unpack

HASHES = st.integers(-(2**31), 2**31 - 1) | st.sampled_from([-(2**31), -1, 0, 1, 2**31 - 1])


def int32(values) -> np.ndarray:
    return np.array(values, np.int32)


@given(st.lists(HASHES, max_size=50))
def test_hashes_are_ordered_with_their_rows(values):
    found = ordered(int32(values))
    assert unpack(found.wanted).tolist() == sorted(values)
    assert [values[row] for row in found.rows] == sorted(values)
    once, of_each = distinct(found.wanted)
    assert unpack(once).tolist() == sorted(set(values))
    assert once[of_each].tolist() == found.wanted.tolist()


@given(
    st.lists(st.dictionaries(HASHES, st.integers(0, 32766), max_size=20), max_size=8),
    st.lists(HASHES, max_size=20),
)
def test_an_index_finds_what_was_added_and_nothing_else(additions, others):
    index, expected = KeyIndex(), {}
    for added in additions:
        fresh = {h: b for h, b in added.items() if h not in expected}
        index.add(pack(int32(sorted(fresh))), int32([fresh[h] for h in sorted(fresh)]))
        expected.update(fresh)
    wanted = sorted({*others, *expected})
    assert index.find(pack(int32(wanted))).tolist() == [expected.get(h, ABSENT) for h in wanted]
    found = {}
    for hashes, buckets in index.items():
        found.update(zip(unpack(hashes).tolist(), buckets.tolist(), strict=True))
    assert found == expected


def test_runs_stay_few():
    index = KeyIndex()
    for step in range(500):
        index.add(pack(int32([step])), step)
    assert len(index._runs) <= 10
    assert len(index) == 500
