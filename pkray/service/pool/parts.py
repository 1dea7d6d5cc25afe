"""What a pool's keeper, workers and clients say to each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pkray.errors import ServiceUnavailableError
from pkray.service.call_limits import CallLimits
from pkray.storage.location import TableLocation

COORDINATOR = -1
"""The index of a table's coordinator among its parts; owners count from 0."""


@dataclass(frozen=True, order=True)
class Part:
    """An owner or the coordinator of one table.

    Args:
        table: the fingerprint of its location.
        index: of the owner, or `COORDINATOR`.
    """

    table: str
    index: int


@dataclass(frozen=True)
class HostedTable:
    """A table as a pool hosts it.

    Args:
        owners: how many share its buckets.
        lease_millis: as of `OwnerSettings`.
        limits: of the calls between its parts.
    """

    location: TableLocation
    owners: int
    lease_millis: int
    limits: CallLimits

    def part(self, index: int) -> Part:
        return Part(self.location.fingerprint, index)

    def label(self, index: int) -> str:
        """Name a part in messages."""
        what = "the coordinator" if index == COORDINATOR else f"owner {index}"
        return f"{what} of table {self.location.name}"


class Assignment(NamedTuple):
    """The worker that has a part, and the number under which it has it.

    Args:
        number: larger than that of every assignment before it.
    """

    worker: int
    number: int


@dataclass(frozen=True)
class WorkerProcess:
    """One life of a worker.

    Args:
        token: no other process has it.
        node: on which it runs.
    """

    token: str
    node: str


@dataclass(frozen=True)
class Renewal:
    """The keeper's answer to a worker that renews its lease.

    Args:
        gone: parts that are no longer the worker's, with the numbers under which it had them.
        is_replaced: another process is in this one's place: it has to end.
    """

    gone: Mapping[Part, int] = field(default_factory=dict)
    is_replaced: bool = False


class MovedError(ServiceUnavailableError):
    """The part is not here under the number that was asked for; nothing was done.

    Args:
        assignment: where it is; None where that is not known here.
    """

    assignment: Assignment | None
