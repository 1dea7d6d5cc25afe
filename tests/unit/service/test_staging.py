import pyarrow as pa
import pytest

from pkray.errors import CorruptFileError, LostBatchesError
from pkray.service.client.spool import SpoolWriter, read_spool
from pkray.service.protocol import RoutedBatch, Slice
from pkray.service.staging import StagingArea


def batch(*values: int) -> RoutedBatch:
    rows = pa.record_batch({"id": pa.array(values, pa.int64())})
    return RoutedBatch(rows, (Slice(b"p", 0, 0, rows.num_rows),))


def ids(batches) -> list[int]:
    return [value for one in batches for value in one.rows.column("id").to_pylist()]


@pytest.fixture(params=[0, 1 << 20], ids=["spilled", "in memory"])
def staging(request, tmp_path) -> StagingArea:
    return StagingArea(str(tmp_path / "staging"), request.param)


def test_an_attempt_comes_back_in_order(staging):
    for index in range(5):
        staging.put((0, 0), index, batch(index, index + 10))
    assert ids(staging.take((0, 0))) == [0, 10, 1, 11, 2, 12, 3, 13, 4, 14]


def test_a_batch_delivered_three_times_counts_once(staging):
    for _ in range(3):
        staging.put((0, 0), 0, batch(1))
    staging.put((0, 0), 1, batch(2))
    staging.put((0, 0), 0, batch(1))
    assert ids(staging.take((0, 0))) == [1, 2]


def test_a_gap_is_reported(staging):
    staging.put((3, 1), 0, batch(1))
    with pytest.raises(LostBatchesError) as caught:
        staging.put((3, 1), 2, batch(3))
    assert (caught.value.source, caught.value.attempt, caught.value.expected) == (3, 1, 1)


def test_attempts_stay_apart(staging):
    staging.put((0, 0), 0, batch(1))
    staging.put((0, 1), 0, batch(2))
    assert ids(staging.take((0, 1))) == [2]


def test_clear_removes_spilled_files(tmp_path):
    staging = StagingArea(str(tmp_path / "staging"), 0)
    staging.put((0, 0), 0, batch(1))
    assert list((tmp_path / "staging").iterdir())
    staging.clear()
    assert not list((tmp_path / "staging").iterdir())


def test_a_spool_file_is_taken_over_once(tmp_path, staging):
    writer = SpoolWriter(tmp_path / "0-0-0.arrow")
    writer.append(batch(1))
    writer.append(batch(2))
    writer.close()
    staging.put_file((0, 0), 0, writer.path, 2)
    staging.put_file((0, 0), 0, writer.path, 2)
    assert ids(staging.take((0, 0))) == [1, 2]


def test_a_truncated_spool_file_names_itself(tmp_path):
    writer = SpoolWriter(tmp_path / "x.arrow")
    writer.append(batch(1))
    writer.close()
    data = (tmp_path / "x.arrow").read_bytes()
    (tmp_path / "x.arrow").write_bytes(data[: len(data) // 2])
    with pytest.raises(CorruptFileError, match=r"x\.arrow"):
        ids(read_spool(str(tmp_path / "x.arrow")))
