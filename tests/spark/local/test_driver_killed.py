"""The driver, and with it the embedded owners and coordinator, killed (-9) in mid-stream."""

from pathlib import Path

import pytest

from tests.spark.streaming_driver import Driver
from tests.spark.tables import content, create, overlapping_files, run_stream


@pytest.mark.slow
@pytest.mark.parametrize(("files", "kills"), [(9, [3]), (16, [3, 4]), (30, [3, 4])])
def test_a_killed_driver_goes_on_from_its_checkpoint(spark, catalog, tmp_path, files, kills):
    # Spark may put two files in one batch then, in any order: the newer file's number decides.
    table = create(catalog, options={"sequence.field": "amount"})
    folder, expected = overlapping_files(tmp_path / "in", files)
    checkpoint = tmp_path / "checkpoint"
    for snapshots in kills:
        Driver(Path(catalog.warehouse), folder, checkpoint).kill_after(snapshots, seconds=0.3)
    before = table.latest_snapshot()
    assert before.commit_identifier < files - 1

    query = run_stream(spark, folder, table, checkpoint)

    assert content(table).equals(expected)
    made = table.snapshots().select(["commit_user", "commit_kind", "commit_identifier"]).to_pylist()
    appended = [s["commit_identifier"] for s in made if s["commit_kind"] == "APPEND"]
    # Killed between its list of files and its list of offsets, Spark puts two files in one batch.
    assert appended == list(range(len(appended)))
    assert files - 2 <= len(appended) <= files
    assert {s["commit_user"] for s in made} == {query.id}
