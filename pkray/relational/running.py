"""Bounded runs: a plan's tables and the time are fixed, then the local engine reads batches."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from pkray import spans
from pkray.errors import OptionError, QueryError
from pkray.relational.functions.time.now import at_instant
from pkray.relational.local.catalogue import run as run_local
from pkray.relational.optimizer import optimize
from pkray.relational.plan import nodes
from pkray.relational.sources.table import TableSource
from pkray.scan.moment import LATEST, Moment

_TRIES = 10
"""Looks at the newest snapshots of all tables, until none has moved between two."""


def prepare(plan: nodes.Node) -> nodes.Node:
    """Make a bound plan ready to be run; its columns keep their types.

    The optimizer finds that some are never NULL; who runs the plan was told otherwise.
    """
    found = optimize(plan, bounded=True)
    if found.fields == plan.fields:
        return found
    return nodes.Project(found, plan.fields.refs)


def run(plan: nodes.Node, **options: Any) -> Iterator[pa.RecordBatch]:
    """Run a plan whose tables are pinned on the local engine."""
    return spans.over("run", run_local(prepare(plan), **options))


def pinned(
    plan: nodes.Node,
    snapshot: int | Mapping[str, int] | None = None,
    tag: str | None = None,
    timestamp: Any = None,
) -> nodes.Node:
    """Bind every table of a plan to one snapshot: the moment given, or one instant now.

    ``current_timestamp`` and its kin become the time of this call.

    Args:
        snapshot: an id, if the plan reads one table, or ids by table name.

    Raises:
        OptionError: the moment is named twice, or names a table that the plan does not read.
        SnapshotNotFoundError, TagNotFoundError: a table has no such snapshot.
    """
    return pinned_together([plan], snapshot, tag, timestamp)[0]


def pinned_together(
    plans: Sequence[nodes.Node],
    snapshot: int | Mapping[str, int] | None = None,
    tag: str | None = None,
    timestamp: Any = None,
) -> list[nodes.Node]:
    """Bind every table of some plans to one snapshot, as of `pinned`."""
    tables = list(dict.fromkeys(table for plan in plans for table in _tables(plan)))
    moments = _moments(tables, snapshot, tag, timestamp)
    found = {table: table.pinned(moments.get(table.name, LATEST)) for table in tables}
    if len(found) > 1 and not moments:
        found = _at_one_instant(found)
    micros = _now()
    return [_at(plan, found, micros) for plan in plans]


def _now() -> int:
    return time.time_ns() // 1000


def _at(plan: nodes.Node, found: Mapping[TableSource, TableSource], micros: int) -> nodes.Node:
    return plan.transform(lambda node: timed(_pinned(node, found), micros))


def _at_one_instant(found: dict[TableSource, TableSource]) -> dict[TableSource, TableSource]:
    """Look again until nothing was committed between two looks."""
    for _ in range(_TRIES):
        again = {table: table.pinned() for table in found}
        if again == found:
            break
        found = again
    return found


def _moments(
    tables: list[TableSource],
    snapshot: int | Mapping[str, int] | None,
    tag: str | None,
    timestamp: Any,
) -> dict[str, Moment]:
    given = {"snapshot": snapshot, "tag": tag, "timestamp": timestamp}
    said = [name for name, value in given.items() if value is not None]
    if len(said) > 1:
        raise OptionError(f"{' and '.join(said)} name a moment each: give one", arguments=said)
    if not said:
        return {}
    names = sorted({table.name for table in tables})
    if not names:
        raise OptionError(f"{said[0]} names a moment of tables: this query reads none")
    if isinstance(snapshot, Mapping):
        unknown = [name for name in snapshot if name not in names]
        if unknown:
            raise OptionError(
                f"snapshot names {unknown[0]!r}: the query reads {', '.join(names)}",
                arguments=("snapshot",),
            )
        return {name: Moment.from_arguments(number) for name, number in snapshot.items()}
    if snapshot is not None:
        if len(names) > 1:
            raise QueryError(
                f"snapshot {snapshot} may be of {' or '.join(names)}: give ids by table, such as "
                f"{{{names[0]!r}: {snapshot}}}"
            )
        return {names[0]: Moment.from_arguments(snapshot)}
    return dict.fromkeys(names, Moment.from_arguments(None, tag, timestamp))


def _tables(plan: nodes.Node) -> Iterator[TableSource]:
    for node in plan.walk():
        if isinstance(node, nodes.Scan) and isinstance(node.source, TableSource):
            yield node.source


def _pinned(node: nodes.Node, found: Mapping[TableSource, TableSource]) -> nodes.Node:
    if isinstance(node, nodes.Scan) and isinstance(node.source, TableSource):
        return replace(node, source=found[node.source])
    return node


def timed(node: nodes.Node, micros: int) -> nodes.Node:
    """Put the time where a node's expressions ask for it.

    Args:
        micros: since 1970-01-01 00:00:00 UTC.

    Returns:
        the node itself where they do not.
    """
    if isinstance(node, nodes.Scan | nodes.WatermarkAssign):
        return node
    return node.with_expressions(lambda value: at_instant(value, micros))
