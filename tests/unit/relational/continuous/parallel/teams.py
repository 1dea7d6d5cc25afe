"""Run a query over histories in memory by several workers, and compare with the bounded run."""

import tempfile
from collections import Counter
from collections.abc import Callable

import pyarrow as pa

from pkray.relational import Relation
from pkray.relational.continuous.exchange.peers import Peers
from pkray.relational.continuous.log.stored_log import StoredLog
from pkray.relational.continuous.outlets.outlets import Messages, QueueOutlet
from pkray.relational.continuous.parallel.share import Assignment, Share
from pkray.relational.continuous.parallel.team import Team, thread_team
from pkray.relational.continuous.run import Run, RunnablePlan, RunSettings
from pkray.relational.continuous.state.states import States
from pkray.relational.optimizer import optimize
from pkray.relational.plan.physical import to_physical
from pkray.storage.opening import open_store
from tests.unit.relational.continuous.histories import Row, rows_of


class Workers:
    """A query that so many workers run; what it gives is replayed.

    Args:
        memory: bytes that the states of each worker hold before they go to files.
        wrap: of the functions that open the shares of members, to fail them.
        twice: whether changes may come twice.
    """

    def __init__(
        self,
        relation: Relation,
        workers: int,
        *,
        memory: int = 1 << 16,
        folder: str | None = None,
        wrap: Callable[[Share], Share] = lambda share: share,
        twice: bool = False,
    ) -> None:
        self.relation = relation
        self._kept = tempfile.TemporaryDirectory()
        self.folder = folder or self._kept.name
        self._memory = memory
        self._wrap = wrap
        self.plan = to_physical(optimize(relation.plan), before=True, duplicates=twice)
        self.content: Counter[Row] = Counter()
        self.told: list[pa.RecordBatch] = []
        self.run = self._open(workers)

    def _open(self, workers: int) -> Run:
        self.outlet = QueueOutlet(Messages(self.plan, "retract"))
        plan = RunnablePlan((self.plan,), (True,))
        log = StoredLog(open_store(self.folder))
        settings = RunSettings(clock=lambda: 0, workers=workers)

        def open_team(count: int, run: int) -> Team:
            def open_share(assigned: Assignment, peers: Peers) -> Share:
                return self._wrap(Share(plan, self._states(), peers, assigned))

            return thread_team(open_share, count, run)

        return Run(plan, [self.outlet], log, self._states(), settings, open_team)

    def _states(self) -> States:
        return States(open_store(f"{self.folder}/state"), self._memory)

    def step(self) -> None:
        """Run what was pushed since, and replay what it gives."""
        while self.run.step():
            pass
        while self.outlet.waiting:
            self._replay(self.outlet.waiting.popleft())

    def rescale(self, workers: int) -> None:
        """Go on with another number of workers."""
        self.run.checkpoint()
        self.run.close()
        self.run = self._open(workers)

    def reopen(self, workers: int) -> None:
        """Go on from the last checkpoint, as after a crash: what was told comes again."""
        self.run.close()
        self.run = self._open(workers)

    def _replay(self, batch: pa.RecordBatch) -> None:
        self.told.append(batch)
        kinds = batch.column("_row_kind").to_pylist()
        rows = rows_of(batch.drop_columns(["_row_kind", "_epoch"]))
        for row, kind in zip(rows, kinds, strict=True):
            self.content[row] += 1 if kind in ("+I", "+U") else -1
        wrong = [row for row, count in self.content.items() if count < 0]
        assert not wrong, f"{wrong[:5]} are retracted and were not there"
        self.content = +self.content

    def check(self) -> None:
        """Compare what was told so far, replayed, with the bounded run."""
        bounded = Counter(rows_of(self.relation.to_arrow(engine="local")))
        missing, extra = bounded - self.content, self.content - bounded
        assert not missing + extra, f"missing {list(missing)[:5]}, extra {list(extra)[:5]}"

    def close(self) -> None:
        self.run.close()
        self._kept.cleanup()
