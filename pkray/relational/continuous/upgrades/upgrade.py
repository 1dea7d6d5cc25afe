"""Upgrades as people hold them: asked for, waited for, accepted or rolled back."""

import time
import uuid
from collections.abc import Callable
from typing import Any

from msgspec import structs

from pkray import errors
from pkray.relational.continuous.queries.definitions.definition import Definition
from pkray.relational.continuous.queries.incarnations.life import check_columns
from pkray.relational.continuous.upgrades.fates import fates
from pkray.relational.continuous.upgrades.stored import Site, StoredUpgrade
from pkray.relational.continuous.upgrades.switching import check_alone, forget
from pkray.relational.plan.plan_diff import NodeChange, PlanDiff, computes_same

_LOOK_SECONDS = 0.05


class Upgrade:
    """Another plan that takes over a query; made by ``Query.upgrade``.

    Args:
        stored: None: the query has the plan already.
        carry_out: does the work, where nobody runs the query.

    Attributes:
        diff: what becomes of each operator with state.
    """

    def __init__(
        self, site: Site, stored: StoredUpgrade | None, carry_out: Callable[[], None]
    ) -> None:
        self._site = site
        self._stored = stored
        self._carry_out = carry_out
        nodes = stored.nodes if stored is not None else ()
        self.diff = PlanDiff(
            tuple(NodeChange(**{**each, "differs": tuple(each["differs"])}) for each in nodes)
        )

    def __repr__(self) -> str:
        return f"Upgrade({self._site.name!r}, {self.state})"

    @property
    def state(self) -> str:
        """Say how far it is: ``warming up``, ``unaccepted``, ``going back``, ``failed``, or
        ``ended``: it was accepted or rolled back.
        """
        now = self._now()
        return "ended" if now is None else now.state

    def _now(self) -> StoredUpgrade | None:
        now = self._site.find()
        return now if self._stored is not None and now and now.id == self._stored.id else None

    def wait(self, timeout: float = 3600.0) -> None:
        """Wait until the plan has taken over.

        Args:
            timeout: seconds.

        Raises:
            QueryFailedError: the plan cannot be computed; the query goes on as it was.
            QueryFencedError: the query was dropped, or begun anew.
            ServiceUnavailableError: it takes longer.
        """
        deadline = time.monotonic() + timeout
        while (now := self._now()) is not None and not now.is_done:
            if now.failure is not None:
                raise errors.QueryFailedError(
                    f"the upgrade of query {self._site.name} stopped: {now.failure}; the query goes"
                    " on as it was: roll the upgrade back, and give another plan",
                    query=self._site.name,
                )
            if time.monotonic() > deadline:
                raise errors.ServiceUnavailableError(
                    f"the upgrade of query {self._site.name} has not ended in {timeout} s; it goes "
                    "on, and wait() waits again"
                )
            self._carry_out()
            time.sleep(_LOOK_SECONDS)
        if now is None and self._stored is not None:
            self._site.store.check_current(self._site.definition)


def new_identity() -> str:
    """Make the name of an upgrade."""
    return uuid.uuid4().hex[:12]


def ask(site: Site, current: Definition, proposal: Definition) -> StoredUpgrade | None:
    """Ask for an upgrade; None where the query has the plan already: tables that it reads may have
    got columns that it does not read.

    Args:
        proposal: the query with its newer plan, whose generation names the upgrade.

    Raises:
        SharedResultError: a result that would change has rows of others.
        UpgradeRefusedError: the plan cannot take over.
        UpgradeError: another upgrade is under way, or not accepted yet.
    """
    there = site.find()
    if there is not None and there.failure is not None and not there.is_back:
        forget(site, there)
        there = None
    if there is not None and not there.is_back and _is_same(there.new, proposal):
        return there
    if there is not None:
        done = "not accepted yet: accept it or roll it back first"
        said = done if there.is_done else "under way: wait for it, or roll it back"
        raise errors.UpgradeError(
            f"query {site.name} has an upgrade that is {said}", query=site.name, state=there.state
        )
    if _is_same(current, proposal):
        return None
    found = fates(site, current, proposal)
    _check_refused(site.name, found.diff)
    upgrade = StoredUpgrade(
        proposal.generation,
        current,
        proposal,
        dict(found.same),
        found.kept,
        found.changes,
        found.diff.to_dict()["nodes"],
    )
    check_alone(site, upgrade)
    if not site.create(upgrade):
        raise errors.UpgradeError(
            f"another upgrade of query {site.name} was begun meanwhile", query=site.name
        )
    return upgrade


def _check_refused(name: str, diff: PlanDiff) -> None:
    if diff.refused:
        first = diff.refused[0]
        raise errors.UpgradeRefusedError(
            f"query {name} cannot be upgraded: {first.differs[0]} of {first.description}: "
            f"{first.reason}; start another query beside it",
            query=name,
            field=first.differs[0],
        )


def ask_back(site: Site) -> StoredUpgrade | None:
    """Ask for the plan before the upgrade; None where there was nothing but a plan to drop: it had
    failed, or the query got another one before it was asked for.

    Raises:
        UpgradeError: there is no upgrade.
        SchemaChangedError: a column that the states of the older plan are of was dropped, and
            another added under its name.
    """
    there = _find(site, "to roll back")
    if not there.is_done and not there.follows(site.current):
        forget(site, there)
        return None
    if there.is_back and there.failure is None:
        return there
    if there.failure is not None and not there.is_back:
        forget(site, there)
        return None
    if not there.is_done and not there.is_back:
        site.cancel()
        return there
    back = _way_back(there)
    check_columns(site.roots(back.new), back.new.columns)
    check_alone(site, back)
    site.forget_cancelling()
    site.write(back)
    return back


def _way_back(done: StoredUpgrade) -> StoredUpgrade:
    if done.is_back:  # one that failed: it is tried again
        return structs.replace(done, failure=None)
    identity = new_identity()
    keeps = not done.computes
    return StoredUpgrade(
        identity,
        done.new,
        structs.replace(done.old, generation=identity),
        {old: new for new, old in done.same.items()} if keeps else {},
        tuple(done.same[each] for each in done.kept) if keeps else (),
        done.changes,
        is_back=True,
        returns_to=done.old.generation,
    )


def accept(site: Site) -> None:
    """Let go of what going back needs.

    Raises:
        UpgradeError: there is no upgrade, or it has not taken over yet.
    """
    there = _find(site, "to accept")
    if not there.is_done:
        raise errors.UpgradeError(
            f"the upgrade of query {site.name} has not taken over yet: it is {there.state}",
            query=site.name,
            state=there.state,
        )
    forget(site, there)


def _is_same(one: Definition, other: Definition) -> bool:
    """Whether plans of one version do the same, and keep what they remember for the same time."""
    versions = {each.document.get("pkrayVersion") for each in (one, other)}
    return (
        len(versions) == 1
        and one.dialect == other.dialect
        and one.before == other.before
        and one.ttls == other.ttls
        and computes_same(one.document, other.document)
    )


def _find(site: Site, what: str) -> StoredUpgrade:
    there = site.find()
    if there is None:
        raise errors.UpgradeError(f"query {site.name} has no upgrade {what}", query=site.name)
    return there


def described(site: Site) -> dict[str, Any] | None:
    """Say what a query's upgrade does; None where there is none."""
    there = site.find()
    if there is None:
        return None
    return {"state": there.state, "failure": there.failure, "nodes": there.nodes}
