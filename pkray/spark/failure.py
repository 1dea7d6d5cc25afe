"""Turns what goes wrong in Spark into pkray's errors."""

import base64
import binascii
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from pkray import plain_error
from pkray.errors import CommitUnknownError, PkrayError, ServiceError, ServiceUnavailableError

_SHOWN_CHARACTERS = 400
"""Of Spark's message; its log has all of it."""


class TaskFailure(Exception):
    """A pkray error inside a Spark task: its message, and itself as a mark in the text."""

    def __init__(self, error: PkrayError, secret: str) -> None:
        text = base64.b64encode(plain_error.encode(error)).decode()
        super().__init__(f"{type(error).__name__}: {error}\n[pkray:{secret}:{text}]")


@dataclass(frozen=True)
class ErrorChannel:
    """Brings pkray errors from the tasks of one Spark job to its driver.

    Spark carries the text of an exception alone, and its own texts quote values of the data. A
    mark in them counts therefore only with a secret of the job, which the driver makes and Spark
    ships with the tasks' code; data that imitate a mark change nothing.
    """

    secret: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)

    @contextmanager
    def reported(self) -> Iterator[None]:
        """Let a pkray error leave a task as a `TaskFailure`."""
        try:
            yield
        except PkrayError as error:
            raise TaskFailure(error, self.secret) from None

    @contextmanager
    def recovered(self) -> Iterator[None]:
        """Raise on the driver the pkray error that a Spark error carries, else as `typed`."""
        with typed():
            try:
                yield
            except PkrayError:
                raise
            except Exception as failure:
                error = self.carried(failure)
                if error is None:
                    raise
                raise error from None

    def carried(self, failure: BaseException) -> PkrayError | None:
        """Find the pkray error of this job's that a Spark error carries; None without."""
        mark = re.compile(rf"\[pkray:(?:{self.secret}|{FRAMES.secret}):([A-Za-z0-9+/=]+)\]")
        for text in _texts(failure):
            if match := mark.search(text):
                try:
                    return plain_error.decode(base64.b64decode(match[1]))
                except binascii.Error:
                    return None
        return None


FRAMES = ErrorChannel()
"""Of the tasks that are part of a DataFrame itself, whichever job of this process runs it."""


@contextmanager
def typed() -> Iterator[None]:
    """Raise as pkray errors what is of Spark's service and not of the DataFrame.

    Raises:
        ServiceError: a job failed, for a task's process was killed or ran out of memory.
        ServiceUnavailableError: Spark's own process is gone.
        PySparkException: as it came; Spark says so what is wrong with a plan or its data.
    """
    try:
        yield
    except Py4JJavaError as failure:
        raise _failed(failure) from failure
    except (Py4JError, ConnectionError) as failure:
        raise ServiceUnavailableError(
            f"Spark does not answer ({type(failure).__name__}: {failure}): its process has ended: "
            "pkray.spark.stop(), then start a new session",
            retriable=False,
        ) from failure


def worth_another_run(error: PkrayError) -> bool:
    """Whether the same rows may well go through when they are pushed again under the same name:
    if they had gone through unnoticed, it is seen then."""
    lost = isinstance(error, ServiceError | CommitUnknownError)
    return lost and error.values.get("retriable", True)


def _failed(failure: Py4JJavaError) -> ServiceError:
    """Make the error for a failed job. Where Spark names a condition, it was told to stop or knows
    what is wrong; what it has no name for is the end of a process, and may be retried."""
    java = failure.java_exception
    try:
        condition, message = java.getCondition(), java.getMessage() or java.toString()
    except Py4JError:  # it is none of Spark's own
        condition, message = java.getClass().getName(), java.toString()
    except ConnectionError:
        condition, message = "unknown", "Spark's process has ended"
    shown = message.strip().partition("\n")[0][:_SHOWN_CHARACTERS]
    return ServiceError(
        f"the Spark job failed: {shown}; see Spark's log, then call again",
        condition=condition,
        retriable=condition is None,
    )


def _texts(failure: BaseException) -> Iterator[str]:
    yield str(failure)
    if isinstance(failure, PySparkException):
        yield failure.getMessage() or ""
    if failure.__cause__ is not None:
        yield from _texts(failure.__cause__)
