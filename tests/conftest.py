"""How many examples random tests have, and what runs beside what in several processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from tests.effort import examples

# A machine may be busy: how long an example takes says nothing.
settings.register_profile("pkray", settings(), max_examples=examples(40), deadline=None)
settings.load_profile("pkray")

TOGETHER = {"ray": "cluster", "spark": "cluster", "interop_java": "java"}
"""Folders whose tests run in one process, one after another: there is one cluster at a time."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tests = Path(__file__).parent
    for item in items:
        place = item.path.relative_to(tests)
        group = TOGETHER.get(place.parts[0], str(place))  # else a file, for what its tests share
        item.add_marker(pytest.mark.xdist_group(group))
