"""Show a pool to people, as its keeper sees it."""

from dataclasses import dataclass

from pkray.service.pool.parts import WorkerProcess


@dataclass(frozen=True)
class WorkerSeen:
    """A worker as the keeper knows it.

    Args:
        lease: seconds for which it may still answer; negative where the lease has run out.
        parts: that it has.
        is_emptied: it gets no more of them, and loses those that it has.
    """

    number: int
    process: WorkerProcess
    lease: float
    parts: int
    is_emptied: bool


@dataclass(frozen=True)
class PartSeen:
    """A part that a worker has.

    Args:
        thing: the name of the table, or of the work.
    """

    thing: str
    index: int
    worker: int
    is_work: bool


@dataclass(frozen=True)
class Overview:
    """A pool at one moment.

    Args:
        wanted: how many workers there are to be.
        tables: names of those that the pool hosts.
    """

    wanted: int
    workers: tuple[WorkerSeen, ...]
    parts: tuple[PartSeen, ...]
    tables: tuple[str, ...]
