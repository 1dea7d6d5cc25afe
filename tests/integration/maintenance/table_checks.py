"""What is looked at after every step."""

import random

import named_files
import pyarrow as pa
from line_model import KEYS, Change, Line, SnapshotSelector, merged, read, shown
from maintained_table import MaintainedTable

import pkray
from pkray.errors import PartitionBucketsError


class CheckedTable(MaintainedTable):
    """Compares all that can be read of a table with what it should hold."""

    def check(self, every: bool) -> None:
        """
        Args:
            every: look at all of every line; else at all of the one that changed.
        """
        named = named_files.named(self.root, reads_deltas=self.producer == "none")
        missing = named.needed - named_files.there(self.root)
        assert not missing, sorted(missing)
        for line in (self.main, *self.branches.values()):
            self._check_line(line, every or line is self.line)
        listed = self._load(None).system("branches")["branch_name"].to_pylist()
        assert listed == sorted(self.branches)

    def _check_line(self, line: Line, every: bool) -> None:
        table = self._load(line.name)
        history = self._history(line)
        assert list(named_files.numbered(history, "snapshot")) == line.live
        changelogs = list(named_files.numbered(history, "changelog"))
        if changelogs:
            assert changelogs == list(range(changelogs[0], line.live[0]))
        assert table.arrow_schema.names == [c.name for c in line.columns]
        assert table.schema.id == line.schema_id
        assert table.system("snapshots")["snapshot_id"].to_pylist() == line.live
        tags = {t["tag_name"]: t["snapshot_id"] for t in table.system("tags").to_pylist()}
        assert tags == {name: moment.id for name, moment in line.tags.items()}
        consumers = {
            c["consumer_id"]: c["next_snapshot_id"] for c in table.system("consumers").to_pylist()
        }
        assert consumers == {name: c.next_id for name, c in line.consumers.items()}
        if not line.live:
            assert table.to_arrow().num_rows == 0
            return
        newest = line.moments[line.latest]
        if newest.is_visible:
            assert read(table.to_arrow(), line.columns) == shown(line.rows, line.columns)
            partitions = table.system("partitions")["partition"].to_pylist()
            assert len(partitions) >= len({key[0] for key in line.rows})
        for number in line.live if every else line.live[-1:]:
            self._check_moment(line, line.moments[number], table.to_arrow(snapshot_id=number))
        for name, moment in line.tags.items() if every else ():
            self._check_moment(line, moment, table.to_arrow(tag=name))
        self._check_times(line, table)
        self._check_lookups(line, table)
        if every:
            self._check_changes(line, table)

    def _check_moment(self, line: Line, moment: SnapshotSelector, found: pa.Table) -> None:
        if moment.is_visible:
            columns = line.schemas[moment.schema_id]
            assert read(found, columns) == shown(moment.rows, columns), moment.id

    def _check_times(self, line: Line, table: pkray.Table) -> None:
        number = random.Random(len(self.log)).choice(line.live)
        millis = line.moments[number].millis
        moment = line.moments[max(n for n in line.live if line.moments[n].millis <= millis)]
        assert table.view(timestamp=millis).snapshot.id == moment.id
        self._check_moment(line, moment, table.to_arrow(timestamp=millis))

    def _check_lookups(self, line: Line, table: pkray.Table) -> None:
        names = {c.id: c.name for c in line.columns}
        keys = [{names[0]: p, names[1]: k} for p, k in KEYS]
        moment = line.moments[line.latest]
        if moment.is_visible:
            found = table.lookup(keys, visibility="committed")
            assert read(found, line.columns) == shown(line.rows, line.columns)
        session = self.sessions.get((line.name, 0))
        pending = session.pending if session else []
        fits = not session or session.buckets == line.bucket_count
        if fits and self._waits(line, pending):
            try:
                table.lookup(keys)
            except PartitionBucketsError:
                return
            raise AssertionError("rows of buckets that do not fit were looked up")
        if fits:
            latest = merged(self.engine, line.rows, pending, line.columns)
            found = table.lookup(keys)
            assert read(found, line.columns) == shown(latest, line.columns)

    def _waits(self, line: Line, pending: list[Change]) -> bool:
        """Whether rows cannot be committed until their partitions are rescaled."""
        others = self._other_totals(line)
        return any(change.key[0] in others for change in pending)

    def _check_changes(self, line: Line, table: pkray.Table) -> None:
        """Changes between any two snapshots make the one of the other."""
        history = self._history(line)
        snapshots = named_files.numbered(history, "snapshot")
        first = min(named_files.numbered(history, "changelog") | snapshots)
        looks_back = self.normalizes or self.reads_overwrites
        table.changelog(normalize=self.normalizes)  # from the oldest on
        known = [number for number, moment in line.moments.items() if moment.told is not None]
        known = [number for number in known if number >= (line.live[0] if looks_back else first)]
        whole = named_files.changelog_is_there(self.root, snapshots.get(1, {}))
        if (line.live[0] if looks_back else first) == 1 and (whole or self.normalizes):
            known = [0, *known]
        rng = random.Random(len(self.log))
        for _ in range(3 if len(known) > 1 else 0):
            start, end = sorted(rng.sample(known, 2))
            if not self._crosses(line, start, end):
                self._check_changelog(line, table, start, end)
            ends = [line.moments[number] for number in (start, end) if number in line.live]
            if len(ends) == 2 and ends[0].is_visible and ends[1].is_visible:
                state = dict(ends[0].rows)
                found = table.changes(start, end, mode="diff")
                self._apply(state, found, line.columns, complete=False)
                assert shown(state, line.columns) == shown(ends[1].rows, line.columns)

    def _check_changelog(self, line: Line, table: pkray.Table, start: int, end: int) -> None:
        told = line.moments[end].told
        state = dict(line.moments[start].told or {}) if start else {}
        found = table.changelog(start + 1, end, normalize=self.normalizes)
        self._apply(state, found, line.columns, complete=self.tells_all)
        assert told is not None
        assert shown(state, line.columns) == shown(told, line.columns), (start, end)
