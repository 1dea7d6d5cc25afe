"""Opens what the workers of a query compute with."""

from collections.abc import Sequence
from dataclasses import dataclass

from pkray.relational.continuous.exchange.peers import Peers
from pkray.relational.continuous.feeds.backfill import Backfill
from pkray.relational.continuous.parallel.share import Assignment, RunnablePlan, Share
from pkray.relational.continuous.parallel.team import Team, thread_team
from pkray.relational.continuous.queries.definitions.definition import Definition
from pkray.relational.continuous.queries.definitions.options import QueryOptions
from pkray.relational.continuous.state.states import States
from pkray.relational.plan.nodes import Node
from pkray.service.hosted import Room
from pkray.storage.object_store import ObjectStore

ROWS_BYTES = 256 << 20
"""Rows of state that a process holds for a query, where nothing else is said."""


@dataclass(frozen=True)
class QueryShares:
    """Opens the shares of one query's workers.

    Attributes:
        folder: of the query.
        definition: of the query.
        roots: its plan.
        backfill: what another engine brings for the first epoch; None: nothing.
        room: bounds the memory for rows, where a host divides it; None: nothing does.
    """

    folder: ObjectStore
    definition: Definition
    roots: Sequence[Node]
    backfill: Backfill | None = None
    room: Room | None = None

    @property
    def plan(self) -> RunnablePlan:
        """Hold the plan that all workers run."""
        each = self.definition
        return RunnablePlan(
            tuple(self.roots),
            each.before,
            "0 ms",
            each.ttls,
            each.digest,
            each.beginnings,
            self.backfill,
        )

    def states(self, workers: int = 1) -> States:
        """Open the states of one worker.

        Args:
            workers: among which the memory for rows is divided.
        """
        memory = QueryOptions(**self.definition.options).memory
        rows = ROWS_BYTES if memory is None else memory // 2 // workers
        folder, generation = self.folder.child("state"), self.definition.generation
        return States(folder, rows, generation, self.room)

    def open(self, assigned: Assignment, peers: Peers) -> Share:
        """Open the share that a worker is assigned; for `Member`."""
        options = QueryOptions(**self.definition.options)
        states = self.states(assigned.count)
        try:
            return Share(
                self.plan,
                states,
                peers,
                assigned,
                skips=options.on_error == "skip",
                max_rows=options.max_rows,
            )
        except BaseException:
            states.close()
            raise

    def threads(self, count: int, run: int) -> Team:
        """Make workers that are threads of this process."""
        return thread_team(self.open, count, run)
