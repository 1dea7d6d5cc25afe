"""``pkray demo`` writes, computes and shows, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

import pkray
from pkray.cli.commands.demo import played

_WAIT_SECONDS = 120.0


def test_three_queries_follow_the_stream_and_go_on_the_next_time(catalog):
    for _ in range(2):
        with played(catalog):
            orders = catalog.load_table("demo.orders")
            first = orders.latest_snapshot()
            until = time.monotonic() + _WAIT_SECONDS
            while orders.latest_snapshot() == first and time.monotonic() < until:
                time.sleep(0.05)
            assert orders.latest_snapshot() != first
            names = sorted(each.name for each in catalog.queries())
            assert names == ["demo.best_products", "demo.by_country", "demo.by_window"]
            for query in catalog.queries():
                query.wait({"demo.orders": orders.latest_snapshot().id}, _WAIT_SECONDS)
        assert {each.status()["state"] for each in catalog.queries()} == {"stopped"}
    assert catalog.load_table("demo.by_country").to_arrow().num_rows == 5
    assert catalog.load_table("demo.best_products").to_arrow().num_rows == 3


@pytest.fixture
def temporary(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "tmp").mkdir()
    return {**os.environ, "TMPDIR": str(tmp_path / "tmp")}


def started(environment: dict[str, str], *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pkray", "demo", "--no-browser", *words]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_it_ends_cleanly_when_it_is_told(temporary, number):
    process = started(temporary)
    assert process.stdout is not None
    address = process.stdout.readline().partition("/?")[0]
    urllib.request.urlopen(f"{address}/health", timeout=_WAIT_SECONDS).close()  # it serves
    process.send_signal(number)
    _, err = process.communicate(timeout=_WAIT_SECONDS)
    assert (process.returncode, err) == (0, "")
    assert list(Path(temporary["TMPDIR"]).glob("pkray-demo-*")) == []


def test_after_its_seconds_it_ends_and_a_folder_that_is_given_stays(temporary, tmp_path):
    process = started(temporary, str(tmp_path / "kept"), "--seconds", "0.5")
    _, err = process.communicate(timeout=_WAIT_SECONDS)
    assert process.returncode == 0, err
    with pkray.connect(tmp_path / "kept") as catalog:
        assert "demo.orders" in catalog.list_tables()
