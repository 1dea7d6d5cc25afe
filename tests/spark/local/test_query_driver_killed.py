"""The driver that feeds a query, and with it the query, killed (-9) in mid-stream."""

import pytest

import pkray
from tests.spark.query_driver import Driver
from tests.spark.tables import overlapping_files


@pytest.mark.slow
@pytest.mark.parametrize(("files", "kills"), [(9, [3]), (24, [2, 4, 3])])
def test_a_killed_driver_feeds_each_row_once(tmp_path, files, kills):
    warehouse = tmp_path / "warehouse"
    folder, _ = overlapping_files(tmp_path / "in", files)
    for epochs in kills:
        Driver(warehouse, folder, "changes").kill_after(epochs)
    Driver(warehouse, folder, "available_now").wait()
    with pkray.connect(str(warehouse)) as catalog:
        totals = catalog.load_table("db.totals").to_arrow().to_pylist()
        found = {row["name"]: (row["n"], row["total"]) for row in totals}
    assert found == {f"file-{each}": (500, 500.0 * each) for each in range(files)}
    assert len(totals) == files
