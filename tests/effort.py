"""How much chance the tests are given: PKRAY_TEST_EFFORT times as much as in CI (default 1)."""

from __future__ import annotations

import os

EFFORT = int(os.environ.get("PKRAY_TEST_EFFORT", "1"))


def examples(few: int) -> int:
    """Random examples of a test each of which costs tens of milliseconds; ``few`` in CI."""
    return few * EFFORT
