"""The net changes of keys and of rows."""

import numpy as np
import pyarrow as pa

from pkray.relational.continuous.changes import Changes, Order, concatenated, netted, updates
from pkray.relational.plan.fields import Field, Fields
from pkray.schema.casts import relabelled
from pkray.schema.types import DataField, DataType
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
        ("-U", (1, 1)),
        ("+U", (1, 2)),
        ("+I", (2, 5)),
    ]


def test_a_row_that_replaced_another_and_goes_takes_that_away() -> None:
    given = changes((INSERT, 1, 2), (DELETE, 1, 2))
    assert kinds_of(netted(given, ["id"], Order.REPLACING)) == [("-D", (1, 2))]


def test_a_row_that_takes_the_place_of_its_keys_is_an_update() -> None:
    given = changes((DELETE, 1, 1), (INSERT, 2, 5), (INSERT, 1, 2))
    assert kinds_of(netted(given, ["id"])) == [("+I", (2, 5)), ("-U", (1, 1)), ("+U", (1, 2))]


def test_a_new_key_that_changes_at_once_is_inserted() -> None:
    given = changes((INSERT, 1, 1), (BEFORE, 1, 1), (AFTER, 1, 2))
    assert kinds_of(netted(given, ["id"])) == [("+I", (1, 2))]


def test_a_key_that_changes_before_it_goes_is_deleted() -> None:
    given = changes((BEFORE, 1, 1), (AFTER, 1, 2), (DELETE, 1, 2))
    assert kinds_of(netted(given, ["id"])) == [("-D", (1, 1))]


def test_a_row_that_comes_again_without_the_one_before_stays_an_update() -> None:
    given = changes((AFTER, 1, 2), (DELETE, 1, 2), (INSERT, 1, 3))
    assert kinds_of(netted(given, ["id"])) == [("+U", (1, 3))]


def test_updates_are_made_of_a_row_of_a_key_that_goes_and_one_that_comes() -> None:
    given = changes((INSERT, 1, 2), (DELETE, 2, 7), (INSERT, 3, 1), (DELETE, 1, 1), (AFTER, 4, 1))
    assert kinds_of(updates(given, ["id"])) == [
        ("-U", (1, 1)),
        ("+U", (1, 2)),
        ("-D", (2, 7)),
        ("+I", (3, 1)),
        ("+U", (4, 1)),
    ]


def test_updates_stay_with_the_rows_that_follow_them() -> None:
    given = changes((BEFORE, 2, 3), (AFTER, 1, 1), (BEFORE, 3, 4), (AFTER, 2, 9))
    assert kinds_of(updates(given, ["id"])) == kinds_of(given)


def test_rows_that_share_what_should_be_a_key_stay_as_they_are() -> None:
    given = changes((DELETE, 1, 1), (DELETE, 1, 2), (INSERT, 1, 3))
    assert kinds_of(updates(given, ["id"])) == kinds_of(given)


def test_null_rows_whose_parts_are_not_null_are_joined() -> None:
    pair = DataType("ROW", fields=(DataField(0, "a", DataType("INT").with_nullable(False)),))
    fields = Fields((Field("x", pair),))
    rows = pa.RecordBatch.from_arrays(
        [relabelled(pa.array([None, {"a": 1}], pa.struct([("a", pa.int32())])), pair.arrow)],
        schema=fields.arrow,
    )
    joined = concatenated(fields, [Changes.of_kind(rows), Changes.of_kind(rows)])
    assert joined.column("x").to_pylist() == [None, {"a": 1}] * 2
