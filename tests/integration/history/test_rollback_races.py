"""Committers that know nothing of each other, and somebody who keeps rolling back."""

from __future__ import annotations

import random
import threading
import time

from history_samples import contents, create, now, put, root, schema

import pkray
from pkray.commit.rollback import Rollback
from pkray.commit.snapshots import SnapshotStore
from pkray.errors import (
    CommitConflictError,
    MissingFileError,
    PkrayError,
    ServiceError,
    SnapshotNotFoundError,
)

REFUSED = (CommitConflictError, MissingFileError, ServiceError, SnapshotNotFoundError)


def test_whatever_the_order_the_table_stays_whole(tmp_path):
    create(tmp_path, **{"commit.max_retries": "100"})
    with pkray.connect(str(tmp_path)) as catalog:
        table = catalog.load_table("db.t")
        put(table, {0: "base"})
        put(table, {1: "base"})
    end = time.monotonic() + 1.5
    failures: list[BaseException] = []
    committed = [0, 0]

    def write(user: int) -> None:
        try:
            with pkray.connect(str(tmp_path)) as catalog:
                table = catalog.load_table("db.t")
                turn = 0
                while time.monotonic() < end:
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
        while time.monotonic() < end:
            time.sleep(chance.uniform(0, 0.05))
            latest = SnapshotStore(root(tmp_path)).latest_id()
            try:
                back = Rollback(root(tmp_path), schema(tmp_path))
                back.to_snapshot(max(2, latest - chance.randrange(4)))
            except PkrayError as error:
                if "has expired or was never made" not in str(error):
                    failures.append(error)

    threads = [threading.Thread(target=write, args=(user,)) for user in range(2)]
    threads.append(threading.Thread(target=roll_back))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert min(committed) > 3
    ids = SnapshotStore(root(tmp_path)).ids()
    assert ids == list(range(1, ids[-1] + 1))
    found = contents(tmp_path)
    assert found[2] == {0: "base", 1: "base"}
    assert now(tmp_path) == found[ids[-1]]
    assert len(list(root(tmp_path).list("tag"))) == 0
