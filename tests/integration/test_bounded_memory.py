"""Memory is bounded by options, whatever the size of the table, its runs and its rows."""

import json
import os
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
    "lookup.cache-max-memory-size": "4 mb",
    "target-file-size": "32 mb",
    "spill-compression": "lz4",
    "file.compression": "none",
}
WIDE_ROWS, WIDE = 320, 1_000_000
WIDE_PEAK = 192 * MB
GROWTH = 40 * MB
ALLOWED = 96 * MB
"""Twelve buffers, for all that a process does once the code is loaded."""
HELD_ALONE = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_MMAP_THRESHOLD_": str(128 << 10)}
"""What is freed is returned at once, and nothing reserved: a limit is on what is held."""
SMALL_STACKS = ["sh", "-c", 'ulimit -s 1024 && exec "$@"', "sh"]


def life(
    rows: int, width: int, options: dict[str, str], limit: int = 0, **environment: str
) -> dict[str, int]:
    """Peaks of each step of a table's life in a process of its own, which sees every row."""
    script = str(Path(__file__).with_name("bounded_memory.py"))
    settings = [f"{key}={value}" for key, value in {**SMALL, **options}.items()]
    run = [sys.executable, script, str(rows), str(width), "2", str(limit), *settings]
    env = {**os.environ, **environment}
    done = subprocess.run(
        [*SMALL_STACKS, *run], check=True, stdout=subprocess.PIPE, text=True, env=env
    )
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["rows"], told["found"], told["is_limited"]) == (rows, 1.0, limit > 0)
    assert told["changes"] >= rows
    return told["peaks"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"changelog-producer": "lookup"}, id="deduplicate-lookup"),
        pytest.param(
            {"merge-engine": "partial-update", "write-only": "true"}, id="partial-update-many-runs"
        ),
    ],
)
def test_rows_of_a_megabyte_take_no_more_than_the_buffers(options: dict[str, str]) -> None:
    """Two commits of some 240 MB each: every step stays below half of what was written."""
    found = life(WIDE_ROWS, WIDE, {**options, "file.block-size": "8 mb"})
    assert max(found.values()) < WIDE_PEAK, found


AGGREGATION = {"merge-engine": "aggregation", "write-only": "true"}
FIRST_ROW = {"merge-engine": "first-row", "changelog-producer": "lookup"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [AGGREGATION, FIRST_ROW], ids=["aggregation-many-runs", "first-row-lookup"]
)
def test_twice_the_rows_take_no_more(options: dict[str, str]) -> None:
    """Once there are as many runs as are merged at a time; the rows added are some 50 MB."""
    few = life(1_200_000, 24, options)
    many = life(2_400_000, 24, options)
    assert {step: many[step] for step in many if many[step] > few[step] + GROWTH} == {}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "options", [AGGREGATION, FIRST_ROW], ids=["aggregation-many-runs", "first-row-lookup"]
)
def test_a_process_with_little_memory_does_all_its_work(options: dict[str, str]) -> None:
    """The system keeps it to less than the rows take that it is given."""
    life(1_400_000, 24, options, limit=ALLOWED, **HELD_ALONE)
