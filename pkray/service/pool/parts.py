"""Define the messages between a pool's keeper, workers and clients."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from pkray.errors import ServiceUnavailableError
from pkray.service.call_limits import CallLimits
from pkray.storage.location import TableLocation

COORDINATOR = -1
"""The index of a table's coordinator among its parts; owners count from 0."""


@dataclass(frozen=True, order=True)
class Part:
    """An owner or the coordinator of one table, or a piece of work.

    Args:
        table: the fingerprint of its location; the name of work.
        index: of the owner, or `COORDINATOR`; 0 of work.
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

    @property
    def key(self) -> str:
        """The `Part.table` of its parts."""
        return self.location.fingerprint

    @property
    def name(self) -> str:
        return self.location.name

    def part(self, index: int) -> Part:
        return Part(self.location.fingerprint, index)

    def label(self, index: int) -> str:
        """Name a part in messages."""
        what = "the coordinator" if index == COORDINATOR else f"owner {index}"
        return f"{what} of table {self.location.name}"


@dataclass(frozen=True)
class HostedWork:
    """Work of its own accord as a pool hosts it: one part, opened without being called.

    Args:
        name: no other work has it; helpers of a work have its name, a slash and more.
        payload: makes it, in the worker alone.
        limits: of calls to it.
    """

    name: str
    payload: bytes = field(repr=False)  # some of it is secret
    limits: CallLimits

    owners = 1

    @property
    def key(self) -> str:
        """The `Part.table` of its part."""
        return self.name

    def part(self, index: int = 0) -> Part:
        return Part(self.name, index)

    def label(self, _: int = 0) -> str:
        """Name it in messages."""
        return self.name


HostedThing: TypeAlias = HostedTable | HostedWork
"""What a pool hosts."""


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
        pid: its id, among those of its machine or container.
        ids: names the set of ids that this is one of.
    """

    token: str
    node: str
    pid: int = 0
    ids: str = ""


@dataclass(frozen=True)
class Renewal:
    """The keeper's answer to a worker that renews its lease.

    Args:
        gone: parts that are no longer the worker's, with the numbers under which it had them.
        is_replaced: another process is in this one's place: it has to end.
        due: work that is the worker's and that it has not opened, with its numbers.
        keeper: tells this keeper from those before it.
    """

    gone: Mapping[Part, int] = field(default_factory=dict)
    is_replaced: bool = False
    due: Mapping[Part, int] = field(default_factory=dict)
    keeper: int = 0


class MovedError(ServiceUnavailableError):
    """The part is not here under the number that was asked for; nothing was done.

    Args:
        assignment: where it is; None where that is not known here.
    """

    assignment: Assignment | None
