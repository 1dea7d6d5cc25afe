"""A copy of a table reads as the table did, and takes nothing."""

import pickle

import pytest

from pkray.backup.table_files import TableCopy, is_small
from pkray.errors import MissingFileError, UnsupportedError
from pkray.storage.local import LocalStore


@pytest.fixture
def copy(tmp_path):
    shared = LocalStore(str(tmp_path))
    shared.write("bucket-0/data-1.parquet", b"rows")
    shared.write("snapshot/snapshot-1", b"replaced since")
    shared.write("snapshot/LATEST", b"1")
    shared.write("branch/branch-b/snapshot/snapshot-9", b"made since")
    small = {
        "snapshot/snapshot-1": b"one",
        "schema/schema-0": b"{}",
        "branch/branch-b/schema/schema-0": b"{b}",
    }
    return TableCopy(small, shared, "copy")


def test_small_files_are_those_of_the_copy(copy):
    assert copy.read("snapshot/snapshot-1") == b"one"
    assert copy.size("schema/schema-0") == 2
    assert copy.open_input("snapshot/snapshot-1").read() == b"one"
    assert not copy.exists("snapshot/snapshot-2")
    with pytest.raises(MissingFileError):
        copy.read("branch/branch-b/snapshot/snapshot-9")


def test_other_files_are_the_shared_ones(copy):
    assert copy.read("bucket-0/data-1.parquet") == b"rows"
    assert copy.exists("bucket-0/data-1.parquet")


def test_lists_have_each_file_once(copy):
    assert sorted(each.path for each in copy.list()) == [
        "branch/branch-b/schema/schema-0",
        "bucket-0/data-1.parquet",
        "schema/schema-0",
        "snapshot/LATEST",
        "snapshot/snapshot-1",
    ]
    assert [each.path for each in copy.list("schema", recursive=False)] == ["schema/schema-0"]


def test_a_branch_is_a_copy_of_its_own(copy):
    (folder,) = copy.list_dirs("branch")
    branch = copy.child(folder)
    assert branch.read("schema/schema-0") == b"{b}"
    assert [each.path for each in branch.list()] == ["schema/schema-0"]
    assert pickle.loads(pickle.dumps(branch)).read("schema/schema-0") == b"{b}"


def test_nothing_is_written(copy):
    for call in (
        lambda: copy.write("a", b""),
        lambda: copy.create("a", b""),
        lambda: copy.delete("schema/schema-0"),
        lambda: copy.open_output("a"),
    ):
        with pytest.raises(UnsupportedError, match="only read"):
            call()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("snapshot/snapshot-3", True),
        ("branch/branch-b/tag/tag-x", True),
        ("consumer/consumer-job", True),
        ("changelog/changelog-4", True),
        ("snapshot/LATEST", False),
        ("snapshot/EXPIRING", False),
        ("writer/writer-0a", False),
        ("manifest/manifest-1", False),
        ("dt=snapshot/bucket-0/data-1.parquet", False),
    ],
)
def test_files_that_come_again_under_their_names_are_small(path, expected):
    assert is_small(path) is expected
