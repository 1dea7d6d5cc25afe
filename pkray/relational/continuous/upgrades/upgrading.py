"""Carry an upgrade out beside the run of a query, or where the query does not run."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from msgspec import structs

from pkray.errors import PkrayError, QueryFencedError, SharedResultError, UpgradeError
from pkray.relational.continuous.log.log import NOTHING_YET, EpochRecord
from pkray.relational.continuous.queries.workers.worker import passes
from pkray.relational.continuous.run import Run, RunSettings
from pkray.relational.continuous.upgrades import switching
from pkray.relational.continuous.upgrades.shadow import Shadow, open_shadow
from pkray.relational.continuous.upgrades.stored import Site, StoredUpgrade

OpenRun = Callable[[], Run]


class Upgrading:
    """Carries the upgrades of a query out while it runs. For the thread that runs it.

    Args:
        settings: of the shadow's run.
    """

    def __init__(self, site: Site, settings: RunSettings) -> None:
        self._site = site
        self._settings = settings
        self._upgrade: StoredUpgrade | None = None
        self._shadow: Shadow | None = None

    def is_there(self) -> bool:
        """Whether an upgrade is under way or not accepted; what was opened of one is closed."""
        self.close()
        return self._site.find() is not None

    def begin(self) -> None:
        """Complete what is decided, before a run begins."""
        self.close()
        switching.finish(self._site)

    def look(self) -> None:
        """See whether an upgrade is asked for, or is to be dropped."""
        found = self._site.find()
        if found is None or found.is_done or found.failure is not None:
            self.close()
        elif self._site.is_cancelled:
            self.close()
            switching.forget(self._site, found)
        elif self._upgrade is None or self._upgrade.id != found.id:
            self.close()
            try:
                switching.check_follows(self._site, found)
            except UpgradeError as error:
                fail(self._site, found, error)
                return
            self._upgrade = found
            if found.computes:
                self._shadow = Shadow(self._site.name, partial(self._open, found))
        elif self._shadow is not None and self._shadow.failure is not None:
            self._abandon(found, self._shadow.failure)

    def _open(self, upgrade: StoredUpgrade, is_interrupted: Callable[[], bool]) -> Run:
        settings = replace(self._settings, is_interrupted=is_interrupted)
        return open_shadow(self._site, upgrade, settings)

    def turn(self, run: Run) -> bool:
        """Decide for the newer plan, if all is ready; then the run is over, and another begins.

        Raises:
            QueryFencedError: another run of the query took over.
        """
        if self._upgrade is None or not run.positions or run.is_behind_its_log:
            return False
        if self._upgrade.computes:
            shadow = self._shadow.reached_by(run.positions) if self._shadow else None
            if shadow is None or not self._catches_up(shadow, run.positions):
                return False
            try:
                switching.check_alone(self._site, self._upgrade)
            except SharedResultError as error:
                self._abandon(self._upgrade, error)
                return False
        _decide(run, self._upgrade)
        return True

    def _catches_up(self, shadow: Run, positions: Mapping[str, int]) -> bool:
        """Bring the newer plan to the positions of the query; false where it cannot be computed."""
        upgrade = self._upgrade
        assert upgrade is not None
        try:
            shadow.catch_up(positions)
            shadow.checkpoint()
        except Exception as error:
            self._abandon(upgrade, error)
            return False
        return True

    def _abandon(self, upgrade: StoredUpgrade, error: Exception) -> None:
        """Begin anew on the shadow's newest checkpoint, or fail the upgrade: never the query."""
        self.close()
        if not isinstance(error, QueryFencedError) and not passes(error):
            fail(self._site, upgrade, error)

    def close(self) -> None:
        """Let go of an upgrade that is under way; it goes on when the query does."""
        self._upgrade = None
        if self._shadow is not None:
            shadow, self._shadow = self._shadow, None
            shadow.close()


def _decide(run: Run, upgrade: StoredUpgrade) -> None:
    if not run.end_for(upgrade.id):
        raise QueryFencedError("another run began the epoch in which an upgrade was to take over")


def fail(site: Site, upgrade: StoredUpgrade, error: Exception) -> None:
    """Note why an upgrade cannot be; the query goes on as it was."""
    site.write(structs.replace(upgrade, failure=f"{type(error).__name__}: {error}"))


def carry_out(site: Site, open_old: OpenRun, settings: RunSettings) -> None:
    """Carry an upgrade out where nobody runs the query; it stands at the same positions after it.

    Args:
        open_old: opens the run of the older plan.
    """
    if switching.finish(site):
        return
    upgrade = site.find()
    if upgrade is None or upgrade.is_done:
        return
    if site.is_cancelled:
        switching.forget(site, upgrade)
        return
    old: Run | None = None
    shadow: Run | None = None
    try:
        switching.check_follows(site, upgrade)
        old = _opened(open_old)
        if old is None and upgrade.kept:  # states of an epoch that is over: nothing goes on
            upgrade = structs.replace(
                upgrade, same={}, kept=(), changes=tuple(True for _ in upgrade.changes)
            )
            site.write(upgrade)
        shadow = open_shadow(site, upgrade, settings) if upgrade.computes else None
        positions = _together(old, shadow)
        if shadow is not None:
            shadow.catch_up(positions)
            shadow.checkpoint()
        switching.check_alone(site, upgrade)
        if old is not None:
            _decide(old, upgrade)
        else:
            _decide_alone(site, upgrade, positions, settings)
    except QueryFencedError:
        return  # another process carries it out
    except PkrayError as error:
        if switching.decided(site.store.log(site.current), upgrade) is None and not passes(error):
            fail(site, upgrade, error)
        raise
    finally:
        for run in (old, shadow):
            if run is not None:
                run.close()
    switching.finish(site)


def _opened(open_old: OpenRun) -> Run | None:
    """Open the older plan and run what it had begun; None where it cannot be run any more."""
    run: Run | None = None
    try:
        run = open_old()
        while run.is_behind_its_log or not run.positions:
            if not run.step():
                break
    except PkrayError as error:
        if run is not None:
            run.close()
        if passes(error):
            raise
        return None
    return run


def _together(old: Run | None, shadow: Run | None) -> Mapping[str, int]:
    """Find the positions at which the newer plan takes over."""
    if shadow is None:
        return {} if old is None else old.positions
    if old is None:
        while shadow.step():
            pass
        return shadow.positions
    while any(old.positions.get(name, at) < at for name, at in shadow.positions.items()):
        if not old.step():
            break
    return old.positions


def _decide_alone(
    site: Site, upgrade: StoredUpgrade, positions: Mapping[str, int], settings: RunSettings
) -> None:
    """Decide for the newer plan where the older one cannot be run any more."""
    log = site.store.log(site.current)
    found = log.take_over() or NOTHING_YET
    newest = log.newest_epoch()
    number = max(found.epoch, newest.number if newest else -1) + 1
    bounds = {name: (at, at) for name, at in positions.items()}
    log.begin(EpochRecord(number, bounds, settings.clock(), upgrade=upgrade.id))
