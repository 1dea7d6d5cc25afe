"""Orphans: files that nothing names go once they are old, and no others."""

import random
from typing import Any

import pytest
from expiry_samples import Walk, Writer

from pkray.errors import MissingFileError
from pkray.expiration.expiry import SnapshotExpirer
from pkray.expiration.orphans import OrphanFiles
from pkray.expiration.retention import Retention
from pkray.metadata.snapshots import SnapshotStore
from pkray.metadata.tags import TagStore
from pkray.storage.branch_store import BranchStore
from pkray.storage.opening import open_store
from tests import commit_samples as samples

AFTER_ALL = 1 << 60


@pytest.fixture(params=["none", "input"])
def writer(tmp_path, request):
    options = {"manifest.merge-min-count": "3", "manifest.compression": "none"}
    schema = samples.schema(partitioned=True, changelog_producer=request.param, **options)
    made = Writer(open_store(tmp_path), schema, random.Random(3))
    for number in range(6):
        made.compact() if number % 2 else made.append()
    TagStore(made.store).create("kept", SnapshotStore(made.store).read(2))
    retention = Retention(2, 2, 0, limit=50)
    longer = Retention(4, 4, 0, limit=50) if request.param == "input" else None
    SnapshotExpirer(made.store, schema, made.clock).expire(retention, longer)
    return made


def orphans(writer: Writer, before: int = AFTER_ALL, store: Any = None) -> list[str]:
    found = OrphanFiles(store or writer.store, writer.schema).find(before)
    return sorted(file.path for batch in found for file in batch)


def test_a_whole_table_has_none(writer):
    assert orphans(writer) == []


STRAYS = [
    "manifest/manifest-list-lost-0",
    "index/index-lost-0",
    "statistics/stat-lost-0",
    "p=a/bucket-0/data-lost-0.parquet",
    "p=gone/bucket-1/changelog-lost-0.parquet",
    "p=a/bucket-0/.data-1.parquet.6f.tmp",
    "snapshot/snapshot-3#1",
    "snapshot/.snapshot-9.0a.tmp",
    "changelog/stray",
]
KEPT = ["schema/schema-0", "consumer/consumer-a", "notes.txt", "p=a/notes", "other/bucket-0/file"]


def test_what_nothing_names_is_found(writer):
    for path in [*STRAYS, *KEPT]:
        writer.store.write(path, b"stray")
    assert orphans(writer) == sorted(STRAYS)


def test_young_files_are_left_alone(writer):
    writer.store.write("p=a/bucket-0/data-new-0.parquet", b"in flight")
    made = next(iter(writer.store.list("p=a/bucket-0"))).modified_millis
    assert orphans(writer, before=made - 60_000) == []


def test_files_that_only_a_branch_names_stay(writer):
    writer.store.write("branch/branch-b/schema/schema-0", writer.schema.to_json())
    branch = BranchStore(writer.store, "b")
    newest = SnapshotStore(writer.store).latest()
    branch.create(
        f"snapshot/snapshot-{newest.id}", writer.store.read(f"snapshot/snapshot-{newest.id}")
    )
    on_branch = Writer(branch, writer.schema, random.Random(4))
    on_branch._numbers = iter(range(5000, 6000))
    on_branch._index = writer._index
    on_branch.append()
    assert orphans(writer) == []
    assert orphans(writer, store=branch) == []
    files = [file.path for file in writer.store.list("branch/branch-b")]
    writer.store.delete(files)
    assert len(orphans(writer)) > 2


def test_a_commit_while_it_looks_is_seen(writer):
    found = OrphanFiles(writer.store, writer.schema)
    looked = []

    def commit_once(count: int) -> None:
        if not looked:
            writer.append()
        looked.append(count)

    for number in range(2):
        writer.store.write(f"statistics/stat-{number}", b"old")
    paths = [file.path for batch in found.find(AFTER_ALL, commit_once) for file in batch]
    assert looked
    assert sorted(paths) == ["statistics/stat-0", "statistics/stat-1"]


def test_a_damaged_table_is_not_cleaned(writer):
    newest = Walk(writer.store).snapshots().popitem()[1]
    writer.store.delete(f"manifest/{newest['baseManifestList']}")
    writer.store.write(STRAYS[0], b"stray")
    with pytest.raises(MissingFileError):
        orphans(writer)
