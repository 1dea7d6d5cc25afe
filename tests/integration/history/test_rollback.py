import shutil
from pathlib import Path

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
    schema,
)

import pkray
from pkray import errors
from pkray.commit.committer import Committer
from pkray.expiration.expiry import SnapshotExpirer
from pkray.expiration.retention import Retention
from pkray.expiration.rollback import Rollback
from pkray.format import paths
from pkray.format.snapshot import replace
from pkray.format.tag import Tag, encode
from pkray.metadata.snapshots import SnapshotStore
from pkray.metadata.tags import TagStore

OPTIONS = {"changelog_producer": "input", "num_sorted_run.compaction_trigger": "3"}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """Seven commits; compactions between them, tags at some."""
    folder = tmp_path_factory.mktemp("template") / "warehouse"
    create(folder, **OPTIONS)
    with pkray.connect(str(folder)) as catalog:
        table = catalog.load_table("db.t")
        for turn in range(7):
            put(table, {turn: f"first of {turn}", 100: f"turn {turn}"})
            table.compact(full=False)
            if turn in (1, 3, 5):
                table.tags.create(f"turn-{turn}")
    return folder


@pytest.fixture
def warehouse(template, tmp_path):
    return Path(shutil.copytree(template, tmp_path / "warehouse"))


def ids(table):
    return table.snapshots()["snapshot_id"].to_pylist()


def tag_names(table):
    return table.tags.list()["tag_name"].to_pylist()


def test_the_snapshot_is_the_newest_again(warehouse, table):
    before = contents(warehouse)
    report = table.rollback_to(snapshot_id=5)
    assert ids(table) == [1, 2, 3, 4, 5]
    assert report.removed_snapshots == tuple(range(6, max(before) + 1))
    assert contents(warehouse) == {number: before[number] for number in range(1, 6)}
    assert root(warehouse).read(paths.LATEST_HINT) == b"5"


def test_tags_of_later_snapshots_go(table):
    tagged = table.tags.get("turn-3").snapshot.id
    report = table.rollback_to(snapshot_id=tagged)
    assert report.removed_tags == ("turn-5",)
    assert tag_names(table) == ["turn-1", "turn-3"]


def test_files_that_nothing_names_any_more_go(warehouse, table):
    report = table.rollback_to(tag="turn-3")
    assert report.deleted_files > 0
    assert data_files(warehouse) == named_files(root(warehouse))
    lists = {
        name
        for snapshot in SnapshotStore(root(warehouse)).all()
        for name in (
            snapshot.base_manifest_list,
            snapshot.delta_manifest_list,
            snapshot.changelog_manifest_list,
        )
        if name is not None
    }
    there = {f.path.rsplit("/", 1)[-1] for f in root(warehouse).list(paths.MANIFEST_DIR)}
    assert {name for name in there if name.startswith("manifest-list")} == lists


def test_a_file_that_only_moved_to_another_level_stays(tmp_path):
    create(tmp_path)
    with pkray.connect(str(tmp_path)) as catalog:
        table = catalog.load_table("db.t")
        put(table, {1: "a"})
        table.compact()  # one file: its level changes, its name does not
        moved = table.files()
        assert moved["level"].to_pylist() != [0]
        table.rollback_to(snapshot_id=1)
        assert content(table) == {1: "a"}


def test_the_files_of_a_branch_stay(warehouse, table):
    table.branches.create("b", tag="turn-5")
    before = content(table.branch("b"))
    table.rollback_to(tag="turn-1")
    assert content(table.branch("b")) == before
    assert data_files(warehouse) == named_files(root(warehouse)) | named_files(
        table.branch("b").location.open()
    )


def test_a_tag_brings_back_an_expired_snapshot(warehouse, table):
    tagged = content(table, tag="turn-3")
    number = table.tags.get("turn-3").snapshot.id
    expire(warehouse, keep=1)
    assert number not in ids(table)
    table.rollback_to(tag="turn-3")
    assert contents(warehouse) == {number: tagged}
    assert root(warehouse).read(paths.EARLIEST_HINT) == str(number).encode()
    assert put(table, {500: "on"}) == number + 1
    assert now(warehouse) == tagged | {500: "on"}


def test_where_to_go_back_to_is_said_once(table):
    with pytest.raises(errors.OptionError, match="give one of them"):
        table.rollback_to()
    with pytest.raises(errors.OptionError, match="give one of them"):
        table.rollback_to(3, "turn-1")
    with pytest.raises(errors.SnapshotNotFoundError, match="snapshot 99"):
        table.rollback_to(99)
    with pytest.raises(errors.TagNotFoundError, match="turn-1, turn-3, turn-5"):
        table.rollback_to(tag="turn-2")


def test_a_tag_without_fields_that_its_writer_did_not_know_is_of_its_snapshot(warehouse, table):
    target, there = content(table, snapshot_id=2), SnapshotStore(root(warehouse)).read(2)
    assert there.uuid
    left_out = replace(there, uuid=None, base_manifest_list_size=None)
    root(warehouse).write(paths.tag("other"), encode(Tag("other", left_out)))
    assert table.rollback_to(tag="other").snapshot == left_out
    assert content(table) == target


def test_a_tag_of_a_history_that_is_no_more_is_refused(warehouse, table):
    left = table.tags.get("turn-5")
    table.rollback_to(snapshot_id=2)
    root(warehouse).write(paths.tag("left"), encode(left))
    before = content(table)
    with pytest.raises(errors.TableError, match="was rolled back"):
        table.rollback_to(tag="left")
    assert content(table) == before


def test_a_writer_in_this_process_goes_on(table):
    writer = table.open_writer("w")
    writer.upsert([{"k": 1, "v": "kept in memory"}])
    tagged = content(table, tag="turn-1")
    table.rollback_to(tag="turn-1")
    assert table.lookup([{"k": 1}, {"k": 6}]).to_pylist() == [{"k": 1, "v": "kept in memory"}]
    snapshot = writer.commit()
    assert snapshot.id == table.tags.get("turn-1").snapshot.id + 1
    assert content(table) == tagged | {1: "kept in memory"}
    found = table.lookup([{"k": 1}, {"k": 6}], visibility="committed")
    assert found.to_pylist() == [{"k": 1, "v": "kept in memory"}]


def test_owners_notice_a_table_that_another_process_rolled_back_and_committed_to(warehouse, table):
    newest = ids(table)[-1]
    keys = [{"k": key} for key in (1, 6, 100)]
    assert table.lookup(keys, visibility="committed").num_rows == 3
    with pkray.connect(str(warehouse)) as catalog:
        other = catalog.load_table("db.t")
        other.rollback_to(tag="turn-1")
        while put(other, {100: "anew"}) <= newest:
            pass
        truth = content(other)
    expected = [{"k": key, "v": truth[key]} for key in (1, 100)]
    assert table.lookup(keys, visibility="committed").to_pylist() == expected
    assert table.lookup(keys).to_pylist() == expected
    assert content(table) == truth
    assert content(table, snapshot_id=newest) == content(other, snapshot_id=newest)
    put(table, {7: "on"})
    assert now(warehouse) == truth | {7: "on"}


def test_a_commit_identifier_that_was_rolled_back_can_be_committed_again(warehouse, table):
    before = content(table)
    with table.open_writer("job") as writer:
        writer.upsert([{"k": 900, "v": "first"}])
        first = writer.commit(1)
        table.rollback_to(snapshot_id=first.id - 1)
        writer.upsert([{"k": 900, "v": "second"}])
        again = writer.commit(1)
    assert again.id == first.id
    assert again.uuid != first.uuid
    assert now(warehouse) == before | {900: "second"}


def test_a_rollback_is_noticed_where_the_first_commit_was_of_the_same_process(tmp_path):
    create(tmp_path / "new")
    with pkray.connect(str(tmp_path / "new")) as catalog:
        table = catalog.load_table("db.t")
        with table.open_writer() as writer:
            writer.upsert([{"k": 1, "v": "before"}])
            writer.commit(full_compact=True)
            with pkray.connect(str(tmp_path / "new")) as elsewhere:
                elsewhere.load_table("db.t").rollback_to(1)
            writer.upsert([{"k": 2, "v": "after"}])
            writer.commit(full_compact=True)
    assert now(tmp_path / "new") == {1: "before", 2: "after"}
    unnamed = table.remove_orphan_files(older_than=1 << 50, dry_run=True)
    assert unnamed["path"].to_pylist() == [], "a compaction was done twice"


def test_a_commit_between_the_base_and_its_rollback_takes_itself_back(warehouse):
    """Another process rolls back after a committer read the newest snapshot and before it
    publishes the next: the table must not jump forward again over a gap."""

    class Racing(DyingStore):
        raced = False

        def create(self, path, data):
            if path.startswith("snapshot/") and not self.raced:
                self.raced = True
                Rollback(self.inner, schema(warehouse)).to_tag("turn-1")
            return super().create(path, data)

    store = Racing(root(warehouse), [0])
    expected = contents(warehouse)[TagStore(root(warehouse)).get("turn-1").snapshot.id]
    committer = Committer(store, schema(warehouse), "late", sleep=lambda _: None)
    with pytest.raises(errors.CommitConflictError, match="met a rollback"):
        committer.commit(1, [])
    assert store.raced
    number = TagStore(root(warehouse)).get("turn-1").snapshot.id
    assert SnapshotStore(root(warehouse)).ids() == list(range(1, number + 1))
    assert now(warehouse) == expected
    assert committer.commit(1, []).append.id == number + 1
    assert now(warehouse) == expected


@pytest.mark.sampled(1)
@pytest.mark.parametrize("expired", [False, True], ids=["snapshot", "expired"])
def test_killed_at_every_step(warehouse, expired):
    if expired:
        expire(warehouse, keep=3)
    histories = contents(warehouse)
    target = TagStore(root(warehouse)).get("turn-3").snapshot
    whole = now_at(warehouse, "turn-3")
    files = files_of(warehouse)
    steps = 0
    while True:
        steps += 1
        copy = copy_of(files)
        deaths = [steps]
        try:
            Rollback(DyingStore(root(copy), deaths), schema(copy)).to_tag("turn-3")
        except Killed:
            found = contents(copy)
            assert found
            newest = max(found)
            assert newest >= target.id
            for number, rows in found.items():
                assert rows == (whole if number == target.id else histories[number])
            assert now(copy) == found[newest]
            with pkray.connect(copy) as catalog:
                table = catalog.load_table("db.t")
                assert put(table, {777: "on"}) == newest + 1
                assert content(table) == found[newest] | {777: "on"}
                table.rollback_to(tag="turn-3")
                assert content(table) == whole
                assert ids(table)[-1] == target.id
                assert put(table, {888: "on"}) == target.id + 1
            assert now(copy) == whole | {888: "on"}
            continue
        assert deaths[0] > 0
        break
    assert steps > 15
    print(f"killed at {steps - 1} of {steps - 1} steps")


def test_killed_by_id_leaves_a_guard_that_the_next_one_takes(warehouse):
    before = contents(warehouse)
    files = files_of(warehouse)
    for step in range(1, 9):
        copy = copy_of(files)
        with pytest.raises(Killed):
            Rollback(DyingStore(root(copy), [step]), schema(copy)).to_snapshot(4)
        Rollback(root(copy), schema(copy)).to_snapshot(4)
        assert contents(copy) == {number: before[number] for number in range(1, 5)}
        assert TagStore(root(copy)).names() == ["turn-1"]


def test_expiry_beside_a_rollback_takes_neither_the_target_nor_its_files(warehouse):
    """The target expires while later snapshots are being removed."""
    target = contents(warehouse)[4]

    class Expiring(DyingStore):
        begun = False

        def delete(self, paths_):
            if not self.begun:
                self.begun = True
                expire(warehouse, keep=1)
            super().delete(paths_)

        def child(self, prefix):
            raise AssertionError(prefix)

    Rollback(Expiring(root(warehouse), [0]), schema(warehouse)).to_snapshot(4)
    assert contents(warehouse) == {4: target}


def expire(warehouse, keep):
    SnapshotExpirer(root(warehouse), schema(warehouse)).expire(Retention(keep, keep, 0, 1000))


def now_at(warehouse, tag):
    with pkray.connect(str(warehouse)) as catalog:
        return content(catalog.load_table("db.t"), tag=tag)
