"""Every field of a JSON file with every wrong value: an error that names the file, or the value."""

from collections.abc import Callable
from typing import Any

import pytest

from pkray.errors import CorruptFileError, UnsupportedError
from pkray.format import snapshot as snapshots
from pkray.format import tag as tags
from pkray.format.tag import Tag
from pkray.metadata.consumers import Consumer, ConsumerStore
from pkray.schema.table_schema import TableSchema
from pkray.storage.opening import open_store
from tests.commit_samples import schema
from tests.damaged_json import mutations
from tests.unit.format.test_snapshot import SNAPSHOT

PATH = "folder/file-4"
WHOLE = snapshots.replace(
    SNAPSHOT,
    index_manifest="index-manifest-u-0",
    statistics="stat-u-0",
    changelog_record_count=3,
    log_offsets={"0": 1},
)
TAG = tags.encode(Tag("x", WHOLE, 1_700_000_000_000, 60_000))
READ = {
    "snapshot": (snapshots.encode(WHOLE), lambda data: snapshots.decode(data, PATH, 4)),
    "tag": (TAG, lambda data: tags.decode(data, "x", PATH)),
    "schema": (schema(True).to_json(), lambda data: TableSchema.from_json(data, PATH)),
}


def read_wrongly(read: Callable[[bytes], Any], data: bytes, name: str) -> list[str]:
    """Changes after which a file is read as another, or an error does not name it."""
    expected, wrong = read(data), []
    for what, damaged in mutations(data):
        try:
            is_right = read(damaged) == expected or " = " in what or what.startswith("no ")
        except (CorruptFileError, UnsupportedError) as error:
            is_right = name in str(error) and what != "nothing"
        if not is_right:
            wrong.append(what)
    return wrong


@pytest.mark.parametrize("kind", READ)
def test_a_wrong_value_is_refused_or_read_as_it_is(kind):
    data, read = READ[kind]
    assert read_wrongly(read, data, PATH) == []


def test_a_wrong_place_of_a_consumer_is_refused(tmp_path):
    store = open_store(tmp_path)
    consumers = ConsumerStore(store)
    consumers.record("a", 5, keeps_from=3, is_loading=True)

    def read(data: bytes) -> Consumer | None:
        store.write("consumer/consumer-a", data)
        return consumers.find("a")

    assert read_wrongly(read, store.read("consumer/consumer-a"), "consumer-a") == []


@pytest.mark.parametrize("field", ["id", "schemaId", "timeMillis", "watermark", "commitIdentifier"])
@pytest.mark.parametrize("number", ["1180591620717411303424", "-1180591620717411303424", "1.0"])
def test_numbers_that_java_cannot_hold_are_refused(field, number):
    data = snapshots.encode(WHOLE).replace(b"pkray.crc32", b"other")
    before = data
    for line in data.splitlines():
        if line.strip().startswith(f'"{field}"'.encode()):
            data = data.replace(line, f'  "{field}": {number},'.encode())
    assert data != before
    with pytest.raises(CorruptFileError, match=PATH):
        snapshots.decode(data, PATH)


def test_a_snapshot_under_another_number_is_damaged():
    with pytest.raises(CorruptFileError, match="it holds snapshot 4"):
        snapshots.decode(snapshots.encode(SNAPSHOT), "snapshot/snapshot-5", 5)


def test_a_snapshot_that_counts_changes_names_where_they_are():
    data = snapshots.encode(snapshots.replace(WHOLE, changelog_manifest_list=None))
    with pytest.raises(CorruptFileError, match="names no list of them"):
        snapshots.decode(data, PATH)


def test_what_a_newer_engine_adds_is_passed_over():
    data = snapshots.encode(WHOLE).replace(b'"id": 4', b'"id": 4, "more": {"a": [1, null]}')
    assert snapshots.decode(data.replace(b"pkray.crc32", b"other"), PATH) == WHOLE
