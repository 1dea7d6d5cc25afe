"""Processes that commit to one table of an object store at a time, as on machines of their own."""

from typing import Any

import pytest

from tests.benchmarks.bench_writers import measure

COMMITS = 30


@pytest.mark.slow
@pytest.mark.parametrize("writers", [2, 4])
def test_no_commit_waits_until_the_other_writers_have_ended(
    s3: Any, s3_options: dict[str, str], writers: int
) -> None:
    s3.create_bucket(Bucket=f"writers-{writers}")
    warehouse = f"s3://writers-{writers}/w"
    options = {**s3_options, "allow_http": "true"}
    taken = measure(warehouse, options, writers, COMMITS, 0.03, apart=True)
    assert taken.longest < sum(taken.seconds) / writers / 2
