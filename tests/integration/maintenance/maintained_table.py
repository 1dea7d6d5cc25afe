"""A table beside what it should hold: its lines of history, and writers that are open."""

import itertools
import random
import shutil
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import named_files
from line_model import (
    FIRST,
    KEY,
    Change,
    Columns,
    Key,
    Line,
    Row,
    SnapshotSelector,
    by_id,
    row_key,
    shown,
)

import pkray
from pkray.format.binary_row import decode
from pkray.schema.types import DataType

COMPLETE = ("lookup", "full-compaction")
"""Changelog producers that tell of rows before and after."""


class Session:
    """An open writer, with the columns it knows.

    Attributes:
        is_replaced: a branch's columns have taken the place of these.
        may_be_replaced: or of others that the process may know.
    """

    def __init__(self, table: pkray.Table, columns: Columns, buckets: int, user: str) -> None:
        self.columns = columns
        self.schema_id = table.schema.id
        self.buckets = buckets
        self.writer = table.open_writer(user)
        self.pending: list[Change] = []
        self.is_replaced = self.may_be_replaced = False


class MaintainedTable:
    """A table, two catalogs that have it, and what it should hold.

    Args:
        options: of the table.

    Attributes:
        line: the table's own history or a branch, which the step at hand is about.
        side: the catalog that does it.
        log: the steps so far.
    """

    def __init__(self, options: dict[str, str]) -> None:
        self.options = options
        self.engine = options.get("merge-engine", "deduplicate")
        self.producer = options.get("changelog-producer", "none")
        self.write_only = options.get("write-only") == "true"
        self.hides_level_0 = (
            self.engine == "first-row" or options.get("deletion-vectors.enabled") == "true"
        )
        self.reads_overwrites = options.get("streaming-read-overwrite") == "true"
        merges = self.engine != "deduplicate"
        self.normalizes = self.producer not in COMPLETE and (merges or options["bucket"] == "2")
        self.tells_all = self.producer in COMPLETE or self.normalizes
        self.expires = "snapshot.num-retained.max" in options
        self.folder = tempfile.mkdtemp()
        self.root = Path(self.folder) / "db.db" / "t"
        with pkray.connect(self.folder) as catalog:
            columns = [(c.name, c.type + " NOT NULL" * (c.id in KEY)) for c in FIRST]
            catalog.create_table("db.t", columns, ["p", "k"], ["p"], options)
        self.main = Line(None, {0: FIRST}, {0: int(options["bucket"])})
        self.branches: dict[str, Line] = {}
        self.sessions: dict[tuple[str | None, int], Session] = {}
        self.catalogs = [self._connect() for _ in range(2)]
        self.line = self.main
        self.side = 0
        self.rng = random.Random()
        self.names = (f"n{number}" for number in itertools.count())
        self.next_column: dict[str | None, int] = {None: len(FIRST)}
        self.values = itertools.count(1)
        self.log: list[str] = []

    def close(self) -> None:
        for catalog in self.catalogs:
            catalog.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def reopen(self) -> None:
        self.sessions.clear()
        for catalog in self.catalogs:
            catalog.close()
        self.catalogs = [self._connect() for _ in range(2)]
        self._sync_all()

    def _session(self) -> Session:
        key = self.line.name, self.side
        if key not in self.sessions:
            line = self.line
            self.sessions[key] = Session(
                self._table_of(), line.columns, line.bucket_count, f"writer-{self.side}"
            )
        return self.sessions[key]

    def _lost(self, session: Session) -> None:
        assert session.may_be_replaced or session.buckets != self.line.bucket_count
        self._close_session()

    def _refused(self, session: Session) -> None:
        assert self._has_other_totals()
        self._close_session()

    def _close_session(self) -> None:
        session = self.sessions.pop((self.line.name, self.side), None)
        if session is not None:
            session.writer.close()

    def _close_sessions(self, name: str | None, sides: Collection[int] = (0, 1)) -> None:
        for key in [(name, side) for side in sides]:
            if key in self.sessions:
                self.sessions.pop(key).writer.close()

    def _sync_all(self) -> None:
        """Catalogs that end commit the compactions that run."""
        here = self.line
        for line in (self.main, *self.branches.values()):
            self.line = line
            self._sync()
        self.line = here

    def _history(self, line: Line) -> Path:
        """Where its snapshots are."""
        return self.root / f"branch/branch-{line.name}" if line.name else self.root

    def _table_of(self) -> pkray.Table:
        return self._load(self.line.name, self.side)

    def _load(self, name: str | None, side: int = 0) -> pkray.Table:
        return self.catalogs[side].load_table("db.t" + (f"$branch_{name}" if name else ""))

    def _connect(self) -> pkray.Catalog:
        return pkray.connect(self.folder, runtime_options={"owners": 1})

    def _sync(self, full: bool = False) -> None:
        """Take in the snapshots that are new.

        Args:
            full: all buckets were compacted into one run each.
        """
        line = self.line
        found = named_files.numbered(self._history(line), "snapshot")
        before = line.moments[line.latest] if line.live else None
        if self.expires and found:
            protected = [consumer.keeps for consumer in line.consumers.values()]
            assert min(found) <= min([max(found), *protected])
            line.live = [number for number in line.live if number in found]
        new = [number for number in found if before is None or number > before.id]
        assert new == list(range(new[0], new[0] + len(new))) if new else True
        assert {n: found[n]["uuid"] for n in line.live} == {
            n: line.moments[n].uuid for n in line.live
        }
        changing = [number for number in new if found[number]["commitKind"] != "COMPACT"]
        for number in new:
            is_changed = not changing or number >= changing[0]
            rows = line.rows if is_changed or before is None else before.rows
            is_last = number == new[-1]
            json = found[number]
            line.moments[number] = SnapshotSelector(
                number,
                dict(rows),
                json["schemaId"],
                json["uuid"],
                json["timeMillis"],
                rows if self._tells(before, is_last, full) else None,
                self._shows(before, is_last, full),
                json["commitKind"],
            )
            line.live.append(number)
        self.log.append(f"    {[(n, found[n]['commitKind']) for n in new]}")

    def _shows(self, before: SnapshotSelector | None, is_last: bool, full: bool) -> bool:
        """Whether it is certain that reads show all rows of a new snapshot."""
        if not self.hides_level_0:
            return True
        return is_last and (full or before is None or before.is_visible)

    def _tells(self, before: SnapshotSelector | None, is_last: bool, full: bool) -> bool:
        """Whether it is certain that changes up to a new snapshot tell of all rows."""
        if self.producer == "full-compaction" or (self.producer == "lookup" and self.write_only):
            return is_last and full
        if self.producer == "lookup" and not full and before is not None and before.told is None:
            return False
        is_late = self.producer == "lookup" or self.hides_level_0
        return self._shows(before, is_last, full) and (is_last or not is_late)

    def _went_back(self, moment: SnapshotSelector) -> None:
        for name, consumer in list(self.line.consumers.items()):
            if consumer.next_id > moment.id + 1:
                self._table_of().consumers.delete(name)
        self.line.go_back(moment)
        self._sync()

    def _taken_over(self, branch: Line) -> None:
        main = self.main
        shared = branch.live[0] - 1
        for number in branch.live:
            if number not in main.live or main.moments[number].uuid != branch.moments[number].uuid:
                break
            shared = number
        first, own = branch.moments[branch.live[0]], branch.tags
        since, tagged = shared, {moment.uuid for moment in (*main.tags.values(), *own.values())}
        beside = shared in main.live and main.moments[shared].millis > first.millis
        if shared < first.id and (first.uuid not in tagged or beside):
            # Where the branch began has expired, or the table was rolled back below it and went
            # on: nothing of the table's own stays below.
            since = min((m.id for m in own.values() if m.id < first.id), default=shared)
            main.live, main.moments, shared = [], {}, 0
        main.tags = {
            name: moment
            for name, moment in main.tags.items()
            if moment.id <= since or (name in own and own[name].uuid == moment.uuid)
        } | own
        main.moments = {n: m for n, m in main.moments.items() if n <= shared}
        main.live = [n for n in main.live if n <= shared]
        for number in branch.live:
            if number > shared:
                main.moments[number] = branch.moments[number]
                main.live.append(number)
        newest = max(branch.schemas)
        main.schemas = {n: c for n, c in main.schemas.items() if n <= newest} | branch.schemas
        main.buckets = {n: b for n, b in main.buckets.items() if n <= newest} | branch.buckets
        main.rows = dict(branch.rows)
        main.consumers = {n: c for n, c in main.consumers.items() if c.next_id <= shared + 1}
        self.next_column[None] = self.next_column[branch.name]
        self.log.append(f"    shared {shared}, {main.live}")
        table = self._load(None)
        for consumer in table.consumers.list()["consumer_id"].to_pylist():
            if consumer not in main.consumers:
                table.consumers.delete(consumer)

    def _crosses(self, line: Line, start: int, end: int) -> bool:
        """Whether overwrites are between that changes do not tell of."""
        if self.normalizes or self.reads_overwrites:
            return False
        kinds = [m.kind for n, m in line.moments.items() if start < n <= end]
        return "OVERWRITE" in kinds

    def _apply(
        self, state: dict[Key, Row], changes: Any, columns: Columns, *, complete: bool
    ) -> None:
        for change in changes.to_pylist():
            key, row = row_key(change, columns), by_id(change, columns)
            kind = change["_row_kind"]
            if complete:
                assert (key in state) == (kind in ("-U", "-D")), (kind, key, row)
                if key in state:
                    assert shown({key: state[key]}, columns) == shown({key: row}, columns), (
                        kind,
                        key,
                    )
            if kind in ("+I", "+U"):
                state[key] = row
            else:
                state.pop(key, None)

    def _has_other_totals(self) -> bool:
        return bool(self._other_totals(self.line))

    def _other_totals(self, line: Line) -> set[str]:
        """Partitions that have another number of buckets than the table."""
        history = self._history(line)
        found = named_files.numbered(history, "snapshot")
        if not found:
            return set()
        entries = named_files.live(self.root, found[max(found)]).values()
        others = {e["_PARTITION"] for e in entries if e["_TOTAL_BUCKETS"] != line.bucket_count}
        (names,) = decode(sorted(others), [DataType.parse("STRING NOT NULL")])
        return set(names.to_pylist())
