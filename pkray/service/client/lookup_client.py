"""Finds a table's rows by key: at the owners of their buckets, answers in the order asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa

from pkray.arguments.facade import ColumnNames
from pkray.errors import InputError, PartitionBucketsError
from pkray.lsm.keys.keys import NormalizedKeys
from pkray.rows.input import conform, conform_prefixes
from pkray.scan.split import arrow_schema
from pkray.scan.view import SnapshotView
from pkray.schema.column_checks import repeated
from pkray.schema.default_values import with_defaults
from pkray.schema.table_schema import TableSchema
from pkray.service.calls import OwnerClient
from pkray.service.client.assigner_client import AssignerClient
from pkray.service.client.key_client import KeyClient
from pkray.service.client.key_ids import identify
from pkray.service.client.open_writers import OpenWriters
from pkray.service.client.routing import PrefixRouter, Request, Router, RowRouting
from pkray.service.handle import gather, persist
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
        """What is wanted, or a column that says how many rows there are."""
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
    """

    client: Callable[[], LookupClient]
    visibility: Visibility
    snapshot_id: int | None = None

    def find(self, keys: pa.Table, wanted: pa.Schema) -> pa.Table:
        """Find rows, as `LookupClient.find`."""
        return self.client().find(keys, wanted, self.visibility, self.snapshot_id)

    def find_prefixes(self, keys: pa.Table, wanted: pa.Schema) -> pa.Table:
        """Find rows, as `LookupClient.find_prefixes`."""
        return self.client().find_prefixes(keys, wanted, self.visibility, self.snapshot_id)


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
        self._assigner = AssignerClient.for_schema(schema, owners, self._writers)
        self._keys = KeyClient.for_schema(schema, owners, self._writers)
        is_fixed = self._assigner is None and self._keys is None
        self._router = Router(schema, len(owners)) if is_fixed else None
        self._prefixes = PrefixRouter(schema, self._router, len(owners))

    def find(
        self,
        keys: pa.Table,
        wanted: pa.Schema,
        visibility: Visibility,
        snapshot_id: int | None,
    ) -> pa.Table:
        """Find the rows of keys, in the keys' order, from one snapshot.

        Args:
            keys: the primary key columns.
            wanted: the columns to return.
        """
        if keys.num_rows == 0:
            return wanted.empty_table()
        anywhere = self._keys

        def find() -> pa.Table:
            if anywhere is not None:
                return self._find_anywhere(anywhere, keys, wanted, visibility, snapshot_id)
            return _rerouted(
                lambda totals: self._find(keys, wanted, visibility, snapshot_id, totals)
            )

        return self._writers.complete(find) if visibility == "latest" else find()

    def find_prefixes(
        self,
        keys: pa.Table,
        wanted: pa.Schema,
        visibility: Visibility,
        snapshot_id: int | None,
    ) -> pa.Table:
        """Find all rows of keys that begin so: in the order asked, and each one's in key order.

        Args:
            keys: leading columns of the trimmed primary key, with the partition columns or not.
            wanted: the columns to return.
        """
        if keys.num_rows == 0:
            return wanted.empty_table()
        by_key = [*self._schema.trimmed_primary_keys, *self._schema.partition_keys]
        names = list(dict.fromkeys([*wanted.names, *by_key]))

        def find(totals: Mapping[bytes, int]) -> pa.Table:
            requests = self._prefixes.requests(keys, totals)
            return self._collect(requests, names, visibility, snapshot_id, by_key, by_prefix=True)

        if visibility == "latest":
            return _as(self._writers.complete(lambda: _rerouted(find)), wanted)
        return _as(_rerouted(find), wanted)

    def _find(
        self,
        keys: pa.Table,
        wanted: pa.Schema,
        visibility: Visibility,
        snapshot_id: int | None,
        totals: Mapping[bytes, int],
    ) -> pa.Table:
        routing, located = self._locate(keys, visibility, snapshot_id, totals)
        if visibility == "committed":
            snapshot_id = located
        requests = self._requests(keys, routing)
        if not requests:
            return wanted.empty_table()
        return _as(self._collect(requests, wanted.names, visibility, snapshot_id), wanted)

    def _find_anywhere(
        self,
        client: KeyClient,
        keys: pa.Table,
        wanted: pa.Schema,
        visibility: Visibility,
        snapshot_id: int | None,
    ) -> pa.Table:
        """Rows of keys that may be in any partition."""
        latest = visibility == "latest"
        found = wanted.empty_table()
        for _ in range(_MAX_MOVED):
            located = client.locate(keys, snapshot_id, latest=latest)
            if located is None:
                return self._find_in_all(keys, wanted, visibility, snapshot_id)
            routing, answered = located
            requests = self._requests(keys, routing)
            if not requests:
                return wanted.empty_table()
            moment = None if latest else answered
            found = _as(self._collect(requests, wanted.names, visibility, moment), wanted)
            complete = found.num_rows == int((routing.buckets >= 0).sum())
            if not latest or complete or self._are_there(client, keys, routing):
                break
        return found

    @staticmethod
    def _are_there(client: KeyClient, keys: pa.Table, routing: RowRouting) -> bool:
        """Whether keys are still where they were."""
        located = client.locate(keys, None, latest=True)
        return located is not None and located[0].are(routing)

    def _find_in_all(
        self,
        keys: pa.Table,
        wanted: pa.Schema,
        visibility: Visibility,
        snapshot_id: int | None,
    ) -> pa.Table:
        """Rows of a snapshot that nobody keeps the keys of: every partition is asked."""
        schema = self._schema
        prefixes = keys.select(list(schema.trimmed_primary_keys))
        names = list(dict.fromkeys([*wanted.names, *schema.primary_keys]))
        requests = self._prefixes.requests(prefixes, {})
        rows = self._collect(requests, names, visibility, snapshot_id, by_prefix=True)
        # Partition columns that the key holds tell rows of one prefix apart.
        asked = identify([keys.column(name) for name in schema.primary_keys])
        held = identify([rows.column(name) for name in schema.primary_keys])
        return _as(rows.take(pa.array(held.positions_of(asked))), wanted)

    def _collect(
        self,
        requests: dict[int, Request],
        columns: Sequence[str],
        visibility: Visibility,
        snapshot_id: int | None,
        by_key: Sequence[str] = (),
        *,
        by_prefix: bool = False,
    ) -> pa.Table:
        """The owners' rows, in the order asked and then by these columns."""

        def ask(snapshot_id: int | None) -> dict[int, LookupAnswer]:
            schema, latest = self._schema, visibility == "latest"
            how = (visibility, list(columns), snapshot_id, schema.id, schema.digest, by_prefix)
            return self._ask(
                {
                    owner: Lookup(
                        keys, slices, *how, self._writers.expected(owner) if latest else ()
                    )
                    for owner, (keys, slices, _) in requests.items()
                }
            )

        patience = self._owners[0].limits.lookup_seconds
        answers = persist(lambda: ask(snapshot_id), patience)
        answered = {snapshot for _, _, snapshot in answers.values()}
        if visibility == "committed" and len(answered) > 1:
            oldest = min(answered)
            answers = persist(lambda: ask(oldest), patience)
        positions = _joined([requests[owner][2][found] for owner, (found, _, _) in answers.items()])
        rows = _concatenated([rows for _, rows, _ in answers.values()])
        if len(positions) < 2:
            return rows
        if not by_key:
            return rows.take(pa.array(np.argsort(positions, kind="stable")))
        keys = [pa.array(positions), *(rows.column(name) for name in by_key)]
        return rows.take(pa.array(NormalizedKeys(keys).argsort()))

    def _locate(
        self,
        keys: pa.Table,
        visibility: Visibility,
        snapshot_id: int | None,
        totals: Mapping[bytes, int],
    ) -> tuple[RowRouting, int | None]:
        """Where keys are, and the snapshot that said so where buckets are dynamic."""
        if self._assigner is not None:
            return self._assigner.locate(keys, snapshot_id, latest=visibility == "latest")
        assert self._router is not None
        return self._router.routing(keys, totals), snapshot_id

    def _requests(self, keys: pa.Table, routing: RowRouting) -> dict[int, Request]:
        requests = {}
        for owner, pieces in routing.positions(len(self._owners)).items():
            positions = _joined([rows for _, rows in pieces])
            batch = (
                keys.take(pa.array(positions))
                if len(positions) < keys.num_rows or (len(pieces) > 1)
                else keys
            )
            chunks = batch.to_batches()
            rows = chunks[0] if len(chunks) == 1 else batch.combine_chunks().to_batches()[0]
            requests[owner] = (rows, tuple(piece for piece, _ in pieces), positions)
        return requests

    def _ask(self, asked: Mapping[int, Lookup]) -> dict[int, LookupAnswer]:
        if len(asked) == 1:
            ((owner, lookup),) = asked.items()
            return {owner: self._owners[owner].lookup(lookup)}
        pending = [self._owners[owner].lookup.submit(lookup) for owner, lookup in asked.items()]
        return dict(zip(asked, gather(pending, _together), strict=True))


def _rerouted(find: Callable[[Mapping[bytes, int]], pa.Table]) -> pa.Table:
    """What is found once it is known which partitions have other buckets than the table's."""
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


def _joined(pieces: Sequence[np.ndarray]) -> np.ndarray:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _concatenated(tables: Sequence[pa.Table]) -> pa.Table:
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables)


def _as(rows: pa.Table, wanted: pa.Schema) -> pa.Table:
    chosen = rows.select(wanted.names)
    return chosen if chosen.schema.equals(wanted) else chosen.cast(wanted)
