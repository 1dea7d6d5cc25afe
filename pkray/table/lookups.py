"""Chooses who answers a table's lookups by key."""

from pkray.errors import OptionError
from pkray.scan.moment import Moment
from pkray.schema.table_schema import TableSchema
from pkray.service.client.lookup_client import KeyedRows, LookupClient, OwnersView
from pkray.service.client.table_service import TableService
from pkray.service.protocol import Visibility
from pkray.service.runtime import Runtime
from pkray.table.reads import Reads

_LONGEST_MILLIS = 1 << 53
"""Longer than any process runs, and a number of every wire."""


class Lookups:
    """Has the owners of the buckets answer, or the files of a tag that they do not know.

    Args:
        runtime: starts the table's service, where it does not run.
    """

    def __init__(self, reads: Reads, runtime: Runtime) -> None:
        self._reads = reads
        self._runtime = runtime
        self._newest: tuple[TableSchema, TableService, LookupClient] | None = None

    def rows(self, visibility: Visibility, moment: Moment, max_staleness: float = 0.0) -> KeyedRows:
        """Find the table's rows by key at one moment, as of ``Table.lookup``."""
        _check_visibility(visibility, not moment.is_latest)
        stale = _staleness_millis(max_staleness, not moment.is_latest)
        reads, schema, table = self._reads, self._reads.schema, self._reads.location.name
        if moment.is_latest:
            newest = OwnersView(lambda: self._client(schema), visibility, None, stale, table)
            return KeyedRows(schema, newest)
        view = reads.find(moment)  # owners know another table
        snapshot, schema = view.snapshot, view.schema
        if moment.tag is not None and snapshot is not None and not reads.snapshots.holds(snapshot):
            reads.identity.check_same_table()
            return KeyedRows(schema, view)  # the owners know snapshots by their ids
        answer_from = None if snapshot is None else snapshot.id
        owners = OwnersView(lambda: self._client(schema), visibility, answer_from, table=table)
        return KeyedRows(schema, owners)

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


def _staleness_millis(max_staleness: float, names_moment: bool) -> int:
    """Check how stale a lookup may be.

    Raises:
        OptionError: it is negative, or goes with a moment, which is as it was.
    """
    if max_staleness < 0:
        raise OptionError(
            f"max_staleness is {max_staleness}: give seconds, 0 or more",
            value=max_staleness,
            arguments=("max_staleness",),
        )
    if max_staleness and names_moment:
        raise OptionError(
            "max_staleness goes with the newest snapshot only: leave it out, or snapshot_id, tag, "
            "timestamp and watermark",
            arguments=("max_staleness", "snapshot_id", "tag", "timestamp", "watermark"),
        )
    return min(int(max_staleness * 1000), _LONGEST_MILLIS)
