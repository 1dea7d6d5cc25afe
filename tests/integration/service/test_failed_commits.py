"""A commit that fails at one of an owner's buckets, when others are written already."""

import pytest
from compaction_samples import missing_files

from pkray.errors import StorageFullError
from pkray.lsm.writer.bucket_writer import BucketWriter
from pkray.table.maintenance.orphans import remove_orphan_files

ROWS = dict.fromkeys(range(10), "x")


@pytest.fixture
def fail(monkeypatch):
    """Lets the next commit fail at its last bucket of two."""

    def arm():
        plain = BucketWriter.prepare_commit

        def failing(writer, **kwargs):
            if writer.bucket == 1:
                monkeypatch.setattr(BucketWriter, "prepare_commit", plain)
                raise StorageFullError("no space left", path="x")
            return plain(writer, **kwargs)

        monkeypatch.setattr(BucketWriter, "prepare_commit", failing)

    return arm


def fail_to_finish(process, session, **wanted):
    with pytest.raises(StorageFullError):
        process.finish(session, **wanted)


@pytest.mark.parametrize("full_compact", [False, True])
@pytest.mark.parametrize("options", [{}, {"changelog-producer": "lookup"}], ids=["plain", "lookup"])
def test_it_is_repeated_with_all_rows(started, fail, options, full_compact):
    process = started(bucket="2", **options)
    process.commit(dict.fromkeys(ROWS, "old"))
    session = process.begin()
    process.write(session, ROWS)
    fail()
    fail_to_finish(process, session, full_compact=full_compact)
    process.finish(session, full_compact=full_compact)
    assert process.content() == ROWS
    orphans = remove_orphan_files(process.store, process.schema, 2**42, dry_run=True)
    assert not orphans.num_rows


def test_it_is_aborted_and_leaves_nothing(started, fail):
    process = started(bucket="2", **{"changelog-producer": "input"})
    session = process.begin()
    process.write(session, ROWS)
    fail()
    fail_to_finish(process, session)
    assert len(process.stored()) == 2, "a data file and its changelog"
    process.coordinator.abort(session)
    assert not process.stored()


def test_compactions_that_were_to_come_with_it_come_with_the_next(started, fail):
    process = started(bucket="2")
    for _ in range(3):
        process.commit(dict.fromkeys(ROWS, "old"))
    process.executor.run()
    session = process.begin()
    process.write(session, ROWS)
    fail()
    fail_to_finish(process, session)
    process.finish(session)
    assert process.stats().committed == 2
    assert process.content() == ROWS
    assert not missing_files(process.store)
