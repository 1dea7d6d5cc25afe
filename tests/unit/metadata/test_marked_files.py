import uuid

import pytest

from pkray.metadata.marked_files import read_marked, was_read
from pkray.storage.opening import open_store
from tests.counted_requests import RequestCounter


@pytest.fixture
def remote():
    return open_store(f"memory://{uuid.uuid4().hex}")


def mark_of(store, path):
    return next(each.mark for each in store.list() if each.path == path)


def test_a_file_with_the_mark_that_it_was_read_with_is_not_read_again(remote):
    remote.write("a", b"1")
    read_marked(remote, "a")
    mark = mark_of(remote, "a")
    counter = RequestCounter()
    with counter.installed(), counter.counting() as counted:
        assert read_marked(remote, "a", mark) == b"1"
    assert counted.sent == []


def test_a_file_that_was_written_again_is_read_again(remote):
    remote.write("a", b"1")
    read_marked(remote, "a")
    remote.write("a", b"2")
    assert read_marked(remote, "a", mark_of(remote, "a")) == b"2"


def test_a_file_is_known_once_it_was_read(remote):
    remote.write("a", b"1")
    assert not was_read(remote, "a")
    read_marked(remote, "a")
    assert was_read(remote, "a")


def test_files_of_a_disk_are_read_each_time(store):
    store.write("a", b"1")
    read_marked(store, "a")
    assert not was_read(store, "a")
