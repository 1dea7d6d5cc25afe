"""Streams of random histories, begun anywhere: applied, they are the table."""

import random

import pytest
from change_samples import (
    TABLES,
    Follower,
    State,
    as_state,
    create,
    filled,
    put,
    random_step,
    state_at,
)

from pkray.errors import UnsupportedError
from pkray.format.snapshot import COMPACT

STEPS = 7
COMPLETE = ("lookup", "full", "vectors-lookup", "first-row-lookup", "partial-update-lookup")
PLAIN = ("none", "input", "dynamic", "vectors", *COMPLETE)


def told(table, producer: str, number: int) -> State | None:
    """What changelogs have told of up to a snapshot; None where nothing says it."""
    if producer == "full":
        return as_state(table.system("ro", number))
    hidden = producer not in ("none", "input", "dynamic")
    if hidden and table.snapshot(number).commit_kind != COMPACT:
        return None
    return state_at(table, number)


def check(after, expected):
    assert not {n for n, s in after.items() if expected[n] is not None and s != expected[n]}


@pytest.mark.parametrize("name", PLAIN)
def test_a_stream_from_any_snapshot_gives_the_table_at_all_later_ones(tmp_path, name):
    rng = random.Random(name)
    with create(tmp_path, TABLES[name]) as catalog:
        table = catalog.load_table("db.t")
        while table.latest_snapshot() is None or table.latest_snapshot().id < STEPS:
            random_step(table, rng)
        last = table.latest_snapshot().id
        expected = {number: told(table, name, number) for number in range(1, last + 1)}
        for first in range(1, last + 1, 2):
            refresher = Follower(complete=name in COMPLETE)
            with table.stream(
                mode="from-snapshot-full", from_snapshot=first, until_snapshot=last
            ) as stream:
                after = filled(refresher.follow(stream), first, last, {})
            check(after, expected)
            if expected[first] is None:
                continue
            refresher = Follower(name in COMPLETE, dict(expected[first]))
            with table.stream(from_snapshot=first + 1, until_snapshot=last) as stream:
                after = filled(refresher.follow(stream), first + 1, last, expected[first])
            check(after, expected)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", TABLES)
def test_a_normalised_stream_is_complete_and_gives_the_table_at_every_snapshot(tmp_path, name):
    rng = random.Random(name)
    with create(tmp_path, TABLES[name]) as catalog:
        table = catalog.load_table("db.t")
        while table.latest_snapshot() is None or table.latest_snapshot().id < STEPS:
            random_step(table, rng, overwrites=True)
        last = table.latest_snapshot().id
        told_of = name if name in COMPLETE else "none"
        expected = {number: told(table, told_of, number) for number in range(1, last + 1)}
        for first in (1, 2, last // 2):
            refresher = Follower(complete=True)
            with table.stream(
                mode="from-snapshot-full", from_snapshot=first, until_snapshot=last, normalize=True
            ) as stream:
                after = filled(refresher.follow(stream), first, last, {})
            check(after, expected)
        refresher = Follower(complete=True)
        after = filled(
            refresher.follow(table.changelog_batches(normalize=True)), 1, last, refresher.state
        )
        assert after[last] == expected[last] or expected[last] is None


@pytest.mark.parametrize("name", ["first-row", "aggregation", "partial-update"])
def test_what_merges_without_a_producer_is_streamed_normalised_alone(tmp_path, name):
    with create(tmp_path, TABLES[name]) as catalog:
        table = catalog.load_table("db.t")
        with pytest.raises(UnsupportedError, match="normalize"):
            table.stream()
        table.stream(normalize=True).close()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("name", ["none", "lookup", "vectors", "full"])
def test_a_consumer_killed_anywhere_loses_and_repeats_nothing(tmp_path, name, normalize):
    """Its state is saved when it commits; expiry takes all that it may between the steps."""
    rng = random.Random(f"{name}{normalize}")
    with create(tmp_path, TABLES[name]) as catalog:
        table = catalog.load_table("db.t")
        complete = normalize or name in COMPLETE
        saved: State = {}
        put(table, {1: "first"})
        for _ in range(6):
            for _ in range(rng.randrange(1, 4)):
                random_step(table, rng, overwrites=normalize)
            table.expire_snapshots(retain_max=1, retain_min=1)
            refresher = Follower(complete, dict(saved))
            stream = table.stream(
                "job", until_snapshot=table.latest_snapshot().id, normalize=normalize
            )
            dies_after = rng.choice([0, 1, 2, 100])
            for taken, batch in enumerate(stream):
                if taken == dies_after:
                    break  # killed: it is not even closed
                refresher.apply(batch)
                if stream.is_snapshot_complete:
                    stream.commit()
                    saved = dict(refresher.state)
            table.expire_snapshots(retain_max=1, retain_min=1)
        table.compact()
        refresher = Follower(complete, saved)
        until = table.latest_snapshot().id
        with table.stream("job", until_snapshot=until, normalize=normalize) as stream:
            refresher.follow(stream)
        assert refresher.state == state_at(table)
        consumers = table.consumers.list().to_pylist()
        assert [(c["consumer_id"], c["next_snapshot_id"]) for c in consumers] == [
            ("job", until + 1)
        ]
