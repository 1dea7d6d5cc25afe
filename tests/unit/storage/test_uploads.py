import threading
import uuid

import pytest

import pkray
from pkray.errors import StorageError
from pkray.storage import uploads
from pkray.storage.opening import open_store
from tests.counted_requests import RequestCounter


@pytest.fixture
def remote():
    return open_store(f"memory://{uuid.uuid4().hex}")


def write(store, path, data=b"data"):
    output = store.open_output(path)
    output.write(data)
    output.close()


def test_files_of_a_block_go_out_in_one_round(remote):
    counter = RequestCounter()
    with counter.installed(), counter.counting() as counted:
        with uploads.side_by_side():
            for name in "abc":
                write(remote, name)
    assert [each.round for each in counted.sent] == [1, 1, 1]
    assert [remote.read(name) for name in "abc"] == [b"data"] * 3


def test_a_file_that_is_not_written_is_said_at_the_end_of_the_block(remote):
    failure = StorageError("it is planned")
    fails = lambda doing, location: failure if location.endswith("/a") else None  # noqa: E731
    with RequestCounter(plan=fails).installed(), pytest.raises(StorageError, match="planned"):
        with uploads.side_by_side() as sent:
            write(remote, "a")
            write(remote, "b")
    assert [each.location for each in sent.unsent] == [remote.location("a")]
    assert not remote.exists("a")
    assert remote.read("b") == b"data"


def test_another_failure_in_the_block_waits_for_the_files(remote):
    with pytest.raises(ValueError, match="other"), uploads.side_by_side():
        write(remote, "a")
        raise ValueError("another")
    assert remote.read("a") == b"data"


def test_who_reads_a_file_that_is_under_way_waits_for_it(remote, monkeypatch):
    is_asked, goes_on = threading.Event(), threading.Event()
    send = remote._requests.send

    def slow(doing, location, call, **kwargs):
        if doing == "write":
            is_asked.set()
            assert goes_on.wait(60)
        return send(doing, location, call, **kwargs)

    monkeypatch.setattr(remote._requests, "send", slow)
    with uploads.side_by_side():
        write(remote, "a")
        assert is_asked.wait(60)
        threading.Timer(0.05, goes_on.set).start()
        assert remote.read("a") == b"data"


def test_more_bytes_than_may_be_under_way_wait_for_each_other(remote, monkeypatch):
    monkeypatch.setattr(uploads, "MOST_BYTES", 8)
    counter = RequestCounter()
    with counter.installed(), counter.counting() as counted:
        with uploads.side_by_side():
            for name in "abcd":
                write(remote, name)
    assert max(each.round for each in counted.sent) > 1


def test_rows_whose_file_was_not_written_are_committed_the_next_time():
    failures = [StorageError("it is planned")]

    def fails(doing, location):
        return failures.pop() if doing == "write" and "/data-" in location and failures else None

    with (
        RequestCounter(plan=fails).installed(),
        pkray.connect(f"memory://{uuid.uuid4().hex}", runtime_options={"owners": 1}) as catalog,
    ):
        columns, options = [("k", "BIGINT")], {"bucket": "4"}
        table = catalog.create_table("db.t", columns, ["k"], options=options)
        with table.open_writer("job") as writer:
            writer.upsert([{"k": number} for number in range(20)])
            with pytest.raises(StorageError, match="planned"):
                writer.commit(1)
            writer.commit(1)
        assert sorted(table.to_arrow()["k"].to_pylist()) == list(range(20))
