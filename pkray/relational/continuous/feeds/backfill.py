"""The first epoch of a query, read and computed elsewhere up to the first operator with state.

::

    backfill/<attempt>/     a spool: batch n has the rows of the n-th part
    backfill.json           created when an attempt is done: which one, its positions and its parts

A part is a scan of a table with what computes row by row above it. An attempt that is killed leaves
no backfill.json, and is begun anew at positions of its own.
"""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from pkray.arguments.file_names import checked
from pkray.clock import now_millis
from pkray.columns.batches import batch_of
from pkray.errors import CorruptFileError, MissingFileError, QueryFailedError
from pkray.relational.continuous.changes import Changes
from pkray.relational.continuous.feeds.feed import NOTHING, Bounds
from pkray.relational.continuous.feeds.feeds import Feeds
from pkray.relational.continuous.feeds.streams import SILENT_MILLIS
from pkray.relational.plan import nodes
from pkray.relational.plan.json.writer import in_order, shared_nodes
from pkray.relational.plan.physical import to_logical
from pkray.relational.running import timed
from pkray.relational.sources.table import TableSource
from pkray.scan.moment import Moment
from pkray.schema.types import TIMESTAMPS, DataType
from pkray.storage.object_store import ObjectStore
from pkray.storage.sealed import find_sealed, sealed
from pkray.storage.spool import Spool

_ROW_BY_ROW = (nodes.Calc, nodes.Expand, nodes.Filter, nodes.Hint, nodes.Project, nodes.Unnest)
_DONE = "backfill.json"
_FINEST_DIGITS = 6
"""Of seconds, that other engines keep."""


class _Done(msgspec.Struct, frozen=True):
    """Records what an attempt has brought.

    Attributes:
        attempt: its folder.
        bounds: of the first epoch, by source.
        parts: numbers of the scans, and of the nodes whose rows the batches have.
    """

    attempt: str
    bounds: dict[str, tuple[int, int]]
    parts: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Parts:
    """Lists what is to be computed elsewhere.

    Attributes:
        bounds: of the first epoch, by source.
        plans: by the numbers of their scan and of the node that they stand for; their tables are
            pinned.
    """

    bounds: Mapping[str, Bounds]
    plans: Mapping[tuple[int, int], nodes.Node]


class Backfill:
    """Brings what another engine computes for the first epoch of a query.

    Args:
        folder: of the query.
        roots: its physical plans.
        begun: the incarnation that was begun with it; empty: of a version that knew none.
    """

    def __init__(self, folder: ObjectStore, roots: Sequence[nodes.Node], begun: str = "") -> None:
        self._folder = folder
        self._done_path = f"backfill-{begun}.json" if begun else _DONE
        self._store = folder.child("backfill")
        self._order = list(in_order(shared_nodes(roots)))
        self._found: _Done | None = None

    def parts(self, feeds: Feeds, *, row_by_row: bool) -> Parts:
        """Choose what is computed elsewhere, at the newest positions.

        Args:
            row_by_row: whether that computes too, and does not only read.
        """
        bounds = feeds.next({})
        assert bounds is not None, "a table has a first position"
        plans = {}
        for scan, top in _tops(self._order, row_by_row=row_by_row):
            source = self._scan(scan).source
            after, until = bounds[feeds.name_of(source)]
            node = self._order[top - 1]
            if after == NOTHING and until > 0 and _keeps_all(node):
                plans[scan, top] = to_logical(_pinned(node, until))
        return Parts(bounds, plans)

    def begin(self) -> tuple[str, Spool]:
        """Begin an attempt; delete those whose process is gone."""
        for path in self._store.list_dirs():
            spool = Spool(self._store.child(path))
            feeder = spool.feeder()
            if feeder is None or now_millis() - feeder.time > SILENT_MILLIS:
                spool.store.delete([each.path for each in spool.store.list(hidden=True)])
        name = uuid.uuid4().hex
        return name, Spool(self._store.child(name))

    def end(self, attempt: str, parts: Parts) -> None:
        """Note that an attempt is done; nothing where another one was before."""
        done = _Done(attempt, dict(parts.bounds), tuple(parts.plans))
        self._folder.create(self._done_path, sealed(done))

    @property
    def is_done(self) -> bool:
        """Whether an attempt has brought everything."""
        return self._done() is not None

    def bounds(self) -> dict[str, Bounds] | None:
        """Give the bounds of the first epoch; None where no attempt is done.

        Raises:
            QueryFailedError: the newest attempt failed.
        """
        done = self._done()
        if done is not None:
            return dict(done.bounds)
        status = self.status()
        if status["state"] == "failed":
            raise QueryFailedError(
                f"the backfill failed: {status['failure']}; mend the cause, then resume the query"
            )
        return None

    def read(self, feeds: Feeds, worker: int, workers: int) -> Iterator[dict[int, Changes]]:
        """Read a worker's share of the first epoch: rows by the number of the node whose they are.

        Args:
            worker: its number, from 0.
            workers: how many share the rows, file by file.
        """
        done = self._done()
        assert done is not None, "its bounds are known"
        spool = Spool(self._store.child(done.attempt))
        for place, (_, top) in enumerate(done.parts):
            batch, schema = spool.batch(place), self._order[top - 1].fields.arrow
            if batch is None:
                raise MissingFileError(f"part {place} of the backfill is gone", part=place)
            own = batch.files[worker::workers]
            for rows in (rows for file in own for rows in spool.read_file(file)):
                yield {top: Changes.of_kind(batch_of(rows.columns, schema, rows.num_rows))}
        yield from feeds.read(done.bounds, without=[scan for scan, _ in done.parts])

    def _scan(self, number: int) -> nodes.Scan:
        scan = self._order[number - 1]
        assert isinstance(scan, nodes.Scan)
        return scan

    def forget(self) -> None:
        """Delete the rows: a checkpoint has them."""
        if self._done() is not None:
            self._store.delete([each.path for each in self._store.list(hidden=True)])

    def status(self) -> dict[str, Any]:
        """Say how far it is: ``state``, ``failure``, and how many ``tasks`` are done."""
        if self._done() is not None:
            return {"state": "ended", "failure": None}
        feeders = [Spool(self._store.child(path)).feeder() for path in self._store.list_dirs()]
        newest = max((each for each in feeders if each), key=lambda each: each.time, default=None)
        if newest is None:
            return {"state": "waiting", "failure": None}
        silent = newest.state == "running" and now_millis() - newest.time > SILENT_MILLIS
        state = "waiting" if silent else newest.state
        return {
            "state": state,
            "failure": newest.message,
            "tasks": f"{newest.done} of {newest.total}",
        }

    def _done(self) -> _Done | None:
        if self._found is None:
            found = find_sealed(self._folder, self._done_path, _Done)
            if found is None:
                return None
            try:
                checked(found.attempt)
            except ValueError as error:
                raise CorruptFileError(
                    f"{self._folder.url}/{self._done_path} is damaged: {error}",
                    path=self._done_path,
                ) from error
            self._found = found
        return self._found


def _tops(order: Sequence[nodes.Node], *, row_by_row: bool) -> Iterator[tuple[int, int]]:
    """Find, for each scan of a table, the last node that computes its rows one by one."""
    numbers = {id(node): number for number, node in enumerate(order, 1)}
    takers: dict[int, list[nodes.Node]] = {}
    for node in order:
        for each in node.inputs:
            takers.setdefault(id(each), []).append(node)
    for number, node in enumerate(order, 1):
        if isinstance(node, nodes.Scan) and isinstance(node.source, TableSource):
            top: nodes.Node = node
            while row_by_row and (taker := _only(takers.get(id(top), ()))) is not None:
                top = taker
            yield number, numbers[id(top)]


def _only(takers: Sequence[nodes.Node]) -> nodes.Node | None:
    """Give the one node that takes rows, where it computes them one by one and at any time."""
    if len(takers) != 1 or not isinstance(takers[0], _ROW_BY_ROW):
        return None
    return takers[0] if timed(takers[0], 0) is takers[0] else None


def _keeps_all(top: nodes.Node) -> bool:
    """Whether another engine has all digits of all values, and there are columns."""
    kinds = [field.type for node in top.walk() for field in node.fields]
    return bool(top.fields.names) and all(map(_is_kept, kinds))


def _is_kept(kind: DataType) -> bool:
    if kind.root in (*TIMESTAMPS, "TIME"):
        return (kind.precision or 0) <= _FINEST_DIGITS
    return all(map(_is_kept, kind.parts))


def _pinned(top: nodes.Node, snapshot: int) -> nodes.Node:
    def pin(node: nodes.Node) -> nodes.Node:
        if isinstance(node, nodes.Scan) and isinstance(node.source, TableSource):
            return replace(node, source=node.source.pinned(Moment(snapshot)))
        return node

    return top.transform(pin)
