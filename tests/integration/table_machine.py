"""Random histories of a table against dicts of what it holds."""

import shutil
import tempfile
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import pkray
from tests.integration.readers import read_with_rust, rows_of

SCHEMA = pa.schema([("dt", pa.string()), ("id", pa.int64()), ("v", pa.string()), ("n", pa.int32())])
KEYS = st.tuples(st.sampled_from(["a", "b/c", ""]), st.integers(-20, 20))
VALUES = st.tuples(st.text(max_size=20) | st.none(), st.integers(-5, 5) | st.none())
ROWS = st.dictionaries(KEYS, VALUES, min_size=1, max_size=30)


def as_keys(keys: Any) -> list[dict[str, Any]]:
    return [{"dt": dt, "id": number} for dt, number in keys]


def as_rows(entries: dict) -> pa.Table:
    """Make rows of values by keys; a value alone is that of ``v``."""
    rows = []
    for key, value in zip(as_keys(entries), entries.values(), strict=True):
        v, n = value if isinstance(value, tuple) else (value, None)
        rows.append({**key, "v": v, "n": n})
    return pa.Table.from_pylist(rows, SCHEMA)


def content(table: pa.Table) -> dict:
    rows = rows_of(table.select(SCHEMA.names) if table.num_rows else table, ["dt", "id"])
    found = {(dt, number): (v, n) for dt, number, v, n in rows}
    assert len(found) == len(rows), "a key is there twice"
    return found


class HeldTable(RuleBasedStateMachine):
    """`committed` is the dict at the last commit, `latest` with what is written since."""

    content = staticmethod(content)

    def create_table(
        self, schema: pa.Schema, keys: list[str], partition: list[str], options: dict, owners: int
    ) -> None:
        self.folder = tempfile.mkdtemp()
        self.committed: dict = {}
        self.latest: dict = {}
        self.identifier = 0
        with pkray.connect(self.folder) as catalog:
            catalog.create_table("db.t", schema, keys, partition, options)
        self.open(owners)

    def open(self, owners: int) -> None:
        self.catalog = pkray.connect(self.folder, runtime_options={"owners": owners})
        self.table = self.catalog.load_table("db.t")
        self.writer = self.table.open_writer("model")

    def forget(self) -> None:
        """What was written since the last commit is gone."""
        self.latest = dict(self.committed)

    @rule()
    def abort(self) -> None:
        self.writer.abort()
        self.forget()

    @rule(owners=st.integers(1, 4))
    def reopen(self, owners: int) -> None:
        self.catalog.close()
        self.forget()
        self.open(owners)

    @rule(full=st.booleans())
    def compact(self, full: bool) -> None:
        self.table.compact(full=full)

    @invariant()
    def reads_agree(self) -> None:
        if hasattr(self, "table"):
            assert self.content(self.table.to_arrow()) == self.committed

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            if self.committed:
                assert self.content(read_with_rust(self.folder, "db.t")) == self.committed
            self.catalog.close()
            shutil.rmtree(self.folder)


class TableMachine(HeldTable):
    """Inserts and deletes by several writers."""

    partitioned = True

    @initialize(data=st.data(), owners=st.integers(1, 4))
    def create(self, data: st.DataObject, owners: int) -> None:
        options, partition = data.draw(self.options()), ["dt"] if self.partitioned else []
        self.create_table(SCHEMA, ["dt", "id"], partition, options, owners)

    def options(self) -> st.SearchStrategy[dict[str, str]]:
        raise NotImplementedError

    @rule(rows=ROWS)
    def upsert(self, rows: dict) -> None:
        self.writer.upsert(as_rows(rows))
        self.latest.update(rows)

    @rule(keys=st.sets(KEYS, min_size=1, max_size=6))
    def delete(self, keys: set) -> None:
        self.writer.delete(as_keys(keys))
        for key in keys:
            self.latest.pop(key, None)

    @rule(full_compact=st.booleans())
    def commit(self, full_compact: bool) -> None:
        self.identifier += 1
        self.writer.commit(self.identifier, full_compact=full_compact)
        self.committed = dict(self.latest)

    @rule(rows=ROWS | st.just({}))
    def commit_again(self, rows: dict) -> None:
        """Rows under a commit name that is taken change nothing; compactions may be published."""
        if self.identifier == 0:
            return
        self.abort()
        before = self._commits()
        if rows:
            self.writer.upsert(as_rows(rows))
        self.writer.commit(self.identifier)
        assert self._commits() == before

    def _commits(self) -> list[int]:
        """The snapshots that brought rows."""
        snapshots = self.table.snapshots().to_pylist()
        return [each["snapshot_id"] for each in snapshots if each["commit_kind"] != "COMPACT"]

    @rule(rows=ROWS, commits=st.booleans())
    def write_beside(self, rows: dict, commits: bool) -> None:
        """Another session of the same service; what it writes is not seen once it is dropped."""
        if self.latest != self.committed:
            return
        with self.table.open_writer("beside") as other:
            other.upsert(as_rows(rows))
            if commits:
                other.commit()
                self.committed.update(rows)
                self.forget()

    @rule(keys=st.lists(KEYS, min_size=1, max_size=20))
    def look_up(self, keys: list) -> None:
        for visibility, model in (("latest", self.latest), ("committed", self.committed)):
            found = self.table.lookup(as_keys(keys), visibility=visibility)
            expected = [as_rows({key: model[key]}) for key in keys if key in model]
            assert found.to_pylist() == [row for one in expected for row in one.to_pylist()]

    @rule(number=st.integers(-20, 20))
    def read_one_key(self, number: int) -> None:
        found = content(self.table.to_arrow(filter=f"id = {number}"))
        assert found == {key: v for key, v in self.committed.items() if key[1] == number}
