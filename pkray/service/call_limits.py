"""Limit how long calls between the parts of the service may take."""

from dataclasses import dataclass
from typing import Self

from pkray.arguments.whole_number import checked_number

_RESTART_SECONDS = 30.0
"""In which a process is started anew on a busy machine."""
_LEAST_SECONDS = 1.0
"""Below it, a busy machine looks like a stopped one."""


@dataclass(frozen=True)
class CallLimits:
    """
    Args:
        call_seconds: how long a call may take without progress.
        lookup_seconds: how long a lookup may take without progress of its own.
    """

    call_seconds: float = 60.0
    lookup_seconds: float = 10.0

    @classmethod
    def checked(cls, call_timeout: object, lookup_timeout: object) -> Self:
        """Check limits as a user gives them, in seconds.

        Raises:
            OptionError: one is no number of at least 1.
        """
        return cls(
            checked_number("call_timeout", call_timeout, _LEAST_SECONDS),
            checked_number("lookup_timeout", lookup_timeout, _LEAST_SECONDS),
        )

    def patience(self, is_lookup: bool = False) -> float:
        """Return the seconds in which a call that fails is made again: once more where it has
        hung."""
        if is_lookup:
            return self.lookup_seconds
        return max(_RESTART_SECONDS, 1.25 * self.call_seconds)


DEFAULT_LIMITS = CallLimits()
