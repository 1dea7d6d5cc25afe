"""Storage that does not answer any more, under owners in this process."""

import threading
import time

import pytest

import pkray
import pkray.storage.location
import pkray.table.catalog
from pkray.errors import ServiceUnavailableError
from pkray.storage.opening import open_store
from tests.delegating_store import DelegatingStore


class HangingStore(DelegatingStore):
    """Answers nothing while it hangs."""

    def __init__(self, inner, answers: threading.Event):
        super().__init__(inner)
        self._answers = answers

    def child(self, prefix):
        return HangingStore(self.inner.child(prefix), self._answers)

    def __getattribute__(self, name):
        if name in {"read", "exists", "create", "list", "fingerprint", "open_input", "open_output"}:
            object.__getattribute__(self, "_answers").wait()
        return super().__getattribute__(name)


@pytest.fixture
def answers():
    """Set while the storage answers."""
    event = threading.Event()
    event.set()
    yield event
    event.set()


@pytest.fixture
def table(tmp_path, monkeypatch, answers):
    def open_hanging(url, **options):
        return HangingStore(open_store(url, **options), answers)

    for opener in (pkray.table.catalog, pkray.storage.location):
        monkeypatch.setattr(opener, "open_store", open_hanging)
    limits = {"call_timeout": 1, "lookup_timeout": 1, "local_directory": tmp_path / "local"}
    with pkray.connect(tmp_path / "warehouse", runtime_options=limits) as catalog:
        catalog.create_table("db.idle", [("id", "BIGINT")], ["id"])
        table = catalog.create_table("db.t", [("id", "BIGINT"), ("v", "BIGINT")], ["id"])
        table.upsert([{"id": 1, "v": 1}], commit_identifier=1)
        table.idle = catalog.load_table("db.idle")
        yield table
        answers.set()


@pytest.mark.parametrize("visibility", ["latest", "committed"])
def test_a_lookup_is_given_up(table, answers, visibility):
    answers.clear()
    with pytest.raises(ServiceUnavailableError, match=r"owner 0 of table db\.t.* within 1 s"):
        table.lookup([{"id": 1}], visibility=visibility)
    answers.set()
    assert table.lookup([{"id": 1}], visibility=visibility).to_pylist() == [{"id": 1, "v": 1}]


@pytest.fixture
def unread(table):
    """The table again, as a process has it that has read no file of it yet."""
    warehouse = table.location.url.rpartition("/db.db/")[0]
    options = {"call_timeout": 1, "lookup_timeout": 1}
    with pkray.connect(warehouse, runtime_options=options) as catalog:
        yield catalog.load_table("db.t")


def test_a_lookup_that_takes_longer_than_the_limit_and_gets_on_is_not_cut(unread, monkeypatch):
    open_input = HangingStore.open_input

    def slowly(self, path):
        for _ in range(20):
            time.sleep(0.1)
        return open_input(self, path)

    monkeypatch.setattr(HangingStore, "open_input", slowly)
    assert unread.lookup([{"id": 1}], visibility="committed").to_pylist() == [{"id": 1, "v": 1}]


def test_a_lookup_is_given_up_though_others_get_on(unread, monkeypatch):
    open_input, goes_on, ended = HangingStore.open_input, threading.Event(), threading.Event()

    def stuck(self, path):
        assert goes_on.wait(200)
        return open_input(self, path)

    def ask():
        while not ended.is_set():
            unread.lookup([{"id": 7}], visibility="committed")  # in the range of no file

    monkeypatch.setattr(HangingStore, "open_input", stuck)
    asking = threading.Thread(target=ask)
    asking.start()
    try:
        with pytest.raises(ServiceUnavailableError, match="without progress"):
            unread.lookup([{"id": 1}], visibility="committed")
    finally:
        goes_on.set()
        ended.set()
        asking.join()


def test_a_commit_is_given_up_and_happens_once_when_it_is_repeated(table, answers):
    with table.open_writer("job") as writer:
        writer.upsert([{"id": 1, "v": 2}])
        answers.clear()
        with pytest.raises(ServiceUnavailableError, match=r"of table db\.t .* without progress"):
            writer.commit(7)
        answers.set()
        writer.commit(7)
    assert table.to_arrow().to_pylist() == [{"id": 1, "v": 2}]
    committed = [s for s in table.snapshots().to_pylist() if s["commit_user"] == "job"]
    assert [s["commit_identifier"] for s in committed if s["commit_kind"] == "APPEND"] == [7]


def test_a_commit_that_takes_longer_than_the_limit_and_gets_on_is_not_cut(table, monkeypatch):
    create = HangingStore.create

    def slowly(self, path, data):
        if "snapshot-" in path:
            for _ in range(16):
                time.sleep(0.1)
        return create(self, path, data)

    monkeypatch.setattr(HangingStore, "create", slowly)
    table.upsert([{"id": 1, "v": 2}], commit_user="job", commit_identifier=7)
    assert table.to_arrow().to_pylist() == [{"id": 1, "v": 2}]


def test_a_service_that_cannot_start_is_given_up(table, answers):
    answers.clear()
    with pytest.raises(ServiceUnavailableError, match=r"the service of table db\.idle"):
        table.idle.open_writer()


def test_a_dedicated_compaction_is_given_up(table, monkeypatch):
    ended = threading.Event()
    monkeypatch.setattr("pkray.service.dedicated_compaction.run_task", lambda _: ended.wait(200))
    with pytest.raises(ServiceUnavailableError, match=r"compactions .* no progress"):
        table.compact_dedicated(full=True)
    ended.set()


@pytest.mark.parametrize("key", ["call_timeout", "lookup_timeout"])
@pytest.mark.parametrize("seconds", [0, True, "60", float("nan")])
def test_a_limit_is_a_number_of_seconds(tmp_path, key, seconds):
    with pytest.raises(pkray.OptionError, match=key):
        pkray.connect(tmp_path, runtime_options={key: seconds})
