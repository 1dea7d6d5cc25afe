"""What every store does; `store` is a fixture of those that take up the tests."""

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pyarrow as pa
import pytest

from pkray.errors import MissingFileError, StorageError


class StoreContract:
    """Tests of the fixture ``store``, which is empty."""

    many = 1100
    """Files of a long list: more than a page of one."""

    def test_what_was_written_is_read(self, store):
        store.write("a/b/c", b"one")
        store.write("a/b/c", b"three")
        assert store.read("a/b/c") == b"three"
        assert store.size("a/b/c") == 5
        assert store.exists("a/b/c")
        assert not store.exists("a/b/d")

    def test_names_of_partitions_survive(self, store):
        path = "dt=a b%2Fc/né=%3D+&~/bucket-0/data.parquet"
        store.write(path, b"x")
        assert store.read(path) == b"x"
        assert [s.path for s in store.list()] == [path]
        assert store.list_dirs() == ["dt=a b%2Fc"]
        assert [s.path for s in store.list("dt=a b%2Fc")] == [path]

    def test_folders_may_be_named_as_urls_write_other_things(self, store):
        for name in ("a%2e%2e", "b?x=1", "c#d", "%2e%2e", "e%2Ff"):
            store.child(f"db/{name}").write("x", name.encode())
            assert store.read(f"db/{name}/x") == name.encode()
        assert len(store.list_dirs("db")) == 5

    @pytest.mark.parametrize("path", ["../x", "a/../../x", "a/..", "..", "a\0b"])
    def test_no_path_leads_out(self, store, path):
        calls = (store.read, store.exists, store.size, store.delete, store.child, store.open_input)
        writes = (partial(call, data=b"") for call in (store.write, store.create))
        for call in (*calls, *writes, store.open_output, lambda path: list(store.list(path))):
            with pytest.raises(StorageError, match="lead to other folders"):
                call(path)

    def test_a_missing_file_is_named(self, store):
        for read in (store.read, store.size, store.open_input):
            with pytest.raises(MissingFileError, match="no/such") as caught:
                read("no/such")
            assert caught.value.path.endswith("no/such")

    def test_create_does_not_replace(self, store):
        assert store.create("s/1", b"first")
        assert not store.create("s/1", b"second")
        assert store.read("s/1") == b"first"

    def test_one_of_many_creates(self, store):
        barrier, won = threading.Barrier(8), []

        def create(number: int) -> None:
            barrier.wait()
            for file in range(10):
                if store.create(f"s/{file}", str(number).encode() * 1000):
                    won.append((file, number))

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(create, range(8)))
        assert sorted(file for file, _ in won) == list(range(10))
        for file, number in won:
            assert store.read(f"s/{file}") == str(number).encode() * 1000

    def test_a_list_is_of_one_directory(self, store):
        for path in ("d/one", "d/two", "d/sub/three", "dd/four", "five"):
            store.write(path, path.encode())
        assert sorted(s.path for s in store.list("d")) == ["d/one", "d/sub/three", "d/two"]
        assert sorted(s.path for s in store.list("d/", recursive=False)) == ["d/one", "d/two"]
        assert {s.path: s.size for s in store.list("dd")} == {"dd/four": 7}
        assert [s.path for s in store.list("", recursive=False)] == ["five"]
        assert list(store.list("none")) == []
        assert store.list_dirs() == ["d", "dd"]
        assert store.list_dirs("d") == ["d/sub"]
        assert store.list_dirs("none") == []
        assert len(list(store.list())) == 5

    def test_a_long_list_is_whole(self, store):
        names = {f"d/{n:04}" for n in range(self.many)}
        for name in names:
            store.write(name, b"")
        assert {s.path for s in store.list("d")} == names

    def test_times_are_epoch_milliseconds(self, store):
        store.write("a", b"")
        (status,) = store.list()
        assert 1_700_000_000_000 < status.modified_millis < 4_000_000_000_000

    def test_a_file_that_is_written_again_has_another_mark(self, store):
        marks = []
        for data in (b"one", b"two"):
            store.write("a", data)
            marks += [status.mark for status in (*store.list(), *store.list())]
        assert marks[0] == marks[1] != marks[2] == marks[3]

    def test_delete_passes_over_what_is_absent(self, store):
        for path in ("a", "b", "c"):
            store.write(path, b"x")
        store.delete(["a", "nothing", "b"])
        store.delete("nothing")
        assert [s.path for s in store.list()] == ["c"]

    def test_output_appears_when_closed(self, store):
        with store.open_output("d/file") as output:
            output.write(b"abc")
            output.sink.write(b"def")
            assert output.tell() == 6
            assert not store.exists("d/file")
        assert store.read("d/file") == b"abcdef"

    def test_large_output_is_whole(self, store):
        block = bytes(range(256)) * 4096
        with store.open_output("big") as output:
            for _ in range(20):
                output.sink.write(pa.py_buffer(block))
        assert store.size("big") == 20 << 20
        assert store.read("big") == block * 20

    def test_output_left_by_an_exception_leaves_nothing(self, store):
        store.write("d/file", b"old")

        def fail() -> None:
            with store.open_output("d/file") as output:
                output.write(b"new" * 10_000_000)
                raise ValueError("stop")

        with pytest.raises(ValueError, match="stop"):
            fail()
        assert store.read("d/file") == b"old"
        assert [s.path for s in store.list(hidden=True)] == ["d/file"]

    def test_input_is_read_anywhere(self, store):
        data = bytes(range(256)) * 1000
        store.write("f", data)
        with store.open_input("f") as file:
            assert file.size() == len(data)
            file.seek(255_990)
            assert file.read(100) == data[255_990:]
            file.seek(1000)
            assert file.read(200_000) == data[1000:201_000]
            assert file.read_at(10, 3) == data[3:13]
            assert file.read_at(500, len(data) - 10) == data[-10:]

    def test_an_empty_file_is_read(self, store):
        store.write("f", b"")
        with store.open_input("f") as file:
            assert file.size() == 0
            assert file.read() == b""

    def test_a_child_is_a_directory(self, store):
        child = store.child("db.db/t")
        child.write("x/y", b"1")
        assert store.read("db.db/t/x/y") == b"1"
        assert [s.path for s in child.list()] == ["x/y"]
        assert child.location("x") == f"{store.url}/db.db/t/x"

    def test_a_store_pickles(self, store):
        again = pickle.loads(pickle.dumps(store))
        store.write("a", b"1")
        assert again == store
        assert hash(again) == hash(store)
        assert again.read("a") == b"1"
        assert (again.local_path("a") is None) == (store.local_path("a") is None)
