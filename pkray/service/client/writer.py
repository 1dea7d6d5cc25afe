"""A writer in the user's own process."""

import uuid
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

import pyarrow as pa

from pkray import errors, spans
from pkray.arguments.facade import checked_class
from pkray.clock import now_millis
from pkray.closing import Closeable
from pkray.format.snapshot import Snapshot
from pkray.metadata import commit_name
from pkray.rows.input import Missing
from pkray.rows.new_columns import new_columns
from pkray.schema.table_schema import TableSchema
from pkray.service.client.pusher import PushTarget, deletions, incoming
from pkray.service.client.table_service import TableService
from pkray.service.client.writer_session import WriterSession
from pkray.service.protocol import CommitOutcome, CommitRequest, PushReport


@checked_class
class TableWriter(Closeable):
    """Upserts and deletes under a commit user; visible to others from `commit` on.

    Rows are in the owners' memory at once (`latest` lookups see them). What an owner loses by
    a restart before the commit is pushed again from here. Leaving the ``with`` block by an
    exception aborts; leaving it otherwise drops what was not committed.

    Args:
        alone: as `WriterSession` takes it.
        missing: as `conform` takes it.
        grow: gives the table the columns that rows have and it lacks, if it can; by default
            such rows are refused.
    """

    def __init__(
        self,
        schema: TableSchema,
        service: TableService,
        commit_user: str,
        *,
        missing: Missing = "error",
        grow: Callable[[object, str | None], TableSchema] | None = None,
        alone: bool = False,
    ) -> None:
        self._missing = missing
        self._grow = grow
        self.commit_user = commit_user
        self._schema = schema
        self._service = service
        self._coordinator = service.coordinator
        session = WriterSession(schema, service, commit_user, alone)
        self._session = session
        weakref.finalize(self, session.abandon).atexit = False
        self._unknown: commit_name.CommitName | None = None
        self._is_closed = False
        self._fenced: errors.CommitFencedError | None = None

    def __repr__(self) -> str:
        return f"TableWriter({self.commit_user!r}, {'closed' if self._is_closed else 'open'})"

    def upsert(self, data: object) -> None:
        """Insert rows, or replace those of the same key.

        Args:
            data: pa.Table, RecordBatch, pandas DataFrame or a list of dicts.

        Raises:
            InputError: the rows do not fit the table; nothing of them was written.
            WriterClosedError: after `close`, as of all methods.
        """
        self.write(data)

    def delete(self, keys: object) -> None:
        """Delete by key.

        Args:
            keys: as `upsert` takes rows; columns other than the key may be left out, but those of
                ``sequence.field``, which say whether the delete is newer than the row.

        Raises:
            InputError: the keys do not fit the table; nothing was deleted.
        """
        self._push(deletions(keys, self._schema))

    def write(self, data: object, row_kinds: str | None = None) -> None:
        """Write changes.

        Args:
            data: as `upsert` takes rows.
            row_kinds: names a column of '+I', '-U', '+U', '-D', in addition to those of the table
                or one of them. Default: all are upserts, or as ``rowkind.field`` says.

        Raises:
            InputError: the rows do not fit the table; nothing of them was written.
        """
        self._require_open()
        self._require_known()
        data = self._merge_schema(data, row_kinds)
        self._push(incoming(data, self._schema, row_kinds, missing=self._missing))

    def target(self) -> PushTarget:
        """Give what other processes need to push rows of the commit to come; it pickles."""
        self._require_open()
        return self._service.push_target(self._session.share(), self._schema)

    def commit(
        self,
        commit_identifier: int | None = None,
        *,
        full_compact: bool = False,
        watermark: int | None = None,
        properties: Mapping[str, str] | None = None,
        reports: Sequence[PushReport] = (),
    ) -> Snapshot | None:
        """Make everything since the last commit visible, once.

        Args:
            commit_identifier: names the commit together with the commit user. An identifier at
                or below the user's newest publishes no rows: what was written is dropped, and
                every row stays as it was. Compactions that are due may be published all the
                same. Default: the newest plus one as it happens, which no other commit has.
            full_compact: also compact every bucket into one sorted run.
            watermark: event time in epoch milliseconds, kept in the snapshot.
            properties: names and values that are kept in the snapshot.
            reports: of what other processes pushed to `target` since the last commit; where an
                owner loses that, the commit fails.

        Returns:
            The snapshot; for an identifier committed before, the one it made (None when that
            has expired).

        Raises:
            OptionError: an identifier or watermark that is no whole number of 64 bits.
            CommitFencedError: a newer writer of the commit user took over.
            CommitConflictError: nothing was committed; write again.
            LostBatchesError: nothing was committed, and rows are lost: abort, and write again.
            CommitUnknownError: whether it happened is not known: commit again as before, or
                abort. Until then the writer takes no rows.
        """
        self._require_open()
        name = self._name(commit_identifier)
        event_time = commit_name.checked_watermark(watermark)

        def attempt() -> CommitOutcome:
            request = CommitRequest(
                session=self._session.id,
                name=name,
                reports=(self._session.report(), *reports),
                full_compact=full_compact,
                watermark=event_time,
                properties=dict(properties) if properties else None,
            )
            return self._coordinator.commit(request)

        about = spans.span("commit", table=self._service.table, session=self._session.id)
        with about, self._session.lock:
            try:
                outcome = attempt() if reports else self._session.persist(attempt)
            except (errors.CommitUnknownError, errors.ServiceUnavailableError):
                self._doubt(name)
                raise
            except errors.CommitConflictError:
                self._doubt(None)
                raise
            except errors.CommitFencedError as error:
                self._fenced = error
                self._session.renew()
                self._session.stop()
                raise
            except errors.LostBatchesError as error:
                raise self._lost(error) from error
            self._session.renew()
            self._doubt(None)
        return outcome.snapshot

    def abort(self) -> None:
        """Drop everything since the last commit."""
        if self._session.has_rows or self._unknown is not None:
            self._session.abort()
            self._doubt(None)

    def close(self) -> None:
        """Drop what was not committed, and take nothing more; a second call does nothing."""
        if not self._is_closed:
            self._is_closed = True
            self._session.stop()
            # What is gone holds nothing.
            with suppress(
                errors.ServiceUnavailableError, errors.ServiceMovedError, errors.TableError
            ):
                self.abort()

    def _doubt(self, name: commit_name.CommitName | None) -> None:
        """Note the commit that happened or not, None where that is known."""
        self._unknown = name
        self._session.is_in_doubt = name is not None

    def _name(self, identifier: int | None) -> commit_name.CommitName:
        """The commit's name; that of the commit before, if it is to be repeated."""
        unknown = self._unknown
        if identifier is None and isinstance(unknown, commit_name.CommitToken):
            return unknown
        name: commit_name.CommitName
        if identifier is None:
            name = commit_name.CommitToken(str(uuid.uuid4()), now_millis())
        else:
            name = commit_name.checked_identifier(identifier)
        if name != unknown:
            self._require_known()
        return name

    def _require_known(self) -> None:
        """Check that no rows are taken that a repeated commit, once found done, would drop."""
        if self._unknown is None:
            return
        identifier = "" if isinstance(self._unknown, commit_name.CommitToken) else self._unknown
        raise errors.CommitUnknownError(
            f"whether the last commit of {self.commit_user!r} happened is not known: call "
            f"commit({identifier}) again before anything else, or abort() to drop what it may "
            "not have committed",
            user=self.commit_user,
        )

    def _merge_schema(self, data: object, row_kinds: str | None) -> object:
        """The rows, whose new columns the table has from now on.

        Raises:
            SchemaChangedError: rows without them wait for their commit.
        """
        if self._grow is None:
            return data
        if hasattr(data, "__arrow_c_stream__") and not hasattr(data, "iloc"):
            data = pa.table(data)  # a stream can be read once
        added = new_columns(data, self._schema, row_kinds)
        if not added:
            return data
        if self._session.has_rows:
            names = ", ".join(repr(each.name) for each in added)
            raise errors.SchemaChangedError(
                f"column {names} is new, and rows without it were written since the last commit: "
                "commit them first, then write these",
                columns=[each.name for each in added],
            )
        self._schema = self._grow(data, row_kinds)
        self._session.change_schema(self._schema)
        return data

    def _push(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._require_open()
        if self._fenced is not None:
            raise self._fenced
        self._require_known()
        try:
            with spans.span("push", table=self._service.table, session=self._session.id):
                self._session.push(batches)
        except errors.LostBatchesError as error:
            raise self._lost(error) from error

    def _lost(self, error: errors.LostBatchesError) -> errors.LostBatchesError:
        """Make the error of an owner one for those who do not know of batches."""
        why = error.message.rpartition("; ")[0] or error.message
        return errors.LostBatchesError(
            f"rows that {self.commit_user!r} wrote since its last commit are lost: call abort(), "
            f"then write them again ({why})",
            **{**error.values, "user": self.commit_user},
        )

    def _require_open(self) -> None:
        if self._is_closed:
            raise errors.WriterClosedError(
                f"the writer of commit user {self.commit_user!r} is closed: open another with "
                "table.open_writer()",
                user=self.commit_user,
            )
