"""Primary keys without the partition columns: random histories against a dict, and retries."""

from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

import pkray
from pkray.errors import UnsupportedError
from tests.effort import examples
from tests.integration.readers import rows_of
from tests.integration.table_machine import HeldTable

SCHEMA = pa.schema([("id", pa.int64()), ("dt", pa.string()), ("n", pa.int64()), ("v", pa.string())])
PARTITIONS = ["a", "b/c", ""]
IDS = st.integers(0, 12)
Change = tuple[str, int, str, int | None, str | None]
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["+I", "+I", "+U", "-D"]),
        IDS,
        st.sampled_from(PARTITIONS),
        st.integers(0, 9) | st.none(),
        st.sampled_from(["x", "y"]) | st.none(),
    ),
    min_size=1,
    max_size=12,
)
Model = dict[int, tuple[str, int | None, str | None]]


def deduplicate(model: Model, change: Change) -> None:
    kind, key, *row = change
    model.pop(key, None)
    if kind != "-D":
        model[key] = (row[0], row[1], row[2])


def partial_update(model: Model, change: Change) -> None:
    kind, key, dt, n, v = change
    if kind == "-D":
        model.pop(key, None)
        return
    home, old_n, old_v = model.get(key, (dt, None, None))
    model[key] = (home, old_n if n is None else n, old_v if v is None else v)


def aggregation(model: Model, change: Change) -> None:
    kind, key, dt, n, v = change
    if kind == "-D":
        model.pop(key, None)
        return
    home, old_n, old_v = model.get(key, (dt, None, None))
    total = n if old_n is None else old_n + (n or 0)
    model[key] = (home, total, old_v if v is None else v)


def first_row(model: Model, change: Change) -> None:
    kind, key, dt, n, v = change
    if kind != "-D":
        model.setdefault(key, (dt, n, v))


ENGINES: dict[str, tuple[Callable[[Model, Change], None], dict[str, str]]] = {
    "deduplicate": (deduplicate, {}),
    "partial-update": (partial_update, {"partial-update.remove-record-on-delete": "true"}),
    "aggregation": (
        aggregation,
        {"fields.n.aggregate-function": "sum", "aggregation.remove-record-on-delete": "true"},
    ),
    "first-row": (first_row, {"ignore-delete": "true"}),
}


def as_they_merge(changes: list[Change], deleted: set[int], engine: str) -> list[Change]:
    """Changes of one commit less those of keys it deleted before: where rows are merged column by
    column, what follows a delete in the same commit is merged into the row before it.

    Args:
        deleted: what the commit has deleted so far; it is added to.
    """
    if engine not in ("partial-update", "aggregation"):
        return changes
    kept = []
    for change in changes:
        if change[1] not in deleted:
            kept.append(change)
        if change[0] == "-D":
            deleted.add(change[1])
    return kept or [("+I", 99, "a", 1, "x")]


def rows(changes: list[Change]) -> pa.Table:
    columns = list(zip(*changes, strict=True))
    arrays = [
        pa.array(values, kind) for values, kind in zip(columns[1:], SCHEMA.types, strict=True)
    ]
    return pa.table([*arrays, pa.array(columns[0])], [*SCHEMA.names, "kind"])


def content(table: pa.Table) -> Model:
    found = rows_of(table.select(SCHEMA.names), ["id"])
    assert len({key for key, *_ in found}) == len(found), "a key is there twice"
    return {key: (dt, n, v) for key, dt, n, v in found}


def replayed(changelog: pa.Table) -> Model:
    """A table by its changes, each of which fits what was there."""
    held: dict[tuple[int, str], tuple[int | None, str | None]] = {}
    for row in changelog.to_pylist():
        key, values = (row["id"], row["dt"]), (row["n"], row["v"])
        if row["_row_kind"] in ("-U", "-D"):
            assert held.pop(key) == values, "the image before is another"
        else:
            assert key not in held
            held[key] = values
    assert len({key for key, _ in held}) == len(held), "a key is there twice"
    return {key: (dt, *values) for (key, dt), values in held.items()}


class CrossPartitionMachine(HeldTable):
    engine = "deduplicate"
    content = staticmethod(content)

    @initialize(owners=st.integers(1, 3), producer=st.sampled_from(["none", "lookup"]))
    def create(self, owners: int, producer: str) -> None:
        self.apply, options = ENGINES[self.engine]
        self.history: dict[int, Model] = {}
        self.producer = producer
        self.taken = -1
        self.has_dropped = False
        self.deleted: set[int] = set()
        options = {
            "bucket": "-1",
            "dynamic-bucket.target-row-num": "3",
            "merge-engine": self.engine,
            "changelog-producer": producer,
            "num-sorted-run.compaction-trigger": "3",
            **options,
        }
        self.create_table(SCHEMA, ["id"], ["dt"], options, owners)

    def forget(self) -> None:
        super().forget()
        self.deleted.clear()

    def remember(self) -> None:
        self.deleted.clear()
        snapshot = self.table.latest_snapshot()
        if snapshot is not None:
            self.history[snapshot.id] = dict(self.committed)

    @rule(changes=CHANGES)
    def write(self, changes: list[Change]) -> None:
        changes = as_they_merge(changes, self.deleted, self.engine)
        self.writer.write(rows(changes), row_kinds="kind")
        for change in changes:
            self.apply(self.latest, change)

    @rule(full_compact=st.booleans())
    def commit(self, full_compact: bool) -> None:
        self.writer.commit(self.identifier, full_compact=full_compact)
        self.taken = self.identifier
        self.identifier += 1
        self.committed = dict(self.latest)
        self.remember()

    @precondition(lambda self: self.taken >= 0)
    @rule(changes=CHANGES)
    def commit_again(self, changes: list[Change]) -> None:
        """Rows under a commit name that is taken change nothing."""
        self.abort()
        self.writer.write(rows(changes), row_kinds="kind")
        self.writer.commit(self.taken)
        self.latest = dict(self.committed)

    @rule(failed=CHANGES, parts=st.lists(CHANGES, min_size=1, max_size=3))
    def push(self, failed: list[Change], parts: list[list[Change]]) -> None:
        """Tasks whose first attempts fail; those that count are taken in the tasks' order."""
        self.abort()
        session = self.table.open_push("job", self.identifier)
        reports = []
        parts = [as_they_merge(changes, self.deleted, self.engine) for changes in parts]
        for source, changes in enumerate(parts):
            lost = session.target().open(source, 0)
            lost.push(rows(failed), "kind")
            task = session.target().open(source, 1)
            task.push(rows(changes), "kind")
            reports.append(task.finish())
        session.commit(reports)
        self.identifier += 1
        for changes in parts:
            for change in changes:
                self.apply(self.committed, change)
        self.latest = dict(self.committed)
        self.remember()

    @rule(changes=CHANGES, commits=st.booleans())
    def write_elsewhere(self, changes: list[Change], commits: bool) -> None:
        """Another process's commits are seen, its aborted rows are not."""
        self.abort()
        changes = as_they_merge(changes, set(), self.engine)
        with pkray.connect(self.folder) as elsewhere:
            with elsewhere.load_table("db.t").open_writer("elsewhere") as writer:
                writer.write(rows(changes), row_kinds="kind")
                if commits:
                    writer.commit()
                    for change in changes:
                        self.apply(self.committed, change)
                    self.latest = dict(self.committed)
                    self.remember()

    @rule(partition=st.sampled_from(PARTITIONS))
    def drop_partition(self, partition: str) -> None:
        self.abort()
        self.table.drop_partitions([{"dt": partition}])
        self.has_dropped = True
        self.committed = {k: row for k, row in self.committed.items() if row[0] != partition}
        self.latest = dict(self.committed)

    @precondition(lambda self: self.history)
    @rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        self.abort()
        snapshot_id = data.draw(st.sampled_from(sorted(self.history)))
        self.table.rollback_to(snapshot_id)
        self.committed = dict(self.history[snapshot_id])
        self.latest = dict(self.committed)
        self.history = {key: row for key, row in self.history.items() if key <= snapshot_id}
        self.taken = -1

    @rule(keys=st.sets(IDS, min_size=1, max_size=8))
    def look_up(self, keys: set) -> None:
        asked = [{"id": key} for key in keys]
        for visibility, expected in (("latest", self.latest), ("committed", self.committed)):
            found = content(self.table.lookup(asked, visibility=visibility))
            assert found == {key: row for key, row in expected.items() if key in keys}
        for snapshot_id, model in list(self.history.items())[-3:]:
            found = content(
                self.table.lookup(asked, visibility="committed", snapshot_id=snapshot_id)
            )
            assert found == {key: row for key, row in model.items() if key in keys}

    @invariant()
    def changes_agree(self) -> None:
        if hasattr(self, "table") and self.producer == "lookup" and not self.has_dropped:
            assert replayed(self.table.changelog()) == self.committed

    def teardown(self) -> None:
        if hasattr(self, "table") and self.engine in ("partial-update", "aggregation"):
            self.table.compact(full=True)  # the independent reader knows no deletes there
        super().teardown()


class PartialUpdateMachine(CrossPartitionMachine):
    engine = "partial-update"


class AggregationMachine(CrossPartitionMachine):
    engine = "aggregation"


class FirstRowMachine(CrossPartitionMachine):
    engine = "first-row"


CHECKS = settings(max_examples=examples(6), stateful_step_count=14)
TestDeduplicate = CrossPartitionMachine.TestCase
TestDeduplicate.settings = CHECKS
TestPartialUpdate = PartialUpdateMachine.TestCase
TestPartialUpdate.settings = CHECKS
TestAggregation = AggregationMachine.TestCase
TestAggregation.settings = CHECKS
TestFirstRow = FirstRowMachine.TestCase
TestFirstRow.settings = CHECKS


@pytest.fixture
def catalog(tmp_path):
    with pkray.connect(str(tmp_path), runtime_options={"owners": 2}) as catalog:
        yield catalog


def test_keys_that_hold_some_of_the_partition_columns(catalog):
    columns = [("region", "STRING"), ("id", "STRING"), ("dt", "STRING"), ("v", "BIGINT")]
    table = catalog.create_table(
        "db.t", columns, ["region", "id"], ["region", "dt"], {"bucket": "-1"}
    )

    def row(region: str, key: str, dt: str | None, v: int) -> dict:
        return {"region": region, "id": key, "dt": dt, "v": v}

    with table.open_writer() as writer:
        writer.upsert([row("eu", "1", "a", 1), row("us", "1", "a", 2), row("eu", "2", None, 3)])
        writer.commit()
        writer.upsert([row("eu", "1", "b", 4), row("eu", "2", "b", 5), row("us", "3", None, 6)])
        writer.commit()
        writer.upsert([row("eu", "2", None, 7), row("us", "3", "c", 8)])
        writer.delete([{"region": "us", "id": "1"}])
        writer.commit()
    final = [row("eu", "1", "b", 4), row("eu", "2", None, 7), row("us", "3", "c", 8)]
    assert sorted(table.to_arrow().to_pylist(), key=str) == sorted(final, key=str)
    asked = [{"region": region, "id": key} for region in ("eu", "us") for key in "123"]
    assert table.lookup(asked).to_pylist() == final
    before = table.lookup(asked, visibility="committed", snapshot_id=1).to_pylist()
    assert before == [row("eu", "1", "a", 1), row("eu", "2", None, 3), row("us", "1", "a", 2)]
    assert table.lookup([asked[0]], visibility="committed", snapshot_id=1).num_rows == 1


def test_rows_cannot_take_the_place_of_partitions_but_none_can(catalog):
    table = catalog.create_table("db.t", SCHEMA, ["id"], ["dt"], {"bucket": "-1"})
    new = [{"id": 1, "dt": "a", "n": 1, "v": "x"}]
    with table.open_writer() as writer:
        writer.upsert(new)
        writer.commit()
        with pytest.raises(UnsupportedError, match="drop the partitions"):
            table.overwrite(new)
        table.overwrite([], {})
        writer.upsert([{**new[0], "dt": "b"}])
        writer.commit()
    assert content(table.to_arrow()) == {1: ("b", 1, "x")}


def test_row_kinds_of_a_column_move_keys_too(catalog):
    columns = [("id", "BIGINT"), ("dt", "STRING"), ("op", "STRING"), ("v", "BIGINT")]
    options = {"bucket": "-1", "rowkind.field": "op", "ignore-update-before": "true"}
    table = catalog.create_table("db.t", columns, ["id"], ["dt"], options)
    with table.open_writer() as writer:
        writer.upsert([{"id": key, "dt": "a", "op": "+I", "v": key} for key in range(4)])
        writer.commit()
        changes = [("-U", 1, "a"), ("+U", 1, "b"), ("-U", 2, "a"), ("-D", 3, "z"), ("+I", 0, "c")]
        writer.upsert([{"id": key, "dt": dt, "op": op, "v": 9} for op, key, dt in changes])
        writer.commit()
    found = {row["id"]: (row["dt"], row["v"]) for row in table.to_arrow().to_pylist()}
    assert found == {0: ("c", 9), 1: ("b", 9), 2: ("a", 2)}


def test_a_key_that_comes_back_before_the_commit_is_updated(catalog):
    options = {"bucket": "-1", "changelog-producer": "lookup", "dynamic-bucket.target-row-num": "1"}
    table = catalog.create_table("db.t", SCHEMA, ["id"], ["dt"], options)
    with table.open_writer() as writer:
        writer.upsert(rows([("+I", key, "a", 1, "x") for key in range(3)]).drop(["kind"]))
        writer.commit()
        for dt in "ba":
            writer.upsert([{"id": 1, "dt": dt, "n": 2, "v": dt}])
        writer.commit()
    changed = table.changelog(from_snapshot=table.latest_snapshot().id).to_pylist()
    assert [(row["_row_kind"], row["dt"], row["n"]) for row in changed] == [
        ("-U", "a", 1),
        ("+U", "a", 2),
    ]
