"""Finds a table's rows by key: at the owners of their buckets, answers in the order asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa

from pkray import spans
from pkray.arguments.facade import ColumnNames
from pkray.errors import InputError, PartitionBucketsError, SnapshotNotFoundError
from pkray.lsm.keys.keys import NormalizedKeys
from pkray.rows.input import conform, conform_prefixes
from pkray.scan.split import arrow_schema
from pkray.scan.view import SnapshotView
from pkray.schema.column_checks import repeated
from pkray.schema.default_values import with_defaults
from pkray.schema.table_schema import TableSchema
from pkray.service.calls import OwnerClient
from pkray.service.client.dynamic_client import AssignerClient, KeyClient, dynamic_client
from pkray.service.client.key_ids import identify
from pkray.service.client.open_writers import OpenWriters
from pkray.service.client.routing import (
    PrefixRouter,
    Request,
    Router,
    RowRouting,
    joined,
    requests_of,
)
from pkray.service.handles.handle import gather, persist
from pkray.service.protocol import Lookup, LookupAnswer, Visibility

_MAX_MOVED = 8
"""Times that a lookup of what is not committed follows keys to other partitions."""
_MAX_REROUTED = 8
"""Times that a lookup learns of partitions with other buckets than the table's."""


@dataclass(frozen=True)
class KeyedRows:
    """A table's rows by key at one moment, as users ask for them.

    Args:
        schema: of the rows.
        view: finds them.
    """

    schema: TableSchema
    view: OwnersView | SnapshotView

    def find(self, keys: object, columns: ColumnNames | None) -> pa.Table:
        """Look rows up, as ``Table.lookup``."""
        wanted = self._wanted(columns)
        checked = conform(keys, self.schema, keys_only=True).select(self.schema.primary_keys)
        return self._selected(self.view.find(checked, self._asked(wanted)), wanted)

    def find_prefixes(self, keys: object, columns: ColumnNames | None) -> pa.Table:
        """Look rows up, as ``Table.lookup_prefix``."""
        wanted = self._wanted(columns)
        checked = conform_prefixes(keys, self.schema)
        return self._selected(self.view.find_prefixes(checked, self._asked(wanted)), wanted)

    def _wanted(self, columns: ColumnNames | None) -> pa.Schema:
        wanted = arrow_schema(self.schema, columns)
        again = repeated(wanted.names)
        if again is not None:
            raise InputError(f"column {again!r} is asked for twice: name it once", column=again)
        return wanted

    def _asked(self, wanted: pa.Schema) -> pa.Schema:
        """Name the requested columns, or one that says how many rows there are."""
        return wanted if len(wanted) else arrow_schema(self.schema, self.schema.primary_keys[:1])

    def _selected(self, rows: pa.Table, wanted: pa.Schema) -> pa.Table:
        if not len(wanted):
            return rows.select([])
        return with_defaults(rows, self.schema.default_values)


@dataclass(frozen=True)
class OwnersView:
    """A table as its owners see it: at a snapshot, or with what is not committed.

    Args:
        client: starts the service, where it does not run.
        snapshot_id: answer from this snapshot; by default from the newest.
        staleness_millis: as of `Lookup`.
        table: its name.
    """

    client: Callable[[], LookupClient]
    visibility: Visibility
    snapshot_id: int | None = None
    staleness_millis: int = 0
    table: str = ""

    def find(self, keys: pa.Table, wanted: pa.Schema) -> pa.Table:
        """Find rows, as `LookupClient.find`."""
        with spans.span("lookup", table=self.table):
            return self.client().find(keys, self._asked(wanted))

    def find_prefixes(self, keys: pa.Table, wanted: pa.Schema) -> pa.Table:
        """Find rows, as `LookupClient.find_prefixes`."""
        with spans.span("lookup", table=self.table):
            return self.client().find_prefixes(keys, self._asked(wanted))

    def _asked(self, wanted: pa.Schema) -> Asked:
        return Asked(wanted, self.visibility, self.snapshot_id, self.staleness_millis)


@dataclass(frozen=True)
class Asked:
    """The columns that a lookup wants, and what it is to see; as of `OwnersView`."""

    wanted: pa.Schema
    visibility: Visibility
    snapshot_id: int | None = None
    staleness_millis: int = 0

    @property
    def is_latest(self) -> bool:
        return self.visibility == "latest"


class LookupClient:
    """Lookups over all owners of a table.

    Args:
        writers: those of the table in this process, all of whose rows ``latest`` lookups see.
    """

    def __init__(
        self, schema: TableSchema, owners: Sequence[OwnerClient], writers: OpenWriters | None = None
    ) -> None:
        self._schema = schema
        self._writers = writers or OpenWriters()
        self._owners = owners
        self._dynamic = dynamic_client(schema, owners, self._writers)
        self._router = None if self._dynamic is not None else Router(schema)
        self._prefixes = PrefixRouter(schema, self._router, len(owners))

    def find(self, keys: pa.Table, asked: Asked) -> pa.Table:
        """Find the rows of keys, in the keys' order, from one snapshot.

        Args:
            keys: the primary key columns.
        """

        def find() -> pa.Table:
            if isinstance(self._dynamic, KeyClient):
                return self._find_anywhere(self._dynamic, keys, asked)
            return _rerouted(lambda totals: self._find(keys, asked, totals))

        return self._answer(keys, asked, find)

    def find_prefixes(self, keys: pa.Table, asked: Asked) -> pa.Table:
        """Find all rows of keys that begin so: in the order asked, and each one's in key order.

        Args:
            keys: leading columns of the trimmed primary key, with the partition columns or not.
        """
        by_key = [*self._schema.trimmed_primary_keys, *self._schema.partition_keys]

        def find(totals: Mapping[bytes, int]) -> pa.Table:
            requests = self._prefixes.requests(keys, totals)
            return self._collect(requests, asked, by_key, by_prefix=True)

        return self._answer(keys, asked, lambda: _rerouted(find))

    def _answer(self, keys: pa.Table, asked: Asked, find: Callable[[], pa.Table]) -> pa.Table:
        if keys.num_rows == 0:
            return asked.wanted.empty_table()
        rows = self._writers.complete(find) if asked.is_latest else find()
        chosen = rows.select(asked.wanted.names)
        return chosen if chosen.schema.equals(asked.wanted) else chosen.cast(asked.wanted)

    def _find(self, keys: pa.Table, asked: Asked, totals: Mapping[bytes, int]) -> pa.Table:
        if isinstance(self._dynamic, AssignerClient):
            routing, located = self._dynamic.locate(keys, asked.snapshot_id, latest=asked.is_latest)
            asked = asked if asked.is_latest else replace(asked, snapshot_id=located)
        else:
            assert self._router is not None
            routing = self._router.routing(keys, totals)
        return self._collect(requests_of(keys, routing, len(self._owners)), asked)

    def _find_anywhere(self, client: KeyClient, keys: pa.Table, asked: Asked) -> pa.Table:
        """Rows of keys that may be in any partition."""
        for _ in range(_MAX_MOVED):
            located = client.locate(keys, asked.snapshot_id, latest=asked.is_latest)
            if located is None:
                return self._find_in_all(keys, asked)
            routing, answered = located
            requests = requests_of(keys, routing, len(self._owners))
            moment = None if asked.is_latest else answered
            found = self._collect(requests, replace(asked, snapshot_id=moment))
            complete = found.num_rows == int((routing.buckets >= 0).sum())
            if not asked.is_latest or complete or self._are_there(client, keys, routing):
                break
        return found

    @staticmethod
    def _are_there(client: KeyClient, keys: pa.Table, routing: RowRouting) -> bool:
        """Whether keys are still where they were."""
        located = client.locate(keys, None, latest=True)
        return located is not None and located[0].are(routing)

    def _find_in_all(self, keys: pa.Table, asked: Asked) -> pa.Table:
        """Rows of a snapshot that nobody keeps the keys of: every partition is asked."""
        names = self._schema.primary_keys
        prefixes = keys.select(list(self._schema.trimmed_primary_keys))
        requests = self._prefixes.requests(prefixes, {})
        rows = self._collect(requests, asked, also=names, by_prefix=True)
        # Partition columns that the key holds tell rows of one prefix apart.
        wanted = identify([keys.column(name) for name in names])
        held = identify([rows.column(name) for name in names])
        return rows.take(pa.array(held.positions_of(wanted)))

    def _collect(
        self,
        requests: dict[int, Request],
        asked: Asked,
        by_key: Sequence[str] = (),
        *,
        also: Sequence[str] = (),
        by_prefix: bool = False,
    ) -> pa.Table:
        """The owners' rows, in the order asked and then by these columns.

        Args:
            also: columns that come along with what is wanted.
        """
        if not requests:
            return asked.wanted.empty_table()
        columns = list(dict.fromkeys([*asked.wanted.names, *by_key, *also]))

        def ask(snapshot_id: int | None, stale: int) -> dict[int, LookupAnswer]:
            schema, latest = self._schema, asked.is_latest
            expected = self._writers.expected if latest else lambda _: ()
            how = (asked.visibility, columns, snapshot_id, schema.id, schema.digest, by_prefix)
            return self._ask(
                {
                    owner: Lookup(keys, slices, *how, expected(owner), stale)
                    for owner, (keys, slices, _) in requests.items()
                }
            )

        answers = self._from_one_snapshot(ask, asked)
        positions = joined([requests[owner][2][found] for owner, (found, _, _) in answers.items()])
        tables = [rows for _, rows, _ in answers.values()]
        rows = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
        if len(positions) < 2:
            return rows
        if not by_key:
            return rows.take(pa.array(np.argsort(positions, kind="stable")))
        keys = [pa.array(positions), *(rows.column(name) for name in by_key)]
        return rows.take(pa.array(NormalizedKeys(keys).argsort()))

    def _from_one_snapshot(
        self, ask: Callable[[int | None, int], dict[int, LookupAnswer]], asked: Asked
    ) -> dict[int, LookupAnswer]:
        """Ask the owners, and once more where they know different snapshots."""
        patience, stale = self._owners[0].limits.lookup_seconds, asked.staleness_millis
        answers = persist(lambda: ask(asked.snapshot_id, stale), patience)
        oldest = min(snapshot for _, _, snapshot in answers.values())
        if asked.is_latest or all(snapshot == oldest for _, _, snapshot in answers.values()):
            return answers
        try:
            return persist(lambda: ask(oldest, stale), patience)
        except SnapshotNotFoundError:  # expired since one of them looked
            if not stale:
                raise
        return self._from_one_snapshot(ask, replace(asked, staleness_millis=0))

    def _ask(self, asked: Mapping[int, Lookup]) -> dict[int, LookupAnswer]:
        if len(asked) == 1:
            ((owner, lookup),) = asked.items()
            return {owner: self._owners[owner].lookup(lookup)}
        pending = [self._owners[owner].lookup.submit(lookup) for owner, lookup in asked.items()]
        return dict(zip(asked, gather(pending, _together), strict=True))


def _rerouted(find: Callable[[Mapping[bytes, int]], pa.Table]) -> pa.Table:
    """Gather what is found once partitions are known that have other buckets than the table's."""
    totals: dict[bytes, int] = {}
    for _ in range(_MAX_REROUTED):
        try:
            return find(totals)
        except PartitionBucketsError as error:
            if _is_final(error):
                raise
            totals.update(error.totals)
    return find(totals)


def _together(failures: Sequence[Exception]) -> Exception:
    """One that is final; where none is, what all owners say of partitions."""
    first = next(filter(_is_final, failures), None)
    if first is not None:
        return first
    said = [error for error in failures if isinstance(error, PartitionBucketsError)]
    totals = dict(chain.from_iterable(error.totals.items() for error in said))
    return PartitionBucketsError(said[0].message, totals=totals, buckets=said[0].buckets)


def _is_final(error: Exception) -> bool:
    """Whether a failed lookup cannot go on in other buckets, or nobody knows in which."""
    if not isinstance(error, PartitionBucketsError):
        return True
    return min(error.totals.values(), default=0) < 1
