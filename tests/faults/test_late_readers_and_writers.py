"""Readers whose snapshot expires under them, and writers that wake up too late."""

import pyarrow as pa
import pytest

import pkray
from pkray.errors import CommitFencedError, MissingFileError, SnapshotNotFoundError
from tests.faults.script import NAME, commit, compact, create, expire, on_table

KINDS = pytest.mark.parametrize("kind", ["disk", "memory"])


def given(root: str, process) -> pkray.Catalog:
    catalog = process(root)
    create(changelog_producer="input")(catalog)
    commit("a", 0, {(n, "xyz"[n % 3]): n for n in range(30)})(catalog)
    return catalog


def replace_everything(catalog: pkray.Catalog) -> None:
    """New files, and none of the old ones left."""
    commit("b", 0, {(n, "xyz"[n % 3]): -n for n in range(30)})(catalog)
    compact(full=True)(catalog)
    expire(1)(catalog)


@KINDS
def test_a_split_of_an_expired_snapshot_says_so(kind, new_root, process):
    root = new_root(kind)
    catalog = given(root, process)
    splits = catalog.load_table(NAME).splits()
    replace_everything(process(root))
    for split in splits:
        with pytest.raises((SnapshotNotFoundError, MissingFileError), match="expired") as caught:
            list(split.read())
        assert caught.value.path or caught.value.snapshot_id


@KINDS
def test_a_reader_in_the_middle_gets_all_rows_or_an_error(kind, new_root, process):
    root = new_root(kind)
    catalog = given(root, process)
    before = catalog.load_table(NAME).to_arrow()
    batches = catalog.load_table(NAME).to_batches()
    seen = [next(batches)]
    assert 0 < seen[0].num_rows < 30
    replace_everything(process(root))
    if kind == "memory":  # a batch of each bucket of an object store has come already
        assert pa.Table.from_batches([*seen, *batches]).equals(before.combine_chunks())
        return
    with pytest.raises((SnapshotNotFoundError, MissingFileError), match="expired"):
        seen += batches
    assert sum(batch.num_rows for batch in seen) < before.num_rows


@KINDS
def test_a_changelog_that_expires_while_it_is_read_says_so(kind, new_root, process):
    root = new_root(kind)
    catalog = given(root, process)
    commit("a", 1, {(1, "y"): 5})(catalog)
    changes = catalog.load_table(NAME).changelog_batches(1)
    next(changes)
    replace_everything(process(root))
    with pytest.raises((SnapshotNotFoundError, MissingFileError), match="expired"):
        list(changes)


@KINDS
def test_a_writer_that_wakes_up_after_its_successor_changes_nothing(kind, new_root, process):
    """In another process, where nobody could fence it: by its identifiers."""
    root = new_root(kind)
    catalog = given(root, process)
    zombie = catalog.load_table(NAME).open_writer("job")
    zombie.upsert([{"k": 1, "dt": "y", "v": 666}])
    commit("job", 0, {(1, "y"): 10})(process(root))
    commit("job", 1, {(4, "y"): 40})(process(root))
    zombie.commit(0)
    zombie.upsert([{"k": 4, "dt": "y", "v": 666}])
    zombie.commit(1)
    rows = catalog.load_table(NAME).to_arrow(filter="k IN (1, 4)")
    assert sorted(rows["v"].to_pylist()) == [10, 40]
    users = catalog.load_table(NAME).snapshots()["commit_user"].to_pylist()
    assert users.count("job") == 2


@KINDS
def test_a_writer_is_fenced_by_its_successor_in_the_same_service(kind, new_root, process):
    catalog = given(new_root(kind), process)
    table = catalog.load_table(NAME)
    zombie = table.open_writer("job")
    zombie.upsert([{"k": 1, "dt": "y", "v": 666}])
    commit("job", 0, {(1, "y"): 10})(catalog)
    with pytest.raises(CommitFencedError, match="took over"):
        zombie.commit(1)
    assert table.to_arrow(filter="k = 1")["v"].to_pylist() == [10]


@KINDS
def test_a_late_answer_to_a_commit_does_not_repeat_it(kind, new_root, process):
    """The reply was lost: the writer asks again, in the same process and in a new one."""
    root = new_root(kind)
    catalog = given(root, process)
    table = catalog.load_table(NAME)
    writer = table.open_writer("job")
    writer.upsert([{"k": 1, "dt": "y", "v": 10}])
    first = writer.commit(0)
    writer.upsert([{"k": 1, "dt": "y", "v": 11}])
    assert writer.commit(0) == first
    commit("job", 0, {(1, "y"): 12})(process(root))
    on_table(lambda again: again.latest_snapshot())(catalog)
    assert table.latest_snapshot() == first
    assert table.to_arrow(filter="k = 1")["v"].to_pylist() == [10]
