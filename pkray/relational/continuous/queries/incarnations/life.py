"""Check that what a query wrote down, its results and its sources belong together.

A query is known by more than its name: it may be dropped and begun anew, its folder restored from
an older copy, its result rolled back, a source made anew, while a process of it is stopped. So each
beginning has an **incarnation**, and whoever opens the query looks at the truth first: the newest
snapshot of each result against the log, the sources against the positions, the columns that are
read against their ids.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pkray.errors import QueryDivergedError, SchemaChangedError, UnsupportedError
from pkray.metadata.schemas import SchemaStore
from pkray.options.values import duration_millis
from pkray.relational.continuous.feeds.feeds import Feeds, scans_of
from pkray.relational.continuous.log.log import NOTHING_YET, WAYS_ON, Checkpoint, EpochRecord
from pkray.relational.continuous.log.stored_log import StoredLog
from pkray.relational.continuous.outlets.result_history import ResultHistory
from pkray.relational.continuous.outlets.table_outlet import gone
from pkray.relational.continuous.queries.definitions.definition import Definition
from pkray.relational.plan.describe import description
from pkray.relational.plan.expressions import TRUE
from pkray.relational.plan.json.writer import in_order, shared_nodes
from pkray.relational.plan.nodes import Join, Node
from pkray.relational.plan.scans import scans_in
from pkray.relational.plan.source_sides import source_sides
from pkray.relational.plan.state import keyed_map
from pkray.relational.sources.table import TableSource
from pkray.storage.object_store import together
from pkray.table.table import Table


def check_layouts(
    roots: Sequence[Node], before: Mapping[str, Any], after: Mapping[str, Any]
) -> None:
    """Check that operators keep the same rows under other TTLs.

    Args:
        roots: the plan of both.
        before, after: as JSON has it, with the TTLs.

    Raises:
        UnsupportedError: one does not; the error names the node, and the field ``ttl``.
    """
    was, is_now = _expiring(before), _expiring(after)
    for number, node in enumerate(in_order(shared_nodes(roots)), 1):
        if was.get(number) != is_now.get(number) and _keeps_by_ttl(node):
            raise UnsupportedError(
                f"node {number}, {description(node)}, keeps rows that expire, and otherwise reads "
                "them from its sources: its ttl cannot change from or to 0 while it has state; "
                "let the plan take over by query.upgrade(…), or leave the ttl as it is",
                node=number,
                field="ttl",
            )


def _expiring(document: Mapping[str, Any]) -> dict[int, bool]:
    """Say of each node whether any of its state expires."""
    return {
        node["id"]: any(duration_millis(state["ttl"]) for state in node.get("state", ()))
        for node in document["nodes"]
    }


def _keeps_by_ttl(node: Node) -> bool:
    """Whether what an operator keeps depends on whether it expires."""
    if not isinstance(node, Join) or node.is_windowed():
        return False
    counts_keys = not node.kind.keeps_right and node.condition == TRUE
    return counts_keys or any(side is not None for side in source_sides(node))


def check_life(
    definition: Definition, log: StoredLog, roots: Sequence[Node], results: Sequence[Table]
) -> Checkpoint | None:
    """Check that a query can go on from what it wrote down; change nothing.

    Args:
        results: the tables that it writes.

    Returns:
        the newest checkpoint; None before the first.

    Raises:
        QueryDivergedError: it cannot; the error says what is there, what was expected, and what to
            do.
        SchemaChangedError: a column that it reads was dropped, and another added under its name.
    """
    check_maps(definition, roots)
    newest = log.newest_checkpoint()
    found = newest or NOTHING_YET
    # What was begun is read before the results: these are never ahead of it.
    begun, columns = together(
        log.store,
        lambda: log.epochs_from(found.epoch + 1),
        lambda: _columns_now(roots, definition.columns),
    )
    _check_epochs(definition, found, begun)
    together(
        log.store,
        *(partial(_check_result, definition, found, begun, table) for table in results),
        partial(_check_sources, roots, found, begun),
    )
    _check_columns(definition.columns, columns)
    return newest


def check_maps(definition: Definition, roots: Sequence[Node]) -> None:
    """Check that keys of states that hold MAPs are those by which they are looked for.

    Versions that put the files of a query beside its definition told MAPs apart by the order of
    their entries, in keys of states too: what they stored is not found.

    Raises:
        QueryDivergedError: a query of theirs has such keys.
    """
    if definition.apart:
        return
    for node in (each for root in roots for each in root.walk()):
        column = keyed_map(node)
        if column is not None:
            raise QueryDivergedError(
                f"query {definition.name} keeps rows by {column!r} ({type(node).__name__}), of a "
                "type that holds a MAP, and was begun by an older version, for which MAPs with "
                "their entries in another order were others: its state may lack rows under their "
                "keys; begin anew by materialize(…, replace=True) or start(…, replace=True)",
                query=definition.name,
                column=column,
            )


def _check_epochs(definition: Definition, found: Checkpoint, begun: Sequence[EpochRecord]) -> None:
    """Check that each epoch begins where the one before it ended."""
    positions = found.positions
    for record in begun:
        begins = {name: after for name, (after, _) in record.bounds.items()}
        if positions and any(positions.get(name, at) != at for name, at in begins.items()):
            raise QueryDivergedError(
                f"epoch {record.number} of query {definition.name} begins at {begins}, and what "
                f"comes before it ends at {dict(positions)}: its files are not of one time; "
                f"{WAYS_ON}",
                query=definition.name,
                found=begins,
                expected=dict(positions),
            )
        positions = {name: until for name, (_, until) in record.bounds.items()}


def _check_result(
    definition: Definition, found: Checkpoint, begun: Sequence[EpochRecord], table: Table
) -> None:
    """Check that the newest commit to a result is the one that the log says."""
    history, expected = ResultHistory(table), found.results.get(table.name)
    newest = history.newest_of(definition.name, after=definition.stood.get(table.name, 0))
    if newest is not None and not definition.is_own(newest.incarnation):
        if newest.incarnation in definition.before_it and expected is None:
            newest = None  # this one has not committed yet
        else:
            raise QueryDivergedError(
                f"the result {table.name} of query {definition.name} is of another incarnation of "
                f"it, {newest.incarnation or 'one without a name'}, and what is kept of the query "
                f"is of {definition.incarnation}: its folder is older than its result; {WAYS_ON}",
                query=definition.name,
                table=table.name,
                found=newest.incarnation,
                expected=definition.incarnation,
            )
    if expected is not None and not history.has(expected.snapshot, expected.mark):
        raise gone(definition.name, table.name, expected)
    if newest is None:
        return
    epoch = newest.committed.epoch
    last = begun[-1].number if begun else found.epoch
    # Of versions that wrote no results down only what is ahead can be told.
    is_behind = expected is not None and epoch < expected.epoch
    if epoch > last or is_behind:
        raise QueryDivergedError(
            f"the result {table.name} of query {definition.name} has epoch {epoch}, and what is "
            f"kept of the query ends with epoch {last}: files of {definition.name} are missing, or "
            f"older than its result; {WAYS_ON}",
            query=definition.name,
            table=table.name,
            found=epoch,
            expected=last,
        )
    if epoch > found.epoch:
        record = next(each for each in begun if each.number == epoch)
        ends = {name: until for name, (_, until) in record.bounds.items()}
        if any(ends.get(name, at) != at for name, at in newest.positions.items()):
            raise QueryDivergedError(
                f"epoch {epoch} of query {definition.name} ends at {ends}, and its result "
                f"{table.name} says {dict(newest.positions)}: the epoch was written down anew; "
                f"{WAYS_ON}",
                query=definition.name,
                table=table.name,
                found=dict(newest.positions),
                expected=ends,
            )


def _check_sources(roots: Sequence[Node], found: Checkpoint, begun: Sequence[EpochRecord]) -> None:
    feeds = Feeds(scans_of(roots))
    feeds.check(found.positions, found.marks)
    for record in begun:
        feeds.check({name: until for name, (_, until) in record.bounds.items()}, record.marks)


def columns_read(roots: Sequence[Node]) -> dict[str, dict[str, int]]:
    """List the ids of the columns that plans read, by name, by table."""
    found: dict[str, dict[str, int]] = {}
    for source, names in _scanned(roots):
        ids = {each.name: each.id for each in source.schema.fields}
        of_table = found.setdefault(source.name, {})
        of_table.update({name: ids[name] for name in names if name in ids})
    return found


def check_columns(roots: Sequence[Node], known: Mapping[str, Mapping[str, int]]) -> None:
    """Check that columns are those that a query has read so far, whatever they are called.

    Raises:
        SchemaChangedError: one was dropped, and another added under its name.
    """
    _check_columns(known, _columns_now(roots, known))


def _columns_now(
    roots: Sequence[Node], known: Mapping[str, Mapping[str, int]]
) -> dict[str, dict[str, int]]:
    """Read the ids that columns of tables which are read have now, by name, by table."""
    found = {}
    for table in {source.name: source.original for source, _ in _scanned(roots)}.values():
        if table.name in known:
            newest = SchemaStore(table.location.open(), table.name).latest()
            found[table.name] = {each.name: each.id for each in newest.fields}
    return found


def _check_columns(
    known: Mapping[str, Mapping[str, int]], now: Mapping[str, Mapping[str, int]]
) -> None:
    for table, columns in known.items():
        for name, before in columns.items():
            number = now.get(table, {}).get(name, before)
            if before != number:
                raise SchemaChangedError(
                    f"column {name!r} of {table} was dropped, and another one added under its "
                    "name, since the query read it: begin anew by materialize(…, replace=True)",
                    table=table,
                    column=name,
                    found=number,
                    expected=before,
                )


def _scanned(roots: Sequence[Node]) -> list[tuple[TableSource, tuple[str, ...]]]:
    return [
        (each.source, tuple(each.fields.names))
        for each in scans_in(roots)
        if isinstance(each.source, TableSource)
    ]
