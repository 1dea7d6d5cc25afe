"""Random changes of columns among writes, compactions and reads, against a plain model.

The model holds rows by column id; an independent reader sees the same.
"""

import itertools
import tempfile
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import pkray
from pkray.errors import SchemaError
from pkray.schema.types import DataType
from pkray.service.client.writer import TableWriter
from pkray.table.table import Table
from tests.effort import examples
from tests.integration.readers import RustCatalog, rows_of

KEYS = range(12)
WIDER = {"INT": "BIGINT", "BIGINT": "DECIMAL(25, 2)", "FLOAT": "DOUBLE", "DATE": "TIMESTAMP(6)"}
TYPES = ("INT", "FLOAT", "DATE", "STRING", "BIGINT")
VALUES: dict[str, Any] = {
    "INT": lambda n: n,
    "BIGINT": lambda n: n << 33,
    "FLOAT": lambda n: n / 2,
    "DOUBLE": lambda n: n / 3,
    "DECIMAL(25, 2)": lambda n: n,
    "STRING": lambda n: f"text {n}",
    "DATE": lambda n: pa.scalar(n, pa.int32()).cast(pa.date32()).as_py(),
    "TIMESTAMP(6)": lambda n: pa.scalar(n << 40, pa.int64()).cast(pa.timestamp("us")).as_py(),
}
Rows = dict[int, dict[int, Any]]


class Model:
    """The columns in order and the rows by key, both by column id."""

    def __init__(self) -> None:
        self.columns: list[tuple[int, str, str]] = [(0, "id", "INT"), (1, "a", "INT")]
        self.committed: Rows = {}

    def under(self, columns: list[tuple[int, str, str]], rows: Rows) -> list[dict[str, Any]]:
        return [
            {name: _plain(row.get(number), kind) for number, name, kind in columns}
            for _, row in sorted(rows.items())
        ]


class Session:
    """An open writer, with the columns it knows."""

    def __init__(self, table: Table, columns: list[tuple[int, str, str]]) -> None:
        self.columns = list(columns)
        self.writer: TableWriter = table.open_writer()
        self.pending: Rows = {}


class AlteredTable(RuleBasedStateMachine):
    """One table, one writer at a time that may be older than the table's newest columns."""

    producer = "none"

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.catalog = pkray.connect(self.folder.name, runtime_options={"owners": 1})
        options = {"bucket": "2", "changelog-producer": self.producer}
        options["num-sorted-run.compaction-trigger"] = "3"
        columns = [("id", "INT"), ("a", "INT")]
        self.table = self.catalog.create_table("db.t", columns, ["id"], options=options)
        self.model = Model()
        self.session: Session | None = None
        self.names = (f"c{i}" for i in itertools.count())
        self.next_id = 2
        self.values = itertools.count(1)
        self.snapshots: dict[int, list[dict[str, Any]]] = {}

    def teardown(self) -> None:
        self.catalog.close()
        self.folder.cleanup()

    @rule(kind=st.sampled_from(TYPES), first=st.booleans())
    def add_column(self, kind: str, first: bool) -> None:
        name = next(self.names)
        self.table.alter.add_column(name, kind, first=first)
        place = 0 if first else len(self.model.columns)
        self.model.columns.insert(place, (self.next_id, name, kind))
        self.next_id += 1

    @precondition(lambda self: len(self.model.columns) > 2)
    @rule(data=st.data())
    def drop_column(self, data: st.DataObject) -> None:
        self._drop(self._some_value_column(data))

    @precondition(lambda self: len(self.model.columns) > 2)
    @rule(data=st.data())
    def add_a_column_of_a_dropped_name(self, data: st.DataObject) -> None:
        column = self._some_value_column(data)
        self._drop(column)
        self.table.alter.add_column(column[1], "STRING")
        self.model.columns.append((self.next_id, column[1], "STRING"))
        self.next_id += 1

    @rule(data=st.data())
    def rename_column(self, data: st.DataObject) -> None:
        place = data.draw(st.integers(0, len(self.model.columns) - 1))
        number, name, kind = self.model.columns[place]
        new_name = next(self.names)
        self.table.alter.rename_column(name, new_name)
        self.model.columns[place] = (number, new_name, kind)

    @rule(data=st.data())
    def widen_column(self, data: st.DataObject) -> None:
        places = [
            place
            for place, (number, _, kind) in enumerate(self.model.columns)
            if number and kind in WIDER
        ]
        if places:
            place = data.draw(st.sampled_from(places))
            number, name, kind = self.model.columns[place]
            self.table.alter.change_type(name, WIDER[kind])
            self.model.columns[place] = (number, name, WIDER[kind])

    @rule(data=st.data())
    def move_column(self, data: st.DataObject) -> None:
        column = data.draw(st.sampled_from(self.model.columns))
        if self.model.columns[0] != column:
            self.table.alter.move_column(column[1], first=True)
            self.model.columns.remove(column)
            self.model.columns.insert(0, column)

    @rule(data=st.data(), keys=st.sets(st.sampled_from(KEYS), min_size=1))
    def upsert(self, data: st.DataObject, keys: set[int]) -> None:
        session = self._open_session()
        rows = []
        for key in keys:
            row: dict[int, Any] = {0: key}
            for number, _, kind in session.columns:
                if number and data.draw(st.integers(0, 3)):
                    row[number] = VALUES[kind](next(self.values))
            rows.append({name: row.get(number) for number, name, _ in session.columns})
            known = {number for number, _, _ in self.model.columns}
            session.pending[key] = {n: value for n, value in row.items() if n in known}
        arrow = pa.schema([(name, DataType.parse(kind).arrow) for _, name, kind in session.columns])
        session.writer.upsert(pa.Table.from_pylist(rows, arrow))

    @rule(keys=st.sets(st.sampled_from(KEYS), min_size=1))
    def delete(self, keys: set[int]) -> None:
        session = self._open_session()
        (name,) = (name for number, name, _ in session.columns if number == 0)
        session.writer.delete([{name: key} for key in keys])
        for key in keys:
            session.pending[key] = {}

    @rule(full=st.booleans())
    def commit(self, full: bool) -> None:
        session = self._open_session()
        snapshot = session.writer.commit(full_compact=full)
        self.model.committed = self._latest()
        session.pending = {}
        if snapshot is not None:
            rows = self.model.under(self.model.columns, self.model.committed)
            self.snapshots[snapshot.id] = rows

    @rule()
    def begin_again(self) -> None:
        if self.session is not None:
            self.session.writer.close()
            self.session = None

    @rule()
    def compact(self) -> None:
        self.table.compact()

    @rule()
    def load_again(self) -> None:
        self.table = self.catalog.load_table("db.t")

    @rule()
    def read_a_snapshot_again(self) -> None:
        for snapshot_id, rows in list(self.snapshots.items())[-3:]:
            found = self.table.to_arrow(snapshot_id=snapshot_id)
            assert _in_key_order(found, self._key_of(found)) == rows

    @rule()
    def others_read_the_same(self) -> None:
        key = self._key_of(self.table.to_arrow())
        found = RustCatalog(self.folder.name).read("db.t")
        assert rows_of(found, [key]) == rows_of(self.table.to_arrow(), [key])

    @rule()
    def dropping_the_key_is_refused(self) -> None:
        (name,) = (name for number, name, _ in self.model.columns if number == 0)
        try:
            self.table.alter.drop_column(name)
        except SchemaError:
            return
        raise AssertionError("the key was dropped")

    @invariant()
    def reads_are_the_models(self) -> None:
        columns = self.model.columns
        assert self.table.arrow_schema.names == [name for _, name, _ in columns]
        (key,) = (name for number, name, _ in columns if number == 0)
        committed = self.model.under(columns, self.model.committed)
        assert _in_key_order(self.table.to_arrow(), key) == committed
        asked = [{key: number} for number in KEYS]
        found = self.table.lookup(asked, visibility="committed")
        assert found.to_pylist() == committed
        latest = self.model.under(columns, self._latest())
        assert self.table.lookup(asked).to_pylist() == latest

    def _drop(self, column: tuple[int, str, str]) -> None:
        self.table.alter.drop_column(column[1])
        self.model.columns.remove(column)
        rows = [*self.model.committed.values()]
        rows += self.session.pending.values() if self.session else ()
        for row in rows:
            row.pop(column[0], None)

    def _key_of(self, table: pa.Table) -> str:
        return next(field.name for field in table.schema if not field.nullable)

    def _open_session(self) -> Session:
        if self.session is None:
            self.session = Session(self.table, self.model.columns)
        return self.session

    def _latest(self) -> Rows:
        pending = self.session.pending if self.session else {}
        rows = {**self.model.committed, **pending}
        return {key: row for key, row in rows.items() if row}

    def _some_value_column(self, data: st.DataObject) -> tuple[int, str, str]:
        return data.draw(st.sampled_from([c for c in self.model.columns if c[0]]))


class AlteredTableWithChangelog(AlteredTable):
    producer = "lookup"


def _plain(value: Any, kind: str) -> Any:
    """A value as a read of a column of this type gives it."""
    if value is None:
        return None
    return pa.scalar(value).cast(DataType.parse(kind).arrow).as_py()


def _in_key_order(table: pa.Table, key: str) -> list[dict[str, Any]]:
    return table.sort_by(key).to_pylist()


_settings = settings(
    max_examples=examples(8), stateful_step_count=25, suppress_health_check=list(HealthCheck)
)
TestAlteredTable = AlteredTable.TestCase
TestAlteredTable.settings = _settings
TestAlteredTableWithChangelog = AlteredTableWithChangelog.TestCase
TestAlteredTableWithChangelog.settings = _settings
