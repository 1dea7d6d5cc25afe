"""What can go wrong with an object store, as errors of pkray."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import tenacity
from obstore import exceptions

from pkray.errors import MissingFileError, StorageError, StorageFullError

T = TypeVar("T")

_TRANSIENT = (
    "timed out",
    "timeout",
    "connection",
    "error sending request",
    "error decoding response body",
    "broken pipe",
    "server error",
    "slow down",
    "too many requests",
    "bad gateway",
)
_STATUS = re.compile(r"status code: (\d{3})")
_TRY_LATER = (408, 429)
_NO_BUCKET = ("nosuchbucket", "containernotfound", "bucket does not exist")


def _is_transient(error: BaseException) -> bool:
    if not isinstance(error, (exceptions.GenericError, OSError, TimeoutError)):
        return False
    if isinstance(error, FileNotFoundError):
        return False
    text = str(error).lower()
    status = _STATUS.search(text)
    if status is not None:
        return int(status[1]) >= 500 or int(status[1]) in _TRY_LATER
    text = text.replace("retry_timeout", "")  # a setting, which obstore names in all errors
    return any(sign in text for sign in _TRANSIENT)


def retrying(call: Callable[[], T]) -> T:
    """Call again, after a while, what failed in passing.

    obstore repeats requests itself; this covers answers that break off while they are read.
    """
    try:
        return call()
    except Exception as error:
        if not _is_transient(error):
            raise
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(_is_transient),
        stop=tenacity.stop_after_attempt(2),
        wait=tenacity.wait_random_exponential(multiplier=0.1, max=2.0),
        reraise=True,
    )(call)


def first_line(error: BaseException) -> str:
    """What obstore says before it prints the chain of causes."""
    return (str(error) or type(error).__name__).strip().split("\n", 1)[0]


def explain(error: BaseException, doing: str, location: str) -> StorageError:
    """The error of pkray for one of obstore, with its remedy."""
    if isinstance(error, StorageError):
        return error
    reason = first_line(error)
    if any(sign in str(error).lower() for sign in _NO_BUCKET):
        return StorageError(
            f"cannot {doing} {location!r}: there is no such bucket; make it, or correct the URL",
            path=location,
        )
    if isinstance(error, (FileNotFoundError, exceptions.NotFoundError)):
        return MissingFileError(
            f"no file {location!r}: it was deleted, or its snapshot has expired", path=location
        )
    if isinstance(error, (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError)):
        remedy = "check the keys and rights given as storage options or in the environment"
    elif "no space" in reason.lower() or "quota" in reason.lower():
        return StorageFullError(
            f"cannot {doing} {location!r}: {reason}; free space there and try again",
            path=location,
        )
    elif _is_transient(error):
        remedy = "the store does not answer: check the endpoint and the network, then try again"
    else:
        remedy = "check the URL and the storage options, then try again"
    return StorageError(f"cannot {doing} {location!r}: {reason}; {remedy}", path=location)
