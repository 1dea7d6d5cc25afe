"""Rows and keys cross the files that the design notes list, and no others."""

import inspect
import re
from pathlib import Path

import pyarrow as pa
import pytest

import pkray
from pkray.lookup.block_store import BlockFile
from pkray.lsm.writer.memtable import Memtable
from pkray.service.calls import OwnerClient
from pkray.service.handles.local_handle import LocalHandle

ROOT = Path(__file__).parents[2]
PACKAGE = Path(pkray.__file__).parent
MOST_OF_A_BATCH, MOST_OF_KEYS = 12, 10
"""Files that somebody has to open who follows one through the code."""
ROWS = pa.table({"id": range(20_000), "v": ["a"] * 20_000})


def listed(note: str) -> list[str]:
    """The file in the first column of each numbered line of a note."""
    text = (ROOT / ".design" / note).read_text()
    return re.findall(r"^\| \d+ \| `(\S+\.py)`", text, re.MULTILINE)


@pytest.fixture
def crossed(monkeypatch):
    """The files on the stack of a call to an owner, and of what it comes to in the owner."""
    files: list[str] = []

    def watch(kind, name, method=None):
        plain = getattr(kind, name)

        def watched(*args, **kwargs):
            if method in (None, *args[1:]):
                stack = [Path(frame.filename) for frame in reversed(inspect.stack()[1:])]
                own = [*stack, Path(inspect.getfile(kind))]
                inside = (path for path in own if path.is_relative_to(PACKAGE))
                files.extend(str(path.relative_to(PACKAGE)) for path in inside)
            return plain(*args, **kwargs)

        monkeypatch.setattr(kind, name, watched)

    def ways(method, end, call):
        watch(LocalHandle, "_pending", method)
        watch(*end)
        call()
        passed = dict.fromkeys(files)
        del passed["arguments/facade.py"]
        return list(passed)

    return ways


def test_a_batch_crosses_the_files_that_its_note_lists(tmp_path, crossed):
    with pkray.connect(tmp_path) as catalog:
        table = catalog.create_table("db.t", schema=ROWS.schema, primary_keys=["id"])
        with table.open_writer() as writer:
            ways = crossed(OwnerClient.push, (Memtable, "add"), lambda: writer.upsert(ROWS))
    assert ways == listed("0002-exactly-once.md")
    assert len(ways) <= MOST_OF_A_BATCH


def test_keys_cross_the_files_that_their_note_lists(tmp_path, crossed):
    with pkray.connect(tmp_path) as catalog:
        catalog.create_table("db.t", schema=ROWS.schema, primary_keys=["id"]).upsert(ROWS)
    with pkray.connect(tmp_path) as catalog:  # nothing is in memory any more
        table = catalog.load_table("db.t")

        def look_up():
            table.lookup([{"id": 1}], visibility="committed")

        ways = crossed(OwnerClient.lookup, (BlockFile, "get"), look_up)
    assert ways == listed("0006-lookups-and-local-copies.md")
    assert len(ways) <= MOST_OF_KEYS
