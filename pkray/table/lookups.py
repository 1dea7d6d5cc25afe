"""Lookups of a table's rows by key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from pkray.arguments.facade import ColumnNames
from pkray.errors import InputError, OptionError
from pkray.rows.input import conform, conform_prefixes
from pkray.scan.snapshot_selector import SnapshotSelector
from pkray.scan.split import arrow_schema
from pkray.scan.view import SnapshotView
from pkray.schema.column_checks import repeated
from pkray.schema.default_values import with_defaults
from pkray.schema.table_schema import TableSchema
from pkray.service.client.lookup_client import LookupClient
from pkray.service.protocol import Visibility
from pkray.service.runtime import Runtime, TableService
from pkray.table.reads import Reads


class Lookups:
    """Looks rows up by key, at the owners of the buckets.

    Args:
        runtime: starts the table's service, where it does not run.
    """

    def __init__(self, reads: Reads, runtime: Runtime) -> None:
        self._reads = reads
        self._runtime = runtime
        self._newest: tuple[TableSchema, TableService, LookupClient] | None = None

    def find(
        self,
        keys: object,
        columns: ColumnNames | None,
        visibility: Visibility,
        selector: SnapshotSelector,
    ) -> pa.Table:
        """Look rows up, as ``Table.lookup``."""
        schema, rows = self._rows(visibility, selector)
        wanted = _wanted(schema, columns)
        checked = conform(keys, schema, keys_only=True).select(schema.primary_keys)
        return _selected(schema, wanted, lambda columns: rows.find(checked, columns))

    def find_prefixes(
        self,
        keys: object,
        columns: ColumnNames | None,
        visibility: Visibility,
        selector: SnapshotSelector,
    ) -> pa.Table:
        """Look rows up, as ``Table.lookup_prefix``."""
        schema, rows = self._rows(visibility, selector)
        wanted = _wanted(schema, columns)
        prefixes = conform_prefixes(keys, schema)
        return _selected(schema, wanted, lambda columns: rows.find_prefixes(prefixes, columns))

    def _rows(
        self, visibility: Visibility, selector: SnapshotSelector
    ) -> tuple[TableSchema, _OwnersRows | SnapshotView]:
        """Choose what a lookup asks; after the schema of its rows."""
        _check_visibility(visibility, not selector.is_latest)
        schema = self._reads.schema
        if selector.is_latest:
            return schema, _OwnersRows(lambda: self._client(schema), visibility)
        view = self._reads.find(selector)  # owners know another table
        snapshot, schema = view.snapshot, view.schema
        if selector.tag is not None and snapshot is not None and not self._reads.holds(snapshot):
            self._reads.identity.check_same_table()
            return schema, view  # the owners know snapshots by their ids
        answer_from = None if snapshot is None else snapshot.id
        return schema, _OwnersRows(lambda: self._client(schema), visibility, answer_from)

    def _client(self, schema: TableSchema) -> LookupClient:
        """Ask the owners; the client of the newest schema is kept for as long as they run."""
        reads, known = self._reads, self._newest
        service = self._runtime.service(reads.location, reads.schema)
        if known is not None and known[0] is schema and known[1] is service:
            return known[2]
        client = LookupClient(schema, service.owners, service.writers)
        if schema is reads.schema:
            self._newest = schema, service, client
        return client


@dataclass(frozen=True)
class _OwnersRows:
    """Rows by key as the owners see them: of a snapshot, or with what is not committed.

    Args:
        client: starts the service, where it does not run.
        snapshot_id: answer from this snapshot; by default from the newest.
    """

    client: Callable[[], LookupClient]
    visibility: Visibility
    snapshot_id: int | None = None

    def find(self, keys: pa.Table, wanted: pa.Schema) -> pa.Table:
        """As `LookupClient.find`."""
        return self.client().find(keys, wanted, self.visibility, self.snapshot_id)

    def find_prefixes(self, keys: pa.Table, wanted: pa.Schema) -> pa.Table:
        """As `LookupClient.find_prefixes`."""
        return self.client().find_prefixes(keys, wanted, self.visibility, self.snapshot_id)


def _check_visibility(visibility: Visibility, names_moment: bool) -> None:
    """Check what a lookup may ask.

    Raises:
        OptionError: the visibility is another word, or a moment goes with ``latest``.
    """
    if visibility not in ("latest", "committed"):
        raise OptionError(
            f"visibility {visibility!r} is unknown: use 'latest' or 'committed'", value=visibility
        )
    if names_moment and visibility == "latest":
        raise OptionError(
            "snapshot_id, tag, timestamp and watermark go with visibility='committed' only",
            visibility=visibility,
            arguments=("snapshot_id", "tag", "timestamp", "visibility='committed'"),
        )


def _selected(
    schema: TableSchema, wanted: pa.Schema, find: Callable[[pa.Schema], pa.Table]
) -> pa.Table:
    """Find the rows; as many without anything in them where no column is wanted."""
    if not len(wanted):
        return find(arrow_schema(schema, schema.primary_keys[:1])).select([])
    return with_defaults(find(wanted), schema.default_values)


def _wanted(schema: TableSchema, columns: ColumnNames | None) -> pa.Schema:
    wanted = arrow_schema(schema, columns)
    again = repeated(wanted.names)
    if again is not None:
        raise InputError(f"column {again!r} is asked for twice: name it once", column=again)
    return wanted
