"""Rows that are written, compacted, replaced, and followed as they change."""

from typing import Any

import pyarrow as pa
from line_model import KEY, KEYS, Change, Columns, Consumer, Key, by_id, merged, read, shown
from table_checks import CheckedTable

from pkray.errors import PartitionBucketsError, SchemaChangedError
from pkray.schema.types import DataType
from tests.integration.readers import read_with_rust


class RowSteps(CheckedTable):
    """Rows are written, compacted, replaced and read as they change."""

    def write(self) -> None:
        session, rng = self._session(), self.rng
        upserts: dict[Key, dict[str, Any]] = {}
        for key in rng.sample(KEYS, rng.randrange(1, 6)):
            upserts[key] = self._row(session.columns, key)
        deletes = []
        if self.engine != "first-row":
            deletes = rng.sample(KEYS, rng.choice([0, 0, 1, 3]))
        self.log.append(f"    +{sorted(upserts)} -{sorted(deletes)}")
        try:
            session.writer.upsert(self._table(session.columns, upserts))
            if deletes:
                names = {c.id: c.name for c in session.columns}
                session.writer.delete([{names[0]: p, names[1]: k} for p, k in deletes])
        except SchemaChangedError:
            self._lost(session)
            return
        except PartitionBucketsError:
            self._refused(session)
            return
        columns = session.columns
        session.pending += [Change(key, by_id(row, columns)) for key, row in upserts.items()]
        session.pending += [Change(key, None) for key in deletes]

    def commit(self, full: bool = False) -> None:
        session = self._session()
        try:
            session.writer.commit(full_compact=full)
        except SchemaChangedError:
            self._lost(session)
            return
        except PartitionBucketsError:
            self._refused(session)
            return
        assert not (session.is_replaced and session.pending)
        self.line.rows = merged(self.engine, self.line.rows, session.pending, self.line.columns)
        session.pending = []
        self._sync(full=full)

    def write_and_commit(self) -> None:
        self.write()
        self.commit()

    def commit_full(self) -> None:
        self.commit(full=True)

    def abort(self) -> None:
        session = self.sessions.get((self.line.name, self.side))
        if session is not None:
            session.writer.abort()
            session.pending = []

    def close_writer(self) -> None:
        self._close_session()

    def compact(self) -> None:
        full = self.rng.random() < 0.5
        self._table_of().compact(full=full)
        self._sync(full=full)

    def compact_dedicated(self) -> None:
        full = self.rng.random() < 0.5
        self._table_of().compact_dedicated(full=full)
        self._sync(full=full)

    def drop_partition(self) -> None:
        partition = self.rng.choice(("x", "y=/z", "w"))
        self._table_of().drop_partitions([{"p": partition}])
        self.line.rows = {key: row for key, row in self.line.rows.items() if key[0] != partition}
        self._sync()

    def overwrite(self) -> None:
        line, rng = self.line, self.rng
        if self._has_other_totals():
            return
        table = self._table_of()
        partition = rng.choice(("x", "y=/z", "w", None))
        keys = [key for key in KEYS if partition in (None, key[0])]
        rows = {key: self._row(line.columns, key) for key in rng.sample(keys, rng.randrange(4))}
        spec = {} if partition is None else {"p": partition}
        table.overwrite(self._table(line.columns, rows), spec)
        kept = {k: r for k, r in line.rows.items() if partition is not None and k[0] != partition}
        new = (Change(key, by_id(row, line.columns)) for key, row in rows.items())
        line.rows = merged(self.engine, kept, new, line.columns)
        self._sync()

    def follow(self) -> None:
        """Go on with a consumer, or begin one."""
        line = self.line
        if not line.live:
            return
        name = self.rng.choice("fg")
        table = self._table_of()
        known = line.consumers.get(name)
        if known is not None and self._crosses(line, known.next_id - 1, line.latest):
            self.drop_consumer(name)
            known = None
        if known is None and line.moments[line.latest].told is None:
            return
        state = dict(known.state) if known else {}
        until = line.latest
        with table.stream(name, until_snapshot=until, normalize=self.normalizes) as stream:
            for batch in stream:
                self._apply(
                    state, batch, line.columns, complete=self.tells_all and known is not None
                )
        told = line.moments[until].told
        if told is None:
            self.drop_consumer(name)
            return
        assert shown(state, line.columns) == shown(told, line.columns)
        looks_back = self.normalizes or self.reads_overwrites
        keeps = until if looks_back else until + 1
        line.consumers[name] = Consumer(until + 1, keeps, state)

    def drop_consumer(self, name: str | None = None) -> None:
        name = name or self.rng.choice("fg")
        self._table_of().consumers.delete(name)
        self.line.consumers.pop(name, None)

    def read_with_rust(self) -> None:
        if self.line is self.main and self.main.live:
            moment = self.main.moments[self.main.latest]
            if moment.is_visible:
                found = read_with_rust(self.folder, "db.t")
                expected = shown(self.main.rows, self.main.columns)
                assert (read(found, self.main.columns) if found.num_rows else {}) == expected

    def _row(self, columns: Columns, key: Key) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for column in columns:
            value: Any = next(self.values)
            if column.type == "STRING":
                value = f"v{value}"
            if column.id in KEY:
                value = key[column.id]
            elif self.rng.random() < 0.25:
                value = None
            row[column.name] = value
        return row

    def _table(self, columns: Columns, rows: dict[Key, dict[str, Any]]) -> pa.Table:
        schema = pa.schema([(c.name, DataType.parse(c.type).arrow) for c in columns])
        return pa.Table.from_pylist(list(rows.values()), schema)
