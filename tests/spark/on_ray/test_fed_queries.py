"""A query in an actor, fed by Spark from this process; the actor killed (-9) in mid-stream."""

import os
import signal
import time

import pytest

import pkray
import pkray.spark
from tests.spark.tables import file_stream, overlapping_files

TOTALS = "SELECT name, COUNT(*) AS n, SUM(amount) AS total FROM clicks GROUP BY name"
FILES = 4


@pytest.mark.slow
def test_a_killed_actor_takes_each_micro_batch_once(spark, catalog, tmp_path):
    folder, _ = overlapping_files(tmp_path / "in", FILES, 100)
    relation = pkray.spark.relation(file_stream(spark, folder))
    catalog.create_view("clicks", relation, temporary=True)
    query = catalog.sql(TOTALS).materialize("db.totals")
    query.wait({"stream": 2}, timeout=120)
    process = query.status()["process"]
    assert process != os.getpid()
    os.kill(process, signal.SIGKILL)
    query.wait({"stream": FILES}, timeout=120)
    assert query.status()["streams"] == {"stream": "running"}

    query.stop()
    assert query.status()["streams"] == {"stream": "stopped"}
    found = catalog.load_table("db.totals").to_arrow().sort_by("name")
    assert found.select(["name", "n", "total"]).to_pylist() == [
        {"name": f"file-{number}", "n": 100, "total": 100.0 * number} for number in range(FILES)
    ]
    query.drop()


@pytest.mark.slow
def test_a_query_waits_for_the_program_that_feeds_it(spark, catalog, tmp_path):
    folder, _ = overlapping_files(tmp_path / "in", 2, 100)
    relation = pkray.spark.relation(file_stream(spark, folder))
    catalog.create_view("clicks", relation, temporary=True)
    query = catalog.sql(TOTALS).materialize("db.totals")
    query.wait({"stream": 2}, timeout=120)
    with pkray.connect(catalog.warehouse, runtime="ray") as other:
        seen = other.query("db.totals")
        assert seen.status()["streams"] == {"stream": "running"}
        seen.stop()
        deadline = time.monotonic() + 30
        while seen.status()["streams"] != {"stream": "stopped"} and time.monotonic() < deadline:
            time.sleep(0.1)
        assert seen.status()["streams"] == {"stream": "stopped"}
    query.drop()
