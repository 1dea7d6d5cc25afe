"""One Ray cluster for all tests of the session."""

import itertools
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import pkray
from tests.ray.marked import MARK, kill_marked

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
                address="local",  # whatever else runs here
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
    with served(tmp_path / "warehouse", pool_workers=2) as catalog:
        yield catalog


@pytest.fixture(scope="module")
def shared_catalog(ray_cluster, tmp_path_factory):
    """A catalog for tests that leave its processes as they are; they drop what they make."""
    with served(tmp_path_factory.mktemp("warehouse"), pool_workers=2) as catalog:
        yield catalog


@contextmanager
def served(warehouse: object, **options: Any) -> Iterator[pkray.Catalog]:
    """Open a warehouse on Ray; at last drop its queries and tables, and end its processes."""
    runtime = {"owners": 2, **options}
    with pkray.connect(str(warehouse), runtime="ray", runtime_options=runtime) as catalog:
        yield catalog
        each(lambda query: query.drop(), catalog.queries())
        each(catalog.drop_table, catalog.list_tables())
        end_pool(catalog)


def each(work: Callable[[Any], Any], things: Sequence[Any]) -> list[Any]:
    """Do the same with some things, all at once."""
    with ThreadPoolExecutor(max(len(things), 1)) as threads:
        return list(threads.map(work, things))


def actors() -> set[str]:
    from ray.util import list_named_actors

    return {actor["name"] for actor in list_named_actors(all_namespaces=True)}


def pool_processes(catalog: pkray.Catalog) -> set[int]:
    """Give the processes of the workers that the pool's keeper has heard of."""
    from pkray.service.ray.pool import pool_of

    pool = catalog.runtime._pool(pool_of(catalog.warehouse, catalog.storage_options))
    return {each.process.pid for each in pool.keeper.overview().workers}


def end_pool(catalog: pkray.Catalog) -> None:
    """End the processes of a warehouse, which else wait a while for other tables."""
    import ray

    from pkray.service.ray.pool import pool_name
    from pkray.storage.location import TableLocation

    url = f"{catalog.warehouse}/db.db/t"
    prefix = pool_name(TableLocation(url, "db.t", catalog.storage_options))
    for name in sorted(ray.util.list_named_actors()):  # the keeper first: it starts the others
        if name.startswith(prefix):
            ray.kill(ray.get_actor(name))


@pytest.fixture
def job():
    """A commit user of the test's own."""
    return f"job-{next(_numbers)}"


@pytest.fixture
def apart() -> Iterator[dict[str, str]]:
    """An environment in which no cluster is known; all processes that have it end."""
    folder, mark = (
        tempfile.mkdtemp(prefix="pk-", dir="/tmp"),
        uuid.uuid4().hex,
    )  # sockets: 107 bytes
    left_out = ("RAY_ADDRESS", "PKRAY_RAY", "PKRAY_WAREHOUSE")
    env = {name: value for name, value in os.environ.items() if name not in left_out}
    places = [WORKERS, *sys.path]
    env |= {MARK: mark, "RAY_TMPDIR": folder, "TMPDIR": folder}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, places))
    yield env
    kill_marked(mark)
    shutil.rmtree(folder, ignore_errors=True)
