"""What every store does: local disk, memory, and S3 (moto's server)."""

from __future__ import annotations

import pickle
import threading
import uuid

import pyarrow as pa
import pytest

from pkray.errors import MissingFileError, OptionError, StorageError, UnsupportedError
from pkray.storage.object_store import ObjectStore


@pytest.fixture(scope="session")
def s3_options():
    boto3 = pytest.importorskip("boto3")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {
        "endpoint": f"http://{host}:{port}",
        "region": "us-east-1",
        "access_key_id": "k",
        "secret_access_key": "s",
    }
    client = boto3.client(
        "s3",
        endpoint_url=options["endpoint"],
        region_name="us-east-1",
        aws_access_key_id="k",
        aws_secret_access_key="s",
    )
    client.create_bucket(Bucket="lake")
    yield options
    server.stop()


@pytest.fixture(params=["local", "memory", "s3"])
def store(request, tmp_path):
    if request.param == "local":
        return ObjectStore.open(tmp_path / "root")
    if request.param == "memory":
        return ObjectStore.open(f"memory://{uuid.uuid4().hex}/a/b")
    options = request.getfixturevalue("s3_options")
    return ObjectStore.open(f"s3://lake/{uuid.uuid4().hex}/t", **options)


def test_what_was_written_is_read(store):
    store.write("a/b/c", b"one")
    store.write("a/b/c", b"three")
    assert store.read("a/b/c") == b"three"
    assert store.size("a/b/c") == 5
    assert store.exists("a/b/c")
    assert not store.exists("a/b")
    assert not store.exists("a/b/d")


def test_names_of_partitions_survive(store):
    path = "dt=a b%2Fc/né=%3D+&~/bucket-0/data.parquet"
    store.write(path, b"x")
    assert store.read(path) == b"x"
    assert [s.path for s in store.list()] == [path]
    assert store.list_dirs() == ["dt=a b%2Fc"]
    assert [s.path for s in store.list("dt=a b%2Fc")] == [path]


def test_a_missing_file_is_named(store):
    for read in (store.read, store.size, store.open_input):
        with pytest.raises(MissingFileError, match="no/such") as caught:
            read("no/such")
        assert caught.value.path.endswith("no/such")


def test_create_does_not_replace(store):
    assert store.create("s/1", b"first")
    assert not store.create("s/1", b"second")
    assert store.read("s/1") == b"first"


def test_one_of_many_creates(store):
    barrier, won = threading.Barrier(8), []

    def create(number: int) -> None:
        barrier.wait()
        for file in range(10):
            if store.create(f"s/{file}", str(number).encode() * 1000):
                won.append((file, number))

    threads = [threading.Thread(target=create, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(file for file, _ in won) == list(range(10))
    for file, number in won:
        assert store.read(f"s/{file}") == str(number).encode() * 1000


def test_a_list_is_of_one_directory(store):
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


def test_a_long_list_is_whole(store):
    names = {f"d/{n:04}" for n in range(1100 if "lake" not in store.url else 30)}
    for name in names:
        store.write(name, b"")
    assert {s.path for s in store.list("d")} == names


def test_times_are_epoch_milliseconds(store):
    store.write("a", b"")
    (status,) = store.list()
    assert 1_700_000_000_000 < status.modified_millis < 4_000_000_000_000


def test_delete_passes_over_what_is_absent(store):
    for path in ("a", "b", "c"):
        store.write(path, b"x")
    store.delete(["a", "nothing", "b"])
    store.delete("nothing")
    assert [s.path for s in store.list()] == ["c"]


def test_output_appears_when_closed(store):
    with store.open_output("d/file") as output:
        output.write(b"abc")
        output.sink.write(b"def")
        assert output.tell() == 6
        assert not store.exists("d/file")
    assert store.read("d/file") == b"abcdef"


def test_large_output_is_whole(store):
    block = bytes(range(256)) * 4096
    with store.open_output("big") as output:
        for _ in range(20):
            output.sink.write(pa.py_buffer(block))
    assert store.size("big") == 20 << 20
    assert store.read("big") == block * 20


def test_output_left_by_an_exception_leaves_nothing(store):
    store.write("d/file", b"old")

    def fail() -> None:
        with store.open_output("d/file") as output:
            output.write(b"new" * 10_000_000)
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fail()
    assert store.read("d/file") == b"old"
    assert [s.path for s in store.list(hidden=True)] == ["d/file"]


def test_input_is_read_anywhere(store):
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


def test_an_empty_file_is_read(store):
    store.write("f", b"")
    with store.open_input("f") as file:
        assert file.size() == 0
        assert file.read() == b""


def test_a_child_is_a_directory(store):
    child = store.child("db.db/t")
    child.write("x/y", b"1")
    assert store.read("db.db/t/x/y") == b"1"
    assert [s.path for s in child.list()] == ["x/y"]
    assert child.location("x") == f"{store.url}/db.db/t/x"


def test_a_store_pickles(store):
    again = pickle.loads(pickle.dumps(store))
    store.write("a", b"1")
    assert again == store
    assert hash(again) == hash(store)
    assert again.read("a") == b"1"
    assert (again.local_path("a") is None) == (store.local_path("a") is None)


def test_printing_a_store_tells_no_secret(s3_options):
    store = ObjectStore.open("s3://lake/x", **s3_options | {"secret_access_key": "hush"})
    assert "hush" not in repr(store)
    with pytest.raises(StorageError) as caught:
        ObjectStore.open("s3://nowhere-at-all/x", **s3_options).write("a", b"")
    assert "hush" not in str(caught.value)


def test_s3_options_come_from_the_environment(s3_options, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_options["endpoint"])
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    store = ObjectStore.open("s3://lake/from-environment")
    assert store.create("a", b"1")
    assert not store.create("a", b"2")


def test_an_unknown_storage_option_is_refused():
    with pytest.raises(OptionError, match="acces_key"):
        ObjectStore.open("s3://lake/x", acces_key="k")
    with pytest.raises(OptionError, match="only object stores"):
        ObjectStore.open("/some/where", region="us-east-1")


def test_an_unknown_scheme_is_refused():
    with pytest.raises(UnsupportedError, match="hdfs"):
        ObjectStore.open("hdfs://host/x")
