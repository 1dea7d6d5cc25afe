import errno
import os
import pickle

import pyarrow as pa
import pytest

from pkray.errors import CorruptFileError, StorageError, StorageFullError
from pkray.options import TableOptions
from pkray.storage import local
from pkray.storage.opening import open_store
from pkray.storage.parquet import ParquetWriter


def test_urls_and_paths_name_the_same_store(tmp_path):
    (tmp_path / "a b").mkdir()
    by_path = open_store(f"{tmp_path}/a b")
    assert open_store(f"file://{tmp_path}/a%20b") == by_path
    assert by_path.local_path("x/y") == f"{tmp_path}/a b/x/y"


def test_a_full_disk_is_said(tmp_path, monkeypatch):
    store = open_store(tmp_path)

    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(local.os, "link", full)
    with pytest.raises(StorageFullError, match="free space") as caught:
        store.create("snapshot/snapshot-1", b"{}")
    assert caught.value.errno == errno.ENOSPC
    assert list(store.list(hidden=True)) == []


def test_a_real_full_disk_is_said():
    store = open_store("/dev")
    if not os.path.exists("/dev/full"):  # noqa: PTH110
        pytest.skip("no /dev/full")
    with pytest.raises(OSError, match="28") as caught, open("/dev/full", "wb") as file:  # noqa: PTH123
        file.write(b"x" * 100_000)
    assert isinstance(
        local.explain(caught.value, "write", store.location("full")), StorageFullError
    )


def test_a_file_system_without_hard_links_is_said(tmp_path, monkeypatch):
    def refuse(*args):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(local.os, "link", refuse)
    with pytest.raises(StorageError, match="hard links"):
        open_store(tmp_path).create("a", b"")


def test_a_file_where_a_directory_should_be(tmp_path):
    store = open_store(tmp_path)
    store.write("a", b"")
    assert not store.exists("a/b")
    assert list(store.list("a/b")) == []
    with pytest.raises(StorageError, match="a/b"):
        store.write("a/b", b"")


def test_a_disk_that_fails_before_a_file_is_whole_leaves_nothing(tmp_path, monkeypatch):
    def fail(*args, **how):
        raise OSError(errno.EIO, "Input/output error")

    store = open_store(tmp_path)
    rows = pa.table({"a": [1, 2]})
    monkeypatch.setattr(local, "open", fail, raising=False)
    writer = ParquetWriter(store, "f.parquet", rows.schema, TableOptions.parse({}))
    writer.write(rows)
    with pytest.raises(StorageError, match=r"f\.parquet.*Input/output"):
        writer.close()
    assert list(store.list(hidden=True)) == []


def test_a_directory_where_a_file_should_be_is_named(tmp_path):
    store = open_store(tmp_path)
    (tmp_path / "snapshot/snapshot-1").mkdir(parents=True)
    for call in (
        store.exists,
        store.read,
        store.delete,
        store.open_input,
        lambda path: store.create(path, b""),
        lambda path: store.write(path, b""),
    ):
        with pytest.raises(CorruptFileError, match="snapshot-1' is a directory"):
            call("snapshot/snapshot-1")


def test_a_file_where_a_listed_directory_should_be_is_named(tmp_path):
    store = open_store(tmp_path)
    store.write("snapshot", b"")
    for listed in (store.list_dirs, lambda path: list(store.list(path))):
        with pytest.raises(CorruptFileError, match="snapshot' is a file where a directory"):
            listed("snapshot")


@pytest.fixture
def outside(tmp_path):
    """A folder with a file, to which a link in the table's folder leads."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "data").write_bytes(b"kept")
    (tmp_path / "table").mkdir()
    (tmp_path / "table/link").symlink_to(folder)
    return folder


def test_links_to_directories_are_not_walked(tmp_path, outside):
    store = open_store(tmp_path / "table")
    assert list(store.list(hidden=True)) == []
    assert store.read("link/data") == b"kept"


def test_nothing_is_deleted_through_a_link_that_leads_out(tmp_path, outside):
    store = open_store(tmp_path / "table")
    for each in (store, pickle.loads(pickle.dumps(store.child("link")))):
        path = "link/data" if each is store else "data"
        with pytest.raises(StorageError, match="a link leads from there"):
            each.delete(path)
    assert (outside / "data").read_bytes() == b"kept"


def test_of_a_link_to_a_file_the_link_alone_is_deleted(tmp_path, outside):
    (tmp_path / "table/file").symlink_to(outside / "data")
    open_store(tmp_path / "table").delete("file")
    assert (outside / "data").read_bytes() == b"kept"
    assert not (tmp_path / "table/file").is_symlink()


def test_the_root_itself_may_be_a_link(tmp_path, outside):
    store = open_store(tmp_path / "table/link")
    store.delete("data")
    assert list(outside.iterdir()) == []
