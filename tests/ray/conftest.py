"""One Ray cluster for all tests of the session."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

import pkray

WORKERS = str(Path(__file__).with_name("workers"))
"""What Ray's processes find first; not those of tests."""

_numbers = itertools.count()


@pytest.fixture(scope="session")
def ray_cluster():
    import ray

    started = not ray.is_initialized()
    if started:
        with pytest.MonkeyPatch.context() as patch:
            places = (WORKERS, os.environ.get("PYTHONPATH"))
            patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, places)))
            ray.init(
                num_cpus=4,
                namespace="pkray",
                include_dashboard=False,
                log_to_driver=False,
                configure_logging=False,
                _system_config={
                    "worker_niceness": 0,  # the tests wait for them
                    "kill_worker_timeout_milliseconds": 500,  # of a process that is stopped; 5 s
                },
            )
        ray._private.worker._global_node.kill_log_monitor()  # nobody reads what it looks for
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
