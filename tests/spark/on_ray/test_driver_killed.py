"""The driver killed (-9) in mid-stream; the owners on Ray live on with what it had pushed."""

from pathlib import Path

import pytest
import ray

from tests.spark.streaming_driver import Driver
from tests.spark.tables import content, create, overlapping_files, run_stream


@pytest.mark.slow
@pytest.mark.parametrize("files", [8, 30])
def test_a_killed_driver_goes_on_with_the_same_owners(spark, catalog, tmp_path, files):
    # Spark may put two files in one batch then, in any order: the newer file's number decides.
    table = create(catalog, options={"sequence.field": "amount"})
    folder, expected = overlapping_files(tmp_path / "in", files)
    checkpoint = tmp_path / "checkpoint"
    cluster = {"runtime": "ray", "address": ray.get_runtime_context().gcs_address}
    Driver(Path(catalog.warehouse), folder, checkpoint, **cluster).kill_after(3, seconds=0.2)
    assert table.latest_snapshot().commit_identifier < files - 1

    run_stream(spark, folder, table, checkpoint)

    assert content(table).equals(expected)
    made = table.snapshots().select(["commit_kind", "commit_identifier"]).to_pylist()
    appended = [s["commit_identifier"] for s in made if s["commit_kind"] == "APPEND"]
    # Killed between its list of files and its list of offsets, Spark puts two files in one batch.
    assert appended == list(range(len(appended)))
    assert files - 1 <= len(appended) <= files
