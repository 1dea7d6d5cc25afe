"""The rows of a key are one worker's, and never change it but when their number does."""

import numpy as np
import pyarrow as pa

from pkray.relational.continuous.exchange.peers import KEY_GROUPS, key_groups, workers_of
from pkray.relational.continuous.state.encoding import encoded

NUMBERS = encoded([pa.array(range(10_000))])


def test_groups_stay_what_they_are_as_stored_states_rest_on_them() -> None:
    keys = pa.array([b"", b"a", b"\0\0", b"pkray", b"a key of more than eight bytes"], pa.binary())
    assert key_groups(keys).tolist() == [0, 240, 234, 381, 757]


def test_no_keys_have_no_groups() -> None:
    assert not len(key_groups(pa.array([], pa.binary())))


def test_workers_get_about_as_many_keys_each() -> None:
    for count in (2, 3, 7):
        found = np.bincount(workers_of(NUMBERS, count), minlength=count)
        assert len(found) == count
        assert found.min() > 0.8 * len(NUMBERS) / count


def test_all_groups_are_dealt() -> None:
    assert set(key_groups(NUMBERS)) == set(range(KEY_GROUPS))
