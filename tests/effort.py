"""How much chance the tests are given: PKRAY_TEST_EFFORT times as much as in CI (default 1)."""

import os
from collections.abc import Mapping
from zlib import crc32

EFFORT = int(os.environ.get("PKRAY_TEST_EFFORT", "1"))


def examples(few: int) -> int:
    """Random examples of a test each of which costs tens of milliseconds; ``few`` in CI."""
    return few * EFFORT


def stride(places: int) -> int:
    """Say at every which place of many a test looks; at more of them with a greater effort."""
    return max(1, places // EFFORT)


def representatives(cases: Mapping[str, Mapping[str, str]], few: int) -> set[str]:
    """Choose ``few`` of the cases of a test, by name, for a run that does not take them all.

    Each takes in as many values of arguments as it can that those before it have not; among equals
    a hash of the name chooses, so that the choice stays as it is when cases are added.

    Args:
        cases: the arguments of each case.
    """
    by_chance = sorted(cases, key=lambda name: crc32(name.encode()))
    left = {name: set(cases[name].items()) for name in by_chance}
    chosen: set[str] = set()
    while left and len(chosen) < few:
        best = max(left, key=lambda name: len(left[name]))
        taken = left.pop(best)
        chosen.add(best)
        for values in left.values():
            values -= taken
    return chosen
