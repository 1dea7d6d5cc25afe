"""The Ray cluster that a process joins."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import ray

from pkray.errors import OptionError, ServiceUnavailableError
from pkray.service.ray.actors import NAMESPACE

_ANSWER_SECONDS = 10.0


def join(address: str | None) -> None:
    """Connect this process to a cluster, or start one.

    Args:
        address: as `RayRuntime` takes it.

    Raises:
        OptionError: an address that is none.
        ServiceUnavailableError: no cluster answers there.
    """
    try:
        _knock(address)
        with _quietly():
            ray.init(
                address=address,
                namespace=NAMESPACE,
                include_dashboard=False,
                log_to_driver=False,
                configure_logging=False,
            )
    except OSError as error:
        raise ServiceUnavailableError(
            f"no Ray cluster answers at address {address!r} ({error}): start one "
            "(ray start --head), or correct the address",
            address=address,
        ) from error
    except ValueError as error:
        raise OptionError(
            f"address {address!r} is not of a Ray cluster: give 'auto' for the running one, or "
            "host:port",
            key="address",
            value=address,
        ) from error


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what Ray tells of its start, which is for those who start it by hand."""
    logger = logging.getLogger("ray")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _knock(address: str | None) -> None:
    """Raises OSError where nobody listens, at once: Ray asks again for minutes, and then ends the
    process."""
    host, colon, port = (address or "").rpartition(":")
    if colon and port.isdigit() and "/" not in host:
        socket.create_connection((host, int(port)), _ANSWER_SECONDS).close()
