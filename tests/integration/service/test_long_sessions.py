"""Writers that are open for longer than cleaners of orphan files wait."""

import os
from pathlib import Path

import pytest
from compaction_samples import missing_files

import pkray
from pkray.errors import LostBatchesError
from pkray.table.maintenance.orphans import remove_orphan_files

DAY = 86_400
FLUSHING = {"write-buffer-size": "1 b", "changelog-producer": "input"}


def clean(store, schema):
    """Remove orphan files two days later: the names of those that went."""
    for status in store.list(""):
        path = store.local_path(status.path)
        time = Path(path).stat().st_mtime - 2 * DAY
        os.utime(path, (time, time))
    return [
        path.rsplit("/", 1)[1] for path in remove_orphan_files(store, schema)["path"].to_pylist()
    ]


@pytest.fixture
def aged(monkeypatch):
    """Call it when half a day has passed."""

    def pass_time():
        for module in ("owner.session", "compaction.job"):
            monkeypatch.setattr(f"pkray.service.{module}.UNNAMED_MILLIS", -1)

    return pass_time


def test_files_that_a_cleaner_took_are_not_committed_but_asked_for_again(started, aged):
    process = started(**FLUSHING)
    process.commit({1: "first"})
    session = process.begin()
    process.write(session, {2: "second"})
    process.write(session, {3: "third"}, index=1)
    assert len(clean(process.store, process.schema)) == 4, "two files of rows, and of changes"
    aged()
    with pytest.raises(LostBatchesError, match="push them again"):
        process.finish(session, batches=2)
    assert process.content() == {1: "first"}
    process.write(session, {2: "second"})
    process.write(session, {3: "third"}, index=1)
    process.finish(session, batches=2)
    assert process.content() == {1: "first", 2: "second", 3: "third"}
    assert missing_files(process.store) == set()


def test_a_push_finds_out_too(started, aged):
    process = started(**FLUSHING)
    session = process.begin()
    process.write(session, {2: "second"})
    clean(process.store, process.schema)
    aged()
    process.owner.handle.target._clock = lambda: 1_000_000 + 3_700_000
    with pytest.raises(LostBatchesError, match="came, but 0 was to come"):
        process.write(session, {3: "third"}, index=1)


def test_what_a_writer_holds_is_written_again_before_a_cleaner_comes(tmp_path, aged):
    with pkray.connect(tmp_path) as catalog:
        columns = [("id", "BIGINT"), ("v", "INT")]
        table = catalog.create_table("db.t", columns, ["id"], options=FLUSHING)
        with table.open_writer() as writer:
            writer.upsert([{"id": 1, "v": 1}])
            writer.upsert([{"id": 2, "v": 2}])
            old = {status.path for status in table._store.list("bucket-0")}
            aged()
            catalog.runtime._renew_files()
            for path in old:
                table._store.delete(path)
            assert table.lookup([{"id": 1}])["v"].to_pylist() == [1]
            writer.commit()
        assert table.to_arrow().to_pylist() == [{"id": 1, "v": 1}, {"id": 2, "v": 2}]
        assert table.changelog()["id"].to_pylist() == [1, 2]
        assert missing_files(table._store) == set()


def test_an_old_compaction_is_not_committed(started, aged):
    process = started()
    for number in range(3):
        process.commit({number: "x"})
    process.executor.run()
    assert clean(process.store, process.schema)
    aged()
    process.commit({9: "y"})
    assert missing_files(process.store) == set()
    assert process.content() == {0: "x", 1: "x", 2: "x", 9: "y"}
