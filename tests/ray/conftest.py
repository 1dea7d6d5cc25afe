"""One Ray cluster for all tests of the session."""

from __future__ import annotations

import itertools

import pytest

import pkray

_numbers = itertools.count()


@pytest.fixture(scope="session")
def ray_cluster():
    import ray

    started = not ray.is_initialized()
    if started:
        ray.init(
            num_cpus=4,
            namespace="pkray",
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=False,
            _system_config={
                "kill_worker_timeout_milliseconds": 500,  # of a process that is stopped; 5 s
            },
        )
    yield
    if started:
        ray.shutdown()


@pytest.fixture
def ray_catalog(ray_cluster, tmp_path):
    runtime = {"owners": 2}  # each is a process
    warehouse = str(tmp_path / "warehouse")
    with pkray.connect(warehouse, runtime="ray", runtime_options=runtime) as catalog:
        yield catalog
        for name in catalog.list_tables():
            catalog.drop_table(name)


@pytest.fixture
def job():
    """A commit user of the test's own."""
    return f"job-{next(_numbers)}"
