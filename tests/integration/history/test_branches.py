import pickle

import pytest
from history_samples import (
    DyingStore,
    Killed,
    content,
    contents,
    copy_of,
    data_files,
    files_of,
    named_files,
    now,
    put,
    root,
)

from pkray.errors import BranchExistsError, BranchNotFoundError, TableError, TagNotFoundError
from pkray.expiration.branches import BranchHistories
from pkray.format import paths
from pkray.metadata.snapshots import SnapshotStore
from pkray.storage.branch_store import BranchStore

SECOND = {0: "main", 1: "main", 100: "turn 1"}
THIRD = {0: "main", 1: "main", 2: "main", 100: "turn 2"}


def test_a_branch_begins_with_a_tag(table):
    table.branches.create("b", tag="second")
    branch = table.branch("b")
    assert content(branch) == SECOND
    assert branch.snapshots()["snapshot_id"].to_pylist() == [2]
    assert branch.name == "db.t$branch_b"
    assert content(branch, tag="second") == SECOND


def test_a_branch_without_a_tag_has_the_columns_and_no_rows(table):
    table.branches.create("b")
    branch = table.branch("b")
    assert branch.latest_snapshot() is None
    assert branch.arrow_schema == table.arrow_schema
    assert put(branch, {7: "own"}) == 1
    assert content(branch) == {7: "own"}
    assert content(table) == THIRD


def test_both_go_their_own_ways(table, catalog, warehouse):
    table.branches.create("b", tag="second")
    branch = catalog.load_table("db.t$branch_b")
    assert put(branch, {0: "branch", 9: "new"}) == 3
    branch.compact()
    put(table, {5: "main"})
    table.compact()
    assert content(branch) == SECOND | {0: "branch", 9: "new"}
    assert content(table) == THIRD | {5: "main"}
    assert now(warehouse, "db.t$branch_b") == content(branch)
    keys = [{"k": 0}, {"k": 9}, {"k": 5}]
    for visibility in ("latest", "committed"):
        found = branch.lookup(keys, visibility=visibility)
        assert found.to_pylist() == [{"k": 0, "v": "branch"}, {"k": 9, "v": "new"}]
        found = table.lookup(keys, visibility=visibility)
        assert found.to_pylist() == [{"k": 0, "v": "main"}, {"k": 5, "v": "main"}]


def test_files_of_a_branch_lie_among_the_tables(table, warehouse):
    table.branches.create("b", tag="second")
    put(table.branch("b"), {9: "new"})
    folders = {path.path.rsplit("/", 1)[0] for path in root(warehouse).list("branch")}
    assert folders == {f"branch/branch-b/{name}" for name in ("schema", "snapshot", "tag")}


def test_a_branch_can_be_rolled_back_and_tagged(table, warehouse):
    table.branches.create("b", tag="second")
    branch = table.branch("b")
    put(branch, {9: "new"})
    branch.tags.create("own")
    put(branch, {9: "newer"})
    branch.rollback_to(tag="own")
    assert content(branch) == SECOND | {9: "new"}
    assert content(table) == THIRD
    assert table.tags.list()["tag_name"].to_pylist() == ["second"]
    assert data_files(warehouse) == named_files(root(warehouse)) | named_files(
        branch.location.open()
    )


def test_names(table, catalog):
    table.branches.create("b")
    for name in ("", " ", "main", "123", "a/b", "a$b"):
        with pytest.raises(TableError, match="no name of a branch"):
            table.branches.create(name)
    with pytest.raises(BranchExistsError, match="branch 'b'"):
        table.branches.create("b", tag="second")
    with pytest.raises(TagNotFoundError):
        table.branches.create("c", tag="third")
    for call in (
        table.branch,
        table.branches.delete,
        table.branches.fast_forward,
        lambda name: catalog.load_table(f"db.t$branch_{name}"),
    ):
        with pytest.raises(BranchNotFoundError, match="its branches are b"):
            call("c")
    assert table.branches.list()["branch_name"].to_pylist() == ["b"]
    assert content(table.branch("main")) == content(table)
    assert catalog.load_table("db.t$branch_main").name == "db.t"


def test_a_branch_is_not_dropped_as_a_table(table, catalog):
    table.branches.create("b", tag="second")
    with pytest.raises(TableError, match="is a branch"):
        catalog.drop_table("db.t$branch_b")
    with pytest.raises(TableError, match="is a branch"):
        catalog.create_table("db.t$branch_c", [("k", "INT")], ["k"])
    assert content(table.branch("b")) == SECOND
    assert catalog.list_tables() == ["db.t"]


def test_a_deleted_branch_takes_its_own_files_along(table, warehouse):
    before = {file.path for file in root(warehouse).list()}
    table.branches.create("b", tag="second")
    branch = table.branch("b")
    put(branch, {9: "new"})
    branch.compact()
    table.branches.delete("b")
    assert {file.path for file in root(warehouse).list()} == before
    assert root(warehouse).list_dirs(paths.BRANCH_DIR) == []
    assert contents(warehouse)[3] == THIRD
    table.branches.create("b")
    assert content(table.branch("b")) == {}


def test_creation_killed_at_every_step_leaves_no_half_branch(table, warehouse):
    table.alter.add_column("w", "INT")
    put(table, {4: "wide"})
    table.tags.create("wide")
    whole = content(table)
    files = files_of(warehouse)
    for step in range(1, 6):
        copy = copy_of(files)
        try:
            BranchHistories(DyingStore(root(copy), [step]), "db.t").create("b", "wide")
        except Killed:
            if BranchHistories(root(copy), "db.t").exists("b"):
                assert SnapshotStore(root(copy).child(paths.branch("b"))).ids() == [4]
            BranchHistories(root(copy), "db.t").create("b", "wide")
        assert now(copy, "db.t$branch_b") == whole
        assert len(list(root(copy).child(paths.branch("b")).list("schema"))) == 2


def test_an_unfinished_creation_is_no_start_of_another(warehouse):
    with pytest.raises(Killed):
        BranchHistories(DyingStore(root(warehouse), [3]), "db.t").create("b", "second")
    assert BranchHistories(root(warehouse), "db.t").names() == []
    BranchHistories(root(warehouse), "db.t").create("b")
    assert now(warehouse, "db.t$branch_b") == {}


def test_deletion_killed_at_every_step(table, warehouse):
    table.branches.create("b", tag="second")
    put(table.branch("b"), {9: "new"})
    files = files_of(warehouse)
    for step in range(1, 8):
        copy = copy_of(files)
        with pytest.raises(Killed):
            BranchHistories(DyingStore(root(copy), [step]), "db.t").delete("b")
        assert contents(copy)[3] == THIRD
        branches = BranchHistories(root(copy), "db.t")
        if step == 1:
            assert branches.names() == ["b"]
        else:
            assert branches.names() == []
            branches.create("b", "second")
            assert now(copy, "db.t$branch_b") == SECOND


def test_a_branch_store_shows_its_own_metadata_above_the_tables_files(tmp_path):
    main = root(tmp_path)
    store = BranchStore(main, "b")
    main.write("snapshot/snapshot-1", b"main")
    main.write("bucket-0/data", b"shared")
    assert not store.exists("snapshot/snapshot-1")
    assert store.create("snapshot/snapshot-1", b"own")
    assert store.read("snapshot/snapshot-1") == b"own"
    assert main.read("branch/branch-b/snapshot/snapshot-1") == b"own"
    assert main.read("snapshot/snapshot-1") == b"main"
    assert store.read("bucket-0/data") == b"shared"
    assert [file.path for file in store.list("snapshot")] == ["snapshot/snapshot-1"]
    assert [file.path for file in store.list("bucket-0")] == ["bucket-0/data"]
    store.delete(["snapshot/snapshot-1"])
    assert not store.exists("snapshot/snapshot-1")
    assert main.exists("snapshot/snapshot-1")
    same = pickle.loads(pickle.dumps(store))
    assert same == store != BranchStore(main, "c")
    assert store.location("snapshot/x").endswith("t/branch/branch-b/snapshot/x")


def test_expiry_of_either_spares_the_files_of_the_other(table, warehouse):
    table.branches.create("b", tag="second")
    branch = table.branch("b")
    table.tags.delete("second")
    put(branch, {9: "new"})
    branch.compact()
    branch.expire_snapshots(retain_max=1, retain_min=1)
    table.rollback_to(snapshot_id=2)
    assert contents(warehouse) == {1: {0: "main", 100: "turn 0"}, 2: SECOND}
    put(table, {3: "main"})
    table.compact()
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert contents(warehouse, "db.t$branch_b")[4] == SECOND | {9: "new"}
    assert content(branch, tag="second") == SECOND
    assert now(warehouse) == SECOND | {3: "main"}
