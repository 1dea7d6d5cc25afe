"""The tables of aggregates: what is computed, and what is stated of it."""

import pytest

from pkray.relational.functions.aggregates.aggregate import COMPUTATIONS
from pkray.relational.functions.aggregates.catalogue import computation
from pkray.relational.plan.aggregates import STATED, facts

OF_FRAMES = {"nth_value"}
"""Functions that only frames compute."""


def test_each_aggregate_is_stated_and_computed() -> None:
    of_others = {name for name in STATED if facts(name).distinct_of}
    assert set(STATED) == set(COMPUTATIONS) | of_others | OF_FRAMES


@pytest.mark.parametrize("name", [name for name in STATED if facts(name).distinct_of])
def test_what_is_of_distinct_values_is_computed_by_another(name: str) -> None:
    assert computation(facts(name).distinct_of)


@pytest.mark.parametrize("name", [name for name in STATED if facts(name).parts])
def test_parts_are_aggregates_that_merge(name: str) -> None:
    for part in facts(name).parts:
        assert facts(part).merges
        assert computation(facts(part).total or part).fold
