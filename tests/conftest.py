"""How many examples random tests have, and what runs beside what in several processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

from tests.effort import examples

# A machine may be busy: how long an example takes says nothing.
settings.register_profile(
    "pkray",
    settings(),
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("pkray")
pytest.register_assert_rewrite("tests.store_contract")

SHRINKING_SECONDS = 900
"""A random test that failed is made smaller for five minutes at most, beside what it takes."""

TOGETHER = {"ray": "cluster", "spark": "cluster", "interop_java": "java"}
"""Folders whose tests run in one process, one after another: there is one cluster at a time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives random tests the time to show the smallest case that fails."""
    for item in items:
        if is_random(item) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SHRINKING_SECONDS))


def is_random(item: pytest.Item) -> bool:
    """Whether hypothesis makes a test's examples."""
    function, kind = getattr(item, "obj", None), getattr(item, "cls", None)
    return is_hypothesis_test(function) or hasattr(kind, "settings")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keeps the tests of a file in one process, and those of some folders."""
    from xdist.scheduler import LoadScopeScheduling

    class ByPlace(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = Path(nodeid.split("::")[0])
            folder = file.parts[1] if file.parts[0] == "tests" else ""
            return TOGETHER.get(folder, str(file))

    return ByPlace(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests of faults survived; here, as it is printed by the process that runs none."""
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    lines = [
        line for report in reports for name, line in report.user_properties if name == "survived"
    ]
    if lines:
        terminalreporter.section("faults")
        for line in lines:
            terminalreporter.write_line(line)
