"""What owners leave on the local disk."""

import tempfile

import pytest

from pkray.storage import spill


@pytest.mark.parametrize("inline", ["false", "true"])
def test_compactions_set_rows_aside_in_the_owners_folder(started, monkeypatch, tmp_path, inline):
    process = started(
        **{
            "sort-spill-threshold": "2",
            "sort-spill-buffer-size": "1 b",
            "deletion-vectors.enabled": inline,
            "num-sorted-run.compaction-trigger": "5",
        }
    )
    folders, plain = set(), tempfile.TemporaryFile

    def noted(*args, dir, **kwargs):
        folders.add(dir)
        return plain(*args, dir=dir, **kwargs)

    monkeypatch.setattr(spill.tempfile, "TemporaryFile", noted)
    session = process.begin()
    for number in range(4):
        process.write(session, {0: "x", 9: f"{number}"}, number)
        process.owner.handle.target._sessions.get(session).writers[bytes(12), 0].flush()
    process.finish(session, batches=4, full_compact=inline == "true")
    process.compact(full=True)
    assert folders == {str(tmp_path / "local-a-1" / "spill")}
    assert process.content() == {0: "x", 9: "3"}


def test_a_restarted_owner_removes_what_the_killed_one_had_staged(started, tmp_path):
    process = started()
    left = tmp_path / "local-a-2" / "staging" / "0-0" / "rows.arrow"
    left.parent.mkdir(parents=True)
    left.touch()
    process.restart()
    assert not left.exists()
