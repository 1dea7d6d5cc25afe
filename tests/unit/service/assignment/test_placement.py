"""Placements of random rows, against the same decisions made a row at a time."""

from itertools import pairwise

import numpy as np
import pytest

from pkray.service.assignment.location_runs import DELETED, NOWHERE
from pkray.service.assignment.placement import Placement, Rule, locations_of, numbers_of
from tests.effort import examples

ABSENT = int(NOWHERE)


def place(number: int, bucket: int) -> int:
    return int(locations_of(np.array([number], np.uint64), np.array([bucket], np.int32))[0])


def one_by_one(rule, before, rows, fresh):
    """The locations, the locations left, and the last one of a key's rows: (wanted, removes)."""
    at, locations, left = before, [], []
    for wanted, removes in rows:
        leaves, goes = ABSENT, at
        if removes:
            locations.append(at)
            at = ABSENT
        elif at == ABSENT:
            at = goes = fresh()
            locations.append(goes)
        elif at >> 16 == wanted or rule is Rule.STAYS:
            locations.append(at)
        elif rule is Rule.IGNORED:
            locations.append(ABSENT)
        else:
            leaves, at = at, fresh()
            locations.append(at)
        left.append(leaves)
    return locations, left, int(DELETED) if at == ABSENT else at


@pytest.mark.parametrize("rule", list(Rule))
@pytest.mark.parametrize("seed", range(examples(30)))
def test_rows_of_many_keys(rule, seed):
    random = np.random.default_rng(seed)
    keys = np.sort(random.integers(0, 6, random.integers(1, 25)))
    firsts = np.append(True, keys[1:] != keys[:-1])
    wanted = random.integers(0, 3, len(keys)).astype(np.uint64)
    removes = (random.random(len(keys)) < 0.3) & (rule is not Rule.IGNORED)
    choices = [ABSENT, int(DELETED), place(0, 7), place(1, 8), place(9, 9)]
    before = np.array(random.choice(np.array(choices, np.uint64), firsts.sum()))
    placement = Placement(rule, firsts, before, wanted, removes)
    given = locations_of(
        wanted[placement.fresh], np.arange(len(placement.fresh), dtype=np.int32) + 20
    )
    placed = placement.place(given)
    assert (numbers_of(given) == wanted[placement.fresh]).all()

    numbers = iter(given.tolist())
    expected = [], [], []
    bounds = [*np.flatnonzero(firsts).tolist(), len(keys)]
    for group, (start, end) in enumerate(pairwise(bounds)):
        known = int(before[group])
        rows = list(zip(wanted[start:end].tolist(), removes[start:end].tolist(), strict=True))
        locations, left, after = one_by_one(
            rule, ABSENT if known == int(DELETED) else known, rows, lambda: next(numbers)
        )
        expected[0].extend(locations)
        expected[1].extend(left)
        expected[2].append(after)
    assert placed.locations.tolist() == expected[0]
    assert placed.left.tolist() == expected[1]
    assert placed.after.tolist() == expected[2]


def test_no_rows():
    none = np.zeros(0, np.uint64)
    bools = np.zeros(0, np.bool_)
    placed = Placement(Rule.MOVES, bools, none, none, bools).place(none)
    assert not len(placed.locations)
    assert not len(placed.after)
