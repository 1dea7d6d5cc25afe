"""Queries over several times their memory: the right rows, and a peak that memory bounds."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pkray.errors import OptionError, UnsupportedError
from pkray.relational import from_arrow

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="peaks are read from /proc"
)

MB = 1 << 20
MEMORY, ROWS = 16 * MB, 1_500_000
"""A row is 44 bytes and more: 63 MB a table."""
ALLOWED = 110 * MB
"""What is held, its copies in sorting, batches under way and what the allocator keeps."""
HELD_ALONE = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_MMAP_THRESHOLD_": str(128 << 10)}
QUERIES = {
    "join": "SELECT a.k, b.s, a.s AS t FROM a JOIN b ON a.k = b.k",
    "group by": "SELECT k, s, COUNT(*) AS n FROM a GROUP BY k, s",
    "sort": "SELECT * FROM a ORDER BY s DESC",
    "over": "SELECT *, SUM(k) OVER (PARTITION BY g ORDER BY k) AS t FROM a",
}


def peak(query: str, rows: int, threads: int = 2) -> dict[str, int]:
    """Run a query in a process of its own; threads are as many on machines of any size."""
    made: dict[str, int] = said_by("memory_peak.py", MEMORY, rows, query, threads)
    return made


def said_by(script: str, *arguments: object, timeout: float = 120) -> dict[str, Any]:
    """Read the JSON that a script of this folder prints."""
    root = str(Path(__file__).parents[3])
    found = subprocess.run(
        [sys.executable, str(Path(__file__).with_name(script)), *map(str, arguments)],
        env={**os.environ, **HELD_ALONE, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=True,
        timeout=timeout,
    )
    made: dict[str, Any] = json.loads(found.stdout)
    return made


@pytest.mark.parametrize(
    "name",
    [
        "join",
        "sort",
        pytest.param("group by", marks=pytest.mark.slow),
        pytest.param("over", marks=pytest.mark.slow),
    ],
)
def test_rows_of_several_times_the_memory_do_not_pass_it(name: str) -> None:
    report = peak(QUERIES[name], ROWS)
    assert (report["rows"], report["sum"]) == (ROWS, ROWS * (ROWS - 1) // 2)
    assert report["peak"] < ALLOWED


@pytest.mark.slow
@pytest.mark.parametrize("group", ["g * 0", "k"])
def test_groups_with_several_sets_of_distinct_values_do_not_pass_the_memory(group: str) -> None:
    report = peak(
        f"SELECT {group} AS k, COUNT(DISTINCT s) d, COUNT(DISTINCT k) e, SUM(k) t, COUNT(*) n "
        f"FROM a GROUP BY {group}",
        ROWS,
    )
    assert report["rows"] == (ROWS if group == "k" else 1)
    assert report["peak"] < ALLOWED


ONE_KEY = "a.k * 0 = b.k * 0"
HOT = {
    "inner": (f"SELECT a.k, a.s, b.s AS t FROM a JOIN b ON {ONE_KEY}", 9_000_000),
    "cross": ("SELECT a.k, a.s, b.s AS t FROM a CROSS JOIN b", 9_000_000),
    "unequal": ("SELECT a.k, b.s AS t FROM a JOIN b ON a.k <> b.k", 8_997_000),
    "left": (f"SELECT a.k, b.s AS t FROM a LEFT JOIN b ON {ONE_KEY} AND a.k <> b.k", 8_997_000),
    "full": (f"SELECT a.k, b.s AS t FROM a FULL JOIN b ON {ONE_KEY}", 9_000_000),
    "semi": (f"SELECT a.k, a.s FROM a LEFT SEMI JOIN b ON {ONE_KEY} AND a.k < b.k", 2999),
    "anti": (f"SELECT a.k, a.s FROM a LEFT ANTI JOIN b ON {ONE_KEY} AND a.k < b.k", 1),
}
"""Joins of 3000 rows with 3000 and how many rows come out: nearly as many as there are pairs."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", HOT)
def test_pairs_of_few_keys_do_not_pass_the_memory(name: str) -> None:
    query, rows = HOT[name]
    report = peak(query, 3000)
    assert report["rows"] == rows
    assert report["peak"] < ALLOWED


def test_threads_of_a_large_machine_share_the_memory() -> None:
    query, rows = HOT["unequal"]
    report = peak(query, 3000, threads=16)
    assert report["rows"] == rows
    assert report["peak"] < ALLOWED


def test_elements_of_an_array_in_a_continuous_query_take_memory_once() -> None:
    text = "SELECT count(*) AS n, sum(x) AS s FROM t LATERAL VIEW explode(sequence(1, n)) AS x"
    report = said_by("continuous_peak.py", text, 10, 40_000)
    assert report["result"] == [[400_001, 10 * 40_000 * 40_001 // 2 + 1]]
    assert report["peak"] < ALLOWED


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("function", ["collect_list", "listagg"])
def test_lists_of_more_than_two_gigabytes_fail_by_name_in_a_process_of_seven(function: str) -> None:
    text = f"SELECT {function}(concat(repeat('x', 1000000), id)) AS v FROM range(2200)"
    report = said_by("limited_run.py", 7 << 30, text, timeout=800)
    assert report["error"] == "UnsupportedError", report


def test_memory_is_said_by_a_setting_or_by_a_run(tmp_path: Path) -> None:
    import pkray

    with pkray.connect(tmp_path) as catalog:
        table = catalog.create_table("db.t", {"k": "BIGINT", "v": "STRING"}, ["k"])
        table.upsert([{"k": k, "v": f"text {k % 7}"} for k in range(600)])
        query = catalog.sql("SELECT SUM(k) OVER (ORDER BY v) AS s FROM db.t")
        catalog.sql("SET 'execution.memory' = '1 kb'")
        with pytest.raises(UnsupportedError, match="Over needs rows"):
            query.to_arrow()
        assert query.to_arrow(memory=1 << 20).num_rows == 600
        catalog.sql("INSERT INTO db.t SELECT k + 5000, v FROM db.t ORDER BY v").run()
        catalog.sql("RESET")
        assert query.to_arrow().num_rows == 1200


def test_memory_is_a_number_of_bytes() -> None:
    with pytest.raises(OptionError, match="memory cannot be 0"):
        from_arrow([{"a": 1}]).to_arrow(memory=0)
