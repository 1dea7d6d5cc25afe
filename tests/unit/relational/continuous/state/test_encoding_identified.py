import itertools
import random

import numpy as np
import pyarrow as pa
import pytest

from pkray.columns.keys import codes
from pkray.relational.continuous.state.encoding import identified

COLUMNS = {
    "number": pa.array([None, 0, 1, -1, 2**40], pa.int64()),
    "float": pa.array([None, 0.0, -0.0, float("nan"), 1.5]),
    "text": pa.array([None, "", "\x00", "a\x00", "a"]),
    "list": pa.array([None, [], [None], [1], [1, None]], pa.list_(pa.int32())),
    "row": pa.array([None, {"a": None}, {"a": ""}, {"a": "x"}, {"a": "\x01"}]),
    "flag": pa.array([None, True, False, None, True]),
}


@pytest.mark.parametrize("names", [*itertools.combinations(COLUMNS, 2), tuple(COLUMNS)])
def test_rows_have_equal_keys_where_they_are_equal(names: tuple[str, ...]) -> None:
    rng = random.Random(str(names))
    rows = pa.array([rng.randrange(5) for _ in range(400)])
    columns = [COLUMNS[name].take(pa.array(rng.sample(rows.to_pylist(), 400))) for name in names]
    keys = codes([identified(columns)], 400).of_row
    wanted = codes(columns, 400).of_row
    pairs = np.unique(np.stack([keys, wanted]), axis=1)
    assert len(pairs[0]) == len(np.unique(keys)) == len(np.unique(wanted))


def test_rows_without_columns_are_equal() -> None:
    assert identified([], 3).to_pylist() == [b"", b"", b""]
