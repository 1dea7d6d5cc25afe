"""BranchHistories that take their table's place."""

import pytest
from history_samples import (
    DyingStore,
    Killed,
    content,
    contents,
    copy_of,
    create,
    data_files,
    files_of,
    named_files,
    now,
    put,
    root,
)

import pkray
from pkray.errors import ServiceUnavailableError, TableError
from pkray.expiration.branches import BranchHistories
from pkray.format import paths

SECOND = {0: "main", 1: "main", 100: "turn 1"}
THIRD = {0: "main", 1: "main", 2: "main", 100: "turn 2"}


def test_fast_forward_makes_the_table_what_the_branch_is(table, warehouse):
    table.branches.create("b", tag="second")
    branch = table.branch("b")
    put(branch, {9: "one"})
    branch.tags.create("own")
    put(branch, {9: "two"})
    assert table.branches.fast_forward("b").id == 4
    assert contents(warehouse) == {
        1: {0: "main", 100: "turn 0"},
        2: SECOND,
        3: SECOND | {9: "one"},
        4: SECOND | {9: "two"},
    }
    assert table.tags.list()["tag_name"].to_pylist() == ["own", "second"]
    assert put(table, {10: "on"}) == 5
    put(branch, {11: "apart"})
    assert content(table) == SECOND | {9: "two", 10: "on"}
    assert content(branch) == SECOND | {9: "two", 11: "apart"}
    before = named_files(root(warehouse))
    table.branches.fast_forward("b")
    assert now(warehouse) == SECOND | {9: "two", 11: "apart"}
    gone = before - named_files(root(warehouse))
    assert len(gone) == 1
    assert not gone & data_files(warehouse)


def test_fast_forward_of_a_branch_that_began_without_rows(table, warehouse):
    table.branches.create("b")
    put(table.branch("b"), {1: "alone"})
    table.branches.fast_forward("b")
    assert contents(warehouse) == {1: {1: "alone"}}
    assert table.tags.list().num_rows == 0


def test_fast_forward_needs_snapshots(table):
    table.branches.create("b")
    with pytest.raises(TableError, match="no snapshots"):
        table.branches.fast_forward("b")
    assert content(table) == THIRD


def test_fast_forward_takes_the_schema_over(table, catalog, warehouse):
    table.branches.create("b", tag="second")
    branch = table.branch("b")
    branch.alter.add_column("w", "INT")
    branch = table.branch("b")
    put(branch, {9: "wide"})
    table.branches.fast_forward("b")
    assert catalog.load_table("db.t").to_arrow(filter="k = 9").to_pylist() == [
        {"k": 9, "v": "wide", "w": None}
    ]


def test_the_tables_service_does_not_outlive_columns_that_a_branch_replaced(table, warehouse):
    table.branches.create("b", tag="second")
    table.alter.drop_column("v")
    table.alter.add_column("other", "INT")
    with table.open_writer() as writer:
        writer.upsert([{"k": 1, "other": 1}])
        table.branches.fast_forward("b")
        with pytest.raises(ServiceUnavailableError):
            writer.commit()
    assert content(table) == SECOND
    assert table.lookup([{"k": 1}]).to_pylist() == [{"k": 1, "v": "main"}]
    table.alter.add_column("w", "INT")
    put(table, {5: "after"})
    assert now(warehouse) == SECOND | {5: "after"}


def test_writers_go_on_where_a_branch_has_the_tables_columns(table, warehouse):
    table.branches.create("b", tag="second")
    put(table.branch("b"), {9: "branch"})
    with table.open_writer() as writer:
        writer.upsert([{"k": 1, "v": "written before"}])
        table.branches.fast_forward("b")
        writer.commit()
    assert now(warehouse) == SECOND | {9: "branch", 1: "written before"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("beginning", ["second", None, "rolled back", "old", "expired"])
def test_fast_forward_killed_at_every_step(table, warehouse, beginning):
    table.branches.create("b", tag=None if beginning is None else "second")
    branch = table.branch("b")
    put(branch, {9: "one"})
    put(branch, {9: "two"})
    if beginning == "rolled back":  # below where the branch began
        table.rollback_to(snapshot_id=1)
    if beginning == "old":  # where the branch began has expired
        root(warehouse).delete([paths.snapshot(1), paths.snapshot(2)])
    if beginning == "expired":  # and in the branch
        put(table, {8: "beside"})
        branch.expire_snapshots(retain_max=1, retain_min=1)
    goal = contents(warehouse, "db.t$branch_b")
    own = contents(warehouse)
    files = files_of(warehouse)
    step = 0
    while True:
        step += 1
        copy = copy_of(files)
        try:
            BranchHistories(DyingStore(root(copy), [step]), "db.t").fast_forward("b")
        except Killed:
            found = contents(copy)
            assert found
            for number, rows in found.items():
                assert rows in (own.get(number), goal.get(number))
            assert now(copy) == found[max(found)]
            assert now(copy, "db.t$branch_b") == goal[max(goal)]
            BranchHistories(root(copy), "db.t").fast_forward("b")
            assert now(copy) == goal[max(goal)]
            continue
        break
    assert step > 5
    found = contents(copy)
    assert found.items() >= goal.items()
    assert sorted(found) == list(range(min(found), max(found) + 1))


def test_tags_of_before_and_of_beside_a_branch_that_took_over_keep_their_files(tmp_path):
    create(tmp_path, **{"num-sorted-run.compaction-trigger": "20", "manifest.merge-min-count": "2"})
    with pkray.connect(str(tmp_path)) as catalog:
        table = catalog.load_table("db.t")
        put(table, {1: "shared"})
        table.tags.create("before")
        table.branches.create("b", tag="before")
        branch = table.branch("b")
        for number in range(4):
            put(branch, {2: f"branch {number}"})
        branch.compact()  # the shared file goes from the branch
        put(branch, {3: "branch"})
        put(branch, {4: "branch"})
        put(table, {5: "beside"})
        table.compact()  # and from the table, at another snapshot
        table.tags.create("beside")
        branch.tags.delete("before")
        branch.expire_snapshots(retain_max=4, retain_min=4)
        tagged = {name: content(table, tag=name) for name in ("before", "beside")}
        table.branches.fast_forward("b")
        table.branches.delete("b")
        put(table, {9: "after"})
        table.expire_snapshots(retain_max=1, retain_min=1)
        assert {name: content(table, tag=name) for name in tagged} == tagged


def test_a_branch_whose_beginning_expired_leaves_nothing_beside_it(tmp_path):
    create(tmp_path)
    with pkray.connect(str(tmp_path)) as catalog:
        table = catalog.load_table("db.t")
        put(table, {1: "before"})
        table.tags.create("before")
        put(table, {1: "shared"})
        table.tags.create("second")
        table.branches.create("b", tag="second")
        catalog.load_table("db.t$branch_b").alter.add_column("w", "INT")
        branch = table.branch("b")
        put(branch, {2: "branch"})
        branch.alter.rename_column("w", "x")
        put(branch, {3: "branch"})
        branch.expire_snapshots(retain_max=1, retain_min=1)
        table.alter.add_column("own", "STRING")
        put(table, {9: "beside"})
        table.tags.create("beside")
        table.branches.fast_forward("b")
        assert contents(tmp_path) == {4: {1: "shared", 2: "branch", 3: "branch"}}
        found = catalog.load_table("db.t").to_arrow(filter="k = 2").to_pylist()
        assert found == [{"k": 2, "v": "branch", "x": None}]
        assert table.tags.list()["tag_name"].to_pylist() == ["before", "second"]
        assert content(table, tag="before") == {1: "before"}
        assert table.remove_orphan_files(older_than=1 << 50, dry_run=True).num_rows == 0


def test_a_table_that_went_on_below_the_beginning_of_a_branch_gives_way(table, warehouse):
    table.tags.create("third", 3)
    table.branches.create("b", tag="third")
    put(table.branch("b"), {9: "branch"})
    table.rollback_to(snapshot_id=1)
    table.alter.add_column("own", "INT")
    put(table, {8: "beside"})
    table.branches.fast_forward("b")
    assert contents(warehouse) == {3: THIRD, 4: THIRD | {9: "branch"}}


def test_a_table_that_was_rolled_back_below_the_beginning_of_a_branch_keeps_that(table, warehouse):
    table.branches.create("b", tag="second")
    table.rollback_to(snapshot_id=1)
    table.branches.fast_forward("b")
    assert contents(warehouse) == {1: {0: "main", 100: "turn 0"}, 2: SECOND}
