"""What a query writes down, where a run of it sleeps while another takes over."""

import pytest

from pkray.errors import QueryDivergedError, QueryFencedError
from pkray.relational.continuous.log.log import Checkpoint, EpochRecord
from pkray.relational.continuous.log.stored_log import StoredLog
from pkray.storage.object_store import ObjectStore


def opened(store: ObjectStore, run: str) -> StoredLog:
    log = StoredLog(store, run, incarnation="i", prefix="i-")
    log.take_over()
    return log


def record(number: int, after: int, until: int) -> EpochRecord:
    return EpochRecord(number, {"t": (after, until)}, 0)


def checkpoint(epoch: int) -> Checkpoint:
    return Checkpoint(epoch, {"t": epoch}, {}, "", {})


@pytest.fixture
def sleeper(store: ObjectStore) -> StoredLog:
    """A run that slept after epoch 0, while another ran up to epoch 9, a checkpoint each."""
    sleeper = opened(store, "sleeper")
    sleeper.begin(record(0, -1, 0))
    sleeper.write_checkpoint(checkpoint(0))
    newer = opened(store, "newer")
    for number in range(1, 10):
        newer.begin(record(number, number - 1, number))
        newer.write_checkpoint(checkpoint(number))
    assert not store.exists("epochs/epoch-i-1")
    return sleeper


def test_one_that_slept_through_many_checkpoints_begins_no_epoch(store, sleeper):
    with pytest.raises(QueryFencedError, match="took over"):
        sleeper.begin(record(1, 0, 9))
    newest = opened(store, "next").newest_checkpoint()
    assert newest is not None
    assert newest.epoch == 9


def test_one_that_slept_through_many_checkpoints_writes_none(store, sleeper):
    before = {each.path for each in store.list("checkpoints/")}
    with pytest.raises(QueryFencedError, match="took over"):
        sleeper.write_checkpoint(checkpoint(1))
    assert {each.path for each in store.list("checkpoints/")} == before


def test_one_that_slept_through_many_checkpoints_sees_it(sleeper):
    with pytest.raises(QueryFencedError, match="took over"):
        sleeper.check_not_followed()


def test_two_runs_before_the_next_checkpoint_run_the_same_epochs(store):
    sleeper = opened(store, "sleeper")
    sleeper.begin(record(0, -1, 0))
    newer = opened(store, "newer")
    begun = sleeper.begin(record(1, 0, 3))
    assert newer.begin(record(1, 0, 5)).bounds == begun.bounds
    assert [each.bounds for each in newer.epochs_from(1)] == [begun.bounds]


def test_checkpoints_that_somebody_deleted_stop_the_run_with_a_reason(store):
    log = opened(store, "only")
    store.delete([each.path for each in store.list("checkpoints/")])
    for call in (log.check_not_followed, lambda: log.begin(record(0, -1, 0))):
        with pytest.raises(QueryDivergedError, match="files of the query were deleted"):
            call()


def test_a_savepoint_of_an_incarnation_whose_files_are_being_deleted_is_not_made(
    store, monkeypatch
):
    older = StoredLog(store, "older", incarnation="h", prefix="h-")
    older.take_over()
    older.begin(record(0, -1, 0))
    older.write_checkpoint(checkpoint(0))
    saved, listed = older.newest_checkpoint(), StoredLog.savepoints
    refused: list[QueryFencedError] = []
    assert saved is not None

    def made_once_they_are_listed(self: StoredLog) -> dict[str, Checkpoint]:
        found = listed(self)
        try:
            older.name_newest(saved, "s", "held")
        except QueryFencedError as error:
            refused.append(error)
        return found

    monkeypatch.setattr(StoredLog, "savepoints", made_once_they_are_listed)
    opened(store, "newer")
    monkeypatch.undo()
    assert refused
    assert older.savepoints() == {}
