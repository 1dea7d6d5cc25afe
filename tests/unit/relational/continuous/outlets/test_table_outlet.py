"""What of the net changes of an epoch is written into a table."""

from pkray.relational.continuous.outlets.table_parts import last_of_keys
from tests.unit.relational.continuous.histories import kinds_of
from tests.unit.relational.continuous.test_changes import DELETE, INSERT, changes


def test_a_row_that_comes_before_the_one_it_replaces_goes_is_written():
    found = last_of_keys(changes((INSERT, 1, 2), (DELETE, 1, 1)), ["id", "v"], ["id"])
    assert kinds_of(found) == [("+I", (1, 2))]


def test_of_rows_of_one_key_the_last_is_written():
    found = last_of_keys(changes((INSERT, 1, 2), (INSERT, 1, 3)), ["id", "v"], ["id"])
    assert kinds_of(found) == [("+I", (1, 3))]
