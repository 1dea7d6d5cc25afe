"""Epochs into a spool, once."""

import time
from collections import deque

import pyarrow as pa
import pytest

from pkray.relational.continuous.outlets.outlets import EPOCH
from pkray.relational.continuous.queries import stream
from pkray.relational.continuous.queries.stream import Pump
from pkray.storage.opening import open_store
from pkray.storage.spool import Spool


@pytest.fixture
def spool(tmp_path) -> Spool:
    return Spool(open_store(tmp_path))


def pumped(spool: Spool, *epochs: int, **arguments) -> Pump:
    waiting = deque(pa.record_batch({EPOCH: [each], "a": [each * 10]}) for each in epochs)

    def poll() -> pa.RecordBatch | None:
        return waiting.popleft() if waiting else None

    return Pump(spool, poll, lambda: not waiting, **arguments)


def values(spool: Spool) -> list[int]:
    batches = (spool.batch(number) for number in range(spool.count()))
    rows = (rows for batch in batches for rows in spool.read(batch))
    return [value for each in rows for value in each.column("a").to_pylist()]


def test_epochs_that_come_again_are_written_once(spool):
    pumped(spool, 0, 2).run()
    pumped(Spool(spool.store), 2, 3).run()
    assert values(spool) == [0, 20, 30]
    assert spool.feeder().state == "ended"


def test_epochs_wait_until_some_are_read(spool):
    made = pumped(spool, *range(30))
    made.start()
    deadline = time.monotonic() + 120
    reader = Spool(spool.store)
    while reader.count() < 9 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.15)
    assert reader.count() == stream._AHEAD + 1
    while reader.feeder().state == "running" and time.monotonic() < deadline:
        reader.delete_below(reader.count())
        time.sleep(0.01)
    made.stop()
    assert reader.count() == 30


def test_what_ends_now_waits_for_nobody(spool):
    pumped(spool, *range(30), runs_ahead=True).run()
    assert spool.count() == 30


def test_an_error_is_told(spool):
    def broken() -> None:
        raise ValueError("no such row")

    made = Pump(spool, broken, lambda: False)
    with pytest.raises(ValueError, match="no such row"):
        made.run()
    assert (spool.feeder().state, spool.feeder().message) == ("failed", "no such row")


def test_it_is_stopped(spool):
    made = Pump(spool, lambda: None, lambda: False)
    made.start()
    made.stop()
    assert spool.feeder().state == "stopped"
