"""What tables do beyond the main job, with owners and coordinator as Ray actors."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pytest

import pkray
from tests.integration.readers import rows_of
from tests.ray.conftest import actors, end_pool
from tests.ray.signals import kill
from tests.waiting import wait_until

pytestmark = pytest.mark.ray

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])


@pytest.fixture(scope="module")
def shared(ray_cluster, tmp_path_factory):
    """A warehouse whose pool of workers all tests of this file use: to start one takes seconds."""
    runtime = {"owners": 2, "pool_workers": 2}
    warehouse = str(tmp_path_factory.mktemp("tables"))
    with pkray.connect(warehouse, runtime="ray", runtime_options=runtime) as catalog:
        yield catalog
        end_pool(catalog)


@pytest.fixture
def catalog(shared):
    yield shared
    for name in shared.list_tables():
        shared.drop_table(name)


def rows(ids: Iterable[int], value: int) -> pa.Table:
    ids = np.fromiter(ids, np.int64)
    return pa.table({"id": ids, "v": np.full(len(ids), value)}, schema=SCHEMA)


def commit(table, identifier: int, *parts: pa.Table) -> None:
    with table.open_writer("job") as writer:
        for part in parts:
            writer.upsert(part)
        writer.commit(commit_identifier=identifier)


def content(table) -> dict:
    return dict(rows_of(table.to_arrow(), ["id"]))


DEDICATED = {"service.dedicated": "true"}


def create(catalog, **options: str):
    named = {key.replace("_", "-"): value for key, value in options.items()}
    return catalog.create_table("db.t", SCHEMA, ["id"], options=named)


def actors_of(table) -> set[str]:
    return {name for name in actors() if name.startswith(f"pkray-{table.location.fingerprint}-")}


def test_dynamic_buckets_outlive_their_owners(catalog):
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "300"}
    table = catalog.create_table("db.t", SCHEMA, ["id"], options=options)
    commit(table, 1, rows(range(1000), 1))
    with table.open_writer("job") as writer:
        writer.upsert(rows(range(500, 1500), 2))
        for owner in table.service_stats()["owners"]:
            kill(owner["pid"])
        writer.upsert(rows(range(1400, 1600), 3))
        writer.commit(commit_identifier=2)
    model = {
        **dict.fromkeys(range(500), 1),
        **dict.fromkeys(range(500, 1400), 2),
        **dict.fromkeys(range(1400, 1600), 3),
    }
    assert content(table) == model
    assert len(set(table.files()["bucket"].to_pylist())) > 4
    found = table.lookup(pa.table({"id": [0, 700, 1599, 9999]}), visibility="committed")
    assert found.to_pylist() == [{"id": 0, "v": 1}, {"id": 700, "v": 2}, {"id": 1599, "v": 3}]


def test_a_dedicated_compaction_runs_as_ray_tasks(catalog):
    table = create(catalog, bucket="4", write_only="true")
    for number in range(6):
        commit(table, number, rows(range(number * 10, 200), number))
    before = content(table)
    assert set(table.files()["level"].to_pylist()) == {0}
    report = table.compact_dedicated(full=True)
    assert report.compacted == 4
    assert set(table.files()["level"].to_pylist()) == {5}
    assert content(table) == before


def test_a_lookup_changelog_is_complete_after_an_owner_was_killed(catalog):
    table = create(catalog, bucket="2", changelog_producer="lookup")
    commit(table, 1, rows(range(100), 1))
    kill(table.service_stats()["owners"][0]["pid"])
    commit(table, 2, rows(range(50, 150), 2))
    state: dict = {}
    for change in table.changelog().to_pylist():
        if change["_row_kind"] in ("-U", "-D"):
            assert state.pop(change["id"]) == change["v"]
        else:
            assert change["id"] not in state
            state[change["id"]] = change["v"]
    assert state == content(table)


def test_owners_follow_a_change_of_the_columns(catalog):
    table = create(catalog, bucket="2")
    commit(table, 1, rows(range(10), 1))
    table.alter.add_column("note", "STRING")
    table.upsert([{"id": 3, "v": 4, "note": "new"}], commit_user="job", commit_identifier=2)
    found = table.lookup([{"id": 2}, {"id": 3}])
    assert found.to_pylist() == [{"id": 2, "v": 1, "note": None}, {"id": 3, "v": 4, "note": "new"}]


def test_a_renamed_table_gets_owners_of_its_new_name(catalog):
    commit(create(catalog), 1, rows([1], 7))
    catalog.rename_table("db.t", "db.renamed")
    renamed = catalog.load_table("db.renamed")
    commit(renamed, 2, rows([2], 8))
    assert renamed.lookup_prefix([{"id": 1}, {"id": 2}])["v"].to_pylist() == [7, 8]
    log = catalog.load_table("db.renamed$audit_log").to_arrow(["rowkind", "id"])
    assert log.to_pydict() == {"rowkind": ["+I", "+I"], "id": [1, 2]}


def test_rows_are_spread_over_more_buckets(catalog):
    table = create(catalog, bucket="2")
    commit(table, 1, rows(range(400), 1))
    table.rescale(5)
    commit(table, 2, rows(range(300, 500), 2))
    assert set(table.files()["bucket"].to_pylist()) == set(range(5))
    assert content(table) == {**dict.fromkeys(range(300), 1), **dict.fromkeys(range(300, 500), 2)}
    assert table.lookup([{"id": 10}, {"id": 450}])["v"].to_pylist() == [1, 2]


def test_a_rollback_is_noticed_by_the_owners(catalog):
    table = create(catalog, bucket="2")
    commit(table, 1, rows(range(10), 1))
    first = table.latest_snapshot().id
    commit(table, 2, rows(range(10), 2))
    table.rollback_to(first)
    wait_until(lambda: table.lookup([{"id": 5}])["v"].to_pylist() == [1])
    commit(table, 3, rows(range(5, 12), 3))
    assert content(table) == {**dict.fromkeys(range(5), 1), **dict.fromkeys(range(5, 12), 3)}


def test_a_branch_has_owners_of_its_own(catalog):
    table = create(catalog, bucket="2")
    commit(table, 1, rows(range(10), 1))
    table.tags.create("v1")
    table.branches.create("b", tag="v1")
    commit(table.branch("b"), 2, rows(range(3), 9))
    assert content(table) == dict.fromkeys(range(10), 1)
    branch = pkray.connect(catalog.warehouse, runtime="ray").load_table("db.t$branch_b")
    assert content(branch) == {**dict.fromkeys(range(3), 9), **dict.fromkeys(range(3, 10), 1)}


def test_a_table_dropped_by_a_process_that_never_used_it_leaves_no_actors(catalog):
    table = create(catalog, bucket="2", **DEDICATED)
    commit(table, 1, rows(range(10), 1))
    assert len(actors_of(table)) == 3  # two owners and the coordinator
    with pkray.connect(catalog.warehouse, runtime="ray") as other:
        other.drop_table("db.t")
    wait_until(lambda: not actors_of(table))


@pytest.mark.slow
def test_the_next_owner_of_any_table_removes_what_killed_ones_left(ray_cluster, tmp_path):
    import psutil
    import ray

    def folders() -> set[str]:
        return {path.name for path in (tmp_path / "local/owners").iterdir() if path.is_dir()}

    runtime = {"owners": 1, "local_directory": tmp_path / "local"}
    with pkray.connect(tmp_path / "wh", runtime="ray", runtime_options=runtime) as catalog:
        before = actors()
        old = create(catalog, **DEDICATED)
        commit(old, 1, rows(range(100), 1))
        left = folders()
        assert len(left) == 1
        (owner,) = old.service_stats()["owners"]
        process = psutil.Process(int(str(owner["pid"])))
        for name in sorted(actors() - before):  # as a cluster that is stopped does
            ray.kill(ray.get_actor(name, "pkray"))
        process.wait(30)
        commit(
            catalog.create_table("db.u", SCHEMA, ["id"], options=DEDICATED), 1, rows(range(1), 1)
        )
        assert len(folders()) == 1
        assert not folders() & left
        catalog.drop_table("db.u")


def test_a_new_coordinator_goes_by_the_owners_that_live(catalog, ray_cluster):
    import ray

    from pkray.service.ray.actors import NAMESPACE, coordinator_name

    table = create(catalog, bucket="8", **DEDICATED)
    commit(table, 1, rows(range(100), 1))
    ray.kill(ray.get_actor(coordinator_name(table.location), NAMESPACE), no_restart=True)
    warehouse = str(table.location.url).rsplit("/db.db", 1)[0]
    with pkray.connect(warehouse, runtime="ray", runtime_options={"owners": 4}) as other:
        theirs = other.load_table("db.t")
        commit(theirs, 2, rows(range(50, 150), 2))
        assert len(theirs.service_stats()["owners"]) == 2
        found = theirs.lookup([{"id": i} for i in range(150)]).column("v").to_pylist()
    assert found == [1] * 50 + [2] * 100
