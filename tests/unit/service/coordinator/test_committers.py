"""The committers that a coordinator keeps."""

from dataclasses import replace

import pytest

from pkray.format.commit_message import CommitMessage
from pkray.metadata.schemas import SchemaStore
from pkray.service.coordinator.committers import MAX_KEPT, Committers
from pkray.storage.location import TableLocation
from tests.commit_samples import schema

SCHEMA = schema(bucket="1")


@pytest.fixture
def location(tmp_path):
    return TableLocation(str(tmp_path), "db.t")


@pytest.fixture
def schemas(location):
    schemas = SchemaStore(location.open(), location.name)
    schemas.create(SCHEMA)
    return schemas


@pytest.fixture
def committers(location, schemas):
    return Committers(location, lambda: 7)


def nothing():
    return [CommitMessage(partition=bytes(4), bucket=0, total_buckets=1)]


def test_the_last_used_are_kept(committers):
    first, second = committers.for_user("first"), committers.for_user("second")
    for number in range(MAX_KEPT - 1):
        committers.for_user(f"other-{number}")
        assert committers.for_user("first") is first
    assert len(committers) == MAX_KEPT
    assert committers.for_user("second") is not second


def test_all_of_them_share_the_snapshots_they_have_read(committers):
    one, two = committers.for_user("one"), committers.for_user("two")
    assert one.snapshots is two.snapshots
    assert one.commit(1, nothing()).append.time_millis == 7
    assert two.commit(1, nothing()).append.id == 2
    assert (one.committed_identifier(), two.committed_identifier()) == (1, 1)


def test_a_commit_without_changes_makes_a_snapshot_unless_told_otherwise(committers):
    assert committers.for_user("compaction", ignore_empty=True).commit(1, nothing()).append is None
    assert committers.for_user("job").commit(1, nothing()).append.id == 1


def test_the_schema_is_the_newest_at_each_commit(committers, schemas):
    assert committers.for_user("job").commit(1, nothing()).append.schema_id == 0
    schemas.create(replace(SCHEMA, id=1, comment="changed"))
    assert committers.for_user("job").commit(2, nothing()).append.schema_id == 1
