"""How many requests, in how many rounds, an object store is asked for what users do."""

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from pkray.errors import StorageError
from pkray.storage.opening import open_store
from tests import object_store_operations as operations
from tests.counted_requests import Counted, RequestCounter

MOST = {
    "connect and load a table": (2, 1),
    "open a writer, 1 buckets": (10, 6),
    "open a writer, 16 buckets": (10, 6),
    "commit of 1,000 rows, 1 buckets": (15, 6),
    "commit of 1,000 rows, 16 buckets": (31, 7),
    "empty commit, 1 buckets": (13, 5),
    "empty commit, 16 buckets": (14, 5),
    "first key in a fresh process": (16, 7),
    "first 1,000 random keys": (34, 14),
    "lookup by key, committed, warm": (2, 1),
    "lookup by key, within a staleness": (0, 0),
    "first key in a fresh process, within a staleness": (14, 6),
    "read by key equality": (13, 6),
    "first key in pages": (16, 7),
    "first 16 keys in pages": (34, 7),
    "scan of 16 buckets": (25, 7),
    "scan of 16 buckets, batch by batch": (25, 7),
    "snapshots(), again": (56, 5),
    "expire 47 snapshots": (214, 27),
    "a query begins on 500 rows": (89, 52),
    "upsert of 500 rows and the epoch of a GROUP BY": (65, 25),
    "a step that finds nothing new": (2, 1),
}
"""Requests and rounds; what needs fewer lowers them. A little more where owners that work at a time
may both read what one of them would have found in memory."""


@pytest.fixture(scope="module")
def taken() -> dict[str, Counted]:
    counter = RequestCounter()
    with counter.installed():
        return operations.everything(counter)


@pytest.mark.parametrize("operation", MOST)
def test_an_operation_takes_no_more_requests_and_rounds(
    operation: str, taken: dict[str, Counted]
) -> None:
    counted = taken[operation]
    requests, rounds = MOST[operation]
    assert counted.requests <= requests, str(counted)
    assert counted.rounds <= rounds, str(counted)


def test_every_operation_has_its_bound(taken: dict[str, Counted]) -> None:
    assert taken.keys() == MOST.keys()


def test_requests_of_jobs_that_run_together_are_one_round() -> None:
    counter = RequestCounter()
    store = open_store(f"memory://{uuid.uuid4().hex}")
    with counter.installed(), counter.counting() as counted:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda name: store.write(name, b""), "abcd"))
        store.read("a")
    assert [each.round for each in counted.sent] == [1, 1, 1, 1, 2]
    assert counted.rounds == 2


def test_jobs_that_wait_for_a_thread_take_a_round_more() -> None:
    counter = RequestCounter()
    store = open_store(f"memory://{uuid.uuid4().hex}")
    with counter.installed(), counter.counting() as counted, ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda name: store.write(name, b""), "abcd"))
    assert sorted(each.round for each in counted.sent) == [1, 1, 2, 2]


def test_requests_fail_as_they_are_told_to() -> None:
    failure = StorageError("it is planned")
    counter = RequestCounter(plan=lambda doing, location: failure if doing == "write" else None)
    store = open_store(f"memory://{uuid.uuid4().hex}")
    with counter.installed(), pytest.raises(StorageError, match="planned"):
        store.write("a", b"")
    assert not store.exists("a")
