"""Write down an upgrade in the folder of its query."""

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from pkray.errors import PkrayError, TableError
from pkray.relational.continuous.log.stored_log import StoredLog
from pkray.relational.continuous.queries.definitions.definition import Definition
from pkray.relational.continuous.queries.definitions.query_store import UPGRADE, DefinedQuery
from pkray.relational.continuous.queries.incarnations.savepoints import tables_read
from pkray.relational.plan.nodes import Node
from pkray.storage.sealed import find_sealed, sealed
from pkray.table.table import Table

_CANCELLED = "upgrade/cancelled"
_PLANS = "plans/"


class StoredUpgrade(msgspec.Struct, frozen=True):
    """One plan takes over from another.

    Attributes:
        id: tells upgrades apart.
        old, new: the query before and after it.
        same: operators that compute the same in both: old numbers by new ones.
        kept: the new numbers of those whose states go on.
        changes: which results may change, by their place; where none does nothing is computed.
        nodes: what becomes of each operator with state, to be shown.
        is_back: whether it goes back to the plan before an upgrade.
        is_done: whether the new plan has taken over; it is not accepted yet.
        returns_to: of one that goes back, the generation of the plan that it goes back to.
        failure: why the new plan cannot be computed; the old one goes on.
    """

    id: str
    old: Definition
    new: Definition
    same: dict[int, int]
    kept: tuple[int, ...]
    changes: tuple[bool, ...]
    nodes: list[dict[str, Any]] = []
    is_back: bool = False
    is_done: bool = False
    failure: str | None = None
    returns_to: str | None = None

    @property
    def computes(self) -> bool:
        """Whether a result has to be computed again."""
        return any(self.changes)

    @property
    def place(self) -> str:
        """Name the folder of its own epochs and checkpoints."""
        return f"upgrade/{self.id}/"

    def follows(self, current: Definition) -> bool:
        """Whether it takes over from the plan that the query has, or has taken over from it: one
        that was asked for while another was carried out does not.
        """
        return current.generation in (self.old.generation, self.new.generation)

    @property
    def state(self) -> str:
        """Say how far it is, in a word."""
        if self.failure:
            return "failed"
        if self.is_done:
            return "unaccepted"
        return "going back" if self.is_back else "warming up"


def columns_of(definition: Definition) -> dict[str, tuple[str, ...]]:
    """List the columns of results, by their tables; the plan need not be bound for that."""
    nodes = definition.document["nodes"]
    return {n["table"]: tuple(n["target"]) for n in nodes if n["type"].startswith("sink_")}


@dataclass(frozen=True)
class Site(DefinedQuery):
    """A query as it was when it was opened, where its upgrades find what they need.

    Attributes:
        roots: binds the plan of a definition.
    """

    roots: Callable[[Definition], tuple[Node, ...]]

    @property
    def current(self) -> Definition:
        """Read what the query is now.

        Raises:
            QueryFencedError: it was dropped, begun anew or sent back to a savepoint.
        """
        return self.store.check_current(self.definition)

    def log(self, upgrade: StoredUpgrade) -> StoredLog:
        """Open the log of an upgrade's shadow."""
        return StoredLog(self.folder, uuid.uuid4().hex, upgrade.place)

    def find(self) -> StoredUpgrade | None:
        """Read the upgrade that is under way or not accepted; None where there is none."""
        return find_sealed(self.folder, UPGRADE, StoredUpgrade)

    def create(self, upgrade: StoredUpgrade) -> bool:
        """Write an upgrade down; false where there is one."""
        if self.find() is None:
            self.folder.delete(_CANCELLED)
        return self.folder.create(UPGRADE, sealed(upgrade))

    def write(self, upgrade: StoredUpgrade) -> None:
        """Replace what is written of an upgrade."""
        self.folder.write(UPGRADE, sealed(upgrade))

    def cancel(self) -> None:
        """Note that the upgrade is to be dropped, if nothing is decided yet."""
        self.folder.write(_CANCELLED, b"")

    def forget_cancelling(self) -> None:
        """Forget that an upgrade was to be dropped: it had taken over before that."""
        self.folder.delete(_CANCELLED)

    @property
    def is_cancelled(self) -> bool:
        """Whether it is to be dropped."""
        return self.folder.exists(_CANCELLED)

    def forget(self) -> None:
        """Delete everything that is written of the upgrade; what says that there is one last."""
        found = [each.path for each in self.folder.list("upgrade/", hidden=True)]
        self.folder.delete([path for path in found if path != _CANCELLED])
        self.folder.delete(UPGRADE)
        self.folder.delete(_CANCELLED)

    def forget_shadow(self, upgrade: StoredUpgrade) -> None:
        """Delete the epochs and checkpoints of its shadow."""
        self.folder.delete([each.path for each in self.folder.list(upgrade.place, hidden=True)])

    def keep_plan(self, definition: Definition) -> None:
        """Keep a plan, by which snapshots of results were made."""
        self.folder.write(f"{_PLANS}{definition.digest}", sealed(definition))

    def plan_of(self, digest: str) -> Definition | None:
        """Read the plan of an older snapshot of a result; None where it is not known."""
        return find_sealed(self.folder, f"{_PLANS}{digest}", Definition)

    def before_tag(self, definition: Definition) -> str:
        """Name the tag of the results before the upgrade."""
        return f"upgrade-{self.name}" + (f"@{definition.begun}" if definition.begun else "")

    def reader(self, definition: Definition, what: str) -> str:
        """Name a consumer of the sources: of the ``shadow``, or of what was ``before``."""
        return f"{definition.reader}-{what}"

    def hold(self, definition: Definition, what: str, positions: Mapping[str, int]) -> None:
        """Keep what the sources hold as of positions, and after them."""
        for table in self._sources(definition):
            position = positions.get(table.name, 0)
            if position > 0:
                table.consumers.reset(self.reader(definition, what), position)

    def let_go(self, definition: Definition, what: str) -> None:
        """Let the sources expire what was held; those that are gone hold nothing."""
        with suppress(TableError):
            for table in self._sources(definition):
                table.consumers.delete(self.reader(definition, what))

    def _sources(self, definition: Definition) -> Iterator[Table]:
        """List the tables that a plan reads; of one that cannot be bound any more there is none."""
        try:
            roots = self.roots(definition)
        except PkrayError:
            return
        yield from tables_read(roots)
