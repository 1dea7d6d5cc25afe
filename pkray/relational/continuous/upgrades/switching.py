"""Let another plan take over between two epochs: each step may be done again."""

import contextlib
import re
from collections.abc import Mapping
from dataclasses import replace

from msgspec import structs

from pkray import errors
from pkray.format.data_file import DataFileMeta
from pkray.relational.continuous.log.log import NOTHING_YET, Checkpoint, Committed, EpochRecord
from pkray.relational.continuous.log.stored_log import StoredLog
from pkray.relational.continuous.outlets.gathered import Gathered
from pkray.relational.continuous.outlets.new_content import write_difference
from pkray.relational.continuous.outlets.result_history import WRITERS, ResultHistory
from pkray.relational.continuous.outlets.table_parts import TableRows
from pkray.relational.continuous.queries.definitions.definition import Definition
from pkray.relational.continuous.upgrades.result_columns import grown, shrunk
from pkray.relational.continuous.upgrades.shadow import open_results
from pkray.relational.continuous.upgrades.stored import Site, StoredUpgrade, columns_of
from pkray.relational.plan.nodes import Sink
from pkray.table.table import Table

_STATE = re.compile(r"(late_)?(\d+)(_.*)?")
"""Names of states that belong to an operator."""


def decided(log: StoredLog, upgrade: StoredUpgrade) -> EpochRecord | None:
    """Find the epoch with which an upgrade ends; None: nothing is decided."""
    newest = log.newest_epoch()
    return newest if newest is not None and newest.upgrade == upgrade.id else None


def check_alone(site: Site, upgrade: StoredUpgrade) -> None:
    """Check that the results that are to be replaced have the rows of the query alone.

    Raises:
        SharedResultError: others have written to one.
    """
    for name, changes in zip(upgrade.new.tables, upgrade.changes, strict=True):
        if not changes:
            continue
        writers = ResultHistory(site.catalog.load_table(name)).writers()
        others = replace(writers, is_whole=True).besides(site.name)
        if others:
            raise errors.SharedResultError(
                f"{name} has rows of others than query {site.name}: {', '.join(others)}; another "
                "plan would take them for its own: start another query beside this one",
                table=name,
                query=site.name,
                writers=tuple(others),
            )


def check_follows(site: Site, upgrade: StoredUpgrade) -> None:
    """Check that the query still has the plan from which an upgrade takes over.

    Raises:
        UpgradeError: it got another one meanwhile.
    """
    if not upgrade.follows(site.current):
        raise errors.UpgradeError(
            f"query {site.name} got another plan while this upgrade was asked for: roll the "
            "upgrade back, and ask for it again",
            query=site.name,
            state=upgrade.state,
        )


def finish(site: Site) -> bool:
    """Let the plan of an upgrade take over, if that is decided; give whether it did."""
    upgrade = site.find()
    if upgrade is None or upgrade.is_done:
        return False
    current = site.current
    upgrade = structs.replace(
        upgrade, old=upgrade.old.same_life(current), new=upgrade.new.same_life(current)
    )
    log = site.store.log(current)
    record = decided(log, upgrade)
    if record is None:
        return False
    found = log.take_over() or NOTHING_YET
    if found.epoch < record.number:
        _switch(site, upgrade, log, record, found)
    log.check_current()
    site.store.replace(upgrade.new)
    site.keep_plan(upgrade.old)
    site.let_go(upgrade.new, "shadow")
    if upgrade.is_back:
        forget(site, upgrade)
    else:
        site.write(structs.replace(upgrade, is_done=True))
        site.forget_shadow(upgrade)
    return True


def forget(site: Site, upgrade: StoredUpgrade) -> None:
    """Delete what belongs to an upgrade, and what going back needs."""
    for name in upgrade.old.tables:
        with contextlib.suppress(errors.TagNotFoundError, errors.TableNotFoundError):
            site.catalog.load_table(name).tags.delete(site.before_tag(upgrade.old))
    for definition in (upgrade.old, upgrade.new):
        for what in ("before", "shadow"):
            site.let_go(definition, what)
    site.forget()


def _switch(
    site: Site, upgrade: StoredUpgrade, log: StoredLog, record: EpochRecord, found: Checkpoint
) -> None:
    """Replace the results, and write the checkpoint of the newer plan."""
    shadow = site.log(upgrade).newest_checkpoint() if upgrade.computes else None
    if upgrade.computes and not upgrade.is_back:
        log.keep_before(found)
        site.hold(upgrade.old, "before", found.positions)
    results = dict(found.results)
    if shadow is not None:
        results |= _replace_results(site, upgrade, shadow, record)
    taken_over = _taken_over(upgrade, found, shadow, record)
    log.write_checkpoint(structs.replace(taken_over, results=results))


def _replace_results(
    site: Site, upgrade: StoredUpgrade, shadow: Checkpoint, record: EpochRecord
) -> dict[str, Committed]:
    made: dict[str, Committed] = {}
    columns = columns_of(upgrade.old)
    results = open_results(site, upgrade)
    results.states.begin(shadow.files, shadow.folders)
    commits = upgrade.new.commits
    properties = commits.properties(shadow.positions, record.number, shadow.watermarks)
    try:
        for place, root in enumerate(site.roots(upgrade.new)):
            assert isinstance(root, Sink)
            table = site.catalog.load_table(root.table)
            if not upgrade.is_back:
                _tag(table, site.before_tag(upgrade.old))
            if not upgrade.changes[place]:
                continue
            changes = grown(table.schema, columns.get(root.table, ()), root)
            if changes:
                table.alter.apply(changes)
            _replace_rows(
                table, root, results.outlets[place], upgrade.new, record.number + 1, properties
            )
            changes = shrunk(table.schema, columns.get(root.table, ()), root)
            if changes:
                table.alter.apply(changes)
            newest = ResultHistory(table).newest_of(site.name)
            if newest is not None:
                made[table.name] = newest.committed
    finally:
        results.states.close()
    return made


def _tag(table: Table, tag: str) -> None:
    try:
        table.tags.create(tag, if_not_exists=True)
    except errors.SnapshotNotFoundError:
        return  # the result has no rows to go back to


def _replace_rows(
    table: Table,
    root: Sink,
    gathered: Gathered,
    definition: Definition,
    identifier: int,
    properties: Mapping[str, str],
) -> None:
    """Make a table hold what was gathered, in one commit of what differs."""
    user, told = definition.commits.user, ResultHistory(table).told()
    with table.open_writer(user, missing=TableRows.into(table, root).missing) as writer:
        write_difference(table.at().to_batches(list(root.target)), gathered, writer)
        writer.commit(identifier, properties={**properties, WRITERS: told})


def _taken_over(
    upgrade: StoredUpgrade, old: Checkpoint, shadow: Checkpoint | None, record: EpochRecord
) -> Checkpoint:
    """Name the states of the newer plan: those that are kept as they were, under new numbers."""
    shares: list[dict[str, tuple[DataFileMeta, ...]]] = [{} for _ in old.shares]
    folders: dict[str, str] = {}
    apart: dict[str, int] = {}
    late: dict[str, int] = {}

    def take(name: str, found: Checkpoint, known: str) -> None:
        folders[name], apart[name] = found.folder(known), found.workers_of(known)
        if known in found.late:
            late[name] = found.late[known]
        for place, files in enumerate(found.shares):
            shares[place][name] = files.get(known, ())

    for known in old.files:
        if not _STATE.fullmatch(known):  # rows that were skipped: they are of no operator
            take(known, old, known)
    if shadow is not None:
        for known in shadow.files:
            match = _STATE.fullmatch(known)
            if match is not None and int(match[2]) not in upgrade.kept:
                take(known, shadow, known)
    numbers = {upgrade.same[number]: number for number in upgrade.kept}
    for known in old.files:
        match = _STATE.fullmatch(known)
        if match is not None and int(match[2]) in numbers:
            take(f"{match[1] or ''}{numbers[int(match[2])]}{match[3] or ''}", old, known)
    watermarks = dict(shadow.watermarks) if shadow is not None else {}
    for number, known_number in upgrade.same.items():
        if str(known_number) in old.watermarks:
            watermarks[str(number)] = old.watermarks[str(known_number)]
    latest = shadow if shadow is not None else old
    return Checkpoint(
        record.number,
        latest.positions,
        watermarks,
        upgrade.new.digest,
        shares[0],
        latest.is_last,
        folders=folders,
        others=tuple(shares[1:]),
        apart=apart,
        late=late,
        marks=latest.marks,
    )
