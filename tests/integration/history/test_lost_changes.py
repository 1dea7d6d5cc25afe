"""Changes whose snapshots have expired, come back by tags, or gave way to a branch."""

from pathlib import Path

import pytest
from history_samples import create, put, root

import pkray
from pkray.errors import MissingFileError, SnapshotNotFoundError
from pkray.metadata.changelogs import ChangelogStore

INPUT = {"changelog-producer": "input", "num-sorted-run.compaction-trigger": "20"}
OUTLIVING = {"changelog.num-retained.max": "30", "changelog.num-retained.min": "20"}


@pytest.fixture
def warehouse(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Four snapshots, the first three expired but for their changelogs; 2 has a tag."""
    create(tmp_path, **getattr(request, "param", INPUT))
    with pkray.connect(str(tmp_path)) as catalog:
        table = catalog.load_table("db.t")
        for turn in range(4):
            put(table, {1: f"turn {turn}"})
        table.tags.create("second", 2)
        table.expire_snapshots(retain_max=1, retain_min=1)
    return tmp_path


def ids(table: pkray.Table, **arguments: bool) -> list[int]:
    return table.changelog(**arguments)["_snapshot_id"].to_pylist()


def gone_back(table: pkray.Table, way: str) -> pkray.Table:
    if way == "branch":
        table.branches.create("b", tag="second")
        return table.branch("b")
    table.rollback_to(tag="second")
    return table


@pytest.mark.parametrize("way", ["branch", "rollback"])
def test_a_snapshot_that_came_back_by_a_tag_has_no_changes_any_more(table, way):
    found = gone_back(table, way)
    assert ids(found) == []
    with pytest.raises(SnapshotNotFoundError, match="never made"):
        found.changelog(9, 9)
    put(found, {1: "new"})
    assert ids(found) == [3]
    assert ids(found, normalize=True) == [3, 3]
    assert found.changes(2, 3).num_rows == 1
    for read in (
        lambda: found.changelog(from_snapshot=2),
        lambda: found.changes(1, 3),
        lambda: list(found.stream(from_snapshot=2, until_snapshot=3)),
    ):
        with pytest.raises(SnapshotNotFoundError, match="came back"):
            read()


def test_a_changelog_that_is_lost_otherwise_is_damage(table):
    put(table, {1: "five"})
    newest = table.latest_snapshot()
    root_of_table = table.location.open()
    root_of_table.delete(f"manifest/{newest.changelog_manifest_list}")
    with pytest.raises(MissingFileError):
        table.changelog()


@pytest.mark.parametrize("warehouse", [OUTLIVING], indirect=True)
def test_normalised_changes_begin_where_snapshots_do(table):
    put(table, {1: "five"})
    assert ids(table) == [1, 2, 3, 4, 5]
    assert ids(table, normalize=True) == [5, 5]


@pytest.mark.parametrize("warehouse", [OUTLIVING, {**INPUT, **OUTLIVING}], indirect=True)
def test_a_snapshot_that_came_back_by_a_tag_has_its_own_changes_again(table, warehouse):
    changelogs = ChangelogStore(root(warehouse))
    assert changelogs.ids() == [1, 2, 3]
    gone_back(table, "rollback")
    assert changelogs.ids() == [1]
    assert ids(table) == [1, 2]
    put(table, {1: "new"})
    assert table.changelog()["v"].to_pylist() == ["turn 0", "turn 1", "new"]
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert changelogs.ids() == [1, 2]
    assert table.changelog()["v"].to_pylist() == ["turn 0", "turn 1", "new"]
    assert table.remove_orphan_files(older_than=1 << 50, dry_run=True)["path"].to_pylist() == []


@pytest.mark.parametrize("warehouse", [OUTLIVING], indirect=True)
@pytest.mark.parametrize("tag", ["second", None])
def test_a_branch_that_takes_the_tables_place_ends_its_changelogs(table, warehouse, tag):
    table.branches.create("b", tag=tag)
    branch = table.branch("b")
    last = put(branch, {1: "branch"})
    table.branches.fast_forward("b")
    assert ChangelogStore(root(warehouse)).ids() == ([1] if tag else [])
    assert ids(table) == list(range(1, last + 1))
    assert table.changelog()["v"].to_pylist()[-1] == "branch"
    with pytest.raises(SnapshotNotFoundError):
        table.changelog(last + 1, last + 1)


@pytest.mark.parametrize("way", ["rollback", "fast-forward"])
def test_files_that_expired_snapshots_added_go_with_the_last_that_has_them(table, way):
    table.branches.create("b", tag="second")
    if way == "rollback":
        table.rollback_to(tag="second")
    else:
        put(table.branch("b"), {2: "branch"})
        put(table, {3: "after"})
        table.expire_snapshots(retain_max=1, retain_min=1)
        table.branches.fast_forward("b")
    assert table.remove_orphan_files(older_than=1 << 50, dry_run=True)["path"].to_pylist() == []
