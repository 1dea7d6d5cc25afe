"""Checks what commits are named by, as snapshots hold it for good."""

import msgspec

from pkray.arguments.file_names import MOST_CHOSEN_BYTES, text_fault
from pkray.arguments.whole_number import whole_number
from pkray.errors import OptionError

_LEAST = -(1 << 63)


class CommitToken(msgspec.Struct, frozen=True):
    """Names a commit whose identifier is chosen as it is made, so that no two writers
    choose the same.

    Args:
        uuid: of this commit alone; its snapshot carries it.
        since: epoch milliseconds; the commit was not made before.
    """

    uuid: str
    since: int


CommitName = int | CommitToken
"""With the commit user: an identifier that the caller chose, or a token where it chose none."""


def checked_user(user: object) -> str:
    """Check the commit user; return it.

    Raises:
        OptionError: it is no text, blank, too long, or has control characters.
    """
    reason = text_fault(user, MOST_CHOSEN_BYTES)
    if not isinstance(user, str) or reason is not None:
        raise OptionError(
            f"commit_user cannot be {user!r}: {reason}; name the writer by text such as 'job-1'",
            value=user,
            arguments=("commit_user",),
        )
    return user


def checked_identifier(identifier: object) -> int:
    """Check the commit identifier; return it.

    Raises:
        OptionError: it is no whole number of 0 to 2^63 - 1.
    """
    return whole_number("commit_identifier", identifier, 0, "a number that grows with each commit")


def checked_watermark(watermark: object) -> int | None:
    """Check the watermark, epoch milliseconds or None; return it.

    Raises:
        OptionError: it is no whole number of 64 bits.
    """
    if watermark is None:
        return None
    return whole_number("watermark", watermark, _LEAST, "epoch milliseconds")
