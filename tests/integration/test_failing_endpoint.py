"""A job and a query on an object store that fails now and then, killed now and then."""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.effort import examples
from tests.integration.endpoint_job import opened, rows_after, sides
from tests.integration.misbehaving_endpoint import (
    Fault,
    breaks_off,
    comes_late,
    hangs_up,
    hangs_up_after,
    misbehaving,
    says,
)

FAULTS = (says(503, "SlowDown"), hangs_up, hangs_up_after, breaks_off, comes_late)
SHARE = 0.04
"""Of the requests that fail."""
SECONDS = 240
"""In which a job that is not killed has ended."""
LAST = 10
KILLS = 2


def now_and_then(chance: random.Random) -> Iterator[Fault | None]:
    while True:
        yield chance.choice(FAULTS) if chance.random() < SHARE else None


@pytest.mark.parametrize("seed", range(examples(1)))
def test_nothing_is_lost_on_a_failing_store(endpoint, s3, s3_options, tmp_path, seed):
    chance = random.Random(seed)
    s3.create_bucket(Bucket=f"failing-{seed}")
    url = f"s3://failing-{seed}/{tmp_path.name}"
    direct = {**s3_options, "allow_http": True}
    with opened(url, direct) as catalog:
        catalog.create_table(
            "db.t",
            [("k", "INT"), ("v", "INT")],
            ["k"],
            options={"bucket": "2", "changelog-producer": "lookup"},
        )
    with misbehaving(endpoint) as broken:
        broken.spoil("*", each=now_and_then(chance))
        kills = killed(url, {**direct, "endpoint": broken.url}, chance)
        assert broken.spoilt > 0
    assert kills > 0
    with opened(url, direct) as catalog:
        table = catalog.load_table("db.t")
        before = 0
        for snapshot in table.snapshots()["snapshot_id"].to_pylist():
            found = table.to_arrow(snapshot_id=snapshot).to_pydict()
            number = max(found["v"])
            assert dict(zip(found["k"], found["v"], strict=True)) == rows_after(number)
            assert before <= number <= before + 1
            before = number
        assert before == LAST
        assert replayed(table) == rows_after(LAST)
        result = catalog.load_table("db.sides").to_arrow(["side", "n"])
        assert Counter(zip(*result.to_pydict().values(), strict=True)) == sides(LAST)
        query = catalog.query("db.sides").resume()
        assert query.verify().equal
        query.drop()


def killed(url: str, options: dict[str, Any], chance: random.Random) -> int:
    """Kill the job a few times, and have it end then; give how often it was begun again."""
    for number in range(20):
        limit = chance.uniform(2, 6) if number < KILLS else SECONDS
        job = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.endpoint_job", url, str(LAST)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            text=True,
        )
        try:
            _, said = job.communicate(json.dumps(options), timeout=limit)
        except subprocess.TimeoutExpired:
            assert number < KILLS, "the job hangs"
            job.kill()
            job.communicate()
            continue
        assert job.returncode in (0, 3), said
        if job.returncode == 0 and number >= KILLS:
            return number
    raise AssertionError("the job never ended")


def replayed(table: Any) -> dict[int, int]:
    """What all changes of a table add up to."""
    found: dict[int, int] = {}
    changes = table.changelog().to_pydict()
    for kind, key, value in zip(changes["_row_kind"], changes["k"], changes["v"], strict=True):
        if kind in ("+I", "+U"):
            found[key] = value
        elif kind == "-D":
            del found[key]
    return found
