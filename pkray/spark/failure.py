"""pkray's errors on their way through Spark, which carries text alone."""

from __future__ import annotations

import base64
import binascii
import pickle
import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from pkray.errors import CommitUnknownError, PkrayError, ServiceError

_MARK = re.compile(r"\[pkray:([A-Za-z0-9+/=]+)\]")


class TaskFailure(Exception):
    """A pkray error inside a Spark task: its message, and itself as text."""

    def __init__(self, error: PkrayError) -> None:
        text = base64.b64encode(pickle.dumps(error)).decode()
        super().__init__(f"{type(error).__name__}: {error}\n[pkray:{text}]")


@contextmanager
def reported() -> Iterator[None]:
    """Inside a task: a pkray error leaves as a `TaskFailure`."""
    try:
        yield
    except PkrayError as error:
        raise TaskFailure(error) from None


@contextmanager
def recovered() -> Iterator[None]:
    """On the driver: a Spark error that carries a pkray error becomes that error."""
    try:
        yield
    except PkrayError:
        raise
    except Exception as failure:
        error = carried(failure)
        if error is None:
            raise
        raise error from None


def carried(failure: BaseException) -> PkrayError | None:
    """The pkray error that a Spark error carries, or None."""
    for text in _texts(failure):
        match = _MARK.search(text)
        if match:
            try:
                error = pickle.loads(base64.b64decode(match[1]))
            except (binascii.Error, pickle.UnpicklingError, ImportError, AttributeError, EOFError):
                return None
            return error if isinstance(error, PkrayError) else None
    return None


def worth_another_run(error: PkrayError) -> bool:
    """Whether the same rows may well go through when they are pushed again under the same name:
    if they had gone through unnoticed, it is seen then."""
    return isinstance(error, ServiceError | CommitUnknownError)


def _texts(failure: BaseException) -> Iterator[str]:
    yield str(failure)
    if isinstance(failure, PySparkException):
        yield failure.getMessage() or ""
    if failure.__cause__ is not None:
        yield from _texts(failure.__cause__)
