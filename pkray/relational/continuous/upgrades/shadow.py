"""The run of a plan that is to take over: it follows the sources and commits nothing."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pkray.relational.continuous.log.log import Checkpoint
from pkray.relational.continuous.outlets.gathered import Gathered
from pkray.relational.continuous.queries.definitions.options import QueryOptions
from pkray.relational.continuous.queries.incarnations.life import check_columns
from pkray.relational.continuous.queries.workers.shares import ROWS_BYTES
from pkray.relational.continuous.run import Interrupted, Run, RunnablePlan, RunSettings
from pkray.relational.continuous.state.states import States
from pkray.relational.continuous.upgrades.stored import Site, StoredUpgrade
from pkray.relational.plan.nodes import Node, Sink
from pkray.relational.plan.state import NEVER

_log = logging.getLogger(__name__)

_NEAR = 16
"""Snapshots, or batches, that are read in one epoch with the last ones."""
_NEAR_SECONDS = 1.0
"""An epoch that took no longer is the last one: what came meanwhile is read as the plan takes over,
for which results wait."""
_STOP_SECONDS = 600.0
"""For how long an epoch that runs is waited for."""


@dataclass(frozen=True)
class GatheredResults:
    """The states of a shadow, and what gathers its results.

    Attributes:
        outlets: one a root.
    """

    states: States
    outlets: tuple[Gathered, ...]


def open_results(site: Site, upgrade: StoredUpgrade) -> GatheredResults:
    """Open the states of a shadow; the caller closes them."""
    memory = QueryOptions(**upgrade.new.options).memory
    rows = ROWS_BYTES if memory is None else memory // 2
    states = States(site.folder.child("state"), rows, generation=upgrade.new.generation)
    outlets = tuple(
        Gathered(states.open, place, root, _key(site, root))
        for place, root in enumerate(site.roots(upgrade.new))
    )
    return GatheredResults(states, outlets)


def _key(site: Site, root: Node) -> tuple[str, ...]:
    assert isinstance(root, Sink)
    return site.catalog.load_table(root.table).primary_keys


def open_shadow(site: Site, upgrade: StoredUpgrade, settings: RunSettings) -> Run:
    """Open the run of the newer plan on its newest checkpoint, or at the beginning.

    Raises:
        SchemaChangedError: of a way back: a column that its states are of was dropped, and another
            added under its name.
    """
    definition, log = upgrade.new, site.log(upgrade)
    roots = site.roots(definition)
    if upgrade.is_back:
        check_columns(roots, definition.columns)
        if log.newest_checkpoint() is None:
            _begin_as_before(site, upgrade)
    plan = RunnablePlan(roots, definition.before, NEVER, definition.ttls, definition.digest)
    results = open_results(site, upgrade)
    try:
        return Run(plan, results.outlets, log, results.states, settings)
    except BaseException:
        results.states.close()
        raise


def _begin_as_before(site: Site, upgrade: StoredUpgrade) -> None:
    """Write the first checkpoint of a way back: states and results as they were."""
    log = site.log(upgrade)
    before = log.before()
    results = open_results(site, upgrade)
    try:
        for outlet, root in zip(results.outlets, site.roots(upgrade.new), strict=True):
            assert isinstance(root, Sink)
            table = site.catalog.load_table(root.table)
            tag = site.before_tag(upgrade.new)
            if tag in table.tags.list()["tag_name"].to_pylist():
                outlet.fill(table.at(tag=tag).to_batches(list(root.target)))
            _ = outlet.state
        files = results.states.checkpoint()
        folders = dict(results.states.folders)
    finally:
        results.states.close()
    log.take_over()
    log.write_checkpoint(
        Checkpoint(
            before.epoch,
            before.positions,
            before.watermarks,
            before.digest,
            {**before.files, **files},
            before.is_last,
            late=before.late,
            marks=before.marks,
            folders={**{name: before.folder(name) for name in before.files}, **folders},
            others=before.others,
            apart={**before.apart, **dict.fromkeys(files, 1)},
        )
    )


class Shadow:
    """Runs the newer plan in a thread, until it is near the end of its sources.

    Args:
        open_run: opens the run, which ends once what it is given is true.

    Attributes:
        failure: what it failed on.
    """

    def __init__(self, name: str, open_run: Callable[[Callable[[], bool]], Run]) -> None:
        self._name = name
        self._open = open_run
        self._run: Run | None = None
        self._is_near = False
        self._stopping = threading.Event()
        self.failure: Exception | None = None
        self._thread = threading.Thread(
            target=self._work, name=f"pkray-upgrade-{name}", daemon=True
        )
        self._thread.start()

    def reached_by(self, positions: Mapping[str, int]) -> Run | None:
        """Give the run, once it is near and another run has read what it has read."""
        if self._thread.is_alive() or not self._is_near or self._run is None:
            return None
        read = self._run.positions
        return self._run if all(positions.get(n, at) >= at for n, at in read.items()) else None

    def _work(self) -> None:
        try:
            self._run = self._open(self._stopping.is_set)
            while not self._stopping.is_set():
                begun = time.monotonic()
                went = self._run.step()
                if not went or self._is_close(time.monotonic() - begun):
                    self._is_near = True
                    return
                self._run.checkpoint_if_due()
        except Interrupted:
            return
        except Exception as error:
            _log.warning("the upgrade of query %s stopped: %s", self._name, error)
            self.failure = error

    def _is_close(self, seconds: float) -> bool:
        """Whether little is left to be read, after an epoch that took so many seconds."""
        assert self._run is not None
        left = self._run.feeds.lag(self._run.positions).values()
        return seconds < _NEAR_SECONDS and all(each["snapshots"] <= _NEAR for each in left)

    def close(self) -> None:
        """End it; its checkpoints stay."""
        self._stopping.set()
        self._thread.join(_STOP_SECONDS)
        if self._run is not None:
            run, self._run = self._run, None
            run.close()
