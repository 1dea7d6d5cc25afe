"""Random histories of what Spark writes and reads by format."""

import pytest

import pkray
from pkray.spark.sink import STREAMS
from tests.spark.histories import History

QUICK, ALL = 4, 200

pytest.importorskip("pypaimon_rust.datafusion")
pytestmark = pytest.mark.skipif(not STREAMS, reason="streams by format came with Spark 4.1")


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=[pytest.mark.slow] if n >= QUICK else []) for n in range(ALL)]
)
def test_every_snapshot_is_what_was_written(tmp_path, seed):
    with pkray.connect(tmp_path) as catalog:
        history = History(seed, catalog)
        history.play(history.random.randint(3, 8))
