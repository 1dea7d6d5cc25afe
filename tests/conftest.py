"""How many examples random tests have, where their files are, and what runs beside what."""

import gc
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings
from hypothesis.internal.conjecture import providers

from tests.effort import EFFORT, examples, representatives
from tests.programs import ProgramTests

pytest.register_assert_rewrite("tests.store_contract")

SHRINKING_SECONDS = 900
"""A random test that failed is made smaller for five minutes at most, beside what it takes."""

MAX_PROCESSES = 4
"""More would run out of memory on small machines, and have little left to share."""

MEMORY = "/dev/shm"
"""Where files of tests are if programs may run there and `MEMORY_BYTES` are free."""

MEMORY_BYTES = 4 << 30

TOGETHER = {
    "tests/ray": "cluster",
    "tests/spark/on_ray": "cluster",
    "tests/spark/local": "spark",
    "tests/interop_java": "java",
}
"""Folders whose tests run in one process, one after another: they share what takes long to start,
and there is one cluster at a time."""

LONGEST = (
    "cluster",
    "spark",
    "tests/faults/lives/test_lives.py",
    "tests/unit/relational/continuous/test_run_random_plans.py",
    "java",
    "tests/integration/test_interop_rust.py",
    "tests/faults/test_lost_answers.py",
    "tests/integration/relational/test_memory.py",
    "tests/integration/relational/test_upgrades.py",
    "tests/integration/relational/test_queries_written_before.py",
    "tests/faults/matrix/test_matrix.py",
    "tests/faults/test_crash_points.py",
    "tests/faults/test_query_crashes.py",
    "tests/faults/test_upgrade_crashes.py",
    "tests/faults/test_lives_of_processes.py",
    "tests/integration/test_rescale.py",
    "tests/faults/lives/test_sleepers.py",
    "tests/integration/relational/test_query_lives.py",
    "tests/integration/test_s3.py",
    "tests/integration/lsm/test_boundaries.py",
    "tests/integration/relational/test_event_time.py",
    "tests/faults/test_corruption.py",
    "tests/unit/relational/sql/test_chains.py",
    "tests/integration/cdc/test_histories.py",
    "tests/golden_tables/test_golden.py",
    "tests/integration/maintenance/test_random_maintenance.py",
)
"""What begins first, so that no process is left alone with it at the end."""


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Asks for as many processes as suit the machine where nothing was said of processes."""
    option = config.option
    is_left_open = config.pluginmanager.hasplugin("xdist") and option.numprocesses is None
    is_one_file = len(config.args) == 1 and ".py" in config.args[0]
    is_worker = hasattr(config, "workerinput")
    if is_left_open and not (is_worker or is_one_file or option.capture == "no" or option.tx):
        option.numprocesses = "auto"  # none where --pdb is given
        option.maxprocesses = option.maxprocesses or MAX_PROCESSES
    option.loadscopereorder = False


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than processors: tests of clusters wait for processes half of their time."""
    return (os.cpu_count() or 1) + 1


def pytest_configure(config: pytest.Config) -> None:
    """Has the processes of tests keep temporary files in memory, and compile modules once."""
    config.pluginmanager.register(ProgramTests(), "programs")
    set_up_random_tests(
        random=EFFORT > 1 or "slow" in config.option.markexpr.replace("not slow", "")
    )
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # each actor would compile the package again
    if (
        "TMPDIR" not in os.environ
        and os.access(MEMORY, os.W_OK)
        and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
        and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES
    ):
        os.environ["TMPDIR"] = MEMORY
        tempfile.tempdir = None


def set_up_random_tests(random: bool) -> None:
    """Have each run play the same examples unless ``random``: whether a change passes is no matter
    of chance, and what is rare is looked for at night.

    Hypothesis also draws from the constants of the modules that are imported by then, which depend
    on the tests that a process ran before.
    """
    if not random:
        providers._get_local_constants = lambda: providers._local_constants
    settings.register_profile(
        "pkray",
        settings(),
        max_examples=examples(40),
        deadline=None,  # a machine may be busy: how long an example takes says nothing
        derandomize=not random,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("pkray")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Spares the garbage collector what stays: it would look at it all, again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves most cases of sampled tests to slow runs, gives random tests the time to show the
    smallest case that fails, and begins with the long.

    The order of one process alone stays that of the folders.
    """
    leave_to_slow_runs(items)
    for item in items:
        if is_random(item) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SHRINKING_SECONDS))
    if hasattr(config, "workerinput"):
        rank = {place: number for number, place in enumerate(LONGEST)}
        items.sort(key=lambda item: rank.get(place_of(item.nodeid), len(rank)))


def leave_to_slow_runs(items: list[pytest.Item]) -> None:
    """Marks as slow what is no representative of the cases of a test that is sampled."""
    sampled: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("slow"):
            sampled.setdefault(item.nodeid.split("[")[0], []).append(item)
    for group in sampled.values():
        few = group[0].get_closest_marker("sampled").args[0] * EFFORT
        arguments = {
            item.nodeid: {name: repr(value) for name, value in item.callspec.params.items()}
            for item in group
        }
        chosen = representatives(arguments, few)
        for item in group:
            if item.nodeid not in chosen:
                item.add_marker(pytest.mark.slow)


def place_of(nodeid: str) -> str:
    """What a test stays together with: its file, or some folders."""
    file = nodeid.split("::")[0]
    return next((place for path, place in TOGETHER.items() if file.startswith(f"{path}/")), file)


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
            return place_of(nodeid)

    return ByPlace(config, log)


@pytest.fixture(scope="session", autouse=True)
def checked_nodes() -> None:
    """Has the nodes of all plans keep to their schemas, whatever a test asks for."""
    from tests.node_schemas import watch_nodes

    watch_nodes()


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
    pairs = Counter[str]()
    for report in reports:
        for name, met in report.user_properties:
            if name == "pairs":
                pairs.update(met)
    if pairs:
        terminalreporter.section(f"{len(pairs)} pairs of operators met")
        said = [f"{pair} ({times})" for pair, times in sorted(pairs.items())]
        terminalreporter.write_line(", ".join(said))
