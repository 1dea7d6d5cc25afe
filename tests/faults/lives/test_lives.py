"""Random lives of queries: after each step the results are as they have to be."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.effort import examples
from tests.faults.lives.life import stage
from tests.faults.lives.random_lives import live, shorter

LIVES = 150
TOGETHER = 15


@pytest.fixture(scope="module", autouse=True)
def on_stage() -> Iterator[None]:
    with stage():
        yield


@pytest.mark.parametrize("first", range(0, examples(LIVES), TOGETHER))
def test_queries_live_through_anything(first: int, record_property) -> None:
    steps = 0
    for seed in range(first, first + TOGETHER):
        lived = live(seed)
        steps += len(lived.steps)
        if lived.wrong:
            pytest.fail(str(shorter(lived)), pytrace=False)
    record_property("survived", f"lives from {first}: {TOGETHER} of {steps} steps")
