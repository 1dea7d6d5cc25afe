import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pkray.commit.committer import Committer
from pkray.commit.manifest_merge import plan_merge
from pkray.format.data_file import ADD, DELETE, ManifestEntry
from pkray.format.manifest import ManifestFileMeta
from pkray.format.stats import EMPTY_STATS
from pkray.metadata.live import data_manifests, live_files, merge_entries
from pkray.storage.opening import open_store
from tests.commit_samples import WrappedStore, data_file, message, schema
from tests.effort import examples

KB = 1 << 10


def manifest(added: int, deleted: int = 0, size: int = KB) -> ManifestFileMeta:
    return ManifestFileMeta(
        file_name=f"m{added}",
        file_size=size,
        num_added_files=added,
        num_deleted_files=deleted,
        partition_stats=EMPTY_STATS,
        schema_id=0,
    )


def options(**changes: str):
    return schema(**{k.replace("_", "-"): v for k, v in changes.items()}).core


def test_few_manifests_are_left_alone():
    assert plan_merge([manifest(1)] * 29, options()) is None


def test_many_small_manifests_are_merged():
    assert plan_merge([manifest(1)] * 30, options()) == slice(0, 30)


def test_a_large_manifest_is_not_merged_with_little():
    manifests = [manifest(10_000, size=KB * KB), *[manifest(1)] * 29]
    assert plan_merge(manifests, options()) == slice(1, 30)


def test_manifests_of_the_target_size_are_done():
    manifests = [manifest(2, size=9 * KB * KB), *[manifest(1)] * 30]
    assert plan_merge(manifests, options()) == slice(1, 31)


def test_manifests_that_cancel_out_are_all_rewritten():
    manifests = [manifest(1000, size=9 * KB * KB), manifest(100, 800, size=9 * KB * KB)]
    assert plan_merge(manifests, options()) == slice(0, 2)
    assert plan_merge([manifests[0], manifest(1000, 100, size=9 * KB * KB)], options()) is None


def test_a_deletion_cancels_an_addition():
    a, b = data_file("a"), data_file("b")
    entries = [
        ManifestEntry(ADD, b"", 0, 1, a),
        ManifestEntry(ADD, b"", 0, 1, b),
        ManifestEntry(DELETE, b"", 0, 1, a),
    ]
    assert merge_entries(entries) == ([entries[1]], [])
    assert merge_entries(entries[1:]) == ([entries[1]], [entries[2]])


def test_a_file_moved_to_another_level_stays():
    low, high = data_file("a", 0), data_file("a", 5)
    entries = [
        ManifestEntry(ADD, b"", 0, 1, low),
        ManifestEntry(DELETE, b"", 0, 1, low),
        ManifestEntry(ADD, b"", 0, 1, high),
    ]
    assert merge_entries(entries) == ([entries[2]], [])


@settings(max_examples=examples(25))
@given(
    steps=st.lists(st.lists(st.integers(0, 11), max_size=6), max_size=30),
    merge_count=st.integers(1, 6),
    target=st.sampled_from(["1 kb", "4 kb", "8 mb"]),
    full=st.sampled_from(["1 kb", "8 kb", "16 mb"]),
)
def test_merging_changes_nothing_of_what_is_there(steps, merge_count, target, full):
    """Each step deletes the files at these positions, if there, and adds one a bucket."""
    newest = schema(
        **{
            "manifest.merge-min-count": str(merge_count),
            "manifest.target-file-size": target,
            "manifest.full-compaction-threshold-size": full,
        }
    )
    store = open_store(f"memory://{uuid.uuid4().hex}")
    committer = Committer(store, newest, "u", ignore_empty=True)
    model: dict[str, int] = {}
    for number, positions in enumerate(steps, 1):
        gone = sorted({name for p in positions for name in list(model)[p : p + 1]})
        after = data_file(f"f{number}", 1, number, number)
        result = committer.commit(
            number, [message((), [data_file(n, 1, model[n], model[n]) for n in gone], [after])]
        )
        assert result.compact is not None
        for name in gone:
            del model[name]
        model[f"f{number}"] = number
        snapshot = committer.snapshots.latest()
        found = [e.file.file_name for e in live_files(store, snapshot)]
        assert found == list(model)
        assert snapshot.total_record_count == 5 * len(model)


def test_the_cost_of_a_commit_does_not_grow(tmp_path):
    """Bytes and files read by each twenty commits, two merges of manifests, with nothing kept in
    memory."""
    store = WrappedStore(open_store(tmp_path))
    committer = Committer(store, schema(**{"manifest.merge-min-count": "10"}), "u")
    read, files, listed = [], [], []
    for number in range(1, 61):
        new = data_file(f"f{number}")
        before = [data_file(f"c{number - 1}", 5)] if number > 1 else []
        after = data_file(f"c{number}", 5)
        result = committer.commit(number, [message([new], [new, *before], [after])])
        assert result.compact is not None
        if number % 20 == 0:
            read.append(store.bytes_read)
            files.append(len(store.reads))
            listed.append(len(data_manifests(store, result.compact)))
            store.bytes_read, store.reads = 0, []
    assert read[2] < 1.3 * read[1]
    assert files[2] < 1.3 * files[1]
    assert max(listed) <= 20


@pytest.mark.parametrize("live", [100, 2000])
def test_empty_commits_do_not_read_the_table(tmp_path, live):
    store = WrappedStore(open_store(tmp_path))
    committer = Committer(store, schema(), "u")
    committer.commit(1, [message([data_file(f"f{n}") for n in range(live)])])
    committer.commit(2, [])
    store.bytes_read = 0
    committer.commit(3, [])
    assert store.bytes_read < 20_000
