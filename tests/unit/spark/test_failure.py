"""pkray's errors through Spark's texts."""

from __future__ import annotations

import pytest

from pkray.errors import CommitConflictError, CommitUnknownError, InputError, LostBatchesError
from pkray.spark.failure import TaskFailure, carried, recovered, reported, worth_another_run


def test_an_error_comes_back_with_its_type_message_and_values():
    with (
        pytest.raises(InputError, match="column 'id' is null") as caught,
        recovered(),
        reported(),
    ):
        raise InputError("column 'id' is null in row 3", column="id", row=3)
    assert (caught.value.column, caught.value.row) == ("id", 3)


def test_an_error_comes_back_from_the_middle_of_a_stack_trace():
    failure = TaskFailure(LostBatchesError("push again", sources=[4]))
    text = f"Job aborted: task 0.0 failed:\nTraceback:\n  File x\n{failure}\n\n\tat org.apache.y"
    assert carried(RuntimeError(text)).sources == [4]


def test_an_error_of_someone_else_stays_as_it_is():
    with pytest.raises(ZeroDivisionError), recovered(), reported():
        raise ZeroDivisionError


def test_a_damaged_mark_carries_nothing():
    assert carried(RuntimeError("[pkray:AAAA]")) is None


def test_an_error_of_the_chain_is_found():
    cause = TaskFailure(InputError("no"))
    failure = RuntimeError("outer")
    failure.__cause__ = cause
    assert isinstance(carried(failure), InputError)


def test_lost_service_and_lost_answers_are_worth_another_run():
    assert worth_another_run(LostBatchesError("x"))
    assert worth_another_run(CommitUnknownError("x"))
    assert not worth_another_run(InputError("x"))
    assert not worth_another_run(CommitConflictError("x"))
