"""Define what a run writes down: each epoch before it runs, and checkpoints to go on from."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

import msgspec

from pkray.format.data_file import DataFileMeta

WAYS_ON = (
    "go back to a savepoint by resume(savepoint=…), or begin anew by materialize(…, replace=True) "
    "or start(…, replace=True)"
)
"""What to do where a query cannot go on from what it wrote down."""


class EpochRecord(msgspec.Struct, frozen=True):
    """Everything about an epoch that could differ if it is run again.

    Attributes:
        number: from 0.
        bounds: of each source, the positions after which and up to which it is read.
        time: processing time in epoch milliseconds.
        is_last: whether no source changes any more.
        run: which run of the query wrote it down.
        upgrade: the upgrade that ends with this epoch, in which another plan takes over; empty: the
            epoch is one of the plan.
        workers: that compute it.
        idle: sources that hold the watermark back no more: nothing has come of them for so long,
            or nothing ever will.
        incarnation: of the query that wrote it down; empty: a version that knew none.
        follows: number of the newest checkpoint when it was written.
        marks: tell the sources' snapshots at the positions up to which they are read from others
            with the same ids; none for sources that have no snapshots.
    """

    number: int
    bounds: dict[str, tuple[int, int]]
    time: int
    is_last: bool = False
    run: str = ""
    upgrade: str = ""
    workers: int = 1
    idle: tuple[str, ...] = ()
    incarnation: str = ""
    follows: int = -1
    marks: dict[str, str] = {}


class Committed(msgspec.Struct, frozen=True):
    """The newest snapshot of a result that a query committed.

    Attributes:
        epoch: that it ended.
        snapshot: its id.
        mark: tells it from other snapshots with this id.
    """

    epoch: int
    snapshot: int
    mark: str


class Checkpoint(msgspec.Struct, frozen=True):
    """The end of an epoch, with the files that hold all states as they were then.

    Attributes:
        epoch: the last one whose changes are in the states.
        positions: of the sources.
        watermarks: event time in microseconds, by the number of the node.
        digest: of the plan.
        files: of the first worker, by state.
        folders: of states whose files lie in a folder that is not called as they are: upgrades give
            operators other numbers.
        others: of the other workers, each by state.
        apart: of states that another number of workers holds, how many.
        late: how many late rows were left out so far, by the state that keeps them.
        incarnation: of the query that wrote it; empty: a version that knew none.
        marks: of the sources' snapshots at the positions, as of `EpochRecord`.
        results: what was committed last to each result, by its name; a result to which nothing was
            committed is not among them.
        held: of a savepoint, the name of the tags and consumers that keep what it needs; empty:
            those of a version that named them otherwise.
    """

    epoch: int
    positions: dict[str, int]
    watermarks: dict[str, int]
    digest: str
    files: dict[str, tuple[DataFileMeta, ...]]
    is_last: bool = False
    run: str = ""
    folders: dict[str, str] = {}
    others: tuple[dict[str, tuple[DataFileMeta, ...]], ...] = ()
    apart: dict[str, int] = {}
    late: dict[str, int] = {}
    incarnation: str = ""
    marks: dict[str, str] = {}
    results: dict[str, Committed] = {}
    held: str = ""

    @property
    def shares(self) -> tuple[dict[str, tuple[DataFileMeta, ...]], ...]:
        """The files of each worker, by state."""
        return self.files, *self.others

    def workers_of(self, state: str) -> int:
        """Say how many workers hold a state."""
        return self.apart.get(state, len(self.shares))

    def folder(self, state: str) -> str:
        """Name the folder of a state's files."""
        return self.folders.get(state, state)


NOTHING_YET = Checkpoint(-1, {}, {}, "", {})
"""Before the first epoch."""


class QueryLog(ABC):
    """Keeps the epochs and checkpoints of a query.

    Attributes:
        number: of the run, greater than those of the runs before it.
        run: the name of the run.
        checked: the epoch that was begun last with a look at whether the query is current.
    """

    number = 0
    run = ""
    checked: EpochRecord | None = None

    @property
    def is_overtaken(self) -> bool:
        """Whether another run took over from this one."""
        return False

    def check_current(self) -> None:
        """Check that the query was not dropped, begun anew or sent back since it was opened.

        Raises:
            QueryFencedError: it was.
        """
        return

    def check_not_followed(self) -> None:
        """Check that no other run has taken over; one request, which may miss it for a while.

        Raises:
            QueryFencedError: one has.
        """
        return

    @abstractmethod
    def take_over(self) -> Checkpoint | None:
        """Make this run the one that counts; give the newest checkpoint, None where there is none.

        Runs before it write no checkpoint any more.
        """

    @abstractmethod
    def begin(self, record: EpochRecord) -> EpochRecord:
        """Write an epoch down before it runs; where that is done already, give what was written."""

    @abstractmethod
    def epochs_from(self, number: int) -> list[EpochRecord]:
        """List the epochs that were written down, from a number on."""

    @abstractmethod
    def write_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint, and delete what no checkpoint kept needs.

        Raises:
            QueryFencedError: another run took over.
        """

    @abstractmethod
    def oldest(self, positions: Mapping[str, int]) -> dict[str, int]:
        """Find the positions of the sources after which a run may begin.

        Args:
            positions: of the run that asks.
        """


class NoLog(QueryLog):
    """Writes nothing down: what runs ends with its process."""

    def take_over(self) -> Checkpoint | None:
        return None

    def begin(self, record: EpochRecord) -> EpochRecord:
        return record

    def epochs_from(self, number: int) -> list[EpochRecord]:
        return []

    def write_checkpoint(self, checkpoint: Checkpoint) -> None:
        pass

    def oldest(self, positions: Mapping[str, int]) -> dict[str, int]:
        return dict(positions)
