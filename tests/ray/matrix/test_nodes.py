"""Whoever is lost at whichever moment on a cluster of three nodes, the tables lose nothing."""

import json
import subprocess
import sys
import tempfile

import pytest

from tests.faults.matrix.cells import CELLS

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.redis]

SECONDS = 180
"""A cell, at most."""
OFTEN = [("node killed", "commit"), ("head killed", "commit"), ("coordinator killed", "commit")]
TIMES = 10


def played(folder: str, *arguments: str, cells: int) -> list[dict]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.ray.matrix.nodes", folder, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        timeout=cells * SECONDS,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="pk-", dir="/tmp") as folder:  # sockets: 107 bytes
        yield folder


@pytest.mark.timeout(len(CELLS) * SECONDS)
def test_nothing_is_lost_in_any_cell(folder):
    told = played(folder, cells=len(CELLS))
    assert told[-1] == {"played": len(CELLS), "wrong": []}


@pytest.mark.timeout(TIMES * SECONDS)
@pytest.mark.parametrize(("row", "column"), OFTEN)
def test_nothing_is_lost_however_often(folder, row, column):
    told = played(folder, row, column, str(TIMES), cells=TIMES)
    assert told[-1] == {"played": TIMES, "wrong": []}
