"""Lookups in a table with dynamic buckets, after whatever changed its buckets."""

import random

import pyarrow as pa
import pytest

import pkray
from pkray.commit.committer import Committer
from pkray.errors import CommitConflictError
from tests.effort import examples

SCHEMA = pa.schema([("dt", pa.string()), ("id", pa.int64()), ("v", pa.int64())])


@pytest.fixture
def table(tmp_path):
    with pkray.connect(str(tmp_path), runtime_options={"owners": 3}) as catalog:
        options = {"bucket": "-1", "dynamic-bucket.target-row-num": "5"}
        yield catalog.create_table("db.t", SCHEMA, ["dt", "id"], ["dt"], options)


def rows(content):
    return [{"dt": dt, "id": key, "v": value} for (dt, key), value in content.items()]


def found(table, visibility, every):
    keys = [{"dt": dt, "id": key} for dt, key in every]
    got = table.lookup(keys, visibility=visibility).to_pylist()
    return {(row["dt"], row["id"]): row["v"] for row in got}


def commit(table, content):
    table.upsert(rows(content))


def test_an_overwrite_is_seen_at_once_after_a_commit_that_failed(table, monkeypatch):
    commit(table, {("a", n): n for n in range(10)})

    def refuse(*args, **kwargs):
        raise CommitConflictError("somebody else")

    writer = table.open_writer()
    writer.upsert(rows({("a", 99): 1}))
    with monkeypatch.context() as patch:
        patch.setattr(Committer, "commit", refuse)
        with pytest.raises(CommitConflictError):
            writer.commit()
    new = {("a", n): -n for n in range(50, 70)}
    table.overwrite(rows(new))
    every = [*new, *(("a", n) for n in range(10))]
    assert found(table, "committed", every) == new
    assert found(table, "latest", every) == new


@pytest.mark.parametrize("seed", range(examples(2)))
def test_lookups_follow_every_kind_of_change(table, seed):
    chance = random.Random(seed)
    every = [(dt, n) for dt in "ab" for n in range(30)]
    committed, history = {}, []
    for step in range(12):
        some = dict.fromkeys(chance.sample(every, chance.randrange(1, 25)), step)
        what = chance.choice(["commit", "overwrite", "drop", "abort", "roll back", "compact"])
        if what == "commit":
            commit(table, some)
            committed = committed | some
        elif what == "overwrite":
            table.overwrite(rows(some))
            touched = {dt for dt, _ in some}
            committed = {k: v for k, v in committed.items() if k[0] not in touched} | some
        elif what == "drop" and history:
            table.drop_partitions([{"dt": "a"}])
            committed = {k: v for k, v in committed.items() if k[0] != "a"}
        elif what == "abort":
            with table.open_writer() as writer:
                writer.upsert(rows(some))
                assert found(table, "latest", every) == committed | some
        elif what == "roll back" and history:
            number, committed = chance.choice(history)
            table.rollback_to(snapshot_id=number)
            history = [(n, held) for n, held in history if n <= number]
        elif what == "compact":
            table.compact(full=True)
        for visibility in ("committed", "latest"):
            assert found(table, visibility, every) == committed, (step, what, visibility)
        latest = table.latest_snapshot()
        if latest is not None:
            history.append((latest.id, dict(committed)))
