"""Whether anybody listens at an address."""

from __future__ import annotations

import socket

_ANSWER_SECONDS = 10.0
"""A host that is there answers at once; one that is not would be waited for two minutes."""


def knock(address: str | None) -> None:
    """Connect to ``host:port``, of which there may be none in the address.

    Ray asks again for minutes, and then ends the process.

    Raises:
        OSError: nobody listens there.
    """
    host, colon, port = (address or "").rpartition(":")
    if colon and port.isdigit() and "/" not in host:
        socket.create_connection((host, int(port)), _ANSWER_SECONDS).close()


def answers(address: str) -> bool:
    """Whether somebody listens there."""
    try:
        knock(address)
    except OSError:
        return False
    return True
