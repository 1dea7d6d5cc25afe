"""Begin a query anew on tables that hold rows: whose they are, and what becomes of them.

Rows of an earlier query are replaced by those of the new one, in one commit. Those of others are
never deleted, unless `replace` says so.
"""

import re
import secrets
import time
from collections.abc import Callable, Sequence

from msgspec import structs

from pkray.commit.writer_fences import WriterFences
from pkray.errors import SharedResultError
from pkray.metadata.live import live_files
from pkray.relational.continuous.outlets.result_history import ResultHistory
from pkray.relational.continuous.queries.definitions.definition import Definition, old_user
from pkray.relational.continuous.queries.definitions.query_store import QueryStore
from pkray.table.table import Table

_INCARNATION = r"@[0-9a-f]{16}"
_READERS = r"(-shadow|-before|-at-[0-9]+)?"
"""Ends of the names of a query's consumers: of its upgrades, and of tables at a moment."""


def placed(
    definition: Definition,
    results: Sequence[Table],
    store: QueryStore,
    *,
    owns: bool,
    replace: bool,
) -> Definition:
    """Say in a new query what becomes of the rows that its results hold.

    Args:
        results: the tables that it writes.
        owns: whether the results are to hold what the query gives and nothing else; otherwise its
            rows are added to what is there.
        replace: whether all that is there goes.

    Raises:
        SharedResultError: rows would have to go that others may have written.
    """
    stood, replaced, before_it = {}, [], set()
    for table in results:
        history = ResultHistory(table)
        stood[table.name] = latest = history.latest_id
        if not latest:
            continue
        newest = history.newest_of(definition.name)
        if newest is not None:
            before_it.add(newest.incarnation)
        if replace or _replaces(definition, table, history, store, owns=owns):
            replaced.append(table.name)
    return structs.replace(
        definition,
        stood=stood,
        replaces=tuple(replaced),
        clears=replace,
        before_it=tuple(sorted(before_it)),
    )


def _replaces(
    definition: Definition, table: Table, history: ResultHistory, store: QueryStore, *, owns: bool
) -> bool:
    """Whether the rows of a table go; they do where queries alone wrote them that are no more."""
    writers, name = history.writers(), definition.name
    others = writers.besides(name)
    if owns:
        live = {f"query {each}" for each in _writing(store, table.name)} - {f"query {name}"}
        gone = {f"query {each}" for each in writers.queries}
        others = sorted(live | (set(others) - gone))
    elif name not in writers.queries and (writers.is_whole or not _wrote(table, name)):
        return False  # its rows are added to those of others
    if others and _has_rows(table):
        raise SharedResultError(
            f"{table.name} has rows of others than query {name}: {', '.join(others)}; give "
            "replace=True to have its whole content go, or give another table",
            table=table.name,
            query=name,
            writers=tuple(others),
        )
    return True


def _has_rows(table: Table) -> bool:
    snapshot = table.at().snapshot
    store = table.location.open()
    return snapshot is not None and next(iter(live_files(store, snapshot)), None) is not None


def _writing(store: QueryStore, table: str) -> list[str]:
    """List the queries of which a table is a result."""
    return [each.name for each in store.all() if table in each.tables]


def _wrote(table: Table, name: str) -> bool:
    """Whether an incarnation of a query has ever opened a writer of a table."""
    users = WriterFences(table.location.open()).users()
    return any(_is_of(user, name) for user in users)


def _is_of(user: str, name: str) -> bool:
    return re.fullmatch(f"{re.escape(old_user(name))}({_INCARNATION})?", user) is not None


def fence_others(definition: Definition, results: Sequence[Table]) -> None:
    """Have the processes of other incarnations of a query commit nothing any more."""
    for table in results:
        fences = WriterFences(table.location.open())
        for user in fences.users():
            if _is_of(user, definition.name) and user != definition.commits.user:
                fences.take_over(user, new_generation())


def fence(definition: Definition, results: Sequence[Table]) -> None:
    """Have the processes of a query commit nothing any more."""
    for table in results:
        fences = WriterFences(table.location.open())
        fences.take_over(definition.commits.user, new_generation())


def free_others(
    definition: Definition, tables: Sequence[Table], check_current: Callable[[], None]
) -> None:
    """Let expire what other incarnations of a query have still to read; savepoints keep theirs.

    Args:
        tables: that it reads.
        check_current: raises a `QueryFencedError` where the query is of another incarnation by now:
            what that one holds is made after it is stored.
    """
    pattern = f"{re.escape(old_user(definition.name))}({_INCARNATION})?{_READERS}"
    found = [
        (table, name)
        for table in tables
        for name in table.consumers.list()["consumer_id"].to_pylist()
        if re.fullmatch(pattern, name) and not name.startswith(definition.reader)
    ]
    if found:
        check_current()
    for table, name in found:
        table.consumers.delete(name)


def free_own(definition: Definition, tables: Sequence[Table]) -> None:
    """Let expire what this incarnation of a query has still to read; later ones keep theirs.

    Args:
        tables: that it reads.
    """
    own = "|".join(re.escape(each) for each in (definition.reader, old_user(definition.name)))
    for table in tables:
        for name in table.consumers.list()["consumer_id"].to_pylist():
            if re.fullmatch(f"({own}){_READERS}", name):
                table.consumers.delete(name)


def new_generation() -> int:
    """Make a generation that no writer has."""
    return time.time_ns() + secrets.randbelow(1_000_000)
