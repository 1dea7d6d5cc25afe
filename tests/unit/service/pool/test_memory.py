"""Owners of one worker share its memory."""

import pytest

from pkray.service.pool.memory import WorkerMemory

MB = 1 << 20
LEAST = 8 * MB


class Owner:
    memory_bytes = 0


@pytest.fixture
def shared():
    """Three owners in 100 MB, and their shares; a count is good for no time."""
    owners = {number: Owner() for number in range(3)}
    now = iter(range(10_000))
    memory = WorkerMemory(100 * MB, lambda: owners, lambda: next(now))
    return owners, [memory.share(number) for number in owners]


def test_an_owner_alone_may_use_what_its_table_gives_it(shared):
    _, shares = shared
    assert shares[0].for_rows(60 * MB) == 60 * MB
    assert shares[0].for_rows(256 * MB) == 100 * MB


def test_an_owner_may_use_what_others_leave_and_a_little_in_any_case(shared):
    owners, shares = shared
    owners[0].memory_bytes = 70 * MB
    assert shares[1].for_rows(256 * MB) == 30 * MB
    assert shares[0].for_rows(256 * MB) == 100 * MB
    owners[1].memory_bytes = 30 * MB
    assert shares[2].for_rows(256 * MB) == LEAST


def test_rows_that_are_kept_for_compactions_leave_half_to_others(shared):
    owners, shares = shared
    assert shares[0].for_flushed(256 * MB) == 50 * MB
    owners[0].memory_bytes = 50 * MB
    assert shares[1].for_flushed(256 * MB) == 0
    assert shares[1].for_rows(256 * MB) == 50 * MB


def test_a_count_is_good_for_a_moment():
    owners, now = {0: Owner(), 1: Owner()}, [0.0]
    share = WorkerMemory(100 * MB, lambda: owners, lambda: now[0]).share(0)
    assert share.for_rows(256 * MB) == 100 * MB
    owners[1].memory_bytes = 60 * MB
    assert share.for_rows(256 * MB) == 100 * MB
    now[0] += 1
    assert share.for_rows(256 * MB) == 40 * MB


def test_work_has_half_of_it_in_equal_shares_and_what_others_leave_of_theirs():
    work = {number: Owner() for number in range(4)}
    now = iter(range(10_000))
    memory = WorkerMemory(400 * MB, dict, lambda: next(now), lambda: work)
    assert memory.for_work(256 * MB, 0) == 200 * MB
    for each in work.values():
        each.memory_bytes = 150 * MB
    assert memory.for_work(256 * MB, 0) == 50 * MB
    work[1].memory_bytes = work[2].memory_bytes = 10 * MB
    assert memory.for_work(256 * MB, 0) == 130 * MB
    assert memory.for_work(20 * MB, 0) == 20 * MB


def test_owners_may_use_what_work_leaves():
    work = {7: Owner()}
    now = iter(range(10_000))
    memory = WorkerMemory(100 * MB, dict, lambda: next(now), lambda: work)
    work[7].memory_bytes = 40 * MB
    assert memory.share(0).for_rows(256 * MB) == 60 * MB
