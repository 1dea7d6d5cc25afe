"""Raylets killed or stopped under a query: it goes on on another node, and loses nothing."""

import json
import os
import subprocess
import sys

import pytest

from tests.ray.conftest import WORKERS
from tests.ray.lost_nodes import MOST_SECONDS

pytestmark = [pytest.mark.ray, pytest.mark.slow]

TIMES = 10


@pytest.mark.parametrize("kind", ["killed", "stopped"])
def test_a_query_goes_on_elsewhere_when_its_node_is_lost(tmp_path, kind, record_property):
    places = [WORKERS, *sys.path]
    done = subprocess.run(
        [sys.executable, "-m", "tests.ray.lost_nodes", kind, str(TIMES), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))},
        stdout=subprocess.PIPE,
        text=True,
        timeout=TIMES * MOST_SECONDS * 2,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    said = f"the raylet {kind}: {found['times'] - len(found['wrong'])} of {found['times']} survived"
    record_property("survived", said)
    print(f"{said}, gone on after {found['seconds']} s")
    assert found["wrong"] == []
