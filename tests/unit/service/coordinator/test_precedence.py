"""Committers of an object store that let one that lost a race go before them."""

import uuid

import pytest

from pkray.format import paths
from pkray.service.coordinator.precedence import Precedence
from pkray.storage.local import LocalStore
from pkray.storage.opening import open_store
from tests.unit.service.coordinator.test_commit_queue import Time


@pytest.fixture
def store():
    return open_store(f"memory://{uuid.uuid4().hex}")


@pytest.fixture
def loser(store):
    return Precedence(store)


def test_a_committer_waits_until_one_that_lost_is_through(store, loser):
    time = Time(lambda seconds: loser.release() if seconds > 1 else None)
    winner = Precedence(store, time.clock, time.sleep)
    loser.claim()
    winner.look()
    assert winner.give_way()
    assert 1 < time.seconds < 2
    assert not winner.give_way()


def test_nobody_waits_where_nobody_lost(store):
    time = Time()
    committer = Precedence(store, time.clock, time.sleep)
    committer.look()
    assert not committer.give_way()
    assert time.seconds == 0


def test_what_a_killed_committer_left_is_waited_for_once_and_deleted(store, loser):
    time = Time()
    committer = Precedence(store, time.clock, time.sleep)
    loser.claim()
    committer.look()
    assert committer.give_way()
    assert 5 <= time.seconds < 5.2
    assert not store.exists(paths.WAITING)


def test_of_those_that_lost_one_goes_first_and_none_waits(store, loser):
    time = Time()
    other = Precedence(store, time.clock, time.sleep)
    loser.claim()
    other.claim()
    other.release()
    assert store.exists(paths.WAITING)
    loser.look()
    assert not loser.give_way()


def test_nothing_is_written_on_a_disk(tmp_path):
    committer = Precedence(LocalStore(str(tmp_path)))
    committer.claim()
    committer.look()
    assert not committer.give_way()
    assert list(tmp_path.iterdir()) == []
