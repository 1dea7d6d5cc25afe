"""Queries without end: each ends soon after it is cancelled, and within its memory until then."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pkray.errors import QueryCancelledError
from pkray.relational import Cancellation, from_arrow

SECONDS = 60.0
"""For how long a query may still run: 3 where other tests leave it a processor, and for ever if
nobody ends it."""
COMMAND = """
from pkray.cli import main
from pkray.relational.local.engine import WATCHES

def begun(*_):
    WATCHES.clear()
    print("begun", flush=True)

WATCHES.append(begun)
main()
"""
"""The command line, which says when its query has its first rows."""
MOST_BYTES = 1 << 30
QUERIES = {
    "one key": "SELECT max(a.v * b.v) m FROM a JOIN b ON a.k = b.k",
    "semi": "SELECT count(*) n FROM a LEFT SEMI JOIN b ON a.k = b.k AND a.v < b.v - 1000000",
    "unequal": "SELECT max(a.v + c.v) m FROM a JOIN b ON a.v <> b.v JOIN c ON b.v <> c.v",
    "repeated text": "SELECT sum(length(repeat(t, 100000 + CAST(k AS INT)))) n FROM a",
    "exploded": "SELECT count(*) n FROM (SELECT s, explode(s) x FROM "
    "(SELECT sequence(1, 900000 + v) s FROM a)) WHERE cardinality(s) < x",
    **{
        name: f"SELECT max(CAST({call} AS STRING)) m FROM (SELECT sequence(1, 900000 + v) s FROM a)"
        for name, call in {
            "transform": "transform(s, x -> format_string('%d of %s', x, x))[0]",
            "filter": "size(filter(s, x -> format_string('%d', x) LIKE '%7%'))",
            "exists": "exists(s, x -> format_string('%d', x) = 'none')",
            "aggregate": "aggregate(s, 0L, (sum, x) -> sum + x)",
            "nested": "size(filter(s, x -> exists(sequence(1, x), y -> y * y = -x)))",
            "map_zip_with": "size(map_zip_with(map_from_arrays(s, s), map_from_arrays(s, s), "
            "(k, x, y) -> format_string('%d', x)))",
            "array_sort": "array_sort(s, (x, y) -> CAST(SIGN(y - x) AS INT))[0]",
        }.items()
    },
}


IN_EACH_RUN = "unequal"
"""The one query of which threads, joins and batches are all part: the others are slow."""


@pytest.mark.parametrize(
    "name",
    [
        name if name == IN_EACH_RUN else pytest.param(name, marks=pytest.mark.slow)
        for name in QUERIES
    ],
)
def test_a_query_without_end_ends_when_it_is_cancelled(name: str) -> None:
    script = Path(__file__).with_name("cancelled.py")
    found = subprocess.run(
        [sys.executable, str(script), QUERIES[name]],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert found.returncode == 0, found.stderr[-2000:]
    report = json.loads(found.stdout)
    assert report["cancelled"] < SECONDS
    assert report["interrupted"] < SECONDS
    assert report["peak"] < MOST_BYTES
    assert time.time() - report["at"] < SECONDS + 1, "threads let the process end"


@pytest.fixture
def heard_interrupts() -> Iterator[None]:
    """Have new processes hear SIGINT, also where a shell in the background had it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard_interrupts")
def test_the_command_line_ends_a_query_without_end_at_ctrl_c() -> None:
    text = (
        "SELECT max(a.x * b.x) m FROM (SELECT explode(sequence(1, 900000)) x) a "
        "JOIN (SELECT explode(sequence(1, 900000)) x) b ON a.x <> b.x"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", COMMAND, "sql", text],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert running.stdout is not None
        assert running.stdout.readline() == "begun\n"
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=SECONDS)
    finally:
        running.kill()
    assert running.returncode == 130, errors
    assert "Traceback" not in errors


def test_what_is_cancelled_before_it_runs_gives_nothing() -> None:
    token = Cancellation()
    token.cancel()
    with pytest.raises(QueryCancelledError):
        from_arrow([{"a": 1}]).select("a + 1").to_arrow(cancellation=token)
