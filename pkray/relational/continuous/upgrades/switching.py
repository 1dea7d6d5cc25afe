"""Let another plan take over between two epochs: each step may be done again."""

from __future__ import annotations

import contextlib
import json
import re
import uuid
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from pkray.errors import SnapshotNotFoundError, TableNotFoundError, TagNotFoundError
from pkray.format.data_file import DataFileMeta
from pkray.relational.continuous.outlets.table_outlet import (
    EPOCH,
    PLAN,
    SOURCES,
    WATERMARKS,
)
from pkray.relational.continuous.outlets.table_parts import KIND
from pkray.relational.continuous.queries.log import NOTHING_YET, Checkpoint, EpochRecord, StoredLog
from pkray.relational.continuous.state.encoding import encoded
from pkray.relational.continuous.upgrades.gathered import Gathered
from pkray.relational.continuous.upgrades.result_columns import grown, shrunk
from pkray.relational.continuous.upgrades.shadow import open_results
from pkray.relational.continuous.upgrades.stored import Site, StoredUpgrade, columns_of
from pkray.relational.local.batches import batch_of
from pkray.relational.plan.nodes import Sink
from pkray.table.table import Table

_STATE = re.compile(r"(late_)?(\d+)(_.*)?")
"""Names of states that belong to an operator."""


def decided(log: StoredLog, upgrade: StoredUpgrade) -> EpochRecord | None:
    """Find the epoch with which an upgrade ends; None: nothing is decided."""
    newest = log.newest_epoch()
    return newest if newest is not None and newest.upgrade == upgrade.id else None


def finish(site: Site) -> bool:
    """Let the plan of an upgrade take over, if that is decided; give whether it did."""
    upgrade = site.find()
    if upgrade is None or upgrade.is_done:
        return False
    log = StoredLog(site.folder, uuid.uuid4().hex)
    record = decided(log, upgrade)
    if record is None:
        return False
    found = log.take_over() or NOTHING_YET
    if found.epoch < record.number:
        _switch(site, upgrade, log, record, found)
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
        with contextlib.suppress(TagNotFoundError, TableNotFoundError):
            site.catalog.load_table(name).tags.delete(site.before_tag)
    for definition in (upgrade.old, upgrade.new):
        for what in ("before", "shadow"):
            site.let_go(definition, what)
    site.forget()


def _switch(
    site: Site, upgrade: StoredUpgrade, log: StoredLog, record: EpochRecord, found: Checkpoint
) -> None:
    """Replace the results, and write the checkpoint of the newer plan."""
    shadow = site.log(upgrade).newest_checkpoint() if upgrade.computes else None
    positions = shadow.positions if shadow is not None else found.positions
    if upgrade.computes and not upgrade.is_back:
        log.keep_before(found)
        site.hold(upgrade.old, "before", found.positions)
    if shadow is not None:
        _replace_results(site, upgrade, shadow, record, positions)
    log.write_checkpoint(_taken_over(upgrade, found, shadow, record))


def _replace_results(
    site: Site,
    upgrade: StoredUpgrade,
    shadow: Checkpoint,
    record: EpochRecord,
    positions: Mapping[str, int],
) -> None:
    columns = columns_of(upgrade.old)
    results = open_results(site, upgrade)
    results.states.begin(shadow.files, shadow.folders)
    properties = {
        SOURCES: json.dumps(dict(positions)),
        EPOCH: str(record.number),
        PLAN: upgrade.new.digest,
    }
    if shadow.watermarks:
        properties[WATERMARKS] = json.dumps(shadow.watermarks)
    try:
        for place, root in enumerate(site.roots(upgrade.new)):
            assert isinstance(root, Sink)
            table = site.catalog.load_table(root.table)
            if not upgrade.is_back:
                _tag(site, table)
            if not upgrade.changes[place]:
                continue
            changes = grown(table.schema, columns.get(root.table, ()), root)
            if changes:
                table.alter.apply(changes)
            user = f"query-{site.name}"
            _replace_rows(table, root, results.outlets[place], user, record.number + 1, properties)
            changes = shrunk(table.schema, columns.get(root.table, ()), root)
            if changes:
                table.alter.apply(changes)
    finally:
        results.states.close()


def _tag(site: Site, table: Table) -> None:
    try:
        table.tags.create(site.before_tag, if_not_exists=True)
    except SnapshotNotFoundError:
        return  # the result has no rows to go back to


def _replace_rows(
    table: Table,
    root: Sink,
    gathered: Gathered,
    user: str,
    identifier: int,
    properties: Mapping[str, str],
) -> None:
    """Make a table hold what was gathered, in one commit of what differs."""
    names, state = list(root.target), gathered.state
    missing = set(table.schema.names) - set(names)
    with table.open_writer(user, missing="null" if missing else "error") as writer:

        def write(rows: pa.RecordBatch, kind: str) -> None:
            if rows.num_rows:
                kinds = pa.repeat(pa.scalar(kind), rows.num_rows)
                columns = [kinds, *rows.columns]
                batch = pa.RecordBatch.from_arrays(columns, names=[KIND, *rows.schema.names])
                writer.write(batch, row_kinds=KIND)

        for batch in table.at().to_batches(names):
            rows = gathered.fitted(batch)
            keys = gathered.keys(rows)
            found = state.get(keys)
            stays = np.zeros(rows.num_rows, bool)
            stays[found.positions] = True
            write(rows.filter(pa.array(~stays)), "-D")
            old, new = (
                rows.take(pa.array(found.positions)),
                batch_of(found.rows.columns, gathered.schema, len(found.positions)),
            )
            differs = _differs(old, new)
            write(new.filter(pa.array(differs)), "+U")
            state.remove(keys.take(pa.array(found.positions)))
        for left in state.batches():
            values = [left.column(place + 1) for place in range(len(names))]
            write(batch_of(values, gathered.schema, left.num_rows), "+I")
        writer.commit(identifier, properties=dict(properties))


def _differs(old: pa.RecordBatch, new: pa.RecordBatch) -> np.ndarray:
    """Say of each row whether it differs in any column."""
    sides = [encoded(each.columns, each.num_rows) for each in (old, new)]
    return np.asarray(pc.not_equal(*sides)).astype(bool)


def _taken_over(
    upgrade: StoredUpgrade,
    old: Checkpoint,
    shadow: Checkpoint | None,
    record: EpochRecord,
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
            if _STATE.fullmatch(known) and _number(known) not in upgrade.kept:
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
    )


def _number(state: str) -> int:
    match = _STATE.fullmatch(state)
    assert match is not None
    return int(match[2])
