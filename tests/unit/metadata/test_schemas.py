"""Schemas are published one after the other, whoever changes them."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from pkray.errors import SchemaError, StorageError, TableNotFoundError
from pkray.format import paths
from pkray.metadata.schemas import SchemaStore
from pkray.schema.changes import AddColumn, DropColumn
from pkray.schema.table_schema import TableSchema
from pkray.storage.object_store import ObjectStore
from pkray.storage.opening import open_store
from tests.delegating_store import DelegatingStore


@pytest.fixture
def store(tmp_path) -> ObjectStore:
    store = open_store(str(tmp_path))
    SchemaStore(store, "db.t").create(TableSchema.create([("id", "INT"), ("v", "INT")], ["id"]))
    return store


def alter(store: ObjectStore, *changes) -> TableSchema:
    return SchemaStore(store, "db.t").change(changes, has_snapshots=lambda: True, clock=lambda: 5)


def test_a_change_is_published_under_the_next_id(store):
    schema = alter(store, AddColumn("n", "INT"))
    schemas = SchemaStore(store, "db.t")
    assert schemas.ids() == [0, 1]
    assert schemas.latest() == schema
    assert schema.time_millis == 5


def test_a_refused_change_publishes_nothing(store):
    with pytest.raises(SchemaError, match="primary key"):
        alter(store, AddColumn("n", "INT"), DropColumn("id"))
    assert SchemaStore(store, "db.t").ids() == [0]


def test_a_table_that_is_not_there_is_not_changed(tmp_path):
    with pytest.raises(TableNotFoundError, match=r"db\.t"):
        alter(open_store(str(tmp_path / "none")), AddColumn("n", "INT"))


def test_changes_made_at_once_are_all_made(store):
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda i: alter(store, AddColumn(f"n{i}", "INT")), range(24)))
    schemas = SchemaStore(store, "db.t")
    assert schemas.ids() == list(range(25))
    assert sorted(schema.id for schema in made) == list(range(1, 25))
    latest = schemas.latest()
    assert set(latest.names) == {"id", "v", *(f"n{i}" for i in range(24))}
    assert sorted(field.id for field in latest.fields) == list(range(26))
    assert latest.highest_field_id == 25


def test_of_two_that_drop_a_column_one_is_told_that_it_is_gone(store):
    def drop(_: int) -> str:
        try:
            return f"schema {alter(store, DropColumn('v')).id}"
        except SchemaError as error:
            return error.message

    with ThreadPoolExecutor(2) as pool:
        said = sorted(pool.map(drop, range(2)))
    assert said[0].startswith("column 'v' is not in the table")
    assert said[1] == "schema 1"


class LosesAnswers:
    """A store whose creations happen, but whose answers to them do not arrive."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def __getattr__(self, name: str):
        return getattr(self._store, name)

    def create(self, path: str, data: bytes) -> bool:
        self._store.create(path, data)
        raise StorageError("no answer")


class Repeats(LosesAnswers):
    """An object store that tries a creation again whose answer was lost."""

    def local_path(self, path: str) -> None:
        return None

    def create(self, path: str, data: bytes) -> bool:
        self._store.create(path, data)
        return self._store.create(path, data)


@pytest.mark.parametrize("kind", [LosesAnswers, Repeats])
def test_a_change_whose_answer_was_lost_is_made_once(store, kind):
    schema = alter(kind(store), AddColumn("n", "INT"))
    assert schema.id == 1
    assert SchemaStore(store, "db.t").ids() == [0, 1]


def test_a_creation_that_failed_is_an_error(store):
    class Fails(LosesAnswers):
        def create(self, path: str, data: bytes) -> bool:
            raise StorageError("the disk is gone")

    with pytest.raises(StorageError, match="the disk is gone"):
        alter(Fails(store), AddColumn("n", "INT"))
    assert SchemaStore(store, "db.t").ids() == [0]


def test_the_newest_schema_is_found_from_the_one_known(store):
    schemas = SchemaStore(store, "db.t")
    assert schemas.newest().id == 0
    alter(store, AddColumn("n", "INT"))
    alter(store, AddColumn("m", "INT"))
    assert schemas.newest() == SchemaStore(store, "db.t").latest()


class ListedStore(DelegatingStore):
    """Notes what it is asked for."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.asked: list[str] = []

    def list(self, prefix="", *, recursive=True, hidden=False):
        self.asked.append("list")
        return super().list(prefix, recursive=recursive, hidden=hidden)

    def read(self, path):
        self.asked.append("read")
        return super().read(path)

    def exists(self, path):
        self.asked.append("exists")
        return super().exists(path)


def test_the_newest_is_looked_for_by_one_request(store):
    listed = ListedStore(store)
    schemas = SchemaStore(listed, "db.t")
    assert schemas.newest().id == 0
    alter(store, AddColumn("n", "INT"))
    assert schemas.newest().id == 1
    listed.asked.clear()
    assert schemas.newest().id == 1
    assert listed.asked == ["list"]
    assert schemas.replacements == 0


def test_schemas_that_others_took_the_place_of_are_read_again(store):
    alter(store, AddColumn("n", "INT"))
    schemas = SchemaStore(store, "db.t")
    mine = schemas.newest()
    theirs = replace(mine, comment="theirs")
    store.write(paths.schema(1), mine.to_json())  # as it was
    assert (schemas.newest(), schemas.replacements) == (mine, 0)
    store.write(paths.schema(1), theirs.to_json())
    assert (schemas.newest(), schemas.replacements) == (theirs, 1)
    assert mine.digest != theirs.digest
    assert schemas.newest().digest == TableSchema.from_json(theirs.to_json()).digest
    store.delete(paths.schema(1))
    assert (schemas.newest().id, schemas.replacements) == (0, 2)
    store.delete(paths.schema(0))
    with pytest.raises(TableNotFoundError):
        schemas.newest()


def test_a_schema_that_was_read_before_it_was_listed_is_read_again(store):
    schemas = SchemaStore(store, "db.t")
    schemas.newest()
    mine = alter(store, AddColumn("n", "INT"))
    assert schemas.read(1) == mine
    theirs = replace(mine, comment="theirs")
    store.write(paths.schema(1), theirs.to_json())
    assert (schemas.newest(), schemas.replacements) == (theirs, 1)
