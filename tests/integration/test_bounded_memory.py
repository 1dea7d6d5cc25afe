"""Memory is bounded by options, whatever the size of the table, its runs and its rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="peaks are read from /proc"
)

MB = 1 << 20
SMALL = {
    "write-buffer-size": "8 mb",
    "sort-spill-buffer-size": "8 mb",
    "spill-compression": "lz4",
    "file.compression": "none",
}
WIDE_ROWS, WIDE = 320, 1_000_000
LIMIT = 224 * MB
GROWTH = 64 * MB


def peaks(rows: int, width: int, commits: int, options: dict[str, str]) -> dict[str, int]:
    """Of each step of a table's life in a process of its own, which sees every row."""
    script = str(Path(__file__).with_name("bounded_memory.py"))
    settings = [f"{key}={value}" for key, value in {**SMALL, **options}.items()]
    command = [sys.executable, script, str(rows), str(width), str(commits), *settings]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["rows"], told["found"]) == (rows, 1.0)
    assert told["changes"] >= rows
    return told["peaks"]


@pytest.mark.parametrize(
    "options",
    [
        {"changelog-producer": "lookup"},
        {"merge-engine": "partial-update", "write-only": "true"},
    ],
    ids=["deduplicate-lookup", "partial-update-many-runs"],
)
def test_rows_of_a_megabyte_take_no_more_than_the_buffers(options: dict[str, str]) -> None:
    """Two commits of some 240 MB each: every step stays below half of what was written."""
    found = peaks(WIDE_ROWS, WIDE, 2, {**options, "file.block-size": "8 mb"})
    assert max(found.values()) < LIMIT, found


@pytest.mark.parametrize(
    "options",
    [
        {"merge-engine": "aggregation", "write-only": "true"},
        {"merge-engine": "first-row", "changelog-producer": "lookup"},
    ],
    ids=["aggregation-many-runs", "first-row-lookup"],
)
def test_four_times_the_rows_take_no_more(options: dict[str, str]) -> None:
    few = peaks(400_000, 24, 2, options)
    many = peaks(1_600_000, 24, 2, options)
    assert {step: many[step] for step in many if many[step] > few[step] + GROWTH} == {}
