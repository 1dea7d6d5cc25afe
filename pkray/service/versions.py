"""Whether processes of different versions of pkray understand each other.

Each speaks a protocol, whose number grows with every change of what clients, keepers, workers and
coordinators say to each other. Numbers next to each other are understood: whoever changes what is
said keeps to what the number before takes and gives, so that a service can be brought to a new
version while clients of the one before use it, and the other way round.
"""

from collections.abc import Callable

import msgspec

from pkray.errors import ServiceVersionError
from pkray.version import __version__


class Spoken(msgspec.Struct, frozen=True):
    """Tells which protocol and release a process speaks.

    Args:
        protocol: the number.
        release: of pkray.
    """

    protocol: int
    release: str


PROTOCOL = 3
"""0: whatever came before there were numbers. 2: calls of parts say what their caller speaks. 3:
calls may say what their caller is at work on."""
OLDEST = Spoken(0, "of before there were protocols")

spoken = Spoken(PROTOCOL, __version__)
"""Says what this process speaks."""


def check_understood(caller: Spoken, service: Spoken) -> None:
    """Check that a caller and a service understand each other.

    Raises:
        ServiceVersionError: they do not; it says which to upgrade.
    """
    if abs(caller.protocol - service.protocol) <= 1:
        return
    remedy = (
        f"upgrade the caller to pkray {service.release}"
        if caller.protocol < service.protocol
        else f"install pkray {caller.release} where the service runs, then run `pkray service "
        "restart`"
    )
    raise ServiceVersionError(
        f"the caller (pkray {caller.release}) speaks protocol {caller.protocol}, and the service "
        f"(pkray {service.release}) {service.protocol}, which is more than one apart: {remedy}",
        caller=caller.protocol,
        service=service.protocol,
    )


def check_service(greet: Callable[[Spoken], Spoken]) -> None:
    """Greet a service that this process has found.

    Args:
        greet: asks it; an `AttributeError` says that it knows of no greeting.

    Raises:
        ServiceVersionError: it and this process do not understand each other.
    """
    try:
        service = greet(spoken)
    except AttributeError:
        service = OLDEST
    check_understood(spoken, service)


def answered(caller: Spoken) -> Spoken:
    """Say what this process speaks to a caller that it understands.

    Raises:
        ServiceVersionError: it does not.
    """
    check_understood(caller, spoken)
    return spoken
