"""Random queries are answered alike in every way."""

from collections import Counter

import pytest

from tests.integration.relational.random_queries.oracles import RandomQuery

SEEDS, GROUPS = 20_000, 1000
"""Queries, and tests that they are spread over, so that processes share them."""

LEAST_SHARES = {
    "optimizer off": 0.5,
    "little memory": 0.5,
    "TLP": 0.5,
    "TLP of aggregates": 0.5,
    "NoREC": 0.5,
    "DuckDB": 0.25,
    "continuous": 0.05,
}
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
    rare = {
        name: checked[name]
        for name, share in LEAST_SHARES.items()
        if checked[name] < share * len(seeds)
    }
    assert not rare, f"of {len(seeds)} queries, these oracles compared few: {rare}"
