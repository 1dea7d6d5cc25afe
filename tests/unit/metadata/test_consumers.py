"""Consumers: their places, and the file that Paimon reads them from."""

import json

import pytest

from pkray.errors import CorruptFileError, OptionError
from pkray.metadata.consumers import ConsumerStore


def test_a_place_is_kept(store):
    consumers = ConsumerStore(store)
    assert consumers.find("job") is None
    consumers.record("job", 5)
    consumers.record("job", 7)
    assert ConsumerStore(store).find("job").next_snapshot == 7
    assert json.loads(store.read("consumer/consumer-job"))["nextSnapshot"] == 7


def test_the_slowest_counts(store):
    consumers = ConsumerStore(store)
    assert consumers.min_next() is None
    for name, place in (("a", 9), ("b", 4), ("c", 6)):
        consumers.record(name, place)
    assert consumers.min_next() == 4
    consumers.delete("b")
    assert consumers.min_next() == 6
    assert [each.name for each in consumers.list()] == ["a", "c"]


def test_idle_ones_go(store):
    consumers = ConsumerStore(store)
    consumers.record("job", 5)
    (job,) = consumers.list()
    assert consumers.expire(job.modified_millis) == ()
    assert consumers.expire(job.modified_millis + 1) == ("job",)
    assert consumers.list() == []


def test_a_damaged_file_is_named(store):
    store.write("consumer/consumer-job", b"{")
    with pytest.raises(CorruptFileError, match="consumer-job"):
        ConsumerStore(store).min_next()


@pytest.mark.parametrize("name", ["", " ", "a/b"])
def test_names_that_cannot_be_are_refused(store, name):
    with pytest.raises(OptionError):
        ConsumerStore(store).record(name, 1)
