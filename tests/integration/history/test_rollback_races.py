"""Committers that know nothing of each other, and somebody who keeps rolling back."""

import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from history_samples import contents, create, now, put, root, schema

import pkray
from pkray.errors import (
    CommitConflictError,
    LostBatchesError,
    MissingFileError,
    PkrayError,
    ServiceError,
    SnapshotNotFoundError,
)
from pkray.expiration.rollback import Rollback
from pkray.lsm.writer.bucket_writer import BucketWriter
from pkray.metadata.snapshots import SnapshotStore

COMMITS = 10
"""Of each user, whatever the time they take."""
REFUSED = (CommitConflictError, MissingFileError, ServiceError, SnapshotNotFoundError)


def test_whatever_the_order_the_table_stays_whole(tmp_path):
    create(tmp_path, **{"commit.max_retries": "100"})
    with pkray.connect(str(tmp_path)) as catalog:
        table = catalog.load_table("db.t")
        put(table, {0: "base"})
        put(table, {1: "base"})
    most = time.monotonic() + 200
    failures: list[BaseException] = []
    committed = [0, 0]

    def go_on() -> bool:
        return min(committed) < COMMITS and not failures and time.monotonic() < most

    def write(user: int) -> None:
        try:
            with pkray.connect(str(tmp_path)) as catalog:
                table = catalog.load_table("db.t")
                turn = 0
                while go_on():
                    turn += 1
                    try:
                        put(table, {1000 * (user + 1) + turn % 50: f"{turn}"})
                        committed[user] += 1
                    except REFUSED:  # what it read, or had written, went under its hands
                        continue
        except BaseException as error:
            failures.append(error)

    def roll_back() -> None:
        chance = random.Random(0)
        while go_on():
            time.sleep(chance.uniform(0, 0.05))
            latest = SnapshotStore(root(tmp_path)).latest_id()
            try:
                back = Rollback(root(tmp_path), schema(tmp_path))
                back.to_snapshot(max(2, latest - chance.randrange(4)))
            except PkrayError as error:
                if "has expired or was never made" not in str(error):
                    failures.append(error)

    with ThreadPoolExecutor(3) as pool:
        works = [*(pool.submit(write, user) for user in range(2)), pool.submit(roll_back)]
    assert [work.exception() for work in works] == [None] * 3
    assert failures == []
    assert min(committed) >= COMMITS
    ids = SnapshotStore(root(tmp_path)).ids()
    assert ids == list(range(1, ids[-1] + 1))
    found = contents(tmp_path)
    assert found[2] == {0: "base", 1: "base"}
    assert now(tmp_path) == found[ids[-1]]
    assert len(list(root(tmp_path).list("tag"))) == 0


@pytest.fixture
def rolled_back_meanwhile(tmp_path, monkeypatch):
    """Another process rolls the table back as soon as the first commit from now on is prepared."""
    prepare, waiting = BucketWriter.prepare_commit, [2]

    def begin(self, **how):
        if waiting:
            Rollback(root(tmp_path), schema(tmp_path)).to_snapshot(waiting.pop())
        return prepare(self, **how)

    return lambda: monkeypatch.setattr(BucketWriter, "prepare_commit", begin)


def four_commits(table: pkray.Table) -> None:
    for turn in range(4):
        put(table, {turn: "old"})


def test_a_commit_whose_base_is_rolled_back_is_made_on_what_is_left(
    tmp_path, rolled_back_meanwhile
):
    create(tmp_path, **{"num_sorted_run.compaction_trigger": "20"})
    with pkray.connect(str(tmp_path)) as catalog:
        four_commits(catalog.load_table("db.t"))
    rolled_back_meanwhile()
    with pkray.connect(str(tmp_path)) as catalog:
        put(catalog.load_table("db.t"), {9: "new"}, full_compact=True)
    assert now(tmp_path) == {0: "old", 1: "old", 9: "new"}


def test_rows_that_went_with_a_rollback_are_written_again_after_an_abort(
    tmp_path, rolled_back_meanwhile
):
    create(tmp_path, **{"num_sorted_run.compaction_trigger": "20"})
    with pkray.connect(str(tmp_path)) as catalog:
        table = catalog.load_table("db.t")
        four_commits(table)
        rolled_back_meanwhile()
        with table.open_writer("job") as writer:
            writer.upsert([{"k": 9, "v": "new"}])
            with pytest.raises(
                LostBatchesError, match=r"'job' .* lost: call abort\(\), then write"
            ):
                writer.commit(1, full_compact=True)
            writer.abort()
            writer.upsert([{"k": 9, "v": "new"}])
            writer.commit(1, full_compact=True)
    assert now(tmp_path) == {0: "old", 1: "old", 9: "new"}
