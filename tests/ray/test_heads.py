"""The head of a cluster, or all of its processes, are lost: files alone bring everything back."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import pkray
from pkray.cli.app import main
from tests.ray import heads
from tests.ray.conftest import end_pool
from tests.ray.marked import MARK, kill_marked

pytestmark = pytest.mark.ray

MOST_SECONDS = 280


def run(*arguments: str, env: Mapping[str, str]) -> list[dict[str, Any]]:
    """Run a Python module to its end; give the lines of JSON that it prints."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=MOST_SECONDS,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@contextlib.contextmanager
def living(kind: str, warehouse: Path, env: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Have a process begin what is to be lost; it is killed at the end at the latest."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.ray.heads", "live", kind, str(warehouse)],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = next((line for line in process.stdout if line.startswith("{")), "{}")
        assert json.loads(line) == {"ready": True}
        yield process
    finally:
        process.kill()
        process.communicate()


def test_what_ran_in_a_killed_process_is_brought_back_from_files(ray_cluster, tmp_path, apart):
    warehouse = tmp_path / "warehouse"
    with living("local", warehouse, apart):
        pass
    with pytest.raises(SystemExit) as ended:
        main(["service", "start", str(warehouse), "--ray", "auto"])
    assert ended.value.code == 0
    with pkray.connect(str(warehouse), runtime="ray", runtime_options=heads.OPTIONS) as catalog:
        found = heads.check_after(str(warehouse))
        catalog.query("default.r").drop()
        for name in catalog.list_tables():
            catalog.drop_table(name)
        end_pool(catalog)
    assert found == {"wrong": []}


@pytest.mark.slow
def test_a_service_whose_processes_are_all_lost_is_brought_back_by_one_command(tmp_path, apart):
    warehouse = tmp_path / "warehouse"
    with living("ray", warehouse, apart):
        assert kill_marked(apart[MARK]) >= 5  # gcs_server, raylet, keeper, workers, who began it
    placed = run("pkray", "service", "start", str(warehouse), "--json", env=apart)
    queries = {each["name"]: each["state"] for each in placed if each["kind"] == "query"}
    assert queries["default.r"] in ("starting", "running")
    assert run("tests.ray.heads", "after", str(warehouse), env=apart)[-1] == {"wrong": []}


def healed(times: int, folder: Path, env: Mapping[str, str]) -> dict[str, Any]:
    (found,) = run("tests.ray.heads", "redis", str(times), str(folder), env=env)
    print(f"heads killed: {times}, gone on after {found['seconds']} s")
    return found


@pytest.mark.redis
def test_a_cluster_whose_state_is_in_a_redis_heals_when_its_head_is_lost(tmp_path, apart):
    assert healed(1, tmp_path, apart)["wrong"] == []


@pytest.mark.redis
@pytest.mark.slow
def test_a_cluster_heals_however_often_its_head_is_lost(tmp_path, apart, record_property):
    found = healed(10, tmp_path, apart)
    record_property("survived", f"lost heads, with a Redis: {found['times']} survived")
    assert found["wrong"] == []
