"""Which snapshots may go: by number, by age, at most so many at once, none that is to be read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkray.errors import OptionError
from pkray.expiration.retention import (
    Retention,
    changelog_retention,
    first_kept,
    snapshot_retention,
)
from pkray.options import TableOptions


def kept(latest: int, retention: Retention, now: int, protected: int | None = None) -> int:
    """Snapshots 1..latest, made at 10, 20, 30 …"""
    return first_kept(1, latest, retention, now, lambda number: number * 10, protected)


def test_those_of_the_last_hour_stay():
    assert kept(10, Retention(1, 100, time_millis=30, limit=50), now=100) == 7


def test_the_newest_stay_however_old():
    assert kept(10, Retention(4, 100, time_millis=30, limit=50), now=9_000) == 7


def test_more_than_the_most_go_however_young():
    assert kept(10, Retention(1, 5, time_millis=1_000, limit=50), now=100) == 6


def test_so_many_at_once():
    assert kept(10, Retention(1, 1, time_millis=0, limit=3), now=9_000) == 4


def test_what_is_to_be_read_stays():
    assert kept(10, Retention(1, 1, time_millis=0, limit=50), now=9_000, protected=3) == 3


def test_a_least_number_above_the_most_is_refused():
    with pytest.raises(OptionError):
        Retention(5, 3, 0, 50)


def test_changelogs_are_kept_as_snapshots_by_default():
    options = TableOptions.parse({"snapshot.num-retained.max": "20"})
    snapshots = snapshot_retention(options)
    assert not changelog_retention(options, snapshots).outlives(snapshots)


def test_changelogs_may_outlive_snapshots():
    options = TableOptions.parse({"changelog.time-retained": "1 d"})
    snapshots = snapshot_retention(options)
    assert changelog_retention(options, snapshots).outlives(snapshots)
    assert options.keeps_changelogs_longer


def test_changelogs_that_need_be_kept_less_long_go_with_their_snapshots():
    said = {"changelog.time-retained": "1 s", "changelog.num-retained.max": "12"}
    options = TableOptions.parse({**said, "changelog.num-retained.min": "2"})
    assert not options.keeps_changelogs_longer
    snapshots = snapshot_retention(options)
    assert not changelog_retention(options, snapshots).outlives(snapshots)
    options = TableOptions.parse(said)
    assert changelog_retention(options, Retention(20, 30, 0, 50)).num_max == 20


@given(
    st.integers(1, 30),
    st.integers(0, 30),
    st.lists(st.integers(0, 50), min_size=31, max_size=31),
    st.integers(1, 10),
    st.integers(0, 10),
    st.integers(0, 60),
    st.integers(1, 10),
    st.one_of(st.none(), st.integers(1, 70)),
)
def test_the_promises_hold(earliest, more, steps, least, spread, age, limit, protected):
    latest = earliest + more
    times = {earliest + i: sum(steps[: i + 1]) for i in range(more + 1)}
    retention = Retention(least, least + spread, age, limit)
    now = sum(steps)
    end = first_kept(earliest, latest, retention, now, times.get, protected)
    assert earliest <= end <= max(latest, earliest)
    assert end - earliest <= limit
    if end > earliest:
        assert latest - end + 1 >= least
        assert protected is None or end <= protected
        for gone in range(max(earliest, latest - retention.num_max + 1), end):
            assert times[gone] < now - age
