"""What `latest` sees of writers whose owners, or who themselves, are killed or stopped."""

import os
import time

import pyarrow as pa
import pytest

import pkray
from tests.ray.conftest import served
from tests.ray.signals import kill, stopped

pytestmark = pytest.mark.ray

COLUMNS = pa.schema([("id", pa.int64()), ("dt", pa.string()), ("v", pa.int64())])
KINDS = {
    "fixed": (["id"], [], {"bucket": "2"}),
    "dynamic": (["id", "dt"], ["dt"], {"bucket": "-1", "dynamic-bucket.target-row-num": "3"}),
    "crossing": (["id"], ["dt"], {"bucket": "-1"}),
}
ONE = pa.table({"id": [1]})


@pytest.fixture
def impatient(ray_cluster, tmp_path):
    """A catalog whose owners hold rows of silent writers for two seconds."""
    with served(tmp_path / "warehouse", owners=1, writer_lease=2) as catalog:
        yield catalog


@pytest.fixture
def elsewhere(ray_cluster, tmp_path):
    """A process that looks up and writes a table ``db.t``."""
    import ray

    warehouse = str(tmp_path / "warehouse")
    process = ray.remote(Elsewhere).remote()

    def call(method, *arguments):
        return ray.get(getattr(process, method).remote(warehouse, *arguments))

    yield call
    ray.kill(process)


class Elsewhere:
    def __init__(self):
        self.table = self.writer = None

    def write(self, warehouse, entries):
        self.writer = self.writer or self.open(warehouse).open_writer("elsewhere")
        self.writer.upsert([{"id": key, "dt": "a", "v": v} for key, v in entries.items()])
        return os.getpid()

    def commit(self, warehouse):
        self.writer.commit()

    def look(self, warehouse, key):
        return self.open(warehouse).lookup([{"id": key}])["v"].to_pylist()

    def seconds_until_seen(self, warehouse, key):
        """From when all owners answer again: the writer pushes to each."""
        self.wait_until_answered(warehouse)
        begun = time.monotonic()
        while not self.look(warehouse, key) and time.monotonic() < begun + 30:
            time.sleep(0.05)
        return time.monotonic() - begun

    def wait_until_answered(self, warehouse):
        """Look up until workers that take the place of others have started."""
        deadline = time.monotonic() + 120
        while True:
            try:
                return self.open(warehouse).lookup([{"id": each} for each in range(10)])
            except pkray.errors.ServiceUnavailableError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def open(self, warehouse):
        if self.table is None:
            options = {"writer_lease": 2}
            catalog = pkray.connect(warehouse, runtime="ray", runtime_options=options)
            self.table = catalog.load_table("db.t")
        return self.table


def kill_owner(table, index=0):
    kill(table.service_stats()["owners"][index]["pid"])


def wait_until_gone(table):
    begun = time.monotonic()
    while table.lookup(ONE).num_rows:
        assert time.monotonic() < begun + 60
        time.sleep(0.1)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", KINDS)
def test_latest_has_all_that_was_written_at_every_step_though_owners_are_killed(ray_catalog, kind):
    keys, partitions, options = KINDS[kind]
    table = ray_catalog.create_table("db.t", COLUMNS, keys, partitions, options=options)
    expected: dict = {}

    def see():
        found = table.lookup([{"id": key, "dt": "a"} for key in range(5)], columns=["id", "v"])
        assert {row["id"]: row["v"] for row in found.to_pylist()} == expected

    with table.open_writer("job") as writer:
        for step in range(2):
            entries = {step: step, 4: 10 + step}
            writer.upsert([{"id": key, "dt": "a", "v": v} for key, v in entries.items()])
            expected |= entries
            see()
            kill_owner(table, step)
            see()
        writer.commit(1)
        see()
    assert sorted(table.to_arrow(columns=["id", "v"]).to_pydict()["id"]) == [0, 1, 4]


@pytest.mark.slow
def test_other_processes_see_rows_again_soon_after_owners_were_killed(ray_catalog, elsewhere):
    table = ray_catalog.create_table("db.t", COLUMNS, ["id"], options={"bucket": "2"})
    with table.open_writer("job") as writer:
        writer.upsert([{"id": key, "dt": "a", "v": 7} for key in range(10)])
        assert elsewhere("look", 1) == [7]
        for owner in (0, 1):
            kill_owner(table, owner)
        assert elsewhere("seconds_until_seen", 1) < 20


def test_rows_of_a_killed_writer_leave_latest(impatient, elsewhere):
    table = impatient.create_table("db.t", COLUMNS, ["id"], options={"bucket": "1"})
    pid = elsewhere("write", {1: 7})
    time.sleep(3)
    assert table.lookup(ONE)["v"].to_pylist() == [7], "its heartbeat holds them"
    kill(pid)
    wait_until_gone(table)


@pytest.mark.slow
def test_a_writer_that_was_stopped_for_longer_than_its_lease_goes_on(impatient, elsewhere):
    table = impatient.create_table("db.t", COLUMNS, ["id"], options={"bucket": "1"})
    pid = elsewhere("write", {1: 7})
    with stopped(pid):
        wait_until_gone(table)
    assert elsewhere("look", 1) == [7]
    elsewhere("commit")
    assert table.to_arrow()["v"].to_pylist() == [7]


def test_a_process_of_its_own_takes_over_from_a_writer_on_ray_and_back(ray_catalog, tmp_path):
    table = ray_catalog.create_table("db.t", COLUMNS, ["id"], options={"bucket": "1"})
    writer = table.open_writer("job")
    writer.upsert([{"id": 1, "dt": "a", "v": 1}])
    with pkray.connect(str(tmp_path / "warehouse")) as catalog:
        with catalog.load_table("db.t").open_writer("job") as newer:
            with pytest.raises(pkray.CommitFencedError, match="'job'"):
                writer.commit()
            writer.close()
            with table.open_writer("job") as newest:
                newest.commit()
                with pytest.raises(pkray.CommitFencedError, match="'job'"):
                    newer.commit()
