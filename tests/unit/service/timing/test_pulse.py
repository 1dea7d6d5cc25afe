"""Work that is done again and again while its object lives."""

import gc
import itertools
import threading

from pkray.service.timing.pulse import Pulse
from tests.waiting import wait_until

NUMBERS = itertools.count()


class Worker:
    def __init__(self):
        self.beats = 0
        self.goes_on = True
        self.name = f"worker-{next(NUMBERS)}"
        self.pulse = Pulse(self.beat, 0.01, self.name)

    def beat(self):
        self.beats += 1
        if self.beats == 2:
            raise ValueError("once")
        return self.goes_on


def threads(name):
    return [each for each in threading.enumerate() if each.name == name]


def test_it_goes_on_though_it_fails_once():
    worker = Worker()
    worker.pulse.start()
    worker.pulse.start()
    wait_until(lambda: worker.beats > 3)
    assert len(threads(worker.name)) == 1
    worker.pulse.stop()
    wait_until(lambda: not threads(worker.name))


def test_it_ends_when_there_is_no_need_and_begins_again():
    worker = Worker()
    worker.goes_on = False
    worker.pulse.start()
    wait_until(lambda: worker.beats == 1 and not threads(worker.name))
    worker.beats, worker.goes_on = 5, True
    worker.pulse.start()
    wait_until(lambda: worker.beats > 6)
    worker.pulse.stop()


def test_it_ends_with_its_object_and_does_not_keep_the_process():
    worker = Worker()
    name = worker.name
    worker.pulse.start()
    assert all(each.daemon for each in threads(name))
    del worker
    gc.collect()
    wait_until(lambda: not threads(name))


def test_nothing_begins_once_it_is_stopped():
    worker = Worker()
    worker.pulse.stop()
    worker.pulse.start()
    assert not threads(worker.name)
