"""Faults that are planted in pkray, each of which takes one protection away: lives find them.

Of lives from number 0 on so many found each, when this was last measured: sources that are held
too late, and epochs that are forgotten, 1; changes that are lost, 2; commits by the query's name,
rows that are left, 3; rows of others that go, 4; columns by name, 12; numbers alone, an
incarnation that lets go, 23; a table made anew, 48; a savepoint without holds, 71. ``scripts``
find the last one, and what few random lives or none find: a query that is not compared with its
result, checkpoints of a run that was overtaken, a result that stays as it is as its query goes
back, commits of other incarnations, a run that a sleeper cut off and that ends for good.

One is found by no life, and need not be: a run that does not look whether its query is still there
is held back by three others, too: its checkpoint is gone, nobody wants it to run, its writers are
fenced. With all four taken away a script finds it; with any one left none does (``test_lives``).
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec import structs

from pkray.errors import CommitFencedError, QueryFencedError
from pkray.relational.continuous.feeds.feed import Feed
from pkray.relational.continuous.feeds.feeds import Feeds
from pkray.relational.continuous.feeds.table_feed import TableFeed
from pkray.relational.continuous.log.stored_log import StoredLog
from pkray.relational.continuous.outlets.result_history import Commits
from pkray.relational.continuous.outlets.table_outlet import TableOutlet
from pkray.relational.continuous.queries import ending, starting
from pkray.relational.continuous.queries.definitions.definition import Definition, old_user
from pkray.relational.continuous.queries.definitions.query_store import QueryStore
from pkray.relational.continuous.queries.incarnations import begun, life, savepoints
from pkray.relational.continuous.queries.workers.worker import QueryWorker
from pkray.relational.continuous.run import Run

Plant = Callable[[pytest.MonkeyPatch], None]

PLANTS: dict[str, Plant] = {}
"""What is taken away, by what then is so."""


def _plant(name: str) -> Callable[[Plant], Plant]:
    def keep(plant: Plant) -> Plant:
        PLANTS[name] = plant
        return plant

    return keep


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Do nothing."""


@contextlib.contextmanager
def planted(*names: str) -> Iterator[None]:
    """Within it, faults are there."""
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            PLANTS[name](patch)
        yield


@_plant("commits are named by the query alone")
def _(patch: pytest.MonkeyPatch) -> None:
    def commits(self: Definition) -> Commits:
        return Commits(self.name, self.incarnation, old_user(self.name), self.digest)

    patch.setattr(Definition, "commits", property(commits))


@_plant("epochs and checkpoints are named by numbers alone, and read whoever wrote them")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Definition, "prefix", "")
    patch.setattr(StoredLog, "_own", lambda self, record: record)


@_plant("sources are held only once they were read")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Run, "_hold_unread", _nothing)
    patch.setattr(Run, "_hold_first", _nothing)


@_plant("a savepoint does not hold its sources")
def _(patch: pytest.MonkeyPatch) -> None:
    hold = Feeds.hold

    def held(self: Feeds, reader: str, positions: Any) -> None:
        if not reader.startswith("savepoint-"):
            hold(self, reader, positions)

    patch.setattr(Feeds, "hold", held)


@_plant("a run that was overtaken writes checkpoints")
def _(patch: pytest.MonkeyPatch) -> None:
    create = StoredLog._create

    def created(self: Any, path: str, record: Any) -> bool:
        if not create(self, path, record) and "checkpoint" in path:
            self._store.delete(path)
            create(self, path, record)
        return True

    write = StoredLog.write_checkpoint

    def written(self: StoredLog, checkpoint: Any) -> None:
        with pytest.MonkeyPatch.context() as within:
            within.setattr(StoredLog, "_create", created)
            write(self, checkpoint)

    patch.setattr(StoredLog, "write_checkpoint", written)


@_plant("a query that is opened is not compared with its result")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(life, "_check_result", _nothing)
    patch.setattr(life, "_check_epochs", _nothing)


@_plant("a table made anew is taken for the one before")
def _(patch: pytest.MonkeyPatch) -> None:
    for kind in (Feed, TableFeed):
        patch.setattr(kind, "check", _nothing)


@_plant("columns are known by their names")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(life, "check_columns", _nothing)


@_plant("whoever goes back to a savepoint leaves the result as it is")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(savepoints, "_restore", _nothing)


@_plant("rows of others go as a query begins anew")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(begun, "_replaces", lambda *args, **kwargs: True)


@_plant("a query that begins anew leaves the rows of the one before")
def _(patch: pytest.MonkeyPatch) -> None:
    placed = begun.placed

    def kept(*args: Any, **kwargs: Any) -> Definition:
        return structs.replace(placed(*args, **kwargs), replaces=())

    patch.setattr(starting, "placed", kept)


@_plant("a run that lost its query fails")
def _(patch: pytest.MonkeyPatch) -> None:
    fenced = (QueryFencedError, CommitFencedError)
    patch.setattr(QueryWorker, "_is_fenced", lambda self, run, error: isinstance(error, fenced))


@_plant("processes of other incarnations may commit")
def _(patch: pytest.MonkeyPatch) -> None:
    for module in (starting, begun):
        patch.setattr(module, "fence_others", _nothing)
    patch.setattr(ending, "fence", _nothing)


@_plant("a run does not look whether its query is still there")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StoredLog, "check_current", _nothing)


@_plant("a run does not look whether its checkpoint is still there")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StoredLog, "check_not_followed", _nothing)
    patch.setattr(StoredLog, "_check_follows", _nothing)


@_plant("a worker does not look whether its query is to run")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QueryStore, "is_wanted", lambda self, definition: True)


@_plant("epochs that were begun are forgotten")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StoredLog, "epochs_from", lambda self, number: [])


@_plant("a new incarnation lets go of what it holds itself")
def _(patch: pytest.MonkeyPatch) -> None:
    def freed(definition: Definition, tables: Any, check_current: Any) -> None:
        for table in tables:
            for name in table.consumers.list()["consumer_id"].to_pylist():
                if name.startswith(f"query-{definition.name}@"):
                    table.consumers.delete(name)

    for module in (starting, begun):
        patch.setattr(module, "free_others", freed)


@_plant("the changes of the fourth epoch are lost")
def _(patch: pytest.MonkeyPatch) -> None:
    give = TableOutlet.give

    def given(self: TableOutlet, changes: Any, epoch: Any) -> None:
        if epoch.number != 3:
            give(self, changes, epoch)

    patch.setattr(TableOutlet, "give", given)
