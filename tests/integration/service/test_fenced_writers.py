"""Two writers of one commit user, in two processes that share the warehouse alone."""

import pytest

import pkray
from pkray.errors import CommitFencedError, CorruptFileError
from pkray.metadata.snapshots import SnapshotStore
from pkray.service.coordinator import commit_queue


def row(key):
    return [{"id": key}]


@pytest.fixture
def tables(tmp_path):
    """One table, as two processes hold it."""
    with pkray.connect(tmp_path) as first, pkray.connect(tmp_path) as second:
        created = first.create_table("db.t", [("id", "BIGINT")], ["id"])
        yield created, second.load_table("db.t")


def ids(table):
    return table.to_arrow()["id"].to_pylist()


def fences(table):
    return [each.path for each in table.location.open().list("writer")]


def test_the_older_commits_nothing_once_the_newer_is_open(tables):
    with tables[0].open_writer("job") as old, tables[1].open_writer("job") as new:
        old.upsert(row(1))
        with pytest.raises(CommitFencedError, match="'job' took over, perhaps in another process"):
            old.commit()
        new.upsert(row(2))
        new.commit()
        with pytest.raises(CommitFencedError):
            old.commit(7)
    assert ids(tables[0]) == [2]


def test_rows_of_a_writer_that_finds_itself_fenced_leave_latest(tables):
    with tables[0].open_writer("job") as old, tables[1].open_writer("job"):
        old.upsert(row(1))
        assert tables[0].lookup(row(1)).num_rows == 1
        with pytest.raises(CommitFencedError):
            old.commit()
        assert tables[0].lookup(row(1)).num_rows == 0
        with pytest.raises(CommitFencedError):
            old.upsert(row(2))


def test_the_older_stays_fenced_when_the_newer_is_closed(tables):
    with tables[0].open_writer("job") as old:
        tables[1].open_writer("job").close()
        old.upsert(row(1))
        with pytest.raises(CommitFencedError):
            old.commit()


def test_whoever_opened_last_is_the_newest(tables):
    for turn in range(4):
        writer = tables[turn % 2].open_writer("job")
        writer.upsert(row(turn))
        writer.commit()
    assert ids(tables[0]) == [0, 1, 2, 3]


def test_a_distributed_push_takes_over_too(tables):
    with tables[0].open_writer("job") as old:
        old.upsert(row(1))
        push = tables[1].open_push("job", 3)
        with pytest.raises(CommitFencedError):
            old.commit()
        assert push.commit([]).commit_identifier == 3
    push = tables[1].open_push("job", 4)
    tables[0].open_writer("job").close()
    with pytest.raises(CommitFencedError):
        push.commit([])


def test_the_older_is_told_what_it_had_committed(tables):
    with tables[0].open_writer("job") as old:
        old.upsert(row(1))
        made = old.commit(5)
        with tables[1].open_writer("job"):
            assert old.commit(5) == made


def test_a_commit_that_a_newer_writer_overtakes_does_not_happen(tables, monkeypatch):
    """The older has seen that it is the newest, and publishes when the newer has committed."""
    monkeypatch.setattr(commit_queue, "_PATIENCE_SECONDS", 0)  # the older one is in its turn
    plain, newer = SnapshotStore.create, []

    def create(snapshots, snapshot):
        if not newer:
            newer.append(tables[1].open_writer("job"))
            newer[0].upsert(row(2))
            newer[0].commit()
        return plain(snapshots, snapshot)

    monkeypatch.setattr(SnapshotStore, "create", create)
    with tables[0].open_writer("job") as old:
        old.upsert(row(1))
        with pytest.raises(CommitFencedError):
            old.commit()
    assert ids(tables[0]) == [2]


def test_writers_of_other_users_and_without_a_user_go_on(tables):
    with tables[0].open_writer("a") as a, tables[1].open_writer("b") as b:
        with tables[0].open_writer() as c, tables[1].open_writer() as d:
            for key, writer in enumerate((a, b, c, d)):
                writer.upsert(row(key))
                writer.commit()
    assert ids(tables[0]) == [0, 1, 2, 3]
    assert len(fences(tables[0])) == 2


def test_a_branch_has_writers_of_its_own(tables):
    with tables[0].open_writer("job") as writer:
        writer.upsert(row(1))
        writer.commit()
        tables[0].tags.create("t")
        tables[0].branches.create("b", tag="t")
        tables[1].branch("b").upsert(row(2), commit_user="job")
        writer.upsert(row(3))
        writer.commit()
    assert ids(tables[0]) == [1, 3]


def test_cleaning_orphan_files_keeps_the_fence(tables):
    with tables[0].open_writer("job") as old, tables[1].open_writer("job"):
        assert tables[1].remove_orphan_files(older_than="2999-01-01").num_rows == 0
        with pytest.raises(CommitFencedError):
            old.commit()


def test_a_fence_that_is_damaged_is_named(tables):
    with tables[0].open_writer("job") as writer:
        (path,) = fences(tables[0])
        store = tables[0].location.open()
        store.write(path, store.read(path).replace(b'"job"', b'"jab"'))
        with pytest.raises(CorruptFileError, match=r"writer/writer-[0-9a-f]{32} is damaged"):
            writer.commit()
        with tables[1].open_writer("job") as newer:
            newer.commit()


def test_a_writer_of_a_table_that_is_gone_leaves_no_file_there(tmp_path):
    with pkray.connect(tmp_path) as first, pkray.connect(tmp_path) as second:
        first.create_table("db.t", [("id", "BIGINT")], ["id"])
        table = second.load_table("db.t")
        table.open_writer("job").close()
        first.drop_table("db.t")
        with pytest.raises(pkray.TableNotFoundError):
            with table.open_writer("job") as writer:
                writer.commit()
        assert fences(table) == []
