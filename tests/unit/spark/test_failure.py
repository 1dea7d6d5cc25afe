"""pkray's errors through Spark's texts, and Spark's own as pkray's."""

import base64
import pickle

import pytest
from py4j.protocol import Py4JJavaError, Py4JNetworkError

from pkray import plain_error
from pkray.errors import (
    CommitConflictError,
    CommitUnknownError,
    InputError,
    LostBatchesError,
    ServiceError,
    ServiceUnavailableError,
)
from pkray.spark.failure import ErrorChannel, TaskFailure, typed, worth_another_run
from tests.touching import Touch

ERRORS = ErrorChannel("5ec7e7")


def mark(data: bytes, secret: str = "") -> str:
    return f"[pkray:{secret}{base64.b64encode(data).decode()}]"


def test_an_error_comes_back_with_its_type_message_and_values():
    with (
        pytest.raises(InputError, match="column 'id' is null") as caught,
        ERRORS.recovered(),
        ERRORS.reported(),
    ):
        raise InputError("column 'id' is null in row 3", column="id", row=3)
    assert (caught.value.column, caught.value.row) == ("id", 3)


def test_an_error_comes_back_from_the_middle_of_a_stack_trace():
    failure = TaskFailure(LostBatchesError("push again", sources=[4]), ERRORS.secret)
    text = f"Job aborted: task 0.0 failed:\nTraceback:\n  File x\n{failure}\n\n\tat org.apache.y"
    assert ERRORS.carried(RuntimeError(text)).sources == [4]


def test_an_error_of_someone_else_stays_as_it_is():
    with pytest.raises(ZeroDivisionError), ERRORS.recovered(), ERRORS.reported():
        raise ZeroDivisionError


@pytest.mark.parametrize("secret", ["", "5ec7e7:"])
def test_a_pickle_in_a_text_is_never_opened(secret, tmp_path):
    text = mark(pickle.dumps(Touch(tmp_path / "ran")), secret)
    with pytest.raises(ValueError, match="malformed"), ERRORS.recovered():
        raise ValueError(f"[CAST_INVALID_INPUT] The value '{text}' is malformed")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("secret", ["", "0123456789abcdef:", ".*:", "[0-9a-f]+:"])
def test_data_that_imitate_an_error_do_not_stand_for_it(secret):
    imitated = mark(plain_error.encode(CommitUnknownError("commit again")), secret)
    with pytest.raises(ValueError, match="The value"), ERRORS.recovered():
        raise ValueError(f"The value '{imitated}' is malformed")


def test_data_that_imitate_an_error_do_not_hide_the_true_one():
    imitated = mark(plain_error.encode(CommitUnknownError("commit again")), "0:")
    with pytest.raises(InputError, match="no number"), ERRORS.recovered(), ERRORS.reported():
        raise InputError(f"{imitated} is no number")


def test_each_job_has_a_secret_of_its_own():
    failure = TaskFailure(InputError("no"), ErrorChannel().secret)
    assert ErrorChannel().carried(failure) is None


def test_a_secret_is_not_shown():
    assert ERRORS.secret not in repr(ERRORS)


@pytest.mark.parametrize("data", ["AAAA", "A", "e30="])
def test_a_damaged_mark_carries_nothing(data):
    assert ERRORS.carried(RuntimeError(f"[pkray:5ec7e7:{data}]")) is None


def test_an_error_of_the_chain_is_found():
    failure = RuntimeError("outer")
    failure.__cause__ = TaskFailure(InputError("no"), ERRORS.secret)
    assert isinstance(ERRORS.carried(failure), InputError)


def test_lost_service_and_lost_answers_are_worth_another_run():
    assert worth_another_run(LostBatchesError("x"))
    assert worth_another_run(CommitUnknownError("x"))
    assert not worth_another_run(InputError("x"))
    assert not worth_another_run(CommitConflictError("x"))


class JavaError:
    """As py4j shows Java's: the condition is Spark's name of what is wrong."""

    _target_id, _gateway_client = "o1", None

    def __init__(self, message: str, condition: str | None) -> None:
        self._message, self._condition = message, condition

    def getMessage(self) -> str:  # noqa: N802
        return self._message

    def getCondition(self) -> str | None:  # noqa: N802
        return self._condition


def java_error(message: str, condition: str | None) -> Py4JJavaError:
    return Py4JJavaError("An error occurred while calling o1.x\n", JavaError(message, condition))


def test_a_killed_worker_is_an_error_of_the_service_and_worth_another_run():
    with pytest.raises(ServiceError, match="the Spark job failed: Python worker exited") as caught:
        with typed():
            raise java_error("Python worker exited unexpectedly (crashed).\n\tat org.x", None)
    assert worth_another_run(caught.value)
    assert isinstance(caught.value.__cause__, Py4JJavaError)


def test_a_cancelled_job_is_not_run_again():
    with pytest.raises(ServiceError, match="Job 6 cancelled") as caught, typed():
        raise java_error("[SPARK_JOB_CANCELLED] Job 6 cancelled", "SPARK_JOB_CANCELLED")
    assert caught.value.condition == "SPARK_JOB_CANCELLED"
    assert not worth_another_run(caught.value)


@pytest.mark.parametrize("gone", [ConnectionRefusedError(111, "refused"), Py4JNetworkError("")])
def test_a_spark_that_has_ended_is_unavailable(gone):
    with pytest.raises(ServiceUnavailableError, match=r"pkray\.spark\.stop\(\)") as caught, typed():
        raise gone
    assert not worth_another_run(caught.value)
