"""The total of a bank's accounts is the same at every snapshot, whatever is lost meanwhile."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pkray
from tests.ray import bank
from tests.ray.bank import Bank
from tests.ray.conftest import WORKERS, end_pool

pytestmark = pytest.mark.ray

SECONDS = 120
MINUTES = 20


def run(what: str, amount: int, folder: Path, seconds: float) -> dict[str, Any]:
    """Run a bank in a process of its own; give what it says last."""
    places = [WORKERS, *sys.path]
    done = subprocess.run(
        [sys.executable, "-m", "tests.ray.bank", what, str(amount), str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))},
        stdout=subprocess.PIPE,
        text=True,
        timeout=seconds,
        check=True,
    )
    print(done.stdout)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_the_total_stays_while_workers_are_killed(ray_cluster, tmp_path):
    chance = random.Random(4)
    with pkray.connect(tmp_path / "w", runtime="ray", runtime_options=bank.OPTIONS) as catalog:
        made = Bank(catalog)
        writers = made.run(4, lambda: bank.kill_worker(catalog, chance), 2)
        wrong = made.wrong(writers)
        made.query.drop()
        for name in catalog.list_tables():
            catalog.drop_table(name)
        end_pool(catalog)
    assert wrong == []
    assert made.checked > 4


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_total_stays_while_nodes_come_and_go(tmp_path, record_property):
    found = run("nodes", SECONDS, tmp_path, 1100)
    said = f"bank: {found['commits']} commits, {found['snapshots']} snapshots added up"
    record_property("survived", f"{said}, {found['nodes']} nodes lost")
    assert found["wrong"] == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_bank_takes_no_more_after_many_kills(tmp_path, record_property):
    found = run("soak", MINUTES, tmp_path, 3500)
    record_property("survived", f"bank: {found['commits']} commits, {MINUTES} kills")
    assert (found["wrong"], found["grown"]) == ([], [])
