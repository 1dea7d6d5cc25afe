"""Publishes a change as the next snapshot, in as many attempts as the race for it takes."""

from collections.abc import Callable
from functools import partial

from pkray import errors, spans
from pkray.commit.attempt import Attempt
from pkray.commit.backoff import Backoff
from pkray.commit.change import Change
from pkray.commit.checks import CommitChecks
from pkray.commit.table_state import TableState
from pkray.format import paths
from pkray.format.snapshot import COMPACT, Snapshot
from pkray.schema.table_schema import TableSchema
from pkray.storage.object_store import ObjectStore, each


class CommittedElsewhere(Exception):
    """Another process published this commit meanwhile."""


class CommitRetriesExhausted(errors.CommitError):
    """Other commits came first, every time."""


class Publisher:
    """Puts a change on top of the newest snapshot until nobody was faster.

    Args:
        names: gives the names of new manifests.
        clock: epoch milliseconds.
    """

    def __init__(
        self,
        store: ObjectStore,
        table: TableState,
        checks: CommitChecks,
        names: paths.FileNames,
        clock: Callable[[], int],
        backoff: Backoff,
    ) -> None:
        self._store = store
        self._table = table
        self._checks = checks
        self._names = names
        self._clock = clock
        self._backoff = backoff
        self._given_up: list[Attempt] = []
        """Whose files are deleted once the commit that is to be prepared again is over."""

    def publish(
        self,
        change: Change,
        schema: TableSchema,
        on_top_of: Callable[[Snapshot | None], Change] | None = None,
    ) -> Snapshot:
        """Publish the change, unless that happened before unnoticed; return its snapshot.

        Args:
            on_top_of: makes the change that fits a newest snapshot, where it depends on it.

        Raises:
            CommittedElsewhere: the name of this commit is taken.
            CommitRetriesExhausted: others kept committing first.
            CommitError: as `CommitChecks` and `Attempt` say.
        """
        attempt = Attempt(
            self._store,
            self._table.snapshots,
            schema,
            self._names,
            self._clock,
            change,
            self._table.identity,
        )
        timeout = schema.core.commit_timeout
        deadline = None if timeout is None else self._clock() + timeout
        rollbacks = self._table.rollbacks
        try:
            for tries in range(schema.core.commit_max_retries + 1):
                # At first what was found before the commit began: if that is no longer the
                # latest, creating the next one fails.
                latest = self._table.newest if tries == 0 else self._table.synchronise()
                snapshot = self._published_before(change, attempt)
                if snapshot is None and attempt.may_be_there and rollbacks != self._table.rollbacks:
                    raise attempt.rolled_back()
                try:
                    if snapshot is None and on_top_of is not None:
                        change = on_top_of(latest)
                        attempt.renew(change)
                    if snapshot is None:
                        self._check(change, latest, schema)
                        fence = partial(self._checks.check_newest_writer, change)
                        with spans.span("race"):
                            snapshot = attempt.publish(latest, fence)
                except (errors.MissingFileError, errors.SnapshotNotFoundError):
                    if latest is None or self._table.snapshots.holds(latest):
                        raise
                    # Rolled back while it was read: tried again on what is there now.
                if snapshot is not None:
                    self._table.published(change, snapshot)
                    self._discard_given_up()
                    return snapshot
                if deadline is not None and self._clock() > deadline:
                    break
                self._backoff.wait(tries)
            limit = "max-retries" if tries == schema.core.commit_max_retries else "timeout"
            raise self._retries_exhausted(change, tries + 1, f"commit.{limit}")
        except errors.CommitBaseMovedError:
            # Whoever was faster goes on meanwhile: nothing that can wait comes before the next try.
            self._given_up.append(attempt)
            raise
        except (errors.PkrayError, CommittedElsewhere):
            self._given_up.append(attempt)
            self._discard_given_up()
            raise

    def _discard_given_up(self) -> None:
        given_up, self._given_up = self._given_up, []
        each(self._store, Attempt.discard, given_up)

    def _check(self, change: Change, latest: Snapshot | None, schema: TableSchema) -> None:
        """Check that a change fits; an older writer is told so, and not what follows from it."""
        try:
            self._checks.check_base(change, latest, schema)
            self._checks.check_conflicts(change, latest, schema)
        except errors.CommitBaseMovedError:
            raise  # it is prepared again, and the writer looked at then
        except errors.CommitError:
            self._checks.check_newest_writer(change)
            raise

    def _published_before(self, change: Change, attempt: Attempt) -> Snapshot | None:
        """Return our own snapshot, where its answer was lost."""
        history = self._table.history
        found = history.find(change.identifier)
        known = found.compact if change.kind == COMPACT else found.append
        if known is not None and known.uuid == change.token and attempt.wrote(known):
            return known
        is_older = history.identifier is not None and history.identifier > change.identifier
        if known is not None or is_older:
            raise CommittedElsewhere
        return None

    def _retries_exhausted(self, change: Change, tries: int, limit: str) -> CommitRetriesExhausted:
        return CommitRetriesExhausted(
            f"commit {change.identifier} of {change.user!r} to {self._store.url!r} gave up after "
            f"{tries} attempts, as other commits came first each time: {change.again}, or raise "
            f"{limit}",
            user=change.user,
            identifier=change.identifier,
            attempts=tries,
        )
