"""Work that is done again and again while its object lives."""

import gc
import threading
import time

from pkray.service.timing.pulse import Pulse


class Worker:
    def __init__(self):
        self.beats = 0
        self.goes_on = True
        self.pulse = Pulse(self.beat, 0.01, "worker")

    def beat(self):
        self.beats += 1
        if self.beats == 2:
            raise ValueError("once")
        return self.goes_on


def wait_until(condition):
    end = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def threads():
    return [each for each in threading.enumerate() if each.name == "worker"]


def test_it_goes_on_though_it_fails_once():
    worker = Worker()
    worker.pulse.start()
    worker.pulse.start()
    wait_until(lambda: worker.beats > 3)
    assert len(threads()) == 1
    worker.pulse.stop()
    wait_until(lambda: not threads())


def test_it_ends_when_there_is_no_need_and_begins_again():
    worker = Worker()
    worker.goes_on = False
    worker.pulse.start()
    wait_until(lambda: worker.beats == 1 and not threads())
    worker.beats, worker.goes_on = 5, True
    worker.pulse.start()
    wait_until(lambda: worker.beats > 6)
    worker.pulse.stop()


def test_it_ends_with_its_object_and_does_not_keep_the_process():
    worker = Worker()
    worker.pulse.start()
    assert all(each.daemon for each in threads())
    del worker
    gc.collect()
    wait_until(lambda: not threads())


def test_nothing_begins_once_it_is_stopped():
    worker = Worker()
    worker.pulse.stop()
    worker.pulse.start()
    assert not threads()
