"""Numbers that users give where only whole ones do."""

import math
import operator
from typing import Any

from pkray.errors import OptionError

GREATEST = (1 << 63) - 1


def check_snapshot(argument: str, value: object) -> None:
    """Raise an `OptionError` for a snapshot that is neither an id nor None."""
    if value is not None:
        whole_number(argument, value, 0, "a snapshot's id")


def whole_number(argument: str, value: object, least: int, what: str = "a whole number") -> int:
    """Return the value as an int.

    Args:
        argument: its name, and ``what`` it is, for the message.

    Raises:
        OptionError: it is none (True and 1.0 are none), or not of ``least`` to 2^63 - 1.
    """
    try:
        number = operator.index(value)  # type: ignore[arg-type] # what else there is, is refused
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise OptionError(
            f"{argument} cannot be {value!r}: give {what}, an int",
            value=value,
            arguments=(argument,),
        )
    if not least <= number <= GREATEST:
        raise OptionError(
            f"{argument} cannot be {number}: give {what}, of {least} to 2^63 - 1",
            value=value,
            arguments=(argument,),
        )
    return number


def checked_number(key: str, value: Any, least: float, what: str = "seconds") -> float:
    """Check a finite number that a user gave.

    Raises:
        OptionError: it is none, or below ``least``.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and least <= value < math.inf:
        return float(value)
    raise OptionError(
        f"{key} cannot be {value!r}: give a number of {what}, {least:g} or more",
        key=key,
        value=value,
    )
