"""Prove the results of a query: by the bounded run over the inputs that it has read."""

from collections.abc import Mapping

from pkray.errors import OptionError
from pkray.options.values import duration_millis
from pkray.relational.continuous.log.late_rows import kept_late, late_until
from pkray.relational.continuous.queries.verification.as_of_watermarks import (
    EventTime,
    waits_for_time,
)
from pkray.relational.continuous.queries.verification.verify import (
    Place,
    Times,
    VerifyReport,
    verify,
)
from pkray.relational.continuous.queries.watched import Watched

_KEEP_SECONDS = 60.0
"""For how long the checkpoint is waited for that says what event time was."""


def verify_query(
    query: Watched, snapshot: int | None, engine: str | None, table: str | None
) -> VerifyReport:
    """Compare results with the bounded run; as of `Query.verify`."""
    query.current.check_life()
    if table is not None and table not in query.tables:
        raise OptionError(
            f"{table} is no result of query {query.name}: its results are "
            f"{', '.join(query.tables)}",
            value=table,
        )
    if table is not None or snapshot is not None:
        return _verify(query, table or query.tables[0], snapshot, engine)
    reports = [_verify(query, each, None, engine) for each in query.tables]
    return next((each for each in reports if not each.equal), reports[0])


def _verify(query: Watched, name: str, snapshot: int | None, engine: str | None) -> VerifyReport:
    current = query.current
    table = current.catalog.load_table(name)
    made = current.made_by(table, snapshot)
    definition, roots = made.definition, made.roots
    is_current = definition.digest == current.definition.digest
    progress, times = query.progress(), None
    place = Place(progress["epoch"], progress["sources"])
    if waits_for_time(roots):
        place, times = _times(query, is_current=is_current)
    return verify(
        roots,
        table,
        snapshot,
        place if is_current else None,
        engine,
        definition.beginnings,
        times=times,
        place=query.tables.index(name),
        expires=any(duration_millis(ttl) for ttls in definition.ttls.values() for ttl in ttls),
        skips=definition.options.get("on_error") == "skip",
        memory=current.catalog.session.memory,
    )


def _times(query: Watched, *, is_current: bool) -> tuple[Place, Times]:
    """Give where the newest checkpoint is, and what event time was in each epoch.

    Args:
        is_current: whether the plan that is verified is the one that runs.
    """
    worker = query.worker
    if worker is not None:
        worker.keep(_KEEP_SECONDS)
    current = query.current
    newest = current.log().newest_checkpoint()
    if newest is None:
        return Place(-1, {}), lambda epoch, watermarks: EventTime(unknown=epoch is not None)
    rows = kept_late(current.folder.child("state"), newest) if is_current else {}

    def times(epoch: int | None, watermarks: Mapping[str, int] | None) -> EventTime:
        late = {name: late_until(each, epoch) for name, each in rows.items()}
        unknown = not is_current or (epoch is not None and epoch > newest.epoch)
        return EventTime(watermarks or newest.watermarks, late, unknown)

    return Place(newest.epoch, newest.positions), times
