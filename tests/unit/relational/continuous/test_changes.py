"""The net changes of keys and of rows."""

import numpy as np
import pyarrow as pa

from pkray.relational.continuous.changes import Changes, Order, netted
from tests.unit.relational.continuous.histories import kinds_of

INSERT, BEFORE, AFTER, DELETE = range(4)


def changes(*rows: tuple[int, int, int]) -> Changes:
    kinds, ids, values = zip(*rows, strict=True)
    batch = pa.RecordBatch.from_pydict({"id": list(ids), "v": list(values)})
    return Changes(batch, np.array(kinds, np.int8))


def test_of_a_key_the_first_row_goes_and_the_last_one_comes() -> None:
    given = changes((BEFORE, 1, 1), (AFTER, 1, 2), (BEFORE, 1, 2), (AFTER, 1, 3))
    assert kinds_of(netted(given, ["id"])) == [("-U", (1, 1)), ("+U", (1, 3))]


def test_a_row_that_comes_and_goes_is_no_change() -> None:
    assert not len(netted(changes((INSERT, 1, 1), (DELETE, 1, 1)), ["id"]))


def test_a_new_row_may_come_before_the_old_one_of_its_key_goes() -> None:
    given = changes((INSERT, 1, 2), (INSERT, 2, 5), (DELETE, 1, 1))
    assert kinds_of(netted(given, ["id"], Order.MOVING)) == [
        ("-D", (1, 1)),
        ("+I", (1, 2)),
        ("+I", (2, 5)),
    ]


def test_a_row_that_replaced_another_and_goes_takes_that_away() -> None:
    given = changes((INSERT, 1, 2), (DELETE, 1, 2))
    assert kinds_of(netted(given, ["id"], Order.REPLACING)) == [("-D", (1, 2))]
