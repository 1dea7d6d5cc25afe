"""Random queries are answered alike in every way."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.integration.relational.random_queries.oracles import RandomQuery

SEEDS, GROUPS = 20_000, 400
"""Queries, and tests that they are spread over, so that processes share them."""

ORACLES = ("optimizer off", "little memory", "TLP", "TLP of aggregates", "NoREC", "DuckDB")
LEAST_SHARE = 0.25
"""Of the queries of a test, so many are compared by each oracle: else it compares nothing."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("group", range(GROUPS))
def test_random_queries_are_answered_alike_in_every_way(group: int) -> None:
    size = SEEDS // GROUPS
    seeds = range(group * size, (group + 1) * size)
    checked: Counter[str] = Counter()
    for seed in seeds:
        made = RandomQuery(seed)
        try:
            outcome = made.compare()
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}\n{made}") from error
        checked.update(outcome.checked)
    rare = {name: checked[name] for name in ORACLES if checked[name] < LEAST_SHARE * len(seeds)}
    assert not rare, f"of {len(seeds)} queries, these oracles compared few: {rare}"
