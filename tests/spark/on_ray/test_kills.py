"""An owner, the coordinator and an executor are killed (-9) in the middle of the main job."""

import pytest

import pkray.spark
from tests.spark.on_ray.halting import Halt, expected, kill, kill_coordinator, kill_owners
from tests.spark.tables import SCHEMA, content, create, rows, spark_rows


@pytest.fixture
def halt(tmp_path):
    return Halt(tmp_path / "halt")


@pytest.fixture
def table(catalog):
    """A table with a commit, so that its owners run."""
    table = create(catalog)
    with table.open_writer("before") as writer:
        writer.upsert(rows((1, "old", 0.0), (10**9, "stays", 0.0)))
        writer.commit()
    return table


def check(spark, table):
    """Nothing lost, nothing doubled: one row a key, each as the job has it."""
    stays = spark.createDataFrame(rows((10**9, "stays", 0.0)))
    assert content(table).equals(spark_rows(expected(spark).union(stays)).cast(SCHEMA))
    commits = table.snapshots().column("commit_user").to_pylist()
    assert commits.count("job") == len({*commits} & {"job"})


def run(spark, table, halt, action):
    killer = halt.during(action)
    snapshot = pkray.spark.ingest(halt.rows(spark), table, commit_user="job", commit_identifier=1)
    killer.result()
    return snapshot


@pytest.mark.slow
def test_the_coordinator_killed(spark, table, halt):
    run(spark, table, halt, lambda executor: kill_coordinator(table))
    check(spark, table)


@pytest.mark.slow
def test_an_executor_killed(spark, table, halt):
    run(spark, table, halt, kill)
    check(spark, table)


@pytest.mark.slow
def test_owners_killed_and_the_job_again_change_nothing(spark, table, halt):
    snapshot = run(spark, table, halt, lambda executor: kill_owners(table))
    assert snapshot.commit_user == "job"
    check(spark, table)
    kill_owners(table)
    again = pkray.spark.ingest(
        expected(spark).limit(5), table, commit_user="job", commit_identifier=1
    )
    assert again.id == snapshot.id
    check(spark, table)
