"""Lookups that may be answered from a snapshot that was the newest a while ago."""

import pytest

import pkray
from pkray.errors import OptionError

HOUR = 3600.0
COLUMNS = [("k", "BIGINT"), ("v", "STRING")]
KEYS = [{"k": number} for number in range(8)]


@pytest.fixture
def catalogs(tmp_path):
    """Two processes' views of a warehouse, with two owners each."""
    opened = [pkray.connect(str(tmp_path), runtime_options={"owners": 2}) for _ in range(2)]
    opened[0].create_table("db.t", COLUMNS, ["k"], options={"bucket": "4"})
    yield opened
    for catalog in opened:
        catalog.close()


@pytest.fixture
def tables(catalogs):
    return [catalog.load_table("db.t") for catalog in catalogs]


def write(table, value):
    table.upsert([{**key, "v": value} for key in KEYS])


def values(table, keys=KEYS, **arguments):
    return set(table.lookup(keys, **arguments)["v"].to_pylist())


@pytest.mark.parametrize("visibility", ["latest", "committed"])
def test_what_others_commit_is_seen_later(tables, visibility):
    here, there = tables
    write(there, "old")
    assert values(here, visibility=visibility) == {"old"}
    write(there, "new")
    assert values(here, visibility=visibility, max_staleness=HOUR) == {"old"}
    assert values(here, visibility=visibility) == {"new"}


def test_prefixes_may_be_stale_too(tables):
    here, there = tables
    write(there, "old")
    here.lookup_prefix(KEYS)
    write(there, "new")
    found = here.lookup_prefix(KEYS, max_staleness=HOUR)
    assert set(found["v"].to_pylist()) == {"old"}


@pytest.mark.parametrize("visibility", ["latest", "committed"])
def test_own_commits_are_seen_at_once(tables, visibility):
    here, there = tables
    write(there, "old")
    assert values(here, visibility=visibility) == {"old"}
    write(here, "mine")
    assert values(here, visibility=visibility, max_staleness=HOUR) == {"mine"}


def test_owners_that_looked_at_different_times_answer_from_one_snapshot(tables):
    here, there = tables
    write(there, "old")
    assert values(here) == {"old"}
    write(there, "new")
    values(here, KEYS[:1])
    assert len(values(here, visibility="committed", max_staleness=HOUR)) == 1


def test_owners_look_again_where_the_older_snapshot_has_expired(tables):
    here, there = tables
    write(there, "0")
    assert values(here) == {"0"}
    for number in range(1, 8):
        write(there, str(number))
        values(here, KEYS[:1])
    there.compact(full=True)
    values(here, KEYS[:1])
    there.expire_snapshots(retain_min=1, retain_max=1)
    assert values(here, visibility="committed", max_staleness=HOUR) == {"7"}


def test_a_negative_staleness_is_refused(tables):
    with pytest.raises(OptionError, match=r"max_staleness .* give seconds"):
        tables[0].lookup(KEYS, max_staleness=-1.0)


def test_a_moment_is_not_stale(tables):
    write(tables[0], "old")
    with pytest.raises(OptionError, match="max_staleness goes with the newest"):
        tables[0].lookup(KEYS, visibility="committed", snapshot_id=1, max_staleness=1.0)
