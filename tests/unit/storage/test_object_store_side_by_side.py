import uuid

from pkray.storage.branch_store import BranchStore
from pkray.storage.object_store import each
from pkray.storage.opening import open_store
from tests.counted_requests import RequestCounter
from tests.delegating_store import DelegatingStore


class ShyStore(DelegatingStore):
    parallel_requests = 2


def test_as_many_requests_as_the_store_takes_are_under_way():
    store = BranchStore(ShyStore(open_store(f"memory://{uuid.uuid4().hex}")), "b")
    for name in "abcd":
        store.write(name, b"")
    counter = RequestCounter()
    with counter.installed(), counter.counting() as counted:
        each(store, store.read, "abcd")
    assert sorted(request.round for request in counted.sent) == [1, 1, 2, 2]
